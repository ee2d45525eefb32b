//! One attempt of a delivery: signs it, posts it, and evaluates the response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::webhook::{Signatures, SigningKey};
use model::{TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use store::actions::webhooks::queue::{self, AttemptResult, DeliveryLease, DeliveryOutcome};
use store::{Conn, Lease, Store};
use url::Url;
use uuid::Uuid;

use crate::actions::webhooks::retries::{AttemptOutcome, Cause, outcome_of, wait_after};
use crate::runtime::outbound::{OutboundError, Reply};
use crate::runtime::{Clock, Outbound, Random, Result, Traces};

/// A delivery that was claimed longer ago than this is checked again before it is sent.
const FRESH: Duration = Duration::from_millis(500);
/// The error of a delivery that is given up because no attempt finished.
const ABANDONED: &str = "abandoned: the sender crashed during every attempt";

/// How deliveries are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CourierOptions {
    /// The deadline of one attempt, from connecting to the end of the response.
    pub(crate) timeout: Duration,
    /// The delay after a delivery's first attempt; it doubles with each attempt.
    pub(crate) retry_base: Duration,
}

/// The URL of an endpoint, and the key that signs its deliveries.
pub(super) struct Destination {
    pub(super) tenant: TenantId,
    pub(super) endpoint_id: Uuid,
    pub(super) url: Url,
    pub(super) key: SigningKey,
    /// The key that was in use before, and until when receivers may go by it.
    pub(super) previous: Option<(SigningKey, Timestamp)>,
    /// The version of the endpoint.
    pub(super) version: i64,
}

impl Destination {
    /// Signs an attempt. While a receiver may still go by the previous secret, Standard Webhooks gets both signatures, and the
    /// header that has room for one gets the previous one.
    fn sign(&self, delivery_id: Uuid, at: Timestamp, body: &str) -> Signatures {
        let signatures = self.key.sign(delivery_id, at, body);
        match &self.previous {
            Some((previous, until)) if at < *until => {
                let previous = previous.sign(delivery_id, at, body);
                let standard = format!("{} {}", signatures.standard, previous.standard);
                Signatures { hex: previous.hex, standard }
            }
            _ => signatures,
        }
    }
}

/// A delivery that this process has claimed.
pub(super) struct ClaimedDelivery {
    pub(super) destination: Arc<Destination>,
    pub(super) delivery_id: Uuid,
    /// The webhook event type.
    pub(super) event_type: String,
    /// The bytes that are signed and sent; empty once they are being sent.
    pub(super) payload: String,
    /// Finished attempts.
    pub(super) attempts: i64,
    pub(super) max_attempts: i64,
    /// The trace that it belongs to.
    pub(super) traceparent: Option<String>,
    pub(super) lease: Lease,
    /// Whether it probes the receiver of a resting endpoint.
    pub(super) is_probe: bool,
    /// When it was claimed.
    pub(super) claimed: Instant,
}

/// The outcome of a claimed delivery.
pub(super) struct Outcome {
    pub(super) delivery: ClaimedDelivery,
    /// None if it was not sent after all.
    pub(super) attempt: Option<Attempt>,
}

/// A finished attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) outcome: AttemptOutcome,
    pub(super) at: Timestamp,
    pub(super) status_code: Option<u16>,
    pub(super) error: Option<String>,
    pub(super) response: Option<String>,
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
    /// Whether a claimed delivery may still be sent. Its lease must outlast the attempt, or another process could send the
    /// same delivery; and if it has waited, its object or endpoint may have been deleted or changed.
    pub(super) async fn may_send(&self, delivery: &ClaimedDelivery) -> bool {
        if self.clock.now() + self.options.timeout > delivery.lease.until {
            return false;
        }
        if delivery.claimed.elapsed() <= FRESH {
            return true;
        }
        let (leased, version) = (delivery.lease(), delivery.destination.version);
        let current = self.store.read("delivery_is_current", async |conn: &mut Conn| {
            queue::is_current(conn, leased, version).await
        });
        current.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot check whether a webhook delivery is still current");
            false
        })
    }

    /// Makes one attempt. This takes the delivery's payload.
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
        let response = self.outbound.post(url, headers, payload, self.options.timeout).await;
        let wait = wait_after(self.options.retry_base, delivery.attempts + 1, self.random.fraction());
        let attempt =
            evaluate(response, delivery.attempts + 1 < delivery.max_attempts, wait, self.clock.now());
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
        let signatures = delivery.destination.sign(delivery.delivery_id, now, &delivery.payload);
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
            // Names, ids, digits, hex and base64 are always valid header values.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }
}

/// The attempt that ended with a response or a network error. `wait` is the regular delay before the next attempt.
fn evaluate(
    response: Result<Reply, OutboundError>,
    may_retry: bool,
    wait: Duration,
    now: Timestamp,
) -> Attempt {
    let status_code = response.as_ref().ok().map(|reply| reply.status);
    let (outcome, error) = outcome_of(&response, may_retry, wait, now);
    let response = response.ok().map(|reply| reply.body_start);
    Attempt { outcome, at: now, status_code, error, response }
}

impl Attempt {
    /// The outcome of a delivery whose every attempt crashed its sender.
    pub(super) fn abandoned(at: Timestamp) -> Self {
        let outcome = AttemptOutcome::Dead(Cause::Abandoned);
        Self { outcome, at, status_code: None, error: Some(ABANDONED.to_owned()), response: None }
    }

    pub(super) fn is_success(&self) -> bool {
        self.outcome == AttemptOutcome::Delivered
    }

    /// Whether the delivery was accepted, or refused for good: nothing is gained by waiting before the next one is sent.
    pub(super) fn is_final(&self) -> bool {
        use AttemptOutcome::{Dead, Delivered};
        matches!(self.outcome, Delivered | Dead(Cause::Refused | Cause::Blocked))
    }

    /// Whether the receiver was called.
    pub(super) fn was_made(&self) -> bool {
        self.outcome != AttemptOutcome::Dead(Cause::Abandoned)
    }

    /// The row to be written.
    pub(super) fn settled(&self, delivery: &ClaimedDelivery) -> AttemptResult {
        let (outcome, at) = match self.outcome {
            AttemptOutcome::Delivered => (DeliveryOutcome::Delivered, self.at),
            AttemptOutcome::Retry(at) => (DeliveryOutcome::Retry, at),
            AttemptOutcome::Dead(_) => (DeliveryOutcome::Dead, self.at),
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
