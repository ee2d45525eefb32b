//! The configuration: every setting with its type and default, read once at start. A bad value stops the start.

mod settings;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use self::settings::Settings;
pub use self::settings::{Origin, PREFIX, Secret, Setting};
pub use self::values::{
    AnalyzerKind, Enforcement, Environment, Flag, LogFormat, Millis, NetworkList, Price, PriceTable, Role,
};

/// Why the configuration cannot be used. It names the setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// Everything an operator may set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the service listens.
    pub listen: SocketAddr,
    /// How people reach it: links in emails, callbacks, the console's origin. Unset, it is where it listens.
    pub public_url: Option<Url>,
    /// Development or production.
    pub env: Environment,
    /// The SQLite file, the generated master key, and mail when there is no SMTP.
    pub data_dir: PathBuf,
    /// The database; unset, a SQLite file in the data directory.
    pub database_url: Option<Secret>,
    /// Encrypts secrets at rest.
    pub master_key: Option<Secret>,
    /// The key before, while everything moves to the new one.
    pub master_key_previous: Option<Secret>,
    /// What this process does.
    pub role: Role,
    /// Analyses at a time in this process.
    pub workers: u16,
    /// What answers the questions.
    pub analyzer: Analyzer,
    /// What analyses cost.
    pub prices: Prices,
    /// How long an object must be quiet before it is analyzed.
    pub debounce: Duration,
    /// How long an object that is never quiet waits at most.
    pub debounce_max: Duration,
    /// Requests a minute for a tenant, over all nodes.
    pub rate_limit_per_minute: u32,
    /// Synchronous analyses at a time for a tenant, over all nodes.
    pub sync_limit: u32,
    /// Balance and top-ups.
    pub billing: Billing,
    /// Card payments.
    pub stripe: Stripe,
    /// Mail; without an address it is written to files.
    pub smtp_url: Option<Secret>,
    /// Who mail is from.
    pub mail_from: String,
    /// Sign-in with Google.
    pub google: Google,
    /// Sign-in with GitHub.
    pub github: Github,
    /// Whether strangers may make an account.
    pub allow_registration: bool,
    /// Whether webhooks may go to private addresses.
    pub allow_private_targets: bool,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: NetworkList,
    /// Whether metrics are served.
    pub metrics: bool,
    /// What a scraper must show.
    pub metrics_token: Option<Secret>,
    /// Outgoing webhooks.
    pub webhooks: Webhooks,
    /// Which log lines are written.
    pub log: String,
    /// How they are written.
    pub log_format: LogFormat,
    /// Where traces go.
    pub otlp_endpoint: Option<Url>,
    /// Every setting as it came out, for `auspex config`.
    pub effective: Vec<Setting>,
    /// What is odd and not wrong, for the log.
    pub warnings: Vec<String>,
}

/// What answers the questions.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the contract")]
pub struct Analyzer {
    pub kind: AnalyzerKind,
    pub url: Option<Url>,
    pub api_key: Option<Secret>,
    pub model: Option<String>,
    pub timeout: Duration,
}

/// What analyses cost.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the contract")]
pub struct Prices {
    pub input_per_mtok: Price,
    pub output_per_mtok: Price,
    pub margin: Price,
    pub by_model: PriceTable,
}

/// Balance and top-ups.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the contract")]
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
#[expect(missing_docs, reason = "named as in the contract")]
pub struct Stripe {
    pub secret_key: Option<Secret>,
    pub webhook_secret: Option<Secret>,
    pub api_url: Url,
}

/// Sign-in with Google, or another OpenID Connect issuer in its place.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the contract")]
pub struct Google {
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub issuer: Url,
}

/// Sign-in with GitHub, or a server of its kind.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the contract")]
pub struct Github {
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub url: Url,
    pub api_url: Url,
}

/// Outgoing webhooks.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the contract")]
pub struct Webhooks {
    pub retry_base: Duration,
    pub max_attempts: u16,
    pub timeout: Duration,
}

/// The process's environment, as text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        // A variable that is not text cannot be one of ours, nor a value that is not text be right.
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

impl Config {
    /// Reads the process's environment and the file it names.
    pub fn load() -> Result<Self, ConfigError> {
        Self::from_environment(environment())
    }

    /// Reads these variables and the file they name.
    pub fn from_environment(variables: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let variables: Vec<_> = variables.collect();
        let file = variables.iter().find(|(name, value)| name == "AUSPEX_CONFIG" && !value.is_empty());
        let table = match file {
            None => toml::Table::new(),
            Some((_, path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| ConfigError(format!("AUSPEX_CONFIG: cannot read {path}: {error}")))?;
                text.parse()
                    .map_err(|error| ConfigError(format!("AUSPEX_CONFIG: {path} is not TOML: {error}")))?
            }
        };
        Self::from_settings(Settings::new(variables.into_iter(), table))
    }

    fn from_settings(mut settings: Settings) -> Result<Self, ConfigError> {
        let set = &mut settings;
        let env: Environment = set.value("env", "development")?;
        let in_development = if env == Environment::Development { "true" } else { "false" };
        let mut config = Self {
            listen: set.value("listen", "127.0.0.1:8080")?,
            public_url: set.optional("public_url")?,
            env,
            data_dir: set.value("data_dir", "./data")?,
            database_url: set.secret("database_url")?,
            master_key: set.secret("master_key")?,
            master_key_previous: set.secret("master_key_previous")?,
            role: set.value("role", "all")?,
            workers: set.value("workers", "16")?,
            analyzer: Analyzer::read(set)?,
            prices: Prices::read(set)?,
            debounce: set.value::<Millis>("debounce_ms", "3000")?.0,
            debounce_max: set.value::<Millis>("debounce_max_ms", "30000")?.0,
            rate_limit_per_minute: set.value("rate_limit_per_minute", "3000")?,
            sync_limit: set.value("sync_limit", "8")?,
            billing: Billing::read(set)?,
            stripe: Stripe::read(set)?,
            smtp_url: set.secret("smtp_url")?,
            mail_from: set.value("mail_from", "Auspex <auspex@localhost>")?,
            google: Google::read(set)?,
            github: Github::read(set)?,
            allow_registration: set.value::<Flag>("allow_registration", "true")?.0,
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
        (config.effective, config.warnings) = settings.finish()?;
        config.check()?;
        Ok(config)
    }

    /// What no single setting can say: values that only fit together.
    fn check(&self) -> Result<(), ConfigError> {
        let refuse = |name: &str, reason: &str| Err(self.refuse(name, &reason));
        let shared_database =
            self.database_url.as_ref().is_some_and(|url| !url.expose().starts_with("sqlite:"));
        if let Some(url) = &self.database_url
            && !["sqlite:", "postgres://", "postgresql://"]
                .iter()
                .any(|scheme| url.expose().starts_with(scheme))
        {
            return refuse("database_url", "it must start with sqlite: or postgres://");
        }
        if self.master_key.is_none() && (self.env == Environment::Production || shared_database) {
            return refuse(
                "master_key",
                "it is required in production and with PostgreSQL; make one with: openssl rand -base64 32",
            );
        }
        if let Some(url) = &self.public_url
            && !(matches!(url.scheme(), "http" | "https") && url.has_host())
        {
            return refuse("public_url", "it must be an http or https address");
        }
        if self.workers == 0 {
            return refuse("workers", "it must be at least 1");
        }
        if self.rate_limit_per_minute == 0 {
            return refuse("rate_limit_per_minute", "it must be at least 1");
        }
        if self.debounce_max < self.debounce {
            return refuse("debounce_max_ms", "it must not be less than debounce_ms");
        }
        if self.billing.topup_min_cents == 0 {
            return refuse("topup_min_cents", "it must be at least 1");
        }
        if self.billing.topup_max_cents < self.billing.topup_min_cents {
            return refuse("topup_max_cents", "it must not be less than topup_min_cents");
        }
        if self.webhooks.max_attempts == 0 {
            return refuse("webhook_max_attempts", "it must be at least 1");
        }
        let is_built_in = matches!(self.analyzer.kind, AnalyzerKind::Embedded | AnalyzerKind::Words);
        if !is_built_in && self.analyzer.url.is_none() {
            return refuse("analyzer_url", "this analyzer needs the address of its server");
        }
        if let Err(reason) = self.log.parse::<tracing_subscriber::EnvFilter>() {
            return refuse("log", &reason.to_string());
        }
        Ok(())
    }

    /// A setting that turned out not to work, named the way its writer knows it.
    pub(crate) fn refuse(&self, name: &str, reason: &dyn std::fmt::Display) -> ConfigError {
        ConfigError::bad(name, self.origin_of(name), reason)
    }

    /// How people reach the service when it listens on `address`.
    pub(crate) fn public_url_at(&self, address: SocketAddr) -> Result<Url, ConfigError> {
        match &self.public_url {
            Some(url) => Ok(url.clone()),
            None => {
                Url::parse(&format!("http://{address}")).map_err(|reason| self.refuse("public_url", &reason))
            }
        }
    }

    /// Whether metrics are served: in production only to whoever has a token.
    pub(crate) fn shows_metrics(&self) -> bool {
        self.metrics && (self.env != Environment::Production || self.metrics_token.is_some())
    }

    fn origin_of(&self, name: &str) -> Origin {
        self.effective
            .iter()
            .find(|setting| setting.name == name)
            .map_or(Origin::Default, |setting| setting.origin)
    }

    /// The database's address, with the default filled in.
    pub fn database_address(&self) -> String {
        match &self.database_url {
            Some(url) => url.expose().to_owned(),
            None => format!("sqlite:{}", self.data_dir.join("auspex.db").display()),
        }
    }
}

impl Analyzer {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            kind: set.value("analyzer", "embedded")?,
            url: set.optional("analyzer_url")?,
            api_key: set.secret("analyzer_api_key")?,
            model: set.optional("analyzer_model")?,
            timeout: set.value::<Millis>("analyzer_timeout_ms", "30000")?.0,
        })
    }
}

impl Prices {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            input_per_mtok: set.value("price_input_per_mtok", "0.10")?,
            output_per_mtok: set.value("price_output_per_mtok", "0.40")?,
            margin: set.value("cost_margin", "1.0")?,
            by_model: PriceTable::read(&set.table("prices")?)
                .map_err(|reason| ConfigError::bad("prices", Origin::File, reason))?,
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

impl Webhooks {
    fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            retry_base: set.value::<Millis>("webhook_retry_base_ms", "30000")?.0,
            max_attempts: set.value("webhook_max_attempts", "6")?,
            timeout: set.value::<Millis>("webhook_timeout_ms", "10000")?.0,
        })
    }
}

#[cfg(test)]
mod tests;
