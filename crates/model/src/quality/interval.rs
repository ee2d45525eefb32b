//! Intervals of shares.

use crate::api::Figure;
use crate::quality::float;

/// The quantile of the normal distribution that leaves 2.5 % above it.
pub(crate) const Z: f64 = 1.959_963_984_540_054;

/// A share with Wilson's 95 % interval; none if it is a share of nothing.
pub fn wilson(part: usize, whole: usize) -> Option<Figure> {
    (whole > 0).then(|| interval_of_share(float(part) / float(whole), float(whole)))
}

/// Wilson's interval of a share of so many trials.
pub(crate) fn interval_of_share(share: f64, trials: f64) -> Figure {
    let z2 = Z * Z;
    let scale = 1.0 + z2 / trials;
    let centre = (share + z2 / (2.0 * trials)) / scale;
    let half = Z / scale * (share * (1.0 - share) / trials + z2 / (4.0 * trials * trials)).sqrt();
    Figure { value: share, low: centre - half, high: centre + half }.clamped(0.0, 1.0)
}
