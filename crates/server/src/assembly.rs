//! Assembles the service from the configuration: database, master key, outgoing connections, use cases.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use analyzer::{Analyzer, Anthropic, Endpoint, OpenAi, SystemOne, WordCounter};
use model::Tariff;
use service::mail::{MailTemplates, Mailer, Transport};
use service::{
    Clock, Dependencies, EscalationOptions, GithubOptions, GoogleOptions, MasterKey, OidcOptions, Options,
    Providers, Random, Sealer, Service, Stripe, StripeOptions, Traces, Workers,
};
use store::{FileLock, Store};
use url::Url;

use crate::config::{
    self, AnalyzerKind, AnalyzerNames, Config, ConfigError, Enforcement, FIRST_ANALYZER, Price,
    SECOND_ANALYZER, Secret,
};

/// The file in the data directory with a generated master key.
pub(crate) const MASTER_KEY_FILE: &str = "master.key";

/// Why the service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The service cannot listen on the address.
    #[error("cannot listen on {address} (AUSPEX_LISTEN): {cause}")]
    Listen {
        /// The configured address.
        address: std::net::SocketAddr,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}: {cause}")]
    DataDirectory {
        /// The configured directory.
        path: String,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The database cannot be used.
    #[error("cannot use the database: {0}")]
    Database(#[from] store::Error),
    /// The database was created with another master key.
    #[error(
        "AUSPEX_MASTER_KEY is not the key that this database was made with: secrets in it could not be read"
    )]
    OtherMasterKey,
    /// The master key was changed, but the database was not rekeyed.
    #[error(
        "this database is still on AUSPEX_MASTER_KEY_PREVIOUS: stop every process of the service and run auspex admin rekey"
    )]
    NotRekeyed,
    /// Rekeying was interrupted.
    #[error("a move to another master key was begun and not finished: run auspex admin rekey again")]
    Rekeying,
    /// Rekeying is not possible.
    #[error(transparent)]
    Rekey(#[from] service::RekeyError),
    /// A setting is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An internal error.
    #[error("{0}")]
    Service(#[from] service::Error),
}

/// Assembles the service without listening, for commands and benchmarks.
pub async fn assemble(config: &Config, clock: Clock, random: Random) -> Result<Arc<Service>, StartError> {
    let public_url = config.public_url_at(config.listen)?;
    let analyzer = analyzer(config)?;
    assemble_for(config, clock, random, Workers::default(), &public_url, analyzer, Traces::default()).await
}

/// Opens the database and assembles the service. Nothing listens and no worker runs yet.
pub(crate) async fn assemble_for(
    config: &Config,
    clock: Clock,
    random: Random,
    workers: Workers,
    public_url: &Url,
    analyzer: Arc<dyn Analyzer>,
    traces: Traces,
) -> Result<Arc<Service>, StartError> {
    install_tls();
    prepare_data_directory(config)?;
    let sealer = sealer(config, &random)?;
    let mut store = Store::open(&config.database_address()).await?;
    if let Some(url) = &config.database_read_url {
        store = store.with_replica(url.expose())?;
    }
    check_master_key(&store, &sealer).await?;
    service::start_clock(&store, &clock).await?;
    service::seal_plain_urls(&store, &sealer, &random).await?;
    let mailer = Mailer::new(
        store.clone(),
        clock.clone(),
        random.clone(),
        sealer.clone(),
        transport(config)?,
        &config.mail_from,
    )
    .map_err(|reason| config.invalid("mail_from", &reason))?;
    let dependencies = Dependencies {
        store,
        providers: providers(config, public_url, clock.clone())?,
        payments: payments(config, public_url)?,
        clock,
        random,
        sealer,
        workers,
        mailer,
        templates: MailTemplates::new(public_url.as_str()),
        analyzer,
        second_analyzer: second_analyzer(config)?,
        traces,
    };
    Ok(Service::start(dependencies, options(config, public_url))?)
}

/// Fails if secrets in the database could not be decrypted.
async fn check_master_key(store: &Store, sealer: &Sealer) -> Result<(), StartError> {
    let current = sealer.fingerprint();
    let stored = store.remember(service::MASTER_KEY_FACT, &current).await?;
    if service::is_rekeying(store).await? {
        return Err(StartError::Rekeying);
    }
    if stored == current {
        return Ok(());
    }
    let is_previous = sealer.previous_fingerprint().is_some_and(|previous| previous == stored);
    Err(if is_previous { StartError::NotRekeyed } else { StartError::OtherMasterKey })
}

/// Moves every secret in the database from the previous master key to the new one, and returns their number.
pub(crate) async fn rekey(config: &Config, clock: &Clock, random: &Random) -> Result<u64, StartError> {
    let _lock = lock_database(config)?;
    let sealer = sealer(config, random)?;
    let store = Store::open(&config.database_address()).await?;
    service::start_clock(&store, clock).await?;
    let outcome = service::rekey(&store, &sealer, random, clock.now()).await;
    store.close().await;
    Ok(outcome?)
}

/// Keeps other processes from serving from the same SQLite file, until the lock is dropped or the process ends.
pub(crate) fn lock_database(config: &Config) -> Result<Option<FileLock>, StartError> {
    prepare_data_directory(config)?;
    Ok(FileLock::take(&config.database_address())?)
}

fn options(config: &Config, public_url: &Url) -> Options {
    let tariff = |(input, output): (Price, Price)| Tariff {
        input_per_mtok: input.0,
        output_per_mtok: output.0,
        margin: config.prices.margin.0,
    };
    Options {
        public_url: public_url.clone(),
        operators: config.operators.0.iter().map(|email| email.key().to_owned()).collect(),
        sends_mail: config.smtp_url.is_some(),
        allow_registration: config.allow_registration,
        registrations_per_hour: Some(config.registrations_per_hour).filter(|limit| *limit > 0),
        confirm_recipients: config.confirm_recipients,
        signup_credit_cents: config.billing.signup_credit_cents,
        recent_proof: config.recent_proof,
        rate_limit_per_minute: config.rate_limit_per_minute,
        ingest_bytes_per_minute: config.ingest_mib_per_minute.bytes(),
        storage_quota_bytes: config.storage_quota_mib.bytes(),
        debounce: config.debounce,
        debounce_max: config.debounce_max,
        sync_limit: config.sync_limit,
        workers: config.workers,
        analyzer_timeout: config.analyzer.timeout,
        escalation: config.escalation.analyzer.as_ref().map(|second| EscalationOptions {
            timeout: second.timeout,
            per_day: Some(i64::from(config.escalation.per_day)).filter(|limit| *limit > 0),
            micros_per_day: i64::try_from(config.escalation.micros_per_day).ok().filter(|limit| *limit > 0),
        }),
        claim: config.claim,
        replay_inline: i64::from(config.replay_inline),
        export_max: config.export_max,
        answer_history_days: config.answer_history_days,
        audit_days: config.audit_days,
        metering: config.billing.metering,
        block: config.billing.enforcement == Enforcement::Block,
        allow_private_targets: config.allow_private_targets,
        webhook_max_age: config.webhooks.max_age,
        webhook_max_attempts: config.webhooks.max_attempts,
        webhook_retry_base: config.webhooks.retry_base,
        webhook_timeout: config.webhooks.timeout,
        low_balance_cents: config.billing.low_balance_cents,
        topup_min_cents: config.billing.topup_min_cents,
        topup_max_cents: config.billing.topup_max_cents,
        tariff: tariff((config.prices.input_per_mtok, config.prices.output_per_mtok)),
        tariffs: config
            .prices
            .by_model
            .0
            .iter()
            .map(|(model, prices)| (model.clone(), tariff(*prices)))
            .collect(),
    }
}

/// Creates the data directory, accessible only to this user.
pub(crate) fn prepare_data_directory(config: &Config) -> Result<(), StartError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.data_dir)
        .map_err(|cause| data_directory(&config.data_dir, cause))
}

fn data_directory(path: &Path, cause: std::io::Error) -> StartError {
    StartError::DataDirectory { path: path.display().to_string(), cause }
}

fn sealer(config: &Config, random: &Random) -> Result<Sealer, StartError> {
    let read = |name, secret: &Option<Secret>| {
        let key = secret.as_ref().map(|secret| MasterKey::from_base64(secret.expose()));
        key.transpose().map_err(|reason| config.invalid(name, &reason))
    };
    let current = match read("master_key", &config.master_key)? {
        Some(key) => key,
        // The configuration allows this only in development on SQLite.
        None => generated_master_key(&config.data_dir.join(MASTER_KEY_FILE), random)?,
    };
    Ok(Sealer::new(current, read("master_key_previous", &config.master_key_previous)?))
}

/// The fingerprint of the configured master key, or of the generated one. None if there is no key yet: none is made.
pub(crate) fn known_fingerprint(config: &Config) -> Result<Option<String>, StartError> {
    if let Some(secret) = &config.master_key {
        let key = MasterKey::from_base64(secret.expose());
        return Ok(Some(key.map_err(|reason| config.invalid("master_key", &reason))?.fingerprint()));
    }
    let path = config.data_dir.join(MASTER_KEY_FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(parse_key_file(&path, &text)?.fingerprint())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(data_directory(&path, cause)),
    }
}

fn parse_key_file(path: &Path, text: &str) -> Result<MasterKey, StartError> {
    MasterKey::from_base64(text)
        .map_err(|reason| data_directory(path, std::io::Error::new(ErrorKind::InvalidData, reason)))
}

/// The master key in the data directory, generated if there is none.
fn generated_master_key(path: &Path, random: &Random) -> Result<MasterKey, StartError> {
    let key = MasterKey::generate(random);
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let written = writeln!(file, "{}", key.to_base64()).and_then(|()| file.sync_all());
            written.map_err(|cause| data_directory(path, cause))?;
            Ok(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = std::fs::read_to_string(path).map_err(|cause| data_directory(path, cause))?;
            parse_key_file(path, &text)
        }
        Err(cause) => Err(data_directory(path, cause)),
    }
}

fn transport(config: &Config) -> Result<Transport, StartError> {
    if let Some(url) = &config.smtp_url {
        return Ok(Transport::smtp(url.expose()).map_err(|reason| config.invalid("smtp_url", &reason))?);
    }
    let directory = config.data_dir.join("mail");
    Transport::files(&directory).map_err(|cause| data_directory(&directory, cause))
}

/// Installs the TLS implementation for all outgoing connections; fails harmlessly if a test starts a second service.
pub(crate) fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The first analyzer.
pub(crate) fn analyzer(config: &Config) -> Result<Arc<dyn Analyzer>, StartError> {
    analyzer_of(config, &FIRST_ANALYZER, &config.analyzer)
}

/// The second analyzer, if there is one.
fn second_analyzer(config: &Config) -> Result<Option<Arc<dyn Analyzer>>, StartError> {
    let second = config.escalation.analyzer.as_ref();
    second.map(|settings| analyzer_of(config, &SECOND_ANALYZER, settings)).transpose()
}

fn analyzer_of(
    config: &Config,
    names: &AnalyzerNames,
    settings: &config::Analyzer,
) -> Result<Arc<dyn Analyzer>, StartError> {
    install_tls();
    match settings.kind {
        AnalyzerKind::Embedded => return embedded(config, names, settings),
        AnalyzerKind::Words => return Ok(Arc::new(WordCounter)),
        AnalyzerKind::Openai | AnalyzerKind::Anthropic | AnalyzerKind::Systemone => {}
    }
    let Some(url) = &settings.url else {
        return Err(config.invalid(names.url, &"it is required").into());
    };
    let endpoint = Endpoint {
        url: url.clone(),
        api_key: settings.api_key.as_ref().map(|key| key.expose().to_owned()),
        model: settings.model.clone().unwrap_or_else(|| "default".to_owned()),
        timeout: settings.timeout,
        // Verdicts get slots of their own, so that running analyses do not delay them.
        max_concurrency: usize::from(config.workers) + usize::try_from(config.sync_limit).unwrap_or(0),
    };
    let invalid = |reason| config.invalid(names.url, &reason);
    Ok(match settings.kind {
        AnalyzerKind::Openai => Arc::new(OpenAi::new(endpoint).map_err(invalid)?),
        AnalyzerKind::Anthropic => Arc::new(Anthropic::new(endpoint).map_err(invalid)?),
        AnalyzerKind::Systemone => Arc::new(SystemOne::new(endpoint).map_err(invalid)?),
        AnalyzerKind::Embedded | AnalyzerKind::Words => Arc::new(WordCounter),
    })
}

#[cfg(feature = "embedded")]
fn embedded(
    config: &Config,
    names: &AnalyzerNames,
    settings: &config::Analyzer,
) -> Result<Arc<dyn Analyzer>, StartError> {
    let embedded = analyzer::Embedded::new(settings.timeout);
    Ok(Arc::new(embedded.map_err(|reason| config.invalid(names.kind, &reason))?))
}

#[cfg(not(feature = "embedded"))]
fn embedded(
    config: &Config,
    names: &AnalyzerNames,
    _settings: &config::Analyzer,
) -> Result<Arc<dyn Analyzer>, StartError> {
    let reason = "this binary was built without the embedded model (cargo feature `embedded`); set it to systemone, \
                  openai, anthropic or words";
    Err(config.invalid(names.kind, &reason).into())
}

fn providers(config: &Config, public_url: &Url, clock: Clock) -> Result<Providers, StartError> {
    let google = match (&config.google.client_id, &config.google.client_secret) {
        (Some(id), Some(secret)) => Some(GoogleOptions {
            client_id: id.clone(),
            client_secret: secret.expose().to_owned(),
            issuer: config.google.issuer.clone(),
        }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(config.invalid("google_client_secret", &"it goes with google_client_id").into());
        }
        (None, Some(_)) => {
            return Err(config.invalid("google_client_id", &"it goes with google_client_secret").into());
        }
    };
    let github = match (&config.github.client_id, &config.github.client_secret) {
        (Some(id), Some(secret)) => Some(GithubOptions {
            client_id: id.clone(),
            client_secret: secret.expose().to_owned(),
            url: config.github.url.clone(),
            api_url: config.github.api_url.clone(),
        }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(config.invalid("github_client_secret", &"it goes with github_client_id").into());
        }
        (None, Some(_)) => {
            return Err(config.invalid("github_client_id", &"it goes with github_client_secret").into());
        }
    };
    Ok(Providers::new(google, github, oidc(config)?, public_url, clock)?)
}

fn oidc(config: &Config) -> Result<Option<OidcOptions>, StartError> {
    let settings = &config.oidc;
    match (&settings.issuer, &settings.client_id, &settings.client_secret) {
        (Some(issuer), Some(id), Some(secret)) => Ok(Some(OidcOptions {
            client_id: id.clone(),
            client_secret: secret.expose().to_owned(),
            issuer: issuer.clone(),
            name: settings.name.clone(),
            allowed_domains: settings.allowed_domains.clone(),
        })),
        (None, None, None) => Ok(None),
        (None, ..) => Err(config.invalid("oidc_issuer", &"it goes with oidc_client_id").into()),
        (_, None, _) => Err(config.invalid("oidc_client_id", &"it goes with oidc_issuer").into()),
        (_, _, None) => Err(config.invalid("oidc_client_secret", &"it goes with oidc_client_id").into()),
    }
}

fn payments(config: &Config, public_url: &Url) -> Result<Option<Stripe>, StartError> {
    let settings = &config.stripe;
    match (&settings.secret_key, &settings.webhook_secret) {
        (Some(key), Some(secret)) => {
            let options = StripeOptions {
                secret_key: key.expose().to_owned(),
                webhook_secret: secret.expose().to_owned(),
                api_url: settings.api_url.clone(),
            };
            Ok(Some(Stripe::new(options, public_url)?))
        }
        (None, None) => Ok(None),
        // Both or neither: one creates checkouts, the other verifies that they were paid.
        (Some(_), None) => {
            Err(config.invalid("stripe_webhook_secret", &"it goes with stripe_secret_key").into())
        }
        (None, Some(_)) => {
            Err(config.invalid("stripe_secret_key", &"it goes with stripe_webhook_secret").into())
        }
    }
}
