//! Converts stored answers to API records, together with the signals that they belong to.

use model::api::SignalResult;
use model::condition::SignalShape;
use model::{Answer, AnswerValue, Question, SignalType, TenantId};
use store::Conn;
use store::analysis::signals::{self, Signal};
use store::objects::reads::StoredAnswer;

use crate::runtime::{Error, Kind, Result, internal};

/// The shape of an enabled signal: which comparisons are valid for it.
pub(crate) fn shape(enabled: &[Signal], key: &str) -> Option<SignalShape> {
    let signal = enabled.iter().find(|signal| signal.key == key)?;
    Some(SignalShape::from(&question(signal).ok()?))
}

/// The question that a stored signal asks.
pub(crate) fn question(signal: &Signal) -> Result<Question> {
    Question::parse(&signal.key, signal.kind, &signal.instructions, signal.criteria.as_deref())
        .map_err(internal)
}

pub(crate) fn no_such_signal() -> Error {
    Error::new(Kind::NotFound, "there is no such signal")
}

pub(crate) async fn enabled_signals(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Signal>> {
    let all = signals::of_tenant(conn, tenant).await?;
    Ok(all.into_iter().filter(|signal| signal.enabled).collect())
}

/// The answers of enabled signals, and the keys of signals without an answer.
pub(crate) fn results(
    enabled: &[Signal],
    answers: &[StoredAnswer],
) -> Result<(Vec<SignalResult>, Vec<String>)> {
    let (mut analysis, mut pending) = (Vec::new(), Vec::new());
    for signal in enabled {
        match answers.iter().find(|answer| answer.signal_id == signal.signal_id) {
            Some(answer) => analysis.push(result(signal, answer)?),
            None => pending.push(signal.key.clone()),
        }
    }
    Ok((analysis, pending))
}

pub(crate) fn result(signal: &Signal, answer: &StoredAnswer) -> Result<SignalResult> {
    let columns = AnswerColumns {
        value: answer.value,
        choice: answer.choice.as_deref(),
        probabilities: answer.probabilities.as_deref(),
        confidence: answer.confidence,
        raw: answer.raw.as_deref(),
        escalated: answer.escalated,
    };
    let Answer { signal, value, raw, escalated, .. } = columns.answer(signal)?;
    Ok(SignalResult {
        key: signal,
        value,
        raw,
        escalated,
        model: Some(answer.model.clone()),
        computed_at: answer.computed_at,
    })
}

/// The columns that every table of answers has.
pub(crate) struct AnswerColumns<'a> {
    /// The probability of yes, or the position on the scale.
    pub(crate) value: Option<f64>,
    /// The likeliest option.
    pub(crate) choice: Option<&'a str>,
    /// JSON.
    pub(crate) probabilities: Option<&'a str>,
    /// How sure it is.
    pub(crate) confidence: Option<f64>,
    /// JSON: the analyzer's own answer, where a calibration is on.
    pub(crate) raw: Option<&'a str>,
    /// Where the first analyzer was unsure: whether the second one answered.
    pub(crate) escalated: Option<bool>,
}

impl AnswerColumns<'_> {
    /// The answer to a signal; its model has a column of its own.
    pub(crate) fn answer(self, signal: &Signal) -> Result<Answer> {
        let kind = signal.kind;
        let value = AnswerValue {
            kind,
            noul: self.value.filter(|_| kind == SignalType::Noul),
            choice: self.choice.map(str::to_owned),
            score: self.value.filter(|_| kind == SignalType::Score),
            probabilities: self.probabilities.map(serde_json::from_str).transpose().map_err(internal)?,
            confidence: self.confidence,
        };
        let raw = self.raw.map(serde_json::from_str).transpose().map_err(internal)?;
        Ok(Answer { raw, escalated: self.escalated, ..Answer::of(signal.key.clone(), value) })
    }
}
