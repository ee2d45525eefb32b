//! One analysis: what is asked, at which pace, and what it costs. What was read before is in `histories`; what follows is
//! written by the concluder.

use std::sync::PoisonError;
use std::time::Instant;

use analyzer::{Failure, Findings, Inquiry};
use model::{Answer, TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use store::Conn;
use store::billing::balance;

use crate::analysis::history::History;
use crate::{Error, Kind, Result, Service};
use crate::runtime::traces;

/// Tokens of one analysis that are believed: a server that makes up its numbers must not empty an account.
const MAX_TOKENS: u64 = 10_000_000;

/// What an analyzer found, with the answers that could be made of it.
pub(crate) struct Found {
    pub(crate) answers: Vec<Answer>,
    pub(crate) model: String,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) latency_ms: u64,
    /// The trace that the asking is part of.
    pub(crate) traceparent: Option<String>,
}

impl Service {
    /// Asks the analyzer.
    pub(crate) async fn ask(&self, read: &History, is_urgent: bool) -> std::result::Result<Found, Failure> {
        self.inquire(Inquiry { state: &read.state, questions: read.asked.questions(), is_urgent }).await
    }

    /// Asks the analyzer about a text.
    pub(crate) async fn inquire(&self, inquiry: Inquiry<'_>) -> std::result::Result<Found, Failure> {
        let started = Instant::now();
        let begun = self.clock.now();
        let outcome = self.call_analyzer(inquiry).await;
        self.keep_pace(begun, outcome.as_ref().err());
        let findings: Findings = outcome?;
        let answers = inquiry.questions.iter().zip(&findings.answers).filter_map(|(question, finding)| {
            let distribution = finding.as_ref().ok()?;
            Answer::new(question, distribution).ok()
        });
        let answers: Vec<Answer> = answers.collect();
        if answers.is_empty() {
            return Err(Failure::Failed("the analyzer answered none of the questions".into()));
        }
        Ok(Found {
            answers,
            model: findings.model,
            input_tokens: findings.input_tokens.min(MAX_TOKENS),
            output_tokens: findings.output_tokens.min(MAX_TOKENS),
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            traceparent: traces::current(),
        })
    }

    /// Calls the analyzer, and tells a trace of it by the conventions for generative models.
    async fn call_analyzer(&self, inquiry: Inquiry<'_>) -> std::result::Result<Findings, Failure> {
        let call = self.traces.part("ask", SpanKind::Client);
        call.note("gen_ai.operation.name", "generate_content");
        call.note("gen_ai.request.model", self.analyzer.model().to_owned());
        call.note("auspex.questions", i64::try_from(inquiry.questions.len()).unwrap_or(i64::MAX));
        let outcome = call.around(self.analyzer.analyze(inquiry)).await;
        match &outcome {
            Ok(findings) => {
                let tokens = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                call.note("gen_ai.response.model", findings.model.clone());
                call.note("gen_ai.usage.input_tokens", tokens(findings.input_tokens));
                call.note("gen_ai.usage.output_tokens", tokens(findings.output_tokens));
            }
            Err(Failure::Throttled { .. }) => call.fail("throttled"),
            Err(Failure::Down(_)) => call.fail("down"),
            Err(Failure::Failed(_)) => call.fail("failed"),
        }
        outcome
    }

    /// Learns how much the analyzer bears: one that asks for patience, or is gone, slows the queue down.
    fn keep_pace(&self, begun: Timestamp, failure: Option<&Failure>) {
        let now = self.clock.now();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => pace.succeeded(begun),
            Some(Failure::Throttled { retry_after }) => pace.throttled(begun, *retry_after, now),
            Some(Failure::Down(_)) => pace.throttled(begun, None, now),
            Some(Failure::Failed(_)) => {}
        }
    }

    /// How many analyses may run at a time now, and when to ask again if that is none.
    pub(crate) fn allowed(&self, now: Timestamp) -> (usize, Option<Timestamp>) {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        (pace.allowed(now), pace.resume_at(now))
    }

    /// What an analysis is charged, in micro-dollars.
    pub(crate) fn price_of(&self, found: &Found) -> i64 {
        if !self.options.metering {
            return 0;
        }
        self.options.tariff_of(&found.model).charge(found.input_tokens, found.output_tokens).micros
    }

    /// Refuses an empty balance.
    pub(crate) async fn demand_balance(&self, conn: &mut Conn, tenant: TenantId) -> Result<()> {
        if self.options.blocks() && balance::balance(conn, tenant).await? <= 0 {
            return Err(crate::objects::ingest::payment_required());
        }
        Ok(())
    }
}

/// What a caller who waits is told of an analyzer's failure.
pub(crate) fn refusal(failure: Failure) -> Error {
    match failure {
        Failure::Throttled { retry_after } => {
            Error::new(Kind::AnalyzerBusy, "the analyzer asks for patience")
                .retry_after(retry_after.unwrap_or(std::time::Duration::from_secs(5)))
        }
        Failure::Down(cause) | Failure::Failed(cause) => {
            Error::new(Kind::AnalyzerError, "the analyzer failed").because(cause)
        }
    }
}
