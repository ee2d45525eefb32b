//! Rules in shadow: they remember and record, and nothing is sent.

use reqwest::Method;
use serde_json::{Value, json};

use super::{change, firings, id, ingest_answered, mailing, make, patch, post};
use crate::scripted_analyzer::Scripted;

testkit::on_both!(
    a_rule_in_shadow_records_and_sends_nothing,
    going_live_keeps_the_state,
    a_rule_is_live_unless_it_says_otherwise,
);

const RISKY: &str = "is_scammer > 0.9";

fn shadow(when: &str) -> Value {
    let mut rule = mailing(when);
    rule["mode"] = json!("shadow");
    rule
}

async fn a_rule_in_shadow_records_and_sends_nothing(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let slack = json!({"webhook_url": "https://hooks.slack.com/services/T/B/x"});
    let chatting = json!({"when": RISKY, "mode": "shadow", "action_type": "slack", "action_config": slack});
    let mailing = make(stage, &key, &shadow(RISKY)).await;
    make(stage, &key, &chatting).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    ingest_answered(stage, &key, "user_1", 0.96).await;
    stage.settle().await;
    let of_mailing = firings(stage, &key, &format!("?rule_id={}", id(&mailing))).await;
    assert_eq!(of_mailing.len(), 1, "it keeps its state: {of_mailing:?}");
    assert_eq!(of_mailing[0]["status"], "shadow");
    assert_eq!(of_mailing[0]["signal_values"], json!({"is_scammer": 0.95}));
    assert_eq!(of_mailing[0].get("detail"), None);
    assert_eq!(firings(stage, &key, "").await.len(), 2);
    assert!(stage.subjects_to("alerts@example.com").await.is_empty(), "no mail");
    assert_eq!(stage.number("SELECT count(*) FROM outbox").await, 0, "no chat message");
}

async fn going_live_keeps_the_state(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = make(stage, &key, &shadow(RISKY)).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    let live = change(stage, &key, &rule, &json!({"mode": "live"})).await;
    assert_eq!(live["mode"], "live");
    ingest_answered(stage, &key, "user_1", 0.97).await;
    assert_eq!(firings(stage, &key, "").await.len(), 1, "it was already true");
    ingest_answered(stage, &key, "user_2", 0.97).await;
    stage.settle().await;
    let fired = firings(stage, &key, "?object_id=user_2").await;
    assert_eq!(fired[0]["status"], "dispatched");
    assert_eq!(stage.subjects_to("alerts@example.com").await.len(), 1);
    change(stage, &key, &rule, &json!({"mode": "shadow"})).await;
    ingest_answered(stage, &key, "user_3", 0.97).await;
    assert_eq!(firings(stage, &key, "?object_id=user_3").await[0]["status"], "shadow");
}

async fn a_rule_is_live_unless_it_says_otherwise(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = make(stage, &key, &mailing(RISKY)).await;
    assert_eq!(rule["mode"], "live");
    let mut with_null = mailing(RISKY);
    with_null["mode"] = Value::Null;
    assert_eq!(make(stage, &key, &with_null).await["mode"], "live");
    let tried = make(stage, &key, &shadow("trust_score < 1")).await;
    assert_eq!(change(stage, &key, &tried, &json!({"name": "Tried"})).await["mode"], "shadow");
    let listed = key.call(stage, Method::GET, "/v1/rules", &Value::Null).await.json();
    let rules = listed["rules"].as_array().unwrap();
    let mut modes: Vec<&str> = rules.iter().map(|rule| rule["mode"].as_str().unwrap()).collect();
    modes.sort_unstable();
    assert_eq!(modes, ["live", "live", "shadow"]);
    let mut wrong = mailing(RISKY);
    wrong["mode"] = json!("dry");
    let message = post(stage, &key, &wrong).await.refused(400, "bad_request");
    assert!(message.starts_with("mode: "), "{message}");
    patch(stage, &key, &rule, &json!({"mode": "dry"})).await.refused(400, "bad_request");
}
