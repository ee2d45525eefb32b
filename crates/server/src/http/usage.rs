//! Usage.

use axum::Json;
use axum::extract::State;
use model::Date;
use model::api::{Error, Usage};
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// The range of days in UTC, both ends included.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageParameters {
    /// The first day; 29 days before `to` if left out.
    #[param(value_type = Option<Date>, example = "2026-01-01")]
    from: Option<String>,
    /// The last day; today if left out. A range has at most 366 days.
    #[param(value_type = Option<Date>, example = "2026-01-31")]
    to: Option<String>,
}

/// Read analyses and spend over a range of days.
///
/// UTC days, both ends included, at most 366; the last 30 if left out. Days without analyses are included, with zeros.
#[utoipa::path(get, path = "/v1/usage", tag = "billing", params(UsageParameters), responses(
    (status = 200, body = Usage),
    (status = 400, description = "A date is invalid, or the range is empty or too long.", body = Error),
))]
pub(super) async fn usage(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<UsageParameters>,
) -> Result<Json<Usage>, Refusal> {
    let day = |name: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(str::parse::<Date>).transpose();
        parsed.map_err(|reason| service::Error::bad_request(format!("{name}: {reason}")))
    };
    let (from, to) = (day("from", &parameters.from)?, day("to", &parameters.to)?);
    Ok(Json(app.service.billing.usage.report(caller.tenant, from, to).await?))
}
