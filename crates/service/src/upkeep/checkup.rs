//! The health of the whole install, for operators: measured here, judged in `judgement`.

use std::time::{Duration, Instant};

use model::Timestamp;
use model::api::{HealthPart, InstallHealth};
use store::runtime::nodes;
use store::upkeep::checkup;
use store::upkeep::queues::QueueState;
use store::{Conn, Store};

use crate::analysis::Asker;
use crate::runtime::{Clock, Health, Result, clock_offset_s};
use crate::upkeep::judgement::{self, Waiting};
use crate::upkeep::queues::{QueueReport, Queues};
use crate::upkeep::readiness::Readiness;

/// A node whose heartbeat is older than this has stopped.
const HEARTBEAT_LIFETIME: Duration = Duration::from_secs(15);

/// Finds out how the install is.
pub struct Checkup {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) queues: Queues,
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

impl Checkup {
    /// The health of every part; the disk is what this process sees of it.
    pub async fn health(&self, readiness: &Readiness, disk: HealthPart) -> Result<InstallHealth> {
        let now = self.clock.now();
        let database = self.ask_database(now).await?;
        let offset = clock_offset_s(&self.store, &self.clock).await?;
        let refusal = readiness.check_database().await.err();
        let report = self.queues.report().await?;
        let all: Vec<Waiting<'_>> =
            report.queues.iter().map(|queue| waiting(queue.name, &queue.state, now)).collect();
        let of = |name: &str| all.iter().find(|queue| queue.name == name);
        let idle = QueueState::default();
        let idle = || Waiting { name: "", state: &idle, late: Duration::ZERO };
        let (live, deliveries, mails) = (of("analyses"), of("deliveries"), of("mails"));
        Ok(InstallHealth {
            queues: judgement::queues(&all),
            lag: judgement::lag(live.map_or(Duration::ZERO, |queue| queue.late)),
            analyzer: judgement::analyzer(
                self.asker.model(),
                self.asker.recent_calls(now),
                live.map_or(0, |queue| queue.state.retried),
            ),
            deliveries: judgement::deliveries(deliveries.unwrap_or(&idle()), resting_accounts(&report, now)),
            mail: judgement::mail(mails.unwrap_or(&idle()), self.sends_mail),
            database: judgement::database(
                &database.version,
                database.took,
                database.connections,
                offset,
                refusal.as_ref().map(crate::runtime::Error::message),
            ),
            nodes: judgement::nodes(database.live, database.silent, &self.health.failing_workers()),
            disk,
        })
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

fn waiting<'a>(name: &'static str, state: &'a QueueState, now: Timestamp) -> Waiting<'a> {
    Waiting { name, state, late: state.oldest_due.map_or(Duration::ZERO, |since| now.since(since)) }
}

/// In how many accounts an endpoint rests.
fn resting_accounts(report: &QueueReport, now: Timestamp) -> usize {
    let resting = report.failing_endpoints.iter();
    let resting = resting.filter(|endpoint| endpoint.resting_until.is_some_and(|until| until > now));
    let mut accounts: Vec<_> = resting.map(|endpoint| endpoint.tenant_id).collect();
    accounts.sort_unstable();
    accounts.dedup();
    accounts.len()
}
