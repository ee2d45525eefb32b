//! Taking turns: tenants are served in order of their ids, beginning after the one that was served last, once around. So
//! what one of them has queued up holds nobody else up.

use model::TenantId;
use uuid::Uuid;

const NOBODY: TenantId = TenantId(Uuid::nil());

/// One round of turns. Whoever has something due is for the caller to find out.
pub(crate) struct Turns {
    most: usize,
    /// Whom the next one comes after; at the start nobody, whose id is before all others.
    cursor: TenantId,
    /// Past the end it goes on from the start, up to where it began.
    wrapped: bool,
    over: bool,
    tenants: Vec<TenantId>,
}

impl Turns {
    /// A round of up to `most` tenants.
    pub(crate) fn after(served: Option<TenantId>, most: usize) -> Self {
        let cursor = served.unwrap_or(NOBODY);
        Self { most, cursor, wrapped: served.is_none(), over: most == 0, tenants: Vec::new() }
    }

    /// Whom the next tenant comes after; none when the round is over.
    pub(crate) fn next_after(&self) -> Option<TenantId> {
        (!self.over).then_some(self.cursor)
    }

    /// Takes down the next tenant with something due; none when there is none after the cursor.
    pub(crate) fn take(&mut self, next: Option<TenantId>) {
        match next {
            Some(tenant) if !self.tenants.contains(&tenant) => {
                self.tenants.push(tenant);
                self.cursor = tenant;
                self.over = self.tenants.len() == self.most;
            }
            None if !self.wrapped => {
                self.wrapped = true;
                self.cursor = NOBODY;
            }
            _ => self.over = true,
        }
    }

    /// Whose turn it is, in order.
    pub(crate) fn tenants(&self) -> &[TenantId] {
        &self.tenants
    }

    /// How many of the places that are left the tenant at this index gets.
    pub(crate) fn share(&self, index: usize, left: usize) -> i64 {
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
    fn everybody_has_a_turn_beginning_after_the_last() {
        assert_eq!(round(&[1, 2, 3], None, 9), [1, 2, 3]);
        assert_eq!(round(&[1, 2, 3], Some(2), 9), [3, 1, 2]);
        assert_eq!(round(&[1, 2, 3], Some(2), 2), [3, 1]);
        assert_eq!(round(&[1, 3], Some(2), 1), [3]);
        assert_eq!(round(&[1], Some(7), 9), [1]);
        assert_eq!(round(&[], Some(7), 9), Vec::<u128>::new());
        assert_eq!(round(&[1, 2], None, 0), Vec::<u128>::new());
    }

    #[test]
    fn places_are_shared() {
        let turns = Turns { tenants: vec![tenant(1), tenant(2), tenant(3)], ..Turns::after(None, 9) };
        assert_eq!([turns.share(0, 8), turns.share(1, 5), turns.share(2, 2)], [3, 3, 2]);
    }
}
