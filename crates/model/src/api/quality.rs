//! Records of how good answers are: figures, and what they compare.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::{Figure, SignalEscalation, SignalVersion};
use crate::{Date, SignalType};

/// How good the answers to a signal are: its labels, compared with the answers that stood when they were given.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalQuality {
    /// The signal's key.
    pub signal: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// The version whose answers are compared; left out for all versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<i64>,
    /// The number of labels compared: the latest of each object that had an answer.
    pub labels: i64,
    /// How many more labels the figures need; left out once there are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub needs: Option<i64>,
    /// Whether fewer than 30 of the labels are about objects drawn at random.
    pub selected: bool,
    /// What that means for the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub selected_note: Option<String>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// `noul`: how often answers of about this probability were right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reliability: Option<Vec<ReliabilityBin>>,
    /// `noul`: what would be flagged at each threshold from 0.05 to 0.95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub thresholds: Option<Vec<ThresholdQuality>>,
    /// `noul`: the threshold at which wrong answers cost least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 0.65)]
    pub best_threshold: Option<f64>,
    /// `choice` and `score`: the number of labels by what is true and what was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confusion: Option<IndexMap<String, IndexMap<String, i64>>>,
    /// The same by the week in which the labels were given, oldest first.
    pub by_week: Vec<WeekQuality>,
    /// The signal's newest 100 versions, newest first; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub versions: Option<Vec<SignalVersion>>,
    /// Which answers to it are escalated; if `include` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub escalation: Option<SignalEscalation>,
}

/// The labels of a week, compared with answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WeekQuality {
    /// The Monday on which the week begins, in UTC.
    pub week: Date,
    /// The number of labels compared.
    pub labels: i64,
    /// The figures, from 10 labels on.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of answers compared with labels. Only those of the signal's type are set, and none below 10 labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// `noul`: how many labels say yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub yes: Option<i64>,
    /// The share of right answers; for `noul`, yes from 0.5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub accuracy: Option<Figure>,
    /// `noul`: how often an object labelled yes has a higher answer than one labelled no. Left out if all labels are the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub auc: Option<Figure>,
    /// `noul`: the mean squared difference between the answer and the label, 1 or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub brier: Option<Figure>,
    /// How far probabilities are from the shares that came true, over ten equal bins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub calibration_error: Option<Figure>,
    /// `choice` and `score`: the mean of the F1 of each option or level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub macro_f1: Option<Figure>,
    /// `score`: the mean number of levels between the level answered and the true one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mean_distance: Option<Figure>,
}

/// The answers of one of ten equal ranges of probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReliabilityBin {
    /// Where the range begins.
    pub from: f64,
    /// Where it ends; only the last range includes its end.
    pub to: f64,
    /// The mean answer; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mean_answer: Option<f64>,
    /// The share of labels that say yes; left out if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub share_yes: Option<Figure>,
    /// The number of answers.
    pub count: i64,
}

/// What a rule with this threshold would flag.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThresholdQuality {
    /// Answers of this probability or more are flagged.
    pub threshold: f64,
    /// The share of flagged objects that are labelled yes; left out if none is flagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub precision: Option<Figure>,
    /// The share of objects labelled yes that are flagged; left out if none is labelled yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recall: Option<Figure>,
    /// The share of all objects that is flagged.
    pub flagged: Figure,
}

/// How much better proposed answers are than the present ones: each figure is proposed minus present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QualityDifference {
    /// The difference of the share of right answers.
    pub accuracy: Figure,
    /// `noul`: the difference of the AUC; left out if all labels are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub auc: Option<Figure>,
    /// The difference of the Brier score: below 0 is better.
    pub brier: Figure,
}

/// How a calibration maps probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CalibrationMethod {
    /// A logistic curve over the log-odds.
    Platt,
    /// A non-decreasing curve through averages of neighbouring answers.
    Isotonic,
    /// One exponent for all probabilities.
    Temperature,
}

/// How good answers are before or after a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalibrationQuality {
    /// The mean squared distance of the probabilities from the labels.
    pub brier: Figure,
    /// How far probabilities are from the shares that came true.
    pub calibration_error: Figure,
}

/// A calibration that was fitted to labels. It is not switched on by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Calibration {
    /// Its id.
    pub id: Uuid,
    /// How it maps probabilities.
    pub method: CalibrationMethod,
    /// The number of labels that it was fitted to.
    pub labels: i64,
    /// The raw answers, compared with the labels.
    pub before: CalibrationQuality,
    /// Answers calibrated by cross-validation, compared with the labels.
    pub after: CalibrationQuality,
}

/// Which calibration of a signal is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalibrationInput {
    /// The id of a calibration, or null for none. Required.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required = true)]
    pub id: Option<Uuid>,
}

/// The signal after its calibration was switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalibrationSwitched {
    /// The version of the signal from now on.
    #[schema(minimum = 1)]
    pub version: i64,
    /// How many enabled rules in mode `live` compare the signal: their thresholds now mean something else.
    pub live_rules: i64,
}
