//! Exports.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use model::api::{Error, ExportFormat, ExportKind};
use serde::Deserialize;
use service::{Export, ExportQuery, Kind};
use tracing::{info, warn};
use utoipa::IntoParams;

use super::App;
use super::authenticate::Authenticated;
use super::connections::Stopping;
use super::envelope::Refusal;
use super::extract;

/// What to export, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportParameters {
    /// What to export. `ledger` needs a role that sees money, `audit` a signed-in admin or owner.
    #[param(inline)]
    what: ExportKind,
    /// How rows are written; `ndjson` if left out.
    #[param(inline)]
    format: Option<ExportFormat>,
    /// A date or a time: objects last seen, analyses concluded, labels given, events received, and entries and lines written
    /// since then.
    #[param(example = "2026-01-01")]
    from: Option<String>,
    /// A date, which is included, or a time, which is not: the same up to then.
    #[param(example = "2026-01-31")]
    to: Option<String>,
    /// The cursor of the row after which to go on; the other parameters, except `format`, must stay the same.
    cursor: Option<String>,
}

/// Export everything of one kind.
///
/// A stream of rows: a JSON object on each line, or CSV with a header line, which is left out after a `cursor`. Each row has its
/// `cursor`, in CSV in the last column. A connection that ends before the stream does is an export that is not complete: send the
/// request again with the cursor of the last row, and append. An export that takes longer than an hour (`AUSPEX_EXPORT_MAX_SECONDS`)
/// is broken off in the same way. Every row that was there when the export started is in it once.
#[utoipa::path(get, path = "/v1/export", tag = "exports", params(ExportParameters), responses(
    (status = 200, description = "The rows, until the stream ends.", content(
        (String = "application/x-ndjson"),
        (String = "text/csv"),
    )),
    (status = 400, description = "A parameter is invalid, or the cursor belongs to another export.", body = Error),
    (status = 403, description = "The role or the key may not export this.", body = Error),
    (status = 429, description = "Four exports of the account are running, or the rate limit is reached.", body = Error),
))]
pub(super) async fn export(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Extension(stopping): Extension<Stopping>,
    extract::Query(parameters): extract::Query<ExportParameters>,
) -> Result<Response, Refusal> {
    let ExportParameters { what, format, from, to, cursor } = parameters;
    let query = ExportQuery { what, format: format.unwrap_or_default(), from, to, cursor };
    let export = app.service.exports.start(caller, &query).await?;
    let (media_type, name) = (media_type(&export), file_name(&export));
    let mut response = Body::from_stream(rows(export, stopping)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

fn media_type(export: &Export) -> &'static str {
    match export.format() {
        ExportFormat::Ndjson => "application/x-ndjson",
        ExportFormat::Csv => "text/csv; charset=utf-8",
    }
}

fn file_name(export: &Export) -> String {
    format!("{}.{}", export.what().as_str(), export.format().as_str())
}

/// The bytes of an export. An error breaks the connection off, so that no client takes it for the end.
fn rows(export: Export, stopping: Stopping) -> impl stream::Stream<Item = Result<Vec<u8>, service::Error>> {
    stream::try_unfold((export, stopping), async |(mut export, stopping)| {
        let next = tokio::select! {
            biased;
            () = stopping.0.cancelled() => {
                Err(service::Error::new(Kind::NotReady, "the service is stopping"))
            }
            next = export.next() => next,
        };
        match next {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk, (export, stopping)))),
            Err(error) => {
                let (what, cause) = (export.what().as_str(), error.cause());
                if matches!(error.kind(), Kind::NotReady | Kind::Unauthorized | Kind::Forbidden) {
                    info!(what, cause, "an export was broken off: {error}");
                } else {
                    warn!(what, cause, "an export was broken off: {error}");
                }
                Err(error)
            }
        }
    })
}
