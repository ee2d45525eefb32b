//! `auspex settings`: what an account decides for all its objects.

use clap::{Args, Subcommand};
use client::Method;
use serde_json::{Map, Value, json};

use crate::cells;
use crate::context::{Common, Context, get, send};
use crate::data::Data;
use crate::failure::Failure;
use crate::output::View;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Show the settings.
    #[command(after_help = "Examples:
  auspex settings get")]
    Get,
    /// Change settings; what is left out stays.
    Set(Set),
}

/// The settings to change.
#[derive(Args)]
#[group(required = true, multiple = true)]
#[command(after_help = "Examples:
  auspex settings set --event-retention-days 90
  auspex settings set --event-retention forever --auto-backfill-signals false
  auspex settings set --audit-rate-pct 2 --audit-queue audit
  auspex settings set -d '{\"auto_backfill_signals\": true}'")]
pub struct Set {
    /// Whether a new signal is asked about existing objects at once.
    #[arg(long, value_name = "BOOL")]
    auto_backfill_signals: Option<bool>,
    /// How long raw events are kept: forever, `after_analysis` (until an analysis has read them), or days.
    #[arg(long, value_name = "KEPT", value_parser = ["forever", "days", "after_analysis"])]
    event_retention: Option<String>,
    /// For how many days raw events are kept, 1 to 3650.
    #[arg(long, value_name = "DAYS")]
    event_retention_days: Option<u32>,
    /// The share of analyzed objects that is drawn at random for a review, 0 to 10 percent.
    #[arg(long, value_name = "PERCENT")]
    audit_rate_pct: Option<f64>,
    /// The queue of those reviews.
    #[arg(long, value_name = "QUEUE")]
    audit_queue: Option<String>,
    /// The change: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON", conflicts_with_all = ["auto_backfill_signals", "event_retention",
        "event_retention_days", "audit_rate_pct", "audit_queue"])]
    data: Option<Data>,
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        let path = ["v1", "settings"];
        let call = match self {
            Self::Get => get(&path)?,
            Self::Set(Set { data: Some(data), .. }) => send(Method::PATCH, &path, data.raw())?,
            Self::Set(set) => send(Method::PATCH, &path, &set.change())?,
        };
        context.show(call, settings_view).await
    }
}

impl Set {
    /// The fields that were given. A number of days says that events are kept for days.
    fn change(&self) -> Map<String, Value> {
        let days = self.event_retention_days.map(|_| "days".to_owned());
        let fields = [
            ("auto_backfill_signals", json!(self.auto_backfill_signals)),
            ("event_retention", json!(self.event_retention.clone().or(days))),
            ("event_retention_days", json!(self.event_retention_days)),
            ("audit_rate_pct", json!(self.audit_rate_pct)),
            ("audit_queue", json!(self.audit_queue)),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn settings_view(settings: &Value) -> View {
    let kept = match (settings["event_retention"].as_str(), settings["event_retention_days"].as_i64()) {
        (Some("days"), Some(days)) => cells::text(format!("for {days} days")),
        (Some("after_analysis"), _) => cells::text("until an analysis has read them"),
        _ => cells::value(&settings["event_retention"]),
    };
    View::new().fields([
        ("new signals asked at once", cells::value(&settings["auto_backfill_signals"])),
        ("events kept", kept),
        ("drawn for reviews", cells::text(format!("{} %", settings["audit_rate_pct"]))),
        ("queue of these", cells::value(&settings["audit_queue"])),
    ])
}
