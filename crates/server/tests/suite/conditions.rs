//! The check of conditions, for editors.

use reqwest::Method;
use serde_json::{Value, json};

use crate::scripted_analyzer::{Scripted, Turn, ingest_and_wait};
use crate::signer::Signer;

testkit::on_both!(
    a_valid_condition_says_what_it_names_and_how_many_match,
    an_invalid_condition_says_what_is_wrong_and_where,
    a_query_knows_no_facts,
);

async fn check(stage: &Scripted, key: &Signer, body: &Value) -> Value {
    let reply = key.call(stage, Method::POST, "/v1/conditions/check", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn a_valid_condition_says_what_it_names_and_how_many_match(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let other = stage.account("bob@example.com").await;
    for (object, probability) in [("low", 0.1), ("middle", 0.5), ("high", 0.95)] {
        stage.analyzer.then(Turn::Answer(probability));
        assert_eq!(ingest_and_wait(stage, &key, object, "seen").await.status, 200);
    }
    let when = "is_scammer > 0.9 or not (is_scammer > 0.2, trust_score >= 0)";
    let expected = json!({
        "valid": true, "signals": ["is_scammer", "trust_score"], "matches": {"count": 2, "capped": false},
    });
    assert_eq!(check(stage, &key, &json!({"when": when})).await, expected);
    for place in ["rule", "query"] {
        assert_eq!(check(stage, &key, &json!({"when": when, "for": place})).await, expected);
    }
    assert_eq!(check(stage, &other, &json!({"when": when, "for": null})).await["matches"]["count"], 0);
    let facts = check(stage, &key, &json!({"when": "events(a, 1h) > 1 or is_scammer > 0.9"})).await;
    assert_eq!(facts, json!({"valid": true, "signals": ["is_scammer"]}));
    let text = check(stage, &key, &json!({"when": "Ann (from Bonn", "for": "query"})).await;
    assert_eq!(text, json!({"valid": true, "signals": []}));
}

async fn an_invalid_condition_says_what_is_wrong_and_where(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for (when, message, at) in [
        ("", "expected the key of a signal, but the text ends here", 0),
        (
            "é = 1",
            "`é` cannot be the key of a signal: 1 to 64 letters, digits and underscores, at least one of them a letter",
            0,
        ),
        ("(is_scammer > 0.9", "this parenthesis is never closed", 0),
        ("is_scammer > 0.9 or is_scamer > 1", "unknown signal `is_scamer`", 20),
        ("age > 5", "an age is a duration such as 30s, 15m, 24h or 7d, at most 30d, not `5`", 6),
    ] {
        let answer = check(stage, &key, &json!({"when": when})).await;
        assert_eq!(answer["valid"], false, "{when}");
        assert_eq!(answer["error"], json!({"message": message, "at": at}), "{when}");
        assert_eq!(answer.get("matches"), None);
    }
    let named = check(stage, &key, &json!({"when": "is_scammer > 0.9 or nobody > 1"})).await;
    assert_eq!(named["signals"], json!(["is_scammer"]));
    let deep = check(stage, &key, &json!({"when": "(".repeat(4_000)})).await;
    assert_eq!(deep["error"]["at"], 20);
    let long = check(stage, &key, &json!({"when": "é".repeat(100_000)})).await;
    assert_eq!(long["error"], json!({"message": "a condition has at most 4000 characters", "at": 4_000}));
    for body in [json!({}), json!({"when": 1}), json!({"when": "a > 1", "for": "nobody"}), json!([])] {
        key.call(stage, Method::POST, "/v1/conditions/check", &body).await.refused(400, "bad_request");
    }
}

async fn a_query_knows_no_facts(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for (when, at) in [("age > 3d", 0), ("is_scammer > 0.5, events(*, 1h) > 1", 18), ("type = user", 0)] {
        let answer = check(stage, &key, &json!({"when": when, "for": "query"})).await;
        assert_eq!((&answer["valid"], &answer["error"]["at"]), (&json!(false), &json!(at)), "{when}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("is a fact, which only rules know"), "{message}");
        assert_eq!(check(stage, &key, &json!({"when": when})).await["valid"], true, "{when}");
    }
}
