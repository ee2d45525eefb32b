//! The interactive API reference: one page with script and style, embedded in the binary.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use super::App;

const PAGE: &str = include_str!("../../assets/docs/index.html");
const SCRIPT: &str = include_str!("../../assets/docs/docs.js");
const STYLE: &str = include_str!("../../assets/docs/docs.css");
/// The page may only load from and talk to this service, and run nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the reference.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/docs", get(async || asset("text/html; charset=utf-8", PAGE)))
        .route("/docs/docs.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/docs/docs.css", get(async || asset("text/css; charset=utf-8", STYLE)))
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, POLICY)], text)
}
