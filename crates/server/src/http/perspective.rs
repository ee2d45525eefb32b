//! `/v1alpha1/comments:…`, for clients of the Perspective API. The bearer key is in the query, and errors have Google's format.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use model::api::{
    AnalyzeComment, CommentError, CommentErrorBody, CommentErrorDetail, CommentScores, ErrorBody,
    SuggestCommentScore, SuggestionReceived,
};

use super::App;
use super::authenticate::Authenticated;
use super::body_budget::Leased;
use super::envelope::Refusal;
use super::extract;

/// Score a comment by the attributes of the Perspective API.
///
/// Takes and answers what that API does, with a bearer key that has the scope `moderate` in the query parameter `key`. The
/// comment is read on its own: nothing is recorded and no rule fires. Billed and limited like a verdict; sentences, if they are
/// asked for, are read once more each. A signal of the account with an attribute's name in lower case (`toxicity`) is asked
/// instead of the built-in question.
#[utoipa::path(post, path = "/v1alpha1/comments:analyze", tag = "moderation", request_body = AnalyzeComment,
    security(("bearer_key_in_query" = [])), responses(
    (status = 200, body = CommentScores),
    (status = 402, description = "The prepaid balance is empty.", body = CommentError),
    (status = 502, description = "The analyzer failed.", body = CommentError),
))]
pub(super) async fn analyze(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    lease: Leased,
    extract::Json(request): extract::Json<AnalyzeComment>,
) -> Result<Json<CommentScores>, Refusal> {
    let moderation = app.service.analysis.moderation.clone();
    let analysis = |waiting| async move {
        let _lease = lease;
        moderation.analyze_comment(caller.tenant, request, &waiting).await
    };
    Ok(Json(app.service.run_to_end(analysis).await?))
}

/// Say what the right scores of a comment are.
///
/// Labels the object that `sessionId` names, for each attribute of which the account has a signal; everything else is dropped.
#[utoipa::path(post, path = "/v1alpha1/comments:suggestscore", tag = "moderation", request_body = SuggestCommentScore,
    security(("bearer_key_in_query" = [])), responses((status = 200, body = SuggestionReceived)))]
pub(super) async fn suggest_score(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<SuggestCommentScore>,
) -> Result<Json<SuggestionReceived>, Refusal> {
    Ok(Json(app.service.analysis.moderation.suggest_score(caller, request).await?))
}

/// Turns errors into Google's format, which the clients of these routes read.
pub(super) async fn with_errors_in_its_shape(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let Some(error) = response.extensions().get::<ErrorBody>().cloned() else { return response };
    let status = match response.status() {
        // A key that is not known is an argument that is wrong.
        StatusCode::UNAUTHORIZED => StatusCode::BAD_REQUEST,
        status => status,
    };
    let message = match response.status() {
        StatusCode::UNAUTHORIZED => "API key not valid. Please pass a valid API key.",
        _ => error.message.as_str(),
    };
    let body = CommentError {
        error: CommentErrorBody {
            code: status.as_u16(),
            message: message.to_owned(),
            status: google_status(status).to_owned(),
            details: vec![CommentErrorDetail {
                kind: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(),
                reason: error.code.to_uppercase(),
                domain: "auspex".to_owned(),
            }],
        },
    };
    let (mut parts, _) = response.into_parts();
    parts.status = status;
    for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::WWW_AUTHENTICATE] {
        parts.headers.remove(name);
    }
    let mut response = Json(body).into_response();
    response.headers_mut().extend(parts.headers);
    *response.status_mut() = status;
    response
}

/// The name of a status in Google's errors.
fn google_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYMENT_REQUIRED => "FAILED_PRECONDITION",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::REQUEST_TIMEOUT => "DEADLINE_EXCEEDED",
        StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
        StatusCode::INTERNAL_SERVER_ERROR => "INTERNAL",
        status if status.is_server_error() => "UNAVAILABLE",
        _ => "INVALID_ARGUMENT",
    }
}
