//! Signing in with a password, what a session opens, and the locks against guessing.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use store::Backend;
use testkit::Stage;
use tokio::task::JoinSet;

use crate::app::{App, PASSWORD, Reply};
use crate::metrics;
use crate::registration::{refuses_nonsense, staged};

pub(crate) const LOGIN: &str = "/auth/console/login";
pub(crate) const WRONG: &str = "wrong horse battery staple";
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
pub(crate) const QUARTER: Duration = Duration::from_mins(15);
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Every endpoint that only a person may use.
const CONSOLE_ENDPOINTS: [(Method, &str); 9] = [
    (Method::POST, "/v1/me/onboarded"),
    (Method::POST, "/v1/me/password"),
    (Method::GET, "/v1/me/mfa"),
    (Method::POST, "/v1/me/mfa/setup"),
    (Method::POST, "/v1/me/mfa/enable"),
    (Method::POST, "/v1/me/mfa/disable"),
    (Method::GET, "/v1/me/identities"),
    (Method::GET, "/v1/me/notifications"),
    (Method::PUT, "/v1/me/notifications"),
];

testkit::on_both!(
    signing_in_gives_a_token_for_a_day,
    the_email_is_taken_in_any_case,
    a_wrong_email_and_a_wrong_password_read_the_same,
    a_wrong_email_costs_as_much_as_a_wrong_password,
    a_field_that_is_missing_is_named,
    nonsense_signs_nobody_in,
    a_session_ends_after_a_day,
    a_person_may_use_the_endpoints_of_keys,
    console_endpoints_are_for_people_only,
    finishing_the_first_steps_is_remembered,
    five_failures_lock_an_email_with_and_without_an_account,
    the_lock_knows_an_email_in_any_case,
    the_lock_ends_fifteen_minutes_after_the_last_failure,
    failures_far_apart_do_not_lock,
    a_success_clears_the_email_s_count,
    racing_guesses_get_no_more_than_five,
    an_office_that_signs_in_at_once_gets_in,
    a_person_who_signs_in_many_times_at_once_gets_in,
    twenty_failures_lock_an_address,
    a_success_never_clears_the_address_s_count,
    an_address_cannot_be_made_up_without_a_trusted_proxy,
);

async fn signing_in_gives_a_token_for_a_day(app: &App) {
    let first = app.register("ann@example.com").await;
    app.advance(MINUTE);
    let reply = login(app, "ann@example.com", PASSWORD).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let made = reply.json();
    let token = made["token"].as_str().unwrap();
    let expires = (app.now() + DAY).to_string();
    assert_eq!(made, json!({"token": token, "expires_at": expires, "token_type": "console"}));
    assert_ne!(token, first);
    let me = whoami(app, token).await;
    assert_eq!(me.json()["email"], "ann@example.com");
    assert_eq!(whoami(app, &first).await.text, me.text, "an earlier session goes on");
}

async fn the_email_is_taken_in_any_case(app: &App) {
    app.register("Ann@Example.com").await;
    for email in ["ann@example.com", "ANN@EXAMPLE.COM", "Ann@Example.com"] {
        let token = sign_in(app, email).await;
        assert_eq!(whoami(app, &token).await.json()["email"], "Ann@Example.com", "as it was registered");
    }
}

async fn a_wrong_email_and_a_wrong_password_read_the_same(app: &App) {
    app.register("ann@example.com").await;
    let password = login(app, "ann@example.com", WRONG).await;
    password.refused(401, "unauthorized");
    let email = login(app, "bob@example.com", WRONG).await;
    assert_eq!((email.status, &email.text), (password.status, &password.text));
    let names = |reply: &Reply| reply.headers.keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&email), names(&password));
}

async fn a_wrong_email_costs_as_much_as_a_wrong_password(app: &App) {
    app.register("ann@example.com").await;
    let (mut known, mut unknown) = (0.0, 0.0);
    // In turns, so that whatever else this process does adds to both; five of each, for the sixth would be locked.
    for _ in 0..5 {
        for (email, seconds) in [("ann@example.com", &mut known), ("bob@example.com", &mut unknown)] {
            let before = computed(app).await;
            login(app, email, WRONG).await.refused(401, "unauthorized");
            *seconds += computed(app).await - before;
        }
    }
    assert!(
        known > 0.0 && known < unknown * 3.0 && unknown < known * 3.0,
        "known {known}, unknown {unknown}"
    );
}

/// Seconds that the service has computed: the clock on the wall would also tell of other processes.
async fn computed(app: &App) -> f64 {
    metrics::value(&metrics::scrape(app).await, "process_cpu_seconds_total")
}

async fn a_field_that_is_missing_is_named(app: &App) {
    for field in ["email", "password"] {
        let mut body = json!({"email": "ann@example.com", "password": PASSWORD});
        body.as_object_mut().unwrap().remove(field);
        let message = app.post(LOGIN, &body).await.refused(400, "bad_request");
        assert!(message.contains(field), "{message}");
    }
    let body = json!({"email": "ann@example.com", "password": PASSWORD, "code": 123_456});
    assert!(app.post(LOGIN, &body).await.refused(400, "bad_request").contains("code"));
}

async fn nonsense_signs_nobody_in(app: &App) {
    app.register("ann@example.com").await;
    let good = json!({"email": "ann@example.com", "password": WRONG, "code": "123456"});
    refuses_nonsense(app, None, Method::POST, LOGIN, &good).await;
    assert_eq!(login(app, "ann@example.com", PASSWORD).await.status, 200);
}

async fn a_session_ends_after_a_day(app: &App) {
    let token = app.register("ann@example.com").await;
    app.advance(Duration::from_secs(24 * 60 * 60 - 1));
    assert_eq!(whoami(app, &token).await.status, 200);
    app.advance(Duration::from_secs(1));
    whoami(app, &token).await.refused(401, "unauthorized");
    for (method, path) in CONSOLE_ENDPOINTS {
        app.call(&token, method, path, &Value::Null).await.refused(401, "unauthorized");
    }
}

async fn a_person_may_use_the_endpoints_of_keys(app: &App) {
    let token = app.register("ann@example.com").await;
    for path in ["/v1/me", "/v1/settings", "/v1/api_keys"] {
        assert_eq!(app.call(&token, Method::GET, path, &Value::Null).await.status, 200, "{path}");
    }
    assert_eq!(app.call(&token, Method::POST, "/v1/api_keys", &json!({})).await.status, 201);
}

async fn console_endpoints_are_for_people_only(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let me = key.call(app, Method::GET, "/v1/me", &Value::Null).await.json();
    assert_eq!(
        me,
        json!({"auth_type": "tenant", "tenant_id": me["tenant_id"], "tenant_name": "Acme"}),
        "a key has no user"
    );
    for (method, path) in CONSOLE_ENDPOINTS {
        key.call(app, method.clone(), path, &Value::Null).await.refused(403, "forbidden");
        app.send(app.request(method.clone(), path)).await.refused(401, "unauthorized");
        app.call("made-up", method, path, &Value::Null).await.refused(401, "unauthorized");
    }
    assert_eq!(whoami(app, &token).await.json()["onboarded"], false, "the key has changed nothing");
}

async fn finishing_the_first_steps_is_remembered(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    for _ in 0..2 {
        let reply = app.call(&ann, Method::POST, "/v1/me/onboarded", &Value::Null).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
        assert_eq!(whoami(app, &ann).await.json()["onboarded"], true);
    }
    assert_eq!(whoami(app, &sign_in(app, "ann@example.com").await).await.json()["onboarded"], true);
    assert_eq!(whoami(app, &bob).await.json()["onboarded"], false);
}

async fn five_failures_lock_an_email_with_and_without_an_account(app: &App) {
    let token = app.register("ann@example.com").await;
    let mut refusals = Vec::new();
    for email in ["ann@example.com", "bob@example.com"] {
        fail(app, email, 5).await;
        let reply = login(app, email, PASSWORD).await;
        reply.refused(429, "rate_limited");
        assert_eq!(retry_after(&reply), 900);
        refusals.push(reply.text);
    }
    assert_eq!(refusals[0], refusals[1], "the lock does not tell who has an account");
    assert_eq!(whoami(app, &token).await.status, 200, "whoever is signed in stays so");
    app.register("cid@example.com").await;
    sign_in(app, "cid@example.com").await;
}

async fn the_lock_knows_an_email_in_any_case(app: &App) {
    app.register("ann@example.com").await;
    for email in
        ["ann@example.com", "Ann@example.com", "ANN@EXAMPLE.COM", "ann@EXAMPLE.com", "aNN@example.com"]
    {
        fail(app, email, 1).await;
    }
    login(app, "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
}

async fn the_lock_ends_fifteen_minutes_after_the_last_failure(app: &App) {
    app.register("ann@example.com").await;
    for wait in [0, 3, 3, 3, 3] {
        app.advance(MINUTE * wait);
        fail(app, "ann@example.com", 1).await;
    }
    assert_eq!(retry_after(&login(app, "ann@example.com", PASSWORD).await), 900);
    app.advance(MINUTE * 10);
    for _ in 0..5 {
        let reply = login(app, "ann@example.com", PASSWORD).await;
        reply.refused(429, "rate_limited");
        assert_eq!(retry_after(&reply), 300, "knocking does not make it longer");
    }
    app.advance(Duration::from_secs(5 * 60 - 1));
    login(app, "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
    app.advance(Duration::from_secs(1));
    fail(app, "ann@example.com", 1).await;
    sign_in(app, "ann@example.com").await;
}

async fn failures_far_apart_do_not_lock(app: &App) {
    app.register("ann@example.com").await;
    for _ in 0..3 {
        fail(app, "ann@example.com", 4).await;
        app.advance(QUARTER);
    }
    fail(app, "ann@example.com", 4).await;
    sign_in(app, "ann@example.com").await;
}

async fn a_success_clears_the_email_s_count(app: &App) {
    app.register("ann@example.com").await;
    for _ in 0..3 {
        fail(app, "ann@example.com", 4).await;
        sign_in(app, "ann@example.com").await;
    }
    fail(app, "ann@example.com", 5).await;
    login(app, "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
}

async fn racing_guesses_get_no_more_than_five(app: &App) {
    app.register("ann@example.com").await;
    let guess = json!({"email": "ann@example.com", "password": WRONG});
    let replies = race(40, |_| app.request(Method::POST, LOGIN).json(&guess)).await;
    assert_eq!(statuses(&replies), [(401, 5), (429, 35)].into());
    login(app, "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
}

async fn an_office_that_signs_in_at_once_gets_in(app: &App) {
    let emails: Vec<String> = (0..30).map(|number| format!("{number}@example.com")).collect();
    for email in &emails {
        app.register(email).await;
    }
    let body = |number: usize| json!({"email": emails[number], "password": PASSWORD});
    let replies = race(30, |number| app.request(Method::POST, LOGIN).json(&body(number))).await;
    assert_eq!(statuses(&replies), [(200, 30)].into(), "nobody has failed");
}

async fn a_person_who_signs_in_many_times_at_once_gets_in(app: &App) {
    app.register("ann@example.com").await;
    let body = json!({"email": "ann@example.com", "password": PASSWORD});
    let replies = race(20, |_| app.request(Method::POST, LOGIN).json(&body)).await;
    assert_eq!(statuses(&replies), [(200, 20)].into(), "nobody has failed");
}

async fn twenty_failures_lock_an_address(app: &BehindProxy) {
    app.register("ann@example.com").await;
    for email in
        ["ann@example.com", "bob@example.com", "cid@example.com", "dee@example.com", "eve@example.com"]
    {
        for _ in 0..4 {
            login_from(app, "203.0.113.7", email, WRONG).await.refused(401, "unauthorized");
        }
    }
    for email in ["ann@example.com", "new@example.com"] {
        let reply = login_from(app, "203.0.113.7", email, PASSWORD).await;
        reply.refused(429, "rate_limited");
        assert_eq!(retry_after(&reply), 900);
    }
    assert_eq!(login_from(app, "203.0.113.8", "ann@example.com", PASSWORD).await.status, 200);
    app.advance(QUARTER);
    assert_eq!(login_from(app, "203.0.113.7", "ann@example.com", PASSWORD).await.status, 200);
}

async fn a_success_never_clears_the_address_s_count(app: &BehindProxy) {
    app.register("ann@example.com").await;
    let here = "2001:db8::7";
    for round in 1..=5 {
        for _ in 0..4 {
            login_from(app, here, "ann@example.com", WRONG).await.refused(401, "unauthorized");
        }
        let reply = login_from(app, here, "ann@example.com", PASSWORD).await;
        assert_eq!(reply.status, if round < 5 { 200 } else { 429 }, "{}", reply.text);
    }
    assert_eq!(login_from(app, "203.0.113.8", "ann@example.com", PASSWORD).await.status, 200);
}

async fn an_address_cannot_be_made_up_without_a_trusted_proxy(app: &App) {
    app.register("ann@example.com").await;
    for attempt in 0..20 {
        let (address, email) = (format!("203.0.113.{attempt}"), format!("{attempt}@example.com"));
        login_from(app, &address, &email, WRONG).await.refused(401, "unauthorized");
    }
    login_from(app, "203.0.113.99", "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
}

mod the_lock_survives_a_restart {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn sqlite() {
        story(Backend::Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn postgres() {
        story(Backend::Postgres).await;
    }

    async fn story(backend: Backend) {
        let mut app = App::start(backend, &[]).await;
        app.register("ann@example.com").await;
        fail(&app, "ann@example.com", 3).await;
        app.restart(&[]).await;
        fail(&app, "ann@example.com", 2).await;
        app.restart(&[]).await;
        app.advance(MINUTE);
        let reply = login(&app, "ann@example.com", PASSWORD).await;
        reply.refused(429, "rate_limited");
        assert_eq!(retry_after(&reply), 840);
        app.tear_down().await;
    }
}

#[test]
fn the_lock_is_shared_by_every_node() {
    testkit::run_on(Backend::Postgres, async |app: &App| {
        app.register("ann@example.com").await;
        let other = app.second_node(&[]).await;
        fail(app, "ann@example.com", 3).await;
        fail(&other, "ann@example.com", 2).await;
        for node in [app, &other] {
            let reply = login(node, "ann@example.com", PASSWORD).await;
            reply.refused(429, "rate_limited");
            assert_eq!(retry_after(&reply), 900);
        }
        app.advance(QUARTER);
        let token = sign_in(&other, "ann@example.com").await;
        assert_eq!(whoami(app, &token).await.status, 200, "a session is good on every node");
        other.stop().await;
    });
}

/// The service behind a proxy on this machine, which says whom it asks for.
pub(crate) struct BehindProxy(App);

staged! {
    BehindProxy: &[("AUSPEX_TRUSTED_PROXIES", "127.0.0.0/8")];
}

/// Who the service thinks is asking.
pub(crate) async fn whoami(app: &App, token: &str) -> Reply {
    app.call(token, Method::GET, "/v1/me", &Value::Null).await
}

/// Tries to sign in.
pub(crate) async fn login(app: &App, email: &str, password: &str) -> Reply {
    app.post(LOGIN, &json!({"email": email, "password": password})).await
}

/// Tries to sign in through a proxy.
async fn login_from(app: &App, address: &str, email: &str, password: &str) -> Reply {
    let body = json!({"email": email, "password": password});
    app.send(app.request(Method::POST, LOGIN).header("x-forwarded-for", address).json(&body)).await
}

/// Signs in with the usual password.
pub(crate) async fn sign_in(app: &App, email: &str) -> String {
    let reply = login(app, email, PASSWORD).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["token"].as_str().unwrap().to_owned()
}

/// Fails to sign in this many times, with the lock not yet on.
async fn fail(app: &App, email: &str, times: usize) {
    for _ in 0..times {
        login(app, email, WRONG).await.refused(401, "unauthorized");
    }
}

/// After how many seconds the service says to come again.
#[track_caller]
pub(crate) fn retry_after(reply: &Reply) -> u64 {
    assert_eq!(reply.status, 429, "{}", reply.text);
    reply.header("retry-after").parse().unwrap()
}

/// Sends as many requests at once, each made for its number, and returns the answers in that order.
pub(crate) async fn race(racers: usize, request: impl Fn(usize) -> RequestBuilder) -> Vec<Reply> {
    let mut running = JoinSet::new();
    for number in 0..racers {
        let request = request(number);
        running.spawn(async move {
            let response = request.send().await.expect("the service answers every racer");
            let (status, headers) = (response.status(), response.headers().clone());
            (number, Reply { status, headers, text: response.text().await.unwrap() })
        });
    }
    let mut replies = running.join_all().await;
    replies.sort_by_key(|(number, _)| *number);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// How often each status came back.
pub(crate) fn statuses(replies: &[Reply]) -> BTreeMap<u16, usize> {
    replies.iter().fold(BTreeMap::new(), |mut counts, reply| {
        *counts.entry(reply.status.as_u16()).or_default() += 1;
        counts
    })
}
