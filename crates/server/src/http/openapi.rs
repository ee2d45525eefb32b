//! The machine-readable description of the interface, generated from the handlers.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use utoipa::Modify;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Deprecated, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
    SecurityRequirement,
};

use super::openapi_document;

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
        let metrics = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The deployment's metrics token, where one is configured."))
            .build();
        components.add_security_scheme("metrics_token", SecurityScheme::Http(metrics));
        components.add_security_scheme("signed_request", SecurityScheme::Http(signed));
        components.add_security_scheme("console_token", SecurityScheme::Http(console));
        components.add_security_scheme("legacy_key", SecurityScheme::ApiKey(ApiKey::Header(legacy)));
    }
}

/// Describe the interface in JSON.
///
/// This document, as OpenAPI 3.1. People read it better at `/docs`.
#[utoipa::path(get, path = "/openapi.json", tag = "system", responses(
    (status = 200, description = "The document.", body = Object, content_type = "application/json"),
))]
pub(super) async fn json() -> impl IntoResponse {
    static JSON: LazyLock<String> = LazyLock::new(|| openapi_document().to_pretty_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], JSON.as_str())
}

/// Describe the interface in YAML.
///
/// The same document as `/openapi.json`.
#[utoipa::path(get, path = "/openapi.yaml", tag = "system", responses(
    (status = 200, description = "The document.", body = Object, content_type = "application/yaml"),
))]
pub(super) async fn yaml() -> impl IntoResponse {
    static YAML: LazyLock<String> = LazyLock::new(|| openapi_document().to_yaml().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/yaml")], YAML.as_str())
}

/// An example of every record that is sent or received, by the record's name.
const EXAMPLES: &str = include_str!("examples.json");

/// Adds examples, and the refusals that follow from what an operation is, so that no handler lists them.
pub(super) fn finished(mut document: OpenApi) -> OpenApi {
    exemplify(&mut document);
    describe_answers(&mut document);
    for (path, item) in &mut document.paths.paths {
        name_operations(path, item);
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
            if path == "/v1/api_keys"
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                // Every field of it has a default.
                body.required = Some(Required::False);
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

/// Names each operation by its method and its path: handlers of several nouns share a name, operations may not.
fn name_operations(path: &str, item: &mut PathItem) {
    let words = path.trim_start_matches("/v1").split(|letter: char| !letter.is_ascii_alphanumeric());
    let noun = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
    let named = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ];
    for (method, operation) in named {
        if let Some(operation) = operation {
            operation.operation_id = Some(format!("{method}_{noun}"));
        }
    }
}

fn exemplify(document: &mut OpenApi) {
    let examples: Map<String, Value> = serde_json::from_str(EXAMPLES).unwrap_or_default();
    let Some(components) = document.components.as_mut() else { return };
    for (name, example) in examples {
        if let Some(RefOr::T(Schema::Object(record))) = components.schemas.get_mut(&name) {
            record.examples = vec![example];
        }
    }
}

/// An answer that its handler says nothing of is described by what its body is.
fn describe_answers(document: &mut OpenApi) {
    let schemas =
        document.components.as_ref().map(|components| components.schemas.clone()).unwrap_or_default();
    let description_of = |response: &Response| {
        let Some(RefOr::T(body)) = response.content.values().next() else { return None };
        let Some(RefOr::Ref(reference)) = &body.schema else { return None };
        match schemas.get(reference.ref_location.rsplit('/').next()?)? {
            RefOr::T(Schema::Object(object)) => object.description.clone(),
            _ => None,
        }
    };
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    response.description = description_of(response).unwrap_or_else(|| "Done.".to_owned());
                }
            }
        }
    }
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
