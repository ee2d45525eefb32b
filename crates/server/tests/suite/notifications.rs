//! Which mails a person wants.

use model::{TenantId, UserId};
use reqwest::Method;
use serde_json::{Value, json};
use store::accounts::users;
use store::{Conn, Store};

use crate::app::{App, PASSWORD, Reply};
use crate::passwords::mails_once;
use crate::registration::refuses_nonsense;

const PATH: &str = "/v1/me/notifications";
const OPTIONAL: [&str; 3] = ["low_balance", "topup_credited", "webhook_dead"];
const CRITICAL: [&str; 14] = [
    "api_key_created",
    "api_key_rotated",
    "api_key_revoked",
    "password_reset",
    "password_changed",
    "mfa_enabled",
    "mfa_disabled",
    "identity_linked",
    "identity_unlinked",
    "passkey_added",
    "passkey_removed",
    "email_verification",
    "address_proved",
    "sign_in_new_network",
];

testkit::on_both!(
    every_event_is_listed_and_on,
    a_mail_can_be_turned_off_and_on_again,
    a_critical_mail_cannot_be_turned_off,
    a_refused_change_changes_nothing,
    preferences_are_one_person_s,
    mails_about_keys_come_whatever_was_chosen_before,
    critical_mails_always_come,
    nonsense_turns_nothing_off,
);

async fn every_event_is_listed_and_on(app: &App) {
    let token = app.register("ann@example.com").await;
    let reply = app.call(&token, Method::GET, PATH, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let listed = preferences(&reply);
    let mut events: Vec<&str> = listed.iter().map(|one| one["event"].as_str().unwrap()).collect();
    let mut expected = [&OPTIONAL[..], &CRITICAL].concat();
    events.sort_unstable();
    expected.sort_unstable();
    assert_eq!(events, expected);
    for one in &listed {
        let event = one["event"].as_str().unwrap();
        let (label, description) = (one["label"].as_str().unwrap(), one["description"].as_str().unwrap());
        assert!(!label.is_empty() && !description.is_empty(), "{event}");
        let critical = CRITICAL.contains(&event);
        let whole = json!({"event": event, "label": label, "description": description, "enabled": true, "critical": critical});
        assert_eq!(*one, whole);
    }
}

async fn a_mail_can_be_turned_off_and_on_again(app: &App) {
    let token = app.register("ann@example.com").await;
    for event in OPTIONAL {
        let reply = put(app, &token, &json!({event: false})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(off(&reply), [event]);
        assert_eq!(preferences(&reply).len(), 17);
        assert_eq!(off(&get(app, &token).await), [event], "and it is kept");
        assert_eq!(off(&put(app, &token, &json!({})).await), [event], "what is left out stays");
        assert!(off(&put(app, &token, &json!({event: true})).await).is_empty());
    }
    put(app, &token, &json!({"low_balance": false})).await;
    let several = json!({"webhook_dead": false, "topup_credited": false, "low_balance": false});
    assert_eq!(off(&put(app, &token, &several).await), ["low_balance", "topup_credited", "webhook_dead"]);
}

async fn a_critical_mail_cannot_be_turned_off(app: &App) {
    let token = app.register("ann@example.com").await;
    for event in CRITICAL {
        let message = put(app, &token, &json!({event: false})).await.refused(400, "bad_request");
        assert!(message.contains(event), "{message}");
        assert_eq!(put(app, &token, &json!({event: true})).await.status, 200, "{event} is on as it is");
    }
    assert!(off(&get(app, &token).await).is_empty());
}

async fn a_refused_change_changes_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    assert_eq!(put(app, &token, &json!({"webhook_dead": false})).await.status, 200);
    for (body, named) in [
        (json!({"low_balance": false, "tea_time": false}), "tea_time"),
        (json!({"low_balance": false, "Low_Balance": true}), "Low_Balance"),
        (json!({"low_balance": false, "": true}), ""),
        (json!({"low_balance": false, "password_reset": false}), "password_reset"),
        (json!({"low_balance": false, "api_key_created": false}), "api_key_created"),
        (json!({"webhook_dead": true, "mfa_disabled": false}), "mfa_disabled"),
        (json!({"low_balance": "off"}), "low_balance"),
        (json!({"low_balance": null}), "low_balance"),
    ] {
        let message = put(app, &token, &body).await.refused(400, "bad_request");
        assert!(message.contains(named), "{message}");
        assert_eq!(off(&get(app, &token).await), ["webhook_dead"], "{body}");
    }
}

async fn preferences_are_one_person_s(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    put(app, &ann, &json!({"topup_credited": false})).await;
    assert_eq!(off(&get(app, &ann).await), ["topup_credited"]);
    assert!(off(&get(app, &bob).await).is_empty());
}

/// Opt-outs of earlier releases are still in the database.
async fn mails_about_keys_come_whatever_was_chosen_before(app: &App) {
    let token = app.register("ann@example.com").await;
    let made = app.call(&token, Method::POST, "/v1/api_keys", &json!({})).await.json();
    let key = format!("/v1/api_keys/{}", made["api_key"]["id"].as_str().unwrap());
    assert_eq!(app.mails().await.len(), 1);
    for event in ["api_key_created", "api_key_rotated", "api_key_revoked"] {
        put(app, &token, &json!({event: false})).await.refused(400, "bad_request");
        chosen_before(app, &token, event).await;
    }
    assert!(off(&get(app, &token).await).is_empty());
    app.api_key(&token).await;
    assert_eq!(app.call(&token, Method::POST, &format!("{key}/rotate"), &Value::Null).await.status, 200);
    assert_eq!(app.call(&token, Method::DELETE, &key, &Value::Null).await.status, 204);
    assert_eq!(app.mails().await.len(), 4);
}

async fn critical_mails_always_come(app: &App) {
    let token = app.register("ann@example.com").await;
    let nothing: Value = OPTIONAL.iter().map(|event| ((*event).to_owned(), json!(false))).collect();
    assert_eq!(off(&put(app, &token, &nothing).await).len(), 3);
    let forgot = json!({"email": "ann@example.com"});
    assert_eq!(app.post("/auth/console/password/forgot", &forgot).await.status, 202);
    assert_eq!(mails_once(app, 1).await.len(), 1);
    let change = json!({"current_password": PASSWORD, "new_password": "eleven purple submarines whistle"});
    assert_eq!(app.call(&token, Method::POST, "/v1/me/password", &change).await.status, 200);
    assert_eq!(app.mails().await.len(), 2);
}

async fn nonsense_turns_nothing_off(app: &App) {
    let token = app.register("ann@example.com").await;
    let good = json!({"low_balance": true, "mfa_enabled": true});
    refuses_nonsense(app, Some(&token), Method::PUT, PATH, &good).await;
    assert!(off(&get(app, &token).await).is_empty());
}

/// Stores an opt-out as releases did that let people turn this mail off.
async fn chosen_before(app: &App, token: &str, event: &str) {
    let me = app.call(token, Method::GET, "/v1/me", &Value::Null).await.json();
    let id = |name: &str| me[name].as_str().unwrap().parse().unwrap();
    let (tenant, user) = (TenantId(id("tenant_id")), UserId(id("user_id")));
    let store = Store::open(app.database_url()).await.unwrap();
    store
        .write("choose", async |conn: &mut Conn| users::set_optout(conn, tenant, user, event, false).await)
        .await
        .unwrap();
    store.close().await;
}

async fn get(app: &App, token: &str) -> Reply {
    app.call(token, Method::GET, PATH, &Value::Null).await
}

async fn put(app: &App, token: &str, body: &Value) -> Reply {
    app.call(token, Method::PUT, PATH, body).await
}

#[track_caller]
fn preferences(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let body = reply.json();
    let listed = body["preferences"].as_array().unwrap().clone();
    assert_eq!(body, json!({"preferences": listed}));
    listed
}

/// The events whose mails are off, by name.
#[track_caller]
fn off(reply: &Reply) -> Vec<String> {
    let off = preferences(reply).into_iter().filter(|one| one["enabled"] == false);
    let mut events: Vec<String> = off.map(|one| one["event"].as_str().unwrap().to_owned()).collect();
    events.sort();
    events
}
