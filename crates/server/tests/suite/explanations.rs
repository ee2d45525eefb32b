//! What moved an answer: each part of a history is left out in turn, and all of it is paid for in one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use analyzer::{Analyzer, BoxFuture, Failure, Inquiry, InquiryAnswers};
use model::{Distribution, SignalType};
use reqwest::Method;
use serde_json::{Value, json};
use store::{Backend, Store};
use testkit::Stage;

use crate::app::{App, Reply};
use crate::scripted_analyzer::number;
use crate::signer::Signer;

testkit::on_both!(
    the_part_that_moved_an_answer_comes_first,
    at_most_twelve_parts_are_left_out_the_newest_and_the_longest_first,
    a_summary_is_explained_line_by_line,
    a_calibrated_answer_is_explained_as_calibrated,
    a_part_whose_call_fails_is_not_explained,
    what_cannot_be_explained_is_refused_and_free,
);

/// Says yes, the second option and the last level where it reads "fraud", and counts what it was asked.
struct Watchful {
    calls: Arc<AtomicUsize>,
    /// Whether a history without the word "flaky" cannot be answered.
    is_flaky: Arc<AtomicBool>,
}

const TOKENS: u64 = 1_000;

impl Analyzer for Watchful {
    fn model(&self) -> &'static str {
        "watchful"
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let sees_fraud = inquiry.state.contains("fraud");
        let answer = |question: &model::Question| {
            let mut weights = vec![1.0; question.candidates.len()];
            let favourite = match (question.kind, sees_fraud) {
                (SignalType::Noul, true) | (_, false) => 0,
                (SignalType::Choice, true) => 1,
                (SignalType::Score, true) => weights.len() - 1,
            };
            if question.kind != SignalType::Noul || sees_fraud {
                weights[favourite] = 9.0;
            }
            Distribution::from_weights(&weights).map_err(|_| analyzer::AnswerError::Incomplete)
        };
        let is_lost = self.is_flaky.load(Ordering::SeqCst) && !inquiry.state.contains("flaky");
        let reply = InquiryAnswers {
            model: self.model().to_owned(),
            answers: inquiry.questions.iter().map(answer).collect(),
            input_tokens: TOKENS,
            output_tokens: 0,
        };
        let failure = || Err(Failure::Failed("it is down".into()));
        Box::pin(std::future::ready(if is_lost { failure() } else { Ok(reply) }))
    }
}

struct WatchfulStage {
    app: App,
    store: Store,
    calls: Arc<AtomicUsize>,
    is_flaky: Arc<AtomicBool>,
}

impl Stage for WatchfulStage {
    async fn set_up(backend: Backend) -> Self {
        let (calls, is_flaky) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let analyzer = Watchful { calls: Arc::clone(&calls), is_flaky: Arc::clone(&is_flaky) };
        let app = App::start_with_analyzer(backend, Arc::new(analyzer)).await;
        let store = Store::open(app.database_url()).await.unwrap();
        Self { app, store, calls, is_flaky }
    }

    async fn tear_down(self) {
        self.store.close().await;
        self.app.tear_down().await;
    }
}

impl WatchfulStage {
    async fn account(&self) -> Signer {
        self.app.api_key(&self.app.register("ann@example.com").await).await
    }

    /// Records events, and waits for the verdict, so that nothing is left to be analyzed.
    async fn record(&self, key: &Signer, object: &str, events: &Value) {
        let body = json!({"wait": true, "events": events});
        let path = format!("/v1/objects/{object}/events");
        let reply = key.call(&self.app, Method::POST, &path, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    async fn explain(&self, key: &Signer, object: &str, signal: &str) -> Reply {
        let path = format!("/v1/objects/{object}/explain");
        key.call(&self.app, Method::POST, &path, &json!({"signal": signal})).await
    }

    async fn explained(&self, key: &Signer, object: &str, signal: &str) -> Value {
        let reply = self.explain(key, object, signal).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }
}

fn message(text: &str) -> Value {
    json!({"type": "message", "content": text})
}

fn story() -> Value {
    json!([
        message("hello"),
        {"type": "event", "name": "paid", "metadata": {"amount": 12}},
        message("this is a fraud"),
        message("goodbye"),
    ])
}

async fn the_part_that_moved_an_answer_comes_first(stage: &WatchfulStage) {
    let key = stage.account().await;
    stage.record(&key, "seller", &story()).await;
    let (charges, calls) = (
        number(&stage.store, "SELECT count(*) FROM ledger_entries WHERE kind = 'charge'").await,
        stage.calls.load(Ordering::SeqCst),
    );
    let explained = stage.explained(&key, "seller", "is_scammer").await;
    assert_eq!(explained["answer"], json!({"signal": "is_scammer", "type": "noul", "noul": 0.9}));
    assert_eq!(explained["method"], "left_out");
    let parts = explained["parts"].as_array().unwrap();
    assert_eq!(parts[0], json!({"seq": 3, "kind": "message", "excerpt": "this is a fraud", "moved": 0.4}));
    let rest: Vec<_> = parts[1..].iter().map(|part| (&part["seq"], &part["kind"], &part["moved"])).collect();
    let unmoved = json!(0.0);
    assert_eq!(
        rest,
        [
            (&json!(1), &json!("message"), &unmoved),
            (&json!(2), &json!("event"), &unmoved),
            (&json!(4), &json!("message"), &unmoved),
        ]
    );
    assert_eq!(parts[2]["excerpt"], "paid {\"amount\":12}");
    // One call for the whole and one for each part, and one line for all of them.
    assert_eq!(stage.calls.load(Ordering::SeqCst) - calls, 5);
    let charged = number(&stage.store, "SELECT count(*) FROM ledger_entries WHERE kind = 'charge'").await;
    assert_eq!(charged - charges, 1);
    let ledger = key.call(&stage.app, Method::GET, "/v1/billing/ledger?limit=1", &Value::Null).await.json();
    let line = &ledger["entries"][0];
    assert_eq!(line["delta_micros"].as_i64().unwrap(), -explained["cost_micros"].as_i64().unwrap());
    assert_eq!(line["input_tokens"], 5 * TOKENS);
    // The other types: the probability of the option chosen, and the score.
    let choice = stage.explained(&key, "seller", "buyer_intent").await;
    assert_eq!(
        (&choice["parts"][0]["seq"], choice["parts"][0]["moved"].as_f64() > Some(0.5)),
        (&json!(3), true)
    );
    let score = stage.explained(&key, "seller", "trust_score").await;
    assert_eq!(
        (&score["parts"][0]["seq"], score["parts"][0]["moved"].as_f64() > Some(0.5)),
        (&json!(3), true)
    );
    // Nothing is recorded.
    assert_eq!(number(&stage.store, "SELECT count(*) FROM answer_history").await, 1);
    assert_eq!(number(&stage.store, "SELECT count(*) FROM sync_leases").await, 0);
}

async fn at_most_twelve_parts_are_left_out_the_newest_and_the_longest_first(stage: &WatchfulStage) {
    let key = stage.account().await;
    let mut events: Vec<Value> = (0..40).map(|number| message(&format!("number {number}"))).collect();
    events[5] = message(&format!("a fraud {}", "and more ".repeat(80)));
    stage.record(&key, "seller", &json!(events)).await;
    let calls = stage.calls.load(Ordering::SeqCst);
    let explained = stage.explained(&key, "seller", "is_scammer").await;
    assert_eq!(stage.calls.load(Ordering::SeqCst) - calls, 13);
    let parts = explained["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &parts[0]["seq"]), (12, &json!(6)), "the longest is among them");
    assert_eq!(parts[0]["excerpt"].as_str().unwrap().chars().count(), 500);
    assert!(parts.iter().any(|part| part["seq"] == 40), "the newest is among them");
}

async fn a_summary_is_explained_line_by_line(stage: &WatchfulStage) {
    let key = stage.account().await;
    // Events are folded into the summary and deleted once they have been analyzed.
    let retention = json!({"event_retention": "after_analysis"});
    assert_eq!(key.call(&stage.app, Method::PATCH, "/v1/settings", &retention).await.status, 200);
    let long_ago = json!([{"type": "event", "name": "fraud_reported"}]);
    stage.record(&key, "seller", &long_ago).await;
    stage.record(&key, "seller", &json!([message("hello")])).await;
    let explained = stage.explained(&key, "seller", "is_scammer").await;
    assert_eq!(explained["answer"]["noul"], 0.9);
    let parts = explained["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2, "{explained:#}");
    assert!(parts.iter().all(|part| part["kind"] == "summary" && part.get("seq").is_none()));
    assert_eq!(parts[0]["excerpt"], "Earlier actions: fraud_reported 1.", "{explained:#}");
}

async fn a_calibrated_answer_is_explained_as_calibrated(stage: &WatchfulStage) {
    let key = stage.account().await;
    stage.record(&key, "seller", &story()).await;
    stage.record(&key, "other", &json!([message("hello")])).await;
    let labels: Vec<Value> = (0..60)
        .map(|number| json!({"object_id": format!("user_{number}"), "signal": "is_scammer", "value": number % 2 == 0}))
        .collect();
    for number in 0..60 {
        let text = if number % 2 == 0 { "a fraud" } else { "a deal" };
        stage.record(&key, &format!("user_{number}"), &json!([message(text)])).await;
    }
    let labelled = key.call(&stage.app, Method::POST, "/v1/labels", &json!({"labels": labels})).await.json();
    assert_eq!(labelled["accepted"], 60);
    let path = "/v1/signals/is_scammer/calibrations";
    let fitted = key.call(&stage.app, Method::POST, path, &json!({})).await;
    assert_eq!(fitted.status, 201, "{}", fitted.text);
    let switched = json!({"id": fitted.json()["id"]});
    let switched = key.call(&stage.app, Method::PUT, "/v1/signals/is_scammer/calibration", &switched).await;
    assert_eq!(switched.status, 200, "{}", switched.text);
    let explained = stage.explained(&key, "seller", "is_scammer").await;
    let (calibrated, raw) = (&explained["answer"]["noul"], &explained["answer"]["raw"]["noul"]);
    assert_eq!(raw, 0.9);
    let without = stage.explained(&key, "other", "is_scammer").await["answer"]["noul"].as_f64().unwrap();
    let moved = explained["parts"][0]["moved"].as_f64().unwrap();
    assert!((calibrated.as_f64().unwrap() - without - moved).abs() < 1e-5, "{explained:#}");
}

async fn a_part_whose_call_fails_is_not_explained(stage: &WatchfulStage) {
    let key = stage.account().await;
    stage.record(&key, "seller", &json!([message("a flaky one"), message("a fraud"), message("bye")])).await;
    stage.is_flaky.store(true, Ordering::SeqCst);
    let explained = stage.explained(&key, "seller", "is_scammer").await;
    let told: Vec<_> =
        explained["parts"].as_array().unwrap().iter().map(|part| part["seq"].as_i64().unwrap()).collect();
    assert_eq!(told, [2, 3]);
    let other = json!([message("a deal")]);
    stage.is_flaky.store(false, Ordering::SeqCst);
    stage.record(&key, "other", &other).await;
    stage.is_flaky.store(true, Ordering::SeqCst);
    let charges = number(&stage.store, "SELECT count(*) FROM ledger_entries WHERE kind = 'charge'").await;
    stage.explain(&key, "other", "is_scammer").await.refused(502, "analyzer_error");
    let charged = number(&stage.store, "SELECT count(*) FROM ledger_entries WHERE kind = 'charge'").await;
    assert_eq!(charged, charges, "nothing was read");
}

async fn what_cannot_be_explained_is_refused_and_free(stage: &WatchfulStage) {
    let key = stage.account().await;
    stage.record(&key, "seller", &story()).await;
    let calls = stage.calls.load(Ordering::SeqCst);
    stage.explain(&key, "nobody", "is_scammer").await.refused(404, "not_found");
    stage.explain(&key, "seller", "no_such_signal").await.refused(404, "not_found");
    let path = "/v1/objects/seller/explain";
    for body in [json!({}), json!({"signal": 3}), json!({"signal": null})] {
        key.call(&stage.app, Method::POST, path, &body).await.refused(400, "bad_request");
    }
    let stranger = stage.app.api_key(&stage.app.register("eve@example.com").await).await;
    stage.explain(&stranger, "seller", "is_scammer").await.refused(404, "not_found");
    assert_eq!(stage.calls.load(Ordering::SeqCst), calls);
    // A signal that is switched off can still be explained.
    let off = json!({"type": "noul", "instructions": "Is it a fraud?", "enabled": false});
    let put = key.call(&stage.app, Method::PUT, "/v1/signals/is_scammer", &off).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(stage.explained(&key, "seller", "is_scammer").await["parts"][0]["seq"], 3);
    assert_eq!(number(&stage.store, "SELECT count(*) FROM sync_leases").await, 0);
}
