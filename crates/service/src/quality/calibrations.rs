//! Calibrations: fits the raw answers of the present wording to the labels. `analysis/calibration.rs` switches them on.

use model::api::{Calibration, CalibrationMethod};
use model::quality::calibration::{self, Fitted};
use model::{AnswerValue, Question, SignalType, TenantId};
use serde_json::json;
use store::analysis::signals::Signal;
use store::analysis::{signal_versions, signals};
use store::quality::calibrations;
use store::quality::labels::AnsweredLabel;
use store::{Conn, Store};

use crate::objects::answers::{no_such_signal, question};
use crate::quality::Computing;
use crate::quality::labelled::{self, Comparison, classes};
use crate::runtime::{Clock, Error, Kind, Random, Result, audit, internal};

/// Fits calibrations.
pub struct Calibrations {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) computing: Computing,
}

impl Calibrations {
    /// Fits a calibration of a signal to its labels. It is stored, and not switched on.
    pub async fn fit(&self, tenant: TenantId, key: &str) -> Result<Calibration> {
        let (signal, versions, labels) = self
            .store
            .read("labels_to_fit", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let versions = signal_versions::of_key(conn, tenant, key).await?;
                let is_same = |version: &signal_versions::SignalVersion| {
                    version.kind == signal.kind
                        && version.instructions == signal.instructions
                        && version.criteria == signal.criteria
                };
                let versions: Vec<i64> =
                    versions.into_iter().filter(is_same).map(|version| version.version).collect();
                let labels = labelled::read(conn, tenant, signal.signal_id).await?;
                Ok::<_, Error>((signal, versions, labels))
            })
            .await?;
        let question = question(&signal)?;
        let (count, fitted) = self.computing.run(move || fit(&question, labels, &versions)).await?;
        self.keep(tenant, &signal, count, fitted).await
    }

    async fn keep(
        &self,
        tenant: TenantId,
        signal: &Signal,
        labels: i64,
        fitted: Fitted,
    ) -> Result<Calibration> {
        let now = self.clock.now();
        let row = calibrations::Calibration {
            calibration_id: self.random.id(now),
            signal_id: signal.signal_id,
            version: signal.version,
            // Serializing finite numbers to JSON cannot fail.
            calibrator: serde_json::to_string(&fitted.calibrator).map_err(internal)?,
            labels,
            created_at: now,
        };
        self.store
            .write("keep_calibration", async |conn: &mut Conn| {
                audit::note(
                    tenant,
                    &signal.key,
                    audit::NONE,
                    Some(&json!({"calibration": row.calibration_id})),
                );
                calibrations::insert(conn, tenant, &signal.key, &row).await
            })
            .await?;
        let method: CalibrationMethod = fitted.calibrator.method();
        let (before, after) = (fitted.before, fitted.after);
        Ok(Calibration { id: row.calibration_id, method, labels, before, after })
    }
}

/// Fits the raw answers of these versions to their labels; also says how many there are.
fn fit(question: &Question, labels: Vec<AnsweredLabel>, versions: &[i64]) -> Result<(i64, Fitted)> {
    let comparisons: Vec<Comparison> = labels.into_iter().map(Comparison::parse).collect::<Result<_>>()?;
    let present = comparisons.iter().filter(|label| versions.contains(&label.answer.version));
    let (count, fitted) = if question.kind == SignalType::Noul {
        let labels: Vec<_> = present.filter_map(|label| label.yes_no(&raw(label))).collect();
        (labels.len(), calibration::fit_yes_no(&labels))
    } else {
        let mut classes = classes(question);
        let labels: Vec<_> = present.filter_map(|label| label.class(&mut classes, &raw(label))).collect();
        (labels.len(), calibration::fit_classes(&labels))
    };
    let fitted = fitted.ok_or_else(|| {
        let sides = if question.kind == SignalType::Noul { ", 10 of them true and 10 false" } else { "" };
        let reason = format!(
            "a calibration needs at least {} labels{sides}, of objects with an answer of the present wording; there are {count}",
            calibration::MIN_LABELS
        );
        Error::new(Kind::NotEnoughLabels, reason)
    })?;
    Ok((i64::try_from(count).unwrap_or(i64::MAX), fitted))
}

/// The first analyzer's own answer: answers of two models are not mixed.
fn raw(label: &Comparison) -> AnswerValue {
    label.answer.first_own_value()
}
