//! Sessions in a cookie: what a browser gets, what it may send from where, and what stays as it is for programs.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage as _};

use crate::app::{App, PASSWORD, Reply};
use crate::log_watch;
use crate::login::{LOGIN, QUARTER, sign_in, whoami};
use crate::provider_peers::Providers;
use crate::signer::Signer;

const REGISTER: &str = "/auth/console/register";
const LOGOUT: &str = "/auth/console/logout";
const STATE: &str = "/auth/console/state";
const KEYS: &str = "/v1/api_keys";
const REQUIRED: &str = "reauthentication_required";
const NEW_PASSWORD: &str = "quite another horse and staple";

testkit::on_both!(
    signing_in_sets_a_cookie_that_no_script_can_read,
    a_new_password_replaces_the_cookie,
    a_provider_s_sign_in_sets_a_cookie,
    a_request_from_another_site_changes_nothing,
    another_credential_wins_over_the_cookie,
    signing_out_clears_the_cookie,
    a_cookie_holds_a_console_session_and_nothing_else,
    a_cookie_needs_recent_proof_to_make_keys,
    who_holds_a_session_in_a_cookie_keeps_what_was_set_up,
    the_first_account_is_still_to_be_opened,
);

/// A browser with a page of the console open.
pub(crate) struct Browser<'a> {
    app: &'a App,
    cookie: String,
}

impl<'a> Browser<'a> {
    /// Signs in with a page of the console.
    pub(crate) async fn sign_in(app: &'a App, email: &str) -> Self {
        let reply = with_cookie(app, LOGIN, &json!({"email": email, "password": PASSWORD})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        Self { app, cookie: stored(&reply) }
    }

    /// A request of a page.
    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Reply {
        let origin = self.app.url("");
        self.call_with(method, path, body, &[("origin", &origin)]).await
    }

    /// A request with headers that the test chooses.
    async fn call_with(&self, method: Method, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
        let mut request = self.app.request(method, path).header("cookie", &self.cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.app.send(if body.is_null() { request } else { request.json(body) }).await
    }
}

async fn with_cookie(app: &App, path: &str, body: &Value) -> Reply {
    app.send(app.request(Method::POST, path).json(body).header("x-auspex-session", "cookie")).await
}

/// The cookie that a response stores, as the browser will send it.
fn stored(reply: &Reply) -> String {
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let (_, token) = cookie.split_once('=').expect("a cookie is set");
    log_watch::remember(token);
    cookie
}

async fn signing_in_sets_a_cookie_that_no_script_can_read(app: &App) {
    let body = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let opened = with_cookie(app, REGISTER, &body).await;
    let again = with_cookie(app, LOGIN, &json!({"email": "ann@example.com", "password": PASSWORD})).await;
    for (reply, status) in [(opened, 201), (again, 200)] {
        assert_eq!(reply.status, status, "{}", reply.text);
        let expires_at = app.now() + Duration::from_hours(24);
        assert_eq!(reply.json(), json!({"expires_at": expires_at, "token_type": "console"}), "and no token");
        let cookie = stored(&reply);
        let expected = format!("{cookie}; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict");
        assert_eq!(reply.header("set-cookie"), expected);
        assert!(cookie.starts_with("auspex=ct_"), "{cookie}");
        let me = app.send(app.request(Method::GET, "/v1/me").header("cookie", &cookie)).await;
        assert_eq!(me.json()["email"], "ann@example.com", "{}", me.text);
    }
    for value in ["", "token", "Cookie", "cookie, cookie"] {
        let request = app.request(Method::POST, LOGIN).header("x-auspex-session", value);
        let body = json!({"email": "ann@example.com", "password": PASSWORD});
        let refused = app.send(request.json(&body)).await.refused(400, "bad_request");
        assert!(refused.starts_with("X-Auspex-Session: "), "{refused}");
    }
    let token = sign_in(app, "ann@example.com").await;
    assert_eq!(whoami(app, &token).await.status, 200, "a program gets a token as before");
}

async fn a_new_password_replaces_the_cookie(app: &App) {
    app.register("ann@example.com").await;
    let browser = Browser::sign_in(app, "ann@example.com").await;
    let body = json!({"current_password": PASSWORD, "new_password": NEW_PASSWORD});
    let origin = app.url("");
    let headers = [("origin", origin.as_str()), ("x-auspex-session", "cookie")];
    let reply = browser.call_with(Method::POST, "/v1/me/password", &body, &headers).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json().get("token"), None);
    browser.call(Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
    let next = Browser { app, cookie: stored(&reply) };
    assert_eq!(next.call(Method::GET, "/v1/me", &Value::Null).await.status, 200);
}

async fn a_provider_s_sign_in_sets_a_cookie(stage: &Providers) {
    stage.person("google", 1, "ann@example.com", true).await;
    for (status, is_new) in [(201, true), (200, false)] {
        let proof = stage.proof("google", 1).await;
        let reply = with_cookie(&stage.app, "/auth/console/oauth/google", &proof).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert_eq!(reply.json()["new_user"], is_new);
        assert_eq!(reply.json().get("token"), None);
        let browser = Browser { app: &stage.app, cookie: stored(&reply) };
        let me = browser.call(Method::GET, "/v1/me", &Value::Null).await;
        assert_eq!(me.json()["email"], "ann@example.com");
    }
}

async fn a_request_from_another_site_changes_nothing(app: &App) {
    app.register("ann@example.com").await;
    let browser = Browser::sign_in(app, "ann@example.com").await;
    let (origin, onboarded) = (app.url(""), "/v1/me/onboarded");
    let sibling = origin.replace("http://", "http://evil.");
    let foreign: &[&[(&str, &str)]] = &[
        &[],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", &sibling)],
        &[("origin", ""), ("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "none")],
        &[("referer", &origin)],
    ];
    for headers in foreign {
        let reply = browser.call_with(Method::POST, onboarded, &Value::Null, headers).await;
        assert!(reply.refused(403, "forbidden").contains(&origin), "{headers:?}: {}", reply.text);
        for (method, path) in [(Method::PATCH, "/v1/settings"), (Method::DELETE, "/v1/me/sessions")] {
            browser.call_with(method, path, &json!({}), headers).await.refused(403, "forbidden");
        }
        browser.call_with(Method::POST, LOGOUT, &Value::Null, headers).await.refused(403, "forbidden");
        let read = browser.call_with(Method::GET, "/v1/me", &Value::Null, headers).await;
        assert_eq!(read.json()["onboarded"], false, "{headers:?}: {}", read.text);
        assert_eq!(browser.call_with(Method::HEAD, "/v1/me", &Value::Null, headers).await.status, 200);
    }
    for headers in [[("origin", origin.as_str())], [("sec-fetch-site", "same-origin")]] {
        let reply = browser.call_with(Method::POST, onboarded, &Value::Null, &headers).await;
        assert_eq!(reply.status, 204, "{headers:?}: {}", reply.text);
    }
    assert_eq!(browser.call(Method::GET, "/v1/me", &Value::Null).await.json()["onboarded"], true);
}

async fn another_credential_wins_over_the_cookie(app: &App) {
    let bob = app.register("bob@example.com").await;
    app.register("ann@example.com").await;
    let browser = Browser::sign_in(app, "ann@example.com").await;
    let as_bob = format!("Bearer {bob}");
    let me = browser.call_with(Method::GET, "/v1/me", &Value::Null, &[("authorization", &as_bob)]).await;
    assert_eq!(me.json()["email"], "bob@example.com");
    let headers = [("authorization", as_bob.as_str())];
    let reply = browser.call_with(Method::POST, "/v1/me/onboarded", &Value::Null, &headers).await;
    assert_eq!(reply.status, 204, "a program needs no origin: {}", reply.text);
    for (name, value) in
        [("authorization", "Bearer garbage"), ("authorization", "Basic YTpi"), ("x-api-key", "garbage")]
    {
        let reply = browser.call_with(Method::GET, "/v1/me", &Value::Null, &[(name, value)]).await;
        reply.refused(401, "unauthorized");
    }
    let me = browser.call(Method::GET, "/v1/me", &Value::Null).await;
    assert_eq!(me.json()["email"], "ann@example.com");
}

async fn signing_out_clears_the_cookie(app: &App) {
    let token = app.register("ann@example.com").await;
    let browser = Browser::sign_in(app, "ann@example.com").await;
    let reply = app.call(&token, Method::POST, LOGOUT, &Value::Null).await;
    assert_eq!((reply.status.as_u16(), reply.header("set-cookie")), (204, ""), "a program has no cookie");
    let reply = browser.call(Method::POST, LOGOUT, &Value::Null).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    assert_eq!(reply.header("set-cookie"), "auspex=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    browser.call(Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
}

async fn a_cookie_holds_a_console_session_and_nothing_else(app: &App) {
    let token = app.register("ann@example.com").await;
    let signer: Signer = app.api_key(&token).await;
    let signed = signer.sign(app.now(), &Method::GET, "/v1/me");
    let me = |cookie: String| app.send(app.request(Method::GET, "/v1/me").header("cookie", cookie));
    assert_eq!(me(format!("theme=dark; auspex={token}")).await.status, 200);
    for cookie in [
        format!("auspex={signed}"),
        format!("__Host-auspex={token}"),
        format!("auspex={token}x"),
        "auspex=ct_".to_owned(),
        "auspex=".to_owned(),
        "auspex".to_owned(),
        ";;=;".to_owned(),
    ] {
        me(cookie).await.refused(401, "unauthorized");
    }
    app.advance(Duration::from_secs(24 * 60 * 60 + 1));
    me(format!("auspex={token}")).await.refused(401, "unauthorized");
}

async fn a_cookie_needs_recent_proof_to_make_keys(app: &App) {
    let token = app.register("ann@example.com").await;
    let browser = Browser::sign_in(app, "ann@example.com").await;
    let made = browser.call(Method::POST, KEYS, &json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.json()["api_key"]["id"].as_str().unwrap().to_owned();
    let rotate = format!("{KEYS}/{id}/rotate");
    app.advance(QUARTER + Duration::from_secs(1));
    browser.call(Method::POST, KEYS, &json!({})).await.refused(403, REQUIRED);
    browser.call(Method::POST, &rotate, &Value::Null).await.refused(403, REQUIRED);
    for path in [KEYS, &rotate] {
        let reply = app.call(&token, Method::POST, path, &json!({})).await;
        assert!(reply.status.is_success(), "a program goes on as before: {}", reply.text);
    }
    let proof = json!({"password": PASSWORD});
    let reply = browser.call(Method::POST, "/auth/console/reauthenticate", &proof).await;
    assert_eq!(reply.status, 204, "{}", reply.text);
    assert_eq!(browser.call(Method::POST, KEYS, &json!({})).await.status, 201);
    assert_eq!(browser.call(Method::POST, &rotate, &Value::Null).await.status, 200);
}

async fn who_holds_a_session_in_a_cookie_keeps_what_was_set_up(app: &App) {
    app.register("ann@example.com").await;
    let browser = Browser::sign_in(app, "ann@example.com").await;
    let body = json!({"token": app.verification("ann@example.com").await});
    let reply = browser.call(Method::POST, "/auth/console/verify", &body).await;
    assert_eq!(reply.status, 204, "{}", reply.text);
    let me = browser.call(Method::GET, "/v1/me", &Value::Null).await;
    assert_eq!(me.json()["email_verified"], true, "and the session goes on: {}", me.text);
}

async fn the_first_account_is_still_to_be_opened(app: &App) {
    assert_eq!(app.get(STATE).await.json(), json!({"empty": true}));
    app.register("ann@example.com").await;
    assert_eq!(app.get(STATE).await.json(), json!({"empty": false}));
}

#[tokio::test(flavor = "multi_thread")]
async fn production_binds_the_cookie_to_its_host() {
    let settings = [
        ("AUSPEX_ENV", "production"),
        ("AUSPEX_PUBLIC_URL", "https://auspex.example:8443/"),
        ("AUSPEX_SIGNUP_CREDIT_CENTS", "0"),
    ];
    let app = App::start(Backend::Sqlite, &settings).await;
    app.register("ann@example.com").await;
    let reply = with_cookie(&app, LOGIN, &json!({"email": "ann@example.com", "password": PASSWORD})).await;
    let cookie = stored(&reply);
    assert!(cookie.starts_with("__Host-auspex=ct_"), "{cookie}");
    let attributes = "; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict; Secure";
    assert_eq!(reply.header("set-cookie"), format!("{cookie}{attributes}"));
    let browser = Browser { app: &app, cookie };
    let path = "/v1/me/onboarded";
    browser.call(Method::POST, path, &Value::Null).await.refused(403, "forbidden");
    for (origin, status) in [
        ("https://auspex.example", 403),
        ("http://auspex.example:8443", 403),
        ("https://auspex.example:8443/", 403),
        ("https://auspex.example:8443", 204),
    ] {
        let reply = browser.call_with(Method::POST, path, &Value::Null, &[("origin", origin)]).await;
        assert_eq!(reply.status, status, "{origin}: {}", reply.text);
    }
    let cleared =
        browser.call_with(Method::POST, LOGOUT, &Value::Null, &[("sec-fetch-site", "same-origin")]).await;
    assert!(cleared.header("set-cookie").starts_with("__Host-auspex=; "), "{:?}", cleared.headers);
    app.tear_down().await;
}
