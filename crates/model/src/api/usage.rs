//! Usage records.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Date;

/// What an account used in a range of days.
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
    /// What is left now, rounded toward zero.
    #[schema(example = 487)]
    pub balance_cents: i64,
    /// Average spend for each day of the range that has begun, in micro-dollars.
    #[schema(example = 43_000)]
    pub burn_rate_micros_per_day: i64,
    /// How many days the balance lasts at that rate; left out without spend or balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 113.2)]
    pub runway_days: Option<f64>,
    /// The range summed up.
    pub totals: UsageTotals,
    /// Every day of the range, oldest first, also those without any use.
    pub series: Vec<UsageDay>,
    /// By what answered; most spend first.
    pub by_model: Vec<UsageBreakdown>,
    /// `async` and `sync`: by whether a caller waited; most spend first.
    pub by_source: Vec<UsageBreakdown>,
    /// By question; most asked first.
    pub by_signal: Vec<UsageSignal>,
}

/// Sums of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageTotals {
    /// How many analyses.
    pub analyses: i64,
    /// What they were charged, in micro-dollars.
    pub spend_micros: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
}

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageDay {
    /// Which, in UTC.
    pub date: Date,
    /// How many analyses.
    pub analyses: i64,
    /// Of these, those that nobody waited for.
    #[serde(rename = "async")]
    pub asynchronous: i64,
    /// Of these, those that a caller waited for.
    #[serde(rename = "sync")]
    pub synchronous: i64,
    /// What they were charged, in micro-dollars.
    pub spend_micros: i64,
}

/// A part of the use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageBreakdown {
    /// Which part.
    pub key: String,
    /// How many analyses.
    pub analyses: i64,
    /// What they were charged, in micro-dollars.
    pub spend_micros: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
}

/// How often a question was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageSignal {
    /// The signal's key.
    pub signal: String,
    /// How many analyses answered it.
    pub analyses: i64,
}
