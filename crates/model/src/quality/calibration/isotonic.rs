//! Isotonic regression: the non-decreasing curve that is nearest to the labels, by pooling adjacent violators.

use crate::quality::calibration::{Calibrator, inside, stored};
use crate::quality::{YesNoAnswer, float};

/// The most points that are kept: the curve is read with every question.
const MAX_POINTS: usize = 256;

/// Neighbouring answers with one mean label.
#[derive(Clone, Copy)]
struct Block {
    from: f64,
    to: f64,
    yes: f64,
    count: f64,
}

impl Block {
    fn mean(&self) -> f64 {
        self.yes / self.count
    }
}

/// Fits a non-decreasing curve. Means are kept away from 0 and 1 by as much as one more label of either side would.
pub(super) fn fit(labels: &[YesNoAnswer]) -> Calibrator {
    let margin = 1.0 / (float(labels.len()) + 2.0);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for block in blocks(labels) {
        let mean = stored(block.mean().clamp(margin, 1.0 - margin));
        points.push((stored(block.from), mean));
        if block.to > block.from {
            points.push((stored(block.to), mean));
        }
    }
    Calibrator::Isotonic { points: thinned(points) }
}

fn blocks(labels: &[YesNoAnswer]) -> Vec<Block> {
    let mut sorted: Vec<(f64, bool)> =
        labels.iter().map(|label| (inside(label.answer), label.is_yes)).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut blocks: Vec<Block> = Vec::new();
    for tied in sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let yes = tied.iter().filter(|(_, is_yes)| *is_yes).count();
        let mut pooled = Block { from: tied[0].0, to: tied[0].0, yes: float(yes), count: float(tied.len()) };
        while let Some(last) = blocks.pop_if(|last| last.mean() >= pooled.mean()) {
            pooled.from = last.from;
            pooled.yes += last.yes;
            pooled.count += last.count;
        }
        blocks.push(pooled);
    }
    blocks
}

/// At most [`MAX_POINTS`] of the points, evenly spread; the first and the last stay.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points;
    }
    let last = points.len() - 1;
    (0..MAX_POINTS).map(|kept| points[kept * last / (MAX_POINTS - 1)]).collect()
}

/// The height of the curve: constant outside the points, a straight line between two.
pub(super) fn interpolate(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points.partition_point(|(from, _)| *from < at);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (None, Some((_, height))) | (Some((_, height)), None) => *height,
        (Some((x0, y0)), Some((x1, y1))) => {
            // Never beyond the ends, also after rounding.
            (y0 + (y1 - y0) * ((at - x0) / (x1 - x0))).clamp(*y0, y1.max(*y0))
        }
        (None, None) => at,
    }
}
