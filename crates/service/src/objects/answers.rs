//! Converts stored answers to API records, together with the signals that they belong to.

use model::api::SignalResult;
use model::condition::SignalShape;
use model::{Judgement, Question, SignalType, TenantId};
use store::Conn;
use store::analysis::signals::{self, Signal};
use store::objects::reads::StoredAnswer;

use crate::runtime::{Result, internal};

/// The shape of an enabled signal: which comparisons are valid for it.
pub(crate) fn shape(enabled: &[Signal], key: &str) -> Option<SignalShape> {
    let signal = enabled.iter().find(|signal| signal.key == key)?;
    let question =
        Question::parse(key, signal.kind, &signal.instructions, signal.criteria.as_deref()).ok()?;
    Some(SignalShape::from(&question))
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
    let kind = signal.kind;
    let probabilities =
        answer.probabilities.as_deref().map(serde_json::from_str).transpose().map_err(internal)?;
    let judgement = Judgement {
        kind,
        noul: answer.value.filter(|_| kind == SignalType::Noul),
        choice: answer.choice.clone(),
        score: answer.value.filter(|_| kind == SignalType::Score),
        probabilities,
        confidence: answer.confidence,
    };
    Ok(SignalResult {
        key: signal.key.clone(),
        judgement,
        raw: answer.raw.as_deref().map(serde_json::from_str).transpose().map_err(internal)?,
        model: Some(answer.model.clone()),
        computed_at: answer.computed_at,
    })
}
