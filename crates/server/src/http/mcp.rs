//! `/mcp`: the Model Context Protocol, by which agents work with an account.
//!
//! Every request stands alone, so any node can answer it: there are no sessions, and answers are JSON. The handshake of
//! 2025-06-18 and its successors and the one of 2026-07-28 are both answered by the official SDK.

mod arguments;
mod endpoint;
mod tools;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http_body_util::Full;

pub(crate) use self::endpoint::McpEndpoint;
use super::App;
use super::authenticate::authenticate;
use super::envelope::Refusal;
use super::extract;

/// Serves the protocol. It describes itself, so it is not part of the OpenAPI document.
pub(super) fn routes(app: &App) -> Router<App> {
    let authenticated = from_fn_with_state(app.clone(), authenticate);
    Router::new().route("/mcp", post(call)).route_layer(authenticated)
}

/// One message of the protocol.
async fn call(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    // Read here, where bodies have a deadline and a share of the memory.
    let mut head = Parts::clone(&parts);
    let body = extract::read(Request::from_parts(parts, body)).await?;
    head.headers.remove(header::CONTENT_LENGTH);
    let answered = app.mcp.answer(Request::from_parts(head, Full::new(body))).await;
    Ok(answered.map(Body::new).into_response())
}
