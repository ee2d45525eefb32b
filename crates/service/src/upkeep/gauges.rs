//! Gauges, read when they are scraped: queue lengths, and the busiest tenants of this process.

use std::time::Duration;

use model::TenantId;
use store::analysis::jobs::Priority;
use store::outbox::messages::Channel;
use store::upkeep::gauges;
use store::{Conn, Store};

use crate::analysis::Running;
use crate::runtime::{Clock, Result};

/// The number of tenants with their own series; the others are summed up, so that many tenants do not make many series.
const NAMED_TENANTS: usize = 20;

/// The queues, over all nodes.
#[derive(Clone, Debug)]
pub struct QueueGauges {
    /// Due jobs by priority: number, and age of the oldest.
    pub analyses: Vec<(&'static str, i64, Duration)>,
    /// Pending webhook deliveries.
    pub deliveries: i64,
    /// Pending outbox messages by channel.
    pub messages: Vec<(&'static str, i64)>,
}

/// Reads gauges.
pub struct Gauges {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) running: Running,
}

impl Gauges {
    /// The queue lengths. These are bounded reads, for a scraper and not for a hot path.
    pub async fn queues(&self) -> Result<QueueGauges> {
        let now = self.clock.now();
        self.store
            .read("queue_gauges", async |conn: &mut Conn| {
                let mut analyses = Vec::new();
                for (name, priority) in [("live", Priority::Live), ("bulk", Priority::Bulk)] {
                    let backlog = gauges::backlog(conn, priority, now).await?;
                    let lag = backlog.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
                    analyses.push((name, backlog.due, lag));
                }
                let mut messages = Vec::new();
                for channel in [Channel::Mail, Channel::Slack] {
                    messages.push((channel.as_str(), gauges::messages(conn, channel).await?));
                }
                Ok(QueueGauges { analyses, deliveries: gauges::deliveries(conn).await?, messages })
            })
            .await
    }

    /// Running analyses of this process: those of the busiest tenants, and the total of all others.
    pub fn running_analyses(&self) -> (Vec<(TenantId, u64)>, u64) {
        self.running.busiest(NAMED_TENANTS)
    }
}
