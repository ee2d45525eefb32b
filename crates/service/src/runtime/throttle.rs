//! Limits on attempts to sign in and the like: counted in the database, so that the counts survive restarts and apply
//! to all nodes.
//!
//! An attempt is counted before its credential is checked; otherwise concurrent guesses would all be checked before
//! the first of them was counted. An attempt that succeeds is forgiven.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use sha2::{Digest as _, Sha256};
use store::runtime::throttle::{self, Attempt};
use store::{Conn, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::{Clock, Error, Kind, Result, internal};

/// How many attempts are allowed, and how long further attempts are blocked.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What is attempted; scopes are counted independently.
    pub scope: &'static str,
    /// Attempts allowed in a window. The last of them starts the block.
    pub attempts: i64,
    /// The length of the window, from its first attempt.
    pub window: Duration,
    /// How long all attempts are refused after the last allowed one.
    pub block: Duration,
}

const FIVE_MINUTES: Duration = Duration::from_mins(5);
const QUARTER_HOUR: Duration = Duration::from_mins(15);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Limit {
    /// Sign-ins for an email, whether or not it has an account. A user who mistypes five times rarely gets it right the
    /// sixth time; and at 480 guesses a day, a password that is not weak is not found.
    pub const LOGIN_EMAIL: Self =
        Self { scope: "login_email", attempts: 5, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// Sign-ins from an address. More than for an email, because an office shares one address.
    pub const LOGIN_ADDRESS: Self =
        Self { scope: "login_address", attempts: 20, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// Requests for a reset link, for an email from one network: each sends a mail to a user who may not have requested it.
    pub const FORGOT_EMAIL: Self = Self { scope: "forgot_email", attempts: 5, window: HOUR, block: HOUR };

    /// Requests for a reset link, from an address.
    pub const FORGOT_ADDRESS: Self =
        Self { scope: "forgot_address", attempts: 20, window: HOUR, block: HOUR };

    /// Reset links for an email, from all networks together. Whoever asks for more sends no further mail, and the member still
    /// has these.
    pub const RESET_LINKS: Self = Self { scope: "reset_links", attempts: 10, window: HOUR, block: HOUR };

    /// Registrations from an address; the operator may set another number.
    pub const REGISTER_ADDRESS: Self =
        Self { scope: "register_address", attempts: 20, window: HOUR, block: HOUR };

    /// Confirmations of the password or a code in the console, for a user: a stolen session must not allow guessing.
    pub const REAUTHENTICATE: Self =
        Self { scope: "reauthenticate", attempts: 5, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// Questions to an address whether it wants mails, by the rules of all accounts together.
    pub const CONFIRMATIONS: Self = Self { scope: "confirmations", attempts: 3, window: DAY, block: DAY };

    /// Invitations by an account: each sends a mail to a stranger.
    pub const INVITATIONS: Self = Self { scope: "invitations", attempts: 50, window: DAY, block: DAY };

    /// Tests of the actions of rules by an account: each sends a message at once.
    pub const RULE_TESTS: Self = Self { scope: "rule_tests", attempts: 20, window: HOUR, block: HOUR };

    /// Challenges for a sign-in with a passkey, from an address. The sign-in page asks for one with each visit.
    pub const PASSKEY_START: Self =
        Self { scope: "passkey_start", attempts: 100, window: FIVE_MINUTES, block: FIVE_MINUTES };

    /// Uses of a code by which a machine gets its key: one, whether or not it succeeds. It outlasts the code.
    pub const MACHINE_LOGIN: Self =
        Self { scope: "machine_login", attempts: 1, window: FIVE_MINUTES, block: FIVE_MINUTES };

    /// Lines of the audit log about one lockout of a member, named by its end: one.
    pub(crate) const LOCKOUT_LINES: Self =
        Self { scope: "lockout_lines", attempts: 1, window: QUARTER_HOUR, block: QUARTER_HOUR };

    /// All limits.
    const ALL: [Self; 13] = [
        Self::LOGIN_EMAIL,
        Self::LOGIN_ADDRESS,
        Self::FORGOT_EMAIL,
        Self::FORGOT_ADDRESS,
        Self::RESET_LINKS,
        Self::REGISTER_ADDRESS,
        Self::REAUTHENTICATE,
        Self::CONFIRMATIONS,
        Self::INVITATIONS,
        Self::RULE_TESTS,
        Self::PASSKEY_START,
        Self::MACHINE_LOGIN,
        Self::LOCKOUT_LINES,
    ];

    /// Counts an attempt on `subject` in the caller's transaction; returns the end of the block if attempts are blocked.
    pub(crate) async fn attempt(
        &self,
        conn: &mut Conn,
        subject: &str,
        now: Timestamp,
    ) -> store::Result<Option<Timestamp>> {
        let subject = fingerprint(subject);
        let attempt = Attempt {
            scope: self.scope,
            subject: &subject,
            now,
            limit: self.attempts,
            window_cutoff: now - self.window,
            block_until: now + self.block,
        };
        throttle::attempt(conn, attempt).await
    }

    /// Which of these subjects are blocked. Counts and locks nothing.
    pub(crate) async fn blocked<'a>(
        &self,
        conn: &mut Conn,
        subjects: impl Iterator<Item = &'a str>,
        now: Timestamp,
    ) -> store::Result<HashSet<&'a str>> {
        let subjects: HashMap<String, &str> =
            subjects.map(|subject| (fingerprint(subject), subject)).collect();
        let fingerprints: Vec<String> = subjects.keys().cloned().collect();
        let blocked = throttle::blocked(conn, self.scope, &fingerprints, now).await?;
        Ok(blocked.iter().filter_map(|fingerprint| subjects.get(fingerprint).copied()).collect())
    }
}

/// Concurrent attempts in one process, of those that may be forgiven: fewer than any limit allows. Each counts until
/// it has succeeded, so more of them could lock out users none of whom has failed.
const CONCURRENT_ATTEMPTS: usize = 4;

/// Rows removed in one transaction: few enough not to delay a concurrent sign-in noticeably.
const SWEEP_BATCH: i64 = 500;

/// Counts attempts and refuses those over a limit. Cheap to clone; clones share the slots.
#[derive(Clone)]
pub struct Throttle {
    store: Store,
    clock: Clock,
    slots: Arc<Semaphore>,
}

impl Throttle {
    /// A throttle that counts in this database, on this clock.
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, slots: Arc::new(Semaphore::new(CONCURRENT_ATTEMPTS)) }
    }

    /// Waits for a slot for one attempt, to be kept from before it is counted until its outcome is recorded.
    pub async fn slot(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.map_err(internal)
    }

    /// Counts an attempt on `subject`, or refuses it with the time to wait.
    ///
    /// A refused attempt is not counted and does not prolong the wait. Callers normalize the subject first: an
    /// email in lower case, an address by [`crate::runtime::client_network`].
    pub async fn attempt(&self, limit: &Limit, subject: &str) -> Result<()> {
        match self.count(limit, subject).await? {
            None => Ok(()),
            Some(blocked_until) => Err(self.refusal(blocked_until)),
        }
    }

    /// Counts an attempt on `subject`; if attempts are blocked, it is not counted, and the end of the block comes back.
    pub(crate) async fn count(&self, limit: &Limit, subject: &str) -> Result<Option<Timestamp>> {
        let now = self.clock.now();
        let blocked_until = self
            .store
            .write("count_attempt", async |conn: &mut Conn| limit.attempt(conn, subject, now).await)
            .await?;
        if blocked_until.is_some() {
            metrics::counter!("auspex_rate_limited_total", "scope" => limit.scope).increment(1);
        }
        Ok(blocked_until)
    }

    /// The refusal of an attempt while a block lasts, with the time to wait.
    pub(crate) fn refusal(&self, blocked_until: Timestamp) -> Error {
        Error::new(Kind::RateLimited, "too many attempts; try again later")
            .retry_after(blocked_until.since(self.clock.now()))
    }

    /// Uncounts one attempt that did not fail, and ends the block that it may have started.
    pub async fn forgive(&self, limit: &Limit, subject: &str) -> Result<()> {
        let subject = fingerprint(subject);
        self.store
            .write("forgive_attempt", async |conn: &mut Conn| {
                throttle::forgive(conn, limit.scope, &subject).await
            })
            .await?;
        Ok(())
    }

    /// Deletes the count of attempts on `subject`.
    pub async fn clear(&self, limit: &Limit, subject: &str) -> Result<()> {
        let subject = fingerprint(subject);
        self.store
            .write("clear_attempts", async |conn: &mut Conn| {
                throttle::clear(conn, limit.scope, &subject).await
            })
            .await?;
        Ok(())
    }

    /// Deletes counts that no limit needs any more, and returns the number of rows.
    pub async fn sweep(&self) -> Result<u64> {
        // A block starts within its window, so both have ended by then.
        let longest = Limit::ALL.iter().map(|limit| limit.window + limit.block).max().unwrap_or_default();
        let stale = self.clock.now() - longest;
        let mut removed = 0;
        loop {
            let batch = self
                .store
                .write("sweep_attempts", async |conn: &mut Conn| {
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

/// The hash that represents a subject in the database: what was typed as an email may be a password in the wrong field,
/// and may be long.
fn fingerprint(subject: &str) -> String {
    hex::encode(Sha256::digest(subject))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_itself_is_not_stored() {
        let stored = fingerprint("abc");
        assert_eq!(stored, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(fingerprint(&"x".repeat(10_000)).len(), stored.len());
    }
}
