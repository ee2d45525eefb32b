//! The recorder: a group writer for ingest requests, with one commit for all that wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use model::{TenantId, Timestamp};
use store::analysis::jobs::{BornLeased, LeasedJob, Leasing};
use store::objects::recorder::{self, Admission};
use store::objects::request::{IngestRequest as NewRequest, Recorded};
use store::{Conn, Lease, LockWait, Store};
use tokio::sync::OwnedSemaphorePermit;

use crate::objects::cache::ObjectCache;
use crate::runtime::group_writer::{Group, GroupWriter};
use crate::runtime::intake::{Handed, Intake};
use crate::runtime::{Clock, Random, Result, Wakeup, Workers};

/// The length of the writer's queue.
const QUEUE: usize = 4_096;
/// The maximum number of events in one commit, so that a few large requests do not slow down the others.
const MAX_EVENTS: usize = 5_000;
/// The maximum number of bytes of events in one commit, which are copied for the database.
const MAX_BYTES: i64 = 16 * 1024 * 1024;

/// A job that is due within this time is born leased if there is room: it is hardly worth waiting for more events.
const DUE_AT_ONCE: Duration = Duration::from_millis(10);

/// Records requests.
pub(crate) struct Recorder {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) admission: Admission,
    /// Takes jobs that are due at once.
    pub(crate) intake: Intake<LeasedJob>,
    /// How long a job is leased.
    pub(crate) lease: Duration,
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
    const LINGER: Duration = Duration::from_millis(3);

    fn is_urgent(entry: &NewRequest) -> bool {
        entry.verdict_slot.is_some()
    }

    fn fitting(entries: &[NewRequest]) -> usize {
        let (mut events, mut bytes) = (0, 0);
        let fits = entries.iter().take_while(|entry| {
            events += entry.events.len();
            bytes += entry.stored_bytes();
            events <= MAX_EVENTS && bytes <= MAX_BYTES
        });
        fits.count()
    }

    async fn write(&self, entries: &[NewRequest], wait: LockWait) -> Result<Vec<Recorded>> {
        let shard = self.random.shard();
        let now = self.clock.now();
        let lease = Lease { token: self.random.id(now), until: now + DUE_AT_ONCE + self.lease };
        let mut slots = self.intake.reserve(due_by(entries, now + DUE_AT_ONCE));
        let leasing = Leasing { lease, due_by: now + DUE_AT_ONCE, most: slots.len() };
        let leasing = (!slots.is_empty()).then_some(leasing);
        let written = self
            .store
            .for_groups(wait)
            .write("record", async |conn: &mut Conn| {
                recorder::record_and_lease(conn, entries, self.admission, shard, leasing).await
            })
            .await;
        let (outcomes, leased) = match written {
            Ok(written) => written,
            Err(error) => {
                self.return_slots(slots);
                return Err(error.into());
            }
        };
        for entry in entries {
            self.cache.invalidate(entry.tenant, &entry.object_id);
        }
        if let Some(soonest) = soonest_to_claim(entries, &leased) {
            self.scheduler.wake_by(soonest);
        }
        let unused = slots.split_off(leased.len());
        let handed = leased.into_iter().zip(slots);
        let handed =
            handed.map(|(BornLeased { job, run_at }, slot)| Handed { work: job, lease, due: run_at, slot });
        self.intake.hand_over(handed);
        self.return_slots(unused);
        Ok(outcomes)
    }
}

impl Recorder {
    /// Gives back slots that were reserved in vain. The scheduler may have counted them meanwhile.
    fn return_slots(&self, slots: Vec<OwnedSemaphorePermit>) {
        if !slots.is_empty() {
            drop(slots);
            if self.intake.is_closed() {
                self.scheduler.wake();
            }
        }
    }
}

/// The number of objects whose jobs are due by an instant.
fn due_by(entries: &[NewRequest], instant: Timestamp) -> usize {
    let due =
        entries.iter().filter(|entry| entry.schedule.is_some_and(|schedule| schedule.run_at <= instant));
    due.map(|entry| (entry.tenant, entry.object_id.as_str())).collect::<HashSet<_>>().len()
}

/// When the first of the jobs is due that are not leased yet.
fn soonest_to_claim(entries: &[NewRequest], leased: &[BornLeased]) -> Option<Timestamp> {
    let leased: HashSet<(TenantId, &str)> =
        leased.iter().map(|leased| (leased.job.tenant_id, leased.job.object_id.as_str())).collect();
    let to_claim = entries.iter().filter(|entry| !leased.contains(&(entry.tenant, entry.object_id.as_str())));
    to_claim.filter_map(|entry| Some(entry.schedule?.run_at)).min()
}
