//! What the docs promise of the embedded model: their examples fire, and nothing else does.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage as _};

use crate::app::App;

const SIGNALS: &str = include_str!("../../../../docs/signals.md");
const API: &str = include_str!("../../../../docs/api.md");

/// Tickets of customers whose work had stopped, and who asked for a person.
const URGENT: [&str; 5] = [
    "Our shop has been down since this morning and every order is lost. Your bot has given me the same wrong answer three times. Let me speak to a human now!",
    "Nobody can log in and the whole office stands still. Your bot misunderstands me for the third time, I am angry. Get me a person.",
    "The checkout fails for all customers and we lose money every minute. This is the fourth time I write. I want to talk to somebody, now.",
    "Your update deleted our customer records. The assistant does not understand me. Connect me with a real person at once.",
    "Production has stopped, the machines cannot reach your service. Stop sending me articles and give me a human.",
];
/// Tickets that could wait.
const PATIENT: [&str; 5] = [
    "How can I change the colour of the buttons? No hurry.",
    "Thank you, that answered my question. You can close this.",
    "Is there a plan to support dark mode one day?",
    "Where do I find last month's invoice? I need it some time this week.",
    "I like the new report. Could it also show the year before?",
];

/// The body of a call in a page: what stands between `-d '` and `'` after this text.
fn body(page: &str, call: &str) -> Value {
    let (_, after) = page.split_once(call).unwrap_or_else(|| panic!("{call} is not in the docs"));
    let (_, after) = after.split_once("-d '").unwrap();
    let (body, _) = after.split_once('\'').unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{call}: {error}: {body}"))
}

/// One database is enough: what is tested is the model.
#[test]
fn the_examples_of_the_docs_fire_with_the_embedded_model() {
    testkit::in_runtime(async {
        let settings = [("AUSPEX_ANALYZER", "embedded"), ("AUSPEX_ANALYZER_TIMEOUT_MS", "600000")];
        let app = App::start(Backend::Sqlite, &settings).await;
        let token = app.register("ann@example.com").await;
        for key in ["is_scammer", "trust_score", "buyer_intent"] {
            app.call(&token, Method::DELETE, &format!("/v1/signals/{key}"), &Value::Null).await;
        }
        tickets_that_need_a_person_meet_the_rule(&app, &token).await;
        the_playground_is_as_sure_as_the_guide_says(&app, &token).await;
        app.tear_down().await;
    });
}

async fn tickets_that_need_a_person_meet_the_rule(app: &App, token: &str) {
    for key in ["needs_person", "ticket_urgency"] {
        let signal = body(SIGNALS, &format!("call PUT /v1/signals/{key} "));
        let put = app.call(token, Method::PUT, &format!("/v1/signals/{key}"), &signal).await;
        assert_eq!(put.status, 200, "{}", put.text);
    }
    let (_, after) = SIGNALS.split_once("call PUT /v1/signals/ticket_urgency").unwrap();
    let rule = body(after, "call POST /v1/rules ");
    assert_eq!(rule["name"], "Take over");
    let tickets = URGENT.iter().enumerate().map(|(number, text)| (format!("urgent_{number}"), text));
    let tickets =
        tickets.chain(PATIENT.iter().enumerate().map(|(number, text)| (format!("patient_{number}"), text)));
    for (object, text) in tickets {
        let events =
            json!({"object_type": "ticket", "wait": true, "events": [{"type": "message", "content": text}]});
        let told = app.call(token, Method::POST, &format!("/v1/objects/{object}/events"), &events).await;
        assert_eq!(told.status, 200, "{}", told.text);
    }
    let request = app.request(Method::GET, "/v1/objects").bearer_auth(token);
    let query = [("q", rule["when"].as_str().unwrap()), ("strict", "true")];
    let found = app.send(request.query(&query)).await.json();
    let mut ids: Vec<&str> = found["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| object["object_id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["urgent_0", "urgent_1", "urgent_2", "urgent_3", "urgent_4"], "{found:#}");
}

async fn the_playground_is_as_sure_as_the_guide_says(app: &App, token: &str) {
    let signal = body(API, "call PUT /v1/signals/off_platform ");
    let put = app.call(token, Method::PUT, "/v1/signals/off_platform", &signal).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let asked = body(API, "call POST /v1/playground ");
    let told = app.call(token, Method::POST, "/v1/playground", &asked).await.json();
    let answer = told["answers"][0]["noul"].as_f64().unwrap();
    let (_, shown) = API.split_once("\"signal\":\"off_platform\",\"type\":\"noul\",\"noul\":").unwrap();
    let shown: f64 = shown.split('}').next().unwrap().parse().unwrap();
    assert!((answer - shown).abs() < 0.01, "{answer}, but the guide shows {shown}");
}
