//! `auspex signals`: the questions that are asked about every object, how good their answers are, and other wordings of them.

mod escalation;
mod quality;
mod trials;

use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Call, Method};
use serde_json::{Map, Value, json};

use super::objects::warn_of_skipped;
use crate::cells;
use crate::context::{Common, Context, delete, get, post, send};
use crate::data::{Data, Fields, json_or_text};
use crate::failure::Failure;
use crate::output::View;
use crate::paging::rows;
use crate::prompt;
use crate::table::{Table, left, right};
use crate::waiting;

/// Longer than any backfill or trial that somebody waits for.
const LONG: Duration = Duration::from_hours(24);

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List all signals.
    #[command(after_help = "Examples:
  auspex signals list")]
    List,
    /// Show a signal.
    #[command(after_help = "Examples:
  auspex signals get is_scammer")]
    Get {
        /// The signal's key.
        key: String,
    },
    /// Create a signal, or replace its definition.
    Set(Set),
    /// Ask a signal again from each object's next analysis on.
    #[command(after_help = "Examples:
  auspex signals enable is_scammer")]
    Enable {
        /// The signal's key.
        key: String,
    },
    /// Stop asking a signal; its answers stay.
    #[command(after_help = "Examples:
  auspex signals disable is_scammer")]
    Disable {
        /// The signal's key.
        key: String,
    },
    /// Delete a signal with its answers, labels and trials.
    #[command(after_help = "Examples:
  auspex signals delete is_scammer --yes")]
    Delete {
        /// The signal's key.
        key: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Ask a signal about all objects without an answer to it. Each analysis is charged.
    #[command(after_help = "Examples:
  auspex signals backfill is_scammer --dry-run
  auspex signals backfill is_scammer --yes --wait")]
    Backfill {
        /// The signal's key.
        key: String,
        /// Only show what it would cost, and how the latest one is doing.
        #[arg(long)]
        dry_run: bool,
        /// Wait for its end.
        #[arg(long)]
        wait: bool,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// List the versions of a signal's definition.
    #[command(after_help = "Examples:
  auspex signals versions is_scammer")]
    Versions {
        /// The signal's key.
        key: String,
    },
    /// Make an earlier version of a signal its next one.
    #[command(after_help = "Examples:
  auspex signals restore is_scammer 1")]
    Restore {
        /// The signal's key.
        key: String,
        /// The version.
        version: u32,
    },
    /// Show how the present answers are distributed.
    #[command(after_help = "Examples:
  auspex signals distribution is_scammer -q seller")]
    Distribution {
        /// The signal's key.
        key: String,
        /// Only objects that match: a part of an id or name, or a condition.
        #[arg(short, long)]
        q: Option<String>,
    },
    /// Show how good the answers to a signal are, by its labels.
    Quality(quality::Arguments),
    /// Fit the answers to the labels, and switch that on or off.
    #[command(subcommand)]
    Calibration(quality::Calibration),
    /// Say which answers go to a second analyzer, and show what that has cost today.
    Escalation(escalation::Arguments),
    /// Try another wording on objects that are there.
    #[command(subcommand)]
    Trial(trials::Command),
}

/// Defines a signal.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex signals set off_platform --type noul --instructions 'Does the seller ask for payment outside of the platform?'
  auspex signals set mood --type choice --instructions 'How does the buyer sound?' --criteria 'calm=patient and polite' --criteria angry
  auspex signals set urgency -d '{\"type\": \"score\", \"instructions\": \"How urgent is it?\", \"criteria\": [\"not\", \"very\"]}'")]
pub struct Set {
    /// The signal's key.
    key: String,
    /// noul (the probability of yes), score (a position on a scale) or choice (one of several options).
    #[arg(long = "type", value_parser = ["noul", "score", "choice"], requires = "instructions", required_unless_present = "data")]
    kind: Option<String>,
    /// The question.
    #[arg(long, value_name = "TEXT", requires = "kind")]
    instructions: Option<String>,
    /// A level of the scale, lowest first, or an option as NAME=DESCRIPTION; may be repeated. Or all of them as JSON.
    #[arg(long, value_name = "TEXT", requires = "kind")]
    criteria: Vec<String>,
    /// The definition: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON", conflicts_with_all = ["kind", "instructions", "criteria"])]
    data: Option<Data>,
}

/// Criteria that were given one by one, or as one JSON document.
fn criteria(kind: Option<&str>, given: &[String]) -> Option<Value> {
    if let [only] = given
        && let document @ (Value::Array(_) | Value::Object(_)) = json_or_text(only)
    {
        return Some(document);
    }
    if given.is_empty() {
        return None;
    }
    if kind != Some("choice") {
        return Some(json!(given));
    }
    let option = |text: &String| {
        let (name, description) = text.split_once('=').unwrap_or((text, text));
        (name.to_owned(), json!(description))
    };
    Some(given.iter().map(option).collect::<Map<_, _>>().into())
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match self {
            Self::List => context.show(get(&["v1", "signals"])?, signals_view).await,
            Self::Get { key } => {
                let signal = find(&context, key).await?;
                let body = signal.raw().get();
                let value = serde_json::from_str(body).map_err(Failure::other)?;
                context.output.record(body.as_bytes(), signal_view(&value))
            }
            Self::Set(set) => set.run(&context).await,
            Self::Enable { key } => switch(&context, key, true).await,
            Self::Disable { key } => switch(&context, key, false).await,
            Self::Delete { key, yes } => {
                prompt::confirm(
                    &format!("Delete the signal {key} with its answers, labels and trials?"),
                    *yes,
                )?;
                context.done(delete(&["v1", "signals", key])?, &format!("The signal {key} is deleted.")).await
            }
            Self::Backfill { key, dry_run, wait, yes } => {
                backfill(&context, key, *dry_run, *wait, *yes).await
            }
            Self::Versions { key } => {
                context.show(get(&["v1", "signals", key, "versions"])?, versions_view).await
            }
            Self::Restore { key, version } => {
                let call = post(&["v1", "signals", key, "versions", &version.to_string(), "restore"])?;
                context.show(call, signal_view).await
            }
            Self::Distribution { key, q } => {
                warn_of_skipped(&context, q.as_ref()).await?;
                let call = get(&["v1", "signals", key, "distribution"])?.query("q", q.as_ref());
                context.show(call, distribution_view).await
            }
            Self::Quality(arguments) => arguments.run(&context).await,
            Self::Calibration(command) => command.run(&context).await,
            Self::Escalation(arguments) => arguments.run(&context).await,
            Self::Trial(command) => command.run(&context).await,
        }
    }
}

impl Set {
    async fn run(&self, context: &Context) -> Result<(), Failure> {
        let path = ["v1", "signals", &self.key];
        let call = if let Some(data) = &self.data {
            send(Method::PUT, &path, data.raw())?
        } else {
            let mut definition = Map::new();
            definition.insert("type".to_owned(), json!(self.kind));
            definition.insert("instructions".to_owned(), json!(self.instructions));
            if let Some(criteria) = criteria(self.kind.as_deref(), &self.criteria) {
                definition.insert("criteria".to_owned(), criteria);
            }
            send(Method::PUT, &path, &definition)?
        };
        context.show(call, signal_view).await
    }
}

/// The signal of this key, out of the list: there is no route for one.
async fn find(context: &Context, key: &str) -> Result<Data, Failure> {
    let response = context.client.request(get(&["v1", "signals"])?).await?;
    let mut signals = rows(&response.body, "signals")?.into_iter().map(Data::from);
    let found = signals.find(|signal| signal.text("key").as_deref() == Some(key));
    found.ok_or_else(|| Failure::NotFound(format!("there is no signal {key}")))
}

async fn switch(context: &Context, key: &str, enabled: bool) -> Result<(), Failure> {
    let signal = find(context, key).await?.fields().unwrap_or_default();
    let mut definition = Fields::default();
    for name in ["type", "instructions", "criteria"] {
        definition.set_if(name, signal.get(name))?;
    }
    definition.set("enabled", &enabled)?;
    let state = if enabled { "enabled" } else { "disabled" };
    let show = |_: &Value| View::new().line(format!("The signal {key} is {state}."));
    context.show(send(Method::PUT, &["v1", "signals", key], &definition)?, show).await
}

async fn backfill(context: &Context, key: &str, dry_run: bool, wait: bool, yes: bool) -> Result<(), Failure> {
    let path = ["v1", "signals", key, "backfill"];
    let (estimated, status) = context.fetch(get(&path)?).await?;
    if dry_run {
        return context.output.record(&estimated.body, backfill_view(&status));
    }
    let (objects, cost) =
        (&status["estimate"]["objects"], cells::micros(&status["estimate"]["estimated_cost_micros"]));
    prompt::confirm(&format!("Ask {key} about {objects} objects for about {}?", cost.text(None)), yes)?;
    let (started, _) = context.fetch(post(&path)?).await?;
    if !wait {
        let line = format!("The backfill of {objects} objects runs; --wait waits for it.");
        return context.output.record(&started.body, View::new().line(line));
    }
    let ask = async || {
        let (response, value) = context.fetch(get(&path)?).await?;
        let progress = value["backfill"].clone();
        Ok(((response, value), progress))
    };
    let is_done = |progress: &Value| progress["status"] != "running";
    let (response, status) = waiting::until(&format!("backfill of {key}"), LONG, ask, is_done).await?;
    context.output.record(&response.body, backfill_view(&status))
}

fn backfill_view(status: &Value) -> View {
    let latest = &status["backfill"];
    let mut fields = vec![
        ("objects without an answer", cells::value(&status["estimate"]["objects"])),
        ("estimated cost", cells::micros(&status["estimate"]["estimated_cost_micros"])),
    ];
    if latest.is_object() {
        fields.push(("latest backfill", cells::status(&latest["status"])));
        fields.push(("completed", cells::text(format!("{} of {}", latest["completed"], latest["total"]))));
        fields.push(("started", cells::time(&latest["started_at"])));
    }
    View::new().fields(fields)
}

fn signals_view(list: &Value) -> View {
    let signals = list["signals"].as_array().cloned().unwrap_or_default();
    View::new().table(Table::of(
        [left("KEY"), left("TYPE"), left("ENABLED"), left("INSTRUCTIONS")],
        &signals,
        |signal| {
            [
                cells::value(&signal["key"]),
                cells::value(&signal["type"]),
                cells::status(&signal["enabled"]),
                cells::value(&signal["instructions"]),
            ]
        },
    ))
}

fn signal_view(signal: &Value) -> View {
    View::new().fields([
        ("key", cells::value(&signal["key"])),
        ("type", cells::value(&signal["type"])),
        ("enabled", cells::status(&signal["enabled"])),
        ("instructions", cells::value(&signal["instructions"])),
        ("criteria", cells::value(&signal["criteria"])),
        ("updated", cells::time(&signal["updated_at"])),
    ])
}

fn versions_view(list: &Value) -> View {
    let versions = list["versions"].as_array().cloned().unwrap_or_default();
    let columns =
        [right("VERSION"), left("TYPE"), right("OBJECTS"), left("BY"), left("WHEN"), left("INSTRUCTIONS")];
    View::new().table(Table::of(columns, &versions, |version| {
        [
            cells::value(&version["version"]),
            cells::value(&version["type"]),
            cells::value(&version["objects"]),
            cells::value(&version["by"]["name"]),
            cells::time(&version["created_at"]),
            cells::value(&version["instructions"]),
        ]
    }))
}

fn distribution_view(distribution: &Value) -> View {
    let bins = distribution["bins"].as_array().cloned().unwrap_or_default();
    let most = bins.iter().filter_map(|bin| bin["count"].as_u64()).max().unwrap_or(0).max(1);
    let table = Table::of([left("ANSWER"), right("OBJECTS"), left("")], &bins, |bin| {
        let range = match bin["option"].as_str() {
            Some(option) => option.to_owned(),
            None => format!("{} to {}", bin["from"], bin["to"]),
        };
        let length = bin["count"].as_u64().unwrap_or(0) * 30 / most;
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        [cells::text(range), cells::value(&bin["count"]), cells::text(bar)]
    });
    let sample =
        if distribution["sampled"] == json!(true) { ", the most recently analyzed ones" } else { "" };
    View::new().line(format!("{} objects{sample}", distribution["objects"])).table(table)
}

/// A call about a trial or calibration of a signal.
fn about(method: Method, key: &str, rest: &[&str]) -> Result<Call, Failure> {
    let segments: Vec<&str> = ["v1", "signals", key].iter().chain(rest).copied().collect();
    Ok(Call::new(method, &segments)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_have_the_form_of_their_type() {
        let given = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(criteria(Some("noul"), &[]), None);
        assert_eq!(criteria(Some("score"), &given(&["low", "high"])), Some(json!(["low", "high"])));
        let options = Some(json!({"calm": "patient = polite", "angry": "angry"}));
        assert_eq!(criteria(Some("choice"), &given(&["calm=patient = polite", "angry"])), options);
        assert_eq!(criteria(Some("choice"), &given(&[r#"{"a": "b"}"#])), Some(json!({"a": "b"})));
    }
}
