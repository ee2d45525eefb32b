//! Randomness of the simulation: from a seed, and the same on every machine.

/// A generator of pseudorandom numbers (`SplitMix64`).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f64) as usize).min(end - 1)
    }

    /// The microseconds until the next of events that come independently, so many a second.
    pub(super) fn gap(&mut self, per_second: f64) -> u64 {
        (-(1.0 - self.unit()).ln() / per_second * 1e6).ceil() as u64
    }
}

/// Who causes load: one tenant a share of it, the others the rest by Zipf's law, the second half as much as the first, the
/// third a third. Their ids are in no order of size.
pub(super) struct Tenants {
    /// The share of the load of tenant 0.
    largest: f64,
    /// The load of each of the others and of those before it, up to 1.
    cumulated: Vec<f64>,
    /// Where the ranks of the others lie among the ids.
    stride: usize,
}

impl Tenants {
    pub(super) fn new(count: usize, largest: f64) -> Self {
        let mut cumulated: Vec<f64> = (1..count)
            .scan(0.0, |sum, rank| {
                *sum += 1.0 / rank as f64;
                Some(*sum)
            })
            .collect();
        let all = cumulated.last().copied().unwrap_or(1.0);
        for sum in &mut cumulated {
            *sum /= all;
        }
        let others = cumulated.len();
        // Each rank has an id of its own if the stride has no divisor in common with their number.
        let stride = (others * 5 / 8..others).find(|stride| coprime(*stride, others)).unwrap_or(1);
        Self { largest, cumulated, stride }
    }

    pub(super) fn count(&self) -> usize {
        self.cumulated.len() + 1
    }

    /// The tenant of the next request.
    pub(super) fn draw(&self, random: &mut Random) -> usize {
        if random.unit() < self.largest {
            return 0;
        }
        let place = random.unit();
        let rank = self.cumulated.partition_point(|sum| *sum <= place).min(self.cumulated.len() - 1);
        1 + rank * self.stride % self.cumulated.len()
    }
}

fn coprime(one: usize, other: usize) -> bool {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_zipf_and_the_largest_has_what_it_was_given() {
        let tenants = Tenants::new(1_001, 0.5);
        let mut random = Random::new(7);
        let mut drawn = vec![0_usize; tenants.count()];
        for _ in 0..200_000 {
            drawn[tenants.draw(&mut random)] += 1;
        }
        assert!((99_000..101_000).contains(&drawn[0]), "{}", drawn[0]);
        let mut others = drawn[1..].to_vec();
        others.sort_unstable_by(|one, other| other.cmp(one));
        // The sum of 1/rank over 1,000 ranks is 7.49.
        assert!((12_800..13_900).contains(&others[0]), "{}", others[0]);
        assert!((6_300..7_100).contains(&others[1]), "{}", others[1]);
    }

    #[test]
    fn every_rank_has_an_id_of_its_own() {
        for count in [2, 3, 10, 1_000, 4_097] {
            let tenants = Tenants::new(count, 0.0);
            let mut ids: Vec<usize> =
                (0..count - 1).map(|rank| rank * tenants.stride % (count - 1)).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..count - 1).collect::<Vec<_>>());
        }
    }
}
