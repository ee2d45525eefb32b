//! Attempts made before anybody is signed in: counted in the database, so that neither a restart nor another node
//! forgets them.
//!
//! An attempt is counted before what it asks for is checked, or guesses made side by side would all be checked before
//! the first of them was counted. One that turns out to be no failure is forgiven.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use store::runtime::throttle::{self, Attempt};
use store::{Conn, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::{Clock, Error, Kind, Result, internal};

/// How many attempts are allowed, and what follows the last of them.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What is attempted; counts of different scopes do not touch.
    pub scope: &'static str,
    /// How many a window allows. The last of them starts the block.
    pub attempts: i64,
    /// How long attempts count, from the first of them.
    pub window: Duration,
    /// How long everything is refused after the last attempt.
    pub block: Duration,
}

const QUARTER_HOUR: Duration = Duration::from_mins(15);
const HOUR: Duration = Duration::from_hours(1);

impl Limit {
    /// Signing in, for an email, whether or not it has an account. Nobody mistypes a password five times and then
    /// guesses it; at 480 guesses a day one that is not easy to guess is not found.
    pub const LOGIN_EMAIL: Self =
        Self { scope: "login_email", attempts: 5, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// Signing in, from an address. More than for an email, because an office shares one.
    pub const LOGIN_ADDRESS: Self =
        Self { scope: "login_address", attempts: 20, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// Asking for a reset link, for an email: each is a mail to somebody who may not have asked for it.
    pub const FORGOT_EMAIL: Self = Self { scope: "forgot_email", attempts: 5, window: HOUR, block: HOUR };

    /// Asking for a reset link, from an address.
    pub const FORGOT_ADDRESS: Self =
        Self { scope: "forgot_address", attempts: 20, window: HOUR, block: HOUR };

    /// Giving the password or a code again in the console, for a user: a stolen session is no licence to guess.
    pub const REAUTHENTICATE: Self =
        Self { scope: "reauthenticate", attempts: 5, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// All of them.
    const ALL: [Self; 5] = [
        Self::LOGIN_EMAIL,
        Self::LOGIN_ADDRESS,
        Self::FORGOT_EMAIL,
        Self::FORGOT_ADDRESS,
        Self::REAUTHENTICATE,
    ];
}

/// Attempts under way at a time in a process, where they may be forgiven: fewer than any limit allows. Each counts until
/// it has turned out to be no failure, so more of them would lock out people none of whom has failed.
const UNDER_WAY: usize = 4;

/// Rows removed in one transaction: few enough that nobody who signs in meanwhile notices.
const SWEEP_BATCH: i64 = 500;

/// Counts attempts and refuses those over a limit. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Throttle {
    store: Store,
    clock: Clock,
    slots: Arc<Semaphore>,
}

impl Throttle {
    /// Counts in this database, by this clock.
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, slots: Arc::new(Semaphore::new(UNDER_WAY)) }
    }

    /// Waits for a place among the attempts under way, to be kept from before one is counted until it is settled.
    pub async fn slot(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.map_err(internal)
    }

    /// Counts an attempt on `subject`, or refuses it with the time to wait.
    ///
    /// A refused attempt is not counted and makes the wait no longer. Callers bring the subject to one form first: an
    /// email without case, an address as [`crate::runtime::client_network`] has it.
    pub async fn attempt(&self, limit: &Limit, subject: &str) -> Result<()> {
        let now = self.clock.now();
        let subject = fingerprint(subject);
        let attempt = Attempt {
            scope: limit.scope,
            subject: &subject,
            now,
            limit: limit.attempts,
            window_cutoff: now - limit.window,
            block_until: now + limit.block,
        };
        let blocked_until = self
            .store
            .write("count attempt", async |conn: &mut Conn| throttle::attempt(conn, attempt).await)
            .await?;
        let Some(blocked_until) = blocked_until else { return Ok(()) };
        metrics::counter!("auspex_rate_limited_total", "scope" => limit.scope).increment(1);
        Err(Error::new(Kind::RateLimited, "too many attempts; try again later")
            .retry_after(blocked_until.since(now)))
    }

    /// Takes back one attempt that was no failure, and with it the block that it may have started.
    pub async fn forgive(&self, limit: &Limit, subject: &str) -> Result<()> {
        let subject = fingerprint(subject);
        self.store
            .write("forgive attempt", async |conn: &mut Conn| {
                throttle::forgive(conn, limit.scope, &subject).await
            })
            .await?;
        Ok(())
    }

    /// Forgets every attempt on `subject`.
    pub async fn clear(&self, limit: &Limit, subject: &str) -> Result<()> {
        let subject = fingerprint(subject);
        self.store
            .write("clear attempts", async |conn: &mut Conn| {
                throttle::clear(conn, limit.scope, &subject).await
            })
            .await?;
        Ok(())
    }

    /// Removes what no limit looks at any more, and says how many rows that were.
    pub async fn sweep(&self) -> Result<u64> {
        // A block starts within its window, so by then both are over.
        let longest = Limit::ALL.iter().map(|limit| limit.window + limit.block).max().unwrap_or_default();
        let stale = self.clock.now() - longest;
        let mut removed = 0;
        loop {
            let batch = self
                .store
                .write("sweep attempts", async |conn: &mut Conn| {
                    throttle::sweep(conn, stale, SWEEP_BATCH).await
                })
                .await?;
            removed += batch;
            if batch < SWEEP_BATCH.unsigned_abs() {
                return Ok(removed);
            }
        }
    }
}

/// What stands for a subject in the database: an email typed by a stranger may be a password in the wrong field, and
/// may be long.
fn fingerprint(subject: &str) -> String {
    hex::encode(Sha256::digest(subject))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_not_kept() {
        let kept = fingerprint("abc");
        assert_eq!(kept, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(fingerprint(&"x".repeat(10_000)).len(), kept.len());
    }
}
