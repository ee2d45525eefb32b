//! The documentation that the service carries: the interactive API reference (one page with script and style, embedded in the
//! binary), and the same for agents.

use std::sync::OnceLock;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use super::{App, openapi, openapi_document, reference};

const PAGE: &str = include_str!("../../assets/docs/index.html");
const SCRIPT: &str = include_str!("../../assets/docs/docs.js");
const STYLE: &str = include_str!("../../assets/docs/docs.css");
/// The page may only load from and talk to this service, and run nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What an agent reads first, by the convention of llmstxt.org.
const FOR_AGENTS: &str = include_str!("../../assets/docs/llms.txt");
/// How an agent sets up signals and rules with the command line.
const SKILL: &str = include_str!("../../../../docs/agents/SKILL.md");
const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// Serves the reference.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/docs", get(async || asset("text/html; charset=utf-8", PAGE)))
        .route("/docs/docs.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/docs/docs.css", get(async || asset("text/css; charset=utf-8", STYLE)))
        .route("/llms.txt", get(async || asset("text/plain; charset=utf-8", FOR_AGENTS)))
        .route("/docs/agents/SKILL.md", get(async || asset(MARKDOWN, SKILL)))
        .route("/docs/reference.md", get(async || asset(MARKDOWN, reference_page())))
        .route("/docs/openapi.json", get(openapi::json))
}

/// The reference as Markdown, written once.
fn reference_page() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(|| {
        let document = serde_json::to_value(openapi_document()).unwrap_or_default();
        reference::markdown(&document)
    })
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, POLICY)], text)
}
