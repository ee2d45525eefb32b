//! `auspex playground`: answers about events that are not recorded.

use clap::Args;
use client::Method;
use serde_json::Value;

use super::events::EventArguments;
use super::objects::answers_table;
use crate::cells;
use crate::context::{Common, Context, send};
use crate::failure::Failure;
use crate::output::View;

/// Analyzes events on their own.
#[derive(Args)]
#[command(after_help = "It is charged like an analysis; nothing is recorded and no rule fires.

Examples:
  auspex playground --message 'Pay me by gift card' --signals is_scammer
  auspex playground -d '[{\"type\": \"event\", \"name\": \"signup\"}]'")]
pub struct Arguments {
    #[command(flatten)]
    events: EventArguments,
    /// Ask only these signals.
    #[arg(long, value_delimiter = ',', value_name = "KEY,…")]
    signals: Option<Vec<String>>,
}

impl Arguments {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let mut request = self.events.request()?;
        request.set_if("signals", self.signals.as_ref())?;
        let show = |verdict: &Value| {
            View::new().table(answers_table(&verdict["answers"], "signal")).title("Verdict").fields([
                ("model", cells::value(&verdict["model"])),
                ("cost", cells::micros(&verdict["cost_micros"])),
                ("took", cells::text(format!("{} ms", verdict["latency_ms"]))),
            ])
        };
        Context::new(common)?.show(send(Method::POST, &["v1", "playground"], &request)?, show).await
    }
}
