//! The embedded model (`auspex-decider`) as an analyzer. It runs offline, in this process.

use std::sync::Arc;

use decider::DeciderPool;
use tokio::sync::oneshot;

use crate::instrument::instrumented;
use crate::slots::Slots;
use crate::{Analyzer, AnswerError, BoxFuture, Failure, Findings, Inquiry};

/// The embedded model. Clones share it.
#[derive(Clone)]
pub struct Embedded {
    pool: DeciderPool,
    /// One inquiry for each thread: more would only compete for the threads and take memory.
    slots: Arc<Slots>,
}

impl Embedded {
    /// Starts to load the model in the background. Fails where no thread can be started.
    pub fn new() -> Result<Self, Failure> {
        let pool = DeciderPool::start().map_err(Failure::failed)?;
        let slots = Arc::new(Slots::new(pool.threads()));
        Ok(Self { pool, slots })
    }

    async fn findings(&self, inquiry: Inquiry<'_>) -> Result<Findings, Failure> {
        let _slot = self.slots.acquire(inquiry.is_urgent).await?;
        let (sender, receiver) = oneshot::channel();
        self.pool.decide(inquiry.state.to_owned(), inquiry.questions.to_vec(), move |decision| {
            // The caller may have stopped waiting.
            let _ = sender.send(decision);
        });
        let decision = receiver.await.map_err(Failure::failed)?.map_err(Failure::failed)?;
        let answers = decision.answers.into_iter();
        Ok(Findings {
            model: decider::MODEL.to_owned(),
            answers: answers.map(|answer| answer.map_err(|_| AnswerError::Incomplete)).collect(),
            input_tokens: decision.input_tokens,
            output_tokens: 0,
        })
    }
}

impl Analyzer for Embedded {
    fn model(&self) -> &str {
        decider::MODEL
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>> {
        Box::pin(instrumented("embedded", self, inquiry, self.findings(inquiry)))
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Embedded").field("model", &decider::MODEL).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use model::{Question, SignalType};

    use super::*;

    #[tokio::test]
    async fn answers_are_recorded_under_the_name_of_the_model() {
        let embedded = Embedded::new().unwrap();
        let questions = [Question::parse("key", SignalType::Noul, "\"Is it?\"", None).unwrap()];
        let ask = |questions| embedded.analyze(Inquiry { is_urgent: false, state: "It is.", questions });
        let findings = ask(&questions).await.unwrap();
        assert_eq!((findings.model.as_str(), embedded.model()), ("auspex-1.0", "auspex-1.0"));
        assert!(findings.answers[0].is_ok());
        assert!(findings.input_tokens > 4 && findings.output_tokens == 0);
        assert!(ask(&[]).await.unwrap().answers.is_empty());
    }
}
