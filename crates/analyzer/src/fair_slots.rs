//! Slots that tenants take in turns: whoever has many requests does not make others wait for all of them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::TenantId;
use tokio::sync::oneshot;

/// One of so many grants goes to the queue although urgent requests wait: otherwise they could stop it for good.
const QUEUE_SHARE: u64 = 4;

/// A semaphore in which tenants take turns. Urgent requests go before the queue of the others, nearly always.
pub(crate) struct FairSlots {
    state: Mutex<State>,
    /// The number of slots that one tenant may have.
    per_tenant: usize,
}

/// A slot, free again when this is dropped.
pub(crate) struct Turn {
    turns: Arc<FairSlots>,
    tenant: Option<TenantId>,
    is_granted: bool,
}

struct State {
    free: usize,
    grants: u64,
    held: HashMap<Option<TenantId>, usize>,
    urgent: Line,
    queued: Line,
}

/// Requests that wait, by tenant.
#[derive(Default)]
struct Line {
    waiting: BTreeMap<Option<TenantId>, VecDeque<oneshot::Sender<Turn>>>,
    #[expect(
        clippy::option_option,
        reason = "nobody yet, requests without a tenant, and a tenant are three cases"
    )]
    last_served: Option<Option<TenantId>>,
}

impl FairSlots {
    /// This many slots, and at most so many of them for one tenant; at least one each.
    pub(crate) fn new(slots: usize, per_tenant: usize) -> Arc<Self> {
        let state = State {
            free: slots.max(1),
            grants: 0,
            held: HashMap::new(),
            urgent: Line::default(),
            queued: Line::default(),
        };
        Arc::new(Self { state: Mutex::new(state), per_tenant: per_tenant.max(1) })
    }

    /// Waits for a slot.
    pub(crate) async fn take(self: &Arc<Self>, tenant: Option<TenantId>, is_urgent: bool) -> Turn {
        loop {
            let (sender, receiver) = oneshot::channel();
            {
                let mut state = self.state();
                let line = if is_urgent { &mut state.urgent } else { &mut state.queued };
                line.waiting.entry(tenant).or_default().push_back(sender);
                self.grant(&mut state);
            }
            // The sender is dropped only with a turn, so that this does not loop.
            if let Ok(turn) = receiver.await {
                return turn;
            }
        }
    }

    /// The number of free slots.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.state().free
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free slots to those who wait.
    fn grant(self: &Arc<Self>, state: &mut State) {
        while state.free > 0 {
            let Some((tenant, waiting)) = state.next(self.per_tenant) else { return };
            let turn = Turn { turns: Arc::clone(self), tenant, is_granted: true };
            match waiting.send(turn) {
                Ok(()) => {
                    state.free -= 1;
                    state.grants += 1;
                    *state.held.entry(tenant).or_default() += 1;
                }
                // Nobody waits for it any more. It was not counted, so it must not be given back.
                Err(mut turn) => turn.is_granted = false,
            }
        }
    }
}

impl State {
    /// Takes the next request out of its line.
    fn next(&mut self, per_tenant: usize) -> Option<(Option<TenantId>, oneshot::Sender<Turn>)> {
        let queue_first = self.grants % QUEUE_SHARE == QUEUE_SHARE - 1;
        let held = &self.held;
        let may_have = |tenant: &Option<TenantId>| held.get(tenant).is_none_or(|held| *held < per_tenant);
        let lines = if queue_first {
            [&mut self.queued, &mut self.urgent]
        } else {
            [&mut self.urgent, &mut self.queued]
        };
        lines.into_iter().find_map(|line| line.next(may_have))
    }
}

impl Line {
    /// Takes the first request of the next tenant that may have a slot.
    fn next(
        &mut self,
        may_have: impl Fn(&Option<TenantId>) -> bool,
    ) -> Option<(Option<TenantId>, oneshot::Sender<Turn>)> {
        let after = self.last_served.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.waiting.range((after, Bound::Unbounded)).map(|(tenant, _)| *tenant);
        let tenant = later.chain(self.waiting.keys().copied()).find(|tenant| may_have(tenant))?;
        let of_tenant = self.waiting.get_mut(&tenant)?;
        let sender = of_tenant.pop_front();
        if of_tenant.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.last_served = Some(tenant);
        Some((tenant, sender?))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_granted {
            return;
        }
        let turns = Arc::clone(&self.turns);
        let mut state = turns.state();
        state.free += 1;
        if let Some(held) = state.held.get_mut(&self.tenant) {
            *held -= 1;
            // Tenants without slots are removed, so that the map does not grow.
            if *held == 0 {
                state.held.remove(&self.tenant);
            }
        }
        turns.grant(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::FutureExt as _;
    use futures_util::future::{join_all, select};

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as the turns take it")]
    fn tenant(name: char) -> Option<TenantId> {
        Some(TenantId(uuid::Uuid::from_u128(u128::from(u32::from(name)))))
    }

    /// In which order requests are served that all wait for one slot: a letter is a tenant, a capital an urgent request.
    async fn order(requests: &str, per_tenant: usize) -> String {
        let (turns, served) = (FairSlots::new(1, per_tenant), RefCell::new(String::new()));
        let first = turns.take(tenant('z'), false).await;
        let serve = async |name: char| {
            let _turn = turns.take(tenant(name.to_ascii_lowercase()), name.is_uppercase()).await;
            served.borrow_mut().push(name);
            tokio::task::yield_now().await;
        };
        let release = async {
            tokio::task::yield_now().await;
            assert!(served.borrow().is_empty());
            drop(first);
        };
        tokio::join!(join_all(requests.chars().map(serve)), release);
        assert_eq!(turns.free(), 1);
        assert!(turns.state().held.is_empty());
        served.into_inner()
    }

    #[tokio::test]
    async fn tenants_take_turns_and_urgent_requests_go_first() {
        assert_eq!(order("aaaab", 1).await, "abaaa");
        assert_eq!(order("aaabbc", 1).await, "abcaba");
        assert_eq!(order("aabAB", 1).await, "ABaba");
        // One of four grants is for the queue, the first turn of which was taken before.
        assert_eq!(order("aAAAAAAA", 1).await, "AAaAAAAA");
    }

    #[tokio::test]
    async fn one_tenant_has_at_most_its_share() {
        let turns = FairSlots::new(3, 2);
        let own = [turns.take(tenant('a'), true).await, turns.take(tenant('a'), false).await];
        assert!(turns.take(tenant('a'), true).now_or_never().is_none());
        let other = turns.take(tenant('b'), false).await;
        drop(own);
        assert_eq!(turns.free(), 2, "a request that no longer waits gets nothing");
        drop(other);
        assert_eq!(turns.free(), 3);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_leaves_its_slot_to_the_next() {
        let turns = FairSlots::new(1, 1);
        let first = turns.take(tenant('a'), false).await;
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(turns.take(tenant('b'), false))).collect();
        for request in &mut waiting {
            let idle = Box::pin(async { tokio::task::yield_now().await });
            drop(select(request, idle).await);
        }
        drop(first);
        // The first has been granted the slot, and goes without having noticed.
        drop(waiting.remove(0));
        drop(waiting.remove(0));
        drop(waiting.remove(0).await);
        assert_eq!(turns.free(), 1);
    }
}
