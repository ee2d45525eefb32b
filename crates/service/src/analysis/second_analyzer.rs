//! The second analyzer: asked only where the first one is unsure, within the caps of a tenant. Whatever goes wrong with it, the
//! first answer stands.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use analyzer::Failure;
use futures_util::FutureExt as _;
use model::{Answer, Date, Question, TenantId};
use store::analysis::escalations::{self, Escalated};
use store::{Conn, Store};
use tracing::{info, warn};
use uuid::Uuid;

use crate::analysis::history::AnalysisInput;
use crate::analysis::questions::QuestionSet;
use crate::analysis::response::{AnalyzerResponse, SecondResponse};
use crate::analysis::stage::Stage;
use crate::billing::Prices;
use crate::runtime::{Clock, Waiting, count_panic};

/// The tokens that an answer is expected to have, before it is known.
const TOKENS_OF_ANSWER: u64 = 32;

/// What a tenant may escalate on a day (UTC), where that is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caps {
    pub(crate) answers: Option<i64>,
    pub(crate) micros: Option<i64>,
}

impl Caps {
    /// How many of some answers fit, the first ones first, if so much is used; `micros` is what the first one, the first two, and
    /// so on are estimated to cost.
    fn admit(self, used: Escalated, micros: &[i64]) -> usize {
        let fits = |count: usize| {
            let answers = i64::try_from(count).unwrap_or(i64::MAX);
            let is_within = |cap: Option<i64>, used: i64, more: i64| cap.is_none_or(|cap| used + more <= cap);
            is_within(self.answers, used.answers, answers)
                && is_within(self.micros, used.micros, micros[count - 1])
        };
        (1..=micros.len()).rev().find(|count| fits(*count)).unwrap_or(0)
    }
}

/// Asks the second analyzer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Escalator {
    pub(crate) stage: Stage,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) prices: Prices,
    pub(crate) caps: Caps,
}

/// An answer that the first analyzer was unsure of.
struct Unsure {
    /// Its position in the response.
    index: usize,
    signal_id: Uuid,
    question: Question,
    certainty: f64,
}

/// What was counted for an inquiry before it was made.
struct Reservation {
    day: Date,
    by_question: Vec<(Uuid, Escalated)>,
}

impl Escalator {
    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Puts the questions that the first analyzer is unsure of to the second one, and replaces the answers that it gives.
    pub(crate) async fn escalate(
        &self,
        tenant: TenantId,
        input: &AnalysisInput,
        mut response: AnalyzerResponse,
        caller: Option<&Waiting>,
    ) -> AnalyzerResponse {
        let mut unsure = unsure(&response.answers, &input.questions);
        if unsure.is_empty() {
            return response;
        }
        for unsure in &unsure {
            let answer = &mut response.answers[unsure.index];
            *answer = answer.clone().unescalated();
        }
        if self.stage.allowed(self.clock.now()).0 == 0 {
            count("paused", unsure.len());
            return response;
        }
        let Some(reservation) = self.reserve(tenant, &input.state, &unsure).await else {
            count("failed", unsure.len());
            return response;
        };
        count("capped", unsure.len() - reservation.by_question.len());
        unsure.truncate(reservation.by_question.len());
        if unsure.is_empty() {
            return response;
        }
        let questions: Vec<Question> = unsure.iter().map(|unsure| unsure.question.clone()).collect();
        let asked = AssertUnwindSafe(self.stage.inquire(tenant, &input.state, &questions, caller));
        let asked = asked.catch_unwind().await.unwrap_or_else(|_| {
            count_panic("second_analyzer");
            Err(Failure::Failed("it panicked".into()))
        });
        let actual = match asked {
            Ok(second) => self.replace(&mut response, &unsure, second),
            Err(failure) => {
                note_failure(&failure);
                HashMap::new()
            }
        };
        count("failed", unsure.len() - actual.len());
        count("answered", actual.len());
        self.settle(tenant, &reservation, &actual).await;
        response
    }

    /// Counts as many of the answers as fit the caps, so that calls in flight on all nodes stay within them. None if the database
    /// does not respond.
    async fn reserve(&self, tenant: TenantId, state: &str, unsure: &[Unsure]) -> Option<Reservation> {
        let estimates = self.estimate(tenant, state, unsure).await;
        let day = self.clock.now().date();
        let reserved = self
            .store
            .write("reserve_escalation", async |conn: &mut Conn| {
                let used = escalations::lock_day(conn, tenant, day).await?;
                let admitted = self.caps.admit(used, &estimates);
                let ids: Vec<Uuid> = unsure[..admitted].iter().map(|unsure| unsure.signal_id).collect();
                let by_question = shared(&ids, if admitted > 0 { estimates[admitted - 1] } else { 0 });
                escalations::add(conn, tenant, day, &by_question).await?;
                Ok::<_, store::Error>(by_question)
            })
            .await;
        match reserved {
            Ok(by_question) => Some(Reservation { day, by_question }),
            Err(error) => {
                warn!(%error, "cannot count what is escalated: the first answers stand");
                None
            }
        }
    }

    /// What the first of the answers, the first two, and so on will cost, in micro-dollars. Tokens are counted
    /// once, for all; fewer questions are charged the share of them that their text has of the whole.
    async fn estimate(&self, tenant: TenantId, state: &str, unsure: &[Unsure]) -> Vec<i64> {
        let questions: Vec<Question> = unsure.iter().map(|unsure| unsure.question.clone()).collect();
        let tokens = self.stage.count_tokens(tenant, state, &questions).await;
        let lengths = questions.iter().scan(state.len() as u64, |length, question| {
            *length += question.length() as u64;
            Some(*length)
        });
        let lengths: Vec<u64> = lengths.collect();
        let whole = lengths.last().copied().unwrap_or_default().max(1);
        let price = |(count, length): (u64, &u64)| {
            let read = tokens.saturating_mul(*length).div_ceil(whole);
            self.prices.charge_second(self.stage.model(), read, count * TOKENS_OF_ANSWER).micros
        };
        (1..).zip(&lengths).map(price).collect()
    }

    /// Puts the second analyzer's answers in place of the first one's, and returns what each question cost.
    fn replace(
        &self,
        response: &mut AnalyzerResponse,
        unsure: &[Unsure],
        second: AnalyzerResponse,
    ) -> HashMap<Uuid, Escalated> {
        let AnalyzerResponse { answers, model, input_tokens, output_tokens, latency_ms, .. } = second;
        let mut firsts = HashMap::new();
        let mut answered = Vec::new();
        for Unsure { index, signal_id, .. } in unsure {
            let first = response.answers[*index].clone();
            let Some(second) = answers.iter().find(|answer| answer.signal == first.signal) else { continue };
            let (answer, first) = first.escalated(second.value.clone(), &model, &response.model);
            firsts.insert(answer.signal.clone(), first);
            response.answers[*index] = answer;
            answered.push(*signal_id);
        }
        let cost = self.prices.charge_second(&model, input_tokens, output_tokens).micros;
        response.latency_ms = response.latency_ms.saturating_add(latency_ms);
        response.second = Some(SecondResponse { model, input_tokens, output_tokens, firsts });
        shared(&answered, cost).into_iter().collect()
    }

    /// Corrects what was counted to what was answered and what that cost.
    async fn settle(&self, tenant: TenantId, reservation: &Reservation, actual: &HashMap<Uuid, Escalated>) {
        let corrections: Vec<(Uuid, Escalated)> = reservation
            .by_question
            .iter()
            .map(|(signal, reserved)| {
                let actual = actual.get(signal).copied().unwrap_or_default();
                let (answers, micros) = (actual.answers - reserved.answers, actual.micros - reserved.micros);
                (*signal, Escalated { answers, micros })
            })
            .filter(|(_, correction)| *correction != Escalated::default())
            .collect();
        if corrections.is_empty() {
            return;
        }
        let settle = async |conn: &mut Conn| {
            escalations::lock_day(conn, tenant, reservation.day).await?;
            escalations::add(conn, tenant, reservation.day, &corrections).await
        };
        if let Err(error) = self.store.write("settle_escalation", settle).await {
            // Too much is counted, which costs some escalations and no money.
            warn!(%error, "cannot correct what was counted as escalated");
        }
    }
}

/// The answers that the first analyzer is unsure of, the least certain first.
fn unsure(answers: &[Answer], questions: &QuestionSet) -> Vec<Unsure> {
    let unsure = answers.iter().enumerate().filter_map(|(index, answer)| {
        let (signal, question, escalation) = questions.escalation(&answer.signal)?;
        escalation.covers(&answer.value).then(|| Unsure {
            index,
            signal_id: signal.signal_id,
            question: question.clone(),
            certainty: answer.value.certainty(),
        })
    });
    let mut unsure: Vec<Unsure> = unsure.collect();
    unsure.sort_by(|one, other| one.certainty.total_cmp(&other.certainty));
    unsure
}

/// One answer each, and the costs in equal parts; the first get what is left over.
fn shared(questions: &[Uuid], micros: i64) -> Vec<(Uuid, Escalated)> {
    let count = i64::try_from(questions.len()).unwrap_or(i64::MAX).max(1);
    let part = |index: i64| micros / count + i64::from(index < micros % count);
    let shares =
        (0..).zip(questions).map(|(index, signal)| (*signal, Escalated { answers: 1, micros: part(index) }));
    shares.collect()
}

fn count(outcome: &'static str, answers: usize) {
    if answers > 0 {
        metrics::counter!("auspex_escalations_total", "outcome" => outcome).increment(answers as u64);
    }
}

fn note_failure(failure: &Failure) {
    match failure {
        Failure::Down(cause) | Failure::Failed(cause) => {
            warn!(%cause, "the second analyzer failed: the first answers stand");
        }
        Failure::Throttled { .. } | Failure::Busy | Failure::OutOfTime | Failure::CallerLeft => {
            info!(%failure, "the second analyzer was not asked to the end: the first answers stand");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_answers_are_admitted_as_fit_both_caps() {
        let used = Escalated { answers: 7, micros: 500 };
        let admit = |answers, micros| Caps { answers, micros }.admit(used, &[100, 150, 200]);
        assert_eq!(admit(None, None), 3);
        assert_eq!([admit(Some(10), None), admit(Some(9), None), admit(Some(7), None)], [3, 2, 0]);
        assert_eq!([admit(None, Some(700)), admit(None, Some(699)), admit(None, Some(599))], [3, 2, 0]);
        assert_eq!(admit(Some(8), Some(10_000)), 1);
    }

    #[test]
    fn costs_are_shared_without_a_remainder() {
        let ids: Vec<Uuid> = (0..3).map(Uuid::from_u128).collect();
        let micros: Vec<i64> = shared(&ids, 104).iter().map(|(_, share)| share.micros).collect();
        assert_eq!(micros, [35, 35, 34]);
        assert_eq!(shared(&[], 5), []);
    }
}
