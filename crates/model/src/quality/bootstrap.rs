//! The bootstrap: figures of many resamples, drawn with replacement, show how much a figure varies.
//!
//! A resample is a vector of weights, one for each label: how often it was drawn. So whatever has to be sorted is sorted
//! once, and a resample costs one pass.

use crate::api::Figure;

/// The seed: the same labels always give the same intervals.
const SEED: u64 = 0x61_75_73_70_65_78;
/// The number of resamples of up to 10,000 labels.
const RESAMPLES: usize = 1_000;
/// The fewest resamples, of any number of labels.
const MIN_RESAMPLES: usize = 200;
/// The number of labels drawn in all resamples, above which fewer are made: about 0.1 s of one core.
const MAX_DRAWS: usize = 10_000_000;

/// The ends of a 95 % interval.
const TAILS: (f64, f64) = (0.025, 0.975);

/// A generator of numbers that look random (`SplitMix64`).
pub(crate) struct Draws(u64);

impl Draws {
    /// The sequence that belongs to a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of every bootstrap.
    pub(crate) fn seeded() -> Self {
        Self::new(SEED)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The high half of the product: unbiased enough, since `bound` is far below 2^32.
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from 0 up to but not including 1.
    #[cfg(test)]
    pub(crate) fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction
    }
}

/// How often each of `count` labels counts in the figure itself: once.
pub(crate) fn once(count: usize) -> Vec<u32> {
    vec![1; count]
}

/// Figures with percentile intervals. `figures` computes them from weights; one that is undefined for the labels
/// themselves has none, and resamples in which it is undefined are left out. The weights of each resample are shown to `show`, so
/// that other figures share the draws.
pub(crate) fn percentiles_beside<const N: usize>(
    count: usize,
    figures: impl Fn(&[u32]) -> [Option<f64>; N],
    mut show: impl FnMut(&[u32]),
) -> [Option<Figure>; N] {
    let values = figures(&once(count));
    let mut resampled: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    resample(count, |weights| {
        for (all, value) in resampled.iter_mut().zip(figures(weights)) {
            all.extend(value);
        }
        show(weights);
    });
    let mut resampled = resampled.into_iter();
    values.map(|value| {
        let (value, mut all) = (value?, resampled.next().unwrap_or_default());
        let (low, high) = interval(&mut all).unwrap_or((value, value));
        Some(Figure { value, low: low.min(value), high: high.max(value) })
    })
}

/// Draws the resamples of `count` labels and shows the weights of each.
pub(crate) fn resample(count: usize, mut show: impl FnMut(&[u32])) {
    let mut draws = Draws::seeded();
    let mut weights = vec![0_u32; count];
    for _ in 0..resamples(count) {
        weights.fill(0);
        for _ in 0..count {
            weights[draws.below(count)] += 1;
        }
        show(&weights);
    }
}

fn resamples(count: usize) -> usize {
    (MAX_DRAWS / count.max(1)).clamp(MIN_RESAMPLES, RESAMPLES)
}

/// The 2.5th and the 97.5th percentile; none of no values.
pub(crate) fn interval(values: &mut [f64]) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    Some((quantile(values, TAILS.0)?, quantile(values, TAILS.1)?))
}

/// A quantile of sorted values, interpolated between neighbours.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = share * super::float(sorted.len().checked_sub(1)?);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of the values")]
    let below = rank.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (rank - rank.floor()))
}
