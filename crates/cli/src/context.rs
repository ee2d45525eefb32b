//! What every command works with: a client of the account, and where its output goes.

use std::time::Duration;

use clap::Args;
use client::{Call, Client, ClientBuilder, Method, Response};
use serde::Serialize;
use serde_json::Value;

use crate::environment;
use crate::failure::Failure;
use crate::messages::remark;
use crate::output::{Output, View};
use crate::profiles::{self, Profiles};

/// Where a service is if nobody says otherwise: on this machine.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// A person waits: few retries, and none that take long.
const RETRIES: u32 = 2;
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The options of every command.
#[derive(Args, Clone, Debug)]
pub struct Common {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// Print the records of the API as they are, for programs.
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// Print no colours.
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) no_color: bool,
}

/// Which account of which service a command is about.
#[derive(Args, Clone, Debug)]
pub struct Connection {
    /// Use this profile; `default` if none is named.
    #[arg(long, global = true, env = "AUSPEX_PROFILE", value_name = "NAME", help_heading = "Common options")]
    pub(crate) profile: Option<String>,
    /// The URL of the service; by default, that of the profile.
    #[arg(long, global = true, env = "AUSPEX_URL", help_heading = "Common options")]
    pub(crate) url: Option<String>,
}

impl Common {
    /// Where output goes.
    pub(crate) fn output(&self) -> Output {
        Output::detect(self.json, self.no_color)
    }
}

impl Connection {
    /// The name of the profile.
    pub(crate) fn profile_name(&self) -> &str {
        self.profile.as_deref().unwrap_or(profiles::DEFAULT)
    }

    /// The URL of the service to sign in to.
    pub(crate) fn url_or_default(&self, profiles: &Profiles) -> String {
        let known = profiles.get(self.profile_name()).map(|profile| profile.url.clone());
        self.url.clone().or(known).unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    /// A client with the credentials of the environment, or else of the profile, whose retries are up to the caller.
    pub fn connect(&self) -> Result<ClientBuilder, Failure> {
        let (url, key, secret) = self.credentials()?;
        Ok(Client::builder(url).key(key, secret))
    }

    /// A client without credentials, whose retries are up to the caller.
    pub fn anonymous(&self) -> ClientBuilder {
        Client::builder(self.service_url())
    }

    /// The URL that was given, that of the profile, or that of a service on this machine.
    fn service_url(&self) -> String {
        let known = || Profiles::read().ok().map(|profiles| self.url_or_default(&profiles));
        self.url.clone().or_else(known).unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    /// The URL, the key and the secret to call with.
    fn credentials(&self) -> Result<(String, String, String), Failure> {
        match environment::key_and_secret() {
            (Some(key), Some(secret)) => Ok((self.service_url(), key, secret)),
            (None, None) => {
                let profiles = Profiles::read()?;
                if let Some(path) = profiles.readable_by_others() {
                    remark(&format!("others can read {0}: run chmod 600 {0}", path.display()));
                }
                let name = self.profile_name();
                let Some(profile) = profiles.get(name) else {
                    let known = profiles.names();
                    let known = if known.is_empty() {
                        String::new()
                    } else {
                        format!(" (there are: {})", known.join(", "))
                    };
                    return Err(Failure::NotSignedIn(format!("there is no profile {name:?}{known}")));
                };
                let url = self.url.clone().unwrap_or_else(|| profile.url.clone());
                Ok((url, profile.key.clone(), profile.secret.clone()))
            }
            _ => Err(Failure::Usage("set both AUSPEX_KEY and AUSPEX_SECRET, or neither".to_owned())),
        }
    }
}

/// A client of the account, and where output goes.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) output: Output,
}

impl Context {
    pub(crate) fn new(common: &Common) -> Result<Self, Failure> {
        Ok(Self { client: build(common.connection.connect()?)?, output: common.output() })
    }

    /// Makes a call and reads its response as JSON.
    pub(crate) async fn fetch(&self, call: Call) -> Result<(Response, Value), Failure> {
        let response = self.client.request(call).await?;
        let value = if response.body.is_empty() { Value::Null } else { response.parse()? };
        Ok((response, value))
    }

    /// Makes a call and prints its response.
    pub(crate) async fn show(&self, call: Call, view: impl FnOnce(&Value) -> View) -> Result<(), Failure> {
        let (response, value) = self.fetch(call).await?;
        self.output.record(&response.body, view(&value))
    }

    /// Makes a call that answers nothing, and says for people that it is done.
    pub(crate) async fn done(&self, call: Call, line: &str) -> Result<(), Failure> {
        self.client.request(call).await?;
        self.output.done(line)
    }
}

/// Builds a client for somebody who waits.
pub(crate) fn build(builder: ClientBuilder) -> Result<Client, Failure> {
    Ok(builder.max_retries(RETRIES).max_retry_after(LONGEST_RETRY_AFTER).build()?)
}

/// A call that reads.
pub(crate) fn get(segments: &[&str]) -> Result<Call, Failure> {
    Ok(Call::new(Method::GET, segments)?)
}

/// A call that deletes.
pub(crate) fn delete(segments: &[&str]) -> Result<Call, Failure> {
    Ok(Call::new(Method::DELETE, segments)?)
}

/// A call with a body.
pub(crate) fn send(
    method: Method,
    segments: &[&str],
    body: &(impl Serialize + ?Sized),
) -> Result<Call, Failure> {
    Ok(Call::new(method, segments)?.json(body)?)
}

/// A call that does something and has no body.
pub(crate) fn post(segments: &[&str]) -> Result<Call, Failure> {
    Ok(Call::new(Method::POST, segments)?)
}
