//! Balance, ledger and top-ups, and events from the payment provider.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use model::api::{
    Balance, CheckoutCreate, CheckoutSession, CheckoutStatus, Error, LedgerPage, PaymentWebhookAck,
};
use serde::Deserialize;
use service::{LedgerKind, LedgerQuery};
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which entries of the ledger to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LedgerParameters {
    /// `credit` or `charge`: only entries of that type.
    #[serde(rename = "type")]
    #[param(example = "charge")]
    kind: Option<String>,
    /// `batch`: one entry for each bulk run, instead of one for each of its analyses.
    #[param(example = "batch")]
    group: Option<String>,
    /// Only the charges of this bulk run.
    batch_id: Option<Uuid>,
    /// The page size; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; the other parameters must stay the same.
    cursor: Option<String>,
}

/// Read the balance.
///
/// Also whether analyses are billed, what happens when the balance is empty, and the limits of a top-up.
#[utoipa::path(get, path = "/v1/billing", tag = "billing", responses((status = 200, body = Balance)))]
pub(super) async fn balance(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<Balance>, Refusal> {
    Ok(Json(app.service.billing.balances.get(caller.tenant).await?))
}

/// List the ledger, newest first.
///
/// Entries never change, and their sum is the balance.
#[utoipa::path(get, path = "/v1/billing/ledger", tag = "billing", params(LedgerParameters), responses(
    (status = 200, body = LedgerPage),
    (status = 400, description = "A parameter is invalid, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn ledger(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<LedgerParameters>,
) -> Result<Json<LedgerPage>, Refusal> {
    let kind = match parameters.kind.as_deref() {
        None => None,
        Some("credit") => Some(LedgerKind::Credit),
        Some("charge") => Some(LedgerKind::Charge),
        Some(_) => return Err(service::Error::bad_request("type: it must be credit or charge").into()),
    };
    let grouped = match parameters.group.as_deref() {
        None => false,
        Some("batch") => true,
        Some(_) => return Err(service::Error::bad_request("group: it must be batch").into()),
    };
    let query = LedgerQuery {
        kind,
        grouped,
        batch_id: parameters.batch_id,
        limit: parameters.limit.unwrap_or(50),
        cursor: parameters.cursor.as_deref(),
    };
    Ok(Json(app.service.billing.ledger.page(caller.tenant, &query).await?))
}

/// Open a checkout to top up the balance by card.
///
/// Send the customer to the `url`. Once the payment is confirmed the balance is credited, exactly once.
#[utoipa::path(post, path = "/v1/billing/checkout", tag = "billing", request_body = CheckoutCreate, responses(
    (status = 201, body = CheckoutSession),
    (status = 400, description = "The amount is not between `topup_min_cents` and `topup_max_cents`.", body = Error),
    (status = 502, description = "`payment_provider_error`: the payment provider failed.", body = Error),
    (status = 503, description = "`payments_not_configured`: card payments are not configured.", body = Error),
))]
pub(super) async fn open_checkout(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<CheckoutCreate>,
) -> Result<(StatusCode, Json<CheckoutSession>), Refusal> {
    Ok((StatusCode::CREATED, Json(app.service.billing.checkouts.open(caller.tenant, &request).await?)))
}

/// Read the status of a checkout.
///
/// `pending` until the payment provider has confirmed the payment, then `credited`, exactly once.
#[utoipa::path(get, path = "/v1/billing/checkout/{session_id}", tag = "billing",
    params(("session_id" = String, Path, description = "The `id` of the checkout session.")), responses(
    (status = 200, body = CheckoutStatus),
    (status = 404, description = "There is no such checkout.", body = Error),
))]
pub(super) async fn checkout(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(session_id): extract::Path<String>,
) -> Result<Json<CheckoutStatus>, Refusal> {
    Ok(Json(app.service.billing.checkouts.status(caller.tenant, &session_id).await?))
}

/// Receive an event from the payment provider.
///
/// The body is a Stripe event; its signature is verified over the raw bytes. A paid checkout session of this service is
/// credited exactly once, no matter how often it is reported; all other events are acknowledged.
#[utoipa::path(post, path = "/webhooks/stripe", tag = "system",
    params(("Stripe-Signature" = String, Header, description = "`t=…,v1=…`: proves that Stripe sent the body, less than five minutes ago.")),
    request_body(content = serde_json::Value, description = "A Stripe event object."), responses(
    (status = 200, body = PaymentWebhookAck),
    (status = 400, description = "The signature is invalid, or the body is not an event.", body = Error),
    (status = 413, description = "The body is larger than 256 KiB.", body = Error),
    (status = 503, description = "`payments_not_configured`: card payments are not configured.", body = Error),
))]
pub(super) async fn payment_event(
    State(app): State<App>,
    headers: HeaderMap,
    extract::Raw(body): extract::Raw,
) -> Result<Json<PaymentWebhookAck>, Refusal> {
    let mut signatures = headers.get_all("stripe-signature").iter();
    // More than one header is treated as none, because either could be the one that counts.
    let signature = signatures.next().filter(|_| signatures.next().is_none());
    let signature = signature.and_then(|value| value.to_str().ok());
    app.service.billing.checkouts.take_payment_event(signature, &body).await?;
    Ok(Json(PaymentWebhookAck { received: true }))
}
