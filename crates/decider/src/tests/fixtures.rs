//! Examples that the training framework computed, and how far our answers are from its own. `examples/eval.rs` uses this
//! file too.

use std::path::Path;

use model::{Question, SignalType};
use serde_json::Value;

use super::Decider;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/fixtures");
const DEFAULT_SIGNALS: &str = "../../crates/service/src/analysis/default_signals.json";

/// How far our probabilities are from those of the training framework.
pub(crate) struct Parity {
    pub(crate) examples: usize,
    pub(crate) median: f64,
    pub(crate) worst: f64,
}

/// The lines of a file of fixtures.
pub(crate) fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A question, from the parts of it as JSON.
pub(crate) fn question(kind: SignalType, instructions: &Value, criteria: &Value) -> Question {
    let criteria = (!criteria.is_null()).then(|| criteria.to_string());
    Question::parse("key", kind, &instructions.to_string(), criteria.as_deref()).unwrap()
}

/// The default signals of a new account: whether a user is a scammer, how far to trust them, how close to buying they are.
pub(crate) fn default_signals() -> [Question; 3] {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join(DEFAULT_SIGNALS)).unwrap();
    let signals: Value = serde_json::from_str(&text).unwrap();
    ["is_scammer", "trust_score", "buyer_intent"].map(|key| {
        let signal = &signals[key];
        let kind = signal["type"].as_str().unwrap().parse().unwrap();
        question(kind, &signal["instructions"], &signal["criteria"])
    })
}

/// Compares our calibrated answers with those of the training framework, for one of every `step` examples.
pub(crate) fn parity(decider: &Decider, step: usize) -> Parity {
    let rows = lines("parity.jsonl");
    assert_eq!(rows.len(), 500);
    let mut differences: Vec<f64> = rows.iter().step_by(step).map(|row| difference(decider, row)).collect();
    differences.sort_by(f64::total_cmp);
    let examples = differences.len();
    Parity { examples, median: differences[examples / 2], worst: differences[examples - 1] }
}

/// The largest difference between two probabilities of the same candidate.
fn difference(decider: &Decider, row: &Value) -> f64 {
    let kind = row["type"].as_str().unwrap().parse().unwrap();
    let question = question(kind, &row["ask"], &row["criteria"]);
    let (ours, _) = decider.logits(row["state"].as_str().unwrap(), &[question]);
    let theirs: Vec<f64> =
        row["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap()).collect();
    let [ours, theirs] = [&ours[0], &theirs].map(|logits| decider.calibrated(kind, logits).unwrap());
    let pairs = ours.probabilities().iter().zip(theirs.probabilities());
    pairs.map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f64::max)
}

impl Parity {
    /// Fails where the difference is more than rounding explains.
    pub(crate) fn check(&self) {
        let Self { examples, median, worst } = *self;
        assert!(median < 1e-4 && worst < 1e-3, "{median} at the median, {worst} at most, of {examples}");
    }
}
