//! Scores of texts by built-in questions, in the shapes of other moderation services: their clients work by another address.
//!
//! A text is read on its own: nothing is recorded and no rule fires. It is charged like the playground, in one ledger line a
//! request. A tenant's signal with the key of a question is asked instead of it.

mod languages;
mod openai;
mod perspective;
mod questions;
mod sentences;

use std::sync::Arc;

use analyzer::{BoxFuture, Failure};
use futures_util::{StreamExt as _, TryStreamExt as _};
use model::api::EventType;
use model::{Answer, History, HistoryEvent, Question, SignalType, TenantId, Timestamp};
use store::{Conn, Store};

use self::questions::BuiltInQuestion;
use crate::analysis::asking::Asker;
use crate::analysis::concluder::Concluder;
use crate::analysis::questions::{CachedQuestions, QuestionSet, SignalSelection};
use crate::analysis::response::{AnalyzerResponse, refusal};
use crate::analysis::verdict::conclude;
use crate::analysis::verdict_slots::VerdictSlots;
use crate::billing::Balances;
use crate::quality::Labels;
use crate::runtime::{Clock, Random, Result, Waiting};

/// The type of the object that a text is presented as.
const OBJECT_TYPE: &str = "message";
/// Texts that the analyzer is asked about at a time.
const CONCURRENT_CALLS: usize = 4;

/// Scores texts.
#[derive(Clone)]
pub struct Moderation {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) questions: CachedQuestions,
    pub(crate) asker: Asker,
    pub(crate) slots: VerdictSlots,
    pub(crate) concluder: Arc<Concluder>,
    pub(crate) balances: Balances,
    pub(crate) labels: Labels,
}

/// The scores of some texts.
struct Scored {
    /// The model that answered.
    model: String,
    /// The scores of each text, in the order of the questions.
    texts: Vec<Vec<f64>>,
}

/// The questions that are put to each text.
struct TextQuestions {
    questions: Vec<Question>,
    /// The tenant's signals that override a built-in question, with their calibrations.
    overriding: Arc<QuestionSet>,
}

impl Moderation {
    /// Scores each text by each question, and charges for what was read.
    async fn score(
        &self,
        tenant: TenantId,
        texts: &[&str],
        questions: &[&BuiltInQuestion],
        caller: &Waiting,
    ) -> Result<Scored> {
        let rounds = u32::try_from(texts.len().div_ceil(CONCURRENT_CALLS)).unwrap_or(u32::MAX);
        let slot = self.slots.take_for(tenant, rounds).await?;
        self.slots
            .run(slot, async |slot| {
                self.store
                    .read("balance", async |conn: &mut Conn| self.balances.require_funds(conn, tenant).await)
                    .await?;
                let asked = self.asked(tenant, questions).await?;
                let (texts, response) = self.ask(tenant, texts, &asked, caller).await.map_err(refusal)?;
                let conclusion = conclude(&self.concluder, slot, response, None, None, false).await?;
                Ok(Scored { model: conclusion.response.model.clone(), texts })
            })
            .await
    }

    /// The questions, with a tenant's own signals where they override one.
    async fn asked(&self, tenant: TenantId, questions: &[&BuiltInQuestion]) -> Result<TextQuestions> {
        let keys: Vec<String> = questions.iter().map(|built_in| built_in.question.key.clone()).collect();
        let overriding = self.questions.get(tenant, SignalSelection::Keys(&keys)).await?;
        let own = |key: &str| {
            let mut own = overriding.questions().iter();
            own.find(|question| question.key == key && question.kind == SignalType::Noul)
        };
        let questions = questions
            .iter()
            .map(|built_in| own(&built_in.question.key).unwrap_or(&built_in.question).clone());
        Ok(TextQuestions { questions: questions.collect(), overriding })
    }

    /// Asks about each text. The response has the usage of all calls and no answers.
    async fn ask(
        &self,
        tenant: TenantId,
        texts: &[&str],
        asked: &TextQuestions,
        caller: &Waiting,
    ) -> std::result::Result<(Vec<Vec<f64>>, AnalyzerResponse), Failure> {
        let now = self.clock.now();
        let calls: Vec<BoxFuture<'_, _>> =
            texts.iter().map(|text| self.ask_about(tenant, state(text, now), asked, caller)).collect();
        let calls = futures_util::stream::iter(calls).buffered(CONCURRENT_CALLS);
        let responses: Vec<(Vec<f64>, AnalyzerResponse)> = calls.try_collect().await?;
        let mut scores = Vec::with_capacity(responses.len());
        let mut total: Option<AnalyzerResponse> = None;
        for (of_text, response) in responses {
            scores.push(of_text);
            total = Some(match total {
                Some(total) => total.with_usage_of(&response),
                None => response,
            });
        }
        let total = total.ok_or_else(|| Failure::Failed("there is no text".into()))?;
        Ok((scores, AnalyzerResponse { answers: Vec::new(), ..total }))
    }

    /// Asks about one text.
    fn ask_about<'a>(
        &'a self,
        tenant: TenantId,
        state: String,
        asked: &'a TextQuestions,
        caller: &'a Waiting,
    ) -> BoxFuture<'a, std::result::Result<(Vec<f64>, AnalyzerResponse), Failure>> {
        Box::pin(async move {
            let mut response = self.asker.inquire(tenant, &state, &asked.questions, Some(caller)).await?;
            let answers = asked.overriding.calibrated(std::mem::take(&mut response.answers));
            let scores = asked.questions.iter().map(|question| score_of(&answers, question));
            Ok((scores.collect::<std::result::Result<_, _>>()?, response))
        })
    }
}

/// The score of a question. One that the analyzer left out is not taken for a zero.
fn score_of(answers: &[Answer], question: &Question) -> std::result::Result<f64, Failure> {
    let answer = answers.iter().find(|answer| answer.signal == question.key);
    answer
        .and_then(|answer| answer.value.noul)
        .ok_or_else(|| Failure::Failed(format!("the analyzer did not answer {}", question.key).into()))
}

/// A text as the analyzer reads it: the only message of an object.
fn state(text: &str, now: Timestamp) -> String {
    let message = HistoryEvent {
        seq: 1,
        kind: EventType::Message,
        name: None,
        content: Some(text.to_owned()),
        metadata: None,
        occurred_at: now,
        received_at: now,
    };
    let history = History {
        object_type: OBJECT_TYPE.to_owned(),
        display_name: None,
        summary: None,
        recent: vec![message],
    };
    history.render()
}
