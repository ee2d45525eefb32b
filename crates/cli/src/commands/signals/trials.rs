//! `auspex signals trial`: another wording, put to objects that are there.

use clap::{Args, Subcommand};
use client::Method;
use serde_json::{Value, json};

use super::quality::figures;
use super::{LONG, about, criteria, find, signal_view};
use crate::cells;
use crate::context::Context;
use crate::data::{Data, Fields};
use crate::failure::Failure;
use crate::output::View;
use crate::paging::Paging;
use crate::prompt;
use crate::table::{Table, left, right, whole};
use crate::waiting;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Start a trial. Each object is charged.
    Start(Start),
    /// List the trials of a signal, newest first.
    #[command(after_help = "Examples:
  auspex signals trial list is_scammer")]
    List {
        /// The signal's key.
        key: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a trial and its figures so far.
    #[command(after_help = "Examples:
  auspex signals trial get is_scammer \"$TRIAL\" --wait")]
    Get {
        /// The signal's key.
        key: String,
        /// The trial's id.
        id: String,
        /// Wait for its end.
        #[arg(long)]
        wait: bool,
    },
    /// Make the wording of a trial the signal's next version.
    #[command(after_help = "Examples:
  auspex signals trial adopt is_scammer \"$TRIAL\" --yes")]
    Adopt {
        /// The signal's key.
        key: String,
        /// The trial's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Stop a trial.
    #[command(after_help = "Examples:
  auspex signals trial cancel is_scammer \"$TRIAL\"")]
    Cancel {
        /// The signal's key.
        key: String,
        /// The trial's id.
        id: String,
    },
}

/// Starts a trial.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex signals trial start is_scammer --instructions 'Does the seller try to defraud the buyer?' --over recent --dry-run
  auspex signals trial start is_scammer --instructions 'Is this fraud?' --over recent --limit 10 --yes --wait
  auspex signals trial start is_scammer --instructions 'Is this fraud?' -q 'is_scammer > 0.2' --yes")]
pub struct Start {
    /// The signal's key.
    key: String,
    /// The other question.
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// The other levels, or options as NAME=DESCRIPTION; may be repeated. Or all of them as JSON.
    #[arg(long, value_name = "TEXT")]
    criteria: Vec<String>,
    /// Put it to labelled objects, or to those analyzed most recently.
    #[arg(long, value_parser = ["labelled", "recent"], default_value = "labelled")]
    over: String,
    /// Put it to objects that match a condition instead.
    #[arg(short, long, conflicts_with = "over")]
    q: Option<String>,
    /// Put it to at most this many objects.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The whole request: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON", conflicts_with_all = ["instructions", "criteria", "over", "q", "limit"])]
    data: Option<Data>,
    /// Only show what it would cost.
    #[arg(long)]
    dry_run: bool,
    /// Wait for its end and show the figures.
    #[arg(long)]
    wait: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

impl Start {
    async fn request(&self, context: &Context) -> Result<Fields, Failure> {
        if let Some(data) = &self.data {
            let given = data.fields();
            return given
                .ok_or_else(|| Failure::Usage("-d: a request is needed, which is an object".to_owned()));
        }
        let kind = if self.criteria.is_empty() { None } else { find(context, &self.key).await?.text("type") };
        let over = self.q.as_ref().map_or_else(|| json!(self.over), |q| json!({"q": q}));
        let mut request = Fields::default();
        request.set("over", &over)?;
        request.set_if("instructions", self.instructions.as_ref())?;
        request.set_if("criteria", criteria(kind.as_deref(), &self.criteria).as_ref())?;
        request.set_if("limit", self.limit.as_ref())?;
        Ok(request)
    }

    async fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut request = self.request(context).await?;
        let path = ["trials"];
        request.set("dry_run", &true)?;
        let (response, estimate) =
            context.fetch(about(Method::POST, &self.key, &path)?.json(&request)?).await?;
        let cost = cells::micros(&estimate["estimated_cost_micros"]);
        let objects = &estimate["objects"];
        if self.dry_run {
            let line = format!("It would ask about {objects} objects for about {}.", cost.text(None));
            return context.output.record(&response.body, View::new().line(line));
        }
        let question = format!("Put the other wording to {objects} objects for about {}?", cost.text(None));
        prompt::confirm(&question, self.yes)?;
        request.remove("dry_run");
        let (response, started) =
            context.fetch(about(Method::POST, &self.key, &path)?.json(&request)?).await?;
        let id = started["trial"]["id"].as_str().unwrap_or_default();
        if self.wait {
            return show(context, &self.key, id, true).await;
        }
        let line = format!("Trial {id} runs; see: auspex signals trial get {} {id}", self.key);
        context.output.record(&response.body, View::new().line(line))
    }
}

impl Command {
    pub(super) async fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Start(start) => start.run(context).await,
            Self::List { key, paging } => {
                paging.list(context, about(Method::GET, key, &["trials"])?, "trials", trials_view).await
            }
            Self::Get { key, id, wait } => show(context, key, id, *wait).await,
            Self::Adopt { key, id, yes } => {
                prompt::confirm(&format!("Make the wording of this trial the next version of {key}?"), *yes)?;
                context.show(about(Method::POST, key, &["trials", id, "adopt"])?, signal_view).await
            }
            Self::Cancel { key, id } => {
                context.done(about(Method::DELETE, key, &["trials", id])?, "The trial is cancelled.").await
            }
        }
    }
}

async fn show(context: &Context, key: &str, id: &str, wait: bool) -> Result<(), Failure> {
    let call = about(Method::GET, key, &["trials", id])?;
    let (response, trial) = if wait {
        let ask = async || {
            let (response, value) = context.fetch(call.clone()).await?;
            Ok(((response, value.clone()), value))
        };
        waiting::until(&format!("trial of {key}"), LONG, ask, |trial| trial["status"] != "running").await?
    } else {
        context.fetch(call).await?
    };
    context.output.record(&response.body, trial_view(&trial))
}

fn trials_view(trials: &[Value]) -> View {
    let columns =
        [whole("ID"), left("STATUS"), right("DONE"), right("COST"), left("STARTED"), left("INSTRUCTIONS")];
    View::new().table(Table::of(columns, trials, |trial| {
        [
            cells::id(&trial["id"]),
            cells::status(&trial["status"]),
            cells::text(format!("{}/{}", trial["completed"], trial["total"])),
            cells::micros(&trial["cost_micros"]),
            cells::time(&trial["created_at"]),
            cells::value(&trial["instructions"]),
        ]
    }))
}

fn trial_view(trial: &Value) -> View {
    let mut view = View::new().fields([
        ("id", cells::id(&trial["id"])),
        ("status", cells::status(&trial["status"])),
        ("completed", cells::text(format!("{} of {}", trial["completed"], trial["total"]))),
        ("instructions", cells::value(&trial["instructions"])),
        ("cost", cells::micros(&trial["cost_micros"])),
        ("agreement", cells::figure(&trial["agreement"])),
    ]);
    for (title, name) in [("Present wording", "present"), ("Proposed wording", "proposed")] {
        if trial[name].is_object() {
            view = view.title(title).fields(figures(&trial[name]));
        }
    }
    if let Some(difference) = trial["difference"].as_object() {
        let fields = [("accuracy", "accuracy"), ("AUC", "auc"), ("Brier score", "brier")];
        let fields =
            fields.into_iter().filter_map(|(name, key)| Some((name, cells::figure(difference.get(key)?))));
        view = view.title("Proposed minus present").fields(fields);
    }
    let flips = trial["flips"].as_array().cloned().unwrap_or_default();
    if flips.is_empty() {
        return view;
    }
    view.title("Answers that change side").table(Table::of(
        [left("OBJECT"), right("PRESENT"), right("PROPOSED")],
        &flips,
        |flip| {
            [
                cells::value(&flip["object_id"]),
                cells::answer(&flip["present"]),
                cells::answer(&flip["proposed"]),
            ]
        },
    ))
}
