//! The embedded model (`auspex-decider`) as an analyzer. It runs offline, in this process.
//!
//! An inquiry is answered in passes of a second or two of one core at most. Between two passes it waits for its turn, so
//! that a long inquiry of one tenant does not occupy the model, and it ends there if its caller has left or its time is up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use decider::{Decider, DeciderPool, Decision, Evaluation, InvalidWeights, Progress};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fair_slots::{FairSlots, Turn};
use crate::instrument::instrumented;
use crate::{Analyzer, AnswerError, BoxFuture, Failure, Inquiry, InquiryAnswers};

/// Inquiries that have begun, for each thread. Each takes memory: 20 MB usually, 100 MB at most.
const INQUIRIES_PER_THREAD: usize = 4;

/// The embedded model. Clones share it.
#[derive(Clone)]
pub struct Embedded {
    pool: DeciderPool,
    /// For inquiries that have begun. A tenant has at most a quarter of them.
    slots: Arc<FairSlots>,
    /// For passes, one for each thread: more would only compete for the threads and take memory.
    turns: Arc<FairSlots>,
    /// How long an inquiry may take.
    limit: Duration,
}

impl Embedded {
    /// Starts to load the model in the background. An inquiry is given up after `limit`. Fails where no thread can be
    /// started.
    pub fn new(limit: Duration) -> Result<Self, Failure> {
        let pool = DeciderPool::start().map_err(Failure::failed)?;
        let threads = pool.threads();
        let slots = FairSlots::new(threads * INQUIRIES_PER_THREAD, threads);
        Ok(Self { pool, slots, turns: FairSlots::new(threads, threads), limit })
    }

    /// Answers an inquiry, whose evaluation is begun by `begin`, within the time that it may take.
    async fn reply(
        &self,
        inquiry: Inquiry<'_>,
        begin: impl FnOnce(&Decider) -> Evaluation + Send + 'static,
    ) -> Result<InquiryAnswers, Failure> {
        let has_begun = AtomicBool::new(false);
        let decision = match timeout(self.limit, self.decide(inquiry, begin, &has_begun)).await {
            Ok(decision) => decision?,
            Err(_) if has_begun.load(Ordering::Relaxed) => return Err(Failure::OutOfTime),
            Err(_) => return Err(Failure::Busy),
        };
        let answers = decision.answers.into_iter();
        Ok(InquiryAnswers {
            model: decider::MODEL.to_owned(),
            answers: answers.map(|answer| answer.map_err(|_| AnswerError::Incomplete)).collect(),
            input_tokens: decision.input_tokens,
            output_tokens: 0,
        })
    }

    /// Answers an inquiry, pass by pass. If this is dropped, the pass that is being made is the last one.
    async fn decide(
        &self,
        inquiry: Inquiry<'_>,
        begin: impl FnOnce(&Decider) -> Evaluation + Send + 'static,
        has_begun: &AtomicBool,
    ) -> Result<Decision, Failure> {
        let Inquiry { is_urgent, tenant, .. } = inquiry;
        let slot = Arc::new(self.slots.take(tenant, is_urgent).await);
        let turn = self.turns.take(tenant, is_urgent).await;
        has_begun.store(true, Ordering::Relaxed);
        let lease = PassLease { _turn: turn, _slot: Arc::clone(&slot) };
        let (sender, receiver) = oneshot::channel();
        self.pool.begin(begin, move |begun| lease.send(sender, begun));
        let mut evaluation: Evaluation = received(receiver).await?;
        loop {
            let turn = self.turns.take(tenant, is_urgent).await;
            let lease = PassLease { _turn: turn, _slot: Arc::clone(&slot) };
            let (sender, receiver) = oneshot::channel();
            self.pool.advance(evaluation, move |progress| lease.send(sender, progress));
            match received(receiver).await? {
                Progress::More(more) => evaluation = more,
                Progress::Done(decision) => return Ok(decision),
            }
        }
    }
}

/// Begins to answer the questions of an inquiry.
fn all_questions(inquiry: Inquiry<'_>) -> impl FnOnce(&Decider) -> Evaluation + Send + 'static {
    let (state, questions) = (inquiry.state.to_owned(), inquiry.questions.to_vec());
    move |decider| decider.begin(&state, questions)
}

/// What a pass occupies until it has ended, even if nobody waits for it any more.
struct PassLease {
    _turn: Turn,
    _slot: Arc<Turn>,
}

type Outcome<T> = Result<T, InvalidWeights>;

impl PassLease {
    /// Ends the turn and hands the outcome to the caller, if there still is one.
    fn send<T>(self, sender: oneshot::Sender<Outcome<T>>, outcome: Outcome<T>) {
        // What nobody waits for is freed before its slot is.
        drop(sender.send(outcome));
        drop(self);
    }
}

async fn received<T>(receiver: oneshot::Receiver<Outcome<T>>) -> Result<T, Failure> {
    receiver.await.map_err(Failure::failed)?.map_err(Failure::failed)
}

impl Analyzer for Embedded {
    fn model(&self) -> &str {
        decider::MODEL
    }

    fn count_tokens<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async move {
            let Inquiry { is_urgent, tenant, .. } = inquiry;
            let slot = Arc::new(self.slots.take(tenant, is_urgent).await);
            let turn = self.turns.take(tenant, is_urgent).await;
            let lease = PassLease { _turn: turn, _slot: slot };
            let (sender, receiver) = oneshot::channel();
            self.pool.begin(all_questions(inquiry), move |begun| lease.send(sender, begun));
            let begun: Evaluation = received(receiver).await.ok()?;
            Some(begun.input_tokens())
        })
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        Box::pin(instrumented("embedded", self, inquiry, self.reply(inquiry, all_questions(inquiry))))
    }

    fn analyze_unread<'a>(
        &'a self,
        inquiry: Inquiry<'a>,
        parts: &'a [Range<usize>],
    ) -> Option<BoxFuture<'a, Result<InquiryAnswers, Failure>>> {
        let [question] = inquiry.questions else { return None };
        let (state, question, parts) = (inquiry.state.to_owned(), question.clone(), parts.to_vec());
        let begin = move |decider: &Decider| decider.begin_unread(&state, &question, &parts);
        let reply = async move {
            let reply = self.reply(inquiry, begin).await?;
            // Answers are told apart by their index, so all of them must be there.
            match reply.answers.iter().find_map(|answer| answer.as_ref().err()) {
                Some(error) => Err(Failure::failed(error.clone())),
                None => Ok(reply),
            }
        };
        Some(Box::pin(instrumented("embedded", self, inquiry, reply)))
    }

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Embedded").field("model", &decider::MODEL).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
