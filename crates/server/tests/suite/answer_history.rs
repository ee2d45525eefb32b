//! The past of answers: what every analysis said, how long it is kept, and what goes with it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::scripted_analyzer::{
    Scripted, Settings, Turn, event, get, ingest, ingest_and_wait, send_event, until,
};
use crate::signer::Signer;

testkit::on_both!(
    each_analysis_leaves_one_row_with_its_source_and_versions,
    pages_go_back_in_time_and_a_signal_filters_them,
    analyses_of_one_instant_keep_their_order,
    an_analysis_that_is_late_keeps_the_version_that_it_asked,
    the_past_is_kept_for_so_many_days_and_goes_with_its_object,
    a_deployment_that_keeps_none_writes_none,
    nobody_reads_the_past_of_others,
);

const QUIET: Duration = Duration::from_secs(3);
const DAY: Duration = Duration::from_hours(24);

/// Keeps no history.
struct Forgetful;

impl Settings for Forgetful {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ANSWER_HISTORY_DAYS", "0")];
}

pub(crate) async fn past(app: &App, key: &Signer, path: &str) -> Value {
    let reply = get(app, key, path).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn analyses(page: &Value) -> &Vec<Value> {
    page["analyses"].as_array().unwrap()
}

fn sources(page: &Value) -> Vec<&str> {
    analyses(page).iter().map(|analysis| analysis["source"].as_str().unwrap()).collect()
}

async fn each_analysis_leaves_one_row_with_its_source_and_versions(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.settle().await;
    stage.advance(QUIET);
    stage.analyzer.always(Turn::Answer(0.25));
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "late").await.status, 200);
    stage.advance(QUIET);
    assert_eq!(key.call(stage, Method::POST, "/v1/analyze", &Value::Null).await.status, 202);
    stage.settle().await;
    // The playground records nothing.
    let played = key.call(stage, Method::POST, "/v1/playground", &json!({"events": [event("x")]})).await;
    assert_eq!(played.status, 200, "{}", played.text);

    let page = past(stage, &key, "/v1/objects/user_1/answers").await;
    assert_eq!(sources(&page), ["bulk", "sync", "async"], "{page}");
    assert_eq!(page.get("next_cursor"), None);
    let shown = past(stage, &key, "/v1/objects/user_1").await;
    let verdict = &analyses(&page)[1];
    assert_eq!((&verdict["model"], &verdict["read_seq"]), (&json!("scripted"), &json!(2)));
    assert_eq!(verdict["answers"].as_array().unwrap().len(), shown["analysis"].as_array().unwrap().len());
    for (answer, now) in
        verdict["answers"].as_array().unwrap().iter().zip(shown["analysis"].as_array().unwrap())
    {
        let mut now = now.clone();
        let record = now.as_object_mut().unwrap();
        let signal = record.remove("key").unwrap();
        record.remove("model");
        record.remove("computed_at");
        record.insert("signal".to_owned(), signal);
        record.insert("version".to_owned(), json!(1));
        assert_eq!(*answer, now, "the whole answer, as it is shown elsewhere");
    }
    let first = analyses(&page)[2]["answers"].as_array().unwrap();
    assert!(
        first.iter().any(|answer| answer["signal"] == "is_scammer" && answer["noul"] == 0.5),
        "{first:?}"
    );
    assert_eq!(stage.number("SELECT count(*) FROM answer_history").await, 3);
    assert_eq!(
        stage
            .number(
                "SELECT count(*) FROM answer_history WHERE answers LIKE '%early%' OR model LIKE '%early%'"
            )
            .await,
        0,
        "no content of events"
    );
}

async fn analyses_of_one_instant_keep_their_order(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for _ in 0..8 {
        assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    }
    let page = past(stage, &key, "/v1/objects/user_1/answers").await;
    let read: Vec<i64> =
        analyses(&page).iter().map(|analysis| analysis["read_seq"].as_i64().unwrap()).collect();
    assert_eq!(read, [8, 7, 6, 5, 4, 3, 2, 1], "the clock stood still");
    assert_eq!(stage.number("SELECT count(DISTINCT at) FROM answer_history").await, 8);
}

async fn pages_go_back_in_time_and_a_signal_filters_them(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for number in 0..5 {
        let signals = if number % 2 == 0 { json!(["is_scammer"]) } else { json!(["trust_score"]) };
        let body = json!({"events": [event("x")], "wait": true, "signals": signals});
        assert_eq!(ingest(stage, &key, "user_1", &body).await.status, 200);
        stage.advance(Duration::from_millis(1));
    }
    let read_seqs = |page: &Value| -> Vec<i64> {
        analyses(page).iter().map(|analysis| analysis["read_seq"].as_i64().unwrap()).collect()
    };
    let walk = async |filter: &str| {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/objects/user_1/answers?limit=2{filter}{cursor}");
            let page = past(stage, &key, &path).await;
            assert!(analyses(&page).len() <= 2);
            seen.extend(read_seqs(&page));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
        }
    };
    assert_eq!(walk("").await, [5, 4, 3, 2, 1]);
    assert_eq!(walk("&signal=is_scammer").await, [5, 3, 1]);
    assert_eq!(walk("&signal=trust_score").await, [4, 2]);
    assert_eq!(walk("&signal=none").await, Vec::<i64>::new());
    let page = past(stage, &key, "/v1/objects/user_1/answers?signal=trust_score").await;
    for analysis in analyses(&page) {
        assert_eq!(analysis["answers"].as_array().unwrap().len(), 1);
    }
    let cursor = past(stage, &key, "/v1/objects/user_1/answers?limit=1").await["next_cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    for (wrong, message) in [
        ("limit=0".to_owned(), "limit: it must be from 1 to 200"),
        ("limit=201".to_owned(), "limit: it must be from 1 to 200"),
        ("cursor=nonsense".to_owned(), "cursor: does not belong to this list"),
        (format!("signal=is_scammer&cursor={cursor}"), "cursor: does not belong to this list"),
    ] {
        let refused = get(stage, &key, &format!("/v1/objects/user_1/answers?{wrong}")).await;
        assert_eq!(
            (refused.status.as_u16(), refused.json()["error"]["message"].as_str()),
            (400, Some(message)),
            "{wrong}"
        );
    }
    assert_eq!(get(stage, &key, "/v1/objects/nobody/answers").await.status, 404);
}

async fn an_analysis_that_is_late_keeps_the_version_that_it_asked(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let gate = stage.analyzer.hold(0.9);
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    let put = json!({"type": "noul", "instructions": "Another wording?"});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_scammer", &put).await.status, 200);
    gate.open();
    stage.settle().await;
    let version = async |path: &str| {
        let page = past(stage, &key, path).await;
        let answers = analyses(&page)[0]["answers"].as_array().unwrap().clone();
        answers.iter().find(|answer| answer["signal"] == "is_scammer").unwrap()["version"].as_i64().unwrap()
    };
    // As before, the answer counts until the next analysis; it is known to answer the old wording.
    assert_eq!(version("/v1/objects/user_1/answers").await, 1);
    let objects = async || {
        let versions = past(stage, &key, "/v1/signals/is_scammer/versions").await;
        let versions = versions["versions"].as_array().unwrap().clone();
        versions.iter().map(|version| version["objects"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(objects().await, [0, 1]);
    stage.advance(QUIET);
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "late").await.status, 200);
    assert_eq!(version("/v1/objects/user_1/answers").await, 2);
    assert_eq!(objects().await, [1, 0]);
    assert_eq!(key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    assert_eq!(objects().await, [0, 0]);
}

async fn the_past_is_kept_for_so_many_days_and_goes_with_its_object(stage: &Scripted) {
    const ROWS: &str = "SELECT count(*) FROM answer_history";
    let key = stage.account("ann@example.com").await;
    for object in ["user_1", "user_2"] {
        assert_eq!(ingest_and_wait(stage, &key, object, "x").await.status, 200);
    }
    assert_eq!(key.call(stage, Method::DELETE, "/v1/objects/user_2", &Value::Null).await.status, 204);
    assert_eq!(stage.number(ROWS).await, 1);
    stage.advance(45 * DAY);
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    stage.sweeper_has_swept().await;
    assert_eq!(stage.number(ROWS).await, 2);
    stage.advance(46 * DAY);
    until("the old row is gone", async || {
        stage.sweeper_has_swept().await;
        stage.number(ROWS).await == 1
    })
    .await;
    let page = past(stage, &key, "/v1/objects/user_1/answers").await;
    assert_eq!(analyses(&page)[0]["read_seq"], 2);
    assert_eq!(past(stage, &key, "/v1/objects/user_1").await["analysis"].as_array().unwrap().len(), 3);
}

async fn a_deployment_that_keeps_none_writes_none(stage: &Scripted<Forgetful>) {
    let key = stage.account("ann@example.com").await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    assert_eq!(stage.number("SELECT count(*) FROM answer_history").await, 0);
    let page = past(stage, &key, "/v1/objects/user_1/answers").await;
    assert_eq!(page, json!({"analyses": []}));
}

async fn nobody_reads_the_past_of_others(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let other = stage.account("bob@example.com").await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    assert_eq!(get(stage, &other, "/v1/objects/user_1/answers").await.status, 404);
    assert_eq!(ingest_and_wait(stage, &other, "user_1", "x").await.status, 200);
    assert_eq!(analyses(&past(stage, &other, "/v1/objects/user_1/answers").await).len(), 1);
}
