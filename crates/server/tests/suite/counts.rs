//! How many objects match, how their answers are distributed, and what a query skips.

use reqwest::Method;
use serde_json::{Value, json};
use store::{Conn, Error};

use crate::app::App;
use crate::scripted_analyzer::{Scripted, Turn, get, ingest_and_wait, send_event};
use crate::signer::Signer;

testkit::on_both!(
    objects_are_counted_by_any_query_up_to_a_bound,
    answers_are_distributed_over_the_objects_that_match,
    a_query_says_what_it_skipped_and_a_strict_one_refuses_it,
);

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02X}"))
}

async fn read(app: &App, key: &Signer, path: &str, q: &str) -> Value {
    let reply = get(app, key, &format!("{path}?q={}", escaped(q))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// Five objects with probabilities, options and positions of their own, and one that nobody has analyzed.
async fn stage(app: &Scripted) -> Signer {
    let key = app.account("ann@example.com").await;
    for (object, probability) in [("a_1", 0.0), ("a_2", 0.05), ("b_1", 0.5), ("b_2", 0.949_999), ("b_3", 1.0)]
    {
        app.analyzer.then(Turn::Answer(probability));
        assert_eq!(ingest_and_wait(app, &key, object, "x").await.status, 200);
    }
    send_event(app, &key, "c_1", "x").await;
    key
}

async fn finish(app: &Scripted) {
    app.advance(std::time::Duration::from_secs(3));
    app.settle().await;
}

async fn objects_are_counted_by_any_query_up_to_a_bound(app: &Scripted) {
    let key = stage(app).await;
    for (q, count) in [
        ("", 6),
        ("b_", 3),
        ("nobody", 0),
        ("is_scammer >= 0.5", 3),
        ("is_scammer < 0.1 or is_scammer = 1", 3),
        ("is_scammer > 0.4 and trust_score < 0.5", 2),
        ("unknown > 1", 0),
        ("is_scammer >= 0.5, unknown > 1", 3),
    ] {
        let counted = read(app, &key, "/v1/object_count", q).await;
        assert_eq!(counted, json!({"count": count, "capped": false}), "{q}");
    }
    let other = app.account("bob@example.com").await;
    assert_eq!(read(app, &other, "/v1/object_count", "").await, json!({"count": 0, "capped": false}));
    let long = get(app, &key, &format!("/v1/object_count?q={}", "x".repeat(1_001))).await;
    assert_eq!(long.json()["error"]["message"], "q: it must have at most 1000 bytes");
    // As if there were more objects than are counted.
    let many = "UPDATE object_tallies SET objects = objects + 9995";
    let written = app.store.write("many", async |conn: &mut Conn| {
        match conn {
            Conn::Sqlite(lent) => sqlx::query(many).execute(lent.native()).await.map(drop)?,
            Conn::Postgres(lent) => sqlx::query(many).execute(lent.native()).await.map(drop)?,
        }
        Ok::<_, Error>(())
    });
    written.await.unwrap();
    assert_eq!(read(app, &key, "/v1/object_count", "").await, json!({"count": 10_000, "capped": true}));
    finish(app).await;
}

fn bins(distribution: &Value) -> Vec<(usize, i64)> {
    let bins = distribution["bins"].as_array().unwrap().iter();
    let counts = bins.map(|bin| bin["count"].as_i64().unwrap()).enumerate();
    counts.filter(|(_, count)| *count > 0).collect()
}

async fn answers_are_distributed_over_the_objects_that_match(app: &Scripted) {
    let key = stage(app).await;
    let noul = read(app, &key, "/v1/signals/is_scammer/distribution", "").await;
    assert_eq!((&noul["objects"], &noul["sampled"]), (&json!(5), &json!(false)));
    assert_eq!(noul["bins"].as_array().unwrap().len(), 20);
    assert_eq!(bins(&noul), [(0, 1), (1, 1), (10, 1), (18, 1), (19, 1)]);
    assert_eq!(noul["bins"][1], json!({"from": 0.05, "to": 0.1, "count": 1}));
    assert_eq!(noul["bins"][19], json!({"from": 0.95, "to": 1.0, "count": 1}));
    // The first of three levels has the probability, the others share the rest.
    let score = read(app, &key, "/v1/signals/trust_score/distribution", "").await;
    assert_eq!(score["bins"][0], json!({"from": -0.5, "to": 0.5, "count": 2}));
    assert_eq!(bins(&score).iter().map(|(_, count)| count).sum::<i64>(), 5, "{score}");
    let choice = read(app, &key, "/v1/signals/buyer_intent/distribution", "").await;
    let options: Vec<&str> =
        choice["bins"].as_array().unwrap().iter().map(|bin| bin["option"].as_str().unwrap()).collect();
    let signals = get(app, &key, "/v1/signals").await.json();
    let signals = signals["signals"].as_array().unwrap().clone();
    let criteria = signals.iter().find(|signal| signal["key"] == "buyer_intent").unwrap()["criteria"].clone();
    assert_eq!(options, criteria.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(choice["objects"], 5);
    // By queries of both kinds.
    let path = "/v1/signals/is_scammer/distribution";
    assert_eq!(bins(&read(app, &key, path, "b_").await), [(10, 1), (18, 1), (19, 1)]);
    assert_eq!(bins(&read(app, &key, path, "trust_score < 0.5").await), [(18, 1), (19, 1)]);
    assert_eq!(read(app, &key, path, "nobody").await["objects"], 0);
    assert_eq!(get(app, &key, "/v1/signals/none/distribution").await.status, 404);
    let other = app.account("bob@example.com").await;
    assert_eq!(read(app, &other, path, "").await["objects"], 0);
    // The answers of a disabled signal are hidden.
    let signal = signals.iter().find(|signal| signal["key"] == "is_scammer").unwrap();
    let disabled = json!({"type": "noul", "instructions": signal["instructions"], "criteria": signal["criteria"],
        "enabled": false});
    assert_eq!(key.call(app, Method::PUT, "/v1/signals/is_scammer", &disabled).await.status, 200);
    assert_eq!(read(app, &key, path, "").await["objects"], 0);
    finish(app).await;
}

async fn a_query_says_what_it_skipped_and_a_strict_one_refuses_it(app: &Scripted) {
    let key = stage(app).await;
    for (q, objects, warnings) in [
        ("is_scammer >= 0.5", 3, 0),
        ("b_", 3, 0),
        ("is_scammer >= 0.5 and is_scamer > 0.1", 3, 1),
        ("is_scamer > 0.1, buyer_intent > 3, is_scammer >= 0.5", 3, 2),
        ("is_scamer > 0.1", 0, 1),
        // A comma joins comparisons, so the bound is 0.
        ("is_scammer > 0,5", 4, 1),
        ("is_scammer > 90%", 0, 1),
    ] {
        let listed = read(app, &key, "/v1/objects", q).await;
        assert_eq!(listed["objects"].as_array().unwrap().len(), objects, "{q}");
        let said = listed["warnings"].as_array().unwrap();
        assert_eq!(said.len(), warnings, "{q}: {said:?}");
        let strict = get(app, &key, &format!("/v1/objects?strict=true&q={}", escaped(q))).await;
        assert_eq!(strict.status, if warnings == 0 { 200 } else { 400 }, "{q}");
        for warning in said {
            let message = strict.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("q: ") && message.contains(warning.as_str().unwrap()), "{message}");
        }
        let lenient = get(app, &key, &format!("/v1/objects?strict=false&q={}", escaped(q))).await;
        assert_eq!(lenient.json(), listed);
    }
    let listed = get(app, &key, "/v1/objects").await.json();
    assert_eq!(listed["warnings"], json!([]));
    let unknown = read(app, &key, "/v1/objects", "is_scamer > 0.1, is_scammer >= 0.5").await;
    assert!(unknown["warnings"][0].as_str().unwrap().contains("is_scamer"), "{unknown}");
    for (q, skipped) in [
        ("is_scammer > 0,5", "skipped `5`: at column 16: `5` cannot be the key of a signal"),
        ("is_scammer > 90%", "skipped `is_scammer > 90%`: at column 14: `is_scammer` is a probability"),
    ] {
        let listed = read(app, &key, "/v1/objects", q).await;
        assert!(listed["warnings"][0].as_str().unwrap().starts_with(skipped), "{listed}");
    }
    assert_eq!(get(app, &key, "/v1/objects?strict=maybe").await.status, 400);
    finish(app).await;
}
