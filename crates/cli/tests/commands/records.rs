//! What programs read: the records of the API, unchanged; lists over many pages; data in all its forms; waiting.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use client::PastQuery;
use serde_json::{Value, json};

use crate::world::{Person, World, eventually};

testkit::on_both!(
    json_is_what_the_service_sent,
    lists_go_over_all_pages,
    what_a_query_skips_is_told_whatever_reads_it,
    data_comes_from_everywhere,
    numbers_are_sent_as_they_were_given,
    an_answer_is_explained,
    waiting_ends_with_all_answers,
    waiting_ends_with_the_analysis_that_was_asked_for,
    a_replay_says_that_a_wording_was_changed,
    a_delivery_is_verified,
    a_question_is_asked_switched_and_backfilled,
    the_client_reads_the_past,
    a_list_ends_when_its_reader_has_gone,
);

async fn json_is_what_the_service_sent(world: &World) {
    let (client, key, secret) = world.client().await;
    let person = with_key(world, key, secret);
    person.says(&[
        "signals",
        "set",
        "odd",
        "-d",
        r#"{"type":"noul","instructions":{"a":1.50,"b":12345678901234567890123}}"#,
    ]);
    let call = client::Call::new(client::Method::GET, &["v1", "signals"]).unwrap();
    let sent = client.request(call).await.unwrap();
    let printed = person.says(&["signals", "list", "--json"]);
    assert_eq!(printed, format!("{}\n", String::from_utf8(sent.body).unwrap()));
    assert!(printed.contains("1.50") && printed.contains("12345678901234567890123"), "{printed}");
    assert!(!person.says(&["signals", "list"]).contains('\u{1b}'), "a pipe has no colours");
}

fn with_key(world: &World, key: String, secret: String) -> Person {
    let mut person = world.stranger();
    person.variables = vec![("AUSPEX_KEY".to_owned(), key), ("AUSPEX_SECRET".to_owned(), secret)];
    person
}

async fn lists_go_over_all_pages(world: &World) {
    let (client, key, secret) = world.client().await;
    for number in 0..205 {
        let event = client::api::EventInput::event("sale");
        client.send(&format!("seller/{number}"), client::Ingest::new([event])).await.unwrap();
    }
    let person = with_key(world, key, secret);
    let count = |list: &Value| list["objects"].as_array().unwrap().len();
    assert_eq!(count(&person.json(&["objects", "list"])), 50);
    assert_eq!(count(&person.json(&["objects", "list", "--limit", "3"])), 3);
    let all = person.json(&["objects", "list", "--all"]);
    let ids: std::collections::BTreeSet<&str> = all["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| object["object_id"].as_str().unwrap())
        .collect();
    assert_eq!((count(&all), ids.len()), (205, 205));
    assert_eq!(count(&person.json(&["objects", "list", "--limit", "203"])), 203);
    let ran = person.run(&["objects", "list", "--limit", "2"]);
    assert_eq!(ran.out.lines().count(), 3, "{ran:?}");
    assert!(ran.err.contains("--all"), "{ran:?}");
    assert_eq!(person.says(&["objects", "list", "--all"]).lines().count(), 206);
    // Some lists have pages of at most 100.
    assert_eq!(person.json(&["signals", "trial", "list", "is_scammer", "--all"])["trials"], json!([]));
    // A search by answers has no cursors.
    eventually("every object is analyzed", async || {
        (person.json(&["objects", "count", "-q", "is_scammer >= 0"])["count"] == 205).then_some(())
    })
    .await;
    assert_eq!(count(&person.json(&["objects", "list", "-q", "is_scammer >= 0", "--all"])), 205);
}

async fn what_a_query_skips_is_told_whatever_reads_it(world: &World) {
    let mut person = world.person();
    person.says(&["events", "send", "a", "--message", "hello", "--wait"]);
    let made = person.json(&["keys", "create", "--name", "reader", "--scopes", "read"]);
    let part = |name: &str| made[name].as_str().unwrap().to_owned();
    person.variables =
        vec![("AUSPEX_KEY".to_owned(), part("key")), ("AUSPEX_SECRET".to_owned(), part("secret"))];
    let commands: [&[&str]; 3] =
        [&["objects", "list"], &["objects", "count"], &["signals", "distribution", "is_scammer"]];
    for command in commands {
        let ask = |q: &str| person.run(&[command, &["-q", q, "--json"]].concat());
        for q in ["is_scammer >= 0", "a", ""] {
            let ran = ask(q);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command:?} {q:?}: {ran:?}");
        }
        for (q, skipped) in [
            ("is_scamer > 0.5", "unknown signal `is_scamer`"),
            ("is_scammer >= 0, is_scamer > 0.5", "unknown signal `is_scamer`"),
            ("is_scammer > 90%", "not `90%`"),
        ] {
            let ran = ask(q);
            assert_eq!(ran.code, 0, "{ran:?}");
            assert!(ran.err.starts_with("warning: skipped ") && ran.err.contains(skipped), "{ran:?}");
            let told: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(told.get("warnings").is_some(), command[1] == "list", "{told}");
        }
    }
}

async fn data_comes_from_everywhere(world: &World) {
    let person = world.person();
    let event = r#"{"type": "message", "content": "hello"}"#;
    std::fs::write(person.home.path().join("event.json"), event).unwrap();
    person.says(&["events", "send", "a", "-d", event]);
    person.says(&["events", "send", "a", "-d", "@event.json"]);
    assert_eq!(person.run_with(&["events", "send", "a", "-d", "-"], event).code, 0);
    person.says(&["events", "send", "a", "-d", &format!("[{event}, {event}]")]);
    let request = format!(r#"{{"events": [{event}], "object_type": "buyer"}}"#);
    person.says(&["events", "send", "a", "-d", &request]);
    for _ in 0..2 {
        person.says(&["events", "send", "a", "--event", "sale", "--idempotency-key", "sale-1"]);
    }
    let found = person.json(&["objects", "get", "a"]);
    assert_eq!((&found["event_count"], &found["object_type"]), (&json!(7), &json!("buyer")));
    assert_eq!(person.json(&["api", "GET", "/v1/objects/a"])["event_count"], 7);
    let id = "käufer/1 %2F?#&+";
    person.says(&["events", "send", id, "--event", "sale"]);
    assert_eq!(person.json(&["objects", "get", id])["object_id"], id);
    let escaped = "/v1/objects/k%C3%A4ufer%2F1%20%252F%3F%23%26%2B";
    assert_eq!(person.json(&["api", "GET", escaped])["object_id"], id);
}

async fn numbers_are_sent_as_they_were_given(world: &World) {
    let person = world.person();
    let metadata = r#"{"n": 12345678901234567890123, "price": 1.50}"#;
    let event = format!(r#"{{"type": "event", "name": "sale", "metadata": {metadata}}}"#);
    for data in [event.clone(), format!("[{event}]"), format!(r#"{{"events": [{event}]}}"#)] {
        person.says(&["events", "send", "a", "-d", &data, "--object-type", "seller"]);
    }
    person.says(&["events", "send", "a", "--event", "sale", "--message", "hello", "--metadata", metadata]);
    let listed = person.says(&["events", "list", "a", "--json"]);
    assert_eq!(listed.matches(metadata).count(), 5, "{listed}");
    assert_eq!(person.json(&["objects", "get", "a"])["object_type"], "seller");

    person.says(&[
        "signals",
        "set",
        "odd",
        "-d",
        &format!(r#"{{"type": "noul", "instructions": {metadata}}}"#),
    ]);
    person.says(&["signals", "disable", "odd"]);
    let found = person.says(&["signals", "get", "odd", "--json"]);
    assert!(found.contains(metadata) && found.contains(r#""enabled":false"#), "{found}");
    assert_eq!(person.json(&["signals", "versions", "odd"])["versions"].as_array().unwrap().len(), 1);

    let labels = r#"[{"object_id": "a", "signal": "is_scammer", "value": true}]"#;
    for data in [labels.to_owned(), format!(r#"{{"labels": {labels}}}"#)] {
        assert_eq!(person.json(&["labels", "send", "-d", &data])["accepted"], 1);
    }
}

async fn an_answer_is_explained(world: &World) {
    let person = world.person();
    for message in ["Pay me by gift card", "Good morning"] {
        person.says(&["events", "send", "a", "--message", message, "--wait"]);
    }
    let explained = person.json(&["objects", "explain", "a", "is_scammer", "--yes"]);
    assert_eq!(explained["answer"]["signal"], "is_scammer");
    let parts = explained["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2, "{explained}");
    let moved = |part: &Value| part["moved"].as_f64().unwrap();
    assert!(moved(&parts[0]).abs() >= moved(&parts[1]).abs(), "{explained}");
    let shown = person.says(&["objects", "explain", "a", "is_scammer", "--yes"]);
    for part in ["left_out", "MOVED", "Pay me by gift card", &format!("{:+.3}", moved(&parts[0]))] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(person.run(&["objects", "explain", "nobody", "is_scammer", "-y"]).code, 4);
}

async fn waiting_ends_with_all_answers(world: &World) {
    let person = world.person();
    let verdict =
        person.json(&["events", "send", "a", "--message", "hello", "--wait", "--signals", "is_scammer"]);
    assert_eq!(verdict["answers"].as_array().unwrap().len(), 1);
    person.says(&["events", "send", "b", "--message", "hello"]);
    let found = person.json(&["objects", "get", "b", "--wait", "60s"]);
    assert_eq!(
        (found["pending"].as_array().unwrap().len(), found["analysis"].as_array().unwrap().len()),
        (0, 3)
    );
    assert_eq!(person.json(&["playground", "--message", "hello"])["answers"].as_array().unwrap().len(), 3);
    let kinds = person.says(&["objects", "timeline", "b"]);
    assert!(kinds.contains("analysis") && kinds.contains("hello"), "{kinds}");
    let label = person.json(&["labels", "set", "b", "is_scammer", "false"]);
    assert_eq!((&label["value"], &label["answer"]["signal"]), (&json!(false), &json!("is_scammer")));
}

async fn a_delivery_is_verified(world: &World) {
    let person = world.stranger();
    let (secret, body) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", r#"{"test": 2432232314}"#);
    let signature =
        "x-webhook-signature: sha256=2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964";
    let verify = |at: &str, tolerance: &str, secret: &str, body: &str| {
        let at = format!("x-webhook-timestamp: {at}");
        let arguments =
            ["webhooks", "verify", "-H", &at, "-H", signature, "--secret", secret, "--tolerance", tolerance];
        person.run_with(&arguments, body)
    };
    assert_eq!(verify("1614265330", "100000000000", secret, body).code, 0);
    for (at, tolerance, secret, body, reason) in [
        ("1614265330", "300", secret, body, "too old"),
        ("1614265331", "100000000000", secret, body, "does not match"),
        ("1614265330", "100000000000", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", body, "does not match"),
        ("1614265330", "100000000000", secret, "{}", "does not match"),
    ] {
        let ran = verify(at, tolerance, secret, body);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains(reason) && !ran.err.contains("whsec_"), "{ran:?}");
    }
}

async fn a_question_is_asked_switched_and_backfilled(world: &World) {
    let person = world.person();
    person.says(&["events", "send", "a", "--message", "hello", "--wait"]);
    let arguments =
        ["signals", "set", "mood", "--type", "choice", "--instructions", "How?", "--criteria", "calm"];
    let made = person.json(&[&arguments[..], &["--criteria", "angry=shouts"]].concat());
    let criteria = json!({"calm": "calm", "angry": "shouts"});
    assert_eq!(made["criteria"], criteria);
    person.says(&["signals", "disable", "mood"]);
    let found = person.json(&["signals", "get", "mood"]);
    assert_eq!((&found["enabled"], &found["criteria"]), (&json!(false), &criteria));
    person.says(&["signals", "enable", "mood"]);
    let status = person.json(&["signals", "backfill", "mood", "--yes", "--wait"]);
    assert_eq!(status["backfill"]["status"], "done");
    let found = person.json(&["objects", "get", "a", "--wait"]);
    assert!(found["analysis"].as_array().unwrap().iter().any(|answer| answer["key"] == "mood"), "{found}");
    assert_eq!(person.json(&["signals", "versions", "mood"])["versions"].as_array().unwrap().len(), 1);
    let replay = person.json(&["rules", "replay", "is_scammer >= 0"]);
    assert_eq!(replay["objects"], 1);
}

async fn the_client_reads_the_past(world: &World) {
    let (client, ..) = world.client().await;
    let event = client::api::EventInput::event("sale");
    client.verdict("a", client::Ingest::new([event])).await.unwrap();
    let only = |only: &str| PastQuery { only: Some(only.to_owned()), ..PastQuery::default() };
    let answers = client.answers("a", &only("is_scammer")).await.unwrap();
    assert_eq!((answers.analyses.len(), answers.analyses[0].answers.len()), (1, 1));
    assert_eq!(client.timeline("a", &only("event")).await.unwrap().items.len(), 1);
    assert_eq!(client.timeline("a", &PastQuery::default()).await.unwrap().items.len(), 2);
    assert_eq!(client.count_objects(Some("is_scammer >= 0")).await.unwrap().count, 1);
    assert_eq!(client.distribution("is_scammer", None).await.unwrap().objects, 1);
    let question = serde_json::from_value(json!({"type": "noul", "instructions": "Is it?"})).unwrap();
    client.put_signal("is_scammer", &question).await.unwrap();
    assert_eq!(client.signal_versions("is_scammer").await.unwrap().len(), 2);
    assert_ne!(client.restore_signal("is_scammer", 1).await.unwrap().instructions.get(), "\"Is it?\"");
    assert_eq!(client.signal_versions("is_scammer").await.unwrap().len(), 3);
    let endpoint = serde_json::from_value(json!({"url": "http://127.0.0.1:9/hook"})).unwrap();
    let made = client.create_webhook(&endpoint).await.unwrap();
    let rotation = serde_json::from_value(json!({"overlap_hours": 1})).unwrap();
    assert_ne!(client.rotate_webhook_secret(made.endpoint.id, &rotation).await.unwrap().secret, made.secret);
}

/// A service whose list of objects has no end.
fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            if head.any(|line| line.is_ok_and(|line| line.is_empty())) {
                let body = r#"{"objects":[{"object_id":"a"}],"next_cursor":"more"}"#;
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            }
        }
    });
    url
}

async fn a_list_ends_when_its_reader_has_gone(world: &World) {
    let mut person = with_key(world, "ak_1".to_owned(), "sk_1".to_owned());
    person.url = endless();
    let line = r#"{ timeout 60 auspex objects list --all --json; echo "ended with $?" >&2; } | head -n 3"#;
    let ran = person.shell(line);
    assert_eq!(ran.out.lines().count(), 3, "{ran:?}");
    assert_eq!(ran.err, "ended with 0\n");
    // A message that cannot be written is no failure either.
    assert!(person.run(&["objects", "list", "--limit", "1"]).err.contains("--all"));
    assert_eq!(person.shell("auspex objects list --limit 1 2>/dev/full").code, 0);
}

async fn waiting_ends_with_the_analysis_that_was_asked_for(world: &World) {
    let person = world.person();
    person.says(&["events", "send", "a", "--message", "hello", "--wait"]);
    let computed = |object: &Value| {
        let times = object["analysis"].as_array().unwrap().iter();
        times.map(|answer| answer["computed_at"].as_str().unwrap().to_owned()).min().unwrap()
    };
    // Also after the analysis that the event itself has scheduled.
    let mut before = computed(&person.json(&["objects", "get", "a", "--wait"]));
    for _ in 0..5 {
        person.says(&["objects", "analyze", "a"]);
        let after = computed(&person.json(&["objects", "get", "a", "--wait"]));
        assert!(after > before, "{after} is not after {before}");
        before = after;
    }
    assert_eq!(person.json(&["api", "GET", "/v1/objects/a/state"])["analysis_scheduled"], json!(false));
}

async fn a_replay_says_that_a_wording_was_changed(world: &World) {
    let person = world.person();
    let ask = |wording: &str| {
        person.says(&["signals", "set", "angry", "--type", "noul", "--instructions", wording]);
        person.says(&["events", "send", "a", "--message", "hello", "--wait"]);
    };
    ask("Is the user angry?");
    let ran = person.run(&["rules", "replay", "angry > 0.5"]);
    assert!(ran.code == 0 && ran.err.is_empty(), "one wording alone: {ran:?}");
    ask("Does the user sound angry?");
    for arguments in
        [&["rules", "replay", "angry > 0.5"] as &[&str], &["rules", "replay", "angry > 0.5", "--json"]]
    {
        let ran = person.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("angry was changed within the range (version 2 at "), "{ran:?}");
        assert!(ran.err.contains("different wordings"), "{ran:?}");
    }
}
