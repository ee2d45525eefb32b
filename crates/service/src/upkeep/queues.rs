//! The queues for operators: an overview, and moving stuck or dead work on, in steps.

use model::{TenantId, Timestamp};
use serde::Serialize;
use store::analysis::jobs::Priority;
use store::outbox::messages::Channel;
use store::upkeep::queues::{self, DeadLetter, FailingEndpoint, QueueState, Selection};
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{Clock, Result};

/// Rows that one transaction moves: few enough not to delay others.
const STEP: i64 = 500;
/// Failing endpoints that the overview shows.
const MAX_ENDPOINTS: i64 = 50;

/// What can be moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Analyses that were tried before.
    Analyses,
    /// Webhook deliveries that wait for a later attempt.
    Deliveries,
    /// Deliveries that were given up.
    DeadLetters,
    /// Emails.
    Mails,
    /// Chat messages.
    Chats,
}

/// All queues at one instant.
#[derive(Clone, Debug, Serialize)]
pub struct QueueReport {
    /// When it was read.
    pub at: Timestamp,
    /// Every queue by its name.
    pub queues: Vec<NamedQueue>,
    /// Deliveries that were given up.
    pub dead_letters: i64,
    /// Bulk runs that have not ended.
    pub bulk_runs: i64,
    /// The endpoints with the most failures in a row.
    pub failing_endpoints: Vec<FailingEndpoint>,
}

/// A queue and its name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedQueue {
    /// What it holds.
    pub name: &'static str,
    /// How much.
    #[serde(flatten)]
    pub state: QueueState,
}

/// The queues for operators.
#[derive(Clone)]
pub struct Queues {
    store: Store,
    clock: Clock,
}

impl Queues {
    /// The queues of a deployment.
    pub fn new(store: Store, clock: Clock) -> Self {
        // Its statements may read much of a queue.
        Self { store: store.for_maintenance(), clock }
    }

    /// What waits in every queue.
    pub async fn report(&self) -> Result<QueueReport> {
        let now = self.clock.now();
        self.store
            .snapshot("queues", async |conn: &mut Conn| {
                let named = |name, state| NamedQueue { name, state };
                let queues = vec![
                    named("analyses", queues::jobs(conn, Priority::Live, now).await?),
                    named("bulk analyses", queues::jobs(conn, Priority::Bulk, now).await?),
                    named("deliveries", queues::pending_deliveries(conn, now).await?),
                    named("mails", queues::messages(conn, Channel::Mail, now).await?),
                    named("chats", queues::messages(conn, Channel::Slack, now).await?),
                ];
                let (dead_letters, bulk_runs) = queues::ended_and_running(conn).await?;
                let failing_endpoints = queues::failing_endpoints(conn, MAX_ENDPOINTS).await?;
                Ok(QueueReport { at: now, queues, dead_letters, bulk_runs, failing_endpoints })
            })
            .await
    }

    /// Makes stuck or dead work due now; returns how much.
    pub async fn requeue(&self, kind: WorkKind, chosen: &Selection) -> Result<u64> {
        let now = self.clock.now();
        if kind == WorkKind::DeadLetters {
            let requeue = async |conn: &mut Conn, dead: &[DeadLetter]| {
                queues::requeue_dead_letters(conn, dead, now).await
            };
            return self.each_dead_letter(chosen, requeue).await;
        }
        self.in_steps(async |conn: &mut Conn| match kind {
            WorkKind::Analyses => queues::requeue_jobs(conn, chosen, now, STEP).await,
            WorkKind::Deliveries => queues::requeue_deliveries(conn, chosen, now, STEP).await,
            WorkKind::DeadLetters => Ok(0),
            WorkKind::Mails => queues::requeue_messages(conn, Channel::Mail, chosen, now, STEP).await,
            WorkKind::Chats => queues::requeue_messages(conn, Channel::Slack, chosen, now, STEP).await,
        })
        .await
    }

    /// Removes stuck or dead work; returns how much. A delivery that is dropped becomes a dead letter.
    pub async fn drop_work(&self, kind: WorkKind, chosen: &Selection) -> Result<u64> {
        let now = self.clock.now();
        if kind == WorkKind::DeadLetters {
            return self.each_dead_letter(chosen, queues::drop_dead_letters).await;
        }
        self.in_steps(async |conn: &mut Conn| match kind {
            WorkKind::Analyses => queues::drop_jobs(conn, chosen, now, STEP).await,
            WorkKind::Deliveries => queues::drop_deliveries(conn, chosen, now, STEP).await,
            WorkKind::DeadLetters => Ok(0),
            WorkKind::Mails => queues::drop_messages(conn, Channel::Mail, chosen, now, STEP).await,
            WorkKind::Chats => queues::drop_messages(conn, Channel::Slack, chosen, now, STEP).await,
        })
        .await
    }

    /// Repeats a step until it finds no more; returns how many rows it moved in all.
    async fn in_steps(&self, step: impl AsyncFn(&mut Conn) -> store::Result<u64>) -> Result<u64> {
        let mut moved = 0;
        loop {
            match self.store.write("move_work", &step).await? {
                0 => return Ok(moved),
                rows => moved += rows,
            }
        }
    }

    /// Does something to each dead letter once, in the order of their keys: one that dies again meanwhile is not met twice,
    /// and the clock of the operator's machine does not matter.
    async fn each_dead_letter(
        &self,
        chosen: &Selection,
        action: impl AsyncFn(&mut Conn, &[DeadLetter]) -> store::Result<()>,
    ) -> Result<u64> {
        let mut moved = 0;
        let mut after = (TenantId(Uuid::nil()), Uuid::nil(), Uuid::nil());
        loop {
            let dead = self
                .store
                .write("move_dead_letters", async |conn: &mut Conn| {
                    let dead = queues::dead_letters(conn, chosen, after, STEP).await?;
                    action(conn, &dead).await?;
                    Ok::<_, store::Error>(dead)
                })
                .await?;
            let Some(last) = dead.last() else { return Ok(moved) };
            moved += dead.len() as u64;
            after = *last;
        }
    }
}
