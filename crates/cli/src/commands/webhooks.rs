//! `auspex webhooks`: endpoints, their deliveries, and whether a delivery is genuine.

use std::io::Read as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Method, webhook};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::cells;
use crate::context::{Common, Context, delete, get, post, send};
use crate::data::Data;
use crate::failure::Failure;
use crate::output::{self, View};
use crate::paging::{Paging, rows};
use crate::prompt;
use crate::table::{Table, left, right, whole};
use crate::waiting;

/// Longer than one attempt takes.
const TEST_PATIENCE: Duration = Duration::from_mins(2);

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List all endpoints.
    #[command(after_help = "Examples:
  auspex webhooks list")]
    List,
    /// Show an endpoint.
    #[command(after_help = "Examples:
  auspex webhooks get \"$ENDPOINT\"")]
    Get {
        /// The endpoint's id.
        id: String,
    },
    /// Register an endpoint. Its signing secret is shown once.
    #[command(after_help = "Examples:
  auspex webhooks create http://127.0.0.1:9000/hook --events rule.triggered --description 'our backend'")]
    Create {
        /// The URL that receives deliveries.
        #[arg(value_name = "URL")]
        target: String,
        #[command(flatten)]
        filters: Filters,
    },
    /// Change an endpoint; what is left out stays.
    #[command(after_help = "Examples:
  auspex webhooks update \"$ENDPOINT\" --target http://127.0.0.1:9001/hook")]
    Update {
        /// The endpoint's id.
        id: String,
        /// The URL that receives deliveries.
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        #[command(flatten)]
        filters: Filters,
    },
    /// Send a test delivery to an endpoint, signed and tried again like any other.
    #[command(after_help = "Examples:
  auspex webhooks test \"$ENDPOINT\"
  auspex webhooks test \"$LISTENING\" --wait")]
    Test {
        /// The endpoint's id.
        id: String,
        /// Wait for the first attempt; if the receiver does not accept the delivery, the exit code is 1.
        #[arg(long)]
        wait: bool,
    },
    /// Show how an endpoint is doing.
    #[command(after_help = "Examples:
  auspex webhooks health \"$ENDPOINT\"")]
    Health {
        /// The endpoint's id.
        id: String,
    },
    /// Send to an endpoint again.
    #[command(after_help = "Examples:
  auspex webhooks enable \"$ENDPOINT\"")]
    Enable {
        /// The endpoint's id.
        id: String,
    },
    /// Stop sending to an endpoint; its deliveries wait.
    #[command(after_help = "Examples:
  auspex webhooks disable \"$ENDPOINT\"")]
    Disable {
        /// The endpoint's id.
        id: String,
    },
    /// Remove an endpoint and its deliveries.
    #[command(after_help = "Examples:
  auspex webhooks delete \"$ENDPOINT\" --yes")]
    Delete {
        /// The endpoint's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Give an endpoint a new secret; for a while deliveries are signed with both.
    #[command(after_help = "Examples:
  auspex webhooks rotate \"$ENDPOINT\" --overlap-hours 48 --yes")]
    Rotate {
        /// The endpoint's id.
        id: String,
        /// How many hours the old secret goes on: 0 to 168, 24 if left out.
        #[arg(long, value_name = "HOURS")]
        overlap_hours: Option<u32>,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// List deliveries, newest first.
    #[command(after_help = "Examples:
  auspex webhooks deliveries --status dead
  auspex webhooks deliveries --endpoint \"$ENDPOINT\" --limit 5")]
    Deliveries {
        /// Only deliveries in this state; `dead` are dead letters.
        #[arg(long, value_parser = ["pending", "delivering", "delivered", "dead"])]
        status: Option<String>,
        /// Only deliveries to this endpoint.
        #[arg(long, value_name = "ID")]
        endpoint: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Send a delivery again.
    #[command(after_help = "Examples:
  auspex webhooks replay \"$DELIVERY\"")]
    Replay {
        /// The delivery's id.
        id: String,
    },
    /// Check that a delivery is from the service, unchanged and recent. Its body is read from standard input; nothing is sent.
    Verify(Verify),
}

/// What an endpoint receives.
#[derive(Args)]
pub struct Filters {
    /// A description of your choice.
    #[arg(long)]
    description: Option<String>,
    /// Only these events: analysis.completed, rule.triggered, review.opened, review.resolved.
    #[arg(long, value_delimiter = ',', value_name = "EVENT,…")]
    events: Option<Vec<String>>,
    /// Only analyses that answered one of these signals.
    #[arg(long, value_delimiter = ',', value_name = "KEY,…")]
    signals: Option<Vec<String>>,
}

/// Checks a delivery.
#[derive(Args)]
#[command(
    after_help = "Give the secret in the environment rather than as an argument, which others on this machine can see.

Examples:
  printf %s '{\"test\": 2432232314}' | AUSPEX_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw auspex webhooks verify \\
    --header 'x-webhook-timestamp: 1614265330' --tolerance 100000000000 \\
    --header 'x-webhook-signature: sha256=2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964'"
)]
pub struct Verify {
    /// A header of the delivery, `Name: value`; may be repeated. Those that sign it are needed.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", required = true)]
    header: Vec<String>,
    /// The endpoint's secret.
    #[arg(long, env = "AUSPEX_WEBHOOK_SECRET", hide_env_values = true)]
    secret: String,
    /// How many seconds its timestamp may be off.
    #[arg(long, value_name = "SECONDS", default_value_t = webhook::TOLERANCE.as_secs())]
    tolerance: u64,
}

impl Filters {
    fn fields(&self) -> Map<String, Value> {
        let fields = [
            ("description", json!(self.description)),
            ("events", json!(self.events)),
            ("signal_keys", json!(self.signals)),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        if let Self::Verify(verify) = self {
            return verify.run(common);
        }
        let context = Context::new(common)?;
        match self {
            Self::List => context.show(get(&["v1", "webhooks"])?, endpoints_view).await,
            Self::Get { id } => context.show(get(&["v1", "webhooks", id])?, endpoint_view).await,
            Self::Create { target, filters } => {
                let mut body = filters.fields();
                body.insert("url".to_owned(), json!(target));
                context.show(send(Method::POST, &["v1", "webhooks"], &body)?, secret_view).await
            }
            Self::Update { id, target, filters } => {
                let mut body = filters.fields();
                body.extend(target.as_ref().map(|url| ("url".to_owned(), json!(url))));
                change(&context, id, &body.into()).await
            }
            Self::Test { id, wait } => test(&context, id, *wait).await,
            Self::Health { id } => context.show(get(&["v1", "webhooks", id, "health"])?, health_view).await,
            Self::Enable { id } => change(&context, id, &json!({"enabled": true})).await,
            Self::Disable { id } => change(&context, id, &json!({"enabled": false})).await,
            Self::Delete { id, yes } => {
                prompt::confirm("Remove the endpoint and its deliveries?", *yes)?;
                context.done(delete(&["v1", "webhooks", id])?, "The endpoint is removed.").await
            }
            Self::Rotate { id, overlap_hours, yes } => {
                prompt::confirm("Give the endpoint a new secret?", *yes)?;
                let body = overlap_hours.map_or_else(|| json!({}), |hours| json!({"overlap_hours": hours}));
                context
                    .show(send(Method::POST, &["v1", "webhooks", id, "rotate_secret"], &body)?, secret_view)
                    .await
            }
            Self::Deliveries { status, endpoint, paging } => {
                let call = get(&["v1", "webhook_deliveries"])?
                    .query("status", status.as_ref())
                    .query("endpoint_id", endpoint.as_ref());
                paging.list(&context, call, "deliveries", deliveries_view).await
            }
            Self::Replay { id } => {
                let show = |_: &Value| View::new().line("The delivery is queued again.");
                context.show(post(&["v1", "webhook_deliveries", id, "replay"])?, show).await
            }
            Self::Verify(_) => Ok(()),
        }
    }
}

async fn change(context: &Context, id: &str, change: &Value) -> Result<(), Failure> {
    context.show(send(Method::PATCH, &["v1", "webhooks", id], change)?, endpoint_view).await
}

/// Sends a test, and waits for its outcome if somebody wants to know it.
async fn test(context: &Context, id: &str, wait: bool) -> Result<(), Failure> {
    let (response, queued) = context.fetch(post(&["v1", "webhooks", id, "test"])?).await?;
    if !wait {
        return context.output.record(&response.body, delivery_view(&queued));
    }
    let ask = async || {
        let listed =
            get(&["v1", "webhook_deliveries"])?.query("endpoint_id", Some(id)).query("limit", Some(200));
        let response = context.client.request(listed).await?;
        let mut deliveries = rows(&response.body, "deliveries")?.into_iter().map(Data::from);
        let found = deliveries.find(|delivery| delivery.text("id").as_deref() == queued["id"].as_str());
        let body = found.map(|delivery| delivery.raw().get().to_owned()).unwrap_or_default();
        let delivery: Value = serde_json::from_str(&body).unwrap_or_default();
        Ok(((body, delivery.clone()), delivery))
    };
    let is_over = |delivery: &Value| {
        let has_ended = delivery["status"] == "delivered" || delivery["status"] == "dead";
        has_ended || (delivery["status"] == "pending" && delivery["attempts"].as_u64() > Some(0))
    };
    let (body, delivery) = waiting::until("the test delivery", TEST_PATIENCE, ask, is_over).await?;
    context.output.record(body.as_bytes(), delivery_view(&delivery))?;
    if delivery["status"] == "delivered" {
        return Ok(());
    }
    let reason = cells::value(&delivery["last_error"]).text(None);
    Err(Failure::other(format!("the receiver did not accept the test: {reason}")))
}

impl Verify {
    fn run(&self, common: &Common) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        for header in &self.header {
            let (name, value) = header
                .split_once(':')
                .and_then(|(name, value)| {
                    let name: HeaderName = name.trim().parse().ok()?;
                    let value: HeaderValue = value.trim().parse().ok()?;
                    Some((name, value))
                })
                .ok_or_else(|| Failure::Usage(format!("--header {header:?}: it must be `Name: value`")))?;
            headers.insert(name, value);
        }
        let mut body = Vec::new();
        std::io::stdin().read_to_end(&mut body).map_err(Failure::other)?;
        let tolerance = Duration::from_secs(self.tolerance);
        webhook::verify(&self.secret, &headers, &body, output::now(), tolerance).map_err(Failure::other)?;
        common.output().done("The delivery is genuine.")
    }
}

fn endpoints_view(list: &Value) -> View {
    let endpoints = list["webhooks"].as_array().cloned().unwrap_or_default();
    let columns = [whole("ID"), left("URL"), left("ENABLED"), left("EVENTS"), left("DESCRIPTION")];
    View::new().table(Table::of(columns, &endpoints, |endpoint| {
        [
            cells::id(&endpoint["id"]),
            cells::value(&endpoint["url"]),
            cells::status(&endpoint["enabled"]),
            cells::value(&endpoint["events"]),
            cells::value(&endpoint["description"]),
        ]
    }))
}

fn endpoint_view(endpoint: &Value) -> View {
    View::new().fields([
        ("id", cells::id(&endpoint["id"])),
        ("url", cells::value(&endpoint["url"])),
        ("description", cells::value(&endpoint["description"])),
        ("enabled", cells::status(&endpoint["enabled"])),
        ("events", cells::value(&endpoint["events"])),
        ("signals", cells::value(&endpoint["signal_keys"])),
        ("created", cells::time(&endpoint["created_at"])),
    ])
}

fn secret_view(made: &Value) -> View {
    View::new().fields([
        ("id", cells::id(&made["endpoint"]["id"])),
        ("url", cells::value(&made["endpoint"]["url"])),
        ("secret", cells::value(&made["secret"])),
        ("note", cells::value(&made["note"])),
    ])
}

fn delivery_view(delivery: &Value) -> View {
    View::new().fields([
        ("id", cells::id(&delivery["id"])),
        ("event", cells::value(&delivery["event_type"])),
        ("status", cells::status(&delivery["status"])),
        ("tries", cells::value(&delivery["attempts"])),
        ("code", cells::value(&delivery["last_status_code"])),
        ("error", cells::value(&delivery["last_error"])),
        ("created", cells::time(&delivery["created_at"])),
    ])
}

fn health_view(health: &Value) -> View {
    let mut fields = vec![("state", cells::status(&health["state"]))];
    if health["resting_until"].is_string() {
        fields.push(("resting until", cells::time(&health["resting_until"])));
    }
    fields.extend([
        ("failures in a row", cells::value(&health["consecutive_failures"])),
        ("waiting", cells::value(&health["waiting"])),
        ("delivered", cells::value(&health["delivered"])),
        ("dead", cells::value(&health["dead"])),
        ("accepted share", cells::decimal(&health["success_share"], 3)),
    ]);
    for (name, key) in [("half within", "p50_ms"), ("95 % within", "p95_ms")] {
        if let Some(millis) = health[key].as_i64() {
            fields.push((name, cells::text(format!("{millis} ms"))));
        }
    }
    fields.push(("since", cells::time(&health["since"])));
    View::new().fields(fields)
}

fn deliveries_view(deliveries: &[Value]) -> View {
    let columns = [
        whole("ID"),
        left("EVENT"),
        left("OBJECT"),
        left("STATUS"),
        right("TRIES"),
        right("CODE"),
        left("CREATED"),
        left("ERROR"),
    ];
    View::new().table(Table::of(columns, deliveries, |delivery| {
        [
            cells::id(&delivery["id"]),
            cells::value(&delivery["event_type"]),
            cells::value(&delivery["object_id"]),
            cells::status(&delivery["status"]),
            cells::value(&delivery["attempts"]),
            cells::value(&delivery["last_status_code"]),
            cells::time(&delivery["created_at"]),
            cells::value(&delivery["last_error"]),
        ]
    }))
}
