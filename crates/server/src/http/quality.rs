//! How good the answers to a signal are, and calibrations.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::Timestamp;
use model::api::{Calibration, CalibrationInput, CalibrationSwitched, Error, SignalQuality};
use serde::Deserialize;
use service::QualityQuery;
use utoipa::IntoParams;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which labels are compared, and what wrong answers cost.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct QualityParameters {
    /// Only answers of this version of the signal; all if left out.
    #[param(minimum = 1)]
    version: Option<i64>,
    /// Only labels given at this time or later, in RFC 3339.
    #[param(value_type = Option<Timestamp>, example = "2026-01-01T00:00:00Z")]
    from: Option<String>,
    /// Only labels given before this time, in RFC 3339.
    #[param(value_type = Option<Timestamp>, example = "2026-02-01T00:00:00Z")]
    to: Option<String>,
    /// `noul`: the cost of flagging an object that is labelled no; 1 if left out.
    #[param(value_type = Option<f64>, minimum = 0, maximum = 1_000_000_000)]
    cost_false_yes: Option<String>,
    /// `noul`: the cost of not flagging an object that is labelled yes; 1 if left out.
    #[param(value_type = Option<f64>, minimum = 0, maximum = 1_000_000_000)]
    cost_false_no: Option<String>,
    /// `versions` and `escalation`, separated by commas: what their own routes respond with. Escalation needs an admin, an owner or an
    /// API key.
    #[param(example = "versions")]
    include: Option<String>,
}

/// Compare a signal's labels with its answers.
///
/// Each label that counts is compared with the answer that stood when it was given; at most the newest 50,000. A figure has
/// a 95 % interval. Below 10 labels there are none, and `needs` says how many more labels they need.
#[utoipa::path(get, path = "/v1/signals/{key}/quality", tag = "quality",
    params(("key" = String, Path, description = "The signal's key."), QualityParameters), responses(
    (status = 200, body = SignalQuality),
    (status = 400, description = "A parameter is invalid.", body = Error),
    (status = 403, description = "`include` names what the caller may not read.", body = Error),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn report(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Query(parameters): extract::Query<QualityParameters>,
) -> Result<Json<SignalQuality>, Refusal> {
    let known = [("versions", "/v1/signals/{key}/versions"), ("escalation", "/v1/signals/{key}/escalation")];
    let [versions, escalation] = extract::included(&caller, parameters.include.as_deref(), known)?;
    let refused = |name: &str, reason: &str| service::Error::bad_request(format!("{name}: {reason}"));
    let time = |name: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(str::parse::<Timestamp>).transpose();
        parsed.map_err(|_| refused(name, "it must be a time such as 2026-01-31T12:00:00Z"))
    };
    let number = |name: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(str::parse::<f64>).transpose();
        parsed.map_err(|_| refused(name, "it must be a number"))
    };
    let query = QualityQuery {
        version: parameters.version,
        from: time("from", &parameters.from)?,
        to: time("to", &parameters.to)?,
        cost_false_yes: number("cost_false_yes", &parameters.cost_false_yes)?,
        cost_false_no: number("cost_false_no", &parameters.cost_false_no)?,
    };
    let mut report = app.service.quality.reports.report(caller.tenant, &key, query).await?;
    if versions {
        report.versions = Some(app.service.analysis.signals.versions(caller.tenant, &key).await?.versions);
    }
    if escalation {
        report.escalation = Some(app.service.analysis.escalations.get(caller.tenant, &key).await?);
    }
    Ok(Json(report))
}

/// Fit a calibration to a signal's labels.
///
/// Fitted to the analyzer's own answers to the present wording, and judged by cross-validation. It is stored, but not
/// switched on.
#[utoipa::path(post, path = "/v1/signals/{key}/calibrations", tag = "quality",
    params(("key" = String, Path, description = "The signal's key.")), responses(
    (status = 201, description = "Fitted.", body = Calibration),
    (status = 404, description = "There is no such signal.", body = Error),
    (status = 409, description = "There are fewer than 50 labels, or fewer than 10 of a side.", body = Error),
))]
pub(super) async fn fit_calibration(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<(StatusCode, Json<Calibration>), Refusal> {
    Ok((StatusCode::CREATED, Json(app.service.quality.calibrations.fit(caller.tenant, &key).await?)))
}

/// Switch a signal's calibration on or off.
///
/// This makes a new version of the signal: answers from now on are calibrated, or the analyzer's own. Thresholds of rules
/// then mean something else; no rule is changed.
#[utoipa::path(put, path = "/v1/signals/{key}/calibration", tag = "quality",
    params(("key" = String, Path, description = "The signal's key.")), request_body = CalibrationInput, responses(
    (status = 200, body = CalibrationSwitched),
    (status = 404, description = "There is no such signal, or it has no such calibration.", body = Error),
    (status = 409, description = "The calibration was fitted to another wording of the signal.", body = Error),
))]
pub(super) async fn set_calibration(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Json(input): extract::Json<CalibrationInput>,
) -> Result<Json<CalibrationSwitched>, Refusal> {
    Ok(Json(app.service.analysis.signals.set_calibration(caller, &key, input.id).await?))
}
