//! Common to both providers: the authorization code grant of OAuth 2 (RFC 6749) with PKCE (RFC 7636).

use reqwest::RequestBuilder;
use serde::Deserialize;
use url::Url;

use super::http::{Failure, send};
use crate::runtime::Result;

const EXCHANGE: &str = "exchanging the code";
/// Long enough for every error code in use.
const MAX_ERROR_CODE: usize = 64;

/// The identity of a user, as proven by a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenIdentity {
    /// The id of the provider account; it does not change with the email.
    pub subject: String,
    /// The account's email address.
    pub email: String,
    /// Whether the provider has verified the address.
    pub email_verified: bool,
    /// The display name.
    pub name: Option<String>,
}

/// The registration of this service at a provider.
pub(super) struct Application {
    pub(super) client_id: String,
    pub(super) client_secret: String,
    pub(super) redirect_uri: String,
}

/// The tokens that a code is exchanged for.
#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) access_token: String,
    pub(super) id_token: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Application {
    /// The URL that the browser is sent to.
    pub(super) fn authorization_url(
        &self,
        mut endpoint: Url,
        scope: &str,
        state: &str,
        challenge: &str,
    ) -> Url {
        endpoint
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", scope)
            .append_pair("state", state)
            .append_pair("code_challenge", challenge)
            .append_pair("code_challenge_method", "S256");
        endpoint
    }

    /// The form sent to the token endpoint, without the client's credentials.
    pub(super) fn grant<'a>(&'a self, code: &'a str, verifier: &'a str) -> Vec<(&'static str, &'a str)> {
        vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", verifier),
        ]
    }

    /// The client's credentials, for a token endpoint that accepts them in the body.
    pub(super) fn credentials(&self) -> [(&'static str, &str); 2] {
        [("client_id", &self.client_id), ("client_secret", &self.client_secret)]
    }
}

/// Exchanges a code for tokens.
pub(super) async fn exchange(request: RequestBuilder) -> Result<Tokens, Failure> {
    let response = send(EXCHANGE, request).await?;
    // GitHub reports errors with status 200, so the body is checked for an error code first.
    if !response.status.is_server_error()
        && let Ok(Refusal { error }) = serde_json::from_slice(&response.body)
    {
        return Err(refused(&error));
    }
    response.read(EXCHANGE)
}

fn refused(code: &str) -> Failure {
    match code {
        "invalid_grant" | "bad_verification_code" => Failure::GrantRefused,
        "unverified_user_email" => Failure::EmailUnverified,
        // Everything else is about this service's registration, which the operator must fix.
        code if is_error_code(code) => Failure::at(EXCHANGE, format!("the provider answered {code}")),
        _ => Failure::at(EXCHANGE, "the provider answered with an error without a code"),
    }
}

/// Whether the text is an error code; anything else might echo the request.
fn is_error_code(text: &str) -> bool {
    text.len() <= MAX_ERROR_CODE && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// A URL without its trailing slash, to append a path to.
pub(super) fn without_slash(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}
