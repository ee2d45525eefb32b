//! `auspex signals quality` and `calibration`: how good the answers are by the labels, and fitting them.

use clap::{Args, Subcommand};
use client::Method;
use serde_json::{Value, json};

use super::about;
use crate::cells::{self, Cell};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::View;
use crate::prompt;
use crate::table::{Table, left, right};

/// What the figures are about.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex signals quality is_scammer
  auspex signals quality is_scammer --from 2026-01-01T00:00:00Z --cost-false-no 5")]
pub struct Arguments {
    /// The signal's key.
    key: String,
    /// Only answers of this version.
    #[arg(long)]
    version: Option<u32>,
    /// Only labels from this time on, in RFC 3339.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only labels before this time, in RFC 3339.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// What a false yes costs; 1 if left out.
    #[arg(long, value_name = "COST")]
    cost_false_yes: Option<f64>,
    /// What a false no costs; 1 if left out.
    #[arg(long, value_name = "COST")]
    cost_false_no: Option<f64>,
}

/// Calibrations.
#[derive(Subcommand)]
pub enum Calibration {
    /// Fit the answers to the labels, without switching it on. Needs at least 50 labels.
    #[command(after_help = "Examples:
  auspex signals calibration fit is_scammer")]
    Fit {
        /// The signal's key.
        key: String,
    },
    /// Switch a calibration on, as the signal's next version. Thresholds of rules may need to move.
    #[command(after_help = "Examples:
  auspex signals calibration on is_scammer \"$CALIBRATION\" --yes")]
    On {
        /// The signal's key.
        key: String,
        /// The calibration's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Switch calibration off, as the signal's next version.
    #[command(after_help = "Examples:
  auspex signals calibration off is_scammer --yes")]
    Off {
        /// The signal's key.
        key: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

impl Arguments {
    pub(super) async fn run(&self, context: &Context) -> Result<(), Failure> {
        let call = about(Method::GET, &self.key, &["quality"])?
            .query("version", self.version)
            .query("from", self.from.as_ref())
            .query("to", self.to.as_ref())
            .query("cost_false_yes", self.cost_false_yes)
            .query("cost_false_no", self.cost_false_no);
        context.show(call, |quality| View::new().fields(figures(quality)).table_if(thresholds(quality))).await
    }
}

/// The figures that a record of quality has.
pub(super) fn figures(quality: &Value) -> Vec<(&'static str, Cell)> {
    let mut fields = vec![("labels", cells::value(&quality["labels"]))];
    if let Some(needs) = quality["needs"].as_u64().filter(|needs| *needs > 0) {
        fields.push(("needs", cells::text(format!("{needs} more labels"))));
    }
    for (name, key) in [
        ("accuracy", "accuracy"),
        ("AUC", "auc"),
        ("Brier score", "brier"),
        ("calibration error", "calibration_error"),
        ("macro F1", "macro_f1"),
        ("mean distance", "mean_distance"),
    ] {
        if quality[key].is_object() {
            fields.push((name, cells::figure(&quality[key])));
        }
    }
    if quality["best_threshold"].is_number() {
        fields.push(("best threshold", cells::decimal(&quality["best_threshold"], 2)));
    }
    if let Some(note) = quality["selected_note"].as_str() {
        fields.push(("note", cells::text(note)));
    }
    fields
}

fn thresholds(quality: &Value) -> Option<Table> {
    let thresholds = quality["thresholds"].as_array().filter(|thresholds| !thresholds.is_empty())?;
    let columns = [right("THRESHOLD"), left("PRECISION"), left("RECALL"), left("FLAGGED")];
    Some(Table::of(columns, thresholds, |row| {
        [
            cells::decimal(&row["threshold"], 2),
            cells::figure(&row["precision"]),
            cells::figure(&row["recall"]),
            cells::figure(&row["flagged"]),
        ]
    }))
}

impl Calibration {
    pub(super) async fn run(&self, context: &Context) -> Result<(), Failure> {
        let (key, id, yes) = match self {
            Self::Fit { key } => {
                return context.show(about(Method::POST, key, &["calibrations"])?, fit_view).await;
            }
            Self::On { key, id, yes } => (key, json!(id), *yes),
            Self::Off { key, yes } => (key, Value::Null, *yes),
        };
        prompt::confirm(
            &format!("Change the calibration of {key}? Its answers move against the thresholds of rules."),
            yes,
        )?;
        let call = about(Method::PUT, key, &["calibration"])?.json(&json!({"id": id}))?;
        let show = |switched: &Value| {
            let (version, rules) = (&switched["version"], &switched["live_rules"]);
            View::new().line(format!("{key} is at version {version}; {rules} live rules use it."))
        };
        context.show(call, show).await
    }
}

fn fit_view(calibration: &Value) -> View {
    View::new()
        .fields([
            ("id", cells::id(&calibration["id"])),
            ("method", cells::value(&calibration["method"])),
            ("labels", cells::value(&calibration["labels"])),
            ("Brier before", cells::figure(&calibration["before"]["brier"])),
            ("Brier after", cells::figure(&calibration["after"]["brier"])),
            ("error before", cells::figure(&calibration["before"]["calibration_error"])),
            ("error after", cells::figure(&calibration["after"]["calibration_error"])),
        ])
        .line("Switch it on with: auspex signals calibration on KEY ID")
}
