//! `auspex rules`: conditions, what they lead to, and what they would have led to.

use std::time::Duration;

use clap::{Args, Subcommand};
use client::Method;
use serde_json::{Map, Value, json};

use crate::cells;
use crate::context::{Common, Context, delete, get, send};
use crate::data::Data;
use crate::failure::Failure;
use crate::messages::remark;
use crate::output::View;
use crate::paging::Paging;
use crate::prompt;
use crate::table::{Table, left, right, whole};
use crate::waiting;

/// Longer than any replay takes.
const LONG: Duration = Duration::from_hours(24);

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List all rules.
    #[command(after_help = "Examples:
  auspex rules list")]
    List,
    /// Show a rule.
    #[command(after_help = "Examples:
  auspex rules get \"$RULE\"")]
    Get {
        /// The rule's id.
        id: String,
    },
    /// Create a rule.
    Create(Create),
    /// Change a rule; what is left out stays.
    Update(Update),
    /// Evaluate a rule again.
    #[command(after_help = "Examples:
  auspex rules enable \"$RULE\"")]
    Enable {
        /// The rule's id.
        id: String,
    },
    /// Stop evaluating a rule.
    #[command(after_help = "Examples:
  auspex rules disable \"$RULE\"")]
    Disable {
        /// The rule's id.
        id: String,
    },
    /// Delete a rule.
    #[command(after_help = "Examples:
  auspex rules delete \"$RULE\" --yes")]
    Delete {
        /// The rule's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Check a condition: what is wrong with it, or how many objects it is true for. One that is not valid is exit code 5.
    #[command(after_help = "Examples:
  auspex rules check 'is_scammer > 0.65 and not buyer_intent = browsing'")]
    Check {
        /// The condition.
        when: String,
        /// Check it as a query of objects, which knows no facts.
        #[arg(long)]
        query: bool,
    },
    /// List firings, newest first.
    #[command(after_help = "Examples:
  auspex rules firings --rule \"$RULE\"
  auspex rules firings --object seller/42 --limit 5")]
    Firings {
        /// Only firings of this rule.
        #[arg(long, value_name = "ID")]
        rule: Option<String>,
        /// Only firings about this object.
        #[arg(long, value_name = "ID")]
        object: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what a rule would have done. No model runs and nothing is charged.
    Replay(Replay),
}

/// Creates a rule.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex rules create 'is_scammer > 0.65' --email you@example.com
  auspex rules create 'is_scammer > 0.65 and events(reported, 24h) >= 3' --review fraud --mode shadow
  auspex rules create 'trust_score < 1' --endpoint \"$ENDPOINT\" --name 'low trust' --cooldown 3600
  auspex rules create -d '{\"when\": \"is_scammer > 0.65\", \"action_type\": \"email\", \"action_config\": {\"to\": \"you@example.com\"}}'")]
pub struct Create {
    /// The condition.
    #[arg(required_unless_present = "data")]
    when: Option<String>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    action: Action,
    /// The rule: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON", conflicts_with_all = ["when", "Options", "Action"])]
    data: Option<Data>,
}

/// Changes a rule.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex rules update \"$RULE\" --when 'is_scammer > 0.65' --mode live
  auspex rules update \"$RULE\" -d '{\"cooldown_seconds\": 60}'")]
pub struct Update {
    /// The rule's id.
    id: String,
    /// The condition.
    #[arg(long, value_name = "CONDITION")]
    when: Option<String>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    action: Action,
    /// The change: JSON, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON", conflicts_with_all = ["when", "Options", "Action"])]
    data: Option<Data>,
}

/// What a rule has beside condition and action.
#[derive(Args)]
struct Options {
    /// A name of your choice.
    #[arg(long)]
    name: Option<String>,
    /// live, or shadow: evaluated and recorded, but nothing is sent.
    #[arg(long, value_parser = ["live", "shadow"])]
    mode: Option<String>,
    /// How many seconds the rule stays quiet about an object after it fired.
    #[arg(long, value_name = "SECONDS")]
    cooldown: Option<u32>,
}

/// What a rule does.
#[derive(Args)]
#[group(multiple = false)]
struct Action {
    /// Mail to this address.
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Post to this incoming webhook of Slack.
    #[arg(long, value_name = "URL")]
    slack: Option<String>,
    /// Send a signed delivery to this endpoint.
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Open a review in this queue.
    #[arg(long, value_name = "QUEUE")]
    review: Option<String>,
}

/// Replays a rule.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex rules replay 'is_scammer > 0.5'
  auspex rules replay 'is_scammer > 0.5' --cooldown 3600 --from 2026-01-01T00:00:00Z --json")]
pub struct Replay {
    /// The condition.
    when: String,
    /// How many seconds the rule would stay quiet about an object after it fired.
    #[arg(long, value_name = "SECONDS")]
    cooldown: Option<u32>,
    /// From this time on, in RFC 3339; by default, everything that is kept.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Up to this time, in RFC 3339.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl Action {
    /// `action_type` and `action_config`, if an action was given.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let choices = [
            ("email", "to", &self.email),
            ("slack", "webhook_url", &self.slack),
            ("webhook", "endpoint_id", &self.endpoint),
            ("review", "queue", &self.review),
        ];
        let given = choices.into_iter().find_map(|(kind, name, value)| Some((kind, name, value.as_ref()?)));
        given.map_or_else(Vec::new, |(kind, name, value)| {
            vec![("action_type", json!(kind)), ("action_config", json!({name: value}))]
        })
    }
}

/// The rule that the arguments describe, without what was not given.
fn describe(when: Option<&String>, options: &Options, action: &Action) -> Map<String, Value> {
    let mut fields = vec![
        ("when", json!(when)),
        ("name", json!(options.name)),
        ("mode", json!(options.mode)),
        ("cooldown_seconds", json!(options.cooldown)),
    ];
    fields.extend(action.fields());
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    given.map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match self {
            Self::List => context.show(get(&["v1", "rules"])?, rules_view).await,
            Self::Get { id } => context.show(get(&["v1", "rules", id])?, rule_view).await,
            Self::Create(create) => create.run(&context).await,
            Self::Update(update) => update.run(&context).await,
            Self::Enable { id } => change(&context, id, &json!({"enabled": true})).await,
            Self::Disable { id } => change(&context, id, &json!({"enabled": false})).await,
            Self::Delete { id, yes } => {
                prompt::confirm("Delete the rule?", *yes)?;
                context.done(delete(&["v1", "rules", id])?, "The rule is deleted.").await
            }
            Self::Check { when, query } => {
                let place = if *query { "query" } else { "rule" };
                let call =
                    send(Method::POST, &["v1", "conditions", "check"], &json!({"when": when, "for": place}))?;
                let (response, check) = context.fetch(call).await?;
                context.output.record(&response.body, check_view(when, &check))?;
                if check["valid"] == json!(true) {
                    return Ok(());
                }
                Err(Failure::Invalid(format!("the condition is not valid: {}", message_of(&check))))
            }
            Self::Firings { rule, object, paging } => {
                let call = get(&["v1", "rule_firings"])?
                    .query("rule_id", rule.as_ref())
                    .query("object_id", object.as_ref());
                paging.list(&context, call, "firings", firings_view).await
            }
            Self::Replay(replay) => replay.run(&context).await,
        }
    }
}

impl Create {
    async fn run(&self, context: &Context) -> Result<(), Failure> {
        let call = if let Some(data) = &self.data {
            send(Method::POST, &["v1", "rules"], data.raw())?
        } else if self.action.fields().is_empty() {
            return Err(Failure::Usage(
                "give an action: --email, --slack, --endpoint or --review".to_owned(),
            ));
        } else {
            send(Method::POST, &["v1", "rules"], &describe(self.when.as_ref(), &self.options, &self.action))?
        };
        context.show(call, rule_view).await
    }
}

impl Update {
    async fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.data {
            Some(data) => change(context, &self.id, data.raw()).await,
            None => {
                change(context, &self.id, &describe(self.when.as_ref(), &self.options, &self.action)).await
            }
        }
    }
}

async fn change(
    context: &Context,
    id: &str,
    change: &(impl serde::Serialize + ?Sized),
) -> Result<(), Failure> {
    context.show(send(Method::PATCH, &["v1", "rules", id], change)?, rule_view).await
}

impl Replay {
    async fn run(&self, context: &Context) -> Result<(), Failure> {
        let given = [
            ("when", json!(self.when)),
            ("cooldown_seconds", json!(self.cooldown)),
            ("from", json!(self.from)),
            ("to", json!(self.to)),
        ];
        let given = given.into_iter().filter(|(_, value)| !value.is_null());
        let body: Map<String, Value> = given.map(|(name, value)| (name.to_owned(), value)).collect();
        let (mut response, mut replay) =
            context.fetch(send(Method::POST, &["v1", "rules", "replay"], &body)?).await?;
        // A long history is replayed in the background.
        if response.status.as_u16() == 202 {
            let id = replay["id"].as_str().unwrap_or_default().to_owned();
            let ask = async || {
                let (response, value) = context.fetch(get(&["v1", "rules", "replays", &id])?).await?;
                Ok(((response, value.clone()), value))
            };
            let is_over = |replay: &Value| replay["status"] != "running";
            (response, replay) = waiting::until("replaying the rule", LONG, ask, is_over).await?;
            if replay["status"] == "failed" {
                return Err(Failure::other(cells::value(&replay["error"]).text(None)));
            }
        }
        context.output.record(&response.body, replay_view(&replay))?;
        self.remark_versions(context, &replay).await
    }

    /// Says which signals of the condition were changed within the range: answers before and after that are to different
    /// questions, and the replay takes both.
    async fn remark_versions(&self, context: &Context, replay: &Value) -> Result<(), Failure> {
        let body = json!({"when": self.when, "for": "rule"});
        let (_, check) = context.fetch(send(Method::POST, &["v1", "conditions", "check"], &body)?).await?;
        for key in check["signals"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (_, list) = match context.fetch(get(&["v1", "signals", key, "versions"])?).await {
                // A signal that was deleted meanwhile has no versions.
                Err(Failure::Call(error)) if error.status() == Some(404) => continue,
                found => found?,
            };
            let within = |version: &&Value| {
                // Times sort as text.
                let at = version["created_at"].as_str();
                at > replay["from"].as_str() && at < replay["to"].as_str()
            };
            let mut changes: Vec<&Value> =
                list["versions"].as_array().into_iter().flatten().filter(within).collect();
            changes.sort_by_key(|version| version["version"].as_u64());
            let changes: Vec<String> = changes
                .into_iter()
                .filter(|version| version["version"] != json!(1))
                .map(|version| {
                    format!(
                        "version {} at {}",
                        version["version"],
                        version["created_at"].as_str().unwrap_or("")
                    )
                })
                .collect();
            if !changes.is_empty() {
                remark(&format!(
                    "{key} was changed within the range ({}): the replay mixes answers to different wordings; --from and --to narrow it",
                    changes.join(", ")
                ));
            }
        }
        Ok(())
    }
}

fn rules_view(list: &Value) -> View {
    let rules = list["rules"].as_array().cloned().unwrap_or_default();
    let columns = [whole("ID"), left("WHEN"), left("ACTION"), left("MODE"), left("ENABLED"), left("NAME")];
    View::new().table(Table::of(columns, &rules, |rule| {
        [
            cells::id(&rule["id"]),
            cells::value(&rule["when"]),
            cells::value(&rule["action_type"]),
            cells::status(rule.get("mode").unwrap_or(&json!("live"))),
            cells::status(&rule["enabled"]),
            cells::value(&rule["name"]),
        ]
    }))
}

fn rule_view(rule: &Value) -> View {
    View::new().fields([
        ("id", cells::id(&rule["id"])),
        ("name", cells::value(&rule["name"])),
        ("when", cells::value(&rule["when"])),
        ("action", cells::value(&rule["action_type"])),
        ("config", cells::value(&rule["action_config"])),
        ("mode", cells::status(rule.get("mode").unwrap_or(&json!("live")))),
        ("enabled", cells::status(&rule["enabled"])),
        ("cooldown", cells::text(format!("{} s", rule["cooldown_seconds"]))),
    ])
}

/// What is wrong with a condition.
fn message_of(check: &Value) -> String {
    cells::value(&check["error"]["message"]).text(None)
}

fn check_view(when: &str, check: &Value) -> View {
    if check["valid"] != json!(true) {
        let at = check["error"]["at"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        return View::new()
            .line(cells::text(when).text(None))
            .line(format!("{}^", " ".repeat(at.min(when.chars().count()))));
    }
    let mut fields =
        vec![("valid", cells::status(&json!(true))), ("signals", cells::value(&check["signals"]))];
    if let Some(count) = check["matches"]["count"].as_u64() {
        let more = if check["matches"]["capped"] == json!(true) { " or more" } else { "" };
        fields.push(("true for", cells::text(format!("{count}{more} objects"))));
    }
    View::new().fields(fields)
}

fn firings_view(firings: &[Value]) -> View {
    let columns =
        [left("WHEN"), left("OBJECT"), left("STATUS"), left("CONDITION"), left("ACTION"), left("DETAIL")];
    View::new().table(Table::of(columns, firings, |firing| {
        [
            cells::time(&firing["fired_at"]),
            cells::value(&firing["object_id"]),
            cells::status(&firing["status"]),
            cells::value(&firing["matched_when"]),
            cells::value(&firing["action_type"]),
            cells::value(&firing["detail"]),
        ]
    }))
}

fn replay_view(replay: &Value) -> View {
    let complete =
        if replay["complete"] == json!(true) { "yes" } else { "no: a part of the past is no longer kept" };
    let mut view = View::new().fields([
        ("firings", cells::value(&replay["firings"])),
        ("objects", cells::value(&replay["objects"])),
        ("from", cells::time(&replay["from"])),
        ("to", cells::time(&replay["to"])),
        ("complete", cells::text(complete)),
    ]);
    let list = |name: &str| replay[name].as_array().cloned().unwrap_or_default();
    if !list("by_day").is_empty() {
        let table = Table::of([left("DAY"), right("FIRINGS")], &list("by_day"), |day| {
            [cells::value(&day["day"]), cells::value(&day["firings"])]
        });
        view = view.title("By day").table(table);
    }
    if !list("overlap").is_empty() {
        let columns = [left("RULE"), right("BOTH"), right("ONLY THIS"), right("ONLY THAT")];
        let table = Table::of(columns, &list("overlap"), |rule| {
            [
                cells::value(&rule["name"]),
                cells::value(&rule["both"]),
                cells::value(&rule["only_this"]),
                cells::value(&rule["only_that"]),
            ]
        });
        view = view.title("Overlap with other rules, by objects").table(table);
    }
    if list("examples").is_empty() {
        return view;
    }
    view.title("Examples").table(Table::of(
        [left("WHEN"), left("OBJECT"), left("ANSWERS")],
        &list("examples"),
        |example| {
            [
                cells::time(&example["at"]),
                cells::value(&example["object_id"]),
                cells::value(&example["signal_values"]),
            ]
        },
    ))
}
