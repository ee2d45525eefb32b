//! Counts the analyses that run in this process, by tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::TenantId;

/// Counts running analyses. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<TenantId, u64>>>);

/// A running analysis; it ends when this is dropped.
pub(crate) struct RunningAnalysis {
    running: Running,
    tenant: TenantId,
}

impl Running {
    /// Counts the start of an analysis.
    pub(crate) fn begin(&self, tenant: TenantId) -> RunningAnalysis {
        self.change(|running| *running.entry(tenant).or_default() += 1);
        RunningAnalysis { running: self.clone(), tenant }
    }

    /// The tenants with the most running analyses, and the total of all others.
    pub(crate) fn busiest(&self, limit: usize) -> (Vec<(TenantId, u64)>, u64) {
        let mut busy: Vec<(TenantId, u64)> =
            self.change(|running| running.iter().map(|(t, n)| (*t, *n)).collect());
        busy.sort_by_key(|(tenant, number)| (std::cmp::Reverse(*number), *tenant));
        let others = busy.split_off(busy.len().min(limit));
        (busy, others.iter().map(|(_, number)| number).sum())
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<TenantId, u64>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for RunningAnalysis {
    fn drop(&mut self) {
        self.running.change(|running| {
            if let Some(number) = running.get_mut(&self.tenant) {
                *number -= 1;
                // Tenants without running analyses are removed, so that the map does not grow.
                if *number == 0 {
                    running.remove(&self.tenant);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_busiest_tenants_are_listed_and_the_rest_is_summed_up() {
        let running = Running::default();
        let tenant = |number| TenantId(Uuid::from_u128(number));
        let analyses: Vec<RunningAnalysis> =
            [1, 2, 2, 3, 3, 3, 4].map(|number| running.begin(tenant(number))).into();
        assert_eq!(running.busiest(2), (vec![(tenant(3), 3), (tenant(2), 2)], 2));
        drop(analyses);
        assert_eq!(running.busiest(2), (Vec::new(), 0));
    }
}
