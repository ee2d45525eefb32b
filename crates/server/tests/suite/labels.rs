//! Labels: given one by one and many at a time, replaced, listed, withdrawn, and deleted with what they are about.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::{App, Reply};
use crate::scripted_analyzer::{Scripted, Turn, ingest_and_wait, until};
use crate::signer::Signer;

testkit::on_both!(
    a_label_keeps_what_the_service_said,
    an_author_has_one_label_about_a_signal_of_an_object,
    a_label_that_does_not_fit_is_refused,
    many_labels_are_taken_or_refused_one_by_one,
    labels_are_listed_in_pages,
    labels_outlive_events_and_go_with_object_signal_and_type,
    labels_are_one_account_s,
);

const LABELS: &str = "/v1/labels";

/// Gives a label.
pub(crate) async fn put(app: &App, key: &Signer, object: &str, signal: &str, value: &Value) -> Reply {
    let path = format!("/v1/objects/{object}/labels/{signal}");
    key.call(app, Method::PUT, &path, &json!({"value": value})).await
}

async fn list(app: &App, key: &Signer, query: &str) -> Value {
    let reply = key.call(app, Method::GET, &format!("{LABELS}{query}"), &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// The ids of a list.
fn ids(list: &Value) -> Vec<&str> {
    list["labels"].as_array().unwrap().iter().map(|label| label["id"].as_str().unwrap()).collect()
}

/// Gives an object an answer of this probability.
pub(crate) async fn answer(stage: &Scripted, key: &Signer, object: &str, probability: f64) {
    stage.analyzer.then(Turn::Answer(probability));
    let verdict = ingest_and_wait(stage, key, object, "seen").await;
    assert_eq!(verdict.status, 200, "{}", verdict.text);
}

async fn a_label_keeps_what_the_service_said(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    answer(stage, &key, "user_1", 0.75).await;
    let path = "/v1/objects/user_1/labels/is_scammer";
    let body = json!({"value": true, "note": "Refunded by the bank."});
    let reply = key.call(stage, Method::PUT, path, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let label = reply.json();
    let keys = key.call(stage, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    let by = json!({"kind": "key", "id": keys["api_keys"][0]["id"], "name": keys["api_keys"][0]["name"]});
    let whole = json!({
        "id": label["id"], "object_id": "user_1", "signal": "is_scammer", "version": 1, "value": true,
        "note": "Refunded by the bank.", "source": "api", "by": by, "audit": false,
        "answer": {"signal": "is_scammer", "type": "noul", "noul": 0.75, "version": 1, "model": "scripted", "read_seq": 1},
        "created_at": label["created_at"],
    });
    assert_eq!(label, whole);
    assert_eq!(label["id"].as_str().unwrap().parse::<Uuid>().unwrap().get_version_num(), 7);
    assert_eq!(list(stage, &key, "").await, json!({"labels": [whole]}));

    // Later answers change nothing about what stood then; a person is another author.
    stage.advance(Duration::from_secs(1));
    answer(stage, &key, "user_1", 0.25).await;
    let reply = stage.call(&token, Method::PUT, path, &json!({"value": false, "note": null})).await;
    let of_person = reply.json();
    assert_eq!((&of_person["source"], &of_person["by"]["kind"]), (&json!("person"), &json!("user")));
    assert_eq!(of_person["by"]["name"], "ann@example.com");
    assert_eq!((&of_person["answer"]["noul"], &of_person["answer"]["read_seq"]), (&json!(0.25), &json!(2)));
    assert_eq!(of_person.get("note"), None);
    assert_eq!(list(stage, &key, "").await, json!({"labels": [of_person, whole]}), "newest first");
    let timeline =
        key.call(stage, Method::GET, "/v1/objects/user_1/timeline?kinds=label", &Value::Null).await.json();
    let item = |label: &Value| json!({"kind": "label", "at": label["created_at"], "id": label["id"], "label": label});
    assert_eq!(timeline, json!({"items": [item(&of_person), item(&whole)]}));
    let first = "/v1/objects/user_1/timeline?kinds=label&limit=1";
    let page = key.call(stage, Method::GET, first, &Value::Null).await.json();
    let next = format!("{first}&cursor={}", page["next_cursor"].as_str().unwrap());
    let page = key.call(stage, Method::GET, &next, &Value::Null).await.json();
    assert_eq!(page, json!({"items": [item(&whole)]}));

    // The other types, and an object without an answer.
    let choice = put(stage, &key, "user_1", "buyer_intent", &json!("comparing")).await.json();
    assert_eq!((&choice["value"], &choice["answer"]["choice"]), (&json!("comparing"), &json!("comparing")));
    assert_eq!(choice["answer"]["probabilities"]["browsing"], 0.25);
    let score = put(stage, &key, "user_1", "trust_score", &json!(2)).await.json();
    assert_eq!((&score["value"], &score["answer"]["score"]), (&json!(2), &json!(1.125)));
    let event = json!({"events": [{"type": "event", "name": "seen"}]});
    key.call(stage, Method::POST, "/v1/objects/user_2/events", &event).await;
    let unanswered = put(stage, &key, "user_2", "is_scammer", &json!(true)).await.json();
    assert_eq!(unanswered.get("answer"), None);
    stage.advance(Duration::from_secs(5));
}

async fn an_author_has_one_label_about_a_signal_of_an_object(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let (key, other) = (stage.api_key(&token).await, stage.api_key(&token).await);
    answer(stage, &key, "user_1", 0.75).await;
    let first = put(stage, &key, "user_1", "is_scammer", &json!(true)).await.json();
    stage.advance(Duration::from_secs(1));
    let second = put(stage, &key, "user_1", "is_scammer", &json!(false)).await.json();
    assert_ne!(first["id"], second["id"]);
    assert_eq!(list(stage, &key, "").await, json!({"labels": [second]}), "a later one replaces it");
    stage.advance(Duration::from_secs(1));
    let third = put(stage, &other, "user_1", "is_scammer", &json!(true)).await.json();
    assert_eq!(list(stage, &key, "").await, json!({"labels": [third, second]}), "of each author one");
    let counting = "SELECT count(*) FROM labels WHERE counts AND value = 'true'";
    assert_eq!(stage.number(counting).await, 1, "the latest of all authors counts");
    assert_eq!(stage.number("SELECT count(*) FROM labels WHERE counts").await, 1);

    let path = format!("{LABELS}/{}", third["id"].as_str().unwrap());
    assert_eq!(key.call(stage, Method::DELETE, &path, &Value::Null).await.status, 204, "by anybody");
    let message = key.call(stage, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
    assert_eq!(message, "there is no such label");
    assert_eq!(list(stage, &key, "").await, json!({"labels": [second]}));
    assert_eq!(stage.number("SELECT count(*) FROM labels WHERE counts").await, 1, "the one that is left");
    key.call(stage, Method::DELETE, &format!("{LABELS}/x"), &Value::Null).await.refused(400, "bad_request");
}

async fn a_label_that_does_not_fit_is_refused(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer(stage, &key, "user_1", 0.75).await;
    let yes_no = "value: `is_scammer` is a yes/no signal: true or false";
    let choice = "value: `buyer_intent` is a choice of `browsing`, `comparing`, `ready_to_buy`";
    let score = "value: `trust_score` is a score: the index of a level, 0 to 2";
    for (signal, value, expected) in [
        ("is_scammer", json!(1), yes_no),
        ("is_scammer", json!("true"), yes_no),
        ("is_scammer", Value::Null, yes_no),
        ("buyer_intent", json!("maybe"), choice),
        ("buyer_intent", json!(0), choice),
        ("buyer_intent", json!({"a": []}), choice),
        ("trust_score", json!(3), score),
        ("trust_score", json!(-1), score),
        ("trust_score", json!(0.5), score),
        ("trust_score", json!("low"), score),
        ("trust_score", json!(18_446_744_073_709_551_615_u64), score),
    ] {
        let message = put(stage, &key, "user_1", signal, &value).await.refused(400, "bad_request");
        assert_eq!(message, expected, "{signal} {value}");
    }
    let long = json!({"value": true, "note": "x".repeat(2_001)});
    let path = "/v1/objects/user_1/labels/is_scammer";
    let message = key.call(stage, Method::PUT, path, &long).await.refused(400, "bad_request");
    assert_eq!(message, "note: it must have at most 2000 characters");
    let message = key.call(stage, Method::PUT, path, &json!({})).await.refused(400, "bad_request");
    assert_eq!(message, "value: it is required");
    let message = put(stage, &key, "nobody", "is_scammer", &json!(true)).await.refused(404, "not_found");
    assert_eq!(message, "there is no such object");
    let message = put(stage, &key, "user_1", "nothing", &json!(true)).await.refused(404, "not_found");
    assert_eq!(message, "there is no such signal");
    for query in ["?limit=0", "?limit=201", "?limit=x", "?source=fax", "?cursor=e30", "?cursor=%25"] {
        key.call(stage, Method::GET, &format!("{LABELS}{query}"), &Value::Null)
            .await
            .refused(400, "bad_request");
    }
    assert_eq!(list(stage, &key, "?signal=nothing").await, json!({"labels": []}));
    assert_eq!(list(stage, &key, "").await, json!({"labels": []}));
}

async fn many_labels_are_taken_or_refused_one_by_one(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for object in ["user_1", "user_2"] {
        answer(stage, &key, object, 0.75).await;
    }
    let label = |object: &str, signal: &str, value: Value| json!({"object_id": object, "signal": signal, "value": value});
    let body = json!({"labels": [
        label("user_1", "is_scammer", json!(true)),
        label("nobody", "is_scammer", json!(true)),
        label("user_2", "nothing", json!(true)),
        label("user_2", "is_scammer", json!("yes")),
        label("user_2", "buyer_intent", json!("browsing")),
        label("user_1", "is_scammer", json!(false)),
        label("\u{7}", "is_scammer", json!(true)),
    ]});
    let reply = key.call(stage, Method::POST, LABELS, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let taken = reply.json();
    assert_eq!(taken["accepted"], 3);
    let refused = taken["refused"].as_array().unwrap();
    let refused: Vec<(i64, &str)> = refused
        .iter()
        .map(|refused| (refused["index"].as_i64().unwrap(), refused["message"].as_str().unwrap()))
        .collect();
    assert_eq!(refused[0], (1, "object_id: there is no such object"));
    assert_eq!(refused[1], (2, "signal: there is no such signal"));
    assert_eq!(refused[2], (3, "value: `is_scammer` is a yes/no signal: true or false"));
    assert_eq!((refused[3].0, refused.len()), (6, 4));
    let listed = list(stage, &key, "?signal=is_scammer").await;
    assert_eq!(
        (ids(&listed).len(), &listed["labels"][0]["value"]),
        (1, &json!(false)),
        "the last one is kept"
    );
    assert_eq!(listed["labels"][0]["answer"]["noul"], 0.75);

    let many: Vec<Value> = (0..1_001).map(|_| label("user_1", "is_scammer", json!(true))).collect();
    let message =
        key.call(stage, Method::POST, LABELS, &json!({"labels": many})).await.refused(400, "bad_request");
    assert_eq!(message, "labels: there must be 1 to 1000");
    let reply = key.call(stage, Method::POST, LABELS, &json!({"labels": many[..1_000]})).await;
    assert_eq!(reply.json(), json!({"accepted": 1_000, "refused": []}));
    for wrong in
        [json!({"labels": []}), json!({}), json!({"labels": [7]}), json!({"labels": [{"signal": "x"}]})]
    {
        key.call(stage, Method::POST, LABELS, &wrong).await.refused(400, "bad_request");
    }
}

async fn labels_are_listed_in_pages(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    let mut newest_first = Vec::new();
    for object in ["user_1", "user_2", "user_3"] {
        answer(stage, &key, object, 0.75).await;
        for (signal, value) in [("is_scammer", json!(true)), ("trust_score", json!(1))] {
            stage.advance(Duration::from_secs(1));
            let label = put(stage, &key, object, signal, &value).await.json();
            newest_first.insert(0, label["id"].as_str().unwrap().to_owned());
        }
    }
    stage.advance(Duration::from_secs(1));
    let path = "/v1/objects/user_1/labels/is_scammer";
    let of_person = stage.call(&token, Method::PUT, path, &json!({"value": false})).await.json();
    newest_first.insert(0, of_person["id"].as_str().unwrap().to_owned());

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for page in 0.. {
        let listed = list(stage, &key, &format!("?limit=3{cursor}")).await;
        seen.extend(ids(&listed).into_iter().map(str::to_owned));
        let Some(next) = listed["next_cursor"].as_str() else { break };
        let other = format!("{LABELS}?limit=3&signal=is_scammer&cursor={next}");
        let message = key.call(stage, Method::GET, &other, &Value::Null).await.refused(400, "bad_request");
        assert_eq!(message, "cursor: does not belong to this list");
        cursor = format!("&cursor={next}");
        assert!(page < 5, "the list ends");
    }
    assert_eq!(seen, newest_first);
    for (query, expected) in [
        ("?signal=is_scammer", vec![0, 2, 4, 6]),
        ("?object_id=user_1", vec![0, 5, 6]),
        ("?source=person", vec![0]),
        ("?source=api&signal=trust_score", vec![1, 3, 5]),
        ("?source=api&signal=is_scammer&object_id=user_1", vec![6]),
        ("?source=review", vec![]),
    ] {
        let expected: Vec<&str> =
            expected.iter().map(|index: &usize| newest_first[*index].as_str()).collect();
        assert_eq!(ids(&list(stage, &key, query).await), expected, "{query}");
    }
    let first = list(stage, &key, "?signal=is_scammer&limit=2").await;
    let next = first["next_cursor"].as_str().unwrap();
    let rest = list(stage, &key, &format!("?signal=is_scammer&limit=2&cursor={next}")).await;
    assert_eq!((ids(&rest).len(), rest.get("next_cursor")), (2, None));
}

async fn labels_outlive_events_and_go_with_object_signal_and_type(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let retention = json!({"event_retention": "after_analysis"});
    assert_eq!(key.call(stage, Method::PATCH, "/v1/settings", &retention).await.status, 200);
    for object in ["user_1", "user_2"] {
        answer(stage, &key, object, 0.75).await;
        for (signal, value) in
            [("is_scammer", json!(true)), ("buyer_intent", json!("browsing")), ("trust_score", json!(1))]
        {
            assert_eq!(put(stage, &key, object, signal, &value).await.status, 200);
        }
    }
    assert_eq!(stage.number("SELECT count(*) FROM events").await, 0);
    assert_eq!(ids(&list(stage, &key, "").await).len(), 6, "labels outlive events");
    assert_eq!(key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    assert_eq!(stage.number("SELECT count(*) FROM labels WHERE object_id = 'user_1'").await, 0);
    let deleted = ids(&list(stage, &key, "?signal=trust_score").await)[0].to_owned();
    assert_eq!(key.call(stage, Method::DELETE, "/v1/signals/trust_score", &Value::Null).await.status, 204);
    let other_type = json!({"type": "score", "instructions": "How likely?", "criteria": ["low", "high"]});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_scammer", &other_type).await.status, 200);
    let left = list(stage, &key, "").await;
    assert_eq!((ids(&left).len(), &left["labels"][0]["signal"]), (1, &json!("buyer_intent")), "gone at once");
    let path = format!("{LABELS}/{deleted}");
    key.call(stage, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
    let again = json!({"type": "score", "instructions": "Again?", "criteria": ["low", "high"]});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/trust_score", &again).await.status, 200);
    assert_eq!(
        list(stage, &key, "?signal=trust_score").await,
        json!({"labels": []}),
        "and not back with the key"
    );
    stage.advance(Duration::from_mins(11));
    until("the labels of both are swept", async || {
        stage.sweeper_has_swept().await;
        stage.number("SELECT count(*) FROM labels").await == 1
    })
    .await;
}

async fn labels_are_one_account_s(stage: &Scripted) {
    let ann = stage.account("ann@example.com").await;
    let bob = stage.account("bob@example.com").await;
    answer(stage, &ann, "user_1", 0.75).await;
    let label = put(stage, &ann, "user_1", "is_scammer", &json!(true)).await.json();
    assert_eq!(list(stage, &bob, "").await, json!({"labels": []}));
    put(stage, &bob, "user_1", "is_scammer", &json!(true)).await.refused(404, "not_found");
    let path = format!("{LABELS}/{}", label["id"].as_str().unwrap());
    bob.call(stage, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
    assert_eq!(ids(&list(stage, &ann, "").await).len(), 1);
}
