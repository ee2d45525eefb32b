//! `auspex reviews`: objects that people are to look at.

use clap::Subcommand;
use client::Method;
use serde_json::{Map, Value, json};

use crate::cells;
use crate::context::{Common, Context, get, post, send};
use crate::data::json_or_text;
use crate::failure::Failure;
use crate::output::View;
use crate::paging::Paging;
use crate::table::{Table, left, right, whole};

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List reviews, those that are worth most first.
    #[command(after_help = "Examples:
  auspex reviews list --queue fraud --status open
  auspex reviews list --order oldest --limit 10")]
    List {
        /// Only this queue.
        #[arg(long)]
        queue: Option<String>,
        /// Only reviews in this state.
        #[arg(long, value_parser = ["open", "claimed", "resolved"])]
        status: Option<String>,
        /// What comes first.
        #[arg(long, value_parser = ["value", "oldest"])]
        order: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show how the queues stand.
    #[command(after_help = "Examples:
  auspex reviews queues")]
    Queues,
    /// Show a review; if you claimed it, the claim is renewed.
    #[command(after_help = "Examples:
  auspex reviews get \"$REVIEW\"")]
    Get {
        /// The review's id.
        id: String,
    },
    /// Open a review of an object.
    #[command(after_help = "Examples:
  auspex reviews open seller/42 fraud --signals is_scammer")]
    Open {
        /// The object's id.
        object: String,
        /// The queue.
        queue: String,
        /// The signals to be labelled.
        #[arg(long, value_delimiter = ',', value_name = "KEY,…")]
        signals: Option<Vec<String>>,
    },
    /// Claim the review of a queue that is worth most.
    #[command(after_help = "Examples:
  auspex reviews next fraud")]
    Next {
        /// The queue.
        queue: String,
    },
    /// Claim a review.
    #[command(after_help = "Examples:
  auspex reviews claim \"$REVIEW\"")]
    Claim {
        /// The review's id.
        id: String,
    },
    /// Give a claimed review back.
    #[command(after_help = "Examples:
  auspex reviews release \"$CLAIMED\"")]
    Release {
        /// The review's id.
        id: String,
    },
    /// Decide about a review, and label its signals.
    #[command(after_help = "Examples:
  auspex reviews resolve \"$REVIEW\" ban --label is_scammer=true --note 'gift cards'")]
    Resolve {
        /// The review's id.
        id: String,
        /// The decision, in your own words.
        decision: String,
        /// Why.
        #[arg(long)]
        note: Option<String>,
        /// What is true about a signal; may be repeated.
        #[arg(long, value_name = "SIGNAL=VALUE")]
        label: Vec<String>,
    },
    /// Take a decision back, within 24 hours.
    #[command(after_help = "Examples:
  auspex reviews reopen \"$RESOLVED\"")]
    Reopen {
        /// The review's id.
        id: String,
    },
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match self {
            Self::List { queue, status, order, paging } => {
                let call = get(&["v1", "reviews"])?
                    .query("queue", queue.as_ref())
                    .query("status", status.as_ref())
                    .query("order", order.as_ref());
                paging.list(&context, call, "reviews", reviews_view).await
            }
            Self::Queues => context.show(get(&["v1", "reviews", "queues"])?, queues_view).await,
            Self::Get { id } => context.show(get(&["v1", "reviews", id])?, review_view).await,
            Self::Open { object, queue, signals } => {
                let mut body = json!({"object_id": object, "queue": queue});
                if let Some(signals) = signals {
                    body["signals"] = json!(signals);
                }
                context.show(send(Method::POST, &["v1", "reviews"], &body)?.repeatable(), review_view).await
            }
            Self::Next { queue } => {
                let call = send(Method::POST, &["v1", "reviews", "next"], &json!({"queue": queue}))?;
                let show = |review: &Value| match review {
                    Value::Null => View::new().line(format!("No review is left in {queue}.")),
                    review => review_view(review),
                };
                context.show(call, show).await
            }
            Self::Claim { id } => context.show(post(&["v1", "reviews", id, "claim"])?, review_view).await,
            Self::Release { id } => context.show(post(&["v1", "reviews", id, "release"])?, review_view).await,
            Self::Reopen { id } => context.show(post(&["v1", "reviews", id, "reopen"])?, review_view).await,
            Self::Resolve { id, decision, note, label } => {
                let mut body = json!({"decision": decision});
                if let Some(note) = note {
                    body["note"] = json!(note);
                }
                if !label.is_empty() {
                    body["labels"] = labels(label)?;
                }
                context.show(send(Method::POST, &["v1", "reviews", id, "resolve"], &body)?, review_view).await
            }
        }
    }
}

/// `SIGNAL=VALUE` each.
fn labels(given: &[String]) -> Result<Value, Failure> {
    let mut labels = Map::new();
    for label in given {
        let Some((signal, value)) = label.split_once('=') else {
            return Err(Failure::Usage(format!("--label {label}: it must be SIGNAL=VALUE")));
        };
        labels.insert(signal.to_owned(), json_or_text(value));
    }
    Ok(labels.into())
}

fn reviews_view(reviews: &[Value]) -> View {
    let columns =
        [whole("ID"), left("OBJECT"), left("QUEUE"), left("STATUS"), left("REASON"), left("OPENED")];
    View::new().table(Table::of(columns, reviews, |review| {
        [
            cells::id(&review["id"]),
            cells::value(&review["object_id"]),
            cells::value(&review["queue"]),
            cells::status(&review["status"]),
            cells::value(&review["reason"]),
            cells::time(&review["created_at"]),
        ]
    }))
}

fn queues_view(list: &Value) -> View {
    let queues = list["queues"].as_array().cloned().unwrap_or_default();
    let columns = [left("QUEUE"), right("OPEN"), right("CLAIMED"), right("A DAY"), left("OLDEST")];
    View::new().table(Table::of(columns, &queues, |queue| {
        [
            cells::value(&queue["queue"]),
            cells::value(&queue["open"]),
            cells::value(&queue["claimed"]),
            cells::decimal(&queue["resolved_a_day"], 1),
            cells::time(&queue["oldest_at"]),
        ]
    }))
}

fn review_view(review: &Value) -> View {
    let fields = [
        ("id", cells::id(&review["id"])),
        ("object", cells::value(&review["object_id"])),
        ("queue", cells::value(&review["queue"])),
        ("status", cells::status(&review["status"])),
        ("reason", cells::value(&review["reason"])),
        ("signals", cells::value(&review["signals"])),
        ("opened", cells::time(&review["created_at"])),
    ];
    let optional = [
        ("claimed by", cells::value(&review["claimed_by"]["name"]), &review["claimed_by"]),
        ("claimed until", cells::time(&review["claimed_until"]), &review["claimed_until"]),
        ("decision", cells::value(&review["decision"]), &review["decision"]),
        ("note", cells::value(&review["note"]), &review["note"]),
        ("resolved by", cells::value(&review["resolved_by"]["name"]), &review["resolved_by"]),
    ];
    let there =
        optional.into_iter().filter(|(_, _, value)| !value.is_null()).map(|(name, cell, _)| (name, cell));
    View::new().fields(fields.into_iter().chain(there))
}
