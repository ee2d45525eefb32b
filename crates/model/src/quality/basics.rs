//! What all figures share: labels, how many of them are needed, and counts as numbers.

use crate::Timestamp;

/// The fewest labels that figures are given for.
pub const MIN_LABELS: usize = 10;
/// With fewer labels of objects drawn at random, figures describe the objects that were selected for labelling.
pub const MIN_AUDITS: usize = 30;
/// The number of equal bins that a calibration error is computed over.
pub(crate) const BINS: usize = 10;

/// What it means that labels are about selected objects.
pub const SELECTED_NOTE: &str = "Most of these objects were selected for labelling, for example because a rule flagged them: \
     labels of flagged objects alone say nothing about what was missed, so recall and AUC may look better than they are. \
     Label objects that are drawn at random to measure that.";

/// A label with what it is compared with, and when it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled<T> {
    /// The answer and the label.
    pub answer: T,
    /// When the label was given.
    pub at: Timestamp,
    /// Whether the object was drawn at random.
    pub audit: bool,
}

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "counts of labels are far below 2^53")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

/// Counts of labels as the API has them.
pub(crate) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
