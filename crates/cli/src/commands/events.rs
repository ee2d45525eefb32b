//! `auspex events`: sending and reading what happened to objects.

use clap::{Args, Subcommand};
use client::Method;
use serde_json::{Value, json};

use super::objects::answers_table;
use crate::cells;
use crate::context::{Common, Context, get, send};
use crate::data::{Data, Fields};
use crate::failure::Failure;
use crate::output::View;
use crate::paging::Paging;
use crate::table::{Table, left};

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Send events about an object.
    Send(Send),
    /// List the events of an object, newest first.
    #[command(after_help = "Examples:
  auspex events list seller/42 --limit 10")]
    List {
        /// The object's id.
        object: String,
        #[command(flatten)]
        paging: Paging,
    },
}

/// Sends events.
#[derive(Args)]
#[command(after_help = "JSON may be one event, a list of events, or a whole request with `events`.

Examples:
  auspex events send seller/42 --message 'Pay me by gift card and I ship today'
  auspex events send seller/42 --event listing_created --metadata '{\"price\": 900}' --object-type seller
  auspex events send seller/42 --message 'Hello' --wait
  auspex events send seller/42 -d '[{\"type\": \"event\", \"name\": \"signup\"}]' --idempotency-key signup-42
  echo '{\"type\": \"message\", \"content\": \"Hello\"}' | auspex events send seller/42 -d -")]
pub struct Send {
    /// The object's id.
    object: String,
    #[command(flatten)]
    events: EventArguments,
    /// Wait for the verdict: the answers with these events.
    #[arg(long)]
    wait: bool,
    /// With --wait, ask only these signals.
    #[arg(long, value_delimiter = ',', value_name = "KEY,…", requires = "wait")]
    signals: Option<Vec<String>>,
    /// With --wait, read only these events and not the object's history.
    #[arg(long, requires = "wait")]
    without_history: bool,
    /// Record the events once, however often they are sent with this key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// Events on the command line.
#[derive(Args)]
pub(crate) struct EventArguments {
    /// A message that somebody wrote; may be repeated.
    #[arg(long, value_name = "TEXT")]
    message: Vec<String>,
    /// An event of this name; may be repeated.
    #[arg(long, value_name = "NAME")]
    event: Vec<String>,
    /// Metadata of these events, as JSON.
    #[arg(long, value_name = "JSON")]
    metadata: Option<Data>,
    /// The events: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON", conflicts_with_all = ["message", "event", "metadata"])]
    data: Option<Data>,
    /// The type of the object, such as `user`.
    #[arg(long, value_name = "TYPE")]
    object_type: Option<String>,
}

impl EventArguments {
    /// The request that these arguments make.
    pub(crate) fn request(&self) -> Result<Fields, Failure> {
        let mut request = match &self.data {
            Some(data) => Self::given(data)?,
            None => self.described()?,
        };
        request.set_if("object_type", self.object_type.as_ref())?;
        Ok(request)
    }

    /// The request around an event or a list of events; a whole request as it is.
    fn given(data: &Data) -> Result<Fields, Failure> {
        let mut request = Fields::default();
        match data.fields() {
            Some(whole) if whole.get("events").is_some() => return Ok(whole),
            Some(_) => request.set("events", &[data.raw()])?,
            None if data.is_list() => request.set("events", data.raw())?,
            None => {
                return Err(Failure::Usage(
                    "-d: an event, a list of events or a request is needed".to_owned(),
                ));
            }
        }
        Ok(request)
    }

    /// The request with the events that options describe.
    fn described(&self) -> Result<Fields, Failure> {
        let named = self.event.iter().map(|name| ("event", "name", name));
        let written = self.message.iter().map(|text| ("message", "content", text));
        let mut events = Vec::new();
        for (kind, field, text) in named.chain(written) {
            let mut event = Fields::default();
            event.set("type", kind)?;
            event.set(field, text)?;
            event.set_if("metadata", self.metadata.as_ref().map(Data::raw))?;
            events.push(event);
        }
        if events.is_empty() {
            return Err(Failure::Usage("give --message, --event or -d".to_owned()));
        }
        let mut request = Fields::default();
        request.set("events", &events)?;
        Ok(request)
    }
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Send(send) => send.run(common).await,
            Self::List { object, paging } => {
                let context = Context::new(common)?;
                paging.list(&context, get(&["v1", "objects", object, "events"])?, "events", events_view).await
            }
        }
    }
}

fn events_view(events: &[Value]) -> View {
    View::new().table(Table::of(
        [left("WHEN"), left("TYPE"), left("WHAT"), left("METADATA")],
        events,
        |event| {
            let what = if event["type"] == "message" { &event["content"] } else { &event["name"] };
            [
                cells::time(&event["occurred_at"]),
                cells::value(&event["type"]),
                cells::value(what),
                cells::value(&event["metadata"]),
            ]
        },
    ))
}

impl Send {
    async fn run(&self, common: &Common) -> Result<(), Failure> {
        let mut request = self.events.request()?;
        request.set_if("wait", self.wait.then_some(&true))?;
        request.set_if("signals", self.signals.as_ref())?;
        request.set_if("include_history", self.without_history.then_some(&false))?;
        let waits = request.get("wait").is_some_and(|wait| wait.get() == "true");
        let mut call = send(Method::POST, &["v1", "objects", &self.object, "events"], &request)?;
        if let Some(key) = &self.idempotency_key {
            call = call.idempotency_key(key);
            if !waits {
                call = call.repeatable();
            }
        }
        let context = Context::new(common)?;
        let show = |answer: &Value| {
            if waits {
                return View::new().table(answers_table(&answer["answers"], "signal"));
            }
            let count = &answer["accepted"];
            let events = if *count == json!(1) { "event is" } else { "events are" };
            View::new().line(format!("{count} {events} recorded; answers about {} follow.", self.object))
        };
        context.show(call, show).await
    }
}
