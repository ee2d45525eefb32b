//! The embedded model behind the interface: an inquiry has a limited time, and what is given up costs nothing.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use store::Store;
use testkit::{Backend, PATIENCE, Stage as _};

use crate::app::App;
use crate::metrics::{scrape, value};
use crate::scripted_analyzer::{number, until};

/// The model, with less time than any inquiry takes.
const HURRIED: &[(&str, &str)] = &[("AUSPEX_ANALYZER", "embedded"), ("AUSPEX_ANALYZER_TIMEOUT_MS", "1")];

mod an_inquiry_that_takes_too_long_is_given_up_and_not_charged {
    #[test]
    fn sqlite() {
        super::run(testkit::Backend::Sqlite, super::HURRIED, super::is_given_up);
    }

    #[test]
    fn postgres() {
        super::run(testkit::Backend::Postgres, super::HURRIED, super::is_given_up);
    }
}

mod a_caller_who_leaves_a_verdict_gets_it_from_the_queue {
    const SETTINGS: &[(&str, &str)] =
        &[("AUSPEX_ANALYZER", "embedded"), ("AUSPEX_ANALYZER_TIMEOUT_MS", "600000")];

    #[test]
    fn sqlite() {
        super::run(testkit::Backend::Sqlite, SETTINGS, super::goes_on_in_the_queue);
    }

    #[test]
    fn postgres() {
        super::run(testkit::Backend::Postgres, SETTINGS, super::goes_on_in_the_queue);
    }
}

mod an_explanation_reads_the_history_once_and_a_trial_costs_what_was_estimated {
    const SETTINGS: &[(&str, &str)] =
        &[("AUSPEX_ANALYZER", "embedded"), ("AUSPEX_ANALYZER_TIMEOUT_MS", "600000")];

    #[test]
    fn sqlite() {
        super::run(testkit::Backend::Sqlite, SETTINGS, super::is_explained_and_tried);
    }

    #[test]
    fn postgres() {
        super::run(testkit::Backend::Postgres, SETTINGS, super::is_explained_and_tried);
    }
}

fn run(backend: Backend, settings: &[(&str, &str)], story: impl AsyncFnOnce(&App)) {
    testkit::in_runtime(async {
        let app = App::start(backend, settings).await;
        story(&app).await;
        app.tear_down().await;
    });
}

async fn charges(app: &App, token: &str) -> usize {
    let ledger = app.call(token, Method::GET, "/v1/billing/ledger?type=charge", &Value::Null).await.json();
    ledger["entries"].as_array().unwrap().len()
}

async fn is_given_up(app: &App) {
    let token = app.register("ann@example.com").await;
    let question = json!({"state": "It is.", "questions": {"a": {"type": "noul", "instructions": "Is it?"}}});
    let reply = app.call(&token, Method::POST, "/v1/systemone", &question).await;
    reply.refused(503, "analyzer_busy");
    assert!(!reply.header("retry-after").is_empty());
    // A queued analysis uses up its tries.
    let events = json!({"events": [{"type": "message", "content": "hello"}]});
    assert_eq!(app.call(&token, Method::POST, "/v1/objects/one/events", &events).await.status, 202);
    let store = Store::open(app.database_url()).await.unwrap();
    until("five tries are all", async || {
        // Only while nobody works on it: a lease that runs out is another story.
        if number(&store, "SELECT count(lease_token) FROM jobs").await == 0 {
            app.advance(Duration::from_secs(10));
        }
        number(&store, "SELECT count(*) FROM jobs").await == 0
    })
    .await;
    store.close().await;
    // The job is removed before it is counted.
    let counted = "auspex_analyses_total{source=\"async\",outcome=\"given_up\"}";
    until("the analysis is counted", async || value(&scrape(app).await, counted) >= 1.0).await;
    assert_eq!(charges(app, &token).await, 0);
}

async fn goes_on_in_the_queue(app: &App) {
    let token = app.register("ann@example.com").await;
    // The default signals and a question of many long options: many passes.
    let criteria: serde_json::Map<String, Value> =
        (0..26).map(|number| (format!("option_{number}"), json!("very ".repeat(120)))).collect();
    let signal = json!({"type": "choice", "instructions": "why ".repeat(250), "criteria": criteria});
    assert_eq!(app.call(&token, Method::PUT, "/v1/signals/route", &signal).await.status, 200);
    let events = json!({"wait": true, "events": [{"type": "message", "content": "hello"}]});
    let request = app.request(Method::POST, "/v1/objects/one/events").bearer_auth(&token).json(&events);
    let asking = request.send();
    let recorded = async {
        while app.call(&token, Method::GET, "/v1/objects/one", &Value::Null).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        biased;
        () = recorded => {}
        _ = asking => panic!("it was answered at once"),
    }
    // The caller is gone. The analysis is stopped, and made again from the queue, which is all that is charged.
    assert_eq!(app.call(&token, Method::DELETE, "/v1/signals/route", &Value::Null).await.status, 204);
    let answered = tokio::time::timeout(PATIENCE, async {
        // Enough for the debounce, and less than a lease: an analysis that takes long is not begun again beside itself.
        let mut steps = std::iter::repeat_n(Duration::from_secs(3), 20);
        loop {
            let object = app.call(&token, Method::GET, "/v1/objects/one", &Value::Null).await.json();
            if !object["analysis"].as_array().unwrap().is_empty() {
                break;
            }
            app.advance(steps.next().unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    answered.await.expect("it is analyzed all the same");
    app.settle().await;
    assert_eq!(charges(app, &token).await, 1);
}

async fn is_explained_and_tried(app: &App) {
    let token = app.register("ann@example.com").await;
    let signal = json!({"type": "noul", "instructions": "Does the user threaten somebody?"});
    for key in ["is_scammer", "trust_score", "buyer_intent"] {
        app.call(&token, Method::DELETE, &format!("/v1/signals/{key}"), &Value::Null).await;
    }
    assert_eq!(app.call(&token, Method::PUT, "/v1/signals/threat", &signal).await.status, 200);
    let said =
        ["Is the lamp still there?", "I know where you live and I will hurt you.", "Thank you, goodbye."];
    let events: Vec<Value> = said.iter().map(|text| json!({"type": "message", "content": text})).collect();
    for object in ["one", "two", "three"] {
        let body = json!({"wait": true, "events": events});
        let path = format!("/v1/objects/{object}/events");
        let verdict = app.call(&token, Method::POST, &path, &body).await;
        assert_eq!(verdict.status, 200, "{}", verdict.text);
    }
    let before = charges(app, &token).await;
    let request = json!({"signal": "threat"});
    let reply = app.call(&token, Method::POST, "/v1/objects/one/explain", &request).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let explained = reply.json();
    assert_eq!(explained["method"], "unread");
    let first = &explained["parts"][0];
    assert_eq!((&first["seq"], &first["excerpt"]), (&json!(2), &json!(said[1])), "{explained:#}");
    assert!(first["moved"].as_f64().unwrap() > 0.05, "{explained:#}");
    let read = app.call(&token, Method::GET, "/v1/objects/one", &Value::Null).await.json();
    assert_eq!(read["analysis"][0]["noul"], explained["answer"]["noul"], "the answer is the same");
    assert_eq!(charges(app, &token).await, before + 1);

    let mut trial = json!({"instructions": "Is somebody threatened with violence here?", "over": "recent"});
    trial["dry_run"] = json!(true);
    let estimate = app.call(&token, Method::POST, "/v1/signals/threat/trials", &trial).await.json();
    trial["dry_run"] = json!(false);
    let started = app.call(&token, Method::POST, "/v1/signals/threat/trials", &trial).await.json();
    let path = format!("/v1/signals/threat/trials/{}", started["trial"]["id"].as_str().unwrap());
    let read = async || app.call(&token, Method::GET, &path, &Value::Null).await.json();
    until("the trial is done", async || read().await["status"] == "done").await;
    let cost = read().await["cost_micros"].as_f64().unwrap();
    let estimated = estimate["estimated_cost_micros"].as_f64().unwrap();
    assert!(cost > 0.0 && (estimated / cost - 1.0).abs() < 0.2, "{estimated} and {cost}");
}
