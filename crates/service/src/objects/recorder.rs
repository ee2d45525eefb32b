//! The recorder: a group writer for ingest requests, with one commit for all that wait.

use std::sync::Arc;

use store::objects::recorder::{self, Admission};
use store::objects::request::{IngestRequest as NewRequest, Recorded};
use store::{Conn, Store};

use crate::objects::cache::ObjectCache;
use crate::runtime::group_writer::{Group, GroupWriter};
use crate::runtime::{Random, Result, Wakeup, Workers};

/// The length of the writer's queue.
const QUEUE: usize = 4_096;
/// The maximum number of events in one commit, so that a few large requests do not slow down the others.
const MAX_EVENTS: usize = 5_000;
/// The maximum number of bytes of events in one commit, which are copied for the database.
const MAX_BYTES: i64 = 16 * 1024 * 1024;

/// Records requests.
pub(crate) struct Recorder {
    pub(crate) store: Store,
    pub(crate) random: Random,
    pub(crate) admission: Admission,
    /// Wakes the scheduler for jobs that are due before its next poll.
    pub(crate) scheduler: Wakeup,
    pub(crate) cache: Arc<ObjectCache>,
}

impl Recorder {
    /// Starts the writer, and returns the handle that submits requests to it.
    pub(crate) fn start(self, workers: &Workers) -> GroupWriter<Self> {
        let (writer, queue) = GroupWriter::new(QUEUE);
        workers.supervise_writer("recorder", queue, self);
        writer
    }
}

impl Group for Recorder {
    type Piece = NewRequest;
    type Outcome = Recorded;
    const PIECES: &'static str = "requests";
    const METER: &'static str = "auspex_recorder_batch_requests";
    const MAX: usize = 1_024;

    fn fitting(entries: &[NewRequest]) -> usize {
        let (mut events, mut bytes) = (0, 0);
        let fits = entries.iter().take_while(|entry| {
            events += entry.events.len();
            bytes += entry.stored_bytes();
            events <= MAX_EVENTS && bytes <= MAX_BYTES
        });
        fits.count()
    }

    async fn write(&self, entries: &[NewRequest]) -> Result<Vec<Recorded>> {
        let shard = self.random.shard();
        let outcomes = self
            .store
            .write("record", async |conn: &mut Conn| {
                recorder::record(conn, entries, self.admission, shard).await
            })
            .await?;
        for entry in entries {
            self.cache.invalidate(entry.tenant, &entry.object_id);
        }
        let soonest = entries.iter().filter_map(|entry| Some(entry.schedule?.run_at)).min();
        if let Some(soonest) = soonest {
            self.scheduler.wake_by(soonest);
        }
        Ok(outcomes)
    }
}
