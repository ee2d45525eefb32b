//! `auspex demo`: a marketplace story on a temporary database, played through the real HTTP API and the client crate, so
//! that a newcomer understands in a minute what the service is for.

mod page;
mod receiver;
mod story;

use std::time::{Duration, Instant};

use client::api::{
    ActionType, RegisterRequest, Rule, RuleCreate, Signal, SignalResult, WebhookEndpointCreate,
};
use client::webhook::Payload;
use client::{Answer, Client, FiringsQuery, Ingest, LedgerQuery, ObjectSort, ObjectsQuery};
use service::{Clock, Random};

use self::page::Page;
use self::receiver::Receiver;
use self::story::{Account, Activity, WHEN};
use super::CommandResult;
use crate::config::{self, Config};
use crate::{Server, serve};

/// How long to wait for results that should come within seconds: the machine may be slow.
const TIMEOUT: Duration = Duration::from_mins(2);
/// After this time, the demo says what it is waiting for.
const SLOW_AFTER: Duration = Duration::from_secs(2);
const EMAIL: &str = "you@nightmarket.example";
const PASSWORD: &str = "correct horse battery staple";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Keep the service and its data afterwards, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

type DemoResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(super) async fn run(arguments: Arguments) -> CommandResult {
    let stopping = serve::stop_signal()?;
    let directory = tempfile::Builder::new().prefix("auspex-demo-").tempdir()?;
    let server = Server::start(settings(directory.path())?, Clock::system(), Random::system()?).await?;
    let receiver = Receiver::start().await?;
    let story = async {
        let page = Page::new();
        play(&page, server.public_url(), &receiver, arguments.keep).await?;
        if arguments.keep {
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = story => outcome,
        () = stopping => Ok(()),
    };
    receiver.stop().await;
    server.stop().await;
    outcome
}

/// The settings of the demo's own service. Of the environment, only the analyzer and its prices apply.
fn settings(directory: &std::path::Path) -> DemoResult<Config> {
    const KEPT: [&str; 3] = ["AUSPEX_ANALYZER", "AUSPEX_PRICE_", "AUSPEX_COST_MARGIN"];
    let kept = config::environment().filter(|(name, _)| KEPT.iter().any(|prefix| name.starts_with(prefix)));
    let data_dir = directory.display().to_string();
    let overrides = [
        ("AUSPEX_LISTEN", "127.0.0.1:0"),
        ("AUSPEX_DATA_DIR", data_dir.as_str()),
        ("AUSPEX_DEBOUNCE_MS", "300"),
        ("AUSPEX_ANALYZER_TIMEOUT_MS", "120000"),
        ("AUSPEX_ALLOW_PRIVATE_TARGETS", "true"),
    ];
    let overrides = overrides.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Config::from_environment(kept.chain(overrides))?)
}

async fn play(page: &Page, url: &str, receiver: &Receiver, keep: bool) -> DemoResult {
    page.title("Auspex", "Send events about anything. Read typed answers about it.");
    page.note(&format!("A service of its own runs at {url}, on a temporary database."));

    let client = open_account(page, url).await?;
    let signals = show_signals(page, &client).await?;
    let rule = create_rule(page, &client, receiver).await?;
    send_events(page, &client).await?;
    show_answers(page, &client, &signals).await?;
    show_firings(page, &client, &rule, receiver).await?;
    ask_for_verdicts(page, &client, &signals).await?;
    search(page, &client).await?;
    show_costs(page, &client).await?;
    show_next_steps(page, url, keep);
    Ok(())
}

async fn open_account(page: &Page, url: &str) -> DemoResult<Client> {
    page.chapter(
        "Open an account",
        "You run a marketplace. Its account gets some credit and three questions to start with.",
    );
    let anonymous = Client::builder(url).build()?;
    let request = RegisterRequest {
        tenant_name: "Night Market".to_owned(),
        email: EMAIL.to_owned(),
        password: PASSWORD.to_owned(),
    };
    let token = anonymous.register(&request).await?;
    page.call("POST /auth/console/register", "Night Market");
    let user = Client::builder(url).token(token.token).build()?;
    let key = user.create_key(Some("demo")).await?;
    page.call("POST /v1/api_keys", &key.key);
    page.note("From here on every request is signed with that key, for its method and path, for a minute.");
    Ok(Client::builder(url).key(key.key, key.secret).timeout(TIMEOUT).build()?)
}

async fn show_signals(page: &Page, client: &Client) -> DemoResult<Vec<Signal>> {
    page.chapter(
        "Signals are questions",
        "Each is asked about every object, in your words. These are yours to edit.",
    );
    let signals = client.signals().await?;
    page.call("GET /v1/signals", &format!("{} questions", signals.len()));
    for signal in &signals {
        let instructions: serde_json::Value = serde_json::from_str(signal.instructions.get())?;
        page.question(signal, instructions.as_str().unwrap_or_default());
    }
    Ok(signals)
}

async fn create_rule(page: &Page, client: &Client, receiver: &Receiver) -> DemoResult<Rule> {
    page.chapter(
        "A rule acts on answers",
        "When its condition turns true for an object, something happens: a mail, a chat message, a webhook.",
    );
    let endpoint = WebhookEndpointCreate {
        url: receiver.url(),
        description: Some("the demo's receiver".to_owned()),
        signal_keys: None,
        events: None,
        enabled: None,
    };
    let created = client.create_webhook(&endpoint).await?;
    receiver.expect(created.secret);
    page.call("POST /v1/webhooks", &endpoint.url);
    let mut config = serde_json::Map::new();
    config.insert("endpoint_id".to_owned(), created.endpoint.id.to_string().into());
    let rule = RuleCreate {
        name: Some("Likely scammer".to_owned()),
        when: WHEN.to_owned(),
        action_type: ActionType::Webhook,
        action_config: config,
        enabled: None,
        mode: None,
        cooldown_seconds: None,
    };
    let rule = client.create_rule(&rule).await?;
    page.call("POST /v1/rules", &format!("when {} then call that webhook", rule.when));
    Ok(rule)
}

async fn send_events(page: &Page, client: &Client) -> DemoResult {
    page.chapter(
        "Send what happens",
        "An object is anything you name. It exists once its first event is sent.",
    );
    for Account { id, kind, about, activities } in story::ACCOUNTS {
        let events = activities.iter().map(Activity::event);
        let sent = client.send(id, Ingest::new(events).object_type(*kind)).await?;
        page.object(id, about);
        for activity in *activities {
            page.activity(activity);
        }
        page.call(&format!("POST /v1/objects/{id}/events"), &format!("{} recorded", sent.accepted.accepted));
    }
    Ok(())
}

async fn show_answers(page: &Page, client: &Client, signals: &[Signal]) -> DemoResult {
    page.chapter(
        "Read the answers",
        "Once an object is quiet it is analyzed: all questions, over its whole history.",
    );
    let started = Instant::now();
    let mut is_noted = false;
    for account in story::ACCOUNTS {
        let Some(answers) = answers_about(client, account.id, started, || {
            if !std::mem::replace(&mut is_noted, true) {
                page.note("The model reads on this machine's own processor; that takes some seconds …");
            }
        })
        .await?
        else {
            page.note(&format!("{} has no answers yet; the analyzer takes its time.", account.id));
            continue;
        };
        page.object(account.id, account.about);
        let model = answers.first().and_then(|answer| answer.model.clone()).unwrap_or_default();
        let answers: Vec<Answer> = answers.into_iter().map(Into::into).collect();
        page.answers(&answers, signals);
        page.call(&format!("GET /v1/objects/{}", account.id), &format!("answered by {model}"));
    }
    Ok(())
}

/// Waits until every question about an object is answered; calls `slow` while that takes longer than usual.
async fn answers_about(
    client: &Client,
    object_id: &str,
    started: Instant,
    mut slow: impl FnMut(),
) -> DemoResult<Option<Vec<SignalResult>>> {
    while started.elapsed() < TIMEOUT {
        let object = client.object(object_id).await?;
        if object.pending.is_empty() && !object.analysis.is_empty() {
            return Ok(Some(object.analysis));
        }
        if started.elapsed() > SLOW_AFTER {
            slow();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(None)
}

async fn show_firings(page: &Page, client: &Client, rule: &Rule, receiver: &Receiver) -> DemoResult {
    page.chapter(
        "What the rule did",
        "Nobody watched. The service called the webhook, and the receiver checked the signature.",
    );
    let query = FiringsQuery { rule_id: Some(rule.id), ..FiringsQuery::default() };
    let firings = client.firings(&query).await?;
    page.call("GET /v1/rule_firings", &format!("{} so far", firings.len()));
    if firings.is_empty() {
        page.note(&format!("No answer met {}, so the rule did not fire. Another analyzer may see it otherwise: set AUSPEX_ANALYZER.", rule.when));
    }
    for firing in &firings {
        page.firing(&firing.object_id, &firing.matched_when, firing.signal_values.as_ref());
    }
    // The webhook gets every analysis as well as every firing.
    let expected = firings.len() + story::ACCOUNTS.len();
    let arrived = receiver.wait_for(expected, TIMEOUT).await;
    for delivery in &arrived {
        let what = match &delivery.payload {
            Payload::RuleTriggered(payload) => format!("rule.triggered       {}", payload.object_id),
            Payload::AnalysisCompleted(payload) => format!("analysis.completed   {}", payload.object_id),
            Payload::ReviewOpened(event) | Payload::ReviewResolved(event) => {
                format!("{:<20} {}", event.event, event.review.object_id)
            }
            Payload::Other(_) => "something else".to_owned(),
        };
        page.delivery(&what, delivery.verified.as_ref().err());
    }
    if arrived.len() < expected {
        page.note(&format!(
            "{} of {expected} deliveries had arrived by now; the others are tried again.",
            arrived.len()
        ));
    }
    Ok(())
}

async fn ask_for_verdicts(page: &Page, client: &Client, signals: &[Signal]) -> DemoResult {
    page.chapter(
        "Or ask before you publish",
        "With \"wait\": true the answer comes back with the request: moderation in line.",
    );
    for (id, activity) in story::VERDICTS {
        let events = Ingest::new([activity.event()]).object_type("seller").signals(["is_scammer"]);
        let verdict = client.verdict(id, events).await?;
        page.object(id, "wants to publish this message:");
        page.activity(activity);
        page.answers(&verdict.answers, signals);
        let risk = verdict.answers.first().and_then(|answer| answer.value.noul).unwrap_or(0.0);
        let decision = if risk > 0.5 { "you would hold it back" } else { "you would publish it" };
        page.call(
            &format!("POST /v1/objects/{id}/events"),
            &format!("{} ms, {decision}", verdict.latency_ms),
        );
    }
    Ok(())
}

async fn search(page: &Page, client: &Client) -> DemoResult {
    page.chapter("Find objects by their answers", "The language of rules is the language of search.");
    let q = Some(WHEN.to_owned());
    let found =
        client.objects(&ObjectsQuery { q, sort: ObjectSort::Flagged, ..ObjectsQuery::default() }).await?;
    page.call(&format!("GET /v1/objects?q={WHEN}&sort=flagged"), &format!("{} found", found.objects.len()));
    for object in &found.objects {
        let risk = object.analysis.iter().filter_map(|answer| answer.value.noul).fold(0.0, f64::max);
        page.found(&object.object_id, risk);
    }
    Ok(())
}

async fn show_costs(page: &Page, client: &Client) -> DemoResult {
    page.chapter(
        "What it cost",
        "Every analysis is a line of a ledger, and the sum of the ledger is the balance.",
    );
    let ledger = client.ledger(&LedgerQuery { limit: Some(200), ..LedgerQuery::default() }).await?;
    let charges: Vec<i64> =
        ledger.entries.iter().map(|entry| entry.delta_micros).filter(|delta| *delta < 0).collect();
    let balance = ledger.entries.first().map_or(0, |entry| entry.balance_after_micros);
    page.call("GET /v1/billing/ledger", &format!("{} charges", charges.len()));
    page.money("spent", -charges.iter().sum::<i64>());
    page.money("balance", balance);
    Ok(())
}

fn show_next_steps(page: &Page, url: &str, keep: bool) {
    page.chapter("Your turn", "");
    if keep {
        page.note(&format!("The service still runs at {url}. Sign in as {EMAIL}, password: {PASSWORD}"));
        page.note("Ctrl-C ends it and removes everything.");
    } else {
        page.note("auspex demo --keep      leaves this service running, to try things on");
        page.note("auspex serve            runs one that stays, in ./data");
        page.note("auspex import FILE      sends it the events that you have");
    }
}
