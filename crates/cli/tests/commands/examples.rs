//! The examples of every `--help`, run as a person would run them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use auspex_cli::Command;
use clap::Subcommand as _;
use client::api::{EventInput, ReviewCreate, ReviewResolve, TrialCreate, TrialStatus, WebhookEndpointCreate};
use client::{Client, DeliveriesQuery, Ingest};
use serde_json::{Value, json};
use testkit::{Backend, Stage, StripePeer, run_on};

use crate::world::{PASSWORD, Person, World, eventually};

/// A service that takes payments by card, for the examples about money.
struct Shop {
    world: World,
    _stripe: StripePeer,
}

impl Stage for Shop {
    async fn set_up(backend: Backend) -> Self {
        let key = "sk_test_0123456789abcdef";
        let stripe = StripePeer::start(key);
        let settings = [
            ("AUSPEX_STRIPE_SECRET_KEY", key),
            ("AUSPEX_STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef"),
            ("AUSPEX_STRIPE_API_URL", stripe.url().as_str()),
        ];
        Self { world: World::with(backend, &settings).await, _stripe: stripe }
    }

    async fn tear_down(self) {
        self.world.tear_down().await;
    }
}

/// Every command that does something, with the examples of its help.
fn commands() -> Vec<(String, Vec<String>)> {
    fn collect(path: &str, command: &clap::Command, found: &mut Vec<(String, Vec<String>)>) {
        let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = own.split_once("Examples:\n").map_or("", |(_, examples)| examples);
        let mut lines: Vec<String> = Vec::new();
        for line in examples.lines() {
            match lines.last_mut() {
                Some(last) if line.starts_with("    ") => *last = format!("{last}\n{line}"),
                _ => lines.push(line.trim().to_owned()),
            }
        }
        if command.get_subcommands().next().is_none() || !lines.is_empty() {
            found.push((path.to_owned(), lines));
        }
        for inner in command.get_subcommands() {
            collect(format!("{path} {}", inner.get_name()).trim(), inner, found);
        }
    }
    let (program, mut found) = (Command::augment_subcommands(clap::Command::new("auspex")), Vec::new());
    for command in program.get_subcommands() {
        collect(command.get_name(), command, &mut found);
    }
    found
}

#[test]
fn every_command_has_an_example() {
    let lacking: Vec<String> =
        commands().into_iter().filter(|(_, examples)| examples.is_empty()).map(|(path, _)| path).collect();
    assert_eq!(lacking, Vec::<String>::new());
}

#[test]
fn every_example_works() {
    run_on(Backend::Sqlite, async |Shop { world, .. }: &Shop| {
        let mut failures = Vec::new();
        for (path, examples) in commands() {
            for example in examples {
                let person = prepare(world, &example).await;
                let ran = person.shell(&example);
                let prints = !example.contains("> ") || example.contains('\'');
                if ran.code != 0 || (prints && ran.out.is_empty()) {
                    failures.push(format!("{path}: {example}\n{ran:?}"));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    });
}

/// What agents are taught works as it stands, in its order.
#[test]
fn every_command_that_agents_are_taught_works() {
    let skill = include_str!("../../../../docs/agents/SKILL.md");
    let commands: Vec<&str> = skill.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() > 10, "{commands:?}");
    run_on(Backend::Sqlite, async |world: &World| {
        let person = world.person();
        for command in commands {
            let ran = person.shell(command);
            assert!(ran.code == 0 && !ran.out.is_empty(), "{command}\n{ran:?}");
        }
    });
}

/// A person with an account that has what the example names.
async fn prepare(world: &World, example: &str) -> Person {
    let mut person = world.person();
    let set =
        |person: &mut Person, name: &str, value: String| person.variables.push((name.to_owned(), value));
    set(&mut person, "PASSWORD", PASSWORD.to_owned());
    let email = person.email.clone();
    set(&mut person, "EMAIL", email);
    let stored: toml::Table = std::fs::read_to_string(person.credentials()).unwrap().parse().unwrap();
    let text = |name: &str| stored["default"][name].as_str().unwrap().to_owned();
    let client = Client::builder(&world.url).key(text("key"), text("secret")).build().unwrap();
    let message = EventInput::message("Pay me by gift card");
    client.verdict("seller/42", Ingest::new([message])).await.unwrap();
    if example.contains("$DELIVERY") {
        make_endpoint(&client).await;
        client.send("seller/42", Ingest::new([EventInput::event("sale")])).await.unwrap();
    }
    for name in ["RULE", "ENDPOINT", "KEY_ID", "LABEL", "TRIAL", "DELIVERY", "REVIEW", "CLAIMED", "RESOLVED"]
    {
        if example.contains(&format!("${name}\"")) {
            let value = make(&client, &person, name).await;
            set(&mut person, name, value);
        }
    }
    if example.contains("calibration fit") || example.contains("$CALIBRATION") {
        label_many(&client).await;
    }
    if example.contains("$CALIBRATION") {
        let fitted = person.json(&["signals", "calibration", "fit", "is_scammer"]);
        set(&mut person, "CALIBRATION", fitted["id"].as_str().unwrap().to_owned());
    }
    if example.contains("$LISTENING") {
        let endpoint = make_endpoint_at(&client, &accepting()).await;
        set(&mut person, "LISTENING", endpoint);
    }
    if example.contains("reviews next") {
        make(&client, &person, "REVIEW").await;
    }
    person
}

/// As many labels as a calibration needs, half of them of scammers.
async fn label_many(client: &Client) {
    let mut labels = Vec::new();
    for number in 0..60 {
        let (object_id, is_scammer) = (format!("labelled/{number}"), number % 2 == 0);
        let said = if is_scammer { "Pay me by gift card" } else { "Thank you, it works" };
        client.verdict(&object_id, Ingest::new([EventInput::message(said)])).await.unwrap();
        let label = json!({"object_id": object_id, "signal": "is_scammer", "value": is_scammer});
        labels.push(serde_json::from_value(label).unwrap());
    }
    client.put_labels(&labels).await.unwrap();
}

/// The address of a receiver that accepts a delivery.
fn accepting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut connection, _)) = listener.accept() {
            let mut length = 0;
            let mut request = BufReader::new(connection.try_clone().unwrap());
            for line in request.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let _ = request.take(length).read_to_end(&mut Vec::new());
            let _ =
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    format!("http://{address}/hook")
}

async fn make_endpoint(client: &Client) -> String {
    make_endpoint_at(client, "http://127.0.0.1:9/hook").await
}

async fn make_endpoint_at(client: &Client, url: &str) -> String {
    let url = url.to_owned();
    let endpoint =
        WebhookEndpointCreate { url, description: None, signal_keys: None, events: None, enabled: None };
    client.create_webhook(&endpoint).await.unwrap().endpoint.id.to_string()
}

/// Makes what a variable of an example stands for, and returns its id.
async fn make(client: &Client, person: &Person, name: &str) -> String {
    let id = |value: Value| value["id"].as_str().unwrap().to_owned();
    match name {
        "RULE" => id(person.json(&["rules", "create", "is_scammer > 0.65", "--review", "fraud"])),
        "ENDPOINT" => make_endpoint(client).await,
        "KEY_ID" => client.create_key(Some("second")).await.unwrap().api_key.id.to_string(),
        "LABEL" => id(person.json(&["labels", "set", "seller/42", "is_scammer", "true"])),
        "DELIVERY" => {
            eventually("the delivery is dead", async || {
                let deliveries = client.deliveries(&DeliveriesQuery::default()).await.unwrap();
                deliveries
                    .iter()
                    .find(|delivery| json!(delivery)["status"] == "dead")
                    .map(|delivery| delivery.id.to_string())
            })
            .await
        }
        "TRIAL" => {
            let trial: TrialCreate =
                serde_json::from_value(json!({"instructions": "Is this fraud?", "over": "recent"})).unwrap();
            let id = client.start_trial("is_scammer", &trial).await.unwrap().id;
            eventually("the trial is done", async || {
                let trial = client.trial("is_scammer", id).await.unwrap();
                (trial.status == TrialStatus::Done).then(|| id.to_string())
            })
            .await
        }
        _ => {
            let (object_id, queue) = ("seller/42".to_owned(), "fraud".to_owned());
            let review = client.open_review(&ReviewCreate { object_id, queue, signals: None }).await.unwrap();
            if name == "CLAIMED" {
                client.claim_review(review.id).await.unwrap();
            }
            if name == "RESOLVED" {
                let decision = ReviewResolve { decision: "ban".to_owned(), note: None, labels: None };
                client.resolve_review(review.id, &decision).await.unwrap();
            }
            review.id.to_string()
        }
    }
}
