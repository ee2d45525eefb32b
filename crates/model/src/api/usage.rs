//! Usage records.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Date;

/// An account's usage over a range of days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The first day, in UTC.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// The currency of every amount.
    #[schema(example = "usd")]
    pub currency: String,
    /// Whether analyses are billed.
    pub metering_enabled: bool,
    /// The current balance, rounded toward zero.
    #[schema(example = 487)]
    pub balance_cents: i64,
    /// Average spend per day of the range, without days in the future, in micro-dollars.
    #[schema(example = 43_000)]
    pub burn_rate_micros_per_day: i64,
    /// How many days the balance lasts at that rate; absent without spend or balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 113.2)]
    pub runway_days: Option<f64>,
    /// Bytes of contents and metadata of the events that are kept now.
    #[schema(example = 52_480)]
    pub storage_bytes: i64,
    /// The totals of the range.
    pub totals: UsageTotals,
    /// Every day of the range, oldest first, including those without usage.
    pub series: Vec<UsageDay>,
    /// By model; highest spend first.
    pub by_model: Vec<UsageBreakdown>,
    /// By whether a caller waited, `async` or `sync`; highest spend first.
    pub by_source: Vec<UsageBreakdown>,
    /// By signal; most answered first.
    pub by_signal: Vec<UsageSignal>,
}

/// The totals of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageTotals {
    /// The number of analyses.
    pub analyses: i64,
    /// What they were charged, in micro-dollars.
    pub spend_micros: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
}

/// The usage of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageDay {
    /// The day, in UTC.
    pub date: Date,
    /// The number of analyses.
    pub analyses: i64,
    /// Those that no caller waited for.
    #[serde(rename = "async")]
    pub asynchronous: i64,
    /// Those that a caller waited for.
    #[serde(rename = "sync")]
    pub synchronous: i64,
    /// What they were charged, in micro-dollars.
    pub spend_micros: i64,
}

/// A part of the usage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageBreakdown {
    /// The model or source.
    pub key: String,
    /// The number of analyses.
    pub analyses: i64,
    /// What they were charged, in micro-dollars.
    pub spend_micros: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
}

/// How often a signal was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageSignal {
    /// The signal's key.
    pub signal: String,
    /// The number of analyses that answered it.
    pub analyses: i64,
}
