//! Readiness: whether this process should get requests.

use std::sync::Arc;
use std::time::Duration;

use store::Store;

use crate::objects::Recorder;
use crate::runtime::group_writer::GroupWriter;
use crate::runtime::{Error, Health, Kind, Nodes, Result};

/// How long the database may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How long events may wait without any being recorded.
const STALL_LIMIT: Duration = Duration::from_secs(5);

/// Finds out whether this process can do what it is for.
pub struct Readiness {
    pub(crate) store: Store,
    pub(crate) recorder: Arc<GroupWriter<Recorder>>,
    pub(crate) health: Health,
    pub(crate) nodes: Nodes,
}

impl Readiness {
    /// An error that says why this process should not get requests now.
    pub async fn check(&self) -> Result<()> {
        if let Some(reason) = self.nodes.outgrown() {
            return Err(Error::new(Kind::NotReady, reason));
        }
        if let Some(worker) = self.health.failing_workers().first() {
            let reason =
                format!("the worker \"{worker}\" has failed five times within a minute; see the log");
            return Err(Error::new(Kind::NotReady, reason));
        }
        let stalled = self.recorder.stalled_for();
        if stalled >= STALL_LIMIT {
            let reason = format!("events have been waiting for the database for {} s", stalled.as_secs());
            return Err(Error::new(Kind::NotReady, reason));
        }
        self.check_database().await
    }

    /// An error that says why the database cannot be used now.
    pub(crate) async fn check_database(&self) -> Result<()> {
        let not_ready = |message: &str| Error::new(Kind::NotReady, message);
        match tokio::time::timeout(ANSWER_LIMIT, self.store.check()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error @ store::Error::Unwritable)) => {
                Err(not_ready("the database takes no writes").because(error))
            }
            Ok(Err(error)) => Err(not_ready("the database does not answer").because(error)),
            Err(elapsed) => Err(not_ready("the database does not answer").because(elapsed)),
        }
    }
}
