//! Recipients of rule mails agree and withdraw here, by the links in their mails. They have no account and need none.
//!
//! A mail program withdraws with one click (RFC 8058): it posts to the URL in the header of the mail. Programs that look into
//! links only read them, so reading shows a page with a button and changes nothing.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use model::api::{ConfirmRecipientRequest, Error};
use serde::Deserialize;
use utoipa::IntoParams;

use super::envelope::Refusal;
use super::{App, authenticate, extract};

/// A page may send its own form and nothing else.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What a recipient reads who has withdrawn.
const WITHDRAWN: &str = "You will get no more of these mails.";

/// The token of a link.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Link {
    /// The token of the link.
    token: String,
}

/// The pages behind the links, for people without a console.
pub(super) fn pages(app: &App) -> Router<App> {
    // The console has pages of its own at these addresses, which post like these.
    #[cfg(feature = "console")]
    let (confirm_page, console_withdraw_page) = (super::console::index, super::console::index);
    #[cfg(not(feature = "console"))]
    let console_withdraw_page = withdraw_page;
    Router::new()
        .route("/console/confirm", get(confirm_page).post(confirm_by_form))
        .route("/console/withdraw", get(console_withdraw_page).post(withdraw_by_form))
        // For those who open the address of the header.
        .route("/auth/console/recipients/withdraw", get(withdraw_page))
        .route_layer(from_fn_with_state(app.clone(), authenticate::limit_by_address))
}

/// Agree to the emails of an account's rules.
///
/// The token is that of the link in a mail that asks for it. From then on, the rules of the account may write to the address.
#[utoipa::path(post, path = "/auth/console/recipients/confirm", tag = "console", request_body = ConfirmRecipientRequest, responses(
    (status = 204, description = "The recipient has agreed."),
    (status = 400, description = "`invalid_token` for a link that is unknown or was used already.", body = Error),
))]
pub(super) async fn confirm(
    State(app): State<App>,
    extract::Json(request): extract::Json<ConfirmRecipientRequest>,
) -> Result<StatusCode, Refusal> {
    app.service.actions.recipients.confirm(&request.token).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Withdraw from the emails of an account's rules.
///
/// The token is that of the link in each such mail; the mail's header `List-Unsubscribe` is this request. The body is ignored.
/// Withdrawing again changes nothing.
#[utoipa::path(post, path = "/auth/console/recipients/withdraw", tag = "console", params(Link), responses(
    (status = 204, description = "The recipient gets no more of these emails."),
    (status = 400, description = "`invalid_token` for a link that is unknown.", body = Error),
))]
pub(super) async fn withdraw(
    State(app): State<App>,
    extract::Query(link): extract::Query<Link>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let outcome = app.service.actions.recipients.withdraw(&link.token).await;
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepted.contains("text/html") {
        return Ok(outcome.map(|()| StatusCode::NO_CONTENT.into_response())?);
    }
    answer(outcome, WITHDRAWN)
}

#[cfg(not(feature = "console"))]
async fn confirm_page(extract::Query(link): extract::Query<Link>) -> Response {
    form(
        "Do you want these alerts?",
        "If you agree, the account that the mail names may send you its alerts.",
        &link,
        "Yes, send me these alerts",
    )
}

async fn confirm_by_form(
    State(app): State<App>,
    extract::Query(link): extract::Query<Link>,
) -> Result<Response, Refusal> {
    let outcome = app.service.actions.recipients.confirm(&link.token).await;
    answer(outcome, "Thank you. You will get the alerts. Every one of them has a link to end them.")
}

async fn withdraw_by_form(
    State(app): State<App>,
    extract::Query(link): extract::Query<Link>,
) -> Result<Response, Refusal> {
    answer(app.service.actions.recipients.withdraw(&link.token).await, WITHDRAWN)
}

async fn withdraw_page(extract::Query(link): extract::Query<Link>) -> Response {
    form(
        "Do you want no more mails?",
        "The account that the mail is from will not be able to send you alerts, nor ask you about them.",
        &link,
        "Send me no more mails",
    )
}

/// A page with the outcome; an outcome that is not the reader's fault is an error as usual.
fn answer(outcome: service::Result<()>, done: &str) -> Result<Response, Refusal> {
    match outcome {
        Ok(()) => Ok(page(StatusCode::OK, "Done", &format!("<p>{done}</p>"))),
        Err(error) if error.kind() == service::Kind::InvalidToken => {
            let sorry = "<p>This link is not valid, or was used already.</p>";
            Ok(page(StatusCode::BAD_REQUEST, "This link does not work", sorry))
        }
        Err(error) => Err(error.into()),
    }
}

/// A page whose button sends the link's token to the address of the page itself.
fn form(heading: &str, text: &str, link: &Link, button: &str) -> Response {
    let token = attribute(&link.token);
    let form = format!("<form method=\"post\" action=\"?token={token}\"><button>{button}</button></form>");
    page(StatusCode::OK, heading, &format!("<p>{text}</p>\n{form}"))
}

fn page(status: StatusCode, heading: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{heading}</title></head>\n\
         <body>\n<main>\n<h1>{heading}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    );
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (status, headers, text).into_response()
}

/// A token as a part of an attribute: what is no token becomes empty, and is refused when it is sent.
fn attribute(token: &str) -> &str {
    let is_token = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_token { token } else { "" }
}
