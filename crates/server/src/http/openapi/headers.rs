//! The headers of responses, which the middleware and the error envelope add to many operations.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ObjectBuilder, OpenApi, Ref, RefOr, Type};

/// Every header, with its type and description.
const HEADERS: [(&str, Type, &str); 7] = [
    ("X-Request-Id", Type::String, "The id of the request, also in the log."),
    ("RateLimit-Limit", Type::Integer, "Requests per minute."),
    ("RateLimit-Remaining", Type::Integer, "Requests left in this minute."),
    ("RateLimit-Reset", Type::Integer, "Seconds until the next minute begins."),
    ("Retry-After", Type::Integer, "Seconds to wait before the next request."),
    (
        "Idempotent-Replayed",
        Type::String,
        "`true` if a request with the same `Idempotency-Key` had recorded the events before.",
    ),
    ("Events-Recorded", Type::String, "`true` if the events have been recorded: do not send them again."),
];

/// Describes every header once.
pub(super) fn describe(document: &mut OpenApi) {
    let Some(components) = document.components.as_mut() else { return };
    for (name, kind, description) in HEADERS {
        let schema = ObjectBuilder::new().schema_type(kind).build();
        let header = HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build();
        components.headers.insert(name.to_owned(), header.into());
    }
}

/// Declares which headers each response of an operation has.
pub(super) fn declare(path: &str, operation: &mut Operation) {
    let records_events = operation.request_body.is_some()
        && (path.ends_with("/{object_id}/events") || path.ends_with("/{object_id}/ingest"));
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let is_sent = |name: &str| match name {
            "X-Request-Id" => true,
            "Retry-After" => matches!(status.as_str(), "429" | "503"),
            "Idempotent-Replayed" => records_events && status == "202",
            "Events-Recorded" => records_events && matches!(status.as_str(), "429" | "502" | "503"),
            _ => path.starts_with("/v1/") && status != "401",
        };
        for (name, ..) in HEADERS.iter().filter(|(name, ..)| is_sent(name)) {
            let reference = Ref::new(format!("#/components/headers/{name}"));
            response.headers.insert((*name).to_owned(), RefOr::Ref(reference));
        }
    }
}
