//! Accounts that are to be swept at once, because they keep less from now on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::TenantId;

use crate::runtime::Wakeup;

/// Asks this process's sweeper for accounts. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SweepRequests {
    asked: Arc<Mutex<Asked>>,
    /// Wakes the sweeper.
    pub(crate) wakeup: Wakeup,
}

/// What is to be swept. Each account is there once, so a process without a sweeper keeps no more than their ids.
#[derive(Default)]
struct Asked {
    accounts: BTreeSet<TenantId>,
    all: bool,
}

impl SweepRequests {
    /// Lets an account be swept at once.
    pub(crate) fn sweep(&self, account: TenantId) {
        self.asked().accounts.insert(account);
        self.wakeup.wake();
    }

    /// Returns once all accounts have been swept in a round that began after this call.
    #[cfg(feature = "test-util")]
    pub(crate) async fn all_are_swept(&self) {
        self.asked().all = true;
        self.wakeup.has_polled().await;
    }

    /// Takes an account that is to be swept; a further request for it counts anew.
    pub(crate) fn take(&self) -> Option<TenantId> {
        self.asked().accounts.pop_first()
    }

    /// Whether all accounts are to be swept at once; asked once.
    pub(crate) fn take_all(&self) -> bool {
        std::mem::take(&mut self.asked().all)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        // A panic elsewhere cannot leave it half-written.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
