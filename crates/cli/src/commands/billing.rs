//! `auspex billing` and `auspex usage`: money and analyses.

use clap::{Args, Subcommand};
use client::Method;
use serde_json::{Value, json};

use crate::cells;
use crate::context::{Common, Context, get, send};
use crate::failure::Failure;
use crate::output::View;
use crate::paging::Paging;
use crate::table::{Table, left, right};

/// The balance, or more about money.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex billing
  auspex billing --json")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

/// More about money.
#[derive(Subcommand)]
enum Command {
    /// List the entries of the ledger, newest first.
    #[command(after_help = "Examples:
  auspex billing ledger --limit 10
  auspex billing ledger --type credit --all --json")]
    Ledger {
        /// credit or charge.
        #[arg(long = "type", value_parser = ["credit", "charge"])]
        kind: Option<String>,
        /// Show a bulk run as one entry.
        #[arg(long)]
        grouped: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Open a checkout for a top-up by card, and print where to pay.
    #[command(after_help = "Examples:
  auspex billing topup 2500")]
    Topup {
        /// The amount in cents.
        amount_cents: i64,
    },
}

/// The days to show.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex usage
  auspex usage --from 2026-01-01 --to 2026-01-31 --json")]
pub struct UsageArguments {
    /// The first day, `2026-01-31`; by default, the last 30 days.
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// The last day.
    #[arg(long, value_name = "DATE")]
    to: Option<String>,
}

impl Arguments {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match &self.command {
            None => context.show(get(&["v1", "billing"])?, balance_view).await,
            Some(Command::Ledger { kind, grouped, paging }) => {
                let call = get(&["v1", "billing", "ledger"])?
                    .query("type", kind.as_ref())
                    .query("group", grouped.then_some("batch"));
                paging.list(&context, call, "entries", ledger_view).await
            }
            Some(Command::Topup { amount_cents }) => {
                let call = send(
                    Method::POST,
                    &["v1", "billing", "checkout"],
                    &json!({"amount_cents": amount_cents}),
                )?;
                context
                    .show(call, |checkout| View::new().line(cells::value(&checkout["url"]).text(None)))
                    .await
            }
        }
    }
}

fn balance_view(balance: &Value) -> View {
    View::new().fields([
        ("balance", cells::cents(&balance["balance_cents"])),
        ("metering", cells::value(&balance["metering_enabled"])),
        ("when empty", cells::value(&balance["enforcement"])),
        ("warning below", cells::cents(&balance["low_balance_threshold_cents"])),
        ("top-up by card", cells::value(&balance["self_serve_topup"])),
    ])
}

fn ledger_view(entries: &[Value]) -> View {
    let columns = [
        left("WHEN"),
        right("AMOUNT"),
        right("BALANCE"),
        left("REASON"),
        left("OBJECT"),
        left("MODEL"),
        left("NOTE"),
    ];
    View::new().table(Table::of(columns, entries, |entry| {
        [
            cells::time(&entry["created_at"]),
            cells::micros(&entry["delta_micros"]),
            cells::micros(&entry["balance_after_micros"]),
            cells::value(&entry["reason"]),
            cells::value(&entry["object_id"]),
            cells::value(&entry["model"]),
            cells::value(&entry["note"]),
        ]
    }))
}

impl UsageArguments {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let call = get(&["v1", "usage"])?.query("from", self.from.as_ref()).query("to", self.to.as_ref());
        Context::new(common)?.show(call, usage_view).await
    }
}

fn usage_view(usage: &Value) -> View {
    let list = |name: &str| usage[name].as_array().cloned().unwrap_or_default();
    let active: Vec<Value> =
        list("series").into_iter().filter(|day| day["analyses"].as_u64() > Some(0)).collect();
    let days = Table::of([left("DAY"), right("ANALYSES"), right("SPEND")], &active, |day| {
        [cells::value(&day["date"]), cells::value(&day["analyses"]), cells::micros(&day["spend_micros"])]
    });
    let models = Table::of([left("MODEL"), right("ANALYSES"), right("SPEND")], &list("by_model"), |model| {
        [cells::value(&model["key"]), cells::value(&model["analyses"]), cells::micros(&model["spend_micros"])]
    });
    let view = View::new().fields([
        ("from", cells::value(&usage["from"])),
        ("to", cells::value(&usage["to"])),
        ("analyses", cells::value(&usage["totals"]["analyses"])),
        ("spend", cells::micros(&usage["totals"]["spend_micros"])),
        ("balance", cells::cents(&usage["balance_cents"])),
        ("days left", cells::decimal(&usage["runway_days"], 0)),
        ("stored", cells::text(format!("{} bytes", usage["storage_bytes"]))),
    ]);
    if active.is_empty() { view } else { view.title("By day").table(days).title("By model").table(models) }
}
