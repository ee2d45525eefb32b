//! Round-robin over tenants: they are served in order of their ids, starting after the one served last, each at most
//! once per round. A tenant with a long queue does not delay the others.

use model::TenantId;
use uuid::Uuid;

const BEFORE_ALL: TenantId = TenantId(Uuid::nil());

/// The tenants that a [`Cursor`] remembers.
const REMEMBERED: usize = 1_024;

/// Where the next round begins: after the tenant served last.
///
/// Several processes that look at the same queue would follow each other from tenant to tenant, each finding locked what the one
/// before it has just claimed. So after a round in vain a process goes on after any of the tenants that it has served: those have
/// work often, wherever their ids are.
#[derive(Clone, Default)]
pub struct Cursor {
    after: Option<TenantId>,
    served: Vec<TenantId>,
    /// Which of them is replaced next.
    oldest: usize,
}

impl Cursor {
    /// The tenant after which the next round begins; none: with the first.
    pub fn after(&self) -> Option<TenantId> {
        self.after
    }

    /// A round has served this tenant.
    pub fn served(&mut self, tenant: TenantId) {
        self.after = Some(tenant);
        if self.served.len() < REMEMBERED {
            self.served.push(tenant);
        } else {
            self.served[self.oldest] = tenant;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
    }

    /// A round has found nothing that others have not claimed. `fraction` is drawn at random, from 0 to below 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index below 1,024"
    )]
    pub fn jump(&mut self, fraction: f64) {
        let index = (fraction * self.served.len() as f64) as usize;
        self.after = self.served.get(index).copied().or(self.after);
    }
}

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
    fn a_round_in_vain_goes_on_after_any_tenant_that_was_served() {
        let mut cursor = Cursor::default();
        cursor.jump(0.5);
        assert_eq!(cursor.after(), None, "none was served yet");
        (1..=4).for_each(|number| cursor.served(tenant(number)));
        assert_eq!(cursor.after(), Some(tenant(4)));
        let jumped = [0.0, 0.3, 0.6, 0.999].map(|fraction| {
            cursor.jump(fraction);
            cursor.after().unwrap().0.as_u128()
        });
        assert_eq!(jumped, [1, 2, 3, 4]);
        (5..2_000).for_each(|number| cursor.served(tenant(number)));
        assert_eq!(cursor.served.len(), REMEMBERED);
        assert!(
            cursor.served.iter().all(|served| *served > tenant(1_999 - 1_024 - 1)),
            "the newest are kept"
        );
    }

    #[test]
    fn slots_are_shared() {
        let turns = Turns { tenants: vec![tenant(1), tenant(2), tenant(3)], ..Turns::after(None, 9) };
        assert_eq!([turns.share(0, 8), turns.share(1, 5), turns.share(2, 2)], [3, 3, 2]);
    }
}
