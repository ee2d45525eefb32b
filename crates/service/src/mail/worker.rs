//! The worker that empties the queue: claims what is due, sends it, and closes the row or puts it back.

use std::time::Duration;

use model::Timestamp;
use store::outbox::{self, Channel, Claimed, Lease};
use store::{Conn, Result};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::transport::{Failure, SEND_DEADLINE};
use super::{Mail, Mailer, PLACE, message};

/// Mails on their way at a time in one process: more only gets a sender throttled.
const SENDS_AT_ONCE: usize = 4;
/// A lease outlives the attempt that it covers, so that no other worker sends the same mail meanwhile.
const LEASE: Duration = SEND_DEADLINE.saturating_add(Duration::from_secs(5));
/// How often to look for what other processes queued; they cannot ring our bell.
const POLL: Duration = Duration::from_secs(2);
/// Attempts before a mail is given up: with the waits below, about an hour.
const MAX_ATTEMPTS: i64 = 8;
/// The wait after the first attempt; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const MAX_WAIT: Duration = Duration::from_hours(1);
/// How far waits are spread to both sides, so that mails that failed together do not come back together.
const JITTER: f64 = 0.1;

impl Mailer {
    /// Sends what is queued, until told to stop; then finishes what it has in hand.
    pub async fn run(self, stop: CancellationToken) {
        let mut sending = JoinSet::new();
        while !stop.is_cancelled() {
            let next_look = self.take_due(&mut sending).await;
            tokio::select! {
                () = stop.cancelled() => {}
                // Disabled while nothing is on its way.
                Some(_) = sending.join_next() => {}
                () = self.rest(next_look) => {}
            }
        }
        while sending.join_next().await.is_some() {}
    }

    /// Claims due mails for the free places and starts sending them. Says when to look again; never, while there is no
    /// free place.
    async fn take_due(&self, sending: &mut JoinSet<()>) -> Option<Timestamp> {
        let free = SENDS_AT_ONCE - sending.len();
        if free == 0 {
            return None;
        }
        let now = self.clock.now();
        let lease = Lease { token: self.random.id(now), until: now + LEASE };
        match self.claim(now, lease, free).await {
            Ok((claimed, next_look)) => {
                for message in claimed {
                    let mailer = self.clone();
                    sending.spawn(async move { mailer.handle(message, lease.token).await });
                }
                (sending.len() < SENDS_AT_ONCE).then_some(next_look)
            }
            Err(cause) => {
                error!(%cause, "queued mails cannot be claimed");
                Some(now + POLL)
            }
        }
    }

    /// Claims up to `limit` due mails, and says when to look for more.
    async fn claim(&self, now: Timestamp, lease: Lease, limit: usize) -> Result<(Vec<Claimed>, Timestamp)> {
        let poll = now + POLL;
        // An idle worker only reads: on SQLite a claim would wait for its turn to write.
        let due = self
            .store
            .read("next mail", async |conn: &mut Conn| outbox::next_due(conn, Channel::Mail).await)
            .await?;
        match due {
            Some(at) if at <= now => {}
            later => return Ok((Vec::new(), later.map_or(poll, |at| at.min(poll)))),
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let claimed: Vec<Claimed> = self
            .store
            .write("claim mails", async |conn: &mut Conn| {
                outbox::claim(conn, Channel::Mail, now, lease, limit).await
            })
            .await?;
        // Where another worker was faster, what is left can wait for it.
        let next_look = if claimed.is_empty() { poll } else { now };
        Ok((claimed, next_look))
    }

    /// Waits for the time to look again, or for the bell.
    async fn rest(&self, until: Option<Timestamp>) {
        match until {
            None => std::future::pending().await,
            Some(at) => tokio::select! {
                () = self.bell.notified() => {}
                () = self.clock.sleep_until(at) => {}
            },
        }
    }

    /// Sends one mail and settles its row.
    async fn handle(&self, claimed: Claimed, token: Uuid) {
        let (message_id, tenant_id, attempts) = (claimed.message_id, claimed.tenant_id, claimed.attempts);
        let Some(mail) = self.open(&claimed) else {
            error!(%message_id, %tenant_id, "a queued mail cannot be read and is dropped");
            return self.close(&claimed, token, "failed").await;
        };
        let event = mail.event.as_str();
        match self.send(&mail, &claimed).await {
            Ok(()) => self.close(&claimed, token, "sent").await,
            Err(Failure::Later(reason)) if attempts < MAX_ATTEMPTS => {
                info!(%message_id, %tenant_id, event, attempts, reason, "a mail could not be sent and is tried again");
                self.put_back(&claimed, token).await;
            }
            Err(Failure::Later(reason) | Failure::Never(reason)) => {
                warn!(%message_id, %tenant_id, event, attempts, reason, "a mail could not be sent and is given up");
                self.close(&claimed, token, "failed").await;
            }
        }
    }

    fn open(&self, claimed: &Claimed) -> Option<Mail> {
        let plain = self.sealer.open(PLACE, claimed.message_id, &claimed.message).ok()?;
        serde_json::from_slice(&plain).ok()
    }

    async fn send(&self, mail: &Mail, claimed: &Claimed) -> Result<(), Failure> {
        // Only a worker that died takes an attempt without settling it. A mail that kills workers must not do so forever.
        if claimed.attempts > MAX_ATTEMPTS {
            return Err(Failure::Never("no attempt was finished".to_owned()));
        }
        let posting = message::write(&self.from, mail, claimed)
            .map_err(|invalid| Failure::Never(invalid.to_string()))?;
        self.transport.send(posting).await
    }

    /// Removes a mail that has gone, or that never will.
    async fn close(&self, claimed: &Claimed, token: Uuid, outcome: &'static str) {
        let closed = self
            .store
            .write("close mail", async |conn: &mut Conn| {
                outbox::finish(conn, claimed.tenant_id, claimed.message_id, token).await
            })
            .await;
        settled(claimed, outcome, closed);
    }

    /// Puts a mail back until its next attempt.
    async fn put_back(&self, claimed: &Claimed, token: Uuid) {
        let run_after = self.clock.now() + wait_after(claimed.attempts, self.random.fraction());
        let put_back = self
            .store
            .write("put mail back", async |conn: &mut Conn| {
                outbox::retry(conn, claimed.tenant_id, claimed.message_id, token, run_after).await
            })
            .await;
        settled(claimed, "retried", put_back);
    }
}

/// Counts an outcome. Where the row could not be settled, the mail is taken again when its lease ends.
fn settled(claimed: &Claimed, outcome: &'static str, held: Result<bool>) {
    metrics::counter!("auspex_mails_total", "outcome" => outcome).increment(1);
    let message_id = claimed.message_id;
    match held {
        Ok(true) => {}
        Ok(false) => warn!(%message_id, outcome, "a mail's lease ended early: it may be sent twice"),
        Err(cause) => {
            error!(%message_id, outcome, %cause, "a mail's row cannot be settled: it may be sent twice");
        }
    }
}

/// The wait after a failed attempt. `roll` is from 0 up to 1.
fn wait_after(attempt: i64, roll: f64) -> Duration {
    let doublings = u32::try_from(attempt - 1).unwrap_or(u32::MAX);
    let wait = 2_u32.checked_pow(doublings).map_or(MAX_WAIT, |factor| FIRST_WAIT.saturating_mul(factor));
    wait.min(MAX_WAIT).mul_f64(1.0 - JITTER + 2.0 * JITTER * roll)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_an_hour_with_a_tenth_to_both_sides() {
        let seconds = |attempt| wait_after(attempt, 0.5).as_secs();
        let waits: Vec<_> = (1..=9).map(seconds).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        assert_eq!(seconds(i64::MAX), 3_600);
        assert_eq!(wait_after(1, 0.0), Duration::from_secs(27));
        assert!(wait_after(1, 1.0) <= Duration::from_secs(33));
    }
}
