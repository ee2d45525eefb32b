//! The headers of responses, which the middleware and the error envelope add to many operations.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ObjectBuilder, RefOr, Response, Type};

/// Declares the headers of every response of an operation.
pub(super) fn declare(path: &str, operation: &mut Operation) {
    let records_events = path.ends_with("/{object_id}/events") || path.ends_with("/{object_id}/ingest");
    let records_events = records_events && operation.request_body.is_some();
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        add(response, "X-Request-Id", Type::String, "The id of the request, also in the log.");
        if path.starts_with("/v1/") && status != "401" {
            add(response, "RateLimit-Limit", Type::Integer, "Requests per minute.");
            add(response, "RateLimit-Remaining", Type::Integer, "Requests left in this minute.");
            add(response, "RateLimit-Reset", Type::Integer, "Seconds until the next minute begins.");
        }
        if matches!(status.as_str(), "429" | "503") {
            add(response, "Retry-After", Type::Integer, "Seconds to wait before the next request.");
        }
        if records_events && status == "202" {
            let replayed =
                "`true` if a request with the same `Idempotency-Key` had recorded the events before.";
            add(response, "Idempotent-Replayed", Type::String, replayed);
        }
        if records_events && matches!(status.as_str(), "429" | "502" | "503") {
            let recorded = "`true` if the events have been recorded: do not send them again.";
            add(response, "Events-Recorded", Type::String, recorded);
        }
    }
}

fn add(response: &mut Response, name: &str, kind: Type, description: &str) {
    let schema = ObjectBuilder::new().schema_type(kind).build();
    let header = HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build();
    response.headers.insert(name.to_owned(), header.into());
}
