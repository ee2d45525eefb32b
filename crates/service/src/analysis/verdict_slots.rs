//! Verdict slots limit the verdicts that a tenant may have in flight, over all nodes. A slot is a row that
//! expires by itself, so that a crash frees it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use model::TenantId;
use store::analysis::verdict_slots::{self, VerdictSlot};
use store::{Conn, Store};
use uuid::Uuid;

use crate::analysis::running::Running;
use crate::runtime::{Clock, Error, Kind, Random, Result, internal};

/// How much longer than the deadlines of both analyzers a slot lasts; after that the slots of a crashed node are free.
const MARGIN: Duration = Duration::from_secs(5);
/// When to retry if no slot is free: a verdict will have finished by then.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Grants verdict slots. Cheap to clone.
#[derive(Clone)]
pub(crate) struct VerdictSlots {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) running: Running,
    /// The deadline of a call of the first analyzer.
    pub(crate) analyzer_timeout: Duration,
    /// The deadline of the call of the second analyzer that may follow; none without one.
    pub(crate) escalation_timeout: Duration,
    /// The number of slots per tenant, over all nodes.
    pub(crate) limit: u32,
}

/// A granted verdict slot.
pub(crate) struct Slot {
    pub(crate) tenant: TenantId,
    pub(crate) id: Uuid,
    /// Whether it was released in the transaction that wrote the answers.
    is_released: AtomicBool,
}

impl Slot {
    /// The requested slot if it was granted, otherwise an error.
    pub(crate) fn granted(request: &VerdictSlot, is_granted: bool) -> Result<Self> {
        if is_granted {
            let is_released = AtomicBool::new(false);
            return Ok(Self { tenant: request.tenant, id: request.slot_id, is_released });
        }
        count("refused");
        Err(Error::new(Kind::RateLimited, "too many synchronous analyses at once").retry_after(BUSY_WAIT))
    }

    /// Marks that the slot was released with the answers.
    pub(crate) fn mark_released(&self) {
        self.is_released.store(true, Ordering::Relaxed);
    }
}

impl VerdictSlots {
    /// The request for a slot, to be granted by the recorder together with the events, or by [`Self::take`].
    pub(crate) fn request(&self, tenant: TenantId) -> VerdictSlot {
        let now = self.clock.now();
        VerdictSlot {
            tenant,
            slot_id: self.random.id(now),
            now,
            until: now + self.analyzer_timeout + self.escalation_timeout + MARGIN,
            limit: i64::from(self.limit),
        }
    }

    /// Takes a slot for an analysis that records nothing.
    pub(crate) async fn take(&self, tenant: TenantId) -> Result<Slot> {
        self.take_for(tenant, 1).await
    }

    /// Takes a slot for so many calls of the analyzer, one after the other.
    pub(crate) async fn take_for(&self, tenant: TenantId, calls: u32) -> Result<Slot> {
        let request = self.request(tenant);
        let more = self.analyzer_timeout * calls.saturating_sub(1);
        let request = VerdictSlot { until: request.until + more, ..request };
        let granted = self
            .store
            .write("take_slot", async |conn: &mut Conn| verdict_slots::take_one(conn, &request).await)
            .await?;
        Slot::granted(&request, granted)
    }

    /// Runs a synchronous analysis in its slot, and releases the slot unless that was done with the answers, even if the
    /// analysis panics.
    pub(crate) async fn run<T>(&self, slot: Slot, work: impl AsyncFnOnce(&Slot) -> Result<T>) -> Result<T> {
        let running = self.running.begin(slot.tenant);
        let outcome = AssertUnwindSafe(work(&slot)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(internal("a synchronous analysis panicked")));
        drop(running);
        count(outcome.as_ref().map_or_else(outcome_of, |_| "ok"));
        let Slot { tenant, id, is_released } = slot;
        if is_released.into_inner() {
            return outcome;
        }
        let released = self
            .store
            .write("release_slot", async |conn: &mut Conn| verdict_slots::release(conn, tenant, id).await)
            .await;
        if let Err(error) = released {
            // It expires by itself; the outcome matters more.
            tracing::warn!(%error, "cannot release a verdict slot");
        }
        outcome
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("auspex_analyses_total", "source" => "sync", "outcome" => outcome).increment(1);
}

/// The label of an error in metrics, the same as for queued jobs.
fn outcome_of(refusal: &Error) -> &'static str {
    match refusal.kind() {
        Kind::RateLimited => "refused",
        Kind::PaymentRequired => "unpaid",
        Kind::AnalyzerBusy => "throttled",
        Kind::AnalyzerError => "failed",
        _ => "error",
    }
}
