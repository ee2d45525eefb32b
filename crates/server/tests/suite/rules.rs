//! Rules as their owner writes them: made, read, changed, deleted, and refused with the place that is wrong.

mod action_tests;
mod actions;
mod chat;
mod firing;
mod logic;
mod recipients;
mod replay;
mod shadow;

use reqwest::Method;
use serde_json::{Value, json};

use uuid::Uuid;

use crate::app::{App, Reply};
use crate::log_watch;
use crate::scripted_analyzer::{Scripted, Settings, Turn, ingest_and_wait};
use crate::signer::Signer;

testkit::on_both!(
    a_rule_is_made_read_changed_and_deleted,
    what_is_left_out_has_a_default,
    a_rule_that_is_called_by_its_condition_stays_so,
    keys_may_begin_with_a_digit_and_numbers_lie_out_of_range,
    a_refusal_says_where,
    a_change_is_checked_as_a_whole,
    only_known_fields_of_an_action_are_kept,
    rules_are_one_account_s,
    an_account_has_at_most_two_hundred_rules,
    firings_are_listed_within_limits,
    chats_in_private_networks_are_refused,
    no_input_breaks_anything,
);

const PATH: &str = "/v1/rules";

/// A deployment like one in production: nothing leads into private networks.
struct Guarded;

impl Settings for Guarded {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ALLOW_PRIVATE_TARGETS", "false")];
}

/// A rule that sends mails.
fn mailing(when: &str) -> Value {
    json!({"when": when, "action_type": "email", "action_config": {"to": "alerts@example.com"}})
}

async fn post(app: &App, key: &Signer, body: &Value) -> Reply {
    key.call(app, Method::POST, PATH, body).await
}

async fn patch(app: &App, key: &Signer, rule: &Value, body: &Value) -> Reply {
    key.call(app, Method::PATCH, &format!("{PATH}/{}", id(rule)), body).await
}

fn id(rule: &Value) -> &str {
    rule["id"].as_str().unwrap()
}

/// Makes a rule.
async fn make(app: &App, key: &Signer, body: &Value) -> Value {
    let reply = post(app, key, body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

/// Changes a rule.
async fn change(app: &App, key: &Signer, rule: &Value, body: &Value) -> Value {
    let reply = patch(app, key, rule, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// The firings, newest first.
async fn firings(app: &App, key: &Signer, query: &str) -> Vec<Value> {
    let reply = key.call(app, Method::GET, &format!("/v1/rule_firings{query}"), &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["firings"].as_array().unwrap().clone()
}

/// Sends an event and waits for its verdict, which says yes with this probability.
async fn ingest_answered(stage: &Scripted<impl Settings>, key: &Signer, object: &str, probability: f64) {
    stage.analyzer.then(Turn::Answer(probability));
    let verdict = ingest_and_wait(stage, key, object, "seen").await;
    assert_eq!(verdict.status, 200, "{}", verdict.text);
}

async fn account(app: &App, email: &str) -> Signer {
    let token = app.register(email).await;
    app.api_key(&token).await
}

async fn a_rule_is_made_read_changed_and_deleted(app: &App) {
    let key = account(app, "ann@example.com").await;
    let body = json!({
        "name": " Scammers ",
        "when": "is_scammer > 0.9 and buyer_intent = 'ready_to_buy'",
        "action_type": "slack",
        "action_config": {"webhook_url": "https://hooks.slack.com/services/T/B/very-secret-path"},
        "cooldown_seconds": 3600,
        "enabled": false,
    });
    log_watch::remember("very-secret-path");
    let rule = make(app, &key, &body).await;
    let made_at = rule["created_at"].clone();
    let whole = json!({
        "id": id(&rule),
        "name": "Scammers",
        "when": body["when"],
        "action_type": "slack",
        "action_config": body["action_config"],
        "enabled": false,
        "mode": "live",
        "cooldown_seconds": 3600,
        "created_at": made_at,
        "updated_at": made_at,
    });
    assert_eq!(rule, whole);
    assert_eq!(id(&rule).parse::<Uuid>().unwrap().get_version_num(), 7);
    let path = format!("{PATH}/{}", id(&rule));
    assert_eq!(key.call(app, Method::GET, &path, &Value::Null).await.json(), whole);
    app.advance(std::time::Duration::from_secs(1));
    let second = make(app, &key, &mailing("trust_score < 1")).await;
    let listed = key.call(app, Method::GET, PATH, &Value::Null).await.json();
    assert_eq!(listed, json!({"rules": [whole, second]}), "oldest first");

    let changed = change(app, &key, &rule, &json!({"enabled": true, "unknown": 1})).await;
    assert_eq!((&changed["enabled"], &changed["created_at"]), (&json!(true), &made_at));
    assert_ne!(changed["updated_at"], made_at);
    let all = json!({
        "name": "Others", "when": "trust_score <= 0.5", "action_type": "email",
        "action_config": {"to": "a@b.c", "subject": "Look"}, "enabled": false, "cooldown_seconds": 0,
    });
    let changed = change(app, &key, &rule, &all).await;
    for (field, value) in all.as_object().unwrap() {
        assert_eq!(&changed[field], value);
    }
    assert_eq!(key.call(app, Method::GET, &path, &Value::Null).await.json(), changed);

    assert_eq!(key.call(app, Method::DELETE, &path, &Value::Null).await.status, 204);
    for method in [Method::GET, Method::DELETE, Method::PATCH] {
        let message = key.call(app, method, &path, &json!({})).await.refused(404, "not_found");
        assert_eq!(message, "there is no such rule");
    }
    let listed = key.call(app, Method::GET, PATH, &Value::Null).await.json();
    assert_eq!(listed, json!({"rules": [second]}));
}

async fn what_is_left_out_has_a_default(app: &App) {
    let key = account(app, "ann@example.com").await;
    let rule = make(app, &key, &mailing("is_scammer>0.9,trust_score<1")).await;
    assert_eq!(rule["name"], "is_scammer>0.9,trust_score<1", "the condition");
    assert_eq!((&rule["enabled"], &rule["cooldown_seconds"]), (&json!(true), &json!(0)));
    assert_eq!(rule["action_config"], json!({"to": "alerts@example.com"}), "no subject");
    let lines = make(app, &key, &mailing(" is_scammer > 0.9\n  and trust_score < 1 ")).await;
    assert_eq!(lines["name"], "is_scammer > 0.9 and trust_score < 1", "a name is one line");
    assert_eq!(lines["when"], " is_scammer > 0.9\n  and trust_score < 1 ", "as it was sent");
    let null = json!({"when": "is_scammer > 0.9", "action_type": "email", "name": null, "enabled": null,
        "cooldown_seconds": null, "action_config": {"to": "a@b.c", "subject": null}});
    let rule = make(app, &key, &null).await;
    assert_eq!((&rule["name"], &rule["enabled"]), (&json!("is_scammer > 0.9"), &json!(true)));
}

async fn a_rule_that_is_called_by_its_condition_stays_so(app: &App) {
    let key = account(app, "ann@example.com").await;
    let rule = make(app, &key, &mailing("is_scammer > 0.9")).await;
    let renamed = |answer: Reply| answer.json()["name"].clone();
    // As a form sends it, which shows the name.
    let edit = json!({"name": "is_scammer > 0.9", "when": "is_scammer > 0.8"});
    assert_eq!(renamed(patch(app, &key, &rule, &edit).await), "is_scammer > 0.8");
    assert_eq!(
        renamed(patch(app, &key, &rule, &json!({"when": "is_scammer > 0.7"})).await),
        "is_scammer > 0.7"
    );
    let named = json!({"name": "Scammers", "when": "is_scammer > 0.6"});
    assert_eq!(renamed(patch(app, &key, &rule, &named).await), "Scammers");
    assert_eq!(renamed(patch(app, &key, &rule, &json!({"when": "is_scammer > 0.5"})).await), "Scammers");
}

async fn keys_may_begin_with_a_digit_and_numbers_lie_out_of_range(app: &App) {
    let key = account(app, "ann@example.com").await;
    let signal = json!({"type": "noul", "instructions": "Is the second factor at risk?", "criteria": null, "enabled": null});
    assert_eq!(key.call(app, Method::PUT, "/v1/signals/2fa_risk", &signal).await.status, 200);
    for (when, matches) in [
        ("2fa_risk < 150 and trust_score < 3", true),
        ("2fa_risk > -1 and trust_score > -1", true),
        ("trust_score = 7", false),
    ] {
        let rule = make(app, &key, &mailing(when)).await;
        ingest_and_wait(app, &key, &format!("user_{}", id(&rule)), "x").await;
        let fired = key.call(app, Method::GET, "/v1/rule_firings", &Value::Null).await.json();
        let of_rule = |firing: &&Value| firing["rule_id"] == rule["id"];
        let count = fired["firings"].as_array().unwrap().iter().filter(of_rule).count();
        assert_eq!(count, usize::from(matches), "{when}: {fired}");
    }
}

#[expect(clippy::too_many_lines, reason = "a table of refusals")]
async fn a_refusal_says_where(app: &App) {
    let key = account(app, "ann@example.com").await;
    let whens = [
        ("", "when: column 1: expected the key of a signal, but the text ends here"),
        (
            "is_scammer",
            "when: column 11: expected an operator (>, >=, <, <=, = or !=), but the text ends here",
        ),
        (
            "is_scammer > 0.9 or x",
            "when: column 22: expected an operator (>, >=, <, <=, = or !=), but the text ends here",
        ),
        ("not (is_scammer > 0.9", "when: column 5: this parenthesis is never closed"),
        ("is_scammer > 0.9 and nobody = 1", "when: column 22: unknown signal `nobody`"),
        (
            "is_scammer > high",
            "when: column 14: `is_scammer` is a probability: from 0 to 1, or in percent without the sign, such as 0.7 or 70, not `high`",
        ),
        ("trust_score = x", "when: column 15: `trust_score` is a position: a number from 0 to 2, not `x`"),
        (
            "buyer_intent > 1",
            "when: column 14: `buyer_intent` is a choice: it is compared with = or !=, not >",
        ),
        (
            "buyer_intent = maybe",
            "when: column 16: `buyer_intent` is a choice of `browsing`, `comparing`, `ready_to_buy`, not `maybe`",
        ),
        (&"x".repeat(4_001), "when: it must have at most 4000 characters"),
    ];
    for (when, expected) in whens {
        assert_eq!(post(app, &key, &mailing(when)).await.refused(400, "bad_request"), expected, "{when}");
    }
    let long = "x".repeat(201);
    let cases = [
        (json!({"name": ""}), "name: it must have 1 to 200 characters, none of them a control character"),
        (json!({"name": "a\nb"}), "name: it must have 1 to 200 characters, none of them a control character"),
        (json!({"name": long}), "name: it must have 1 to 200 characters, none of them a control character"),
        (json!({"cooldown_seconds": -1}), "cooldown_seconds: it must be 0 to 31536000"),
        (json!({"cooldown_seconds": 31_536_001}), "cooldown_seconds: it must be 0 to 31536000"),
        (json!({"cooldown_seconds": 1.5}), "cooldown_seconds: it must be a whole number"),
        (json!({"action_type": "fax"}), "action_type: it must be one of: email, slack, webhook, review"),
        (json!({"action_config": []}), "action_config: it must be an object"),
        (json!({"action_config": {}}), "action_config.to: it is required for the action email"),
        (json!({"action_config": {"to": 7}}), "action_config.to: it must be a text"),
        (json!({"action_config": {"to": "nobody"}}), "action_config.to: it is not an email address"),
        (
            json!({"action_config": {"to": "a@b.c\r\nBcc: d@e.f"}}),
            "action_config.to: it is not an email address",
        ),
        (
            json!({"action_config": {"to": "a@b.c", "subject": ""}}),
            "action_config.subject: it must be one line of 1 to 200 characters",
        ),
        (
            json!({"action_config": {"to": "a@b.c", "subject": "x\r\nBcc: d@e.f"}}),
            "action_config.subject: it must be one line of 1 to 200 characters",
        ),
        (
            json!({"action_config": {"to": "a@b.c", "subject": long}}),
            "action_config.subject: it must be one line of 1 to 200 characters",
        ),
        (json!({"action_type": "slack"}), "action_config.webhook_url: it is required for the action slack"),
        (
            json!({"action_type": "slack", "action_config": {"webhook_url": "nowhere"}}),
            "action_config.webhook_url: invalid URL: relative URL without a base",
        ),
        (
            json!({"action_type": "slack", "action_config": {"webhook_url": "ftp://x.example"}}),
            "action_config.webhook_url: it must start with http:// or https://",
        ),
        (
            json!({"action_type": "webhook"}),
            "action_config.endpoint_id: it is required for the action webhook",
        ),
        (
            json!({"action_type": "webhook", "action_config": {"endpoint_id": "7"}}),
            "action_config.endpoint_id: it is not a UUID",
        ),
        (
            json!({"action_type": "webhook", "action_config": {"endpoint_id": Uuid::from_u128(7)}}),
            "action_config.endpoint_id: there is no such webhook endpoint",
        ),
    ];
    let rule = make(app, &key, &mailing("is_scammer > 0.9")).await;
    for (wrong, expected) in cases {
        let mut body = mailing("is_scammer > 0.9");
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(post(app, &key, &body).await.refused(400, "bad_request"), expected, "{wrong}");
        assert_eq!(patch(app, &key, &rule, &wrong).await.refused(400, "bad_request"), expected, "{wrong}");
    }
    for field in ["when", "action_type", "action_config"] {
        let mut body = mailing("is_scammer > 0.9");
        body.as_object_mut().unwrap().remove(field);
        let message = post(app, &key, &body).await.refused(400, "bad_request");
        assert_eq!(message, format!("{field}: it is required"));
    }
    let listed = key.call(app, Method::GET, PATH, &Value::Null).await.json();
    assert_eq!(listed, json!({"rules": [rule]}), "what is refused changes nothing");
    for path in ["/v1/rules/7", "/v1/rules/nonsense"] {
        for method in [Method::GET, Method::PATCH, Method::DELETE] {
            key.call(app, method, path, &json!({})).await.refused(400, "bad_request");
        }
    }
}

async fn a_change_is_checked_as_a_whole(app: &App) {
    let key = account(app, "ann@example.com").await;
    let rule = make(app, &key, &mailing("is_scammer > 0.9")).await;
    let message = patch(app, &key, &rule, &json!({"action_type": "slack"})).await.refused(400, "bad_request");
    assert_eq!(message, "action_config.webhook_url: it is required for the action slack");
    let signal = json!({"type": "choice", "instructions": "Which?", "criteria": {"a": null, "b": null}});
    assert_eq!(key.call(app, Method::PUT, "/v1/signals/is_scammer", &signal).await.status, 200);
    for edit in [json!({"name": "x"}), json!({"action_config": {"to": "a@b.c"}}), json!({})] {
        let message = patch(app, &key, &rule, &edit).await.refused(400, "bad_request");
        assert_eq!(message, "when: column 12: `is_scammer` is a choice: it is compared with = or !=, not >");
    }
    let changed = change(app, &key, &rule, &json!({"when": "is_scammer = a"})).await;
    assert_eq!(changed["when"], "is_scammer = a");
    assert_eq!(key.call(app, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await.status, 204);
    let message = patch(app, &key, &rule, &json!({"name": "x"})).await.refused(400, "bad_request");
    assert_eq!(message, "when: column 1: unknown signal `is_scammer`");
}

async fn only_known_fields_of_an_action_are_kept(app: &App) {
    let key = account(app, "ann@example.com").await;
    let config = json!({
        "to": "a@b.c", "subject": "Look", "webhook_url": 7, "endpoint_id": "x", "password": "hush", "nested": [{}],
    });
    let rule =
        make(app, &key, &json!({"when": "is_scammer > 90", "action_type": "email", "action_config": config}))
            .await;
    assert_eq!(rule["action_config"], json!({"to": "a@b.c", "subject": "Look"}));
    let changed = change(app, &key, &rule, &json!({"action_config": {"to": "d@e.f"}})).await;
    assert_eq!(changed["action_config"], json!({"to": "d@e.f"}), "it is replaced, not merged");
}

async fn rules_are_one_account_s(app: &App) {
    let ann = account(app, "ann@example.com").await;
    let bob = account(app, "bob@example.com").await;
    let rule = make(app, &ann, &mailing("is_scammer > 0.9")).await;
    let path = format!("{PATH}/{}", id(&rule));
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        bob.call(app, method, &path, &json!({})).await.refused(404, "not_found");
    }
    assert_eq!(bob.call(app, Method::GET, PATH, &Value::Null).await.json(), json!({"rules": []}));
    assert_eq!(ann.call(app, Method::GET, &path, &Value::Null).await.json(), rule);
}

async fn an_account_has_at_most_two_hundred_rules(app: &App) {
    let ann = account(app, "ann@example.com").await;
    let bob = account(app, "bob@example.com").await;
    for _ in 0..199 {
        make(app, &ann, &mailing("is_scammer > 0.9")).await;
    }
    let body = mailing("is_scammer > 0.9");
    let racers = tokio::join!(post(app, &ann, &body), post(app, &ann, &body), post(app, &ann, &body));
    let mut statuses = [racers.0.status, racers.1.status, racers.2.status].map(|status| status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409]);
    let message = post(app, &ann, &body).await.refused(409, "conflict");
    assert_eq!(message, "an account has at most 200 rules");
    let rule = make(app, &bob, &body).await;
    let first = ann.call(app, Method::GET, PATH, &Value::Null).await.json()["rules"][0].clone();
    let path = format!("{PATH}/{}", id(&first));
    assert_eq!(ann.call(app, Method::DELETE, &path, &Value::Null).await.status, 204);
    make(app, &ann, &body).await;
    assert_ne!(id(&first), id(&rule));
}

async fn firings_are_listed_within_limits(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let one = make(stage, &key, &mailing("is_scammer > 0.9")).await;
    let other = make(stage, &key, &mailing("is_scammer > 0.95")).await;
    for (object, probability) in [("user_1", 0.97), ("user%2F2", 0.93), ("user_1", 0.1), ("user_1", 0.93)] {
        ingest_answered(stage, &key, object, probability).await;
        stage.advance(std::time::Duration::from_secs(1));
    }
    stage.settle().await;
    let all = firings(stage, &key, "").await;
    let told: Vec<(&str, &str)> = all
        .iter()
        .map(|firing| (firing["object_id"].as_str().unwrap(), firing["rule_id"].as_str().unwrap()))
        .collect();
    assert_eq!(told[..2], [("user_1", id(&one)), ("user/2", id(&one))], "newest first");
    assert_eq!(all.len(), 4);
    assert_eq!(firings(stage, &key, "?limit=2").await, all[..2]);
    assert_eq!(firings(stage, &key, "?limit=200").await, all);
    assert_eq!(firings(stage, &key, &format!("?rule_id={}", id(&other))).await.len(), 1);
    assert_eq!(firings(stage, &key, "?object_id=user%2F2").await, all[1..2]);
    let both = format!("?object_id=user_1&rule_id={}", id(&one));
    assert_eq!(firings(stage, &key, &both).await.len(), 2);
    assert_eq!(firings(stage, &key, "?object_id=nobody").await, Vec::<Value>::new());
    for query in
        ["limit=0", "limit=201", "limit=-1", "limit=x", "limit=", "limit=1.5", "rule_id=7", "object_id=%00"]
    {
        let reply = key.call(stage, Method::GET, &format!("/v1/rule_firings?{query}"), &Value::Null).await;
        reply.refused(400, "bad_request");
    }
    let bob = stage.account("bob@example.com").await;
    let query = format!("?rule_id={}", id(&one));
    assert_eq!(firings(stage, &bob, &query).await, Vec::<Value>::new());
    // A rule that is gone leaves its firings.
    let path = format!("{PATH}/{}", id(&one));
    assert_eq!(key.call(stage, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(firings(stage, &key, "").await.len(), 4);
}

async fn chats_in_private_networks_are_refused(stage: &Scripted<Guarded>) {
    let key = stage.account("ann@example.com").await;
    let slack = |url: &str| json!({"when": "is_scammer > 90", "action_type": "slack", "action_config": {"webhook_url": url}});
    for (url, expected) in [
        ("http://hooks.example.com/x", "it must start with https://"),
        ("https://127.0.0.1/x", "127.0.0.1 is loopback, which is not allowed"),
        ("https://[::ffff:10.0.0.1]/x", "which is not allowed"),
        ("https://169.254.169.254/latest", "which is not allowed"),
        ("https://localhost/x", "localhost is loopback, which is not allowed"),
        ("https://user:password@hooks.example.com/x", "it must not contain a user name or a password"),
    ] {
        let message = post(stage, &key, &slack(url)).await.refused(400, "bad_request");
        assert!(
            message.starts_with("action_config.webhook_url: ") && message.ends_with(expected),
            "{message}"
        );
    }
    make(stage, &key, &slack("https://nowhere.invalid/x")).await;
}

async fn no_input_breaks_anything(app: &App) {
    let key = account(app, "ann@example.com").await;
    let rule = make(app, &key, &mailing("is_scammer > 0.9")).await;
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let odd = [
        json!(null),
        json!(""),
        json!(0),
        json!(-1),
        json!(1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(true),
        json!([]),
        json!({}),
        json!("\u{1f511}\u{202e}"),
        json!("'\"`<>&"),
        json!("x".repeat(100_000)),
        serde_json::from_str(&deep).unwrap(),
        json!({"to": {"to": []}, "webhook_url": "https://\u{202e}", "endpoint_id": 7}),
    ];
    for field in ["name", "when", "action_type", "action_config", "enabled", "cooldown_seconds"] {
        for value in &odd {
            let mut body = mailing("is_scammer > 0.9");
            body[field] = value.clone();
            for reply in [post(app, &key, &body).await, patch(app, &key, &rule, &json!({field: value})).await]
            {
                assert!(reply.status.is_success() || reply.status == 400, "{field} {value}: {}", reply.text);
            }
        }
    }
}
