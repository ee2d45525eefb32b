//! Calibration: a monotone map from the analyzer's probabilities to ones that come true as often as they say.
//!
//! Fitted to labels and raw answers, judged by cross-validation. A calibrated probability is never 0 or 1 and always
//! finite, whatever the labels.

mod isotonic;
mod platt;
mod temperature;

use serde::{Deserialize, Serialize};

use crate::api::{CalibrationMethod, CalibrationQuality};
use crate::quality::yes_no::CalibrationError;
use crate::quality::{ClassAnswer, YesNoAnswer, bootstrap, small_samples};
use crate::{Answer, AnswerValue, Distribution, Question, SignalType};

/// The fewest labels that a calibration is fitted to.
pub const MIN_LABELS: usize = 50;
/// The fewest labels of each side of a yes/no signal.
pub const MIN_LABELS_OF_SIDE: usize = 10;
/// From this many labels on, a yes/no signal gets an isotonic calibration.
pub const ISOTONIC_LABELS: usize = 1_000;

/// The number of parts of a cross-validation.
const FOLDS: usize = 5;
/// The smallest probability that a calibration reads or gives: answers have six decimals. Twice that, so that it survives
/// normalizing and rounding.
const FLOOR: f64 = 2e-6;

/// A fitted calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Calibrator {
    /// `p' = 1 / (1 + exp(-(slope * ln(p / (1 - p)) + intercept)))`.
    Platt {
        /// Not negative.
        slope: f64,
        /// The log-odds at a probability of one half.
        intercept: f64,
    },
    /// Straight lines between points.
    Isotonic {
        /// Probabilities and what they become, both in order.
        points: Vec<(f64, f64)>,
    },
    /// `p'` is proportional to `p ^ (1 / temperature)`.
    Temperature {
        /// Above 1 makes answers less sure of themselves.
        temperature: f64,
    },
}

/// A calibration, and what it is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The calibration, fitted to all labels.
    pub calibrator: Calibrator,
    /// The raw answers.
    pub before: CalibrationQuality,
    /// Answers calibrated by cross-validation: each by a calibration that has not seen its label.
    pub after: CalibrationQuality,
}

/// Fits yes/no answers to their labels; none if there are too few labels, or too few of a side.
pub fn fit_yes_no(labels: &[YesNoAnswer]) -> Option<Fitted> {
    let yes = labels.iter().filter(|label| label.is_yes).count();
    if labels.len() < MIN_LABELS || yes.min(labels.len() - yes) < MIN_LABELS_OF_SIDE {
        return None;
    }
    let fit: fn(&[YesNoAnswer]) -> Calibrator =
        if labels.len() >= ISOTONIC_LABELS { isotonic::fit } else { platt::fit };
    let calibrated = cross_validated(
        labels,
        |label| label.is_yes,
        fit,
        |calibrator, label| YesNoAnswer { answer: calibrator.probability(label.answer), ..*label },
    );
    let quality = |labels: &[YesNoAnswer]| {
        let squares: Vec<f64> = labels.iter().map(|label| label.brier()).collect();
        let error = CalibrationError::of(labels.iter().map(|label| (label.answer, label.excess())));
        quality(&squares, 1.0, error)
    };
    Some(Fitted { calibrator: fit(labels), before: quality(labels)?, after: quality(&calibrated)? })
}

/// Fits choices or scores to their labels; none if there are too few.
pub fn fit_classes(labels: &[ClassAnswer]) -> Option<Fitted> {
    if labels.len() < MIN_LABELS {
        return None;
    }
    let calibrated = cross_validated(
        labels,
        |label| label.truth,
        temperature::fit,
        |calibrator, label| {
            let shares: Vec<f64> = label.probabilities.iter().map(|(_, share)| *share).collect();
            let shares = calibrator.probabilities(&shares);
            let classes = label.probabilities.iter().map(|(class, _)| *class);
            ClassAnswer { probabilities: classes.zip(shares).collect(), ..label.clone() }
        },
    );
    let quality = |labels: &[ClassAnswer]| {
        let squares: Vec<f64> = labels.iter().map(ClassAnswer::brier).collect();
        // A Brier score over several classes is at most 2.
        quality(&squares, 2.0, CalibrationError::of(labels.iter().map(ClassAnswer::top_deviation)))
    };
    let calibrator = temperature::fit(labels);
    Some(Fitted { calibrator, before: quality(labels)?, after: quality(&calibrated)? })
}

fn quality(squares: &[f64], worst: f64, mut error: CalibrationError) -> Option<CalibrationQuality> {
    bootstrap::resample(squares.len(), |weights| error.add(weights));
    let brier = small_samples::bounded_mean(squares, 0.0, worst)?;
    Some(CalibrationQuality { brier, calibration_error: error.figure() })
}

/// Calibrates each label by a fit to the other parts of all labels. Parts are drawn at random, with a fixed seed, and have
/// the same share of each class.
fn cross_validated<T: Clone, C: Ord>(
    labels: &[T],
    class: impl Fn(&T) -> C,
    fit: impl Fn(&[T]) -> Calibrator,
    apply: impl Fn(&Calibrator, &T) -> T,
) -> Vec<T> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    let mut draws = bootstrap::Draws::seeded();
    for last in (1..order.len()).rev() {
        order.swap(last, draws.below(last + 1));
    }
    order.sort_by_key(|index| class(&labels[*index]));
    let mut calibrated = Vec::with_capacity(labels.len());
    for fold in 0..FOLDS {
        let is_held_out = |(rank, _): &(usize, &usize)| rank % FOLDS == fold;
        let others = order.iter().enumerate().filter(|place| !is_held_out(place));
        let others: Vec<T> = others.map(|(_, index)| labels[*index].clone()).collect();
        let calibrator = fit(&others);
        let held_out = order.iter().enumerate().filter(is_held_out);
        calibrated.extend(held_out.map(|(_, index)| apply(&calibrator, &labels[*index])));
    }
    calibrated
}

impl Calibrator {
    /// How it maps probabilities.
    pub fn method(&self) -> CalibrationMethod {
        match self {
            Self::Platt { .. } => CalibrationMethod::Platt,
            Self::Isotonic { .. } => CalibrationMethod::Isotonic,
            Self::Temperature { .. } => CalibrationMethod::Temperature,
        }
    }

    /// The calibrated probability of yes.
    pub fn probability(&self, raw: f64) -> f64 {
        match self {
            Self::Platt { slope, intercept } => inside(sigmoid(slope * log_odds(raw) + intercept)),
            Self::Isotonic { points } => inside(isotonic::interpolate(points, inside(raw))),
            Self::Temperature { .. } => self.probabilities(&[raw, 1.0 - raw])[0],
        }
    }

    /// The calibrated probabilities of classes.
    pub fn probabilities(&self, raw: &[f64]) -> Vec<f64> {
        let Self::Temperature { temperature } = self else { return raw.to_vec() };
        temperature::apply(*temperature, raw)
    }

    /// The calibrated answer to a question, from the analyzer's own; none where this calibration is of another type of
    /// question, or the answer has no probabilities.
    pub fn calibrate(&self, question: &Question, raw: &AnswerValue) -> Option<AnswerValue> {
        let weights = match (question.kind, self.method()) {
            (SignalType::Noul, CalibrationMethod::Platt | CalibrationMethod::Isotonic) => {
                let yes = self.probability(raw.noul?);
                vec![yes, 1.0 - yes]
            }
            (SignalType::Choice | SignalType::Score, CalibrationMethod::Temperature) => {
                let shares = raw.probabilities.as_ref()?;
                let shares: Option<Vec<f64>> = question
                    .candidates
                    .iter()
                    .map(|candidate| shares.get(&candidate.name).copied())
                    .collect();
                self.probabilities(&shares?)
            }
            _ => return None,
        };
        let distribution = Distribution::from_weights(&weights).ok()?;
        Answer::new(question, &distribution).ok().map(|answer| answer.value)
    }
}

/// A probability that is neither 0 nor 1, and one half for what is not a number.
fn inside(probability: f64) -> f64 {
    if probability.is_nan() { 0.5 } else { probability.clamp(FLOOR, 1.0 - FLOOR) }
}

/// A number as it is stored: with so many decimals that nobody notices, and so few that its JSON reads back the same.
fn stored(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}

fn log_odds(probability: f64) -> f64 {
    let probability = inside(probability);
    (probability / (1.0 - probability)).ln()
}

fn sigmoid(log_odds: f64) -> f64 {
    // Of the two forms, the one whose exponential does not overflow.
    if log_odds >= 0.0 {
        1.0 / (1.0 + (-log_odds).exp())
    } else {
        let odds = log_odds.exp();
        odds / (1.0 + odds)
    }
}

#[cfg(test)]
mod tests;
