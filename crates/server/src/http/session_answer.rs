//! What a sign-in answers: a token in the body, or a cookie.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use model::Timestamp;
use model::api::{Token, TokenType};
use serde::Serialize;
use service::Error;

use super::App;
use super::envelope::Refusal;
use super::session_cookie::{SESSION_HEADER, SessionCookie};

/// How a sign-in answers: with the token, or with a cookie that holds it where the request asks for one.
pub(super) struct SessionAnswer {
    cookie: Option<SessionCookie>,
    now: Timestamp,
}

impl FromRequestParts<App> for SessionAnswer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let cookie = match parts.headers.get(SESSION_HEADER) {
            None => None,
            Some(value) if value.as_bytes() == b"cookie" => Some(app.session_cookie),
            Some(_) => return Err(Error::bad_request("X-Auspex-Session: it must be cookie").into()),
        };
        Ok(Self { cookie, now: app.service.clock().now() })
    }
}

/// A session whose token is in a cookie.
#[derive(Serialize)]
struct SessionInCookie {
    expires_at: Timestamp,
    token_type: TokenType,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_user: Option<bool>,
}

impl SessionAnswer {
    /// The response to a request that has opened a session.
    pub(super) fn answer(self, status: StatusCode, token: Token) -> Response {
        let Some(cookie) = self.cookie else { return (status, Json(token)).into_response() };
        let Token { token, expires_at, token_type, new_user } = token;
        let stored = cookie.store(&token, expires_at.since(self.now));
        let body = SessionInCookie { expires_at, token_type, new_user };
        (status, [(header::SET_COOKIE, stored)], Json(body)).into_response()
    }
}
