//! The inputs of a review's priority, read from the database; the formula is in `model/src/review.rs`.

use std::collections::HashMap;

use model::api::RuleMode;
use model::condition::BoundCondition;
use model::review::{SignalEvidence, priority_millis};
use model::{AnswerValue, TenantId, recorded_answer};
use store::Conn;
use store::actions::rules::{self, Rule};
use store::analysis::answer_history;
use store::analysis::signals::{self, Signal};
use store::objects::reads;
use store::quality::labels;
use uuid::Uuid;

use crate::actions::binding::bind;
use crate::objects::answers::{question, result};
use crate::runtime::{Result, internal};

/// Up to how many labels are counted: beyond, one more is worth next to nothing.
const MAX_LABELS: i64 = 5_000;
/// How many analyses are looked through for an answer of an earlier version.
const MAX_ANALYSES: i64 = 20;

/// The signals and live rules of a tenant.
pub(super) struct PriorityInputs {
    tenant: TenantId,
    signals: Vec<Signal>,
    conditions: Vec<BoundCondition>,
    labels: HashMap<Uuid, i64>,
}

impl PriorityInputs {
    pub(super) async fn read(conn: &mut Conn, tenant: TenantId) -> Result<Self> {
        let (enabled, disabled): (Vec<Signal>, Vec<Signal>) =
            signals::of_tenant(conn, tenant).await?.into_iter().partition(|signal| signal.enabled);
        let rules = rules::enabled_of(conn, &[tenant]).await?;
        let live: Vec<&Rule> = rules.iter().filter(|rule| rule.mode == RuleMode::Live).collect();
        let conditions =
            bind(&live, &enabled, &disabled).into_iter().map(|(_, condition)| condition).collect();
        Ok(Self { tenant, signals: enabled, conditions, labels: HashMap::new() })
    }

    /// The keys of all enabled signals.
    pub(super) fn keys(&self) -> Vec<String> {
        self.signals.iter().map(|signal| signal.key.clone()).collect()
    }

    /// The priority of a review, in thousandths. Signals that are gone or disabled do not count.
    pub(super) async fn priority(
        &mut self,
        conn: &mut Conn,
        object_id: &str,
        refirings: i64,
        keys: &[String],
    ) -> Result<i64> {
        let tenant = self.tenant;
        let signals: Vec<Signal> =
            self.signals.iter().filter(|signal| keys.contains(&signal.key)).cloned().collect();
        let answers = reads::answers_of(conn, tenant, &[object_id]).await?;
        let answers = answers.get(object_id).map_or(&[][..], Vec::as_slice);
        let past = answer_history::of_object(conn, tenant, object_id, None, MAX_ANALYSES).await?;
        let mut evidence = Vec::with_capacity(signals.len());
        for signal in &signals {
            let answer = answers.iter().find(|answer| answer.signal_id == signal.signal_id);
            evidence.push(SignalEvidence {
                key: signal.key.clone(),
                candidates: question(signal)?.candidates.len(),
                answer: answer.map(|answer| result(signal, answer)).transpose()?.map(|result| result.value),
                earlier: earlier(signal, &past)?,
                labels: self.labels(conn, signal.signal_id).await?,
            });
        }
        Ok(priority_millis(refirings, &evidence, &self.conditions))
    }

    async fn labels(&mut self, conn: &mut Conn, signal: Uuid) -> Result<i64> {
        if let Some(count) = self.labels.get(&signal) {
            return Ok(*count);
        }
        let count = labels::count(conn, self.tenant, signal, MAX_LABELS).await?;
        self.labels.insert(signal, count);
        Ok(count)
    }
}

/// The last answer of an earlier version of a signal.
fn earlier(signal: &Signal, past: &[answer_history::Analysis]) -> Result<Option<AnswerValue>> {
    for analysis in past {
        let answers = recorded_answer::parse(&analysis.answers).map_err(internal)?;
        let found =
            answers.iter().find(|answer| answer.signal == signal.key && answer.version < signal.version);
        if let Some(found) = found {
            return Ok(Some(found.answer().map_err(internal)?.value));
        }
    }
    Ok(None)
}
