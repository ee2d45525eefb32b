//! Identity providers: where to send the browser, and who signed in.
//!
//! The caller keeps `state` and the PKCE verifier; only the providers' public documents are cached here.

mod github;
mod http;
mod id_token;
mod oauth;
mod openid;

pub use self::oauth::ProvenIdentity;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use model::Provider;
use url::Url;

use self::github::Github;
use self::http::{Failure, Http, Incomplete};
use self::oauth::{Application, without_slash};
use self::openid::OpenId;
use crate::runtime::audit::FailedBecause;
use crate::runtime::{Clock, Error, Kind, Result};

/// All calls to a provider that one sign-in takes. A user is waiting.
const DEADLINE: Duration = Duration::from_secs(15);
/// Long enough for a random value and the console's own data.
const STATE_LENGTH: RangeInclusive<usize> = 1..=512;
/// Codes are opaque; the longest in use have a few hundred characters.
const CODE_LENGTH: RangeInclusive<usize> = 1..=2048;
/// A SHA-256 in base64url.
const CHALLENGE_LENGTH: RangeInclusive<usize> = 43..=43;
/// RFC 7636, section 4.1.
const VERIFIER_LENGTH: RangeInclusive<usize> = 43..=128;

/// The configuration of Google, or of another OpenID Connect issuer in its place.
#[derive(Clone)]
pub struct GoogleOptions {
    /// The OAuth client id.
    pub client_id: String,
    /// The OAuth client secret.
    pub client_secret: String,
    /// The issuer's URL, where discovery starts.
    pub issuer: Url,
}

/// The configuration of an OpenID Connect issuer beside Google.
#[derive(Clone)]
pub struct OidcOptions {
    /// The OAuth client id.
    pub client_id: String,
    /// The OAuth client secret.
    pub client_secret: String,
    /// The issuer's URL, where discovery starts.
    pub issuer: Url,
    /// What people call it.
    pub name: String,
    /// The domains whose addresses may sign in, in lower case; empty: all.
    pub allowed_domains: Vec<String>,
}

/// The configuration of GitHub, or of a GitHub Enterprise server.
#[derive(Clone)]
pub struct GithubOptions {
    /// The OAuth client id.
    pub client_id: String,
    /// The OAuth client secret.
    pub client_secret: String,
    /// The URL of the sign-in page.
    pub url: Url,
    /// The URL of the API.
    pub api_url: Url,
}

/// The configured identity providers.
pub struct Providers {
    http: Http,
    deadline: Duration,
    google: Option<OpenId>,
    github: Option<Github>,
    oidc: Option<OwnIssuer>,
}

/// Why nobody was proven, and as much of the identity as the provider has proven.
pub(crate) struct Unproven {
    /// For the user.
    pub(crate) error: Error,
    /// For the audit log.
    pub(crate) because: FailedBecause,
    /// The id of the provider account.
    pub(crate) subject: Option<String>,
    /// Its email address.
    pub(crate) email: Option<String>,
}

impl From<Error> for Box<Unproven> {
    /// Nothing is known of who it was.
    fn from(error: Error) -> Self {
        Self::new(Unproven { error, because: FailedBecause::ProviderError, subject: None, email: None })
    }
}

/// The operator's own OpenID Connect issuer.
struct OwnIssuer {
    client: OpenId,
    issuer: String,
    name: String,
    allowed_domains: Vec<String>,
}

impl Providers {
    /// Creates a client for each provider with options, without contacting it.
    pub fn new(
        google: Option<GoogleOptions>,
        github: Option<GithubOptions>,
        oidc: Option<OidcOptions>,
        public_url: &Url,
        clock: Clock,
    ) -> Result<Self> {
        let application_for = |provider: Provider, client_id: String, client_secret: String| Application {
            client_id,
            client_secret,
            redirect_uri: format!("{}/console/oauth/{provider}", without_slash(public_url)),
        };
        Ok(Self {
            http: Http::new().map_err(|error| {
                Error::new(Kind::Internal, "the client of the identity providers cannot be made")
                    .because(error)
            })?,
            deadline: DEADLINE,
            google: google.map(|options| {
                let application = application_for(Provider::Google, options.client_id, options.client_secret);
                OpenId::new(application, &options.issuer, clock.clone())
            }),
            oidc: oidc.map(|options| {
                let application = application_for(Provider::Oidc, options.client_id, options.client_secret);
                OwnIssuer {
                    client: OpenId::new(application, &options.issuer, clock),
                    issuer: without_slash(&options.issuer).to_owned(),
                    name: options.name,
                    allowed_domains: options.allowed_domains,
                }
            }),
            github: github.map(|options| {
                let application = application_for(Provider::Github, options.client_id, options.client_secret);
                Github::new(application, &options.url, &options.api_url)
            }),
        })
    }

    /// Sets the deadline of all calls to a provider that one sign-in takes.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The providers that are configured.
    pub fn configured(&self) -> Vec<Provider> {
        let is_configured = |provider: &Provider| match provider {
            Provider::Google => self.google.is_some(),
            Provider::Github => self.github.is_some(),
            Provider::Oidc => self.oidc.is_some(),
        };
        Provider::ALL.into_iter().filter(is_configured).collect()
    }

    /// What people call a provider.
    pub fn name(&self, provider: Provider) -> &str {
        let own = self.oidc_name().filter(|_| provider == Provider::Oidc);
        own.unwrap_or_else(|| provider.label())
    }

    /// What people call the operator's own issuer, if there is one.
    pub fn oidc_name(&self) -> Option<&str> {
        self.oidc.as_ref().map(|own| own.name.as_str())
    }

    /// The URL that the browser is sent to.
    pub async fn authorization_url(
        &self,
        provider: Provider,
        state: &str,
        code_challenge: &str,
    ) -> Result<Url> {
        let client = self.client(provider)?;
        check("state", state, STATE_LENGTH, "visible ASCII", |byte| byte.is_ascii_graphic())?;
        check("code_challenge", code_challenge, CHALLENGE_LENGTH, "base64url", is_base64url)?;
        let url = async {
            match client {
                Client::OpenId(issuer) => issuer.authorization_url(&self.http, state, code_challenge).await,
                Client::Github(github) => github.authorization_url(state, code_challenge),
            }
        };
        self.in_time(url).await.map_err(|failure| self.refusal(provider, failure))
    }

    /// Exchanges the code that the browser returned with for the user's identity.
    pub async fn identify(
        &self,
        provider: Provider,
        code: &str,
        code_verifier: &str,
    ) -> Result<ProvenIdentity> {
        self.prove(provider, code, code_verifier).await.map_err(|unproven| unproven.error)
    }

    /// Like [`Self::identify`]; a refusal says as much of the identity as the provider has proven.
    pub(crate) async fn prove(
        &self,
        provider: Provider,
        code: &str,
        code_verifier: &str,
    ) -> Result<ProvenIdentity, Box<Unproven>> {
        let client = self.client(provider)?;
        check("code", code, CODE_LENGTH, "visible ASCII", |byte| byte.is_ascii_graphic())?;
        check("code_verifier", code_verifier, VERIFIER_LENGTH, "unreserved", is_unreserved)?;
        let identity = async {
            match client {
                Client::OpenId(issuer) => issuer.identify(&self.http, code, code_verifier).await,
                Client::Github(github) => github.identify(&self.http, code, code_verifier).await,
            }
        };
        let own = self.oidc.as_ref().filter(|_| provider == Provider::Oidc);
        let identity = self.in_time(identity).await.map_err(|Incomplete { subject, failure }| {
            let because = match failure {
                Failure::EmailUnverified => FailedBecause::AddressUnverified,
                _ => FailedBecause::ProviderError,
            };
            let subject = subject.map(|subject| own.map_or(subject.clone(), |own| own.qualified(&subject)));
            Unproven { error: self.refusal(provider, failure), because, subject, email: None }
        })?;
        match own {
            Some(own) => own.admit(identity),
            None => Ok(identity),
        }
    }

    /// Gives up calls that take longer than a sign-in may, however many they are.
    async fn in_time<T, E: From<Failure>>(
        &self,
        calls: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        tokio::time::timeout(self.deadline, calls).await.unwrap_or_else(|_| Err(Failure::late().into()))
    }

    fn client(&self, provider: Provider) -> Result<Client<'_>> {
        let client = match provider {
            Provider::Google => self.google.as_ref().map(Client::OpenId),
            Provider::Oidc => self.oidc.as_ref().map(|own| Client::OpenId(&own.client)),
            Provider::Github => self.github.as_ref().map(Client::Github),
        };
        client.ok_or_else(|| Error::new(Kind::NotFound, format!("sign-in with {provider} is not configured")))
    }

    fn refusal(&self, provider: Provider, failure: Failure) -> Error {
        let name = self.name(provider);
        match failure {
            Failure::GrantRefused => Error::bad_request("the sign-in code is not valid or was used"),
            Failure::EmailUnverified => {
                Error::new(Kind::Forbidden, format!("{name} has not verified the account's email address"))
            }
            Failure::Broken { .. } => {
                Error::new(Kind::IdentityProviderError, format!("sign-in with {name} failed at the provider"))
                    .because(failure)
            }
        }
    }
}

impl OwnIssuer {
    /// Refuses an address outside the allowed domains, and tells the issuer's subjects apart from another issuer's.
    fn admit(&self, identity: ProvenIdentity) -> Result<ProvenIdentity, Box<Unproven>> {
        let domain = identity.email.rsplit_once('@').map_or("", |(_, domain)| domain).to_lowercase();
        // Only a verified address says where somebody belongs.
        let is_allowed = identity.email_verified && self.allowed_domains.contains(&domain);
        let identity = ProvenIdentity { subject: self.qualified(&identity.subject), ..identity };
        if !self.allowed_domains.is_empty() && !is_allowed {
            let message = "email addresses of this domain may not sign in here";
            return Err(Box::new(Unproven {
                error: Error::new(Kind::Forbidden, message),
                because: FailedBecause::DomainNotAllowed,
                subject: Some(identity.subject),
                email: Some(identity.email),
            }));
        }
        Ok(identity)
    }

    /// A subject is unique at its issuer only. Should the operator move to another issuer, whoever has the same subject there
    /// is somebody else.
    fn qualified(&self, subject: &str) -> String {
        format!("{} {subject}", self.issuer)
    }
}

enum Client<'a> {
    OpenId(&'a OpenId),
    Github(&'a Github),
}

fn check(
    field: &str,
    value: &str,
    length: RangeInclusive<usize>,
    alphabet: impl fmt::Display,
    fits: impl Fn(u8) -> bool,
) -> Result<()> {
    if length.contains(&value.len()) && value.bytes().all(fits) {
        return Ok(());
    }
    let (least, most) = length.into_inner();
    let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Err(Error::bad_request(format!("`{field}` must be {count} {alphabet} characters")))
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
