//! The `webhooks` section: what the service posts to the endpoints of an account.

use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, Paths, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, Ref, Required, ResponseBuilder, Type};

/// The headers of every delivery.
const HEADERS: [(&str, &str); 7] = [
    ("X-Webhook-Delivery", "The id of the delivery, the same for each attempt."),
    ("X-Webhook-Event", "The event type."),
    ("X-Webhook-Timestamp", "When the attempt was signed, in Unix seconds."),
    (
        "X-Webhook-Signature",
        "`sha256=` and the HMAC-SHA256 of timestamp, a dot and the body, keyed with the whole secret.",
    ),
    ("webhook-id", "The id of the delivery (Standard Webhooks)."),
    ("webhook-timestamp", "When the attempt was signed, in Unix seconds (Standard Webhooks)."),
    (
        "webhook-signature",
        "`v1,` and the signature (Standard Webhooks); two of them, separated by a space, while the secret is being rotated.",
    ),
];

/// Every event type with its payload.
pub(super) fn paths() -> Paths {
    PathsBuilder::new()
        .path(
            model::webhook::ANALYSIS_COMPLETED,
            delivery(
                "receiveAnalysisCompleted",
                "An asynchronous analysis has finished.",
                "AnalysisCompleted",
            ),
        )
        .path(
            model::webhook::RULE_TRIGGERED,
            delivery("receiveRuleTriggered", "A rule whose action is a webhook has fired.", "RuleTriggered"),
        )
        .path(
            model::webhook::REVIEW_OPENED,
            delivery("receiveReviewOpened", "A review was opened, or opened again.", "ReviewEvent"),
        )
        .path(
            model::webhook::REVIEW_RESOLVED,
            delivery("receiveReviewResolved", "A review was resolved.", "ReviewEvent"),
        )
        .path(
            model::webhook::ENDPOINT_TEST,
            delivery("receiveEndpointTest", "Somebody asked for a test of the endpoint.", "EndpointTest"),
        )
        .build()
}

fn delivery(id: &str, summary: &str, payload: &str) -> PathItem {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(payload))).build();
    let request = RequestBodyBuilder::new()
        .content("application/json", body)
        .required(Some(Required::True))
        .description(Some("Verify the signature over the exact bytes before you parse them."))
        .build();
    let accepted =
        "Any 2xx accepts the delivery. 429 and 5xx are retried; other answers make it a dead letter.";
    let mut operation = OperationBuilder::new()
        .operation_id(Some(id))
        .summary(Some(summary))
        .tag("webhooks")
        .request_body(Some(request))
        .response("2XX", ResponseBuilder::new().description(accepted).build());
    for (name, description) in HEADERS {
        let header = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String).build()))
            .build();
        operation = operation.parameter(header);
    }
    PathItem::new(HttpMethod::Post, operation.build())
}
