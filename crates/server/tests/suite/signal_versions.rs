//! The versions of a signal: what makes one, who made it, and going back.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::signer::Signer;

testkit::on_both!(
    every_change_of_a_definition_is_a_version_and_the_same_again_is_none,
    a_version_is_restored_as_the_next_one,
    numbers_go_on_when_a_deleted_key_returns,
    the_newest_hundred_are_kept,
    versions_of_others_are_not_found,
);

async fn put(app: &App, key: &Signer, body: Value) -> Value {
    let reply = key.call(app, Method::PUT, "/v1/signals/is_rude", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn versions(app: &App, key: &Signer, signal: &str) -> Vec<Value> {
    let reply = key.call(app, Method::GET, &format!("/v1/signals/{signal}/versions"), &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["versions"].as_array().unwrap().clone()
}

fn numbers(versions: &[Value]) -> Vec<i64> {
    versions.iter().map(|version| version["version"].as_i64().unwrap()).collect()
}

async fn restore(app: &App, key: &Signer, version: &str) -> (u16, Value) {
    let path = format!("/v1/signals/is_rude/versions/{version}/restore");
    let reply = key.call(app, Method::POST, &path, &Value::Null).await;
    (reply.status.as_u16(), reply.json())
}

async fn stage(app: &App, email: &str) -> Signer {
    let token = app.register(email).await;
    app.api_key(&token).await
}

async fn every_change_of_a_definition_is_a_version_and_the_same_again_is_none(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    put(app, &key, json!({"type": "noul", "instructions": "Rude?"})).await;
    for same in [
        json!({"type": "noul", "instructions": "Rude?"}),
        json!({"type": "noul", "instructions": "Rude?", "criteria": null, "enabled": false}),
        json!({"type": "noul", "instructions": "Rude?", "enabled": true}),
    ] {
        put(app, &key, same).await;
        assert_eq!(numbers(&versions(app, &key, "is_rude").await), [1]);
    }
    app.advance(Duration::from_secs(1));
    put(app, &key, json!({"type": "noul", "instructions": "Is it rude?"})).await;
    put(app, &key, json!({"type": "noul", "instructions": "Is it rude?", "criteria": {"true": "rude"}}))
        .await;
    // By a person in the console.
    let score = json!({"type": "score", "instructions": "Is it rude?", "criteria": ["no", "yes"]});
    let reply = app.call(&token, Method::PUT, "/v1/signals/is_rude", &score).await;
    assert_eq!(reply.status, 200, "{}", reply.text);

    let versions_now = versions(app, &key, "is_rude").await;
    assert_eq!(numbers(&versions_now), [4, 3, 2, 1], "newest first");
    let keys = key.call(app, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    let by_key = json!({"kind": "key", "id": keys["api_keys"][0]["id"], "name": keys["api_keys"][0]["name"]});
    let me = app.call(&token, Method::GET, "/v1/me", &Value::Null).await.json();
    let by_user = json!({"kind": "user", "id": me["user_id"], "name": "ann@example.com"});
    assert_eq!((&versions_now[0]["by"], &versions_now[1]["by"]), (&by_user, &by_key));
    let mut oldest = versions_now[3].clone();
    assert!(oldest["created_at"].as_str() < versions_now[2]["created_at"].as_str());
    oldest.as_object_mut().unwrap().remove("created_at");
    let expected = json!({"version": 1, "type": "noul", "instructions": "Rude?", "by": by_key, "objects": 0});
    assert_eq!(oldest, expected);
    assert_eq!(versions_now[0]["criteria"], json!(["no", "yes"]));
    // Signals that came with the account belong to its first user.
    let default = versions(app, &key, "is_scammer").await;
    assert_eq!((numbers(&default), &default[0]["by"]), (vec![1], &by_user));
}

async fn a_version_is_restored_as_the_next_one(app: &App) {
    let key = stage(app, "ann@example.com").await;
    let original =
        put(app, &key, json!({"type": "noul", "instructions": {"b": 1, "a": 2}, "enabled": false})).await;
    put(app, &key, json!({"type": "choice", "instructions": "Which?", "criteria": {"x": null, "y": null}}))
        .await;
    let (status, restored) = restore(app, &key, "1").await;
    assert_eq!(status, 200, "{restored}");
    for field in ["key", "type", "instructions", "enabled", "created_at"] {
        assert_eq!(restored[field], original[field], "{field}");
    }
    let versions_now = versions(app, &key, "is_rude").await;
    assert_eq!(numbers(&versions_now), [3, 2, 1]);
    assert_eq!(versions_now[0]["instructions"].to_string(), r#"{"b":1,"a":2}"#, "to the byte");
    // What the signal says already makes no version.
    for same in ["1", "3"] {
        assert_eq!(restore(app, &key, same).await.0, 200);
        assert_eq!(numbers(&versions(app, &key, "is_rude").await), [3, 2, 1]);
    }
    for (version, status) in
        [("4", 404), ("99999999999", 404), ("0", 400), ("-1", 400), ("x", 400), ("1.0", 400)]
    {
        let (refused, body) = restore(app, &key, version).await;
        assert_eq!(refused, status, "{version}: {body}");
    }
}

async fn numbers_go_on_when_a_deleted_key_returns(app: &App) {
    let key = stage(app, "ann@example.com").await;
    put(app, &key, json!({"type": "noul", "instructions": "One?"})).await;
    put(app, &key, json!({"type": "noul", "instructions": "Two?"})).await;
    let delete = key.call(app, Method::DELETE, "/v1/signals/is_rude", &Value::Null).await;
    assert_eq!(delete.status, 204);
    let gone = key.call(app, Method::GET, "/v1/signals/is_rude/versions", &Value::Null).await;
    assert_eq!((gone.status.as_u16(), restore(app, &key, "1").await.0), (404, 404));
    put(app, &key, json!({"type": "noul", "instructions": "Two?"})).await;
    assert_eq!(
        numbers(&versions(app, &key, "is_rude").await),
        [3, 2, 1],
        "a key that returns is a new version"
    );
    assert_eq!(restore(app, &key, "1").await.0, 200);
    assert_eq!(versions(app, &key, "is_rude").await[0]["instructions"], "One?");
}

async fn the_newest_hundred_are_kept(app: &App) {
    let key = stage(app, "ann@example.com").await;
    for number in 1..=103 {
        put(app, &key, json!({"type": "noul", "instructions": format!("Number {number}?")})).await;
    }
    let kept = numbers(&versions(app, &key, "is_rude").await);
    assert_eq!((kept.len(), kept[0], kept[99]), (100, 103, 4));
    assert_eq!(restore(app, &key, "3").await.0, 404);
}

async fn versions_of_others_are_not_found(app: &App) {
    let (ann, bob) = (stage(app, "ann@example.com").await, stage(app, "bob@example.com").await);
    put(app, &ann, json!({"type": "noul", "instructions": "One?"})).await;
    let path = "/v1/signals/is_rude/versions";
    assert_eq!(bob.call(app, Method::GET, path, &Value::Null).await.status, 404);
    assert_eq!(restore(app, &bob, "1").await.0, 404);
}
