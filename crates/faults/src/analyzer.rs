//! An analyzer whose answers can be recognized: each call has a number, which is in its answer and in its usage.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::journal::Marker;
use crate::peer::{self, Manner, Request};
use crate::{Result, lock};

/// The input tokens of every call, which fix its price.
pub(crate) const INPUT_TOKENS: i64 = 1_000;

/// A call of the analyzer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The newest event that it read.
    pub(crate) newest: Marker,
    /// Whether it was answered as it should be; an analysis must not rest on another one.
    pub(crate) is_honest: bool,
}

/// The analyzer's memory.
#[derive(Default)]
pub(crate) struct Analyzer {
    manner: Mutex<Manner>,
    /// By number, from 1.
    calls: Mutex<Vec<Call>>,
}

impl Analyzer {
    /// Starts it.
    pub(crate) async fn start() -> Result<(SocketAddr, Arc<Self>)> {
        let analyzer = Arc::new(Self::default());
        let asked = Arc::clone(&analyzer);
        let address = peer::serve(Arc::new(move |request: &Request| asked.answer(request))).await?;
        Ok((address, analyzer))
    }

    pub(crate) fn set(&self, manner: Manner) {
        *lock(&self.manner) = manner;
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    fn answer(&self, request: &Request) -> (Manner, String) {
        let manner = *lock(&self.manner);
        let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(newest) = asked["state"].as_str().and_then(newest) else {
            return (Manner::Fail, String::new());
        };
        let number = {
            let mut calls = lock(&self.calls);
            calls.push(Call { newest, is_honest: manner == Manner::Honest });
            calls.len() as u64
        };
        let noul = if manner == Manner::Lie { json!(7.3) } else { json!(value(number, newest.is_hot)) };
        let questions = asked["questions"].as_object().into_iter().flatten();
        let answers: serde_json::Map<String, Value> =
            questions.map(|(id, _)| (id.clone(), json!({"type": "noul", "noul": noul}))).collect();
        let usage = json!({"input_tokens": INPUT_TOKENS, "output_tokens": number});
        (manner, json!({"model": "faults", "answers": answers, "usage": usage}).to_string())
    }
}

/// The newest event of a history: its last line, `time type marker`.
fn newest(state: &str) -> Option<Marker> {
    Marker::parse(state.trim_end().lines().next_back()?.split_whitespace().nth(2)?)
}

const HOT: f64 = 0.6;
const COLD: f64 = 0.1;
const STEP: f64 = 1e-6;

/// The answer of a call: yes or no by the newest event, and the call's number in the last digits.
#[expect(clippy::cast_precision_loss, reason = "call numbers are far below 2^52")]
pub(crate) fn value(call: u64, is_hot: bool) -> f64 {
    (if is_hot { HOT } else { COLD }) + call as f64 * STEP
}

/// The number of the call that gave an answer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "answers are between 0 and 1")]
pub(crate) fn call_of(value: f64) -> u64 {
    let base = if value >= HOT { HOT } else { COLD };
    ((value - base) / STEP).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_its_call() {
        for call in [1, 2, 999, 123_456, 389_999] {
            assert_eq!((call_of(value(call, true)), call_of(value(call, false))), (call, call));
            assert!(value(call, true) > 0.5 && value(call, false) < 0.5);
        }
    }

    #[test]
    fn the_newest_event_is_the_last_line() {
        let state = "Object of type user.\nEvents, oldest first:\n2026-01-01T00:00:00Z event m1h\n2026-01-01T00:00:00Z message m2c\n";
        assert_eq!(newest(state), Some(Marker { number: 2, is_hot: false }));
        assert_eq!(newest("Object of type user.\n"), None);
    }
}
