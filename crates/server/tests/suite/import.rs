//! `auspex import`: a file becomes events, each of them once, whatever happens on the way.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use service::Clock;
use store::Backend;
use testkit::Stage;

use crate::app::App;
use crate::signer::Signer;

testkit::on_both!(
    an_import_that_was_killed_goes_on_and_nothing_is_there_twice,
    bad_lines_are_named_or_skipped,
    what_cannot_begin_is_said_clearly,
    what_was_exported_can_be_imported,
    columns_of_csv_become_events,
    labels_are_imported_in_both_formats,
);

/// A service by the real time, which the command signs by, and a key.
struct Target {
    app: App,
}

impl Stage for Target {
    async fn set_up(backend: Backend) -> Self {
        Self { app: App::start_at(backend, &[], Clock::system().now()).await }
    }

    async fn tear_down(self) {
        self.app.advance(Duration::from_mins(1));
        self.app.tear_down().await;
    }
}

fn import(app: &App, signer: &Signer, file: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_auspex"));
    command.arg("import").arg(file).args(options).env_clear();
    command.env("AUSPEX_URL", app.url("")).env("AUSPEX_API_KEY", &signer.key);
    command.env("AUSPEX_API_SECRET", &signer.secret).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end beside the service, whose clock must keep up: the command signs by the machine's.
async fn finish(app: &App, mut command: Command) -> (Output, String) {
    let mut running = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = loop {
        app.advance(Clock::system().now().since(app.now()));
        if let Ok(ended) = tokio::time::timeout(Duration::from_secs(1), &mut running).await {
            break ended.unwrap();
        }
    };
    let told = [output.stdout.as_slice(), &output.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    assert!(!told.contains("panicked"), "{told}");
    (output, told)
}

async fn key(app: &App) -> Signer {
    let token = app.register("ada@acme.example").await;
    app.api_key(&token).await
}

async fn event_count(app: &App, signer: &Signer, object: &str) -> i64 {
    let object = object.replace('/', "%2F");
    let reply = signer.call(app, Method::GET, &format!("/v1/objects/{object}"), &Value::Null).await;
    if reply.status == 404 { 0 } else { reply.json()["event_count"].as_i64().unwrap() }
}

fn journal(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.auspex-journal", file.display()))
}

async fn an_import_that_was_killed_goes_on_and_nothing_is_there_twice(target: &Target) {
    let app = &target.app;
    let signer = key(app).await;
    let file = app.data_directory().join("events.ndjson");
    let (objects, events) = (["shop/1", "b", "c"], 900);
    let mut text = String::new();
    for number in 0..events {
        let content = format!("{number} {}", "x".repeat(13_000));
        let event = json!({"object_id": objects[number % 3], "type": "message", "content": content});
        text += &event.to_string();
        text.push('\n');
    }
    std::fs::write(&file, text).unwrap();
    let total = async || {
        let mut sum = 0;
        for object in objects {
            sum += event_count(app, &signer, object).await;
        }
        sum
    };

    // The first request that is noted is the beginning of three windows: it is killed in the middle.
    let mut running = import(app, &signer, &file, &[]).spawn().unwrap();
    while !std::fs::read_to_string(journal(&file)).is_ok_and(|noted| noted.contains("\"done\"")) {
        assert!(running.try_wait().unwrap().is_none(), "it ended before it began");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let after_kill = total().await;
    assert!(after_kill > 0 && after_kill < 900, "{after_kill}");

    let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(output.status.success(), "{told}");
    assert_eq!(total().await, 900, "{told}");
    // Once more: the journal knows. And without it the service does.
    let (_, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(told.contains("0 events recorded."), "{told}");
    std::fs::remove_file(journal(&file)).unwrap();
    let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(output.status.success() && told.contains("0 events recorded, 900 were there already."), "{told}");
    assert_eq!(total().await, 900);

    // In the order of the file.
    let listed = signer.call(app, Method::GET, "/v1/objects/b/events", &Value::Null).await.json();
    let numbers: Vec<u32> = listed["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["content"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers.first(), Some(&898));
    assert!(numbers.is_sorted_by(|newer, older| newer > older), "{numbers:?}");
}

async fn bad_lines_are_named_or_skipped(target: &Target) {
    let app = &target.app;
    let signer = key(app).await;
    let file = app.data_directory().join("events.ndjson");
    let lines = [
        r#"{"object_id":"a","object_type":"user","type":"event","name":"one"}"#,
        r#"{"object_id":"a","events":[{"type":"event","name":"two"},{"type":"event","name":"three"}]}"#,
        r#"{"object_id":"a","type":"event","name":"four""#,
        r#"{"object_id":"a","type":"event","name":"five"}"#,
        // Only the service refuses this one.
        r#"{"object_id":"a","type":"event","name":"s\u0000x"}"#,
        r#"{"object_id":"a","type":"event","name":"seven"}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    for _ in 0..2 {
        let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
        assert!(!output.status.success() && told.contains("events.ndjson: line 3: "), "{told}");
        assert_eq!(event_count(app, &signer, "a").await, 3, "what comes before it is recorded");
    }
    // Mended, it goes on and stops at the next.
    let mended = lines.join("\n").replace("\"four\"", "\"four\"}");
    std::fs::write(&file, mended).unwrap();
    let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(!output.status.success() && told.contains("line 5: "), "{told}");
    let (output, told) = finish(app, import(app, &signer, &file, &["--skip-bad"])).await;
    assert!(output.status.success(), "{told}");
    assert!(told.contains("skipped line 5: ") && told.contains("1 bad lines skipped."), "{told}");
    assert_eq!(event_count(app, &signer, "a").await, 6);

    // What was imported is not to change under its journal.
    std::fs::write(&file, lines.join("\n")).unwrap();
    let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(!output.status.success() && told.contains("not the file that was imported before"), "{told}");
}

async fn what_cannot_begin_is_said_clearly(target: &Target) {
    let app = &target.app;
    let signer = key(app).await;
    let file = app.data_directory().join("events.ndjson");
    let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(!output.status.success() && told.contains("cannot read"), "{told}");
    std::fs::remove_file(journal(&file)).unwrap();
    std::fs::write(&file, "").unwrap();
    let (output, told) = finish(app, import(app, &signer, &file, &[])).await;
    assert!(output.status.success() && told.contains("0 events recorded."), "{told}");
    let stranger = Signer::new(&signer.key, "sk_wrong");
    let (output, told) = finish(app, import(app, &stranger, &file, &[])).await;
    assert!(
        !output.status.success() && told.contains("unauthorized") && !told.contains("sk_wrong"),
        "{told}"
    );
    // The journal of another account says so.
    let token = app.register("bob@zenith.example").await;
    let other = app.api_key(&token).await;
    let (output, told) = finish(app, import(app, &other, &file, &[])).await;
    assert!(!output.status.success() && told.contains("another account"), "{told}");
    let empty = app.data_directory().join("other.journal").display().to_string();
    let (output, told) = finish(app, import(app, &other, &file, &["--journal", &empty])).await;
    assert!(output.status.success(), "{told}");
}

/// Writes an export of an account to a file.
async fn export(app: &App, signer: &Signer, query: &str, name: &str) -> PathBuf {
    let reply = signer.call(app, Method::GET, &format!("/v1/export?{query}"), &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let file = app.data_directory().join(name);
    std::fs::write(&file, reply.text).unwrap();
    file
}

/// The rows of a file without what is another account's own.
fn contents(file: &Path, left_out: &[&str]) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &mut rows {
        row.as_object_mut().unwrap().retain(|field, _| !left_out.contains(&field.as_str()));
    }
    rows.sort_by_key(|row| (row["object_id"].to_string(), row["seq"].as_i64(), row["signal"].to_string()));
    rows
}

/// Texts that a spreadsheet or a careless reader would stumble over.
const TEXTS: [&str; 8] =
    ["=1+1", "'=1+1", "-5", "a,b;c", "say \"hi\"", "two\r\nlines", " spaced ", "\u{feff}Käse 🦜"];

async fn what_was_exported_can_be_imported(target: &Target) {
    let app = &target.app;
    let ada = key(app).await;
    for (number, object) in ["%3Dobject", "b%2F1"].into_iter().enumerate() {
        let event = |text: &&str| {
            json!({"type": "message", "name": text, "content": text, "metadata": {"text": text, "price": 1.50},
                "occurred_at": "2025-12-01T10:00:00.5Z"})
        };
        let mut events: Vec<Value> = TEXTS.iter().map(event).collect();
        events.push(json!({"type": "event"}));
        let body = json!({"object_type": format!("type {number}"), "events": events});
        let path = format!("/v1/objects/{object}/events");
        assert_eq!(ada.call(app, Method::POST, &path, &body).await.status, 202);
    }
    let first = export(app, &ada, "what=events", "first.ndjson").await;
    let own = ["cursor", "received_at"];
    for format in ["ndjson", "csv"] {
        let token = app.register(&format!("{format}@zenith.example")).await;
        let bob = app.api_key(&token).await;
        let query = format!("what=events&format={format}");
        let file = export(app, &ada, &query, &format!("exported.{format}")).await;
        let (output, told) = finish(app, import(app, &bob, &file, &[])).await;
        assert!(output.status.success() && told.contains("18 events recorded."), "{told}");
        let second = export(app, &bob, "what=events", "second.ndjson").await;
        assert_eq!(contents(&second, &own), contents(&first, &own), "{format}");
    }
}

async fn columns_of_csv_become_events(target: &Target) {
    let app = &target.app;
    let signer = key(app).await;
    let file = app.data_directory().join("orders.csv");
    let text = "\u{feff}Customer;Ordered;Remark;Total\r\nc1;2026-01-31 12:00;\"Leave it;\nplease\";12,50\r\n\
                \r\nc2;2026-02-01;;7\r\nc2;someday;;8\r\nc3;;short\r\nc4;;a 5\" pipe;9\r\nc5;;;10\r\n";
    std::fs::write(&file, text).unwrap();
    let options = [
        "--delimiter",
        ";",
        "--map",
        "object_id=Customer",
        "--map",
        "occurred_at=Ordered",
        "--map",
        "content=Remark",
        "--map",
        "metadata.total=Total",
        "--set",
        "object_type=customer",
        "--set",
        "name=order",
    ];
    let (output, told) = finish(app, import(app, &signer, &file, &options)).await;
    assert!(
        !output.status.success() && told.contains("orders.csv: line 6: occurred_at: it must be a time"),
        "{told}"
    );
    // Another mapping would be another import.
    let (output, told) = finish(app, import(app, &signer, &file, &options[..options.len() - 2])).await;
    assert!(!output.status.success() && told.contains("begun with other options"), "{told}");
    let (output, told) =
        finish(app, import(app, &signer, &file, &[&options[..], &["--skip-bad"]].concat())).await;
    assert!(output.status.success() && told.contains("2 events recorded, 2 bad lines skipped."), "{told}");
    assert!(told.contains("skipped line 7: it has 3 cells, and the header has 4"), "{told}");
    let exported = export(app, &signer, "what=events", "orders.ndjson").await;
    let rows = contents(&exported, &["cursor", "received_at", "seq"]);
    assert_eq!(
        rows[0],
        json!({"object_id": "c1", "object_type": "customer", "type": "message", "name": "order",
            "content": "Leave it;\nplease", "metadata": {"total": "12,50"}, "occurred_at": "2026-01-31T12:00:00.000000Z"})
    );
    assert_eq!(
        (&rows[1]["type"], &rows[1]["occurred_at"]),
        (&json!("event"), &json!("2026-02-01T00:00:00.000000Z"))
    );
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[2]["content"], "a 5\" pipe", "a quote inside a text is one");
    for (options, reason) in [
        (&[][..], "line 1: there is no column \"object_id\": name one with --map object_id=COLUMN"),
        (&["--delimiter", ";", "--map", "object_id=Nobody"], "line 1: there is no column \"Nobody\""),
        (&["--format", "ndjson", "--map", "object_id=a"], "--map and --set are for CSV"),
        (&["--delimiter", "ab"], "it must be one character"),
    ] {
        let journal = app.data_directory().join("none.journal").display().to_string();
        let (output, told) =
            finish(app, import(app, &signer, &file, &[options, &["--journal", &journal]].concat())).await;
        assert!(!output.status.success() && told.contains(reason), "{told}");
        let _ = std::fs::remove_file(journal);
    }
}

async fn labels_are_imported_in_both_formats(target: &Target) {
    let app = &target.app;
    let ada = key(app).await;
    let event = json!({"events": [{"type": "event"}]});
    for object in ["a", "b"] {
        ada.call(app, Method::POST, &format!("/v1/objects/{object}/events"), &event).await;
        for (signal, value) in
            [("is_scammer", json!(false)), ("buyer_intent", json!("comparing")), ("trust_score", json!(2))]
        {
            let path = format!("/v1/objects/{object}/labels/{signal}");
            let reply =
                ada.call(app, Method::PUT, &path, &json!({"value": value, "note": "=why, \"so\""})).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
    }
    let first = export(app, &ada, "what=labels", "first.ndjson").await;
    let own = ["cursor", "id", "by", "created_at", "source", "version"];
    for format in ["ndjson", "csv"] {
        let token = app.register(&format!("{format}@zenith.example")).await;
        let bob = app.api_key(&token).await;
        let file =
            export(app, &ada, &format!("what=labels&format={format}"), &format!("labels.{format}")).await;
        let (output, told) = finish(app, import(app, &bob, &file, &["--what", "labels"])).await;
        let unknown = "line 1: object_id: there is no such object";
        let unknown = if format == "csv" { "line 2: object_id: there is no such object" } else { unknown };
        assert!(!output.status.success() && told.contains(unknown), "{told}");
        for object in ["a", "b"] {
            bob.call(app, Method::POST, &format!("/v1/objects/{object}/events"), &event).await;
        }
        let (output, told) = finish(app, import(app, &bob, &file, &["--what", "labels"])).await;
        assert!(output.status.success() && told.contains("6 labels recorded."), "{told}");
        let second = export(app, &bob, "what=labels", "second.ndjson").await;
        assert_eq!(contents(&second, &own), contents(&first, &own), "{format}");
    }
    let file = app.data_directory().join("given.csv");
    std::fs::write(&file, "user,scam\na,yes\nb,perhaps\nc,no\nb,no\n").unwrap();
    let options = [
        "--what",
        "labels",
        "--map",
        "object_id=user",
        "--map",
        "value=scam",
        "--set",
        "signal=is_scammer",
        "--skip-bad",
    ];
    let (output, told) = finish(app, import(app, &ada, &file, &options)).await;
    assert!(output.status.success() && told.contains("2 labels recorded, 2 bad lines skipped."), "{told}");
    assert!(told.contains("skipped line 3: value: it must be true or false"), "{told}");
    assert!(told.contains("skipped line 4: object_id: there is no such object"), "{told}");
}
