//! GitHub: plain OAuth 2, then a call of its API for the user that the token belongs to.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::http::{Failure, Http, Incomplete, fetch};
use super::oauth::{Application, Tokens, exchange, without_slash};
use crate::accounts::providers::ProvenIdentity;
use crate::runtime::Result;

const SCOPE: &str = "read:user user:email";
const ADDRESSES: &str = "asking for the addresses";
/// The version of the API that this was written for; GitHub keeps supporting it.
const API_VERSION: &str = "2022-11-28";

pub(super) struct Github {
    application: Application,
    url: String,
    api_url: String,
}

#[derive(Deserialize)]
struct User {
    id: u64,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    email: String,
    primary: bool,
    verified: bool,
}

impl Github {
    pub(super) fn new(application: Application, url: &Url, api_url: &Url) -> Self {
        Self { application, url: without_slash(url).to_owned(), api_url: without_slash(api_url).to_owned() }
    }

    pub(super) fn authorization_url(&self, state: &str, challenge: &str) -> Result<Url, Failure> {
        let endpoint = parse_url(format!("{}/login/oauth/authorize", self.url))?;
        Ok(self.application.authorization_url(endpoint, SCOPE, state, challenge))
    }

    pub(super) async fn identify(
        &self,
        http: &Http,
        code: &str,
        verifier: &str,
    ) -> Result<ProvenIdentity, Incomplete> {
        let mut form = self.application.grant(code, verifier);
        form.extend(self.application.credentials());
        let endpoint = parse_url(format!("{}/login/oauth/access_token", self.url))?;
        let tokens = exchange(http.post(endpoint).form(&form)).await?;
        let user: User = self.get(http, "asking for the user", "/user", &tokens).await?;
        let subject = user.id.to_string();
        let addresses: Vec<Address> = self
            .get(http, ADDRESSES, "/user/emails?per_page=100", &tokens)
            .await
            .map_err(|failure| failure.of(&subject))?;
        let primary = addresses
            .into_iter()
            .find(|address| address.primary)
            .ok_or_else(|| Failure::at(ADDRESSES, "no address is the primary one").of(&subject))?;
        Ok(ProvenIdentity {
            subject,
            email: primary.email,
            email_verified: primary.verified,
            name: user.name.filter(|name| !name.trim().is_empty()),
        })
    }

    async fn get<T: DeserializeOwned>(
        &self,
        http: &Http,
        step: &'static str,
        path: &str,
        tokens: &Tokens,
    ) -> Result<T, Failure> {
        let request = http
            .get(parse_url(format!("{}{path}", self.api_url))?)
            .header("X-GitHub-Api-Version", API_VERSION)
            .bearer_auth(&tokens.access_token);
        fetch(step, request).await
    }
}

fn parse_url(text: String) -> Result<Url, Failure> {
    Url::parse(&text).map_err(|error| Failure::at("parsing the configured URL", error))
}
