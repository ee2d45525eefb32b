//! Sign-ins in the audit log: those that succeed, and every way to fail of a member who is known.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::PATIENCE;

use crate::app::{App, PASSWORD};
use crate::audit_log::entries;
use crate::login::{BehindProxy, LOGIN, MINUTE, QUARTER, WRONG, login};
use crate::provider_peers::Providers;
use crate::two_factor::{Phone, login_with};

testkit::on_both!(
    sign_ins_are_recorded_and_so_are_those_that_fail,
    a_lockout_is_recorded_once,
    a_missing_second_factor_is_recorded_unless_it_follows,
    a_sign_in_that_somebody_else_left_unfinished_is_recorded,
    what_a_provider_s_sign_in_is_refused_for_is_recorded,
    linked_and_unlinked_identities_are_shown,
);

/// Why the sign-ins of the log have failed, oldest first, once there are so many. Failures are recorded after their response.
async fn failures(app: &App, token: &str, count: usize) -> Vec<Value> {
    let found = async || entries(app, token, "&action=session.failed").await;
    let recorded = tokio::time::timeout(PATIENCE, async {
        while found().await.len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(recorded.await.is_ok(), "{:?}", found().await);
    let found = found().await;
    assert_eq!(found.len(), count, "{found:?}");
    found.into_iter().rev().map(|line| line["after"]["reason"].clone()).collect()
}

async fn swept(app: &App) {
    app.heart_has_beaten().await;
    app.advance(Duration::from_mins(11));
    app.sweeper_has_swept().await;
}

async fn sign_ins_are_recorded_and_so_are_those_that_fail(app: &App) {
    let token = app.register("ann@example.com").await;
    login(app, "ann@example.com", WRONG).await.refused(401, "unauthorized");
    login(app, "nobody@example.com", WRONG).await.refused(401, "unauthorized");
    app.post(LOGIN, &json!({"email": "ann@example.com", "password": PASSWORD})).await;
    let actions = async || {
        let lines = entries(app, &token, "").await;
        let mut actions: Vec<String> =
            lines.iter().map(|line| line["action"].as_str().unwrap().to_owned()).collect();
        actions.sort_unstable();
        actions
    };
    // A failure is recorded after its response.
    let recorded = tokio::time::timeout(PATIENCE, async {
        while actions().await.len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(recorded.await.is_ok(), "{:?}", actions().await);
    assert_eq!(actions().await, ["session.failed", "session.opened", "session.opened"]);
    let failed = &entries(app, &token, "&action=session.failed").await[0];
    assert_eq!(
        (&failed["actor"]["name"], &failed["address"]),
        (&json!("ann@example.com"), &json!("127.0.0.1"))
    );
}

async fn a_lockout_is_recorded_once(app: &App) {
    let token = app.register("ann@example.com").await;
    let locked_out = json!("locked_out");
    for lockout in 1..=2_usize {
        for _ in 0..5 {
            login(app, "ann@example.com", WRONG).await.refused(401, "unauthorized");
        }
        for _ in 0..3 {
            for email in ["ann@example.com", "nobody@example.com"] {
                login(app, email, PASSWORD).await;
            }
            login(app, "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
        }
        let reasons = failures(app, &token, 6 * lockout).await;
        assert_eq!(reasons.iter().filter(|reason| **reason == locked_out).count(), lockout, "{reasons:?}");
        app.advance(QUARTER + MINUTE);
    }
    assert_eq!(login(app, "ann@example.com", PASSWORD).await.status, 200);
}

async fn a_missing_second_factor_is_recorded_unless_it_follows(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    assert_eq!(login_with(app, &phone.code(app)).await.status, 200);
    swept(app).await;
    assert_eq!(failures(app, &token, 0).await, Vec::<Value>::new(), "the code has followed");

    let at = app.now();
    login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    login(app, "ann@example.com", WRONG).await.refused(401, "unauthorized");
    assert_eq!(failures(app, &token, 1).await, [Value::Null], "the second factor may still follow");
    swept(app).await;
    let reasons = failures(app, &token, 2).await;
    assert_eq!(reasons, [Value::Null, json!("second_factor_missing")], "a wrong password hides nothing");
    let line = &entries(app, &token, "&action=session.failed").await[0];
    assert_eq!((&line["at"], &line["address"]), (&json!(at), &json!("127.0.0.1")));
    assert!(line["request_id"].is_string(), "{line}");
    swept(app).await;
    failures(app, &token, 2).await;
}

async fn a_sign_in_that_somebody_else_left_unfinished_is_recorded(app: &BehindProxy) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    let from = async |address: &str, code: Option<&str>| {
        let mut body = json!({"email": "ann@example.com", "password": PASSWORD});
        if let Some(code) = code {
            body["code"] = json!(code);
        }
        let request = app.request(Method::POST, LOGIN).header("x-forwarded-for", address).json(&body);
        app.send(request).await
    };
    from("203.0.113.66", None).await.refused(401, "mfa_required");
    from("198.51.100.7", None).await.refused(401, "mfa_required");
    assert_eq!(failures(app, &token, 1).await, ["second_factor_missing"], "elsewhere, another begins");
    let line = &entries(app, &token, "&action=session.failed").await[0];
    assert_eq!(line["address"], "203.0.113.66");
    assert_eq!(from("198.51.100.7", Some(&phone.code(app))).await.status, 200);
    swept(app).await;
    failures(app, &token, 1).await;
}

async fn what_a_provider_s_sign_in_is_refused_for_is_recorded(stage: &Providers) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    for (count, provider) in ["google", "github"].into_iter().enumerate() {
        stage.person(provider, 1, "ann@example.com", true).await;
        assert_eq!(stage.link(&token, provider, 1).await.status, 201);
        stage.person(provider, 1, "elsewhere@example.com", false).await;
        stage.sign_in(provider, 1).await.refused(403, "forbidden");
        let reasons = failures(app, &token, 2 * count + 1).await;
        assert_eq!(reasons.last().unwrap(), "address_unverified");
        // Nobody's identity, with a member's address that it has not verified.
        stage.person(provider, 2, "ann@example.com", false).await;
        stage.sign_in(provider, 2).await.refused(403, "forbidden");
        let reasons = failures(app, &token, 2 * count + 2).await;
        assert_eq!(reasons.last().unwrap(), "address_unverified");
        stage.person(provider, 3, "nobody@example.com", false).await;
        stage.sign_in(provider, 3).await.refused(403, "forbidden");
    }
    stage.without_address(1).await;
    stage.sign_in("github", 1).await.refused(502, "identity_provider_error");
    assert_eq!(failures(app, &token, 5).await.last().unwrap(), "provider_error");
}

async fn linked_and_unlinked_identities_are_shown(stage: &Providers) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    stage.person("google", 1, "private@example.com", true).await;
    assert_eq!(stage.link(&token, "google", 1).await.status, 201);
    let at = app.now();
    assert_eq!(stage.unlink(&token, "google").await.status, 204);
    let identity = json!({"provider": "google", "email": "private@example.com", "created_at": at});
    let lines = entries(app, &token, "").await;
    assert_eq!((&lines[0]["action"], &lines[0]["before"]), (&json!("identity.unlinked"), &identity));
    assert_eq!((&lines[1]["action"], &lines[1]["after"]), (&json!("identity.linked"), &identity));
    assert_eq!((lines[0].get("after"), lines[1].get("before")), (None, None));
    // By signing in.
    app.verify(&token, "ann@example.com").await;
    stage.person("github", 1, "ann@example.com", true).await;
    let entered = stage.token("github", 1, 200).await;
    let lines = entries(app, &entered, "&action=identity.linked").await;
    assert_eq!(
        (&lines[0]["target"]["id"], &lines[0]["after"]["email"]),
        (&json!("github"), &json!("ann@example.com"))
    );
}
