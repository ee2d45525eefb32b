//! What both providers have in common: the authorization code grant of OAuth 2 (RFC 6749) with PKCE (RFC 7636).

use reqwest::RequestBuilder;
use serde::Deserialize;
use url::Url;

use super::http::{Failure, answer};
use crate::runtime::Result;

const EXCHANGE: &str = "exchanging the code";
/// Long enough for every error code in use; more would be something else.
const MAX_ERROR_CODE: usize = 64;

/// Who a provider says has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenIdentity {
    /// The account at the provider; it stays when the address changes.
    pub subject: String,
    /// The account's address.
    pub email: String,
    /// Whether the provider has seen that the address is theirs.
    pub email_verified: bool,
    /// What they call themselves.
    pub name: Option<String>,
}

/// How this service is known to a provider.
pub(super) struct Application {
    pub(super) client_id: String,
    pub(super) client_secret: String,
    pub(super) redirect_uri: String,
}

/// What a code is worth.
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
    /// Where the person's browser goes.
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

    /// What the token endpoint is asked, without the client's credentials.
    pub(super) fn grant<'a>(&'a self, code: &'a str, verifier: &'a str) -> Vec<(&'static str, &'a str)> {
        vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", verifier),
        ]
    }

    /// The client's credentials, for a token endpoint that takes them in the body.
    pub(super) fn credentials(&self) -> [(&'static str, &str); 2] {
        [("client_id", &self.client_id), ("client_secret", &self.client_secret)]
    }
}

/// Asks the token endpoint.
pub(super) async fn exchange(request: RequestBuilder) -> Result<Tokens, Failure> {
    let answer = answer(EXCHANGE, request).await?;
    // GitHub refuses with status 200, so the error code is looked for first.
    if !answer.status.is_server_error()
        && let Ok(Refusal { error }) = serde_json::from_slice(&answer.body)
    {
        return Err(refused(&error));
    }
    answer.read(EXCHANGE)
}

fn refused(code: &str) -> Failure {
    match code {
        "invalid_grant" | "bad_verification_code" => Failure::GrantRefused,
        "unverified_user_email" => Failure::EmailUnverified,
        // Everything else is about this service's registration, which the operator must mend.
        code if is_error_code(code) => Failure::at(EXCHANGE, format!("the provider answers {code}")),
        _ => Failure::at(EXCHANGE, "the provider answers with an error that has no code"),
    }
}

/// Whether the text is an error code; anything longer or wilder might repeat what was sent.
fn is_error_code(text: &str) -> bool {
    text.len() <= MAX_ERROR_CODE && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// A URL without the slash at its end, to append a path to.
pub(super) fn without_slash(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}
