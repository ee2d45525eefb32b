//! `auspex signals escalation`: which answers go to a second analyzer.

use clap::Args;
use client::Method;
use serde_json::{Value, json};

use super::about;
use crate::cells::{self, Cell};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::View;

/// Which answers are escalated; without a flag, they are shown.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex signals escalation is_scammer
  auspex signals escalation is_scammer --band 0.3 0.7
  auspex signals escalation buyer_intent --below 0.4
  auspex signals escalation is_scammer --off")]
pub struct Arguments {
    /// The signal's key.
    key: String,
    /// Yes/no signals: the lowest and the highest probability that is unsure.
    #[arg(long, num_args = 2, value_names = ["LOW", "HIGH"], group = "change")]
    band: Option<Vec<f64>>,
    /// Choices and scores: the confidence below which an answer is unsure.
    #[arg(long, value_name = "CONFIDENCE", group = "change")]
    below: Option<f64>,
    /// Fit it to the labels, so that of the answers that stay at most this share is wrong. Needs at least 50 labels.
    #[arg(long, value_name = "SHARE", group = "change")]
    target_error: Option<f64>,
    /// Escalate nothing.
    #[arg(long, group = "change")]
    off: bool,
}

impl Arguments {
    pub(super) async fn run(&self, context: &Context) -> Result<(), Failure> {
        let change = match (&self.band, self.below, self.target_error) {
            (Some(band), ..) => Some(json!({"band": band})),
            (None, Some(below), _) => Some(json!({"below": below})),
            (None, None, Some(target)) => Some(json!({"target_error": target})),
            (None, None, None) => self.off.then(|| json!({"band": null})),
        };
        let call = match change {
            Some(change) => about(Method::PUT, &self.key, &["escalation"])?.json(&change)?,
            None => about(Method::GET, &self.key, &["escalation"])?,
        };
        context.show(call, |escalation| View::new().fields(fields(escalation))).await
    }
}

fn fields(escalation: &Value) -> Vec<(&'static str, Cell)> {
    let escalated = match (escalation["band"].as_array(), &escalation["below"]) {
        (Some(band), _) if band.len() == 2 => format!("from {} to {}", band[0], band[1]),
        (_, Value::Number(below)) => format!("below a confidence of {below}"),
        _ => "none".to_owned(),
    };
    let mut fields = vec![("escalated", cells::text(escalated))];
    if let Some(model) = escalation["model"].as_str() {
        fields.push(("second model", cells::text(model)));
    }
    fields.push(("answers today", cells::value(&escalation["escalated_today"])));
    fields.push(("cost today", cells::micros(&escalation["cost_micros_today"])));
    if escalation["labels"].is_number() {
        fields.push(("labels", cells::value(&escalation["labels"])));
        fields.push(("share escalated", cells::figure(&escalation["share"])));
        if escalation["error"].is_object() {
            fields.push(("error of the others", cells::figure(&escalation["error"])));
        }
    }
    fields
}
