//! Temperature scaling: one exponent for the probabilities of all classes, by Newton's method with bisection.

use crate::quality::ClassAnswer;
use crate::quality::calibration::{Calibrator, FLOOR, inside, stored};

/// The allowed exponents: temperatures from 0.05 to 20.
const EXPONENTS: (f64, f64) = (0.05, 20.0);
const MAX_STEPS: usize = 60;
/// An exponent this exact changes no decimal of an answer.
const TOLERANCE: f64 = 1e-9;

/// An answer's log-probabilities; the true class is one of them.
struct Logits {
    all: Vec<f64>,
    truth: f64,
}

/// Fits the temperature with the smallest cross-entropy, which is convex in the exponent.
pub(super) fn fit(labels: &[ClassAnswer]) -> Calibrator {
    let logits: Vec<Logits> = labels
        .iter()
        .filter_map(|label| {
            let logit = |share: f64| inside(share).ln();
            let truth = label.probabilities.iter().find(|(class, _)| *class == label.truth)?;
            let all = label.probabilities.iter().map(|(_, share)| logit(*share)).collect();
            Some(Logits { all, truth: logit(truth.1) })
        })
        .collect();
    Calibrator::Temperature { temperature: stored(1.0 / exponent(&logits)) }
}

fn exponent(labels: &[Logits]) -> f64 {
    let (mut low, mut high) = EXPONENTS;
    let mut exponent: f64 = 1.0;
    for _ in 0..MAX_STEPS {
        let (slope, curvature) = derivatives(labels, exponent);
        if slope > 0.0 {
            high = exponent;
        } else {
            low = exponent;
        }
        let step = exponent - slope / curvature;
        let next = if step > low && step < high { step } else { f64::midpoint(low, high) };
        let is_done = (next - exponent).abs() < TOLERANCE;
        exponent = next;
        if is_done {
            break;
        }
    }
    exponent
}

/// The first and second derivative of the cross-entropy with respect to the exponent.
fn derivatives(labels: &[Logits], exponent: f64) -> (f64, f64) {
    let (mut slope, mut curvature) = (0.0, 0.0);
    for Logits { all, truth } in labels {
        let top = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut mean, mut square) = (0.0, 0.0, 0.0);
        for logit in all {
            let weight = (exponent * (logit - top)).exp();
            total += weight;
            mean += weight * logit;
            square += weight * logit * logit;
        }
        mean /= total;
        slope += mean - truth;
        curvature += square / total - mean * mean;
    }
    (slope, curvature)
}

/// Probabilities at a temperature, none of them 0 or 1.
pub(super) fn apply(temperature: f64, raw: &[f64]) -> Vec<f64> {
    let logits: Vec<f64> = raw.iter().map(|share| inside(*share).ln() / temperature).collect();
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // The likeliest weighs 1, so the sum is at least 1, and normalizing keeps the floor above a millionth.
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    let floored: Vec<f64> = weights.iter().map(|weight| (weight / total).max(FLOOR)).collect();
    let total: f64 = floored.iter().sum();
    floored.iter().map(|weight| weight / total).collect()
}
