//! The machine-readable description of the interface, generated from the handlers.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::Modify;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Deprecated, OpenApi, Ref, ResponseBuilder, SecurityRequirement};

use super::App;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Auspex",
        version = "1.0.0",
        description = "Send events and messages about objects; read typed answers to your questions about each of them.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "account", description = "Who is asking, and the settings of the account."),
        (name = "api keys", description = "Keys that sign requests."),
        (name = "objects", description = "Events about objects, and the answers about them."),
        (name = "signals", description = "The questions that are asked about every object."),
        (name = "webhooks", description = "Signed deliveries of what happens, and their dead letters."),
        (name = "rules", description = "What happens when answers meet a condition."),
        (name = "billing", description = "The prepaid balance, its ledger, top-ups by card, and usage."),
        (name = "console", description = "Sign-in for people."),
        (name = "system", description = "Whether the service lives and can work."),
    ),
    components(schemas(model::api::AnalysisCompleted<'_>, model::api::Error, model::api::RuleTriggered)),
    modifiers(&Schemes),
)]
pub(super) struct Document;

/// How requests prove who sends them.
struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut OpenApi) {
        let Some(components) = document.components.as_mut() else { return };
        let signed = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("JWT")
            .description(Some(
                "A JWT by HS256, keyed with the whole secret of an API key: header `kid` (or the query parameter \
                 `api_key`) names the key; claims `iat` and `exp` (at most 300 s apart), and optionally `htm` and `htu` \
                 bind it to one method and path. Sign a new one for each request.",
            ))
            .build();
        let console = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The token of a console sign-in."))
            .build();
        let legacy =
            ApiKeyValue::with_description("X-API-Key", "Deprecated: an old long key, until it is rotated.");
        components.add_security_scheme("signed_request", SecurityScheme::Http(signed));
        components.add_security_scheme("console_token", SecurityScheme::Http(console));
        components.add_security_scheme("legacy_key", SecurityScheme::ApiKey(ApiKey::Header(legacy)));
    }
}

/// Serves the document.
pub(super) fn routes(document: OpenApi) -> Router<App> {
    // It is made of types that always serialize.
    let json: Arc<str> = document.to_pretty_json().unwrap_or_default().into();
    let yaml: Arc<str> = document.to_yaml().unwrap_or_default().into();
    Router::new()
        .route("/openapi.json", get(move || answer("application/json", Arc::clone(&json))))
        .route("/openapi.yaml", get(move || answer("application/yaml", Arc::clone(&yaml))))
}

fn answer(kind: &'static str, text: Arc<str>) -> std::future::Ready<impl IntoResponse> {
    std::future::ready(([(header::CONTENT_TYPE, kind)], text.to_string()))
}

/// Adds the refusals that follow from what an operation is, so that no handler lists them.
pub(super) fn finished(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            if path.starts_with("/v1/") {
                refuse(operation, "401", "The credential is missing, invalid, expired or revoked.");
                refuse(operation, "429", "Too many requests; `Retry-After` says how long to wait.");
                secure(operation);
            }
            if path == "/auth/token" || path.ends_with("/ingest") {
                operation.deprecated = Some(Deprecated::True);
            }
            if path.starts_with("/auth/") {
                refuse(
                    operation,
                    "429",
                    "Too many requests from this address; `Retry-After` says how long to wait.",
                );
            }
            if operation.request_body.is_some() {
                refuse(operation, "400", "The body is malformed or fails validation.");
                refuse(operation, "408", "The body did not arrive in time.");
                refuse(operation, "413", "The body is larger than 4 MiB.");
            }
            if path.starts_with("/v1/") || path.starts_with("/auth/") {
                refuse(operation, "500", "Something of ours broke.");
                refuse(operation, "503", "The database does not answer.");
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// An operation that only people may use says so by naming the console's scheme alone.
fn secure(operation: &mut Operation) {
    if operation.security.is_none() {
        let schemes = ["signed_request", "console_token", "legacy_key"];
        operation.security =
            Some(schemes.map(|name| SecurityRequirement::new(name, Vec::<String>::new())).to_vec());
    }
}

fn refuse(operation: &mut Operation, status: &str, description: &str) {
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let response = ResponseBuilder::new().description(description).content("application/json", error).build();
    operation.responses.responses.entry(status.to_owned()).or_insert(response.into());
}
