//! Which tenants have a job, and how many of them lie between two ids (a Fenwick tree).

pub(super) struct Present(Vec<u32>);

impl Present {
    pub(super) fn new(tenants: usize) -> Self {
        Self(vec![0; tenants + 1])
    }

    pub(super) fn add(&mut self, tenant: usize) {
        self.change(tenant, 1);
    }

    pub(super) fn remove(&mut self, tenant: usize) {
        self.change(tenant, u32::MAX);
    }

    fn change(&mut self, tenant: usize, by: u32) {
        let mut index = tenant + 1;
        while index < self.0.len() {
            self.0[index] = self.0[index].wrapping_add(by);
            index += index & index.wrapping_neg();
        }
    }

    /// How many there are from one tenant to before another.
    pub(super) fn between(&self, from: usize, before: usize) -> u64 {
        u64::from(self.before(before).saturating_sub(self.before(from)))
    }

    fn before(&self, tenant: usize) -> u32 {
        let mut index = tenant.min(self.0.len() - 1);
        let mut sum = 0_u32;
        while index > 0 {
            sum = sum.wrapping_add(self.0[index]);
            index &= index - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_lies_between() {
        let mut present = Present::new(10);
        for tenant in [0, 3, 4, 9] {
            present.add(tenant);
        }
        assert_eq!([present.between(0, 10), present.between(1, 4), present.between(4, 9)], [4, 1, 1]);
        present.remove(3);
        assert_eq!([present.between(0, 10), present.between(1, 4)], [3, 0]);
    }
}
