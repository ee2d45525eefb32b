//! One attempt of a delivery: signed, posted, judged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::webhook::{SigningKey, wait_after};
use model::{TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use store::actions::webhooks::queue::{self, AttemptResult, DeliveryLease, DeliveryOutcome};
use store::{Conn, Lease, Store};
use url::Url;
use uuid::Uuid;

use crate::runtime::outbound::{OutboundError, Reply};
use crate::runtime::{Clock, Outbound, Random, Result, Traces};

/// The longest that a receiver can ask to be left alone: it cannot hold a delivery for ever.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// What waited for longer than this since it was claimed is looked at once more before it is sent.
const FRESH: Duration = Duration::from_millis(500);
/// The error of a delivery that is given up because no attempt came to its end.
const ABANDONED: &str = "abandoned: the sender crashed during every attempt";

/// How deliveries are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CourierOptions {
    /// How long a receiver may take, in all.
    pub(crate) timeout: Duration,
    /// The wait after a delivery's first attempt; it doubles with each.
    pub(crate) retry_base: Duration,
}

/// Where deliveries go, and what they are signed with.
pub(super) struct Destination {
    pub(super) tenant: TenantId,
    pub(super) endpoint_id: Uuid,
    pub(super) url: Url,
    pub(super) key: SigningKey,
    /// When the endpoint was last edited.
    pub(super) updated_at: Timestamp,
}

/// A delivery that this process has claimed.
pub(super) struct ClaimedDelivery {
    pub(super) destination: Arc<Destination>,
    pub(super) delivery_id: Uuid,
    /// What it tells.
    pub(super) event_type: String,
    /// The bytes that are signed and sent; empty once they are on their way.
    pub(super) payload: String,
    /// Attempts that have ended.
    pub(super) attempts: i64,
    pub(super) max_attempts: i64,
    /// The trace that it belongs to.
    pub(super) traceparent: Option<String>,
    pub(super) lease: Lease,
    /// Whether it is to show how a receiver is that has failed too often.
    pub(super) is_probe: bool,
    /// Since when it is claimed.
    pub(super) claimed: Instant,
}

/// What became of a claimed delivery.
pub(super) struct Outcome {
    pub(super) delivery: ClaimedDelivery,
    /// None when it was not sent after all.
    pub(super) attempt: Option<Attempt>,
}

/// How an attempt went.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) verdict: Verdict,
    pub(super) at: Timestamp,
    pub(super) status_code: Option<u16>,
    pub(super) error: Option<String>,
    pub(super) response: Option<String>,
}

/// What follows from an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Delivered,
    /// Another attempt, not before this instant.
    Retry(Timestamp),
    Dead(Cause),
}

/// Why a delivery is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The last attempt failed in a way that might have passed.
    Exhausted,
    /// The receiver does not want it.
    Refused,
    /// The URL must not be called.
    Blocked,
    /// Every sender crashed during an attempt.
    Abandoned,
}

impl Verdict {
    /// How it is counted.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry(_) => "retried",
            Self::Dead(Cause::Exhausted) => "exhausted",
            Self::Dead(Cause::Refused) => "refused",
            Self::Dead(Cause::Blocked) => "blocked",
            Self::Dead(Cause::Abandoned) => "abandoned",
        }
    }
}

/// How a failure is taken.
enum Failure {
    /// It may pass.
    Passing(Option<Duration>),
    Permanent(Cause),
}

impl ClaimedDelivery {
    pub(super) fn lease(&self) -> DeliveryLease {
        DeliveryLease {
            tenant: self.destination.tenant,
            endpoint_id: self.destination.endpoint_id,
            delivery_id: self.delivery_id,
            token: self.lease.token,
        }
    }
}

/// Makes attempts.
pub(super) struct Sender {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) outbound: Outbound,
    pub(super) traces: Traces,
    pub(super) options: CourierOptions,
}

impl Sender {
    /// Whether a delivery may be sent as it is. Its lease must outlast the attempt, or else another would send the same
    /// delivery beside us; and if it has waited, its object or its endpoint may be gone or changed.
    pub(super) async fn may_send(&self, delivery: &ClaimedDelivery) -> bool {
        if self.clock.now() + self.options.timeout > delivery.lease.until {
            return false;
        }
        if delivery.claimed.elapsed() <= FRESH {
            return true;
        }
        let (held, updated_at) = (delivery.lease(), delivery.destination.updated_at);
        let current = self.store.read("delivery_is_current", async |conn: &mut Conn| {
            queue::is_current(conn, held, updated_at).await
        });
        current.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot tell whether a webhook delivery is still to be sent");
            false
        })
    }

    /// Makes one attempt. The payload goes with it.
    pub(super) async fn attempt(&self, delivery: &mut ClaimedDelivery) -> Attempt {
        let step = self.traces.resume("deliver", SpanKind::Client, delivery.traceparent.as_deref());
        let url = &delivery.destination.url;
        step.note("http.request.method", "POST");
        step.note("server.address", url.host_str().unwrap_or_default().to_owned());
        step.note("http.request.resend_count", delivery.attempts);
        step.note("auspex.tenant.id", delivery.destination.tenant.0.to_string());
        step.note("auspex.delivery.id", delivery.delivery_id.to_string());
        let headers = self.headers(delivery, step.traceparent());
        let payload = std::mem::take(&mut delivery.payload);
        let answer = self.outbound.post(url, headers, payload, self.options.timeout).await;
        let wait = wait_after(self.options.retry_base, delivery.attempts + 1, self.random.fraction());
        let attempt = judge(answer, delivery.attempts + 1 < delivery.max_attempts, wait, self.clock.now());
        if let Some(status) = attempt.status_code {
            step.note("http.response.status_code", i64::from(status));
        }
        if !attempt.is_success() {
            step.fail(
                attempt.status_code.map_or_else(|| "no_answer".to_owned(), |status| status.to_string()),
            );
        }
        attempt
    }

    fn headers(&self, delivery: &ClaimedDelivery, traceparent: Option<String>) -> HeaderMap {
        let (id, now) = (delivery.delivery_id.to_string(), self.clock.now());
        let signatures = delivery.destination.key.sign(delivery.delivery_id, now, &delivery.payload);
        let seconds = now.seconds().to_string();
        let pairs = [
            ("x-webhook-event", delivery.event_type.as_str()),
            ("x-webhook-delivery", &id),
            ("x-webhook-timestamp", &seconds),
            ("x-webhook-signature", &signatures.hex),
            ("webhook-id", &id),
            ("webhook-timestamp", &seconds),
            ("webhook-signature", &signatures.standard),
        ];
        let mut headers = HeaderMap::with_capacity(pairs.len() + 2);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let trace = traceparent.as_deref().map(|traceparent| ("traceparent", traceparent));
        for (name, value) in pairs.into_iter().chain(trace) {
            // Names, ids, digits, hex and base64: each is a header's text.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }
}

/// What follows from an answer, or from none. `wait` is the usual one before the next attempt, if there is to be one.
fn judge(answer: Result<Reply, OutboundError>, may_retry: bool, wait: Duration, now: Timestamp) -> Attempt {
    let status_code = answer.as_ref().ok().map(|reply| reply.status);
    let (failure, error) = match &answer {
        Ok(reply) if (200..300).contains(&reply.status) => (None, None),
        Ok(reply) => {
            let failure = match reply.status {
                429 | 500.. => Failure::Passing(reply.retry_after),
                _ => Failure::Permanent(Cause::Refused),
            };
            let more = if (300..400).contains(&reply.status) { ": redirects are not followed" } else { "" };
            (Some(failure), Some(format!("the receiver answered {}{more}", reply.status)))
        }
        Err(error @ OutboundError::Refused(_)) => {
            (Some(Failure::Permanent(Cause::Blocked)), Some(error.to_string()))
        }
        Err(error) => (Some(Failure::Passing(None)), Some(error.to_string())),
    };
    let verdict = match failure {
        None => Verdict::Delivered,
        Some(Failure::Passing(asked)) if may_retry => {
            let asked = asked.unwrap_or_default().min(MAX_RETRY_AFTER);
            Verdict::Retry(now + wait.max(asked))
        }
        Some(Failure::Passing(_)) => Verdict::Dead(Cause::Exhausted),
        Some(Failure::Permanent(cause)) => Verdict::Dead(cause),
    };
    let response = answer.ok().map(|reply| reply.body_start);
    Attempt { verdict, at: now, status_code, error, response }
}

impl Attempt {
    /// The end of a delivery that nobody has come to the end of.
    pub(super) fn abandoned(at: Timestamp) -> Self {
        let verdict = Verdict::Dead(Cause::Abandoned);
        Self { verdict, at, status_code: None, error: Some(ABANDONED.to_owned()), response: None }
    }

    pub(super) fn is_success(&self) -> bool {
        self.verdict == Verdict::Delivered
    }

    /// Whether it tells something about the receiver.
    pub(super) fn was_made(&self) -> bool {
        self.verdict != Verdict::Dead(Cause::Abandoned)
    }

    /// The row that it leaves.
    pub(super) fn settled(&self, delivery: &ClaimedDelivery) -> AttemptResult {
        let (outcome, at) = match self.verdict {
            Verdict::Delivered => (DeliveryOutcome::Delivered, self.at),
            Verdict::Retry(at) => (DeliveryOutcome::Retry, at),
            Verdict::Dead(_) => (DeliveryOutcome::Dead, self.at),
        };
        AttemptResult {
            lease: delivery.lease(),
            outcome,
            attempts: delivery.attempts + i64::from(self.was_made()),
            at,
            status_code: self.status_code.map(i64::from),
            error: self.error.clone(),
            response: self.response.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000);
    const WAIT: Duration = Duration::from_secs(30);

    fn verdict(status: u16, retry_after_s: Option<u64>) -> Verdict {
        let reply =
            Reply { status, body_start: String::new(), retry_after: retry_after_s.map(Duration::from_secs) };
        judge(Ok(reply), true, WAIT, NOW).verdict
    }

    #[test]
    fn each_status_has_its_consequence() {
        let later = Verdict::Retry(NOW + WAIT);
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(verdict(status, None), Verdict::Delivered, "{status}");
        }
        for status in [429, 500, 502, 503, 504, 599] {
            assert_eq!(verdict(status, None), later, "{status}");
        }
        for status in [301, 302, 307, 400, 401, 403, 404, 408, 410, 413, 422] {
            assert_eq!(verdict(status, Some(5)), Verdict::Dead(Cause::Refused), "{status}");
        }
    }

    #[test]
    fn a_receiver_can_ask_for_more_time_but_not_for_less_nor_for_ever() {
        assert_eq!(verdict(429, Some(5)), Verdict::Retry(NOW + WAIT));
        assert_eq!(verdict(503, Some(120)), Verdict::Retry(NOW + Duration::from_mins(2)));
        assert_eq!(verdict(429, Some(u64::MAX)), Verdict::Retry(NOW + MAX_RETRY_AFTER));
    }

    #[test]
    fn what_may_pass_is_given_up_after_the_last_attempt_and_a_refused_address_at_once() {
        let last = judge(Err(OutboundError::Timeout), false, WAIT, NOW);
        assert_eq!(last.verdict, Verdict::Dead(Cause::Exhausted));
        let attempt = judge(Err(OutboundError::Timeout), true, WAIT, NOW);
        assert_eq!(attempt.verdict, Verdict::Retry(NOW + WAIT));
        assert_eq!(attempt.error.as_deref(), Some("no complete answer in time"));
        let refused = judge(Err(OutboundError::Refused("no".to_owned())), true, WAIT, NOW);
        assert_eq!((refused.verdict, refused.status_code), (Verdict::Dead(Cause::Blocked), None));
    }
}
