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
/// before it has just claimed. So after a round in vain a process goes on somewhere else: anywhere between two of the tenants that
/// it has served. Tenants that it has not served lie between those that it has, so no tenant is passed by for ever; and where
/// many have work, many were served.
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

    /// A round has found nothing that others have not claimed. `fraction` is drawn at random, from 0 to below 1: it chooses one
    /// of the gaps before, between and after the tenants that were served, and a point in it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index below 1,024, and a point between two ids, which need not be exact"
    )]
    pub fn jump(&mut self, fraction: f64) {
        let gap = fraction * (self.served.len() + 1) as f64;
        // The gap before the first: the next round begins with the first of all.
        let Some(from) = self.served.get(gap as usize).copied() else {
            self.after = None;
            return;
        };
        let to = self.served.iter().filter(|served| **served > from).min();
        // Ids begin with the time at which they were made, so nearly all above the greatest belong to nobody yet.
        let width = to.map_or(0, |to| to.0.as_u128() - from.0.as_u128());
        let point = (gap.fract() * width as f64) as u128;
        self.after = Some(TenantId(Uuid::from_u128(from.0.as_u128() + point.min(width))));
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
    fn a_round_in_vain_goes_on_anywhere_between_tenants_that_were_served() {
        let jumped = |served: &[u128], fraction: f64| {
            let mut cursor = Cursor::default();
            for number in served {
                cursor.served(tenant(*number));
            }
            cursor.jump(fraction);
            cursor.after().map(|tenant| tenant.0.as_u128())
        };
        assert_eq!(jumped(&[], 0.5), None, "none was served yet");
        // Four gaps: from 10 to 20, from 40 to nowhere, from 20 to 40, and before all.
        let served = [10, 40, 20];
        let found =
            [0.0, 0.125, 0.2499, 0.25, 0.49, 0.5, 0.625, 0.7499, 0.75, 0.999].map(|at| jumped(&served, at));
        let expected = [10, 15, 19, 40, 40, 20, 30, 39].map(Some);
        assert_eq!(found[..8], expected);
        assert_eq!(found[8..], [None, None], "with the first of all");
        assert_eq!(jumped(&[7, 7, 7], 0.6), Some(7), "a tenant may have been served more than once");
    }

    #[test]
    fn a_jump_reaches_every_tenant_though_few_were_served() {
        let due: Vec<u128> = (0..1_000).map(|number| (0x0190_0000_0000 << 80) + (number << 60)).collect();
        let mut cursor = Cursor::default();
        due.iter().step_by(90).for_each(|number| cursor.served(tenant(*number)));
        let mut reached: Vec<u128> = (0..100_000)
            .map(|draw| {
                cursor.jump(f64::from(draw) / 100_000.0);
                round(&due, cursor.after().map(|tenant| tenant.0.as_u128()), 1)[0]
            })
            .collect();
        reached.sort_unstable();
        reached.dedup();
        // Those after the greatest that was served are reached by going on from there.
        assert_eq!(reached.len(), 992, "all but eight, to which one must go on from the last");
    }

    #[test]
    fn the_newest_tenants_are_remembered() {
        let mut cursor = Cursor::default();
        (1..2_000).for_each(|number| cursor.served(tenant(number)));
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
