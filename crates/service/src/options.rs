//! What an operator decides about the use cases.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Tariff;

/// The settings of the use cases.
#[expect(clippy::struct_excessive_bools, reason = "switches, each of its own")]
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether strangers may make an account.
    pub allow_registration: bool,
    /// What a new account starts with.
    pub signup_credit_cents: u32,
    /// Requests a minute for a tenant, over all nodes.
    pub rate_limit_per_minute: u32,
    /// How long an object must be quiet before it is analyzed.
    pub debounce: Duration,
    /// How long an object that is never quiet waits at most.
    pub debounce_max: Duration,
    /// Synchronous analyses at a time for a tenant, over all nodes.
    pub sync_limit: u32,
    /// Analyses at a time in this process.
    pub workers: u16,
    /// How long an analyzer may take.
    pub analyzer_timeout: Duration,
    /// Whether analyses are billed.
    pub metering: bool,
    /// Whether an empty balance pauses analyses; else it may go negative.
    pub block: bool,
    /// Whether addresses that strangers name may lead into private networks.
    pub allow_private_targets: bool,
    /// How often a webhook delivery is tried.
    pub webhook_max_attempts: u16,
    /// The wait after a delivery's first attempt; it doubles with each.
    pub webhook_retry_base: Duration,
    /// How long a receiver may take, in all.
    pub webhook_timeout: Duration,
    /// Below this a mail warns.
    pub low_balance_cents: u32,
    /// The smallest top-up.
    pub topup_min_cents: u32,
    /// The largest top-up.
    pub topup_max_cents: u32,
    /// What analyses cost by default.
    pub tariff: Tariff,
    /// What they cost with particular models.
    pub tariffs: BTreeMap<String, Tariff>,
}
