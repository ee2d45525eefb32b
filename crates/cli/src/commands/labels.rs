//! `auspex labels`: what people say is true.

use clap::Subcommand;
use client::Method;
use serde_json::{Value, json};

use crate::cells;
use crate::context::{Common, Context, delete, get, send};
use crate::data::{Data, Fields, json_or_text};
use crate::failure::Failure;
use crate::output::View;
use crate::paging::Paging;
use crate::prompt;
use crate::table::{Table, left, right, whole};

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Say what is true about a signal of an object.
    #[command(after_help = "Examples:
  auspex labels set seller/42 is_scammer true --note 'asked for gift cards'
  auspex labels set seller/42 buyer_intent browsing
  auspex labels set seller/42 trust_score 0")]
    Set {
        /// The object's id.
        object: String,
        /// The signal's key.
        signal: String,
        /// true or false (noul), an option (choice), or the index of a level from 0 on (score).
        value: String,
        /// Why.
        #[arg(long)]
        note: Option<String>,
    },
    /// Send up to 1,000 labels: `{\"labels\": [{object_id, signal, value, note?}]}`, or the list alone.
    #[command(after_help = "Examples:
  auspex labels send -d '[{\"object_id\": \"seller/42\", \"signal\": \"is_scammer\", \"value\": true}]'")]
    Send {
        /// The labels: JSON, `@FILE`, or `-` for standard input.
        #[arg(short, long, value_name = "JSON")]
        data: Data,
    },
    /// List labels, newest first.
    #[command(after_help = "Examples:
  auspex labels list --signal is_scammer
  auspex labels list --object seller/42 --all --json")]
    List {
        /// Only labels about this signal.
        #[arg(long, value_name = "KEY")]
        signal: Option<String>,
        /// Only labels about this object.
        #[arg(long, value_name = "ID")]
        object: Option<String>,
        /// Only labels that were given like this.
        #[arg(long, value_parser = ["person", "api", "review"])]
        source: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Withdraw a label.
    #[command(after_help = "Examples:
  auspex labels delete \"$LABEL\" --yes")]
    Delete {
        /// The label's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match self {
            Self::Set { object, signal, value, note } => {
                let mut body = json!({"value": json_or_text(value)});
                if let Some(note) = note {
                    body["note"] = json!(note);
                }
                let show = |label: &Value| {
                    let said = cells::value(&label["value"]).text(None);
                    View::new().line(format!(
                        "{signal} of {object} is {said} (label {}).",
                        label["id"].as_str().unwrap_or("")
                    ))
                };
                context
                    .show(send(Method::PUT, &["v1", "objects", object, "labels", signal], &body)?, show)
                    .await
            }
            Self::Send { data } => {
                let path = ["v1", "labels"];
                let call = if data.is_list() {
                    let mut request = Fields::default();
                    request.set("labels", data.raw())?;
                    send(Method::POST, &path, &request)?
                } else {
                    send(Method::POST, &path, data.raw())?
                };
                context.show(call.repeatable(), accepted_view).await
            }
            Self::List { signal, object, source, paging } => {
                let call = get(&["v1", "labels"])?
                    .query("signal", signal.as_ref())
                    .query("object_id", object.as_ref())
                    .query("source", source.as_ref());
                paging.list(&context, call, "labels", labels_view).await
            }
            Self::Delete { id, yes } => {
                prompt::confirm("Withdraw the label?", *yes)?;
                context.done(delete(&["v1", "labels", id])?, "The label is withdrawn.").await
            }
        }
    }
}

fn accepted_view(outcome: &Value) -> View {
    let refused = outcome["refused"].as_array().cloned().unwrap_or_default();
    let view =
        View::new().line(format!("{} labels are recorded, {} refused.", outcome["accepted"], refused.len()));
    if refused.is_empty() {
        return view;
    }
    view.table(Table::of([right("INDEX"), left("REASON")], &refused, |label| {
        [cells::value(&label["index"]), cells::value(&label["message"])]
    }))
}

fn labels_view(labels: &[Value]) -> View {
    let columns =
        [whole("ID"), left("OBJECT"), left("SIGNAL"), left("VALUE"), left("BY"), left("WHEN"), left("NOTE")];
    View::new().table(Table::of(columns, labels, |label| {
        [
            cells::id(&label["id"]),
            cells::value(&label["object_id"]),
            cells::value(&label["signal"]),
            cells::value(&label["value"]),
            cells::value(&label["by"]["name"]),
            cells::time(&label["created_at"]),
            cells::value(&label["note"]),
        ]
    }))
}
