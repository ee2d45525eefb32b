//! Where a person is signed in, and how that ends.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::Backend;
use uuid::Uuid;

use crate::app::{App, PASSWORD, Reply};
use crate::login::{BehindProxy, DAY, LOGIN, MINUTE, sign_in, whoami};

const PATH: &str = "/v1/me/sessions";
const LOGOUT: &str = "/auth/console/logout";
const NEW_NETWORK: &str = "Sign-in from a new network";

testkit::on_both!(
    signing_out_ends_the_session_and_no_other,
    every_session_is_listed_with_where_it_was_seen,
    a_session_is_ended_by_its_id,
    all_other_sessions_end_at_once,
    nobody_sees_or_ends_another_person_s_sessions,
    a_session_that_has_expired_is_not_listed,
    a_long_or_odd_agent_harms_nothing,
    a_sign_in_from_a_new_network_is_mailed,
);

async fn signing_out_ends_the_session_and_no_other(app: &App) {
    let (token, other) = (app.register("ann@example.com").await, sign_in(app, "ann@example.com").await);
    let reply = app.call(&token, Method::POST, LOGOUT, &Value::Null).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    whoami(app, &token).await.refused(401, "unauthorized");
    app.call(&token, Method::POST, LOGOUT, &Value::Null).await.refused(401, "unauthorized");
    assert_eq!(whoami(app, &other).await.status, 200);
    app.send(app.request(Method::POST, LOGOUT)).await.refused(401, "unauthorized");
    let key = app.api_key(&other).await;
    key.call(app, Method::POST, LOGOUT, &Value::Null).await.refused(403, "forbidden");
}

async fn every_session_is_listed_with_where_it_was_seen(app: &BehindProxy) {
    let first = log_in_from(app, "203.0.113.9", "one/1.0", None).await;
    let opened = app.now();
    app.advance(MINUTE);
    let second = log_in_from(app, "203.0.113.20", "two/2.0", Some(())).await;
    let listed = sessions(app, &second).await;
    assert_eq!(listed.len(), 2);
    let ids: Vec<Uuid> = listed.iter().map(|one| one["id"].as_str().unwrap().parse().unwrap()).collect();
    assert!(ids[0] > ids[1] && ids.iter().all(|id| id.get_version_num() == 7), "newest first: {ids:?}");
    let now = app.now();
    assert_eq!(
        listed[0],
        json!({"id": ids[0], "created_at": now, "last_seen_at": now, "address": "203.0.113.20", "agent": "two/2.0",
               "current": true})
    );
    let mut one = json!({"id": ids[1], "created_at": opened, "last_seen_at": opened, "address": "203.0.113.9",
                         "agent": "one/1.0", "current": false});
    assert_eq!(listed[1], one);

    // Used from elsewhere, the first session says so.
    app.advance(Duration::from_mins(5));
    let request = app.request(Method::GET, "/v1/me").bearer_auth(&first).header("user-agent", "thief/1.0");
    assert_eq!(app.send(request.header("x-forwarded-for", "198.51.100.1")).await.status, 200);
    one["last_seen_at"] = json!(app.now());
    one["address"] = json!("198.51.100.1");
    one["agent"] = json!("thief/1.0");
    assert_eq!(sessions(app, &second).await[1], one);
}

async fn a_session_is_ended_by_its_id(app: &App) {
    let token = app.register("ann@example.com").await;
    let other = sign_in(app, "ann@example.com").await;
    let listed = sessions(app, &token).await;
    let id = |current: bool| {
        let found = listed.iter().find(|one| one["current"] == current).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(end(app, &token, &id(false)).await.status, 204);
    whoami(app, &other).await.refused(401, "unauthorized");
    end(app, &token, &id(false)).await.refused(404, "not_found");
    for unknown in [Uuid::from_u128(7), Uuid::max(), Uuid::nil()] {
        end(app, &token, &unknown.to_string()).await.refused(404, "not_found");
    }
    end(app, &token, "seven").await.refused(400, "bad_request");
    assert_eq!(end(app, &token, &id(true)).await.status, 204, "one's own too");
    whoami(app, &token).await.refused(401, "unauthorized");
}

async fn all_other_sessions_end_at_once(app: &App) {
    let token = app.register("ann@example.com").await;
    let others = [sign_in(app, "ann@example.com").await, sign_in(app, "ann@example.com").await];
    let bob = app.register("bob@example.com").await;
    assert_eq!(app.call(&token, Method::DELETE, PATH, &Value::Null).await.status, 204);
    for other in others {
        whoami(app, &other).await.refused(401, "unauthorized");
    }
    assert_eq!(sessions(app, &token).await.len(), 1);
    assert_eq!(whoami(app, &bob).await.status, 200);
}

async fn nobody_sees_or_ends_another_person_s_sessions(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    let theirs = sessions(app, &bob).await;
    assert_eq!(theirs.len(), 1);
    assert_ne!(sessions(app, &ann).await[0]["id"], theirs[0]["id"]);
    end(app, &ann, theirs[0]["id"].as_str().unwrap()).await.refused(404, "not_found");
    assert_eq!(whoami(app, &bob).await.status, 200);
}

async fn a_session_that_has_expired_is_not_listed(app: &App) {
    app.register("ann@example.com").await;
    app.advance(DAY - MINUTE);
    let token = sign_in(app, "ann@example.com").await;
    assert_eq!(sessions(app, &token).await.len(), 2);
    app.advance(MINUTE);
    assert_eq!(sessions(app, &token).await.len(), 1);
}

async fn a_long_or_odd_agent_harms_nothing(app: &App) {
    app.register("ann@example.com").await;
    let body = json!({"email": "ann@example.com", "password": PASSWORD});
    for agent in [vec![b'a'; 5_000], vec![0xff, 0xfe], vec![b'\t'], Vec::new()] {
        let agent = reqwest::header::HeaderValue::from_bytes(&agent).unwrap();
        let reply = app.send(app.request(Method::POST, LOGIN).header("user-agent", agent).json(&body)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let token = reply.json()["token"].as_str().unwrap().to_owned();
        let listed = sessions(app, &token).await;
        let current = listed.iter().find(|one| one["current"] == true).unwrap();
        assert!(current["agent"].as_str().unwrap_or_default().len() <= 256, "{current}");
    }
}

async fn a_sign_in_from_a_new_network_is_mailed(app: &BehindProxy) {
    log_in_from(app, "203.0.113.9", "one/1.0", None).await;
    for address in ["203.0.113.10", "203.0.113.9"] {
        log_in_from(app, address, "one/1.0", Some(())).await;
    }
    assert!(
        !app.subjects_to("ann@example.com").await.contains(&NEW_NETWORK.to_owned()),
        "a neighbour is known"
    );
    log_in_from(app, "198.51.100.1", "other/<b>", Some(())).await;
    log_in_from(app, "198.51.100.1", "other/<b>", Some(())).await;
    let mails = app.mails().await;
    let told: Vec<_> = mails.iter().filter(|mail| mail.subject == NEW_NETWORK).collect();
    assert_eq!(told.len(), 1, "{mails:?}");
    assert_eq!(told[0].to, "ann@example.com");
    assert!(told[0].text.contains("198.51.100.1 (other/<b>)"), "{}", told[0].text);
}

#[test]
fn a_session_ended_on_one_node_ends_on_every_node_within_a_second() {
    testkit::run_on(Backend::Postgres, async |app: &App| {
        let token = app.register("ann@example.com").await;
        let node = app.second_node(&[]).await;
        assert_eq!(whoami(&node, &token).await.status, 200);
        assert_eq!(app.call(&token, Method::POST, LOGOUT, &Value::Null).await.status, 204);
        let known = async {
            while whoami(&node, &token).await.status != 401 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(testkit::PATIENCE, known).await.expect("the session ends everywhere");
        node.stop().await;
    });
}

/// Signs Ann in through the proxy, or opens her account; her token.
async fn log_in_from(app: &App, address: &str, agent: &str, registered: Option<()>) -> String {
    let (path, body) = match registered {
        Some(()) => (LOGIN, json!({"email": "ann@example.com", "password": PASSWORD})),
        None => (
            "/auth/console/register",
            json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD}),
        ),
    };
    let request =
        app.request(Method::POST, path).header("x-forwarded-for", address).header("user-agent", agent);
    let reply = app.send(request.json(&body)).await;
    assert!(reply.status.is_success(), "{}", reply.text);
    reply.json()["token"].as_str().unwrap().to_owned()
}

async fn end(app: &App, token: &str, id: &str) -> Reply {
    app.call(token, Method::DELETE, &format!("{PATH}/{id}"), &Value::Null).await
}

async fn sessions(app: &App, token: &str) -> Vec<Value> {
    let reply = app.call(token, Method::GET, PATH, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["sessions"].as_array().unwrap().clone()
}
