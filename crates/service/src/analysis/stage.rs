//! An analyzer as it is called: with its concurrency limit, how it has answered lately, and its calls in traces.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use analyzer::{AdaptiveLimit, Analyzer, BoxFuture, Failure, Inquiry, InquiryAnswers};
use model::{Answer, Question, TenantId, Timestamp};
use opentelemetry::trace::SpanKind;

use crate::analysis::recent_calls::{CallCounts, RecentCalls};
use crate::analysis::response::{AnalyzerResponse, none_answered};
use crate::runtime::{Clock, Traces, Waiting, traces};

/// The most tokens that one analysis is charged for: a server that reports wrong numbers must not empty a balance.
const MAX_TOKENS: u64 = 10_000_000;
/// How long a token is, where the analyzer cannot count them.
const BYTES_PER_TOKEN: u64 = 4;

/// Calls one analyzer, with a concurrency limit for queued jobs that adapts to its load. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stage {
    analyzer: Arc<dyn Analyzer>,
    clock: Clock,
    traces: Traces,
    limit: Arc<Mutex<AdaptiveLimit>>,
    recent: Arc<RecentCalls>,
}

impl Stage {
    /// Calls `analyzer`; at most `workers` queued jobs run concurrently.
    pub(crate) fn new(analyzer: Arc<dyn Analyzer>, clock: Clock, traces: Traces, workers: usize) -> Self {
        Self {
            analyzer,
            clock,
            traces,
            limit: Arc::new(Mutex::new(AdaptiveLimit::new(workers))),
            recent: Arc::default(),
        }
    }

    /// The analyzer's default model.
    pub(crate) fn model(&self) -> &str {
        self.analyzer.model()
    }

    /// The analyzer itself.
    pub(crate) fn analyzer(&self) -> &dyn Analyzer {
        self.analyzer.as_ref()
    }

    /// How the analyzer answered this process in the last ten minutes.
    pub(crate) fn recent_calls(&self, now: Timestamp) -> CallCounts {
        self.recent.counts(now)
    }

    /// The tokens that answering questions about a text will read: counted where the analyzer can, otherwise by a rule of thumb.
    pub(crate) async fn count_tokens(&self, tenant: TenantId, state: &str, questions: &[Question]) -> u64 {
        let inquiry = Inquiry { state, questions, is_urgent: false, tenant: Some(tenant) };
        if let Some(tokens) = self.analyzer.count_tokens(inquiry).await {
            return tokens.min(MAX_TOKENS);
        }
        let bytes = state.len() + questions.iter().map(Question::length).sum::<usize>();
        (bytes as u64).div_ceil(BYTES_PER_TOKEN).min(MAX_TOKENS)
    }

    /// Asks questions about a text.
    pub(crate) async fn inquire(
        &self,
        tenant: TenantId,
        state: &str,
        questions: &[Question],
        caller: Option<&Waiting>,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        let inquiry = Inquiry { state, questions, is_urgent: caller.is_some(), tenant: Some(tenant) };
        self.respond(inquiry, self.analyzer.analyze(inquiry), caller).await
    }

    /// Awaits an analysis of the inquiry, until its caller leaves.
    pub(crate) async fn respond(
        &self,
        inquiry: Inquiry<'_>,
        analysis: BoxFuture<'_, std::result::Result<InquiryAnswers, Failure>>,
        caller: Option<&Waiting>,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        let started = Instant::now();
        let started_at = self.clock.now();
        let outcome = match caller {
            Some(caller) if self.analyzer.is_cancellable() => tokio::select! {
                biased;
                outcome = self.in_span(inquiry, analysis) => outcome,
                () = caller.left() => Err(Failure::CallerLeft),
            },
            _ => self.in_span(inquiry, analysis).await,
        };
        self.adapt(started_at, outcome.as_ref().err());
        self.recent.record(self.clock.now(), outcome.as_ref().err());
        let reply: InquiryAnswers = outcome?;
        // An analysis that leaves parts unread has several answers to its only question.
        let questions = inquiry.questions.iter().cycle();
        let answers = questions.zip(&reply.answers).filter_map(|(question, finding)| {
            let distribution = finding.as_ref().ok()?;
            Answer::new(question, distribution).ok()
        });
        let answers: Vec<Answer> = answers.collect();
        if answers.is_empty() {
            return Err(none_answered());
        }
        Ok(AnalyzerResponse {
            answers,
            model: reply.model,
            input_tokens: reply.input_tokens.min(MAX_TOKENS),
            output_tokens: reply.output_tokens.min(MAX_TOKENS),
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            traceparent: traces::current(),
            second: None,
        })
    }

    /// Awaits an analysis in a span that follows OpenTelemetry's conventions for generative AI.
    async fn in_span(
        &self,
        inquiry: Inquiry<'_>,
        analysis: BoxFuture<'_, std::result::Result<InquiryAnswers, Failure>>,
    ) -> std::result::Result<InquiryAnswers, Failure> {
        let call = self.traces.child("ask", SpanKind::Client);
        call.note("gen_ai.operation.name", "generate_content");
        call.note("gen_ai.request.model", self.analyzer.model().to_owned());
        call.note("auspex.questions", i64::try_from(inquiry.questions.len()).unwrap_or(i64::MAX));
        let outcome = call.around(analysis).await;
        match &outcome {
            Ok(reply) => {
                let tokens = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                call.note("gen_ai.response.model", reply.model.clone());
                call.note("gen_ai.usage.input_tokens", tokens(reply.input_tokens));
                call.note("gen_ai.usage.output_tokens", tokens(reply.output_tokens));
            }
            Err(Failure::Throttled { .. }) => call.fail("throttled"),
            Err(Failure::Busy) => call.fail("busy"),
            Err(Failure::Down(_)) => call.fail("down"),
            Err(Failure::Failed(_)) => call.fail("failed"),
            Err(Failure::OutOfTime) => call.fail("out_of_time"),
            Err(Failure::CallerLeft) => call.fail("caller_left"),
        }
        outcome
    }

    /// Adapts the limit: an analyzer that is rate-limiting or down slows the queue.
    fn adapt(&self, started_at: Timestamp, failure: Option<&Failure>) {
        let now = self.clock.now();
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => limit.succeeded(started_at),
            Some(Failure::Throttled { retry_after }) => limit.throttled(started_at, *retry_after, now),
            Some(Failure::Down(_)) => limit.throttled(started_at, None, now),
            // Inquiries of the same account may be all that it waited for: the others need not slow down.
            Some(Failure::Busy | Failure::Failed(_) | Failure::OutOfTime | Failure::CallerLeft) => {}
        }
    }

    /// How many queued jobs may run concurrently now, and when to check again if that is none.
    pub(crate) fn allowed(&self, now: Timestamp) -> (usize, Option<Timestamp>) {
        let limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        (limit.allowed(now), limit.resume_at(now))
    }
}
