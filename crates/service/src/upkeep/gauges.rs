//! What can only be told at the moment of asking: how long the queues are, and who keeps this process busy.

use std::time::Duration;

use model::TenantId;
use store::analysis::jobs::Priority;
use store::outbox::messages::Channel;
use store::upkeep::gauges;
use store::{Conn, Store};

use crate::analysis::Running;
use crate::runtime::{Clock, Result};

/// Tenants named one by one; the others are one number, so that a thousand tenants do not make a thousand series.
const NAMED_TENANTS: usize = 20;

/// The queues, over all nodes.
#[derive(Clone, Debug)]
pub struct QueueGauges {
    /// Analyses that wait for a worker, by priority.
    pub analyses: Vec<(&'static str, i64, Duration)>,
    /// Webhook deliveries still to be sent.
    pub deliveries: i64,
    /// Mails and chat messages still to be sent, by channel.
    pub messages: Vec<(&'static str, i64)>,
}

/// Reads gauges.
pub struct Gauges {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) running: Running,
}

impl Gauges {
    /// How long the queues are. These are bounded reads, for a scraper and not for a hot path.
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

    /// Analyses under way in this process: of the busiest tenants, and of all others together.
    pub fn running_analyses(&self) -> (Vec<(TenantId, u64)>, u64) {
        self.running.busiest(NAMED_TENANTS)
    }
}
