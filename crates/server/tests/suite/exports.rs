//! Exports: everything of one kind, in both formats, whole or resumed after any row, and only for those who may read it.

mod endings;

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, Reply};
use crate::labels::{answer, put};
use crate::login::sign_in;
use crate::members::join;
use crate::scripted_analyzer::{Scripted, get, ingest};
use crate::signer::Signer;

testkit::on_both!(
    every_kind_is_exported_as_the_lists_show_it,
    csv_says_the_same_as_json,
    an_export_goes_on_after_any_of_its_rows,
    events_that_come_in_meanwhile_disturb_nothing,
    an_object_that_is_seen_meanwhile_is_not_left_out,
    a_range_is_exported_by_dates_and_by_times,
    roles_and_scopes_decide_what_is_exported,
    an_export_has_nothing_of_another_account,
    hostile_texts_are_harmless_in_a_spreadsheet_and_come_back_unchanged,
    wrong_parameters_are_named,
    an_export_is_on_record,
);

const KINDS: [&str; 6] = ["objects", "answers", "labels", "events", "ledger", "audit"];

/// A request for an export, by a member.
async fn ask(app: &App, token: &str, query: &str) -> Reply {
    app.call(token, Method::GET, &format!("/v1/export?{query}"), &Value::Null).await
}

/// The rows of an export, by a member.
async fn export(app: &App, token: &str, query: &str) -> Vec<Value> {
    let reply = ask(app, token, query).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text);
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    parse(&reply.text)
}

fn parse(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A row without its cursor, which must be there.
fn bare(row: &Value) -> Value {
    let mut row = row.clone();
    assert!(row["cursor"].is_string(), "{row}");
    row.as_object_mut().unwrap().remove("cursor");
    row
}

/// The cells of a CSV file, by the grammar of RFC 4180.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut letters, mut is_quoted) = (text.chars().peekable(), false);
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.push(letters.next().unwrap()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted => {
                assert_eq!(letters.next(), Some('\n'), "lines end with CRLF");
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(letter),
        }
    }
    assert!(cell.is_empty() && row.is_empty() && !is_quoted, "the last line is whole");
    rows
}

/// What a cell says: one apostrophe before what begins like a formula is taken away.
fn unguarded(cell: &str) -> &str {
    let guarded = cell.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝']);
    if guarded { cell.strip_prefix('\'').unwrap_or(cell) } else { cell }
}

/// An account with something of every kind: three objects, four analyses, labels and a member.
async fn filled(stage: &Scripted) -> (String, Signer) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    for (object, probability) in [("user_1", 0.75), ("user_2", 0.25), ("user_1", 0.5), ("user/3", 0.875)] {
        stage.advance(Duration::from_mins(1));
        answer(stage, &key, &object.replace('/', "%2F"), probability).await;
    }
    let metadata = json!({"name": "Kim", "price": 1.50, "tags": ["a", "b"]});
    let events = json!({"object_type": "user", "events": [
        {"type": "event", "name": "signup", "metadata": metadata, "occurred_at": "2025-12-01T10:00:00Z"},
        {"type": "message", "content": "Still there?\nYes, \"mint\" condition, 10;5 €"}]});
    assert_eq!(ingest(stage, &key, "user_1", &events).await.status, 202);
    for (signal, value) in
        [("is_scammer", json!(true)), ("buyer_intent", json!("comparing")), ("trust_score", json!(2))]
    {
        stage.advance(Duration::from_secs(1));
        assert_eq!(put(stage, &key, "user_1", signal, &value).await.status, 200);
    }
    stage.advance(Duration::from_mins(1));
    stage.settle().await;
    (token, key)
}

async fn every_kind_is_exported_as_the_lists_show_it(stage: &Scripted) {
    let (token, key) = filled(stage).await;
    let bare_rows =
        async |query: &str| -> Vec<Value> { export(stage, &token, query).await.iter().map(bare).collect() };
    let list = async |path: &str, field: &str| {
        let reply = stage.call(&token, Method::GET, path, &Value::Null).await;
        let mut rows = reply.json()[field].as_array().unwrap().clone();
        rows.reverse();
        rows
    };

    let mut objects = list("/v1/objects", "objects").await;
    objects.sort_by_key(|object| object["object_id"].as_str().unwrap().to_owned());
    let exported = bare_rows("what=objects").await;
    assert_eq!(exported.len(), 3);
    for (row, object) in exported.iter().zip(&objects) {
        for (field, value) in object.as_object().unwrap() {
            assert_eq!(&row[field], value, "{field}");
        }
        assert!(row["first_seen"].is_string() && row["last_analyzed_at"].is_string(), "{row}");
    }

    let answers = bare_rows("what=answers").await;
    for object in ["user_1", "user_2", "user/3"] {
        let path = format!("/v1/objects/{}/answers", object.replace('/', "%2F"));
        let analyses = list(&path, "analyses").await;
        let expected: Vec<Value> = analyses
            .iter()
            .flat_map(|analysis| {
                analysis["answers"].as_array().unwrap().iter().map(move |answer| (analysis, answer))
            })
            .map(|(analysis, answer)| {
                let mut row = answer.clone();
                row["object_id"] = json!(object);
                for field in ["at", "source", "model", "read_seq"] {
                    row[field] = analysis[field].clone();
                }
                row
            })
            .collect();
        let found: Vec<&Value> = answers.iter().filter(|row| row["object_id"] == object).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "one row for each signal of each analysis");
    }

    assert_eq!(bare_rows("what=labels").await, list("/v1/labels", "labels").await);
    assert_eq!(bare_rows("what=ledger").await, list("/v1/billing/ledger?limit=200", "entries").await);
    let before = list("/v1/audit_log?limit=200", "entries").await;
    let audit = bare_rows("what=audit").await;
    assert_eq!(audit[..before.len()], before[..], "and the line about this export");

    let events = bare_rows("what=events").await;
    assert_eq!(events.len(), 6);
    let signup = events.iter().find(|event| event["name"] == "signup").unwrap();
    let metadata = json!({"name": "Kim", "price": 1.50, "tags": ["a", "b"]});
    assert_eq!(
        signup,
        &json!({"object_id": "user_1", "object_type": "user", "seq": 3, "type": "event", "name": "signup",
            "metadata": metadata, "occurred_at": "2025-12-01T10:00:00.000000Z", "received_at": signup["received_at"]})
    );
    let received: Vec<&str> = events.iter().map(|event| event["received_at"].as_str().unwrap()).collect();
    assert!(received.is_sorted(), "{received:?}");
    drop(key);
}

/// What a field of a row is in CSV.
fn cell_of(row: &Value, column: &str) -> String {
    let value = match column.split_once('_') {
        Some((record @ ("by" | "actor" | "target"), field)) => &row[record][field],
        _ => &row[column],
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

async fn csv_says_the_same_as_json(stage: &Scripted) {
    let (token, _) = filled(stage).await;
    for kind in KINDS {
        let rows = export(stage, &token, &format!("what={kind}")).await;
        let reply = ask(stage, &token, &format!("what={kind}&format=csv")).await;
        assert_eq!(reply.header("content-type"), "text/csv; charset=utf-8");
        assert_eq!(reply.header("content-disposition"), format!("attachment; filename=\"{kind}.csv\""));
        let cells = csv(&reply.text);
        let (header, lines) = cells.split_first().unwrap();
        assert_eq!(header.last().unwrap(), "cursor");
        // Each export is itself on record.
        assert_eq!(lines.len(), rows.len() + usize::from(kind == "audit"), "{kind}");
        for (row, line) in rows.iter().zip(lines) {
            assert_eq!(line.len(), header.len(), "{kind}: {line:?}");
            for (column, cell) in header.iter().zip(line) {
                let said = if column == "cursor" { cell } else { unguarded(cell) };
                let expected = cell_of(row, column);
                let is_same = said == expected
                    || serde_json::from_str::<Value>(said).ok() == serde_json::from_str(&expected).ok();
                assert!(is_same, "{kind}.{column}: {said} is not {expected}");
            }
        }
        let columns: BTreeSet<&str> = header.iter().map(String::as_str).collect();
        for field in rows.iter().flat_map(|row| row.as_object().unwrap().keys()) {
            let is_split = ["by", "actor", "target"].contains(&field.as_str());
            assert!(is_split || columns.contains(field.as_str()), "{kind} has no column for {field}");
        }
        let last = lines.last().unwrap().last().unwrap();
        let rest = ask(stage, &token, &format!("what={kind}&format=csv&cursor={last}")).await;
        assert!(kind == "audit" || rest.text.is_empty(), "no header line to be appended: {}", rest.text);
    }
}

async fn an_export_goes_on_after_any_of_its_rows(stage: &Scripted) {
    let (token, _) = filled(stage).await;
    for kind in KINDS {
        let all = export(stage, &token, &format!("what={kind}")).await;
        assert!(all.len() > 2, "{kind}: {all:?}");
        for (at, row) in all.iter().enumerate() {
            let cursor = row["cursor"].as_str().unwrap();
            let mut rest = export(stage, &token, &format!("what={kind}&cursor={cursor}")).await;
            // Each export is itself on record.
            rest.retain(|row| row["action"] != "export.started");
            let expected: Vec<&Value> =
                all[at + 1..].iter().filter(|row| row["action"] != "export.started").collect();
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected, "{kind} after row {at}");
        }
    }
}

/// Sends messages to objects, 100 to each.
async fn send_many(app: &App, key: &Signer, objects: std::ops::Range<usize>, content: &str) {
    for object in objects {
        let message = |number: usize| json!({"type": "message", "name": format!("{object}/{number}"), "content": content});
        let events: Vec<Value> = (0..100).map(message).collect();
        let reply = ingest(app, key, &format!("object_{object}"), &json!({"events": events})).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
}

fn names(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

async fn events_that_come_in_meanwhile_disturb_nothing(stage: &App) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    send_many(stage, &key, 0..10, "old").await;
    stage.advance(Duration::from_secs(1));
    let writer = send_many(stage, &key, 5..15, "new");
    let reader = async {
        let mut rows: Vec<Value> = Vec::new();
        // Every answer is cut after some rows, and the next goes on after the last that was taken.
        loop {
            let cursor = rows.last().map(|row| format!("&cursor={}", row["cursor"].as_str().unwrap()));
            let next = export(stage, &token, &format!("what=events{}", cursor.unwrap_or_default())).await;
            if next.is_empty() {
                return rows;
            }
            rows.extend(next.into_iter().take(137));
        }
    };
    let ((), rows) = tokio::join!(writer, reader);
    let old: Vec<Value> = rows.iter().filter(|row| row["content"] == "old").cloned().collect();
    assert_eq!(old.len(), 1_000, "nothing is lost or doubled of what was there");
    let unique: BTreeSet<String> =
        rows.iter().map(|row| format!("{} {}", row["object_id"], row["seq"])).collect();
    assert_eq!(unique.len(), rows.len(), "nothing comes twice");
    assert_eq!(names(&old).iter().collect::<BTreeSet<_>>().len(), 1_000);
    let all = export(stage, &token, "what=events").await;
    assert_eq!(all.len(), 2_000);
    stage.advance(Duration::from_mins(1));
}

/// As if its event had come long after the export was started, and before its page is read.
async fn an_object_that_is_seen_meanwhile_is_not_left_out(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    answer(stage, &key, "user_1", 0.5).await;
    stage.execute("UPDATE objects SET last_seen = (SELECT max(expires_at) FROM sessions)").await;
    assert_eq!(export(stage, &token, "what=objects").await.len(), 1);
    let until_now = format!("what=objects&to={}", stage.now());
    assert_eq!(export(stage, &token, &until_now).await.len(), 0, "a range goes by when it was last seen");
}

async fn a_range_is_exported_by_dates_and_by_times(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    // One analysis on each of four days, from 2026-01-01 00:00:00 on.
    for day in 1..=4 {
        answer(stage, &key, &format!("of_day_{day}"), 0.5).await;
        put(stage, &key, &format!("of_day_{day}"), "is_scammer", &json!(true)).await;
        stage.advance(Duration::from_hours(24));
    }
    // The session of the registration has ended.
    let token = sign_in(stage, "ann@example.com").await;
    let count = async |query: &str| {
        let rows = export(stage, &token, query).await;
        let ids: BTreeSet<String> = rows
            .iter()
            .filter_map(|row| Some(row["object_id"].as_str()?.trim_start_matches("of_day_").to_owned()))
            .collect();
        ids.into_iter().collect::<String>()
    };
    for kind in ["objects", "answers", "labels", "events", "ledger"] {
        for (range, days) in [
            ("", "1234"),
            ("&from=2026-01-02", "234"),
            ("&to=2026-01-02", "12"),
            ("&from=2026-01-02&to=2026-01-03", "23"),
            ("&from=2026-01-02&to=2026-01-02", "2"),
            ("&to=2026-01-02T00:00:00Z", "1"),
            ("&from=2026-01-02T00:00:00.000001Z", "34"),
            ("&from=2027-01-01", ""),
            ("&from=1900-01-01&to=1999-12-31", ""),
        ] {
            assert_eq!(count(&format!("what={kind}{range}")).await, days, "{kind} {range}");
        }
    }
    let audit = export(stage, &token, "what=audit&to=2026-01-01").await;
    assert!(audit.iter().all(|line| line["at"].as_str().unwrap().starts_with("2026-01-01")), "{audit:?}");
    assert!(audit.iter().any(|line| line["action"] == "api_key.created"), "{audit:?}");
}

async fn roles_and_scopes_decide_what_is_exported(stage: &App) {
    let owner = stage.register("ann@example.com").await;
    stage.verify(&owner, "ann@example.com").await;
    for role in ["viewer", "analyst", "admin", "owner"] {
        let token = if role == "owner" {
            owner.clone()
        } else {
            join(stage, &owner, &format!("{role}@example.com"), role).await
        };
        for kind in KINDS {
            let reply = ask(stage, &token, &format!("what={kind}")).await;
            if ["ledger", "audit"].contains(&kind) && ["viewer", "analyst"].contains(&role) {
                let message = reply.refused(403, "forbidden");
                assert_eq!(message, format!("this needs the role admin or owner; yours is {role}"), "{kind}");
            } else {
                assert_eq!(reply.status, 200, "{role} {kind}: {}", reply.text);
            }
        }
    }
    let created = async |scopes: Value| {
        let reply = stage.call(&owner, Method::POST, "/v1/api_keys", &json!({"scopes": scopes})).await.json();
        Signer::new(reply["key"].as_str().unwrap(), reply["secret"].as_str().unwrap())
    };
    let (reader, writer) =
        (created(json!(["read"])).await, created(json!(["ingest", "write", "label"])).await);
    for kind in KINDS {
        let path = format!("/v1/export?what={kind}");
        let read = get(stage, &reader, &path).await;
        if kind == "audit" {
            assert_eq!(read.refused(403, "forbidden"), "only a signed-in user may do this");
        } else {
            assert_eq!(read.status, 200, "{kind}: {}", read.text);
        }
        let message = get(stage, &writer, &path).await.refused(403, "forbidden");
        assert_eq!(message, "this needs a key with the scope read", "{kind}");
    }
}

async fn an_export_has_nothing_of_another_account(stage: &Scripted) {
    let (ann, _) = filled(stage).await;
    let ben = stage.register("ben@example.com").await;
    for kind in KINDS {
        let of_ann = export(stage, &ann, &format!("what={kind}")).await;
        let of_ben = export(stage, &ben, &format!("what={kind}")).await;
        match kind {
            "ledger" => assert!(of_ben.len() <= 1, "a credit at most: {of_ben:?}"),
            "audit" => {
                assert!(of_ben.iter().all(|line| line["actor"]["name"] == "ben@example.com"), "{of_ben:?}");
            }
            _ => assert!(of_ben.is_empty(), "{kind}: {of_ben:?}"),
        }
        // Her cursor leads him nowhere but to what is his.
        let cursor = of_ann[0]["cursor"].as_str().unwrap();
        let resumed = ask(stage, &ben, &format!("what={kind}&cursor={cursor}")).await;
        assert_eq!(resumed.status, 200, "{}", resumed.text);
        assert!(
            !resumed.text.contains("ann@example.com") && !resumed.text.contains("user_1"),
            "{}",
            resumed.text
        );
    }
}

const HOSTILE: [&str; 14] = [
    "=HYPERLINK(\"http://evil.example\",\"click\")",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1+1)*cmd",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "＝1+1",
    "'=already quoted",
    "''=twice",
    "'just quoted'",
    "a,b;c\td\"e\"\r\nf",
    " space ",
    "\u{feff}\u{2028}\u{202e}🦜",
];

async fn hostile_texts_are_harmless_in_a_spreadsheet_and_come_back_unchanged(stage: &App) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    let events: Vec<Value> =
        HOSTILE.iter().map(|text| json!({"type": "message", "name": text, "content": text})).collect();
    let body = json!({"object_type": "=type", "events": events});
    assert_eq!(ingest(stage, &key, "%3Dobject", &body).await.status, 202);
    let reply = ask(stage, &token, "what=events&format=csv").await;
    let cells = csv(&reply.text);
    assert_eq!(cells.len(), HOSTILE.len() + 1);
    for (line, text) in cells[1..].iter().zip(HOSTILE) {
        for cell in line {
            let begins = cell.chars().next().unwrap_or(' ');
            assert!(!"=+-@\t\r\n＝＋－＠".contains(begins), "a spreadsheet would run {cell:?}");
        }
        assert_eq!((unguarded(&line[0]), unguarded(&line[1])), ("=object", "=type"));
        assert_eq!((unguarded(&line[4]), unguarded(&line[5])), (text, text));
    }
    let rows = export(stage, &token, "what=events").await;
    assert_eq!(names(&rows), HOSTILE);
    stage.advance(Duration::from_mins(1));
}

async fn wrong_parameters_are_named(stage: &Scripted) {
    let (token, key) = filled(stage).await;
    let cursor = export(stage, &token, "what=events").await[0]["cursor"].as_str().unwrap().to_owned();
    for (query, message) in [
        ("", "what: it is required"),
        ("what=secrets", "what: it must be one of: objects, answers, labels, events, ledger, audit"),
        ("what=events&format=xml", "format: it must be one of: ndjson, csv"),
        (
            "what=events&from=yesterday",
            "from: it must be a date (2026-01-31) or a time (2026-01-31T12:00:00Z)",
        ),
        ("what=events&to=2026-13-01", "to: it must be a date (2026-01-31) or a time (2026-01-31T12:00:00Z)"),
        ("what=events&from=2026-02-01&to=2026-01-01", "to: it must be after from"),
        ("what=events&cursor=nonsense", "cursor: does not belong to this list"),
        (&format!("what=labels&cursor={cursor}"), "cursor: does not belong to this list"),
        (&format!("what=events&from=2026-01-01&cursor={cursor}"), "cursor: does not belong to this list"),
    ] {
        assert_eq!(ask(stage, &token, query).await.refused(400, "bad_request"), message, "{query}");
    }
    assert_eq!(stage.get("/v1/export?what=events").await.refused(401, "unauthorized"), "unauthorized");
    let as_csv = get(stage, &key, &format!("/v1/export?what=events&format=csv&cursor={cursor}")).await;
    assert_eq!(as_csv.status, 200, "another format may go on: {}", as_csv.text);
}

async fn an_export_is_on_record(stage: &App) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    export(stage, &token, "what=objects&from=2026-01-01&to=2026-01-31").await;
    get(stage, &key, "/v1/export?what=events&format=csv").await;
    ask(stage, &token, "what=secrets").await.refused(400, "bad_request");
    let path = "/v1/audit_log?action=export.started";
    let lines = stage.call(&token, Method::GET, path, &Value::Null).await.json();
    let lines = lines["entries"].as_array().unwrap();
    let said: Vec<(&str, &Value)> =
        lines.iter().map(|line| (line["actor"]["kind"].as_str().unwrap(), &line["after"])).collect();
    assert_eq!(
        said,
        [
            ("key", &json!({"what": "events", "format": "csv", "resumed": false})),
            (
                "user",
                &json!({"what": "objects", "format": "ndjson", "from": "2026-01-01", "to": "2026-01-31", "resumed": false})
            ),
        ]
    );
    assert_eq!(lines[0]["target"], json!({"kind": "export", "id": "events"}));
}
