//! The configuration: every setting with its type and default, read once at start. An invalid value prevents the start.

mod analyzers;
mod error;
pub mod reference;
mod sources;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::{Host, Url};

pub use self::analyzers::{Analyzer, Escalation};
pub(crate) use self::analyzers::{AnalyzerNames, FIRST as FIRST_ANALYZER, SECOND as SECOND_ANALYZER};
pub use self::error::ConfigError;
use self::sources::Settings;
pub use self::sources::{Origin, PREFIX, Secret, Setting};
pub use self::values::{
    AnalyzerKind, DomainList, EmailList, Enforcement, Environment, Flag, Hours, LogFormat, Mebibytes, Millis,
    NetworkList, Price, PriceTable, Role, Seconds,
};

/// All settings of the service.
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[derive(Clone, Debug)]
pub struct Config {
    /// The address the service listens on.
    pub listen: SocketAddr,
    /// The URL for links in emails, callbacks, and the console's origin. By default, the address it listens on.
    pub public_url: Option<Url>,
    /// Development or production.
    pub env: Environment,
    /// Holds the SQLite file, the generated master key, and emails if there is no SMTP server.
    pub data_dir: PathBuf,
    /// The database; by default, a SQLite file in the data directory.
    pub database_url: Option<Secret>,
    /// A replica of the database, for lists.
    pub database_read_url: Option<Secret>,
    /// The key that seals secrets at rest.
    pub master_key: Option<Secret>,
    /// The previous key, for moving to a new one.
    pub master_key_previous: Option<Secret>,
    /// What this process does.
    pub role: Role,
    /// The number of concurrent analyses in this process.
    pub workers: u16,
    /// The analyzer.
    pub analyzer: Analyzer,
    /// The second analyzer, if there is one.
    pub escalation: Escalation,
    /// The prices of analyses.
    pub prices: Prices,
    /// How long an object must be quiet before it is analyzed.
    pub debounce: Duration,
    /// The longest an object waits that is never quiet.
    pub debounce_max: Duration,
    /// The number of requests per minute for a tenant, over all nodes.
    pub rate_limit_per_minute: u32,
    /// Bytes of events per minute for a tenant, over all nodes.
    pub ingest_mib_per_minute: Mebibytes,
    /// Bytes of contents and metadata that a tenant may store.
    pub storage_quota_mib: Mebibytes,
    /// How long a claimed review waits for its claimer.
    pub claim: Duration,
    /// The number of analyses up to which a caller waits for the replay of a rule.
    pub replay_inline: u32,
    /// The longest that one export takes; its client goes on after the last row with another request.
    pub export_max: Duration,
    /// For how many days the answers of every analysis are kept; 0 keeps none.
    pub answer_history_days: u16,
    /// For how many days the audit log is kept.
    pub audit_days: u16,
    /// The number of verdicts in flight for a tenant, over all nodes.
    pub sync_limit: u32,
    /// The number of connections of one client address in this process.
    pub connections_per_address: u32,
    /// Balance and top-ups.
    pub billing: Billing,
    /// Card payments.
    pub stripe: Stripe,
    /// The SMTP server; without one, emails are written to files.
    pub smtp_url: Option<Secret>,
    /// The sender of emails.
    pub mail_from: String,
    /// Sign-in with Google.
    pub google: Google,
    /// Sign-in with GitHub.
    pub github: Github,
    /// Sign-in with another OpenID Connect issuer.
    pub oidc: Oidc,
    /// The email addresses of the operators, who see the health and the accounts of the install.
    pub operators: EmailList,
    /// Whether anyone may open an account.
    pub allow_registration: bool,
    /// Accounts that may be opened from one network in an hour; 0 is no limit. By default 20 in production.
    pub registrations_per_hour: u32,
    /// Whether rules write only to recipients who have agreed. By default, where anyone may open an account in production.
    pub confirm_recipients: bool,
    /// How long a session may change how its user signs in, after it showed a password, a code, a passkey or a provider.
    pub recent_proof: Duration,
    /// Whether webhooks may go to private addresses.
    pub allow_private_targets: bool,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: NetworkList,
    /// Whether metrics are served.
    pub metrics: bool,
    /// The token that a scraper must present.
    pub metrics_token: Option<Secret>,
    /// Outgoing webhooks.
    pub webhooks: Webhooks,
    /// The filter of log lines.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// The collector that traces are sent to.
    pub otlp_endpoint: Option<Url>,
    /// The effective settings, for `auspex config`.
    pub effective: Vec<Setting>,
    /// Warnings for the log.
    pub warnings: Vec<String>,
}

/// The prices of analyses.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Prices {
    pub input_per_mtok: Price,
    pub output_per_mtok: Price,
    pub margin: Price,
    pub by_model: PriceTable,
}

/// Balance and top-ups.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Billing {
    pub metering: bool,
    pub enforcement: Enforcement,
    pub signup_credit_cents: u32,
    pub low_balance_cents: u32,
    pub topup_min_cents: u32,
    pub topup_max_cents: u32,
}

/// Card payments.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Stripe {
    pub secret_key: Option<Secret>,
    pub webhook_secret: Option<Secret>,
    pub api_url: Url,
}

/// Sign-in with Google, or another OpenID Connect issuer configured instead.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Google {
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub issuer: Url,
}

/// Sign-in with GitHub, or a compatible server.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Github {
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub url: Url,
    pub api_url: Url,
}

/// Sign-in with another OpenID Connect issuer.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Oidc {
    pub issuer: Option<Url>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub name: String,
    pub allowed_domains: Vec<String>,
}

/// Outgoing webhooks.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Webhooks {
    pub retry_base: Duration,
    pub max_attempts: u16,
    pub timeout: Duration,
    pub max_age: Duration,
}

/// The process's environment, as text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        // A name that is not UTF-8 cannot be one of ours; a value that is not UTF-8 will fail to parse.
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

impl Config {
    /// Reads the process's environment and the configuration file that it names.
    pub fn load() -> Result<Self, ConfigError> {
        Self::from_environment(environment())
    }

    /// Reads these variables and the configuration file that they name.
    pub fn from_environment(variables: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let variables: Vec<_> = variables.collect();
        let file = variables.iter().find(|(name, value)| name == "AUSPEX_CONFIG" && !value.is_empty());
        let table = match file {
            None => toml::Table::new(),
            Some((_, path)) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    ConfigError::new(format!("AUSPEX_CONFIG: cannot read {path}: {error}"))
                })?;
                text.parse().map_err(|error| {
                    ConfigError::new(format!("AUSPEX_CONFIG: {path} is not TOML: {error}"))
                })?
            }
        };
        Self::from_settings(Settings::new(variables.into_iter(), table))
    }

    fn from_settings(mut settings: Settings) -> Result<Self, ConfigError> {
        let set = &mut settings;
        let env: Environment = set.value("env", "development")?;
        let in_development = if env == Environment::Development { "true" } else { "false" };
        let registrations = if env == Environment::Development { "0" } else { "20" };
        let mut config = Self {
            listen: set.value("listen", "127.0.0.1:8080")?,
            public_url: set.optional("public_url")?,
            env,
            data_dir: set.value("data_dir", "./data")?,
            database_url: set.secret("database_url")?,
            database_read_url: set.secret("database_read_url")?,
            master_key: set.secret("master_key")?,
            master_key_previous: set.secret("master_key_previous")?,
            role: set.value("role", "all")?,
            workers: set.value("workers", "16")?,
            analyzer: Analyzer::read(set)?,
            escalation: Escalation::read(set)?,
            prices: Prices::read(set)?,
            debounce: set.value::<Millis>("debounce_ms", "3000")?.0,
            debounce_max: set.value::<Millis>("debounce_max_ms", "30000")?.0,
            rate_limit_per_minute: set.value("rate_limit_per_minute", "3000")?,
            ingest_mib_per_minute: set.value("ingest_mib_per_minute", "64")?,
            storage_quota_mib: set.value("storage_quota_mib", "0")?,
            claim: set.value::<Seconds>("claim_seconds", "600")?.0,
            replay_inline: set.value("replay_inline", "200000")?,
            export_max: set.value::<Seconds>("export_max_seconds", "3600")?.0,
            answer_history_days: set.value("answer_history_days", "90")?,
            audit_days: set.value("audit_days", "365")?,
            sync_limit: set.value("sync_limit", "8")?,
            connections_per_address: set.value("connections_per_address", "1000")?,
            billing: Billing::read(set)?,
            stripe: Stripe::read(set)?,
            smtp_url: set.secret("smtp_url")?,
            mail_from: set.value("mail_from", "Auspex <auspex@localhost>")?,
            google: Google::read(set)?,
            github: Github::read(set)?,
            oidc: Oidc::read(set)?,
            operators: set.value("operators", "")?,
            allow_registration: set.value::<Flag>("allow_registration", "true")?.0,
            registrations_per_hour: set.value("registrations_per_hour", registrations)?,
            confirm_recipients: false,
            recent_proof: set.value::<Seconds>("recent_proof_seconds", "900")?.0,
            allow_private_targets: set.value::<Flag>("allow_private_targets", in_development)?.0,
            trusted_proxies: set.value("trusted_proxies", "")?,
            metrics: set.value::<Flag>("metrics", "true")?.0,
            metrics_token: set.secret("metrics_token")?,
            webhooks: Webhooks::read(set)?,
            log: set.value("log", "info")?,
            log_format: set.value("log_format", "text")?,
            otlp_endpoint: set.optional("otlp_endpoint")?,
            effective: Vec::new(),
            warnings: Vec::new(),
        };
        let is_open = env == Environment::Production && config.allow_registration;
        let by_default = if is_open { "true" } else { "false" };
        config.confirm_recipients = settings.value::<Flag>("confirm_recipients", by_default)?.0;
        (config.effective, config.warnings) = settings.finish()?;
        config.check()?;
        config.warnings.extend(analyzers::warnings(&config.analyzer, &config.escalation));
        if config.env == Environment::Production && config.smtp_url.is_none() {
            let mails = config.data_dir.join("mail");
            config.warnings.push(format!(
                "{PREFIX}SMTP_URL is not set: nobody receives a mail (password resets, alerts); they are written to {}",
                mails.display()
            ));
        }
        Ok(config)
    }

    /// Checks values, and combinations of values, that parsing cannot check.
    fn check(&self) -> Result<(), ConfigError> {
        let invalid = |name: &str, reason: &str| Err(self.invalid(name, &reason));
        self.check_database()?;
        if let Some(url) = &self.public_url
            && !(matches!(url.scheme(), "http" | "https") && url.has_host())
        {
            return invalid("public_url", "it must be an http or https address");
        }
        if self.env == Environment::Production {
            self.check_urls_of_production()?;
        }
        if self.workers == 0 {
            return invalid("workers", "it must be at least 1");
        }
        if self.rate_limit_per_minute == 0 {
            return invalid("rate_limit_per_minute", "it must be at least 1");
        }
        if self.audit_days == 0 {
            return invalid("audit_days", "it must be at least 1");
        }
        if self.connections_per_address == 0 {
            return invalid("connections_per_address", "it must be at least 1");
        }
        if self.debounce_max < self.debounce {
            return invalid("debounce_max_ms", "it must not be less than debounce_ms");
        }
        if self.billing.topup_min_cents == 0 {
            return invalid("topup_min_cents", "it must be at least 1");
        }
        if self.billing.topup_max_cents < self.billing.topup_min_cents {
            return invalid("topup_max_cents", "it must not be less than topup_min_cents");
        }
        if self.webhooks.max_attempts == 0 {
            return invalid("webhook_max_attempts", "it must be at least 1");
        }
        if let Err((name, reason)) = analyzers::check(&self.analyzer, &self.escalation) {
            return invalid(name, &reason);
        }
        if let Err(reason) = self.log.parse::<tracing_subscriber::EnvFilter>() {
            return invalid("log", &reason.to_string());
        }
        Ok(())
    }

    /// Links in mails carry credentials and sign-ins return to the public URL, so nobody may be able to listen.
    fn check_urls_of_production(&self) -> Result<(), ConfigError> {
        let public_url = Some(self.public_url_at(self.listen)?);
        for (name, url) in [("public_url", &public_url), ("oidc_issuer", &self.oidc.issuer)] {
            if let Some(url) = url
                && url.scheme() != "https"
                && !is_loopback(url)
            {
                let reason = format!(
                    "{url} is not encrypted; in production it must be https, unless it is on loopback"
                );
                return Err(self.invalid(name, &reason));
            }
        }
        Ok(())
    }

    /// An error about a setting, named as in the environment or the file, wherever it was set.
    pub(crate) fn invalid(&self, name: &str, reason: &dyn std::fmt::Display) -> ConfigError {
        ConfigError::invalid(name, self.origin_of(name), reason)
    }

    /// The public URL if the service listens on `address`.
    pub(crate) fn public_url_at(&self, address: SocketAddr) -> Result<Url, ConfigError> {
        match &self.public_url {
            Some(url) => Ok(url.clone()),
            None => {
                Url::parse(&format!("http://{address}")).map_err(|reason| self.invalid("public_url", &reason))
            }
        }
    }

    /// Whether metrics are served: in production only if a token is configured.
    pub(crate) fn serves_metrics(&self) -> bool {
        self.metrics && (self.env != Environment::Production || self.metrics_token.is_some())
    }

    fn origin_of(&self, name: &str) -> Origin {
        self.effective
            .iter()
            .find(|setting| setting.name == name)
            .map_or(Origin::Default, |setting| setting.origin)
    }

    /// Checks what leads to the database, and the key that it needs.
    fn check_database(&self) -> Result<(), ConfigError> {
        let invalid = |name: &str, reason: &str| Err(self.invalid(name, &reason));
        let starts_with =
            |url: &Secret, schemes: &[&str]| schemes.iter().any(|scheme| url.expose().starts_with(scheme));
        let shared_database = self.database_url.as_ref().is_some_and(|url| !starts_with(url, &["sqlite:"]));
        if let Some(url) = &self.database_url
            && !starts_with(url, &["sqlite:", "postgres://", "postgresql://"])
        {
            return invalid("database_url", "it must start with sqlite: or postgres://");
        }
        if let Some(url) = &self.database_read_url {
            if !shared_database {
                let reason = "SQLite has no replicas: set AUSPEX_DATABASE_URL to a PostgreSQL, or remove it";
                return invalid("database_read_url", reason);
            }
            if !starts_with(url, &["postgres://", "postgresql://"]) {
                return invalid("database_read_url", "it must start with postgres://");
            }
        }
        if self.master_key.is_none() && (self.env == Environment::Production || shared_database) {
            return invalid(
                "master_key",
                "it is required in production and with PostgreSQL; make one with: openssl rand -base64 32",
            );
        }
        Ok(())
    }

    /// The URL of the database, with the default filled in.
    pub fn database_address(&self) -> String {
        match &self.database_url {
            Some(url) => url.expose().to_owned(),
            None => format!("sqlite:{}", self.data_dir.join("auspex.db").display()),
        }
    }
}

impl Prices {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            input_per_mtok: set.value("price_input_per_mtok", "0.10")?,
            output_per_mtok: set.value("price_output_per_mtok", "0.40")?,
            margin: set.value("cost_margin", "1.0")?,
            by_model: PriceTable::read(&set.table("prices")?)
                .map_err(|reason| ConfigError::invalid("prices", Origin::File, reason))?,
        })
    }
}

impl Billing {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            metering: set.value::<Flag>("metering", "true")?.0,
            enforcement: set.value("enforcement", "block")?,
            signup_credit_cents: set.value("signup_credit_cents", "500")?,
            low_balance_cents: set.value("low_balance_cents", "100")?,
            topup_min_cents: set.value("topup_min_cents", "500")?,
            topup_max_cents: set.value("topup_max_cents", "100000")?,
        })
    }
}

impl Stripe {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            secret_key: set.secret("stripe_secret_key")?,
            webhook_secret: set.secret("stripe_webhook_secret")?,
            api_url: set.value("stripe_api_url", "https://api.stripe.com")?,
        })
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

impl Google {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            client_id: set.optional("google_client_id")?,
            client_secret: set.secret("google_client_secret")?,
            issuer: set.value("google_issuer", "https://accounts.google.com")?,
        })
    }
}

impl Github {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            client_id: set.optional("github_client_id")?,
            client_secret: set.secret("github_client_secret")?,
            url: set.value("github_url", "https://github.com")?,
            api_url: set.value("github_api_url", "https://api.github.com")?,
        })
    }
}

impl Oidc {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        let domains: DomainList = set.value("oidc_allowed_domains", "")?;
        Ok(Self {
            issuer: set.optional("oidc_issuer")?,
            client_id: set.optional("oidc_client_id")?,
            client_secret: set.secret("oidc_client_secret")?,
            name: set.value("oidc_name", "Single sign-on")?,
            allowed_domains: domains.0,
        })
    }
}

impl Webhooks {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            retry_base: set.value::<Millis>("webhook_retry_base_ms", "30000")?.0,
            max_attempts: set.value("webhook_max_attempts", "6")?,
            timeout: set.value::<Millis>("webhook_timeout_ms", "10000")?.0,
            max_age: set.value::<Hours>("webhook_max_age_hours", "72")?.0,
        })
    }
}

#[cfg(test)]
mod tests;
