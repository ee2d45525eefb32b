//! The queues for operators: an overview, and moving stuck or dead work on, in steps.

use model::{TenantId, Timestamp};
use serde::Serialize;
use store::analysis::jobs::Priority;
use store::outbox::messages::Channel;
use store::upkeep::queues::{self, DeliveryKey, FailingEndpoint, JobKey, MessageKey, QueueState, Selection};
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{Clock, Result};

/// Rows that one transaction moves: few enough not to delay others.
const STEP: i64 = 500;
/// Failing endpoints that the overview shows.
const MAX_ENDPOINTS: i64 = 50;

/// The name of the queue of webhook deliveries.
pub(crate) const DELIVERIES: &str = "deliveries";

/// Before every key.
const NO_TENANT: TenantId = TenantId(Uuid::nil());
const FIRST_DELIVERY: DeliveryKey = (NO_TENANT, Uuid::nil(), Uuid::nil());
const FIRST_MESSAGE: MessageKey = (NO_TENANT, Uuid::nil());

fn first_job() -> JobKey {
    (NO_TENANT, String::new())
}

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

/// What waits in every queue, by its name.
pub(crate) async fn named_queues(conn: &mut Conn, now: Timestamp) -> Result<Vec<NamedQueue>> {
    let named = |name, state| NamedQueue { name, state };
    Ok(vec![
        named("analyses", queues::jobs(conn, Priority::Live, now).await?),
        named("bulk analyses", queues::jobs(conn, Priority::Bulk, now).await?),
        named(DELIVERIES, queues::pending_deliveries(conn, now).await?),
        named("mails", queues::messages(conn, Channel::Mail, now).await?),
        named("chats", queues::messages(conn, Channel::Slack, now).await?),
    ])
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
                let queues = named_queues(conn, now).await?;
                let (dead_letters, bulk_runs) = queues::ended_and_running(conn).await?;
                let failing_endpoints = queues::failing_endpoints(conn, MAX_ENDPOINTS).await?;
                Ok(QueueReport { at: now, queues, dead_letters, bulk_runs, failing_endpoints })
            })
            .await
    }

    /// Makes stuck or dead work due now; returns how much.
    pub async fn requeue(&self, kind: WorkKind, chosen: &Selection) -> Result<u64> {
        let now = self.clock.now();
        let messages = async |channel: Channel| {
            self.walk(FIRST_MESSAGE, async |conn: &mut Conn, after: &MessageKey| {
                queues::requeue_messages(conn, channel, chosen, after, now, STEP).await
            })
            .await
        };
        match kind {
            WorkKind::Analyses => {
                self.walk(first_job(), async |conn: &mut Conn, after: &JobKey| {
                    queues::requeue_jobs(conn, chosen, after, now, STEP).await
                })
                .await
            }
            WorkKind::Deliveries => {
                self.walk(FIRST_DELIVERY, async |conn: &mut Conn, after: &DeliveryKey| {
                    queues::requeue_deliveries(conn, chosen, after, now, STEP).await
                })
                .await
            }
            WorkKind::DeadLetters => {
                self.walk(FIRST_DELIVERY, async |conn: &mut Conn, after: &DeliveryKey| {
                    queues::requeue_dead_letters(conn, chosen, after, now, STEP).await
                })
                .await
            }
            WorkKind::Mails => messages(Channel::Mail).await,
            WorkKind::Chats => messages(Channel::Slack).await,
        }
    }

    /// Removes stuck or dead work; returns how much. A delivery that is dropped becomes a dead letter.
    pub async fn drop_work(&self, kind: WorkKind, chosen: &Selection) -> Result<u64> {
        let now = self.clock.now();
        let messages = async |channel: Channel| {
            self.walk(FIRST_MESSAGE, async |conn: &mut Conn, after: &MessageKey| {
                queues::drop_messages(conn, channel, chosen, after, now, STEP).await
            })
            .await
        };
        match kind {
            WorkKind::Analyses => {
                self.walk(first_job(), async |conn: &mut Conn, after: &JobKey| {
                    queues::drop_jobs(conn, chosen, after, now, STEP).await
                })
                .await
            }
            WorkKind::Deliveries => {
                self.walk(FIRST_DELIVERY, async |conn: &mut Conn, after: &DeliveryKey| {
                    queues::drop_deliveries(conn, chosen, after, now, STEP).await
                })
                .await
            }
            WorkKind::DeadLetters => {
                self.walk(FIRST_DELIVERY, async |conn: &mut Conn, after: &DeliveryKey| {
                    queues::drop_dead_letters(conn, chosen, after, STEP).await
                })
                .await
            }
            WorkKind::Mails => messages(Channel::Mail).await,
            WorkKind::Chats => messages(Channel::Slack).await,
        }
    }

    /// Walks through a queue step by step, in the order of keys: what fails again meanwhile is not met twice. Returns how many
    /// rows the steps have moved.
    async fn walk<K: Clone>(
        &self,
        first: K,
        step: impl AsyncFn(&mut Conn, &K) -> store::Result<Vec<K>>,
    ) -> Result<u64> {
        let (mut moved, mut after) = (0, first);
        loop {
            let keys =
                self.store.write("move_work", async |conn: &mut Conn| step(conn, &after).await).await?;
            let Some(last) = keys.last() else { return Ok(moved) };
            moved += keys.len() as u64;
            after = last.clone();
        }
    }
}
