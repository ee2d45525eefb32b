//! `auspex objects`: what events are about, the answers, and how they came about.

use std::cell::Cell;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Call, Method, Response};
use serde_json::{Value, json};

use crate::cells;
use crate::context::{Common, Context, delete, get, post, send};
use crate::failure::Failure;
use crate::output::View;
use crate::paging::{Paging, print_warnings};
use crate::prompt;
use crate::table::{Table, left, right};
use crate::waiting::{self, Patience};

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List objects with their answers.
    List(List),
    /// Show the latest answers about an object.
    #[command(after_help = "Examples:
  auspex objects get seller/42
  auspex objects get seller/42 --wait 30s --json")]
    Get {
        /// The object's id.
        object: String,
        /// Wait for the analysis that is scheduled, and until every signal has an answer, at most this long: 30s, 5m.
        #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30s", require_equals = false)]
        wait: Option<Patience>,
    },
    /// Show what happened about an object, newest first.
    #[command(after_help = "Examples:
  auspex objects timeline seller/42
  auspex objects timeline seller/42 --kinds event,analysis --limit 5")]
    Timeline {
        /// The object's id.
        object: String,
        /// Only these kinds: event, analysis, firing, delivery, label, review.
        #[arg(long, value_name = "KIND,…")]
        kinds: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what every analysis of an object said, newest first.
    #[command(after_help = "Examples:
  auspex objects answers seller/42 --signal is_scammer")]
    Answers {
        /// The object's id.
        object: String,
        /// Only the answers to this signal.
        #[arg(long, value_name = "KEY")]
        signal: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show which events moved an answer, and how much. It is charged, up to 12 times as much as an analysis.
    #[command(after_help = "Examples:
  auspex objects explain seller/42 is_scammer --yes")]
    Explain {
        /// The object's id.
        object: String,
        /// The signal's key.
        signal: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Count objects.
    #[command(after_help = "Examples:
  auspex objects count
  auspex objects count -q 'is_scammer > 0.5'")]
    Count {
        /// Only objects that match: a part of an id or name, or a condition.
        #[arg(short, long)]
        q: Option<String>,
    },
    /// Schedule an analysis of an object.
    #[command(after_help = "Examples:
  auspex objects analyze seller/42")]
    Analyze {
        /// The object's id.
        object: String,
    },
    /// Delete an object and everything about it except its ledger entries.
    #[command(after_help = "Examples:
  auspex objects delete seller/42 --yes")]
    Delete {
        /// The object's id.
        object: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

/// Lists objects.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex objects list
  auspex objects list -q 'is_scammer > 0.5 and buyer_intent = browsing' --sort flagged
  auspex objects list -q seller --all --json")]
pub struct List {
    /// A part of an id or name, or a condition.
    #[arg(short, long)]
    q: Option<String>,
    /// recent, flagged or trust.
    #[arg(long, value_parser = ["recent", "flagged", "trust"])]
    sort: Option<String>,
    /// Refuse a condition of which a part cannot be used, instead of leaving it out with a warning.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    paging: Paging,
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match self {
            Self::List(list) => {
                let call = get(&["v1", "objects"])?
                    .query("q", list.q.as_ref())
                    .query("sort", list.sort.as_ref())
                    .query("strict", list.strict.then_some(true));
                list.paging.list(&context, call, "objects", objects_view).await
            }
            Self::Get { object, wait } => show_object(&context, object, *wait).await,
            Self::Timeline { object, kinds, paging } => {
                let call = get(&["v1", "objects", object, "timeline"])?.query("kinds", kinds.as_ref());
                paging.list(&context, call, "items", timeline_view).await
            }
            Self::Answers { object, signal, paging } => {
                let call = get(&["v1", "objects", object, "answers"])?.query("signal", signal.as_ref());
                paging.list(&context, call, "analyses", history_view).await
            }
            Self::Explain { object, signal, yes } => {
                let cost = "The analyzer reads its history several times, and each is charged.";
                prompt::confirm(&format!("Explain {signal} of {object}? {cost}"), *yes)?;
                let body = json!({"signal": signal});
                context
                    .show(send(Method::POST, &["v1", "objects", object, "explain"], &body)?, explain_view)
                    .await
            }
            Self::Count { q } => {
                warn_of_skipped(&context, q.as_ref()).await?;
                let show = |found: &Value| {
                    let more = if found["capped"] == json!(true) { " or more" } else { "" };
                    View::new().line(format!("{}{more}", found["count"]))
                };
                context.show(get(&["v1", "object_count"])?.query("q", q.as_ref()), show).await
            }
            Self::Analyze { object } => {
                let show = |_: &Value| View::new().line(format!("An analysis of {object} is scheduled."));
                context.show(post(&["v1", "objects", object, "analyze"])?.repeatable(), show).await
            }
            Self::Delete { object, yes } => {
                prompt::confirm(&format!("Delete {object} and everything about it?"), *yes)?;
                context.done(delete(&["v1", "objects", object])?, &format!("{object} is deleted.")).await
            }
        }
    }
}

/// Says what the service skips of a query. The list of objects says so, and any key that reads can ask it; counts and
/// distributions, which take the same queries, have no field for it.
pub(super) async fn warn_of_skipped(context: &Context, q: Option<&String>) -> Result<(), Failure> {
    if q.is_some() {
        let call = get(&["v1", "objects"])?.query("q", q).query("limit", Some(1));
        let (_, page) = context.fetch(call).await?;
        print_warnings(&page);
    }
    Ok(())
}

async fn show_object(context: &Context, object: &str, wait: Option<Patience>) -> Result<(), Failure> {
    let call = get(&["v1", "objects", object])?;
    let (response, found) = match wait {
        None => context.fetch(call).await?,
        Some(Patience(patience)) => wait_for_object(context, object, &call, patience).await?,
    };
    let view = View::new()
        .fields([
            ("object", cells::value(&found["object_id"])),
            ("type", cells::value(&found["object_type"])),
            ("name", cells::value(&found["display_name"])),
            ("events", cells::value(&found["event_count"])),
            ("pending", cells::value(&found["pending"])),
        ])
        .title("Answers")
        .table(answers_table(&found["analysis"], "key"));
    context.output.record(&response.body, view)
}

/// Waits until no analysis of an object is scheduled and every signal has an answer.
async fn wait_for_object(
    context: &Context,
    object: &str,
    call: &Call,
    patience: Duration,
) -> Result<(Response, Value), Failure> {
    let has_waited = Cell::new(false);
    let ask = async || {
        // First whether one is scheduled: its answers are written before it is not.
        let (_, state) = context.fetch(get(&["v1", "objects", object, "state"])?).await?;
        let is_scheduled = state["analysis_scheduled"] == json!(true);
        let (response, value) = context.fetch(call.clone()).await?;
        let has_all = value["pending"].as_array().is_none_or(Vec::is_empty);
        // Another node may still have the answers of before, for less than a second.
        let is_stale = has_waited.get() && response.header("x-cache") == Some("HIT");
        has_waited.set(has_waited.get() || is_scheduled);
        let is_over = json!(has_all && !is_scheduled && !is_stale);
        Ok(((response, value), is_over))
    };
    let what = format!("waiting for the answers about {object}");
    waiting::until(&what, patience, ask, |is_over| *is_over == json!(true)).await
}

/// A table of answers; `key` is the field with the signal's key.
pub(super) fn answers_table(answers: &Value, key: &str) -> Table {
    let answers = answers.as_array().cloned().unwrap_or_default();
    let columns = [left("SIGNAL"), left("TYPE"), right("ANSWER"), right("CONFIDENCE"), left("PROBABILITIES")];
    Table::of(columns, &answers, |answer| {
        [
            cells::value(&answer[key]),
            cells::value(&answer["type"]),
            cells::answer(answer),
            cells::decimal(&answer["confidence"], 2),
            probabilities(&answer["probabilities"]),
        ]
    })
}

fn probabilities(probabilities: &Value) -> cells::Cell {
    let parts = probabilities.as_object().into_iter().flatten();
    let parts = parts.map(|(option, share)| format!("{option} {:.2}", share.as_f64().unwrap_or(0.0)));
    cells::text(parts.collect::<Vec<_>>().join(", "))
}

/// Objects with a column for each signal that has an answer.
fn objects_view(objects: &[Value]) -> View {
    let mut keys: Vec<&str> = Vec::new();
    for answer in objects.iter().filter_map(|object| object["analysis"].as_array()).flatten() {
        if let Some(key) = answer["key"].as_str()
            && !keys.contains(&key)
        {
            keys.push(key);
        }
    }
    keys.sort_unstable();
    let columns = [left("OBJECT"), left("TYPE"), right("EVENTS"), right("SEEN")];
    let mut table = Table::new(columns.into_iter().chain(keys.iter().map(|key| right(key))));
    for object in objects {
        let answers = object["analysis"].as_array();
        let answer = |key: &&str| {
            let found = answers.into_iter().flatten().find(|answer| answer["key"] == **key);
            found.map_or_else(|| cells::text(""), cells::answer)
        };
        let first = [
            cells::value(&object["object_id"]),
            cells::value(&object["object_type"]),
            cells::value(&object["event_count"]),
            cells::time(&object["last_seen"]),
        ];
        table.row(first.into_iter().chain(keys.iter().map(answer)));
    }
    View::new().table(table)
}

fn timeline_view(items: &[Value]) -> View {
    View::new().table(Table::of([left("WHEN"), left("KIND"), left("WHAT")], items, |item| {
        let kind = item["kind"].as_str().unwrap_or_default();
        [cells::time(&item["at"]), cells::text(kind), cells::text(summary(kind, &item[kind]))]
    }))
}

/// One line about an item of a timeline.
fn summary(kind: &str, record: &Value) -> String {
    let field = |name: &str| cells::value(&record[name]).text(None);
    match kind {
        "event" if record["type"] == "message" => field("content"),
        "event" => field("name"),
        "analysis" => answers_line(&record["answers"]),
        "firing" => format!("{}: {} by {}", field("matched_when"), field("status"), field("action_type")),
        "delivery" => {
            format!("{}: {} after {} attempts", field("event_type"), field("status"), field("attempts"))
        }
        "label" => format!("{} is {}", field("signal"), field("value")),
        "review" => format!("{} in {}", field("status"), field("queue")),
        _ => record.to_string(),
    }
}

fn answers_line(answers: &Value) -> String {
    let answers = answers.as_array().into_iter().flatten();
    let parts = answers.map(|answer| {
        format!("{} {}", answer["signal"].as_str().unwrap_or_default(), cells::answer(answer).text(None))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn history_view(analyses: &[Value]) -> View {
    View::new().table(Table::of(
        [left("WHEN"), left("SOURCE"), left("MODEL"), left("ANSWERS")],
        analyses,
        |analysis| {
            [
                cells::time(&analysis["at"]),
                cells::value(&analysis["source"]),
                cells::value(&analysis["model"]),
                cells::text(answers_line(&analysis["answers"])),
            ]
        },
    ))
}

fn explain_view(explanation: &Value) -> View {
    let parts = explanation["parts"].as_array().cloned().unwrap_or_default();
    let table = Table::of([right("MOVED"), right("SEQ"), left("KIND"), left("WHAT")], &parts, |part| {
        let moved = part["moved"].as_f64().unwrap_or(0.0);
        [
            cells::text(format!("{moved:+.3}")),
            cells::value(&part["seq"]),
            cells::value(&part["kind"]),
            cells::value(&part["excerpt"]),
        ]
    });
    View::new()
        .fields([
            ("answer", cells::answer(&explanation["answer"])),
            ("method", cells::value(&explanation["method"])),
            ("cost", cells::micros(&explanation["cost_micros"])),
        ])
        .title("What moved it")
        .table(table)
}
