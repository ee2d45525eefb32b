//! How good answers are: pure functions that compare answers with labels.
//!
//! Every figure has a 95 % interval: Wilson's for shares, a bootstrap for the others. The bootstrap is seeded, so the same
//! labels always give the same interval, and bounded, so that its cost grows with the number of labels only.
//! `docs/quality.md` gives the formulae.

mod basics;
mod bootstrap;
pub mod calibration;
mod classes;
pub mod escalation;
mod interval;
mod report;
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

/// The differences between proposed and present answers over the same objects, by a paired bootstrap: each resample
/// compares both on the same objects. None below [`MIN_LABELS`].
pub fn difference(pairs: &[PairedAnswer]) -> Option<QualityDifference> {
    if pairs.len() < MIN_LABELS {
        return None;
    }
    let right = |graded: &Graded| f64::from(u8::from(graded.is_right));
    let mean = |value: &dyn Fn(&PairedAnswer) -> f64| {
        let values: Vec<f64> = pairs.iter().map(value).collect();
        move |weights: &[u32]| bootstrap::weighted_mean(&values, weights)
    };
    let accuracy = mean(&|pair| right(&pair.proposed) - right(&pair.present));
    let brier = mean(&|pair| pair.proposed.brier - pair.present.brier);
    let side = |graded: fn(&PairedAnswer) -> Graded| {
        let answers: Option<Vec<YesNoAnswer>> = pairs
            .iter()
            .map(|pair| Some(YesNoAnswer { answer: graded(pair).probability, is_yes: pair.is_yes? }))
            .collect();
        answers.map(|answers| yes_no::Ranking::of(&answers))
    };
    let (present, proposed) = (side(|pair| pair.present), side(|pair| pair.proposed));
    let auc = |weights: &[u32]| Some(proposed.as_ref()?.auc(weights)? - present.as_ref()?.auc(weights)?);
    let [accuracy, auc, brier] = bootstrap::percentiles(pairs.len(), |weights| {
        [Some(accuracy(weights)), auc(weights), Some(brier(weights))]
    });
    let clamp = |figure: Figure| figure.clamped(-1.0, 1.0);
    // A multi-class Brier score is at most 2.
    Some(QualityDifference {
        accuracy: clamp(accuracy?),
        auc: auc.map(clamp),
        brier: brier?.clamped(-2.0, 2.0),
    })
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
mod tests;
