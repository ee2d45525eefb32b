//! Balance, ledger and top-up records.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Timestamp;

/// An account's balance, and how it is spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Balance {
    /// The balance, rounded toward zero.
    #[schema(example = 487)]
    pub balance_cents: i64,
    /// The currency of every amount.
    #[schema(example = "usd")]
    pub currency: String,
    /// Whether analyses are billed.
    pub metering_enabled: bool,
    /// `block` pauses analyses at an empty balance; `grace` lets the balance go negative.
    #[schema(example = "block")]
    pub enforcement: String,
    /// Whether the balance can be topped up by card.
    pub self_serve_topup: bool,
    /// An email warns each time the balance falls below this.
    #[schema(example = 100)]
    pub low_balance_threshold_cents: i64,
    /// The smallest top-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 500)]
    pub topup_min_cents: Option<i64>,
    /// The largest top-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 100_000)]
    pub topup_max_cents: Option<i64>,
}

/// An entry of the ledger. The sum of all entries is the balance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LedgerEntry {
    /// The entry's id.
    pub id: Uuid,
    /// Negative for a charge, positive for a credit; charges below a cent round to 0.
    #[schema(example = 0)]
    pub delta_cents: i64,
    /// The balance after it, rounded toward zero.
    #[schema(example = 499)]
    pub balance_after_cents: i64,
    /// The exact amount, in micro-dollars.
    #[schema(example = -104)]
    pub delta_micros: i64,
    /// The exact balance after it, in micro-dollars.
    #[schema(example = 4_999_896)]
    pub balance_after_micros: i64,
    /// `signup_credit`, `topup`, `analysis` or `adjustment`.
    #[schema(example = "analysis")]
    pub reason: String,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// The object that was analyzed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub object_id: Option<String>,
    /// The cost of the analysis, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 0.000_104)]
    pub cost_usd: Option<f64>,
    /// The margin that the cost was multiplied by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 1.0)]
    pub cost_margin: Option<f64>,
    /// Tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub input_tokens: Option<i64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_tokens: Option<i64>,
    /// The checkout session that paid a top-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub payment_ref: Option<String>,
    /// Why the operator adjusted the balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub note: Option<String>,
    /// The bulk run that the charge is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub batch_id: Option<Uuid>,
    /// With `group=batch`, on an entry that stands for a whole bulk run: its totals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub batch: Option<LedgerBatch>,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// The totals of a bulk run's charges. Its entry has the id, time and balance of the newest charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerBatch {
    /// The number of charges.
    pub count: i64,
    /// Their sum, in micro-dollars.
    pub delta_micros: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// How many different models answered.
    pub models: i64,
    /// The model that answered first; the only one if `models` is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// When the first charge was recorded.
    pub first_at: Timestamp,
}

/// A page of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LedgerPage {
    /// The entries, newest first.
    pub entries: Vec<LedgerEntry>,
    /// The cursor of the next page; empty on the last page.
    pub next_cursor: String,
}

/// A top-up to be paid by card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckoutCreate {
    /// The amount, between `topup_min_cents` and `topup_max_cents`.
    #[schema(example = 2_000)]
    pub amount_cents: i64,
}

/// A checkout session at the payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckoutSession {
    /// The session's id at the payment provider.
    #[schema(example = "cs_test_a1…")]
    pub id: String,
    /// The payment page to send the customer to.
    #[schema(format = "uri", example = "https://checkout.stripe.com/c/pay/cs_test_a1…")]
    pub url: String,
}

/// The status of a top-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckoutStatus {
    /// The session's id at the payment provider.
    #[schema(example = "cs_test_a1…")]
    pub id: String,
    /// Whether it was paid and credited.
    pub status: CheckoutState,
    /// The amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 2_000)]
    pub amount_cents: Option<i64>,
    /// The balance right after it was credited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 2_487)]
    pub balance_after_cents: Option<i64>,
}

/// Whether a top-up was paid and credited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckoutState {
    /// Not credited yet.
    Pending,
    /// Paid and credited, exactly once.
    Credited,
}

crate::text_values!(CheckoutState { Pending = "pending", Credited = "credited" });

/// The response to an event from the payment provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentWebhookAck {
    /// Always true: the event need not be sent again.
    #[schema(example = true)]
    pub received: bool,
}
