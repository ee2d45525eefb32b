//! Accounts that are to be swept at once, because they keep less from now on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::TenantId;

use crate::runtime::Wakeup;

/// Asks this process's sweeper for accounts. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SweepRequests {
    requested: Arc<Mutex<Requested>>,
    /// Wakes the sweeper.
    pub(crate) wakeup: Wakeup,
}

/// What is to be swept. Each account is there once, so a process without a sweeper keeps no more than their ids.
#[derive(Default)]
struct Requested {
    accounts: BTreeSet<TenantId>,
    all: bool,
}

impl SweepRequests {
    /// Lets an account be swept at once.
    pub(crate) fn sweep(&self, account: TenantId) {
        self.requested().accounts.insert(account);
        self.wakeup.wake();
    }

    /// Returns once all accounts have been swept in a round that began after this call.
    #[cfg(feature = "test-util")]
    pub(crate) async fn all_are_swept(&self) {
        self.requested().all = true;
        self.wakeup.has_polled().await;
    }

    /// Takes an account that is to be swept; a further request for it counts anew.
    pub(crate) fn take(&self) -> Option<TenantId> {
        self.requested().accounts.pop_first()
    }

    /// Whether all accounts are to be swept at once; requested once.
    pub(crate) fn take_all(&self) -> bool {
        std::mem::take(&mut self.requested().all)
    }

    fn requested(&self) -> MutexGuard<'_, Requested> {
        // A panic elsewhere cannot leave it half-written.
        self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
