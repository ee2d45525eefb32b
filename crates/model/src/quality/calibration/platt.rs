//! Platt scaling: a logistic regression of labels on log-odds, by Newton's method.

use crate::quality::calibration::{Calibrator, log_odds, sigmoid, stored};
use crate::quality::{YesNoAnswer, float};

/// Newton's method is at rest long before.
const MAX_STEPS: usize = 100;
/// Steps are halved at most this often.
const MAX_HALVINGS: usize = 40;
/// Added to the curvature, so that a step exists where labels say nothing about the slope.
const RIDGE: f64 = 1e-9;
/// A gradient this small, for each label, is the minimum.
const TOLERANCE: f64 = 1e-10;

/// A label with Platt's smoothed target instead of 1 or 0.
struct Target {
    log_odds: f64,
    target: f64,
}

/// Fits a logistic curve. Its slope is never negative: where higher answers are labelled yes less often, it is flat.
pub(super) fn fit(labels: &[YesNoAnswer]) -> Calibrator {
    let yes = labels.iter().filter(|label| label.is_yes).count();
    let no = labels.len() - yes;
    // Smoothed as if each side had one more label of its own and one of the other, so that no curve is infinitely steep.
    let (high, low) = ((float(yes) + 1.0) / (float(yes) + 2.0), 1.0 / (float(no) + 2.0));
    let targets: Vec<Target> = labels
        .iter()
        .map(|label| Target {
            log_odds: log_odds(label.answer),
            target: if label.is_yes { high } else { low },
        })
        .collect();
    let mean = targets.iter().map(|target| target.target).sum::<f64>() / float(targets.len().max(1));
    let flat = Calibrator::Platt { slope: 0.0, intercept: stored(log_odds(mean)) };
    match minimize(&targets, log_odds(mean)) {
        Some((slope, intercept)) if slope > 0.0 => {
            Calibrator::Platt { slope: stored(slope), intercept: stored(intercept) }
        }
        _ => flat,
    }
}

/// Slope and intercept of the smallest loss; none if a number overflows.
fn minimize(targets: &[Target], start: f64) -> Option<(f64, f64)> {
    let (mut slope, mut intercept) = (0.0, start);
    let mut loss = loss_at(targets, slope, intercept);
    let tolerance = TOLERANCE * float(targets.len().max(1));
    for _ in 0..MAX_STEPS {
        let Step { slope: along, intercept: up, gradient } = newton_step(targets, slope, intercept);
        if gradient < tolerance {
            break;
        }
        let mut scale = 1.0;
        let accepted = (0..MAX_HALVINGS).find_map(|_| {
            let candidate = (slope - scale * along, intercept - scale * up);
            scale /= 2.0;
            let candidate_loss = loss_at(targets, candidate.0, candidate.1);
            (candidate_loss < loss).then_some((candidate, candidate_loss))
        });
        let Some(((new_slope, new_intercept), new_loss)) = accepted else { break };
        (slope, intercept, loss) = (new_slope, new_intercept, new_loss);
    }
    (slope.is_finite() && intercept.is_finite()).then_some((slope, intercept))
}

struct Step {
    slope: f64,
    intercept: f64,
    /// The larger part of the gradient.
    gradient: f64,
}

fn newton_step(targets: &[Target], slope: f64, intercept: f64) -> Step {
    let (mut gradient, mut curvature) = ([0.0; 2], [RIDGE, 0.0, RIDGE]);
    for Target { log_odds, target } in targets {
        let predicted = sigmoid(slope * log_odds + intercept);
        let (error, weight) = (predicted - target, predicted * (1.0 - predicted));
        gradient[0] += error * log_odds;
        gradient[1] += error;
        curvature[0] += weight * log_odds * log_odds;
        curvature[1] += weight * log_odds;
        curvature[2] += weight;
    }
    let determinant = curvature[0] * curvature[2] - curvature[1] * curvature[1];
    Step {
        slope: (curvature[2] * gradient[0] - curvature[1] * gradient[1]) / determinant,
        intercept: (curvature[0] * gradient[1] - curvature[1] * gradient[0]) / determinant,
        gradient: gradient[0].abs().max(gradient[1].abs()),
    }
}

/// The cross-entropy between targets and the curve.
fn loss_at(targets: &[Target], slope: f64, intercept: f64) -> f64 {
    let losses = targets.iter().map(|Target { log_odds, target }| {
        let value = slope * log_odds + intercept;
        // ln(1 + exp(value)) - target * value, without overflow.
        value.max(0.0) + (-value.abs()).exp().ln_1p() - target * value
    });
    losses.sum()
}
