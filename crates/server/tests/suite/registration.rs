//! Opening an account: what it comes with, and what refuses it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use store::{Conn, Store};

use crate::app::{App, CONFIRM, PASSWORD, Reply, START};
use crate::login::{DAY, race, retry_after, statuses};

const REGISTER: &str = "/auth/console/register";

testkit::on_both!(
    a_new_account_is_signed_in,
    a_new_account_has_its_credit_and_its_questions,
    what_a_field_does_not_allow_is_named,
    unknown_fields_are_ignored,
    weak_passwords_are_refused,
    passwords_are_counted_in_characters,
    an_email_is_taken_in_any_case,
    of_many_who_claim_an_email_one_gets_it,
    a_refusal_leaves_nothing_behind,
    registration_can_be_closed,
    a_network_opens_a_few_accounts_an_hour,
    the_operator_sets_the_signup_credit,
    nonsense_opens_no_account,
);

async fn a_new_account_is_signed_in(app: &App) {
    let reply = app.post(REGISTER, &body("ann@example.com")).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    let token = made["token"].as_str().unwrap();
    let expires = (START + DAY).to_string();
    assert_eq!(made, json!({"token": token, "expires_at": expires, "token_type": "console"}));

    let me = app.call(token, Method::GET, "/v1/me", &Value::Null).await.json();
    for id in ["tenant_id", "user_id"] {
        let id: uuid::Uuid = me[id].as_str().unwrap().parse().unwrap();
        assert_eq!(id.get_version_num(), 7);
    }
    let expected = json!({
        "auth_type": "console",
        "tenant_id": me["tenant_id"],
        "tenant_name": "Acme",
        "user_id": me["user_id"],
        "email": "ann@example.com",
        "role": "admin",
        "member_role": "owner",
        "onboarded": false,
        "email_verified": false,
        "operator": false,
    });
    assert_eq!(me, expected);
    let mails = app.all_mails().await;
    assert_eq!(mails.len(), 1, "a link that proves the address, and nothing else: {mails:?}");
    assert_eq!((mails[0].to.as_str(), mails[0].subject.as_str()), ("ann@example.com", CONFIRM));
}

async fn a_new_account_has_its_credit_and_its_questions(app: &App) {
    app.register("ann@example.com").await;
    let questions = rows(app, "SELECT key || ' ' || type FROM signals WHERE enabled ORDER BY key").await;
    assert_eq!(questions, ["buyer_intent choice", "is_scammer noul", "trust_score score"]);
    let lines = "SELECT kind || ' ' || reason || ' ' || delta_micros || ' ' || balance_after_micros
                 FROM ledger_entries";
    assert_eq!(rows(app, lines).await, ["credit signup_credit 5000000 5000000"]);
    assert_eq!(rows(app, "SELECT CAST(balance_micros AS TEXT) FROM balances").await, ["5000000"]);
}

async fn what_a_field_does_not_allow_is_named(app: &App) {
    for field in ["tenant_name", "email", "password"] {
        let mut lacking = body("ann@example.com");
        lacking.as_object_mut().unwrap().remove(field);
        let message = app.post(REGISTER, &lacking).await.refused(400, "bad_request");
        assert!(message.contains(field), "{message}");
        for wrong in [Value::Null, json!(7), json!(["ann@example.com"]), json!({"text": "x"})] {
            let message = app.post(REGISTER, &with(field, &wrong)).await.refused(400, "bad_request");
            assert!(message.contains(field), "{message}");
        }
    }
    for blank in ["", "  ", &"x".repeat(50_000)] {
        let message =
            app.post(REGISTER, &with("tenant_name", &json!(blank))).await.refused(400, "bad_request");
        assert!(message.contains("tenant_name"), "{message}");
    }
    for address in ["", "ann", "@example.com", "ann@", "a nn@example.com", "ann@example.com, bob@example.com"]
    {
        let message = app.post(REGISTER, &with("email", &json!(address))).await.refused(400, "bad_request");
        assert!(message.contains("email"), "{message}");
    }
}

async fn unknown_fields_are_ignored(app: &App) {
    let reply = app.post(REGISTER, &with("role", &json!({"is": "owner"}))).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
}

async fn weak_passwords_are_refused(app: &App) {
    let too_long = "correct horse battery staple ".repeat(10);
    assert!(too_long.len() > 256);
    for weak in ["", "kX9#vQ2", "password", "12345678", "aaaaaaaaaaaaaaaa", "qwertyuiop", &too_long] {
        app.post(REGISTER, &with("password", &json!(weak))).await.refused(400, "weak_password");
    }
}

async fn passwords_are_counted_in_characters(app: &App) {
    // As many bytes as a password may have characters says nothing: 256 of these are 512 bytes.
    let longest: String = "жщюэяъыфч".chars().cycle().take(256).collect();
    let shortest = "kX9#vQ2m";
    for (person, password) in [("ann", longest.as_str()), ("bob", shortest)] {
        let email = format!("{person}@example.com");
        let body = json!({"tenant_name": "Acme", "email": email, "password": password});
        assert_eq!(app.post(REGISTER, &body).await.status, 201);
        let login = json!({"email": email, "password": password});
        assert_eq!(app.post("/auth/console/login", &login).await.status, 200);
    }
    let longer = format!("{longest}ж");
    app.post(REGISTER, &with("password", &json!(longer))).await.refused(400, "weak_password");
}

async fn an_email_is_taken_in_any_case(app: &App) {
    app.register("ann@example.com").await;
    for email in ["ann@example.com", "Ann@Example.COM", "ANN@EXAMPLE.COM"] {
        app.post(REGISTER, &body(email)).await.refused(409, "conflict");
    }
    app.register("ann@example.org").await;
}

async fn of_many_who_claim_an_email_one_gets_it(app: &App) {
    let claim = body("ann@example.com");
    let replies = race(20, |_| app.request(Method::POST, REGISTER).json(&claim)).await;
    assert_eq!(statuses(&replies), [(201, 1), (409, 19)].into());
    assert_eq!(tally(app).await, ["tenants 1", "users 1", "signals 3", "ledger 1", "sessions 1"]);
}

async fn a_refusal_leaves_nothing_behind(app: &App) {
    let untouched = ["tenants 0", "users 0", "signals 0", "ledger 0", "sessions 0"];
    app.post(REGISTER, &with("password", &json!("password"))).await.refused(400, "weak_password");
    app.post(REGISTER, &with("email", &json!("ann"))).await.refused(400, "bad_request");
    app.post(REGISTER, &with("tenant_name", &json!(""))).await.refused(400, "bad_request");
    assert_eq!(tally(app).await, untouched);
    app.register("ann@example.com").await;
    let before = tally(app).await;
    app.post(REGISTER, &body("ANN@example.com")).await.refused(409, "conflict");
    assert_eq!(tally(app).await, before);
}

async fn registration_can_be_closed(app: &Closed) {
    app.post(REGISTER, &body("ann@example.com")).await.refused(403, "forbidden");
    assert_eq!(tally(app).await, ["tenants 0", "users 0", "signals 0", "ledger 0", "sessions 0"]);
    app.post("/auth/console/login", &json!({"email": "ann@example.com", "password": PASSWORD}))
        .await
        .refused(401, "unauthorized");
}

async fn a_network_opens_a_few_accounts_an_hour(app: &Limited) {
    let register = async |address: &str, email: &str| {
        let request = app.request(Method::POST, REGISTER).header("x-forwarded-for", address);
        app.send(request.json(&body(email))).await
    };
    // A refused request that hashes no password does not count; one for an address that is taken does.
    register("2001:db8::1", "nonsense").await.refused(400, "bad_request");
    assert_eq!(register("2001:db8::1", "ann@example.com").await.status, 201);
    register("2001:db8::2", "ann@example.com").await.refused(409, "conflict");
    assert_eq!(register("2001:db8::3", "bob@example.com").await.status, 201);
    let refused = register("2001:db8::4", "cid@example.com").await;
    refused.refused(429, "rate_limited");
    assert!((1..=3600).contains(&retry_after(&refused)), "{:?}", refused.headers);
    assert_eq!(register("192.0.2.1", "dan@example.com").await.status, 201, "another network");
    app.advance(Duration::from_hours(1));
    assert_eq!(register("2001:db8::4", "cid@example.com").await.status, 201);
    let emails = rows(app, "SELECT email FROM users ORDER BY email").await;
    assert_eq!(emails, ["ann@example.com", "bob@example.com", "cid@example.com", "dan@example.com"]);
    assert_eq!(app.all_mails().await.len(), 4, "one link each");
}

async fn the_operator_sets_the_signup_credit(app: &Generous) {
    app.register("ann@example.com").await;
    assert_eq!(rows(app, "SELECT CAST(balance_micros AS TEXT) FROM balances").await, ["12340000"]);
    assert_eq!(rows(app, "SELECT CAST(delta_micros AS TEXT) FROM ledger_entries").await, ["12340000"]);
}

async fn nonsense_opens_no_account(app: &App) {
    // The address is taken, so that no nonsense in the other fields can open an account either.
    app.register("ann@example.com").await;
    refuses_nonsense(app, None, Method::POST, REGISTER, &body("ann@example.com")).await;
    assert_eq!(rows(app, "SELECT email FROM users").await, ["ann@example.com"]);
}

fn body(email: &str) -> Value {
    json!({"tenant_name": "Acme", "email": email, "password": PASSWORD})
}

/// A good registration with one field put otherwise.
fn with(field: &str, value: &Value) -> Value {
    let mut body = body("ann@example.com");
    body[field] = value.clone();
    body
}

/// How many rows an account's tables have.
async fn tally(app: &App) -> Vec<String> {
    let counts = "SELECT 'tenants ' || count(*) FROM tenants
        UNION ALL SELECT 'users ' || count(*) FROM users
        UNION ALL SELECT 'signals ' || count(*) FROM signals
        UNION ALL SELECT 'ledger ' || count(*) FROM ledger_entries
        UNION ALL SELECT 'sessions ' || count(*) FROM sessions";
    rows(app, counts).await
}

/// The rows of a query with one column of text, asked beside the service: for what no endpoint shows yet.
pub(crate) async fn rows(app: &App, query: &'static str) -> Vec<String> {
    let store = Store::open(app.database_url()).await.unwrap();
    let rows = store.read("rows", async |conn| {
        Ok::<_, store::Error>(match conn {
            Conn::Sqlite(held) => sqlx::query_scalar(query).fetch_all(held.native()).await?,
            Conn::Postgres(held) => sqlx::query_scalar(query).fetch_all(held.native()).await?,
        })
    });
    let rows = rows.await.unwrap();
    store.close().await;
    rows
}

/// JSON, good and bad, that no field of any account endpoint wants.
fn nonsense() -> Vec<String> {
    let mut texts: Vec<String> = [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "1e308",
        "1e999",
        "18446744073709551616",
        "NaN",
        "[]",
        "{}",
        "[[[{}]]]",
        "{\"a\": {\"b\": [null]}}",
        "\"\"",
        "\" \"",
        r#""\u0000""#,
        r#""ann@example.com\u0000""#,
        r#""\ud800""#,
        r#""\u0001\u001f\u007f\u0085""#,
        r#""ann@example.com\r\nBcc: bob@example.com""#,
        r#""\u202e\ufeff\u200d""#,
        r#""' OR 1=1; --""#,
        r#""%00%ff{{7*7}}$(id)""#,
        r#""../../../etc/passwd""#,
        r#""٠١٢٣٤٥""#,
        r#""\udbff\udfff""#,
    ]
    .map(str::to_owned)
    .into();
    texts.push(format!("{}1{}", "[".repeat(100), "]".repeat(100)));
    texts.push(format!("\"{}\"", "x".repeat(1_000_000)));
    texts.push(format!("\"{}\"", "😀".repeat(300)));
    texts
}

/// Puts nonsense into each field of a good body in turn, and in place of it: the service refuses, or takes it, but
/// never breaks. `U+0000` it always refuses.
pub(crate) async fn refuses_nonsense(
    app: &App,
    token: Option<&str>,
    method: Method,
    path: &str,
    good: &Value,
) {
    let fields: Vec<&String> = good.as_object().unwrap().keys().collect();
    for nonsense in nonsense() {
        let mut bodies = vec![nonsense.clone()];
        for spoilt in &fields {
            let members = fields.iter().map(|field| {
                let value = if field == spoilt { nonsense.clone() } else { good[field.as_str()].to_string() };
                format!("{}: {value}", json!(field))
            });
            bodies.push(format!("{{{}}}", members.collect::<Vec<_>>().join(", ")));
        }
        for body in bodies {
            let request = app.request(method.clone(), path).header("content-type", "application/json");
            let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
            let reply = app.send(request.body(body.clone())).await;
            let shown: String = body.chars().take(200).collect();
            survived(&reply, &format!("{method} {path} {shown}"));
            assert!(token.is_none() || reply.status != 401, "the session lasts longer than the nonsense");
            if body.contains("\\u0000") {
                reply.refused(400, "bad_request");
            }
            // Slower than any lock counts, so that no later answer is about the earlier ones.
            app.advance(Duration::from_mins(4));
        }
    }
}

#[track_caller]
fn survived(reply: &Reply, request: &str) {
    assert!(reply.status.as_u16() < 500, "{request}: {} {}", reply.status, reply.text);
    assert_ne!(reply.status, 429, "{request}: not an answer about the request");
    if reply.status.as_u16() >= 400 {
        let code = reply.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
        reply.refused(reply.status.as_u16(), &code);
    }
}

/// A service that strangers cannot open accounts on.
struct Closed(App);
/// A service on which a network opens few accounts.
struct Limited(App);
/// A service whose operator gives more than usual.
struct Generous(App);

/// Makes each type a stage on which the service runs with settings of its own.
macro_rules! staged {
    ($($stage:ident: $settings:expr;)*) => {$(
        impl std::ops::Deref for $stage {
            type Target = $crate::app::App;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl testkit::Stage for $stage {
            async fn set_up(backend: testkit::Backend) -> Self {
                Self($crate::app::App::start(backend, $settings).await)
            }

            async fn tear_down(self) {
                testkit::Stage::tear_down(self.0).await;
            }
        }
    )*};
}
pub(crate) use staged;

staged! {
    Closed: &[("AUSPEX_ALLOW_REGISTRATION", "false")];
    Limited: &[("AUSPEX_REGISTRATIONS_PER_HOUR", "3"), ("AUSPEX_TRUSTED_PROXIES", "127.0.0.1")];
    Generous: &[("AUSPEX_SIGNUP_CREDIT_CENTS", "1234")];
}
