//! The operator's settings for the use cases.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Tariff;
use url::Url;

/// The settings of the use cases.
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL of the service, as browsers see it.
    pub public_url: Url,
    /// The addresses of the operators, as [`model::EmailAddress::key`] has them.
    pub operators: Vec<String>,
    /// Whether mails are sent; otherwise they are written to files.
    pub sends_mail: bool,
    /// Whether anyone may register an account.
    pub allow_registration: bool,
    /// Accounts that may be registered from one network in an hour, if they are limited.
    pub registrations_per_hour: Option<u32>,
    /// Whether a rule writes only to recipients who have agreed, for accounts that have proved an address of their own.
    pub confirm_recipients: bool,
    /// The credit that a new account starts with.
    pub signup_credit_cents: u32,
    /// How long a session may change how its member signs in, after it showed a password, a code, a passkey or a provider.
    pub recent_proof: Duration,
    /// Requests per minute for each tenant, over all nodes.
    pub rate_limit_per_minute: u32,
    /// Bytes of events per minute for each tenant, over all nodes, if they are limited.
    pub ingest_bytes_per_minute: Option<i64>,
    /// Bytes of contents and metadata that each tenant may store, if they are limited.
    pub storage_quota_bytes: Option<i64>,
    /// How long an object must be quiet before it is analyzed.
    pub debounce: Duration,
    /// The longest time that an object waits if it is never quiet.
    pub debounce_max: Duration,
    /// Verdicts that a tenant may have in flight, over all nodes.
    pub sync_limit: u32,
    /// Analyses that this process runs concurrently.
    pub workers: u16,
    /// How long one call of the analyzer may take.
    pub analyzer_timeout: Duration,
    /// The second analyzer's settings, if there is one.
    pub escalation: Option<EscalationOptions>,
    /// How long a claimed review waits for its claimer.
    pub claim: Duration,
    /// The number of analyses up to which a caller waits for the replay of a rule.
    pub replay_inline: i64,
    /// The longest that one export takes.
    pub export_max: Duration,
    /// For how many days the answers of every analysis are kept; 0 keeps none.
    pub answer_history_days: u16,
    /// For how many days the audit log is kept.
    pub audit_days: u16,
    /// Whether analyses are billed.
    pub metering: bool,
    /// Whether an empty balance pauses analyses; otherwise the balance may become negative.
    pub block: bool,
    /// Whether URLs that tenants configure may point to private networks.
    pub allow_private_targets: bool,
    /// How long a webhook delivery waits before it is given up.
    pub webhook_max_age: Duration,
    /// The number of attempts for a webhook delivery.
    pub webhook_max_attempts: u16,
    /// The delay after a delivery's first attempt; it doubles with each attempt.
    pub webhook_retry_base: Duration,
    /// The deadline of one delivery attempt, from connecting to the end of the response.
    pub webhook_timeout: Duration,
    /// The balance below which a warning is mailed.
    pub low_balance_cents: u32,
    /// The smallest top-up.
    pub topup_min_cents: u32,
    /// The largest top-up.
    pub topup_max_cents: u32,
    /// The default price of analyses.
    pub tariff: Tariff,
    /// Prices by model, where they differ from the default.
    pub tariffs: BTreeMap<String, Tariff>,
}

/// The settings of the second analyzer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscalationOptions {
    /// How long one call may take.
    pub timeout: Duration,
    /// The answers that each tenant may escalate on a day, if they are limited.
    pub per_day: Option<i64>,
    /// What they may cost each tenant on a day, in micro-dollars, if that is limited.
    pub micros_per_day: Option<i64>,
}

impl Options {
    /// How long the calls of both analyzers may take, one after the other.
    pub(crate) fn asking_timeout(&self) -> Duration {
        self.analyzer_timeout + self.escalation_timeout()
    }

    /// How long the call of the second analyzer may take; no time without one.
    pub(crate) fn escalation_timeout(&self) -> Duration {
        self.escalation.map_or(Duration::ZERO, |escalation| escalation.timeout)
    }
}
