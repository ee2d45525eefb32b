//! Card payments by Stripe: opening a Checkout Session, reading its status, and verifying the signature of events.

mod signature;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use model::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, RequestBuilder, redirect};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

pub(crate) use self::signature::BadSignature;
use crate::runtime::{Error, Kind, Result};

/// The version of the API that this was written for; Stripe keeps supporting it. It is the version of the official
/// library that the tests compare against.
pub const API_VERSION: &str = "2026-10-28.endive";
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// From the first byte sent to the last one received. A user is waiting.
const DEADLINE: Duration = Duration::from_secs(8);
/// The maximum size of a response; a session has a few kilobytes.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));
/// The product name on the payment page and the receipt.
const PRODUCT_NAME: &str = "Prepaid balance";
/// The longest session id accepted; actual ids have about 70 characters.
const MAX_SESSION_ID: usize = 255;

/// The characters of a path segment that are percent-encoded.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');

/// The configuration of Stripe.
#[derive(Clone)]
pub struct StripeOptions {
    /// Authenticates requests to Stripe.
    pub secret_key: String,
    /// Verifies events from Stripe.
    pub webhook_secret: String,
    /// The base URL of the API.
    pub api_url: Url,
}

/// A client for Stripe.
#[derive(Clone)]
pub struct Stripe {
    client: Client,
    options: StripeOptions,
    /// Where customers return after paying.
    return_url: String,
}

/// A session to be opened.
pub(crate) struct NewSession {
    /// The id of the checkout: sent as client reference, in the metadata, and as idempotency key.
    pub(crate) checkout_id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) amount_cents: i64,
    pub(crate) currency: &'static str,
}

/// The fields of a Checkout Session that are used here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) url: Option<String>,
    pub(crate) client_reference_id: Option<String>,
    #[serde(default)]
    pub(crate) metadata: Option<BTreeMap<String, Value>>,
    pub(crate) payment_status: String,
    pub(crate) amount_total: Option<i64>,
    pub(crate) currency: Option<String>,
}

/// Why a request to Stripe failed. Of Stripe's response it contains only the error's type and code.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Network(#[source] reqwest::Error),
    #[error("{0}")]
    Response(Box<dyn StdError + Send + Sync>),
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalBody,
}

#[derive(Deserialize)]
struct RefusalBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
}

impl Session {
    /// The id of the checkout, if the session has one.
    pub(crate) fn checkout_id(&self) -> Option<Uuid> {
        let in_metadata = || self.metadata.as_ref()?.get("checkout_id")?.as_str();
        self.client_reference_id.as_deref().or_else(in_metadata)?.parse().ok()
    }

    /// Whether the session is paid.
    pub(crate) fn is_paid(&self) -> bool {
        self.payment_status == "paid"
    }

    /// Whether the session's id can be stored and used in URLs.
    pub(crate) fn has_usable_id(&self) -> bool {
        (1..=MAX_SESSION_ID).contains(&self.id.len()) && self.id.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl Stripe {
    /// Creates the client without contacting Stripe.
    pub fn new(options: StripeOptions, public_url: &Url) -> Result<Self> {
        let client = Client::builder()
            .connect_timeout(CONNECT_DEADLINE)
            .timeout(DEADLINE)
            .redirect(redirect::Policy::none())
            .user_agent(USER_AGENT)
            .build()
            .map_err(crate::runtime::internal)?;
        let return_url = format!("{}/console/billing", public_url.as_str().trim_end_matches('/'));
        Ok(Self { client, options, return_url })
    }

    /// Opens a session. A repeated request for the same checkout returns the same session.
    pub(crate) async fn open_session(&self, new: &NewSession) -> Result<Session> {
        let checkout = new.checkout_id.to_string();
        let form = [
            ("mode", "payment".to_owned()),
            ("client_reference_id", checkout.clone()),
            ("metadata[checkout_id]", checkout.clone()),
            ("metadata[tenant_id]", new.tenant_id.to_string()),
            // Also on the payment itself, for the operator's bookkeeping.
            ("payment_intent_data[metadata][checkout_id]", checkout.clone()),
            ("payment_intent_data[metadata][tenant_id]", new.tenant_id.to_string()),
            ("line_items[0][quantity]", "1".to_owned()),
            ("line_items[0][price_data][currency]", new.currency.to_owned()),
            ("line_items[0][price_data][unit_amount]", new.amount_cents.to_string()),
            ("line_items[0][price_data][product_data][name]", PRODUCT_NAME.to_owned()),
            // Stripe replaces the placeholder in braces with the session's id.
            ("success_url", format!("{}?checkout={{CHECKOUT_SESSION_ID}}", self.return_url)),
            ("cancel_url", format!("{}?checkout=cancelled", self.return_url)),
        ];
        let request = || self.client.post(self.url("")).header("Idempotency-Key", &checkout).form(&form);
        let opened = match self.send(request()).await {
            // The first request may or may not have arrived; the idempotency key makes a second one safe.
            Err(Failure::Network(error)) => {
                tracing::warn!(%error, "cannot reach Stripe; retrying once");
                self.send(request()).await
            }
            other => other,
        };
        opened.map_err(refusal)
    }

    /// Reads a session.
    pub(crate) async fn session(&self, session_id: &str) -> Result<Session> {
        let segment = utf8_percent_encode(session_id, SEGMENT);
        self.send(self.client.get(self.url(&format!("/{segment}")))).await.map_err(refusal)
    }

    /// Refuses a body that Stripe has not signed, or signed too long ago.
    pub(crate) fn verify(
        &self,
        header: &str,
        body: &[u8],
        now: Timestamp,
    ) -> std::result::Result<(), BadSignature> {
        signature::verify(&self.options.webhook_secret, header, body, now)
    }

    fn url(&self, rest: &str) -> String {
        format!("{}/v1/checkout/sessions{rest}", self.options.api_url.as_str().trim_end_matches('/'))
    }

    async fn send(&self, request: RequestBuilder) -> std::result::Result<Session, Failure> {
        let request = request.bearer_auth(&self.options.secret_key).header("Stripe-Version", API_VERSION);
        let mut response = request.send().await.map_err(|error| Failure::Network(error.without_url()))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| Failure::Network(error.without_url()))?
        {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(Failure::Response(format!("more than {MAX_RESPONSE_BYTES} bytes").into()));
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            let codes = serde_json::from_slice(&body).map_or_else(|_| String::new(), reason);
            return Err(Failure::Response(format!("Stripe answered {status}{codes}").into()));
        }
        // serde's own message quotes its input.
        let session: Session = serde_json::from_slice(&body).map_err(|error| {
            let position = format!("line {}, column {}", error.line(), error.column());
            Failure::Response(format!("Stripe's response is not a Checkout Session, at {position}").into())
        })?;
        if session.has_usable_id() {
            Ok(session)
        } else {
            Err(Failure::Response("Stripe's session has no usable id".into()))
        }
    }
}

/// The type and code of an error; anything else might echo the request.
fn reason(refusal: Refusal) -> String {
    let is_code = |text: &String| {
        text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let codes = [refusal.error.kind, refusal.error.code].into_iter().flatten().filter(is_code);
    codes.flat_map(|code| [", ".to_owned(), code]).collect()
}

fn refusal(failure: Failure) -> Error {
    Error::new(Kind::PaymentProviderError, "the payment provider failed; try again later").because(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(text: &str) -> Session {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_session_is_identified_by_its_reference_or_its_metadata() {
        let id: Uuid = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let by_reference = format!(r#"{{"id":"cs_1","payment_status":"paid","client_reference_id":"{id}"}}"#);
        let by_metadata = format!(
            r#"{{"id":"cs_1","payment_status":"paid","client_reference_id":null,"metadata":{{"checkout_id":"{id}"}}}}"#
        );
        for text in [by_reference, by_metadata] {
            assert_eq!(session(&text).checkout_id(), Some(id));
        }
        for text in [
            r#"{"id":"cs_1","payment_status":"paid"}"#,
            r#"{"id":"cs_1","payment_status":"paid","metadata":null,"client_reference_id":"order-7"}"#,
            r#"{"id":"cs_1","payment_status":"paid","metadata":{"checkout_id":7}}"#,
        ] {
            assert_eq!(session(text).checkout_id(), None, "{text}");
        }
    }

    #[test]
    fn an_error_contains_only_type_and_code() {
        let reason_of = |text: &str| reason(serde_json::from_str(text).unwrap());
        assert_eq!(
            reason_of(
                r#"{"error": {"type": "invalid_request_error", "code": "amount_too_small", "message": "x"}}"#
            ),
            ", invalid_request_error, amount_too_small"
        );
        assert_eq!(reason_of(r#"{"error": {"type": "Invalid API Key: sk_live", "code": null}}"#), "");
    }
}
