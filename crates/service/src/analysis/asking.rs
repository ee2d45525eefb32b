//! Calls of the analyzers. Their input is prepared in `history`; their answers are written by the concluder.

use std::ops::Range;

use analyzer::{Failure, Inquiry};
use model::{Question, TenantId, Timestamp};

use crate::analysis::history::AnalysisInput;
use crate::analysis::questions::QuestionSet;
use crate::analysis::recent_calls::CallCounts;
use crate::analysis::response::AnalyzerResponse;
use crate::analysis::second_analyzer::Escalator;
use crate::analysis::stage::Stage;
use crate::runtime::Waiting;

/// Calls the analyzers: the first one for everything, and for a tenant's signals a second one where the first is unsure. Cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct Asker {
    first: Stage,
    second: Option<Escalator>,
}

impl Asker {
    pub(crate) fn new(first: Stage, second: Option<Escalator>) -> Self {
        Self { first, second }
    }

    /// The first analyzer's default model.
    pub(crate) fn model(&self) -> &str {
        self.first.model()
    }

    /// The second analyzer, if there is one.
    pub(crate) fn second(&self) -> Option<&Stage> {
        self.second.as_ref().map(Escalator::stage)
    }

    /// How the first analyzer answered this process in the last ten minutes.
    pub(crate) fn recent_calls(&self, now: Timestamp) -> CallCounts {
        self.first.recent_calls(now)
    }

    /// How many queued jobs may run concurrently now, and when to check again if that is none.
    pub(crate) fn allowed(&self, now: Timestamp) -> (usize, Option<Timestamp>) {
        self.first.allowed(now)
    }

    /// Asks a tenant's signals about an object: first the first analyzer, as [`Self::ask`] does, then the second one where the
    /// first is unsure. Only the first one's failures are failures.
    pub(crate) async fn ask_in_stages(
        &self,
        tenant: TenantId,
        input: &AnalysisInput,
        caller: Option<&Waiting>,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        let response = self.ask(tenant, input, caller).await?;
        Ok(match &self.second {
            Some(escalator) => escalator.escalate(tenant, input, response, caller).await,
            None => response,
        })
    }

    /// Asks the first analyzer the questions about an object of a tenant, and calibrates the answers of signals that have a
    /// calibration; `caller` waits for the answers, if anybody does.
    pub(crate) async fn ask(
        &self,
        tenant: TenantId,
        input: &AnalysisInput,
        caller: Option<&Waiting>,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        self.ask_about(tenant, &input.state, &input.questions, caller).await
    }

    /// Asks the first analyzer the questions about a text, and calibrates the answers of signals that have a calibration.
    pub(crate) async fn ask_about(
        &self,
        tenant: TenantId,
        state: &str,
        questions: &QuestionSet,
        caller: Option<&Waiting>,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        Ok(self.inquire(tenant, state, questions.questions(), caller).await?.calibrated(questions))
    }

    /// Asks the first analyzer the only question about an object, and again without each of some parts of its history; see
    /// [`analyzer::Analyzer::analyze_unread`]. None if it cannot do so.
    pub(crate) async fn ask_unread(
        &self,
        tenant: TenantId,
        input: &AnalysisInput,
        parts: &[Range<usize>],
        caller: &Waiting,
    ) -> Option<std::result::Result<AnalyzerResponse, Failure>> {
        let questions = input.questions.questions();
        let inquiry = Inquiry { state: &input.state, questions, is_urgent: true, tenant: Some(tenant) };
        let analysis = self.first.analyzer().analyze_unread(inquiry, parts)?;
        let response = self.first.respond(inquiry, analysis, Some(caller)).await;
        Some(response.map(|response| response.calibrated(&input.questions)))
    }

    /// The tokens that the first analyzer will read to answer questions about a text; see [`Stage::count_tokens`].
    pub(crate) async fn count_tokens(&self, tenant: TenantId, state: &str, questions: &[Question]) -> u64 {
        self.first.count_tokens(tenant, state, questions).await
    }

    /// Asks the first analyzer questions about a text.
    pub(crate) async fn inquire(
        &self,
        tenant: TenantId,
        state: &str,
        questions: &[Question],
        caller: Option<&Waiting>,
    ) -> std::result::Result<AnalyzerResponse, Failure> {
        self.first.inquire(tenant, state, questions, caller).await
    }
}
