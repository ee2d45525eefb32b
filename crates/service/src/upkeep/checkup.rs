//! The health of the whole install, for operators: measured here, judged in `diagnosis`.

use std::time::{Duration, Instant};

use model::Timestamp;
use model::api::{HealthPart, InstallHealth};
use store::actions::webhooks::queue;
use store::runtime::nodes;
use store::upkeep::checkup;
use store::upkeep::queues::QueueState;
use store::{Conn, Store};

use crate::analysis::Asker;
use crate::runtime::{Clock, HEARTBEAT_LIFETIME, Health, Result, clock_offset_s};
use crate::upkeep::diagnosis::{self, Waiting};
use crate::upkeep::queues::{DELIVERIES, NamedQueue, named_queues};
use crate::upkeep::readiness::Readiness;

/// Finds out how the install is.
pub struct Checkup {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) asker: Asker,
    pub(crate) health: Health,
    /// Whether mails are sent; otherwise they are written to files.
    pub(crate) sends_mail: bool,
}

/// What the database says about itself and the nodes.
struct DatabaseFindings {
    version: String,
    connections: Option<(i64, i64)>,
    live: i64,
    silent: i64,
    took: Duration,
}

/// What waits.
struct QueueFindings {
    queues: Vec<NamedQueue>,
    /// When the next delivery is due to a receiver that may be tried.
    next_delivery: Option<Timestamp>,
    /// Accounts with an endpoint that rests.
    resting_accounts: i64,
}

impl Checkup {
    /// The health of every part; the disk is what this process sees of it.
    pub async fn health(&self, readiness: &Readiness, disk: HealthPart) -> Result<InstallHealth> {
        let now = self.clock.now();
        let database = self.ask_database(now).await?;
        let offset = clock_offset_s(&self.store, &self.clock).await?;
        let refusal = readiness.check_database().await.err();
        let QueueFindings { queues, next_delivery, resting_accounts } = self.ask_queues(now).await?;
        // What waits for a receiver that rests, or for an endpoint or an account that is switched off, is not late.
        let since = |queue: &NamedQueue| match queue.name {
            DELIVERIES => next_delivery,
            _ => queue.state.oldest_due,
        };
        let all: Vec<Waiting<'_>> = queues
            .iter()
            .map(|queue| Waiting { name: queue.name, state: &queue.state, late: late(since(queue), now) })
            .collect();
        let of = |name: &str| all.iter().find(|queue| queue.name == name);
        let idle = QueueState::default();
        let idle = || Waiting { name: "", state: &idle, late: Duration::ZERO };
        let (live, deliveries, mails) = (of("analyses"), of(DELIVERIES), of("mails"));
        Ok(InstallHealth {
            queues: diagnosis::queues(&all),
            lag: diagnosis::lag(live.map_or(Duration::ZERO, |queue| queue.late)),
            analyzer: diagnosis::analyzer(
                self.asker.model(),
                self.asker.recent_calls(now),
                live.map_or(0, |queue| queue.state.retried),
            ),
            second_analyzer: self
                .asker
                .second()
                .map(|second| diagnosis::second_analyzer(second.model(), second.recent_calls(now))),
            deliveries: diagnosis::deliveries(deliveries.unwrap_or(&idle()), resting_accounts),
            mail: diagnosis::mail(mails.unwrap_or(&idle()), self.sends_mail),
            database: diagnosis::database(
                &database.version,
                database.took,
                database.connections,
                offset,
                refusal.as_ref().map(crate::runtime::Error::message),
            ),
            nodes: diagnosis::nodes(database.live, database.silent, &self.health.failing_workers()),
            disk,
        })
    }

    async fn ask_queues(&self, now: Timestamp) -> Result<QueueFindings> {
        self.store
            .read("checkup_queues", async |conn: &mut Conn| {
                Ok(QueueFindings {
                    queues: named_queues(conn, now).await?,
                    next_delivery: queue::next_due(conn).await?,
                    resting_accounts: checkup::resting_accounts(conn, now).await?,
                })
            })
            .await
    }

    async fn ask_database(&self, now: Timestamp) -> Result<DatabaseFindings> {
        let begun = Instant::now();
        let alive = now - HEARTBEAT_LIFETIME;
        self.store
            .read("checkup", async |conn: &mut Conn| {
                Ok(DatabaseFindings {
                    version: checkup::version(conn).await?,
                    connections: checkup::connections(conn).await?,
                    live: nodes::seen_after(conn, alive).await?,
                    silent: nodes::seen_until(conn, alive).await?,
                    took: begun.elapsed(),
                })
            })
            .await
    }
}

fn late(since: Option<Timestamp>, now: Timestamp) -> Duration {
    since.map_or(Duration::ZERO, |since| now.since(since))
}
