//! Authentication and rate limits: by tenant for `/v1`, by client address for `/auth`.

use std::net::IpAddr;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use model::{TenantId, UserId};
use percent_encoding::percent_decode_str;
use service::{Allowance, Caller, Decision, Error, Kind, Presented, RefusedFrom, RequestLine, audit, traces};
use store::accounts::audit_log::Origin;
use store::{Store, reading_as};
use url::form_urlencoded;
use uuid::Uuid;

use super::client_address::{ClientAddress, RequestId, agent};
use super::envelope::Refusal;
use super::{App, access};

/// Query parameters that clients have put tokens in by mistake; logs and browser histories keep them.
const TOKEN_PARAMETERS: [&str; 3] = ["access_token", "token", "jwt"];

/// Lets a request through to `/v1` if it is authenticated and its tenant is within the rate limit.
pub(super) async fn authenticate(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = match identify(&app, &parts, address).await {
        Ok(caller) => caller,
        Err(error) if error.kind() == Kind::Unauthorized => {
            let decision = app.service.addresses.count(address);
            let refusal = decision.permit().err().unwrap_or(error);
            return with_rate_limit_headers(Refusal(refusal).into_response(), decision.allowance);
        }
        Err(error) => return Refusal(error).into_response(),
    };
    let decision = match app.service.rate.take(caller.tenant).await {
        Ok(decision) => decision,
        Err(error) => return Refusal(error).into_response(),
    };
    let permitted = match decision.permit() {
        Ok(()) => authorize(&app, &parts, caller).await.inspect_err(|refusal| {
            let from = RefusedFrom { address, request_id: request_id(&parts) };
            app.service.accounts.refusals.note_forbidden(&caller, refusal, from);
        }),
        Err(refusal) => Err(refusal),
    };
    let response = match permitted {
        Ok(()) => {
            traces::note("auspex.tenant.id", || caller.tenant.0.to_string());
            parts.extensions.insert(caller);
            let origin = origin(&app, &parts, address);
            parts.extensions.insert(origin.clone());
            let is_read_only = is_read_only(&parts.method);
            let handled = audit::acting_as(caller, origin, next.run(Request::from_parts(parts, body)));
            if is_read_only {
                reading_as(caller.id(), handled).await
            } else {
                let mut writing = Writing { store: app.service.store(), caller: caller.id(), is_over: false };
                let response = handled.await;
                writing.is_over = true;
                response
            }
        }
        Err(refusal) => Refusal(refusal).into_response(),
    };
    with_rate_limit_headers(response, decision.allowance)
}

/// Remembers, when it is dropped, that a caller has written. A client that does not wait for the answer drops the request too,
/// and what it has begun may be written after that.
struct Writing<'a> {
    store: &'a Store,
    caller: Uuid,
    is_over: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.is_over {
            self.store.note_write(self.caller);
        } else {
            self.store.note_writing(self.caller);
        }
    }
}

/// Where a request comes from, for the audit log.
fn origin(app: &App, request: &Parts, address: IpAddr) -> Origin {
    let request_id = request_id(request).map(str::to_owned);
    Origin { at: app.service.clock().now(), address: Some(address.to_string()), request_id }
}

fn request_id(request: &Parts) -> Option<&str> {
    request.extensions.get::<RequestId>().map(|RequestId(id)| id.as_ref())
}

/// Refuses a caller whose role or scopes do not allow the operation, or who is no operator where it needs one.
async fn authorize(app: &App, request: &Parts, caller: Caller) -> Result<(), Error> {
    let path = request.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    access::authorize(&request.method, path, &caller)?;
    if access::is_for_operators(&request.method, path) {
        app.service.accounts.users.require_operator(caller).await?;
    }
    Ok(())
}

async fn identify(app: &App, request: &Parts, address: IpAddr) -> Result<Caller, Error> {
    let headers = &request.headers;
    let query: Vec<(String, String)> =
        form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let mut api_keys = query.iter().filter(|(name, _)| name == "api_key").map(|(_, value)| value.as_str());
    let api_key = api_keys.next();
    if api_keys.next().is_some() {
        return Err(Error::new(Kind::Unauthorized, "unauthorized").because("api_key is there twice"));
    }
    let cookie = session_in_cookie(app, request)?;
    let decoded_path = percent_decode_str(request.uri.path()).decode_utf8().ok();
    let presented = Presented {
        bearer: bearer(headers).or_else(|| key_in_query(request, &query)),
        x_api_key: headers.get("x-api-key").and_then(|value| value.to_str().ok()),
        cookie,
        api_key,
        token_in_query: query.iter().any(|(name, _)| TOKEN_PARAMETERS.contains(&name.as_str())),
        request: RequestLine { method: request.method.as_str(), decoded_path: decoded_path.as_deref() },
        address,
        agent: agent(headers),
        request_id: request_id(request),
    };
    app.service.accounts.authentication.authenticate(presented).await
}

/// The session that the cookie of a request carries. Another credential wins over it, whatever it is worth: it was sent on
/// purpose, and a browser adds cookies by itself. For the same reason, a request that may change something must come from a
/// page of the console.
fn session_in_cookie<'a>(app: &App, request: &'a Parts) -> Result<Option<&'a str>, Error> {
    let headers = &request.headers;
    if headers.contains_key(header::AUTHORIZATION) || headers.contains_key("x-api-key") {
        return Ok(None);
    }
    let token = app.session_cookie.read(headers);
    if token.is_none() || is_read_only(&request.method) || is_from_console(app, headers) {
        return Ok(token);
    }
    let origin = app.public_url.origin().ascii_serialization();
    let message = format!("Origin: a request with a session cookie must come from a page of {origin}");
    Err(Error::new(Kind::Forbidden, message))
}

fn is_read_only(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a page of the console sent a request; no page can forge either header.
fn is_from_console(app: &App, headers: &HeaderMap) -> bool {
    let origin = app.public_url.origin().ascii_serialization();
    headers.get(header::ORIGIN).is_some_and(|value| value.as_bytes() == origin.as_bytes())
        || headers.get("sec-fetch-site").is_some_and(|value| value.as_bytes() == b"same-origin")
}

/// The bearer key in the query of a request, where clients of the Perspective API have it. Elsewhere it would get into logs.
fn key_in_query<'a>(request: &Parts, query: &'a [(String, String)]) -> Option<&'a str> {
    let path = request.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let key = query.iter().find(|(name, _)| name == "key" && path.starts_with(access::PERSPECTIVE_PATHS));
    key.map(|(_, value)| value.as_str())
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, credential) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential.trim())
}

/// Lets a request through to `/auth` if its address is within the rate limit.
pub(super) async fn limit_by_address(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    request: Request,
    next: Next,
) -> Response {
    let decision: Decision = app.service.addresses.count(address);
    let response = match decision.permit() {
        Ok(()) => next.run(request).await,
        Err(refusal) => Refusal(refusal).into_response(),
    };
    with_rate_limit_headers(response, decision.allowance)
}

fn with_rate_limit_headers(mut response: Response, allowance: Allowance) -> Response {
    let numbers = [
        ("ratelimit-limit", allowance.limit.to_string()),
        ("ratelimit-remaining", allowance.remaining.to_string()),
        ("ratelimit-reset", allowance.reset_s.to_string()),
    ];
    for (name, number) in numbers {
        if let Ok(value) = HeaderValue::from_str(&number) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// The authenticated caller: an API key or a member.
pub(super) struct Authenticated(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        let caller = parts.extensions.get::<Caller>().copied();
        let missing = || Error::new(Kind::Unauthorized, "unauthorized").because("nobody is authenticated");
        Ok(Self(caller.ok_or_else(missing)?))
    }
}

/// A member who is signed in; API keys are refused.
pub(super) struct Member {
    pub(super) caller: Caller,
    pub(super) tenant: TenantId,
    pub(super) user: UserId,
}

impl<S: Send + Sync> FromRequestParts<S> for Member {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Authenticated(caller) = Authenticated::from_request_parts(parts, state).await?;
        Ok(Self { caller, tenant: caller.tenant, user: caller.user()? })
    }
}

/// The member's session that a request to a route without authentication carries, if any: whoever proves an address and holds
/// a session of its user keeps what was set up.
pub(super) struct HeldSession(pub(super) Option<Caller>);

impl FromRequestParts<App> for HeldSession {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        if bearer(&parts.headers).is_none() && app.session_cookie.read(&parts.headers).is_none() {
            return Ok(Self(None));
        }
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, app).await;
        match identify(app, parts, address).await {
            Ok(caller) => Ok(Self(Some(caller).filter(|caller| caller.user().is_ok()))),
            Err(error) if error.kind() == Kind::Unauthorized => Ok(Self(None)),
            Err(error) => Err(error.into()),
        }
    }
}
