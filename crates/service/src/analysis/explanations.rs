//! What moved an answer: how much it differs when a part of the history is not read.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use analyzer::{BoxFuture, Failure};
use futures_util::StreamExt as _;
use model::api::{ExplainMethod, ExplainedPart, Explanation};
use model::history::HistoryPart;
use model::{Answer, AnswerValue, TenantId, event};
use store::analysis::signals::{self, Signal};
use store::{Conn, Store};
use tokio::time::{Instant, timeout_at};

use crate::analysis::asking::Asker;
use crate::analysis::concluder::Concluder;
use crate::analysis::history::{AnalysisInput, read_input};
use crate::analysis::questions::QuestionSet;
use crate::analysis::response::{AnalyzerResponse, none_answered, refusal};
use crate::analysis::verdict::conclude;
use crate::analysis::verdict_slots::VerdictSlots;
use crate::billing::{Balances, Prices};
use crate::objects::reads::no_such_object;
use crate::quality::no_such_signal;
use crate::runtime::{Result, Waiting};

/// The maximum number of parts in an explanation.
const MAX_PARTS: usize = 20;
/// The maximum length of an excerpt in characters.
const MAX_EXCERPT: usize = 500;
/// Parts that are left out in turn where the analyzer must be called for each.
const CALLS: usize = 12;
/// Calls of the analyzer at a time.
const CONCURRENT_CALLS: usize = 4;

/// Explains answers.
#[derive(Clone)]
pub struct Explanations {
    pub(crate) store: Store,
    pub(crate) asker: Asker,
    pub(crate) slots: VerdictSlots,
    pub(crate) concluder: Arc<Concluder>,
    pub(crate) balances: Balances,
    pub(crate) prices: Prices,
    /// The deadline of a call of the analyzer, and of all calls for one explanation together.
    pub(crate) analyzer_timeout: Duration,
}

/// The answer about the whole history, and about the history without some of its parts.
struct Tried<'a> {
    /// With the usage of all calls.
    response: AnalyzerResponse,
    without: Vec<(&'a HistoryPart, Answer)>,
    method: ExplainMethod,
}

impl Explanations {
    /// Asks a signal about an object, and again without each part of its history. Nothing is recorded, no rule fires, and
    /// what was read is charged.
    pub async fn explain(
        &self,
        tenant: TenantId,
        object_id: &str,
        key: &str,
        caller: &Waiting,
    ) -> Result<Explanation> {
        event::check_object_id(object_id).map_err(|_| no_such_object())?;
        let slot = self.slots.take(tenant).await?;
        self.slots
            .run(slot, async |slot| {
                let input = self.read(tenant, object_id, key).await?;
                let tried = self.ask(tenant, &input, caller).await.map_err(refusal)?;
                let Tried { response, without, method } = tried;
                let conclusion = conclude(&self.concluder, slot, response, None, None, true).await?;
                let response = &conclusion.response;
                // There is an answer to the only question, or the analyzer has failed.
                let answer = response.answers.first().cloned().ok_or_else(|| refusal(none_answered()))?;
                Ok(Explanation {
                    parts: explained(&input.state, &answer.value, without),
                    answer,
                    method,
                    cost_micros: self.prices.billed_micros(
                        &response.model,
                        response.input_tokens,
                        response.output_tokens,
                    ),
                })
            })
            .await
    }

    /// The history of an object and the question, even of a signal that is disabled.
    async fn read(&self, tenant: TenantId, object_id: &str, key: &str) -> Result<Box<AnalysisInput>> {
        self.store
            .snapshot("explain", async |conn: &mut Conn| {
                self.balances.require_funds(conn, tenant).await?;
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let signal = Signal { enabled: true, ..signal };
                let questions = QuestionSet::read(conn, tenant, std::slice::from_ref(&signal)).await?;
                let input = read_input(conn, tenant, object_id, None, Arc::new(questions)).await?;
                input.ok_or_else(no_such_object)
            })
            .await
    }

    async fn ask<'a>(
        &self,
        tenant: TenantId,
        input: &'a AnalysisInput,
        caller: &Waiting,
    ) -> std::result::Result<Tried<'a>, Failure> {
        let candidates = candidates(&input.parts);
        let ranges: Vec<Range<usize>> = candidates.iter().map(|part| part.line.clone()).collect();
        let Some(response) = self.asker.ask_unread(tenant, input, &ranges, caller).await else {
            return self
                .ask_without_each(tenant, input, &candidates[..candidates.len().min(CALLS)], caller)
                .await;
        };
        let mut response = response?;
        let without = response.answers.split_off(1.min(response.answers.len()));
        let without = candidates.into_iter().zip(without).collect();
        Ok(Tried { response, without, method: ExplainMethod::Unread })
    }

    /// Calls the analyzer for the whole history, and for the history without each of some parts. A part whose call fails or
    /// comes too late is not explained.
    async fn ask_without_each<'a>(
        &self,
        tenant: TenantId,
        input: &'a AnalysisInput,
        parts: &[&'a HistoryPart],
        caller: &Waiting,
    ) -> std::result::Result<Tried<'a>, Failure> {
        let deadline = Instant::now() + self.analyzer_timeout;
        let mut response = self.asker.ask(tenant, input, Some(caller)).await?;
        let mut calls: Vec<BoxFuture<'_, _>> = Vec::with_capacity(parts.len());
        for part in parts {
            calls.push(Box::pin(async move {
                let asked = self.ask_without(tenant, input, part, caller);
                Some((*part, timeout_at(deadline, asked).await.ok()?.ok()?))
            }));
        }
        let calls = futures_util::stream::iter(calls).buffered(CONCURRENT_CALLS);
        let answered: Vec<_> = calls.filter_map(std::future::ready).collect().await;
        let mut without = Vec::with_capacity(answered.len());
        for (part, other) in answered {
            response = response.with_usage_of(&other);
            without.extend(other.answers.into_iter().next().map(|answer| (part, answer)));
        }
        Ok(Tried { response, without, method: ExplainMethod::LeftOut })
    }

    /// Calls the analyzer for the history without a part.
    async fn ask_without(
        &self,
        tenant: TenantId,
        input: &AnalysisInput,
        part: &HistoryPart,
        caller: &Waiting,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        let Range { start, end } = part.line;
        let state = format!("{}{}", &input.state[..start], input.state[end..].trim_start_matches('\n'));
        self.asker.ask_about(tenant, &state, &input.questions, Some(caller)).await
    }
}

/// The parts in the order in which they are tried where not all can be: the newest and the longest in turn.
fn candidates(parts: &[HistoryPart]) -> Vec<&HistoryPart> {
    let mut longest: Vec<usize> = (0..parts.len()).collect();
    longest.sort_by_key(|index| std::cmp::Reverse(parts[*index].line.len()));
    let newest = (0..parts.len()).rev();
    let mut is_taken = vec![false; parts.len()];
    let in_turn = newest.zip(longest).flat_map(|(newest, longest)| [newest, longest]);
    in_turn
        .filter(|index| !std::mem::replace(&mut is_taken[*index], true))
        .map(|index| &parts[index])
        .collect()
}

/// The parts that moved an answer most.
fn explained(state: &str, whole: &AnswerValue, without: Vec<(&HistoryPart, Answer)>) -> Vec<ExplainedPart> {
    let explain = |(part, answer): (&HistoryPart, Answer)| ExplainedPart {
        seq: part.seq,
        kind: part.kind,
        excerpt: part.said(state).chars().take(MAX_EXCERPT).collect(),
        moved: whole.moved_from(&answer.value),
    };
    let mut parts: Vec<ExplainedPart> = without.into_iter().map(explain).collect();
    parts.sort_by(|a, b| b.moved.abs().total_cmp(&a.moved.abs()).then(a.seq.cmp(&b.seq)));
    parts.truncate(MAX_PARTS);
    parts
}

#[cfg(test)]
mod tests {
    use model::api::EventType;
    use model::{History, HistoryEvent, Timestamp};

    use super::*;

    #[test]
    fn the_newest_and_the_longest_are_tried_first_and_each_once() {
        let event = |(length, seq): (usize, i64)| HistoryEvent {
            seq,
            kind: EventType::Message,
            name: None,
            content: Some("x".repeat(length)),
            metadata: None,
            occurred_at: Timestamp::from_seconds(seq),
            received_at: Timestamp::from_seconds(seq),
        };
        let recent = [9, 1, 5, 7, 2].into_iter().zip(1..).map(event).collect();
        let history = History { object_type: "user".to_owned(), recent, ..History::default() };
        let (_, parts) = history.render_parts();
        let order: Vec<_> = candidates(&parts).iter().map(|part| part.seq.unwrap()).collect();
        assert_eq!(order, [5, 1, 4, 3, 2]);
        assert!(candidates(&[]).is_empty());
    }
}
