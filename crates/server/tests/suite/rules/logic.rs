//! Rules with `or`, `not` and parentheses, and with facts about their objects.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{change, firings, id, ingest_answered, mailing, make, post};
use crate::app::App;
use crate::scripted_analyzer::{Scripted, Turn, get, ingest};
use crate::signer::Signer;

testkit::on_both!(
    a_rule_joins_comparisons_in_every_way,
    a_signal_without_an_answer_is_unknown,
    events_are_counted_in_a_window,
    late_events_count_and_repeated_ones_do_not,
    events_count_where_they_are_dropped_after_analysis,
    age_and_type_are_facts,
    a_disabled_signal_is_no_fact,
    facts_are_for_rules_alone,
    objects_are_found_by_or_and_not,
);

/// Sends events with names, that many seconds ago, and waits for the verdict.
async fn send(stage: &Scripted, key: &Signer, object: &str, events: &[(&str, u64)], more: &Value) {
    let event = |(name, ago): &(&str, u64)| {
        let at = stage.now() - Duration::from_secs(*ago);
        json!({"type": "event", "name": name, "occurred_at": at.to_string()})
    };
    let events: Vec<Value> = events.iter().map(event).collect();
    let mut body = json!({"events": events, "wait": true});
    for (field, value) in more.as_object().into_iter().flatten() {
        body[field] = value.clone();
    }
    stage.analyzer.then(Turn::Answer(0.5));
    let reply = ingest(stage, key, object, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

async fn fired(app: &App, key: &Signer, rule: &Value) -> Vec<String> {
    let mut objects: Vec<String> = firings(app, key, &format!("?rule_id={}", id(rule)))
        .await
        .iter()
        .map(|firing| firing["object_id"].as_str().unwrap().to_owned())
        .collect();
    objects.sort();
    objects
}

fn shadow(when: &str) -> Value {
    let mut rule = mailing(when);
    rule["mode"] = json!("shadow");
    rule
}

async fn a_rule_joins_comparisons_in_every_way(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    // The score is low where the probability is high: it is that of the first level.
    let mut rules = Vec::new();
    for (when, expected) in [
        ("is_scammer > 0.9 or is_scammer < 0.2", vec!["high", "low"]),
        ("not is_scammer > 0.9", vec!["low", "middle"]),
        ("not (is_scammer > 0.9 or is_scammer < 0.2)", vec!["middle"]),
        ("is_scammer > 0.9 or is_scammer < 0.2 and is_scammer > 0.15", vec!["high"]),
        ("(is_scammer > 0.9 or is_scammer < 0.2), is_scammer > 0.05", vec!["high", "low"]),
        ("not buyer_intent = browsing or not (not (trust_score >= 0))", vec!["high", "low", "middle"]),
    ] {
        rules.push((make(stage, &key, &shadow(when)).await, when, expected));
    }
    for (object, probability) in [("low", 0.1), ("middle", 0.5), ("high", 0.95)] {
        ingest_answered(stage, &key, object, probability).await;
    }
    for (rule, when, expected) in rules {
        assert_eq!(fired(stage, &key, &rule).await, expected, "{when}");
    }
}

async fn a_signal_without_an_answer_is_unknown(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let unknown = make(stage, &key, &shadow("not is_scammer > 0.9")).await;
    let known = make(stage, &key, &shadow("is_scammer > 0.9 or not buyer_intent = ready_to_buy")).await;
    stage.analyzer.then(Turn::Only("choice"));
    let verdict = crate::scripted_analyzer::ingest_and_wait(stage, &key, "user_1", "seen").await;
    assert_eq!(verdict.status, 200, "{}", verdict.text);
    assert!(fired(stage, &key, &unknown).await.is_empty(), "not unknown is unknown");
    assert_eq!(fired(stage, &key, &known).await, ["user_1"], "unknown or true is true");
}

async fn events_are_counted_in_a_window(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = make(stage, &key, &shadow("events(reported, 24h) >= 3")).await;
    let any = make(stage, &key, &shadow("events(*, 1h) > 3 and is_scammer < 0.9")).await;
    let day = 24 * 3_600;
    send(stage, &key, "user_1", &[("reported", 0), ("reported", day - 1), ("reported", day)], &json!({}))
        .await;
    assert!(fired(stage, &key, &rule).await.is_empty(), "the third is a day old to the second");
    send(stage, &key, "user_1", &[("seen", 0), ("seen", 1), ("seen", 2)], &json!({})).await;
    assert!(fired(stage, &key, &rule).await.is_empty(), "other names do not count");
    assert_eq!(fired(stage, &key, &any).await, ["user_1"], "any name counts");
    send(stage, &key, "user_2", &[("reported", 0)], &json!({})).await;
    send(stage, &key, "user_1", &[("reported", 60)], &json!({})).await;
    assert_eq!(fired(stage, &key, &rule).await, ["user_1"]);
    let firing = &firings(stage, &key, &format!("?rule_id={}", id(&any))).await[0];
    assert_eq!(firing["signal_values"], json!({"is_scammer": 0.5, "events(*, 1h)": 4}));
    // A day later the reports are out of the window, and it may fire anew.
    stage.advance(Duration::from_secs(day + 1));
    send(stage, &key, "user_1", &[("seen", 0)], &json!({})).await;
    send(stage, &key, "user_1", &[("reported", 0), ("reported", 0), ("reported", 0)], &json!({})).await;
    assert_eq!(fired(stage, &key, &rule).await, ["user_1", "user_1"]);
}

async fn late_events_count_and_repeated_ones_do_not(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = make(stage, &key, &shadow("events(reported, 7d) >= 3")).await;
    send(stage, &key, "user_1", &[("reported", 0)], &json!({})).await;
    let body = json!({"events": [{"type": "event", "name": "reported"}]});
    for _ in 0..3 {
        let token = key.sign(stage.now(), &Method::POST, "/v1/objects/user_1/events");
        let request = stage
            .request(Method::POST, "/v1/objects/user_1/events")
            .bearer_auth(token)
            .header("Idempotency-Key", "once")
            .json(&body);
        assert_eq!(stage.send(request).await.status, 202);
    }
    stage.advance(Duration::from_secs(3));
    stage.settle().await;
    assert!(fired(stage, &key, &rule).await.is_empty(), "two reports");
    // It arrives last and happened before the others: the window still ends at the newest of all.
    send(stage, &key, "user_1", &[("reported", 6 * 24 * 3_600)], &json!({})).await;
    assert_eq!(fired(stage, &key, &rule).await, ["user_1"]);
}

async fn events_count_where_they_are_dropped_after_analysis(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let settings = json!({"event_retention": "after_analysis"});
    let reply = key.call(stage, Method::PATCH, "/v1/settings", &settings).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let day = make(stage, &key, &shadow("events(reported, 24h) >= 3")).await;
    let hour = make(stage, &key, &shadow("events(reported, 1h) >= 2")).await;
    send(stage, &key, "user_1", &[("reported", 0), ("reported", 1)], &json!({})).await;
    assert_eq!(stage.number("SELECT count(*) FROM events").await, 0, "they are gone");
    assert_eq!(fired(stage, &key, &hour).await, ["user_1"], "counted before they go");
    assert!(fired(stage, &key, &day).await.is_empty());
    stage.advance(Duration::from_hours(5));
    send(stage, &key, "user_1", &[("reported", 0)], &json!({})).await;
    assert_eq!(fired(stage, &key, &day).await, ["user_1"], "by the counters");
}

async fn age_and_type_are_facts(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let young = make(stage, &key, &shadow("age < 1h and type = seller")).await;
    let old = make(stage, &key, &shadow("age >= 7d and not type = buyer")).await;
    let seller = json!({"object_type": "seller"});
    send(stage, &key, "user_1", &[("seen", 0)], &seller).await;
    send(stage, &key, "user_2", &[("seen", 0)], &json!({"object_type": "buyer"})).await;
    assert_eq!(fired(stage, &key, &young).await, ["user_1"]);
    stage.advance(Duration::from_hours(7 * 24));
    send(stage, &key, "user_1", &[("seen", 1)], &json!({})).await;
    assert!(fired(stage, &key, &old).await.is_empty(), "the newest event is a second too early");
    send(stage, &key, "user_1", &[("seen", 0)], &json!({})).await;
    send(stage, &key, "user_2", &[("seen", 0)], &json!({})).await;
    assert_eq!(fired(stage, &key, &old).await, ["user_1"]);
    let firing = &firings(stage, &key, &format!("?rule_id={}", id(&old))).await[0];
    assert_eq!(firing["signal_values"], json!({"age": 7 * 24 * 3_600, "type": "seller"}));
}

async fn a_disabled_signal_is_no_fact(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let options = json!({"seller": null, "vendor": null});
    let mut signal = json!({"type": "choice", "instructions": "What are they?", "criteria": options});
    let put = async |signal: &Value| {
        let reply = key.call(stage, Method::PUT, "/v1/signals/type", signal).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    };
    put(&signal).await;
    let rule = make(stage, &key, &shadow("type = seller")).await;
    signal["enabled"] = json!(false);
    put(&signal).await;
    send(stage, &key, "user_1", &[("seen", 0)], &json!({"object_type": "seller"})).await;
    assert!(fired(stage, &key, &rule).await.is_empty(), "the rule is suspended");
    signal["enabled"] = json!(true);
    put(&signal).await;
    ingest_answered(stage, &key, "user_1", 0.9).await;
    assert_eq!(fired(stage, &key, &rule).await, ["user_1"], "the signal says so");
}

async fn facts_are_for_rules_alone(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let message = post(stage, &key, &mailing("events(reported, 31d) > 1")).await.refused(400, "bad_request");
    let expected = "when: column 18: expected a window such as 30s, 15m, 24h or 7d, at most 30d, found `31d`";
    assert_eq!(message, expected);
    ingest_answered(stage, &key, "user_1", 0.95).await;
    let q = "is_scammer > 0.9, events(*, 1h) > 100 and age > 30d".replace(' ', "%20").replace('>', "%3E");
    let found = get(stage, &key, &format!("/v1/objects?q={q}")).await.json();
    assert_eq!(found["objects"][0]["object_id"], "user_1", "they are skipped: {found}");
    let rule = make(stage, &key, &mailing("events(*, 1h) > 100")).await;
    change(stage, &key, &rule, &json!({"when": "events(*, 60m) > 100", "enabled": false})).await;
}

async fn objects_are_found_by_or_and_not(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for (object, probability) in [("low", 0.1), ("middle", 0.5), ("high", 0.95)] {
        ingest_answered(stage, &key, object, probability).await;
        stage.advance(Duration::from_secs(1));
    }
    for (q, expected) in [
        ("is_scammer > 0.9 or is_scammer < 0.2", vec!["high", "low"]),
        ("not (is_scammer > 0.9 or is_scammer < 0.2)", vec!["middle"]),
        ("(is_scammer > 0.3) and not is_scammer > 0.9", vec!["middle"]),
        ("not is_scammer > 0.9, nonsense", vec!["middle", "low"]),
    ] {
        let escaped = q.replace(' ', "%20").replace('>', "%3E").replace('<', "%3C");
        let found = get(stage, &key, &format!("/v1/objects?q={escaped}")).await.json();
        let ids: Vec<&Value> =
            found["objects"].as_array().unwrap().iter().map(|object| &object["object_id"]).collect();
        assert_eq!(ids, expected, "{q}");
    }
}
