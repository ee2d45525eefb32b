//! Sign-in through identity providers, and linked accounts.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::Provider;
use model::api::{
    AuthorizationURL, Error, Identities, Identity, OAuthAuthorizeRequest, OAuthCodeRequest, OAuthProviders,
    Token,
};
use service::Kind;

use super::App;
use super::authenticate::{HeldSession, Member};
use super::client_address::Client;
use super::envelope::Refusal;
use super::extract;
use super::session_answer::SessionAnswer;

/// List the providers that users can sign in with.
///
/// Also whether a sign-in may open a new account.
#[utoipa::path(get, path = "/auth/console/oauth/providers", tag = "console", responses((status = 200, body = OAuthProviders)))]
pub(super) async fn providers(State(app): State<App>) -> Json<OAuthProviders> {
    Json(app.service.accounts.identities.providers())
}

/// Start a sign-in at a provider.
///
/// Send the browser to the returned URL; the provider redirects it to `{public_url}/console/oauth/{provider}`.
#[utoipa::path(post, path = "/auth/console/oauth/{provider}/authorize", tag = "console",
    params(("provider" = Provider, Path, description = "The provider.")), request_body = OAuthAuthorizeRequest, responses(
    (status = 200, body = AuthorizationURL),
    (status = 404, description = "The provider is unknown or not configured.", body = Error),
    (status = 502, description = "The provider failed.", body = Error),
))]
pub(super) async fn authorize(
    State(app): State<App>,
    extract::Path(provider): extract::Path<String>,
    extract::Json(request): extract::Json<OAuthAuthorizeRequest>,
) -> Result<Json<AuthorizationURL>, Refusal> {
    Ok(Json(app.service.accounts.identities.authorization_url(parse_provider(&provider)?, &request).await?))
}

/// Finish a sign-in at a provider.
///
/// Signs in the linked user, links a verified email to an existing user, or opens a new account. If nobody had proved the
/// address before, what its user had set up ends or is disabled, unless the request carries the console token of a session
/// of this user. With the header `X-Auspex-Session: cookie`, the token is in a cookie instead.
#[utoipa::path(post, path = "/auth/console/oauth/{provider}", tag = "console",
    params(("provider" = Provider, Path, description = "The provider.")), request_body = OAuthCodeRequest, responses(
    (status = 200, description = "Signed in to an existing account.", body = Token),
    (status = 201, description = "Signed in to a new account; `new_user` is true.", body = Token),
    (status = 403, description = "Registration is disabled, or the provider has not verified the email.", body = Error),
    (status = 404, description = "The provider is unknown or not configured.", body = Error),
    (status = 409, description = "Another account of the provider is linked to the user.", body = Error),
    (status = 502, description = "The provider failed.", body = Error),
))]
pub(super) async fn sign_in(
    State(app): State<App>,
    Client(client): Client,
    HeldSession(held): HeldSession,
    session: SessionAnswer,
    extract::Path(provider): extract::Path<String>,
    extract::Json(request): extract::Json<OAuthCodeRequest>,
) -> Result<Response, Refusal> {
    let provider = parse_provider(&provider)?;
    let token = app.service.accounts.identities.sign_in(provider, &request, &client, held).await?;
    let status = if token.new_user == Some(true) { StatusCode::CREATED } else { StatusCode::OK };
    Ok(session.answer(status, token))
}

/// List the ways the user can sign in.
///
/// Whether the user has a password, which providers are linked, and which are available.
#[utoipa::path(get, path = "/v1/me/identities", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = Identities),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn list(State(app): State<App>, member: Member) -> Result<Json<Identities>, Refusal> {
    Ok(Json(app.service.accounts.identities.list(member.tenant, member.user).await?))
}

/// Link an account at a provider.
///
/// With the code that the provider passed to the browser, and the PKCE verifier. Ends all other sessions of the user. Needs
/// recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/identities/{provider}", tag = "console", security(("console_token" = [])),
    params(("provider" = Provider, Path, description = "The provider.")), request_body = OAuthCodeRequest, responses(
    (status = 201, description = "Linked.", body = Identity),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`; or the provider has not verified the email.", body = Error),
    (status = 404, description = "The provider is unknown or not configured.", body = Error),
    (status = 409, description = "The account is linked to another user, or another account of the provider to this one.", body = Error),
    (status = 502, description = "The provider failed.", body = Error),
))]
pub(super) async fn link(
    State(app): State<App>,
    member: Member,
    extract::Path(provider): extract::Path<String>,
    extract::Json(request): extract::Json<OAuthCodeRequest>,
) -> Result<(StatusCode, Json<Identity>), Refusal> {
    let identity =
        app.service.accounts.identities.link(member.caller, parse_provider(&provider)?, &request).await?;
    Ok((StatusCode::CREATED, Json(identity)))
}

/// Unlink an account at a provider.
///
/// The last way to sign in cannot be removed: set a password first. Ends all other sessions of the user. Needs recent proof:
/// see `POST /auth/console/reauthenticate`.
#[utoipa::path(delete, path = "/v1/me/identities/{provider}", tag = "console", security(("console_token" = [])),
    params(("provider" = Provider, Path, description = "The provider.")), responses(
    (status = 204, description = "Unlinked."),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 404, description = "The provider is unknown, or no account of it is linked.", body = Error),
    (status = 409, description = "It is the last way to sign in.", body = Error),
))]
pub(super) async fn unlink(
    State(app): State<App>,
    member: Member,
    extract::Path(provider): extract::Path<String>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.identities.unlink(member.caller, parse_provider(&provider)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse_provider(provider: &str) -> Result<Provider, service::Error> {
    provider.parse().map_err(|_| service::Error::new(Kind::NotFound, "there is no such provider"))
}
