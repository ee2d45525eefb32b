//! What the load has sent, and what it knows about it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use crate::lock;

/// What an event is recognized by. The analyzer answers yes where the newest one is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Marker {
    pub(crate) number: u64,
    pub(crate) is_hot: bool,
}

impl Marker {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('m')?;
        let (number, is_hot) = text
            .strip_suffix('h')
            .map(|number| (number, true))
            .or_else(|| Some((text.strip_suffix('c')?, false)))?;
        Some(Self { number: number.parse().ok()?, is_hot })
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "m{}{}", self.number, if self.is_hot { 'h' } else { 'c' })
    }
}

/// What is known about a request with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The service said that they are recorded.
    Recorded,
    /// The service refused them.
    Refused,
    /// Nobody said.
    Unknown,
}

/// A request with events.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The tenant, by its index.
    pub(crate) tenant: usize,
    pub(crate) object_id: String,
    pub(crate) markers: Vec<Marker>,
    pub(crate) fate: Fate,
    /// The call of the analyzer that answered a verdict.
    pub(crate) verdict: Option<u64>,
}

/// Everything that the load has sent. It is never forgotten: what was acknowledged once must be there in every round.
#[derive(Default)]
pub(crate) struct Journal {
    sent: Mutex<Vec<Sent>>,
    next: AtomicU64,
    /// Which node acknowledged something, and when.
    acknowledged: Mutex<Vec<(usize, Instant)>>,
    /// Responses by status; 0 stands for none.
    statuses: Mutex<BTreeMap<u16, u64>>,
    /// Responses that must not be.
    oddities: Mutex<Vec<String>>,
}

impl Journal {
    /// A marker that was never used.
    pub(crate) fn marker(&self, is_hot: bool) -> Marker {
        Marker { number: self.next.fetch_add(1, Ordering::Relaxed) + 1, is_hot }
    }

    pub(crate) fn add(&self, sent: Sent) {
        lock(&self.sent).push(sent);
    }

    pub(crate) fn acknowledge(&self, node: usize) {
        lock(&self.acknowledged).push((node, Instant::now()));
    }

    /// When a node first acknowledged something after this time.
    pub(crate) fn acknowledged_after(&self, node: usize, since: Instant) -> Option<Instant> {
        let acknowledged = lock(&self.acknowledged);
        acknowledged.iter().filter(|(by, at)| *by == node && *at >= since).map(|(_, at)| *at).min()
    }

    pub(crate) fn count(&self, status: u16) {
        *lock(&self.statuses).entry(status).or_default() += 1;
    }

    pub(crate) fn note(&self, oddity: String) {
        lock(&self.oddities).push(oddity);
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        lock(&self.sent).clone()
    }

    /// The acknowledgements since this was last asked.
    pub(crate) fn take_acknowledged(&self) -> Vec<(usize, Instant)> {
        std::mem::take(&mut lock(&self.acknowledged))
    }

    /// The statuses since this was last asked, as text.
    pub(crate) fn take_statuses(&self) -> String {
        let statuses = std::mem::take(&mut *lock(&self.statuses));
        let shown: Vec<String> = statuses
            .iter()
            .map(
                |(status, count)| {
                    if *status == 0 { format!("none {count}") } else { format!("{status} {count}") }
                },
            )
            .collect();
        shown.join(", ")
    }

    pub(crate) fn take_oddities(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.oddities))
    }
}
