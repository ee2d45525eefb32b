//! Calibration: turns logits into probabilities that come true as often as they say.

use model::{Distribution, InvalidDistribution};
use serde_json::Value;

/// Temperature and bias of one kind of question, fitted on histories that the model was not trained on.
#[derive(Clone, Copy)]
pub(crate) struct Calibration {
    temperature: f64,
    /// Added to the logit of the first candidate, which is *yes* where a bias was fitted.
    bias: f64,
}

impl Calibration {
    /// Parses the pair of numbers in the header of the weights; what is missing changes nothing.
    pub(crate) fn parse(value: &Value) -> Self {
        let number = |index: usize, default: f64| value[index].as_f64().unwrap_or(default);
        Self { temperature: number(0, 1.0), bias: number(1, 0.0) }
    }

    /// The softmax of the calibrated logits.
    pub(crate) fn distribution(self, logits: &[f64]) -> Result<Distribution, InvalidDistribution> {
        let mut logits: Vec<f64> = logits.iter().map(|logit| logit / self.temperature).collect();
        if let Some(first) = logits.first_mut() {
            *first += self.bias;
        }
        let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logits.iter().map(|logit| (logit - highest).exp()).collect();
        Distribution::from_weights(&weights)
    }
}
