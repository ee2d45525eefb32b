//! Whether the database takes writes: a full disk, or a server that became read-only, still answers reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::db::error::{Error, Result};

/// How often a database that took no writes is tried again.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The words of a probe, of 4 letters each: enough that it does not fit where a request would not.
const PROBE_WORDS: u32 = 16_384;

/// What the last writes of this process said about the database.
#[derive(Default)]
pub(crate) struct Writability {
    is_failing: AtomicBool,
    /// When a write last found the server read-only.
    read_only: StdMutex<Option<Instant>>,
    /// When a probe was made last; locked during a probe.
    probed: Mutex<Option<Instant>>,
}

impl Writability {
    /// Takes note of how a write ended: with or without an error, which may be one of the store.
    pub(crate) fn record(&self, is_written: bool, error: Option<&Error>) {
        if is_written {
            self.is_failing.store(false, Ordering::Relaxed);
        } else if error.is_some_and(Error::is_unavailable) {
            self.is_failing.store(true, Ordering::Relaxed);
            if error.is_some_and(Error::is_read_only) {
                *self.read_only() = Some(Instant::now());
            }
        }
    }

    /// Whether a write found the server read-only within this time. Connections that are older may lead to the same server,
    /// which was demoted: reading from it, none of them would notice.
    pub(crate) fn was_read_only_within(&self, time: Duration) -> bool {
        self.read_only().is_some_and(|found| found.elapsed() <= time)
    }

    fn read_only(&self) -> StdMutexGuard<'_, Option<Instant>> {
        self.read_only.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last writes failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Begins a probe, unless one runs or it is too early for the next.
    pub(crate) fn begin_probe(&self) -> Result<MutexGuard<'_, Option<Instant>>> {
        let Ok(mut probed) = self.probed.try_lock() else { return Err(Error::Unwritable) };
        if probed.is_some_and(|probed| probed.elapsed() < PROBE_INTERVAL) {
            return Err(Error::Unwritable);
        }
        *probed = Some(Instant::now());
        Ok(probed)
    }
}

/// What a probe writes: some pages of words that differ, so that they cannot be compressed away.
pub(crate) fn probe_text() -> String {
    (0..PROBE_WORDS).flat_map(|word| word.wrapping_mul(0x9e37_79b1).to_be_bytes()).map(letter).collect()
}

/// A letter for a byte.
fn letter(byte: u8) -> char {
    char::from(b'!' + byte % 64)
}
