//! How many exports run at a time: each reads the database as fast as its client takes the rows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::TenantId;

use crate::runtime::{Error, Kind, Result};

/// Exports of one tenant at a time in this process.
const MAX_OF_TENANT: usize = 4;
/// Exports of all tenants at a time in this process: their pages, 12 MiB each at worst, are what memory is needed for.
const MAX: usize = 32;
/// When a client that was refused may try again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The exports that run in this process.
#[derive(Clone, Default)]
pub(super) struct ExportSlots(Arc<Mutex<HashMap<TenantId, usize>>>);

/// The right to run one export, until it is dropped.
pub(super) struct Slot {
    slots: ExportSlots,
    tenant: TenantId,
}

impl ExportSlots {
    /// Takes a slot, or refuses because too many are taken.
    pub(super) fn take(&self, tenant: TenantId) -> Result<Slot> {
        let mut running = self.running();
        if running.get(&tenant).is_some_and(|count| *count >= MAX_OF_TENANT) {
            let message = format!("{MAX_OF_TENANT} exports of this account are running; wait for one to end");
            return Err(Error::new(Kind::RateLimited, message).retry_after(RETRY_AFTER));
        }
        if running.values().sum::<usize>() >= MAX {
            let message = "too many exports are running; try again later";
            return Err(Error::new(Kind::NotReady, message).retry_after(RETRY_AFTER));
        }
        *running.entry(tenant).or_default() += 1;
        drop(running);
        Ok(Slot { slots: self.clone(), tenant })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut running = self.slots.running();
        if let Some(count) = running.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    #[test]
    fn a_slot_is_free_again_once_its_export_has_ended() {
        let slots = ExportSlots::default();
        let mut held: Vec<Slot> = (0..MAX_OF_TENANT).map(|_| slots.take(tenant(1)).unwrap()).collect();
        let refused = slots.take(tenant(1)).err().unwrap();
        assert_eq!((refused.kind(), refused.wait()), (Kind::RateLimited, Some(RETRY_AFTER)));
        assert!(slots.take(tenant(2)).is_ok(), "another account is not affected");
        held.pop();
        assert!(slots.take(tenant(1)).is_ok());
        drop(held);
        assert!(slots.running().is_empty(), "nothing is kept of exports that have ended");
    }

    #[test]
    fn all_accounts_share_a_bound() {
        let slots = ExportSlots::default();
        let held: Vec<Slot> = (0..MAX as u128).map(|number| slots.take(tenant(number)).unwrap()).collect();
        assert_eq!(slots.take(tenant(u128::MAX)).err().unwrap().kind(), Kind::NotReady);
        drop(held);
        assert!(slots.take(tenant(u128::MAX)).is_ok());
    }
}
