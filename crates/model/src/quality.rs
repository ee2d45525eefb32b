//! How good answers are: pure functions that compare answers with labels.
//!
//! Every figure has a 95 % interval, which covers what it says for ten labels too. Where it needs a bootstrap, that is seeded, so
//! the same labels always give the same interval, and bounded, so that its cost grows with the number of labels only.
//! `docs/quality.md` gives the formulae.

mod basics;
mod bootstrap;
pub mod calibration;
mod classes;
pub mod escalation;
mod interval;
mod report;
mod small_samples;
mod yes_no;

use crate::api::{Figure, QualityDifference};

pub(crate) use self::basics::{BINS, float, integer};
pub use self::basics::{Labelled, MIN_AUDITS, MIN_LABELS, SELECTED_NOTE};
pub use self::classes::{ClassAnswer, Classes};
pub use self::interval::wilson;
pub use self::report::Scope;
pub use self::yes_no::{Costs, YesNoAnswer};

/// Two answers to the same question about the same object, compared with its label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedAnswer {
    /// The present answer.
    pub present: Graded,
    /// The proposed answer.
    pub proposed: Graded,
    /// Whether the label is yes; none for a choice or a score.
    pub is_yes: Option<bool>,
}

/// An answer, compared with a label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graded {
    /// Whether it is right.
    pub is_right: bool,
    /// Its squared distance from the label.
    pub brier: f64,
    /// The probability of yes; 0 for a choice or a score.
    pub probability: f64,
}

impl From<YesNoAnswer> for Graded {
    fn from(answer: YesNoAnswer) -> Self {
        Self { is_right: answer.is_right(), brier: answer.brier(), probability: answer.answer }
    }
}

impl From<&ClassAnswer> for Graded {
    fn from(answer: &ClassAnswer) -> Self {
        Self { is_right: answer.is_right(), brier: answer.brier(), probability: 0.0 }
    }
}

/// The differences between proposed and present answers over the same objects. None below [`MIN_LABELS`].
pub fn difference(pairs: &[PairedAnswer]) -> Option<QualityDifference> {
    if pairs.len() < MIN_LABELS {
        return None;
    }
    let count = |present: bool, proposed: bool| {
        let is_like =
            |pair: &&PairedAnswer| (pair.present.is_right, pair.proposed.is_right) == (present, proposed);
        pairs.iter().filter(is_like).count()
    };
    let accuracy = small_samples::paired_shares(
        count(true, true),
        count(true, false),
        count(false, true),
        count(false, false),
    );
    let changes: Vec<f64> = pairs.iter().map(|pair| pair.proposed.brier - pair.present.brier).collect();
    // The Brier score over several classes is at most 2.
    let most = if pairs.iter().all(|pair| pair.is_yes.is_some()) { 1.0 } else { 2.0 };
    Some(QualityDifference {
        accuracy: accuracy?,
        auc: difference_of_aucs(pairs),
        brier: small_samples::bounded_mean(&changes, -most, most)?,
    })
}

/// The difference of two AUCs: the intervals of both, and a bootstrap that shows how much they vary together.
fn difference_of_aucs(pairs: &[PairedAnswer]) -> Option<Figure> {
    let side = |graded: fn(&PairedAnswer) -> Graded| {
        let answers: Option<Vec<YesNoAnswer>> = pairs
            .iter()
            .map(|pair| Some(YesNoAnswer { answer: graded(pair).probability, is_yes: pair.is_yes? }))
            .collect();
        answers.map(|answers| yes_no::Ranking::of(&answers))
    };
    let (present, proposed) = (side(|pair| pair.present)?, side(|pair| pair.proposed)?);
    let both = |weights: &[u32]| present.auc(weights).zip(proposed.auc(weights));
    let (before, after) = both(&bootstrap::once(pairs.len()))?;
    let mut resampled = Vec::new();
    bootstrap::resample(pairs.len(), |weights| resampled.extend(both(weights)));
    let yes = pairs.iter().filter(|pair| pair.is_yes == Some(true)).count();
    let interval = |value: f64| small_samples::auc(value, yes, pairs.len() - yes);
    let together = small_samples::correlation(&resampled).max(0.0);
    Some(small_samples::difference(interval(before), interval(after), together))
}

impl Figure {
    /// The figure with its interval inside a range, and itself inside its interval.
    pub(crate) fn clamped(self, min: f64, max: f64) -> Self {
        Self {
            value: self.value,
            low: self.low.clamp(min, max).min(self.value),
            high: self.high.clamp(min, max).max(self.value),
        }
    }
}

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod tests;
