//! The second analyzer: asked only where the first is unsure, within caps, and never in its way.

mod limits;
mod settings;

use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage};

use crate::app::{App, Reply};
use crate::labels::put;
use crate::receiver::Receiver;
use crate::scripted_analyzer::{
    PRICE_MICROS, Scripted, ScriptedAnalyzer, Settings, Turn, Usual, get, ingest_and_wait, send_event, until,
};
use crate::signer::Signer;

testkit::on_both!(
    sure_answers_cost_one_call_and_one_line,
    an_unsure_answer_is_the_second_analyzer_s_everywhere,
    queued_analyses_escalate_too,
    only_unsure_signals_are_sent,
    a_band_includes_its_ends,
    confidences_below_are_escalated,
    the_calibrated_value_decides_and_the_second_is_not_calibrated,
    whatever_fails_the_first_answer_stands,
    a_second_analyzer_that_limits_its_rate_is_left_alone,
    a_partial_answer_counts_for_what_it_has,
    a_failing_second_analyzer_uses_up_no_attempt,
    the_playground_escalates_and_says_what_both_cost,
    usage_counts_an_analysis_of_two_stages_once,
);

/// The service beside two scripted analyzers.
pub(crate) struct Staged<S = Usual> {
    stage: Scripted<S>,
    second: ScriptedAnalyzer,
    settings: PhantomData<S>,
}

impl<S> Deref for Staged<S> {
    type Target = Scripted<S>;

    fn deref(&self) -> &Scripted<S> {
        &self.stage
    }
}

impl<S: Settings> Stage for Staged<S> {
    async fn set_up(backend: Backend) -> Self {
        let second = ScriptedAnalyzer::start_as("second").await;
        let stage = Scripted::start(backend, &with_second(&second.url())).await;
        second.always(Turn::Answer(0.95));
        Self { stage, second, settings: PhantomData }
    }

    async fn tear_down(self) {
        self.stage.tear_down().await;
    }
}

/// The settings that lead to a second scripted analyzer.
fn with_second(url: &str) -> [(&str, &str); 4] {
    [
        ("AUSPEX_ESCALATE_ANALYZER", "systemone"),
        ("AUSPEX_ESCALATE_URL", url),
        ("AUSPEX_ESCALATE_MODEL", "second"),
        ("AUSPEX_ESCALATE_TIMEOUT_MS", "2000"),
    ]
}

fn path(signal: &str) -> String {
    format!("/v1/signals/{signal}/escalation")
}

async fn set(app: &App, key: &Signer, signal: &str, body: &Value) -> Reply {
    key.call(app, Method::PUT, &path(signal), body).await
}

/// Escalates a band of the usual yes/no signal.
async fn escalate_band(app: &App, key: &Signer) {
    let reply = set(app, key, "is_scammer", &json!({"band": [0.3, 0.7]})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

async fn read(app: &App, key: &Signer, signal: &str) -> Value {
    let reply = get(app, key, &path(signal)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// What was escalated of the usual signal today, and what that cost.
async fn today(app: &App, key: &Signer) -> (i64, i64) {
    let read = read(app, key, "is_scammer").await;
    (read["escalated_today"].as_i64().unwrap(), read["cost_micros_today"].as_i64().unwrap())
}

/// An account with the usual signal's band, and the first analyzer unsure.
async fn unsure<S: Settings>(stage: &Staged<S>) -> Signer {
    let key = stage.account("ann@example.com").await;
    escalate_band(stage, &key).await;
    stage.analyzer.always(Turn::Answer(0.5));
    key
}

/// A verdict's answer to a signal.
async fn verdict<S>(stage: &Staged<S>, key: &Signer, object: &str, signal: &str) -> Value {
    let reply = ingest_and_wait(stage, key, object, "seen").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    answer_to(&reply.json()["answers"], signal)
}

fn answer_to(answers: &Value, signal: &str) -> Value {
    let is_to = |answer: &&Value| answer["signal"] == signal || answer["key"] == signal;
    answers.as_array().unwrap().iter().find(is_to).unwrap_or_else(|| panic!("{signal} in {answers}")).clone()
}

async fn lines(app: &App, key: &Signer) -> Vec<Value> {
    let ledger = get(app, key, "/v1/billing/ledger").await.json();
    let entries = ledger["entries"].as_array().unwrap_or_else(|| panic!("{ledger}")).clone();
    entries.into_iter().filter(|entry| entry["reason"] == "analysis").collect()
}

async fn sure_answers_cost_one_call_and_one_line(stage: &Staged) {
    let key = unsure(stage).await;
    stage.analyzer.always(Turn::Answer(0.9));
    let answer = verdict(stage, &key, "user_1", "is_scammer").await;
    assert_eq!(answer, json!({"signal": "is_scammer", "type": "noul", "noul": 0.9}));
    assert_eq!((stage.second.count(), stage.charges().await), (0, 1));
    assert_eq!(today(stage, &key).await, (0, 0));
}

async fn an_unsure_answer_is_the_second_analyzer_s_everywhere(stage: &Staged) {
    let key = unsure(stage).await;
    let rule = json!({"when": "is_scammer > 0.9", "action_type": "email",
                      "action_config": {"to": "alerts@example.com"}});
    assert_eq!(key.call(stage, Method::POST, "/v1/rules", &rule).await.status, 201);

    let reply = ingest_and_wait(stage, &key, "user_1", "seen").await.json();
    let expected =
        json!({"signal": "is_scammer", "type": "noul", "noul": 0.95, "escalated": true, "model": "second"});
    assert_eq!(
        (&reply["model"], &answer_to(&reply["answers"], "is_scammer")),
        (&json!("scripted"), &expected)
    );
    let other = answer_to(&reply["answers"], "trust_score");
    assert_eq!((other.get("escalated"), other.get("model")), (None, None), "sure, or not set");

    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    let shown = answer_to(&object["analysis"], "is_scammer");
    assert_eq!(
        (&shown["noul"], &shown["model"], &shown["escalated"]),
        (&json!(0.95), &json!("second"), &json!(true))
    );
    assert_eq!(answer_to(&object["analysis"], "trust_score")["model"], "scripted");
    let past = get(stage, &key, "/v1/objects/user_1/answers").await.json();
    assert_eq!(past["analyses"][0]["model"], "scripted");
    let mut recorded = answer_to(&past["analyses"][0]["answers"], "is_scammer");
    assert_eq!(recorded["version"].take(), json!(1));
    recorded.as_object_mut().unwrap().remove("version");
    assert_eq!(recorded, expected);
    let exported = get(stage, &key, "/v1/export?what=answers").await.text;
    let row = exported.lines().find(|line| line.contains("is_scammer")).unwrap();
    assert_eq!(row.matches("\"model\"").count(), 1, "{row}");
    let row: Value = serde_json::from_str(row).unwrap();
    assert_eq!((&row["model"], &row["escalated"]), (&json!("second"), &json!(true)));
    let csv = get(stage, &key, "/v1/export?what=answers&format=csv").await.text;
    assert!(csv.lines().next().unwrap().ends_with(",read_seq,escalated,cursor"), "{csv}");
    assert!(csv.lines().any(|line| line.contains(",second,sync,1,true,")), "{csv}");

    stage.settle().await;
    let firings = get(stage, &key, "/v1/rule_firings").await.json();
    assert_eq!(firings["firings"].as_array().unwrap().len(), 1, "by the second answer: {firings}");

    let lines = lines(stage, &key).await;
    let models: Vec<&Value> = lines.iter().map(|line| &line["model"]).collect();
    assert_eq!(models, [&json!("second"), &json!("scripted")], "a line for each stage, the newest first");
    assert!(lines.iter().all(|line| line["object_id"] == "user_1"), "{lines:?}");
    assert_eq!(today(stage, &key).await, (1, PRICE_MICROS));

    // A label keeps what the first analyzer had said.
    let label = put(stage, &key, "user_1", "is_scammer", &json!(true)).await.json();
    let answer = &label["answer"];
    assert_eq!((&answer["noul"], &answer["model"]), (&json!(0.95), &json!("second")));
    assert_eq!(answer["first"], json!({"noul": 0.5, "model": "scripted"}));
    assert_eq!(label["answer"].to_string().matches("\"model\"").count(), 2);
}

async fn queued_analyses_escalate_too(stage: &Staged) {
    let key = unsure(stage).await;
    let receiver = Receiver::start().await;
    let endpoint = json!({"url": receiver.url(), "events": ["analysis.completed"]});
    assert_eq!(key.call(stage, Method::POST, "/v1/webhooks", &endpoint).await.status, 201);
    send_event(stage, &key, "user_1", "seen").await;
    stage.advance(Duration::from_secs(5));
    stage.settle().await;
    let payload: Value = serde_json::from_str(&receiver.got(1).await.body).unwrap();
    let expected =
        json!({"signal": "is_scammer", "type": "noul", "noul": 0.95, "escalated": true, "model": "second"});
    assert_eq!(answer_to(&payload["answers"], "is_scammer"), expected, "{payload}");
    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    let shown = answer_to(&object["analysis"], "is_scammer");
    assert_eq!((&shown["noul"], &shown["model"]), (&json!(0.95), &json!("second")));
    assert_eq!((stage.second.count(), stage.charges().await), (1, 2));
    // A sure answer later has one model again.
    stage.analyzer.always(Turn::Answer(0.1));
    verdict(stage, &key, "user_1", "is_scammer").await;
    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    let shown = answer_to(&object["analysis"], "is_scammer");
    assert_eq!((&shown["model"], shown.get("escalated")), (&json!("scripted"), None));
    assert_eq!(stage.number("SELECT count(*) FROM answers WHERE first IS NOT NULL").await, 0);
}

async fn only_unsure_signals_are_sent(stage: &Staged) {
    let key = unsure(stage).await;
    // 0.5 of the first of three options has a confidence far above this.
    assert_eq!(set(stage, &key, "buyer_intent", &json!({"below": 0.001})).await.status, 200);
    verdict(stage, &key, "user_1", "is_scammer").await;
    assert_eq!(stage.second.kinds(), [["noul"]]);
    assert_eq!(stage.analyzer.kinds()[0].len(), 3, "the first one is asked all");
    assert_eq!(stage.second.seen(), stage.analyzer.seen(), "about the same history");
}

async fn a_band_includes_its_ends(stage: &Staged) {
    let key = unsure(stage).await;
    for (probability, is_escalated) in [(0.299_999, false), (0.3, true), (0.7, true), (0.700_001, false)] {
        stage.analyzer.always(Turn::Answer(probability));
        let answer = verdict(stage, &key, "user_1", "is_scammer").await;
        assert_eq!(answer["escalated"] == json!(true), is_escalated, "{probability}: {answer}");
    }
    assert_eq!((stage.second.count(), stage.charges().await), (2, 6));
}

async fn confidences_below_are_escalated(stage: &Staged) {
    let key = stage.account("ann@example.com").await;
    for signal in ["buyer_intent", "trust_score"] {
        assert_eq!(set(stage, &key, signal, &json!({"below": 0.5})).await.status, 200);
    }
    stage.analyzer.always(Turn::Answer(0.5));
    let choice = verdict(stage, &key, "user_1", "buyer_intent").await;
    assert_eq!((&choice["escalated"], &choice["probabilities"]["browsing"]), (&json!(true), &json!(0.95)));
    assert!(choice["confidence"].as_f64().unwrap() > 0.5);
    assert_eq!(stage.second.kinds()[0].len(), 2, "in one call");
    // Two answers, one line: each has its part of the price.
    let cost = read(stage, &key, "buyer_intent").await["cost_micros_today"].as_i64().unwrap();
    assert_eq!(cost * 2, PRICE_MICROS);
    stage.analyzer.always(Turn::Answer(0.99));
    let sure = verdict(stage, &key, "user_1", "trust_score").await;
    assert_eq!((sure.get("escalated"), stage.second.count()), (None, 1));
}

async fn the_calibrated_value_decides_and_the_second_is_not_calibrated(stage: &Staged) {
    let key = unsure(stage).await;
    // 0.9 becomes 0.55.
    stage
        .execute(
            "INSERT INTO calibrations (tenant_id, calibration_id, signal_id, version, calibrator, labels, created_at)
             SELECT tenant_id, signal_id, signal_id, version, '{\"method\":\"platt\",\"slope\":1.0,\"intercept\":-2.0}', 50,
                    created_at FROM signals WHERE key = 'is_scammer'",
        )
        .await;
    stage.execute("UPDATE signals SET calibration_id = signal_id WHERE key = 'is_scammer'").await;
    // Question sets are cached for a moment.
    stage.advance(Duration::from_secs(5));
    stage.analyzer.always(Turn::Answer(0.9));
    let answer = verdict(stage, &key, "user_1", "is_scammer").await;
    assert_eq!(
        (&answer["noul"], &answer["escalated"], answer.get("raw")),
        (&json!(0.95), &json!(true), None)
    );
    let label = put(stage, &key, "user_1", "is_scammer", &json!(true)).await.json();
    let first = &label["answer"]["first"];
    assert_eq!(first["raw"], json!({"noul": 0.9}));
    let calibrated = first["noul"].as_f64().unwrap();
    assert!((calibrated - 0.549).abs() < 0.001, "{label}");
    // 0.5 becomes 0.12, which is sure.
    stage.analyzer.always(Turn::Answer(0.5));
    let answer = verdict(stage, &key, "user_1", "is_scammer").await;
    assert_eq!((answer.get("escalated"), &answer["raw"]), (None, &json!({"noul": 0.5})));
    assert_eq!(stage.second.count(), 1);
}

async fn whatever_fails_the_first_answer_stands(stage: &Staged) {
    let key = unsure(stage).await;
    let stands = json!({"signal": "is_scammer", "type": "noul", "noul": 0.5, "escalated": false});
    for turn in [Turn::Refuse(500, None), Turn::Say("nonsense"), Turn::Silence] {
        stage.second.then(turn.clone());
        assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await, stands, "{turn:?}");
        assert_eq!(today(stage, &key).await, (0, 0), "given back after {turn:?}");
        stage.advance(Duration::from_secs(2));
    }
    stage.second.stop().await;
    assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await, stands, "it is down");
    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    let shown = answer_to(&object["analysis"], "is_scammer");
    assert_eq!((&shown["escalated"], &shown["model"]), (&json!(false), &json!("scripted")));
    assert_eq!(stage.charges().await, 4, "a line each");
    let past = get(stage, &key, "/v1/objects/user_1/answers").await.json();
    assert_eq!(answer_to(&past["analyses"][0]["answers"], "is_scammer")["escalated"], false);
}

async fn a_second_analyzer_that_limits_its_rate_is_left_alone(stage: &Staged) {
    let key = unsure(stage).await;
    stage.second.then(Turn::Refuse(429, Some("30")));
    for _ in 0..3 {
        assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await["escalated"], false);
    }
    assert_eq!((stage.second.count(), today(stage, &key).await), (1, (0, 0)), "asked once");
    stage.advance(Duration::from_secs(31));
    assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await["escalated"], true);
    assert_eq!(stage.second.count(), 2);
}

async fn a_partial_answer_counts_for_what_it_has(stage: &Staged) {
    let key = unsure(stage).await;
    assert_eq!(set(stage, &key, "trust_score", &json!({"below": 0.9})).await.status, 200);
    stage.second.then(Turn::Only("noul"));
    let reply = ingest_and_wait(stage, &key, "user_1", "seen").await.json();
    let escalated = |signal| answer_to(&reply["answers"], signal)["escalated"].clone();
    assert_eq!((escalated("is_scammer"), escalated("trust_score")), (json!(true), json!(false)));
    assert_eq!(today(stage, &key).await, (1, PRICE_MICROS));
    let other = read(stage, &key, "trust_score").await;
    assert_eq!((&other["escalated_today"], &other["cost_micros_today"]), (&json!(0), &json!(0)));
    assert_eq!(stage.charges().await, 2);
}

async fn a_failing_second_analyzer_uses_up_no_attempt(stage: &Staged) {
    let key = unsure(stage).await;
    stage.second.then(Turn::Refuse(500, None));
    send_event(stage, &key, "user_1", "seen").await;
    stage.advance(Duration::from_secs(5));
    stage.settle().await;
    assert_eq!((stage.analyzer.count(), stage.second.count(), stage.charges().await), (1, 1, 1));
    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    assert_eq!(answer_to(&object["analysis"], "is_scammer")["escalated"], false);
}

async fn the_playground_escalates_and_says_what_both_cost(stage: &Staged) {
    let key = unsure(stage).await;
    let request = json!({"events": [{"type": "event", "name": "seen"}], "signals": ["is_scammer"]});
    let played = key.call(stage, Method::POST, "/v1/playground", &request).await.json();
    let answer = answer_to(&played["answers"], "is_scammer");
    assert_eq!((&answer["noul"], &answer["model"]), (&json!(0.95), &json!("second")));
    assert_eq!(played["cost_micros"], 2 * PRICE_MICROS);
    assert_eq!(stage.charges().await, 2);
    // What moved an answer is asked of the first analyzer.
    verdict(stage, &key, "user_1", "is_scammer").await;
    let asked = stage.second.count();
    let explained =
        key.call(stage, Method::POST, "/v1/objects/user_1/explain", &json!({"signal": "is_scammer"})).await;
    assert_eq!(explained.json()["answer"]["noul"], 0.5);
    assert_eq!(stage.second.count(), asked);
}

async fn usage_counts_an_analysis_of_two_stages_once(stage: &Staged) {
    let key = unsure(stage).await;
    for object in ["user_1", "user_2"] {
        verdict(stage, &key, object, "is_scammer").await;
    }
    let usage = get(stage, &key, "/v1/usage").await.json();
    let totals = &usage["totals"];
    assert_eq!((&totals["analyses"], &totals["spend_micros"]), (&json!(2), &json!(4 * PRICE_MICROS)));
    let by_model: Vec<(&Value, &Value)> =
        usage["by_model"].as_array().unwrap().iter().map(|part| (&part["key"], &part["analyses"])).collect();
    assert_eq!(by_model, [(&json!("scripted"), &json!(2)), (&json!("second"), &json!(2))]);
    assert_eq!(usage["by_source"][0]["analyses"], 2);
    assert!(usage["by_signal"].as_array().unwrap().iter().all(|signal| signal["analyses"] == 2), "{usage}");
    let day = usage["series"].as_array().unwrap().last().unwrap();
    assert_eq!((&day["analyses"], &day["sync"]), (&json!(2), &json!(2)));
    // The average cost of an analysis is that of both stages.
    send_event(stage, &key, "user_3", "seen").await;
    let status = get(stage, &key, "/v1/signals/is_scammer/backfill").await.json();
    assert_eq!(status["estimate"], json!({"objects": 1, "estimated_cost_micros": 2 * PRICE_MICROS}));
    stage.advance(Duration::from_secs(5));
    stage.settle().await;
    stage.audit().await;
    stage.advance(Duration::from_hours(24 * 9));
    until("old counts are swept", async || {
        stage.sweeper_has_swept().await;
        stage.number("SELECT count(*) FROM escalation_days").await == 0
            && stage.number("SELECT count(*) FROM escalation_signal_days").await == 0
    })
    .await;
}
