//! Round-robin over tenants: they are served in order of their ids, starting after the one served last, each at most
//! once per round. A tenant with a long queue does not delay the others.

use model::TenantId;
use uuid::Uuid;

const BEFORE_ALL: TenantId = TenantId(Uuid::nil());

/// One round over the tenants. The caller looks up which tenants have something due.
pub struct Turns {
    most: usize,
    /// The next tenant is the first with a greater id; initially the nil id, which sorts before all others.
    cursor: TenantId,
    /// Whether the round has passed the greatest id and started over from the smallest.
    has_wrapped: bool,
    is_over: bool,
    tenants: Vec<TenantId>,
}

impl Turns {
    /// A round of up to `most` tenants, starting after the one `served` last.
    pub fn after(served: Option<TenantId>, most: usize) -> Self {
        let cursor = served.unwrap_or(BEFORE_ALL);
        Self { most, cursor, has_wrapped: served.is_none(), is_over: most == 0, tenants: Vec::new() }
    }

    /// The id after which to look for the next tenant; none when the round is over.
    pub fn next_after(&self) -> Option<TenantId> {
        (!self.is_over).then_some(self.cursor)
    }

    /// Adds the next tenant with something due; `None` if there is none after the cursor.
    pub fn take(&mut self, next: Option<TenantId>) {
        match next {
            Some(tenant) if !self.tenants.contains(&tenant) => {
                self.tenants.push(tenant);
                self.cursor = tenant;
                self.is_over = self.tenants.len() == self.most;
            }
            None if !self.has_wrapped => {
                self.has_wrapped = true;
                self.cursor = BEFORE_ALL;
            }
            _ => self.is_over = true,
        }
    }

    /// The tenants of this round, in order.
    pub fn tenants(&self) -> &[TenantId] {
        &self.tenants
    }

    /// How many of the `left` slots the tenant at this index gets.
    pub fn share(&self, index: usize, left: usize) -> i64 {
        i64::try_from(left.div_ceil(self.tenants.len() - index)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    fn round(due: &[u128], served: Option<u128>, most: usize) -> Vec<u128> {
        let mut turns = Turns::after(served.map(tenant), most);
        while let Some(after) = turns.next_after() {
            turns.take(due.iter().copied().find(|number| *number > after.0.as_u128()).map(tenant));
        }
        turns.tenants().iter().map(|tenant| tenant.0.as_u128()).collect()
    }

    #[test]
    fn every_tenant_is_served_once_starting_after_the_last() {
        assert_eq!(round(&[1, 2, 3], None, 9), [1, 2, 3]);
        assert_eq!(round(&[1, 2, 3], Some(2), 9), [3, 1, 2]);
        assert_eq!(round(&[1, 2, 3], Some(2), 2), [3, 1]);
        assert_eq!(round(&[1, 3], Some(2), 1), [3]);
        assert_eq!(round(&[1], Some(7), 9), [1]);
        assert_eq!(round(&[], Some(7), 9), Vec::<u128>::new());
        assert_eq!(round(&[1, 2], None, 0), Vec::<u128>::new());
    }

    #[test]
    fn slots_are_shared() {
        let turns = Turns { tenants: vec![tenant(1), tenant(2), tenant(3)], ..Turns::after(None, 9) };
        assert_eq!([turns.share(0, 8), turns.share(1, 5), turns.share(2, 2)], [3, 3, 2]);
    }
}
