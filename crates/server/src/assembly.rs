//! Puts the service together from the configuration: database, keys of secrets at rest, ways out, use cases.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use analyzer::{Analyzer, Anthropic, Endpoint, OpenAi, SystemOne, WordCounter};
use model::Tariff;
use service::mail::{MailTemplates, Mailer, Transport};
use service::{
    Clock, Dependencies, GithubOptions, GoogleOptions, MasterKey, Options, Providers, Random, Sealer,
    Service, Stripe, StripeOptions, Traces, Workers,
};
use store::Store;
use url::Url;

use crate::config::{AnalyzerKind, Config, ConfigError, Enforcement, Price, Secret};

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address asked for.
        address: std::net::SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}: {cause}")]
    DataDirectory {
        /// The directory asked for.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The database cannot be used.
    #[error("cannot use the database: {0}")]
    Database(#[from] store::Error),
    /// The database was made with another master key.
    #[error(
        "AUSPEX_MASTER_KEY is not the key that this database was made with: secrets in it could not be read"
    )]
    OtherMasterKey,
    /// The master key was changed and the database was not moved to it.
    #[error(
        "this database is still on AUSPEX_MASTER_KEY_PREVIOUS: stop every process of the service and run auspex admin rekey"
    )]
    NotRekeyed,
    /// A move to another master key was begun.
    #[error("a move to another master key was begun and not finished: run auspex admin rekey again")]
    Rekeying,
    /// The move to another master key cannot be made.
    #[error(transparent)]
    Rekey(#[from] service::RekeyError),
    /// The settings do not work out.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something of ours broke.
    #[error("{0}")]
    Service(#[from] service::Error),
}

/// Puts the use cases on their database without listening: for commands, and for measuring them.
pub async fn assemble(config: &Config, clock: Clock, random: Random) -> Result<Arc<Service>, StartError> {
    let public_url = config.public_url_at(config.listen)?;
    let analyzer = analyzer(config)?;
    assemble_for(config, clock, random, Workers::default(), &public_url, analyzer, Traces::default()).await
}

/// Opens the database and puts the use cases on it. Nothing listens and nothing runs yet.
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
    let store = Store::open(&config.database_address()).await?;
    check_master_key(&store, &sealer).await?;
    let mailer = Mailer::new(
        store.clone(),
        clock.clone(),
        random.clone(),
        sealer.clone(),
        transport(config)?,
        &config.mail_from,
    )
    .map_err(|reason| config.refuse("mail_from", &reason))?;
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
        traces,
    };
    Ok(Service::start(dependencies, options(config))?)
}

/// Stops where secrets could not be read.
async fn check_master_key(store: &Store, sealer: &Sealer) -> Result<(), StartError> {
    let ours = sealer.fingerprint();
    let kept = store.remember(service::MASTER_KEY_FACT, &ours).await?;
    if service::is_rekeying(store).await? {
        return Err(StartError::Rekeying);
    }
    if kept == ours {
        return Ok(());
    }
    let previous = sealer.previous_fingerprint().is_some_and(|previous| previous == kept);
    Err(if previous { StartError::NotRekeyed } else { StartError::OtherMasterKey })
}

/// Moves every secret in the database from the previous master key to the new one, and says how many.
pub(crate) async fn rekey(config: &Config, clock: &Clock, random: &Random) -> Result<u64, StartError> {
    prepare_data_directory(config)?;
    let sealer = sealer(config, random)?;
    let store = Store::open(&config.database_address()).await?;
    let outcome = service::rekey(&store, &sealer, random, clock.now()).await;
    store.close().await;
    Ok(outcome?)
}

fn options(config: &Config) -> Options {
    let tariff = |(input, output): (Price, Price)| Tariff {
        input_per_mtok: input.0,
        output_per_mtok: output.0,
        margin: config.prices.margin.0,
    };
    Options {
        allow_registration: config.allow_registration,
        signup_credit_cents: config.billing.signup_credit_cents,
        rate_limit_per_minute: config.rate_limit_per_minute,
        debounce: config.debounce,
        debounce_max: config.debounce_max,
        sync_limit: config.sync_limit,
        workers: config.workers,
        analyzer_timeout: config.analyzer.timeout,
        metering: config.billing.metering,
        block: config.billing.enforcement == Enforcement::Block,
        allow_private_targets: config.allow_private_targets,
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

/// Makes the data directory, for us alone.
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
        key.transpose().map_err(|reason| config.refuse(name, &reason))
    };
    let current = match read("master_key", &config.master_key)? {
        Some(key) => key,
        // The configuration allows this in development on SQLite alone.
        None => kept_master_key(&config.data_dir.join("master.key"), random)?,
    };
    Ok(Sealer::new(current, read("master_key_previous", &config.master_key_previous)?))
}

/// The master key in the data directory, made when there is none.
fn kept_master_key(path: &Path, random: &Random) -> Result<MasterKey, StartError> {
    let key = MasterKey::generate(random);
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let written = writeln!(file, "{}", key.to_base64()).and_then(|()| file.sync_all());
            written.map_err(|cause| data_directory(path, cause))?;
            Ok(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = std::fs::read_to_string(path).map_err(|cause| data_directory(path, cause))?;
            let key = MasterKey::from_base64(&text);
            key.map_err(|reason| data_directory(path, std::io::Error::new(ErrorKind::InvalidData, reason)))
        }
        Err(cause) => Err(data_directory(path, cause)),
    }
}

fn transport(config: &Config) -> Result<Transport, StartError> {
    if let Some(url) = &config.smtp_url {
        return Ok(Transport::smtp(url.expose()).map_err(|reason| config.refuse("smtp_url", &reason))?);
    }
    let directory = config.data_dir.join("mail");
    Transport::files(&directory).map_err(|cause| data_directory(&directory, cause))
}

/// The one TLS implementation of everything that calls out; already there when a test starts a second service.
pub(crate) fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn analyzer(config: &Config) -> Result<Arc<dyn Analyzer>, StartError> {
    install_tls();
    let ours = &config.analyzer;
    match ours.kind {
        AnalyzerKind::Embedded => return embedded(config),
        AnalyzerKind::Words => return Ok(Arc::new(WordCounter)),
        AnalyzerKind::Openai | AnalyzerKind::Anthropic | AnalyzerKind::Systemone => {}
    }
    let Some(url) = &ours.url else { return Err(config.refuse("analyzer_url", &"it is required").into()) };
    let endpoint = Endpoint {
        url: url.clone(),
        api_key: ours.api_key.as_ref().map(|key| key.expose().to_owned()),
        model: ours.model.clone().unwrap_or_else(|| "default".to_owned()),
        timeout: ours.timeout,
        // Room beside the workers for those who wait: analyses that run must not hold up a verdict.
        max_concurrency: usize::from(config.workers) + usize::try_from(config.sync_limit).unwrap_or(0),
    };
    let refused = |reason| config.refuse("analyzer_url", &reason);
    Ok(match ours.kind {
        AnalyzerKind::Openai => Arc::new(OpenAi::new(endpoint).map_err(refused)?),
        AnalyzerKind::Anthropic => Arc::new(Anthropic::new(endpoint).map_err(refused)?),
        AnalyzerKind::Systemone => Arc::new(SystemOne::new(endpoint).map_err(refused)?),
        AnalyzerKind::Embedded | AnalyzerKind::Words => Arc::new(WordCounter),
    })
}

#[cfg(feature = "embedded")]
fn embedded(config: &Config) -> Result<Arc<dyn Analyzer>, StartError> {
    let embedded = analyzer::Embedded::new().map_err(|reason| config.refuse("analyzer", &reason))?;
    Ok(Arc::new(embedded))
}

#[cfg(not(feature = "embedded"))]
fn embedded(config: &Config) -> Result<Arc<dyn Analyzer>, StartError> {
    let reason = "this binary was built without the embedded model (cargo feature `embedded`); set it to systemone, \
                  openai, anthropic or words";
    Err(config.refuse("analyzer", &reason).into())
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
            return Err(config.refuse("google_client_secret", &"it goes with google_client_id").into());
        }
        (None, Some(_)) => {
            return Err(config.refuse("google_client_id", &"it goes with google_client_secret").into());
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
            return Err(config.refuse("github_client_secret", &"it goes with github_client_id").into());
        }
        (None, Some(_)) => {
            return Err(config.refuse("github_client_id", &"it goes with github_client_secret").into());
        }
    };
    Ok(Providers::new(google, github, public_url, clock)?)
}

fn payments(config: &Config, public_url: &Url) -> Result<Option<Stripe>, StartError> {
    let ours = &config.stripe;
    match (&ours.secret_key, &ours.webhook_secret) {
        (Some(key), Some(secret)) => {
            let options = StripeOptions {
                secret_key: key.expose().to_owned(),
                webhook_secret: secret.expose().to_owned(),
                api_url: ours.api_url.clone(),
            };
            Ok(Some(Stripe::new(options, public_url)?))
        }
        (None, None) => Ok(None),
        // Without the one nobody can pay; without the other nobody is told that somebody has.
        (Some(_), None) => {
            Err(config.refuse("stripe_webhook_secret", &"it goes with stripe_secret_key").into())
        }
        (None, Some(_)) => {
            Err(config.refuse("stripe_secret_key", &"it goes with stripe_webhook_secret").into())
        }
    }
}
