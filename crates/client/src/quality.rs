//! Labels, and how good the answers are by them.

use http::Method;
use model::api::{
    Calibration, CalibrationInput, CalibrationSwitched, EscalationInput, Label, LabelCreate, LabelInput,
    LabelList, LabelSource, LabelsAccepted, LabelsCreate, Signal, SignalEscalation, SignalQuality, Trial,
    TrialCreate, TrialEstimate, TrialList, TrialStarted,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Which labels to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelsQuery {
    /// Only labels about this signal.
    pub signal: Option<String>,
    /// Only labels about this object.
    pub object_id: Option<String>,
    /// Only labels that were given like this.
    pub source: Option<LabelSource>,
    /// The maximum number, 1 to 200; 50 if left out.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// What the figures of quality are about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QualityQuery {
    /// Only answers of this version of the signal.
    pub version: Option<i64>,
    /// Only labels from this time on, in RFC 3339.
    pub from: Option<String>,
    /// Only labels before this time, in RFC 3339.
    pub to: Option<String>,
    /// What a false yes costs; 1 if left out.
    pub cost_false_yes: Option<f64>,
    /// What a false no costs; 1 if left out.
    pub cost_false_no: Option<f64>,
}

impl Client {
    /// Says what is true about a signal of an object.
    pub async fn put_label(&self, object_id: &str, signal: &str, label: &LabelInput) -> Result<Label, Error> {
        let path = ["v1", "objects", object_id, "labels", signal];
        self.call(Call::new(Method::PUT, &path)?.json(label)?).await
    }

    /// Says what is true about many objects, up to 1,000 labels.
    pub async fn put_labels(&self, labels: &[LabelCreate]) -> Result<LabelsAccepted, Error> {
        let request = LabelsCreate { labels: labels.to_vec() };
        self.call(Call::new(Method::POST, &["v1", "labels"])?.json(&request)?.repeatable()).await
    }

    /// Returns a page of labels, newest first.
    pub async fn labels(&self, query: &LabelsQuery) -> Result<LabelList, Error> {
        let call = Call::new(Method::GET, &["v1", "labels"])?
            .query("signal", query.signal.as_ref())
            .query("object_id", query.object_id.as_ref())
            .query("source", query.source.map(LabelSource::as_str))
            .query("limit", query.limit)
            .query("cursor", query.cursor.as_ref());
        self.call(call).await
    }

    /// Withdraws a label.
    pub async fn delete_label(&self, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "labels", &id.to_string()])?).await
    }

    /// Returns how good the answers to a signal are, by its labels.
    pub async fn quality(&self, signal: &str, query: &QualityQuery) -> Result<SignalQuality, Error> {
        let call = Call::new(Method::GET, &["v1", "signals", signal, "quality"])?
            .query("version", query.version)
            .query("from", query.from.as_ref())
            .query("to", query.to.as_ref())
            .query("cost_false_yes", query.cost_false_yes)
            .query("cost_false_no", query.cost_false_no);
        self.call(call).await
    }

    /// Fits a calibration of a signal to its labels, without switching it on.
    pub async fn fit_calibration(&self, signal: &str) -> Result<Calibration, Error> {
        self.call(Call::new(Method::POST, &["v1", "signals", signal, "calibrations"])?).await
    }

    /// Switches a calibration on, or off with none.
    pub async fn set_calibration(
        &self,
        signal: &str,
        id: Option<Uuid>,
    ) -> Result<CalibrationSwitched, Error> {
        let call = Call::new(Method::PUT, &["v1", "signals", signal, "calibration"])?;
        self.call(call.json(&CalibrationInput { id })?).await
    }

    /// Returns which answers of a signal go to the second analyzer, and what that has cost today.
    pub async fn escalation(&self, signal: &str) -> Result<SignalEscalation, Error> {
        self.call(Call::new(Method::GET, &["v1", "signals", signal, "escalation"])?).await
    }

    /// Sets which answers of a signal go to the second analyzer.
    pub async fn set_escalation(
        &self,
        signal: &str,
        escalation: &EscalationInput,
    ) -> Result<SignalEscalation, Error> {
        let call = Call::new(Method::PUT, &["v1", "signals", signal, "escalation"])?;
        self.call(call.json(escalation)?).await
    }

    /// Starts a trial of another wording of a signal.
    pub async fn start_trial(&self, signal: &str, trial: &TrialCreate) -> Result<Trial, Error> {
        let request = TrialCreate { dry_run: None, ..trial.clone() };
        let call = Call::new(Method::POST, &["v1", "signals", signal, "trials"])?;
        let started: TrialStarted = self.call(call.json(&request)?).await?;
        Ok(started.trial)
    }

    /// Returns what a trial would cost.
    pub async fn estimate_trial(&self, signal: &str, trial: &TrialCreate) -> Result<TrialEstimate, Error> {
        let request = TrialCreate { dry_run: Some(true), ..trial.clone() };
        let call = Call::new(Method::POST, &["v1", "signals", signal, "trials"])?;
        self.call(call.json(&request)?.repeatable()).await
    }

    /// Returns a page of the trials of a signal, newest first, without their figures.
    pub async fn trials(&self, signal: &str, cursor: Option<&str>) -> Result<TrialList, Error> {
        let call = Call::new(Method::GET, &["v1", "signals", signal, "trials"])?;
        self.call(call.query("cursor", cursor)).await
    }

    /// Returns a trial with its figures so far.
    pub async fn trial(&self, signal: &str, id: Uuid) -> Result<Trial, Error> {
        self.call(Call::new(Method::GET, &["v1", "signals", signal, "trials", &id.to_string()])?).await
    }

    /// Stops a trial.
    pub async fn cancel_trial(&self, signal: &str, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "signals", signal, "trials", &id.to_string()])?).await
    }

    /// Makes the wording of a trial the signal's next version.
    pub async fn adopt_trial(&self, signal: &str, id: Uuid) -> Result<Signal, Error> {
        let path = ["v1", "signals", signal, "trials", &id.to_string(), "adopt"];
        self.call(Call::new(Method::POST, &path)?).await
    }
}
