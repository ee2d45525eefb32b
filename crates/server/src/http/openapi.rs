//! The OpenAPI document, generated from the handlers.

mod headers;
mod operation_ids;
mod webhooks;

use std::sync::OnceLock;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use utoipa::Modify;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Deprecated, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder,
    Schema, SecurityRequirement, ServerBuilder, Type,
};

use self::operation_ids::operation_id;
use super::access::PERSPECTIVE_PATHS;
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
        (name = "account", description = "The authenticated caller, and the settings of the account."),
        (name = "members", description = "Who can sign in to the account, with which role, and who is invited."),
        (name = "api keys", description = "Keys that sign requests."),
        (name = "objects", description = "Events about objects, and the answers about them."),
        (name = "signals", description = "The questions that are asked about every object."),
        (name = "moderation", description = "Scores of single texts, in the shapes of other moderation services."),
        (name = "quality", description = "Labels, how good the answers are by them, and calibrations."),
        (name = "reviews", description = "Objects that people are to look at, in queues."),
        (name = "webhooks", description = "Endpoints, signed deliveries and dead letters."),
        (name = "rules", description = "Actions to take when answers satisfy a condition."),
        (name = "billing", description = "The prepaid balance, its ledger, top-ups by card, and usage."),
        (name = "exports", description = "Everything of one kind, as a stream of rows."),
        (name = "operator", description = "The health and the accounts of the whole install, for those who operate it."),
        (name = "console", description = "Sign-in and settings of console users."),
        (name = "system", description = "Health, metrics and this document."),
    ),
    components(schemas(
        model::api::AnalysisCompleted<'_>,
        model::api::Error,
        model::api::EndpointTest,
        model::api::ReviewEvent,
        model::api::ReviewOrder,
        model::api::RuleTriggered
    )),
    modifiers(&SecuritySchemes),
)]
pub(super) struct Document;

/// The ways to authenticate a request.
struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, document: &mut OpenApi) {
        let Some(components) = document.components.as_mut() else { return };
        let signed = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("JWT")
            .description(Some(
                "A JWT signed with HS256 and the whole secret of an API key. The header `kid` (or the query parameter \
                 `api_key`) names the key. The claims `iat` and `exp` are required, at most 300 s apart; `htm` and `htu` \
                 are optional and bind the token to one method and path. Sign a new token for each request.",
            ))
            .build();
        let console = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "The token from a console sign-in. A sign-in with the header `X-Auspex-Session: cookie` answers without \
                 `token` and sets the cookie `__Host-auspex` (in development `auspex`) instead; a request with it, other \
                 than GET, must have the `Origin` of the deployment or `Sec-Fetch-Site: same-origin`.",
            ))
            .build();
        let legacy =
            ApiKeyValue::with_description("X-API-Key", "Deprecated: a legacy key, until it is rotated.");
        let metrics = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The deployment's metrics token, if one is configured."))
            .build();
        let bearer_key = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "The secret of an API key whose kind is `bearer`, with the scope that the operation needs.",
            ))
            .build();
        let bearer_key_in_query = ApiKeyValue::with_description(
            "key",
            "The secret of an API key whose kind is `bearer`, with the scope `moderate`.",
        );
        components.add_security_scheme("bearer_key", SecurityScheme::Http(bearer_key));
        components.add_security_scheme(
            "bearer_key_in_query",
            SecurityScheme::ApiKey(ApiKey::Query(bearer_key_in_query)),
        );
        components.add_security_scheme("metrics_token", SecurityScheme::Http(metrics));
        components.add_security_scheme("signed_request", SecurityScheme::Http(signed));
        components.add_security_scheme("console_token", SecurityScheme::Http(console));
        components.add_security_scheme("legacy_key", SecurityScheme::ApiKey(ApiKey::Header(legacy)));
    }
}

/// Read the OpenAPI document as JSON.
///
/// This document, as OpenAPI 3.1. `/docs` is easier to read.
#[utoipa::path(get, path = "/openapi.json", tag = "system", responses(
    (status = 200, description = "The document.", body = Object, content_type = "application/json"),
))]
pub(super) async fn json() -> impl IntoResponse {
    // A `LazyLock` would name its function in the static, and statics are always compiled: the test binary of this crate
    // would hold every handler for nothing.
    static JSON: OnceLock<String> = OnceLock::new();
    let text = JSON.get_or_init(|| openapi_document().to_pretty_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], text.as_str())
}

/// Read the OpenAPI document as YAML.
///
/// The same document as `/openapi.json`.
#[utoipa::path(get, path = "/openapi.yaml", tag = "system", responses(
    (status = 200, description = "The document.", body = Object, content_type = "application/yaml"),
))]
pub(super) async fn yaml() -> impl IntoResponse {
    static YAML: OnceLock<String> = OnceLock::new();
    let text = YAML.get_or_init(|| openapi_document().to_yaml().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/yaml")], text.as_str())
}

/// Query parameters that are one of a few words. Handlers take them as text, to name the words in a refusal.
const CHOICES: [(&str, &str, &[&str]); 3] = [
    ("/v1/objects", "sort", &["recent", "flagged", "trust"]),
    ("/v1/billing/ledger", "type", &["credit", "charge"]),
    ("/v1/billing/ledger", "group", &["batch"]),
];

fn list_choices(path: &str, operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        let choices = CHOICES.iter().find(|(of, name, _)| *of == path && *name == parameter.name);
        if let Some((_, _, words)) = choices {
            let schema =
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()));
            parameter.schema = Some(schema.build().into());
        }
    }
}

/// Examples of every request and response record, by name.
const EXAMPLES: &str = include_str!("examples.json");

/// Adds examples, and the errors that all operations of a kind share, so that no handler has to list them.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    document.servers =
        Some(vec![ServerBuilder::new().url("/").description(Some("This deployment.")).build()]);
    document.webhooks = Some(webhooks::paths());
    headers::describe(&mut document);
    add_examples(&mut document);
    describe_responses(&mut document);
    for (path, item) in &mut document.paths.paths {
        name_operations(path, item);
        for operation in operations(item) {
            let is_authenticated = operation.security.is_some() || path.starts_with("/v1/");
            if is_authenticated && path != "/metrics" {
                if !path.starts_with(PERSPECTIVE_PATHS) {
                    add_error(operation, "401", "The credential is missing, invalid, expired or revoked.");
                }
                add_error(
                    operation,
                    "403",
                    "The role or the scope does not allow it, or the account is suspended.",
                );
                add_error(operation, "429", "Too many requests; `Retry-After` says how long to wait.");
                secure(operation);
            }
            if path == "/auth/token" || path == "/auth/console/login" {
                add_error(operation, "403", "The account is suspended.");
            }
            if path == "/auth/token" || path.ends_with("/ingest") {
                operation.deprecated = Some(Deprecated::True);
            }
            if path.starts_with("/auth/") {
                add_error(
                    operation,
                    "429",
                    "Too many requests from this address; `Retry-After` says how long to wait.",
                );
            }
            if (path == "/v1/api_keys" || path.ends_with("/rotate_secret"))
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                // Every field has a default.
                body.required = Some(Required::False);
            }
            if operation.request_body.is_some() {
                add_error(operation, "400", "The body is malformed or fails validation.");
                add_error(operation, "408", "The body did not arrive in time.");
                let largest = if path.starts_with("/auth/") { "64 KiB" } else { "4 MiB" };
                add_error(operation, "413", &format!("The body is larger than {largest}."));
            }
            if path.starts_with("/v1") || path.starts_with("/auth/") {
                add_error(operation, "500", "Internal error.");
                add_error(operation, "503", "The database does not respond.");
            }
            if path.starts_with(PERSPECTIVE_PATHS) {
                give_errors_of_perspective(operation);
            }
            list_choices(path, operation);
            headers::declare(path, operation);
        }
    }
    document
}

fn name_operations(path: &str, item: &mut PathItem) {
    let named = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ];
    for (method, operation) in named {
        if let Some(operation) = operation {
            operation.operation_id = operation_id(method, path).map(str::to_owned);
        }
    }
}

fn add_examples(document: &mut OpenApi) {
    let examples: Map<String, Value> = serde_json::from_str(EXAMPLES).unwrap_or_default();
    let Some(components) = document.components.as_mut() else { return };
    for (name, example) in examples {
        match components.schemas.get_mut(&name) {
            Some(RefOr::T(Schema::Object(record))) => record.examples = vec![example],
            // A record that contains another one.
            Some(RefOr::T(Schema::AllOf(record))) => record.examples = vec![example],
            _ => {}
        }
    }
}

/// Describes responses without a description by the description of their body.
fn describe_responses(document: &mut OpenApi) {
    let schemas =
        document.components.as_ref().map(|components| components.schemas.clone()).unwrap_or_default();
    let description_of = |response: &Response| {
        let Some(RefOr::T(body)) = response.content.values().next() else { return None };
        let Some(RefOr::Ref(reference)) = &body.schema else { return None };
        match schemas.get(reference.ref_location.rsplit('/').next()?)? {
            RefOr::T(Schema::Object(record)) => record.description.clone(),
            RefOr::T(Schema::AllOf(record)) => record.description.clone(),
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

/// Sets the default security schemes. Operations for console users only name the console's scheme themselves.
fn secure(operation: &mut Operation) {
    if operation.security.is_none() {
        let schemes = ["signed_request", "console_token", "legacy_key"];
        operation.security =
            Some(schemes.map(|name| SecurityRequirement::new(name, Vec::<String>::new())).to_vec());
    }
}

/// The errors of these routes have another format.
fn give_errors_of_perspective(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if status.starts_with(['4', '5']) {
            let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("CommentError"))).build();
            response.content = [("application/json".to_owned(), error.into())].into();
        }
    }
}

fn add_error(operation: &mut Operation, status: &str, description: &str) {
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let response = ResponseBuilder::new().description(description).content("application/json", error).build();
    operation.responses.responses.entry(status.to_owned()).or_insert(response.into());
}
