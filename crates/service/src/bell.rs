//! A bell that wakes a worker of this process at once.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes whoever waits for it; rung while nobody waits, it wakes the next who does. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<Notify>);

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }
}
