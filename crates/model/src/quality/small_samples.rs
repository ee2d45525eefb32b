//! Intervals that hold for few values too.
//!
//! Resamples of ten values show no more than these ten values: what is rare is missing in most of them, and an interval of their
//! percentiles is too narrow. These intervals know what values are possible instead (`docs/adr/0024-intervals-of-figures.md`).

use crate::api::Figure;
use crate::quality::interval::{Z, interval_of_share};
use crate::quality::{float, wilson};

/// Steps of a bisection: to the precision of a number.
const BISECTIONS: usize = 60;

/// The mean of values that lie between two bounds. Its interval is that of the mean of these values and one more at each bound
/// (for shares, Agresti and Coull's; for paired ones, Bonett and Price's): what has not been seen may still be there.
pub(crate) fn bounded_mean(values: &[f64], low: f64, high: f64) -> Option<Figure> {
    if values.is_empty() {
        return None;
    }
    let value = values.iter().sum::<f64>() / float(values.len());
    let count = float(values.len() + 2);
    let with_bounds = || values.iter().copied().chain([low, high]);
    let mean = with_bounds().sum::<f64>() / count;
    let variance = with_bounds().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    let half = Z * (variance / count).sqrt();
    Some(Figure { value, low: mean - half, high: mean + half }.clamped(low, high))
}

/// The difference of two shares of the same trials: how often the second is right minus how often the first one is, given how often
/// both, only the first, only the second and neither were right. With Newcombe's interval for paired shares (his method 10).
pub(crate) fn paired_shares(both: usize, first: usize, second: usize, neither: usize) -> Option<Figure> {
    let count = both + first + second + neither;
    let (before, after) = (wilson(both + first, count)?, wilson(both + second, count)?);
    let product = |a: usize, b: usize| float(a) * float(b);
    let agreement = product(both, neither) - product(first, second);
    let corrected = if agreement > 0.0 { (agreement - float(count) / 2.0).max(0.0) } else { agreement };
    let marginal = (product(both + first, second + neither) * product(both + second, first + neither)).sqrt();
    let correlation = if marginal > 0.0 { corrected / marginal } else { 0.0 };
    Some(Figure {
        value: float(second) / float(count) - float(first) / float(count),
        ..difference(before, after, correlation)
    })
}

/// The difference of two figures, the second minus the first, from their intervals and how much they vary together.
pub(crate) fn difference(before: Figure, after: Figure, correlation: f64) -> Figure {
    let distance =
        |one: f64, other: f64| (one * one - 2.0 * correlation * one * other + other * other).max(0.0).sqrt();
    let value = after.value - before.value;
    let below = distance(after.value - after.low, before.high - before.value);
    let above = distance(after.high - after.value, before.value - before.low);
    Figure { value, low: value - below, high: value + above }.clamped(-1.0, 1.0)
}

/// An AUC of so many labels of each side, with Newcombe's interval (2006, his method 5): the values from which the observed one
/// is at most 1.96 standard errors away, by the formula of Hanley and `McNeil`.
pub(crate) fn auc(value: f64, yes: usize, no: usize) -> Figure {
    let (yes, no) = (float(yes), float(no));
    let others = f64::midpoint(yes, no) - 1.0;
    let is_too_far = |auc: f64| {
        let pairs = 1.0 + others * (1.0 - auc) / (2.0 - auc) + others * auc / (1.0 + auc);
        (auc - value).abs() > Z * (auc * (1.0 - auc) * pairs / (yes * no)).sqrt()
    };
    // From a bound, which is too far unless it is the value, to the value, which is not.
    let end = |bound: f64| {
        let (mut outside, mut inside) = (bound, value);
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(outside, inside);
            if is_too_far(middle) {
                outside = middle;
            } else {
                inside = middle;
            }
        }
        inside
    };
    Figure { value, low: end(0.0), high: end(1.0) }.clamped(0.0, 1.0)
}

/// The macro-F1 of so many answers about so many classes, with its interval by resamples, and at least that of a share. F1 is a mean
/// over classes, each of which has few of the answers: with their number divided by the number of classes to the power of 3/4,
/// the share's interval covers what it says also where some classes are rare.
pub(crate) fn macro_f1(by_resamples: Figure, answers: usize, classes: usize) -> Figure {
    let share = interval_of_share(by_resamples.value, float(answers) / float(classes.max(1)).powf(0.75));
    Figure { low: share.low.min(by_resamples.low), high: share.high.max(by_resamples.high), ..share }
        .clamped(0.0, 1.0)
}

/// Pearson's correlation of pairs of numbers; 0 if one of them does not vary.
pub(crate) fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = float(pairs.len().max(1));
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let means = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        pairs.iter().map(|pair| of(pair.0 - means.0, pair.1 - means.1)).sum::<f64>()
    };
    let varied = (sum(&|one, _| one * one) * sum(&|_, other| other * other)).sqrt();
    if varied > 1e-12 { (sum(&|one, other| one * other) / varied).clamp(-1.0, 1.0) } else { 0.0 }
}
