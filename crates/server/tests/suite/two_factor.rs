//! Two-factor: setting it up, signing in with it, turning it off, and codes that are good once.

use std::time::Duration;

use model::totp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, PASSWORD, Reply};
use crate::login::{LOGIN, MINUTE, QUARTER, WRONG, login, race, retry_after, sign_in, statuses, whoami};
use crate::registration::refuses_nonsense;

const STEP: Duration = Duration::from_secs(30);

testkit::on_both!(
    it_is_off_at_first,
    an_authenticator_app_can_read_the_setup,
    a_repeated_setup_replaces_the_secret,
    turning_it_on_needs_a_setup_and_its_code,
    turning_it_on_gives_eight_recovery_codes_once,
    it_cannot_be_set_up_or_turned_on_while_it_is_on,
    wrong_codes_for_turning_it_on_are_counted,
    signing_in_asks_for_a_code_only_after_the_password,
    a_login_without_its_code_is_no_failure_and_no_success,
    wrong_codes_lock_the_email,
    the_neighbouring_steps_count_and_each_step_once,
    the_code_that_turned_it_on_is_used_up,
    a_refused_login_uses_up_no_code,
    a_recovery_code_works_once_however_it_is_typed,
    of_many_with_one_authenticator_code_one_signs_in,
    of_many_with_one_recovery_code_one_signs_in,
    turning_it_off_needs_password_and_code,
    a_recovery_code_turns_it_off,
    it_cannot_be_turned_off_while_it_is_off,
    wrong_tries_to_turn_it_off_are_counted,
    of_many_who_turn_it_off_with_one_code_one_does,
    of_many_who_turn_it_on_with_one_code_one_does,
    both_changes_are_told_by_mail,
    nonsense_changes_nothing,
);

async fn it_is_off_at_first(app: &App) {
    let token = app.register("ann@example.com").await;
    assert_eq!(status(app, &token).await, json!({"enabled": false, "recovery_codes_remaining": 0}));
    setup(app, &token).await;
    assert_eq!(status(app, &token).await, json!({"enabled": false, "recovery_codes_remaining": 0}));
    sign_in(app, "ann@example.com").await;
}

async fn an_authenticator_app_can_read_the_setup(app: &App) {
    let token = app.register("ann+shop@example.com").await;
    let reply = app.call(&token, Method::POST, "/v1/me/mfa/setup", &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let made = reply.json();
    let secret = made["secret"].as_str().unwrap();
    let uri = made["otpauth_uri"].as_str().unwrap();
    assert_eq!(made, json!({"secret": secret, "otpauth_uri": uri}));
    assert_eq!(totp::base32(&from_base32(secret)), secret);
    assert!(from_base32(secret).len() >= 16, "RFC 4226 asks for 128 bits at least");

    let uri = url::Url::parse(uri).unwrap();
    assert_eq!((uri.scheme(), uri.host_str()), ("otpauth", Some("totp")));
    let label = percent_encoding::percent_decode_str(uri.path()).decode_utf8().unwrap();
    let value =
        |name: &str| uri.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let issuer = value("issuer").expect("apps list an account by its issuer");
    assert_eq!(label, format!("/{issuer}:ann+shop@example.com"));
    assert_eq!(value("secret").as_deref(), Some(secret));
    for (name, meant) in [("algorithm", "SHA1"), ("digits", "6"), ("period", "30")] {
        assert_eq!(value(name).as_deref().unwrap_or(meant), meant);
    }
    let code = totp::code(&from_base32(secret), totp::step_at(app.now()));
    assert_eq!(enable(app, &token, &code).await.status, 200);
}

async fn a_repeated_setup_replaces_the_secret(app: &App) {
    let token = app.register("ann@example.com").await;
    let (old, new) = (setup(app, &token).await, setup(app, &token).await);
    assert_ne!(old.secret, new.secret);
    enable(app, &token, &old.code(app)).await.refused(400, "invalid_code");
    assert_eq!(enable(app, &token, &new.code(app)).await.status, 200);
}

async fn turning_it_on_needs_a_setup_and_its_code(app: &App) {
    let token = app.register("ann@example.com").await;
    enable(app, &token, "123456").await.refused(409, "conflict");
    let phone = setup(app, &token).await;
    for wrong in [phone.wrong_code(app), String::new(), "abcdef".to_owned(), format!("{}0", phone.code(app))]
    {
        enable(app, &token, &wrong).await.refused(400, "invalid_code");
    }
    let message =
        app.call(&token, Method::POST, "/v1/me/mfa/enable", &json!({})).await.refused(400, "bad_request");
    assert!(message.contains("code"), "{message}");
    assert_eq!(status(app, &token).await["enabled"], false);
    assert_eq!(enable(app, &token, &phone.code(app)).await.status, 200);
}

async fn turning_it_on_gives_eight_recovery_codes_once(app: &App) {
    let (token, other) = (app.register("ann@example.com").await, sign_in(app, "ann@example.com").await);
    let phone = setup(app, &token).await;
    let reply = enable(app, &token, &phone.code(app)).await;
    let mut codes = recovery_codes(&reply);
    assert_eq!(reply.json(), json!({"recovery_codes": codes}));
    codes.sort();
    codes.dedup();
    assert_eq!(codes.len(), 8, "{codes:?}");
    assert_eq!(status(app, &token).await, json!({"enabled": true, "recovery_codes_remaining": 8}));
    whoami(app, &other).await.refused(401, "unauthorized");
}

async fn it_cannot_be_set_up_or_turned_on_while_it_is_on(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    app.call(&token, Method::POST, "/v1/me/mfa/setup", &Value::Null).await.refused(409, "conflict");
    enable(app, &token, &phone.code(app)).await.refused(409, "conflict");
    assert_eq!(status(app, &token).await, json!({"enabled": true, "recovery_codes_remaining": 8}));
    assert_eq!(
        login_with(app, &phone.code(app)).await.status,
        200,
        "the secret is the old one, the code unused"
    );
}

async fn wrong_codes_for_turning_it_on_are_counted(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = setup(app, &token).await;
    for _ in 0..5 {
        enable(app, &token, &phone.wrong_code(app)).await.refused(400, "invalid_code");
    }
    let reply = enable(app, &token, &phone.code(app)).await;
    reply.refused(429, "rate_limited");
    assert!((1..=900).contains(&retry_after(&reply)), "{:?}", reply.headers);
    assert_eq!(status(app, &token).await["enabled"], false);
    app.advance(QUARTER);
    assert_eq!(enable(app, &token, &phone.code(app)).await.status, 200);
}

async fn signing_in_asks_for_a_code_only_after_the_password(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    let stranger = login(app, "bob@example.com", WRONG).await;
    for reply in [login(app, "ann@example.com", WRONG).await, login_with(app, &phone.wrong_code(app)).await] {
        reply.refused(401, "unauthorized");
        assert_eq!(reply.text, stranger.text, "nothing tells that two-factor is on");
    }
    let reply = login_with(app, &phone.code(app)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(whoami(app, reply.json()["token"].as_str().unwrap()).await.status, 200);
    // Who has no two-factor may send a code all the same.
    app.register("bob@example.com").await;
    let body = json!({"email": "bob@example.com", "password": PASSWORD, "code": "123456"});
    assert_eq!(app.post(LOGIN, &body).await.status, 200);
}

async fn a_login_without_its_code_is_no_failure_and_no_success(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    for _ in 0..25 {
        login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    }
    for _ in 0..4 {
        login_with(app, &phone.wrong_code(app)).await.refused(401, "unauthorized");
        // Whoever knows the password alone must not be able to wipe out their wrong guesses of the code.
        login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    }
    login_with(app, &phone.wrong_code(app)).await.refused(401, "unauthorized");
    login_with(app, &phone.code(app)).await.refused(429, "rate_limited");
}

async fn wrong_codes_lock_the_email(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    for _ in 0..5 {
        login_with(app, &phone.wrong_code(app)).await.refused(401, "unauthorized");
    }
    let reply = login_with(app, &phone.code(app)).await;
    reply.refused(429, "rate_limited");
    assert_eq!(retry_after(&reply), 900);
    login_with(app, &phone.recovery_codes[0]).await.refused(429, "rate_limited");
    login(app, "ann@example.com", PASSWORD).await.refused(429, "rate_limited");
    app.advance(QUARTER);
    assert_eq!(login_with(app, &phone.recovery_codes[0]).await.status, 200, "the lock has not used it up");
}

async fn the_neighbouring_steps_count_and_each_step_once(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    app.advance(STEP * 10);
    for (step, accepted) in [
        (-2, false),
        (2, false),
        (-1, true),
        (-1, false),
        (0, true),
        (0, false),
        (1, true),
        (1, false),
        (0, false),
        (-1, false),
    ] {
        let reply = login_with(app, &phone.code_at(app, step)).await;
        assert_eq!(reply.status, if accepted { 200 } else { 401 }, "step {step}: {}", reply.text);
    }
    app.advance(STEP);
    login_with(app, &phone.code(app)).await.refused(401, "unauthorized");
    app.advance(STEP);
    assert_eq!(login_with(app, &phone.code(app)).await.status, 200);
}

async fn the_code_that_turned_it_on_is_used_up(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = setup(app, &token).await;
    let code = phone.code(app);
    assert_eq!(enable(app, &token, &code).await.status, 200);
    login_with(app, &code).await.refused(401, "unauthorized");
    app.advance(STEP);
    login_with(app, &code).await.refused(401, "unauthorized");
    assert_eq!(login_with(app, &phone.code(app)).await.status, 200);
}

async fn a_refused_login_uses_up_no_code(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    for code in [phone.code(app), phone.recovery_codes[3].clone()] {
        let body = json!({"email": "ann@example.com", "password": WRONG, "code": code});
        app.post(LOGIN, &body).await.refused(401, "unauthorized");
        assert_eq!(login_with(app, &code).await.status, 200);
        login_with(app, &code).await.refused(401, "unauthorized");
    }
}

async fn a_recovery_code_works_once_however_it_is_typed(app: &App) {
    let token = app.register("ann@example.com").await;
    let codes = Phone::switched_on(app, &token).await.recovery_codes;
    let typed =
        [codes[0].clone(), codes[1].to_uppercase(), codes[2].replace('-', ""), codes[3].to_lowercase()];
    for (used, code) in typed.iter().enumerate() {
        let reply = login_with(app, code).await;
        assert_eq!(reply.status, 200, "{code}: {}", reply.text);
        assert_eq!(status(app, &token).await["recovery_codes_remaining"], 7 - used);
    }
    for code in &codes[..4] {
        login_with(app, code).await.refused(401, "unauthorized");
    }
    assert_eq!(status(app, &token).await, json!({"enabled": true, "recovery_codes_remaining": 4}));
    // A code is one person's.
    let bob = app.register("bob@example.com").await;
    Phone::switched_on(app, &bob).await;
    let stolen = json!({"email": "bob@example.com", "password": PASSWORD, "code": codes[5]});
    app.post(LOGIN, &stolen).await.refused(401, "unauthorized");
}

async fn of_many_with_one_authenticator_code_one_signs_in(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    one_of_a_hundred_signs_in(app, &phone.code(app)).await;
}

async fn of_many_with_one_recovery_code_one_signs_in(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    one_of_a_hundred_signs_in(app, &phone.recovery_codes[0]).await;
    assert_eq!(status(app, &token).await["recovery_codes_remaining"], 7);
}

async fn one_of_a_hundred_signs_in(app: &App, code: &str) {
    let body = json!({"email": "ann@example.com", "password": PASSWORD, "code": code});
    let counts = statuses(&race(100, |_| app.request(Method::POST, LOGIN).json(&body)).await);
    assert_eq!(counts[&200], 1, "{counts:?}");
    assert!(counts.keys().all(|status| [200, 401, 429].contains(status)), "{counts:?}");
}

async fn turning_it_off_needs_password_and_code(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    let code = phone.code(app);
    disable(app, &token, &json!({"password": WRONG, "code": code})).await.refused(400, "invalid_password");
    let wrong = json!({"password": PASSWORD, "code": phone.wrong_code(app)});
    disable(app, &token, &wrong).await.refused(400, "invalid_code");
    let reply = disable(app, &token, &json!({"code": code})).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.text.contains("password"), "{}", reply.text);
    let message = disable(app, &token, &json!({"password": PASSWORD})).await.refused(400, "bad_request");
    assert!(message.contains("code"), "{message}");
    assert_eq!(status(app, &token).await, json!({"enabled": true, "recovery_codes_remaining": 8}));

    let reply = disable(app, &token, &json!({"password": PASSWORD, "code": code})).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""), "no refusal has used up the code");
    assert_eq!(status(app, &token).await, json!({"enabled": false, "recovery_codes_remaining": 0}));
    sign_in(app, "ann@example.com").await;
    let again = setup(app, &token).await;
    assert_ne!(again.secret, phone.secret);
}

async fn a_recovery_code_turns_it_off(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    let code = &phone.recovery_codes[0];
    disable(app, &token, &json!({"password": WRONG, "code": code})).await.refused(400, "invalid_password");
    assert_eq!(login_with(app, &phone.recovery_codes[1]).await.status, 200);
    let used = json!({"password": PASSWORD, "code": phone.recovery_codes[1]});
    disable(app, &token, &used).await.refused(400, "invalid_code");
    assert_eq!(disable(app, &token, &json!({"password": PASSWORD, "code": code})).await.status, 204);

    let phone_too = Phone::switched_on(app, &token).await;
    assert_eq!(status(app, &token).await["recovery_codes_remaining"], 8);
    login_with(app, &phone.recovery_codes[2]).await.refused(401, "unauthorized");
    assert_eq!(login_with(app, &phone_too.recovery_codes[2]).await.status, 200);
}

async fn it_cannot_be_turned_off_while_it_is_off(app: &App) {
    let token = app.register("ann@example.com").await;
    let body = json!({"password": PASSWORD, "code": "123456"});
    disable(app, &token, &body).await.refused(409, "conflict");
    let phone = setup(app, &token).await;
    let body = json!({"password": PASSWORD, "code": phone.code(app)});
    disable(app, &token, &body).await.refused(409, "conflict");
    assert_eq!(enable(app, &token, &phone.code(app)).await.status, 200, "no refusal has used up the code");
}

async fn wrong_tries_to_turn_it_off_are_counted(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    // Whoever holds a session, but neither password nor phone, guesses at either.
    for _ in 0..2 {
        let body = json!({"password": WRONG, "code": phone.code(app)});
        disable(app, &token, &body).await.refused(400, "invalid_password");
    }
    for _ in 0..3 {
        let body = json!({"password": PASSWORD, "code": phone.wrong_code(app)});
        disable(app, &token, &body).await.refused(400, "invalid_code");
    }
    let body = json!({"password": PASSWORD, "code": phone.recovery_codes[0]});
    let reply = disable(app, &token, &body).await;
    reply.refused(429, "rate_limited");
    assert!((1..=900).contains(&retry_after(&reply)), "{:?}", reply.headers);
    app.advance(MINUTE * 14);
    disable(app, &token, &body).await.refused(429, "rate_limited");
    assert_eq!(status(app, &token).await, json!({"enabled": true, "recovery_codes_remaining": 8}));
    app.advance(MINUTE);
    // By now the sign-in is no recent proof.
    disable(app, &token, &body).await.refused(403, "reauthentication_required");
    let proof = json!({"password": PASSWORD});
    assert_eq!(app.call(&token, Method::POST, "/auth/console/reauthenticate", &proof).await.status, 204);
    assert_eq!(disable(app, &token, &body).await.status, 204);
}

async fn of_many_who_turn_it_off_with_one_code_one_does(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    let body = json!({"password": PASSWORD, "code": phone.code(app)});
    let request = |_| app.request(Method::POST, "/v1/me/mfa/disable").bearer_auth(&token).json(&body);
    let counts = statuses(&race(100, request).await);
    assert_eq!(counts[&204], 1, "{counts:?}");
    assert!(counts.keys().all(|status| [204, 400, 409, 429].contains(status)), "{counts:?}");
    assert_eq!(app.subjects_to("ann@example.com").await.len(), 2, "one mail for on, one for off");
}

async fn of_many_who_turn_it_on_with_one_code_one_does(app: &App) {
    let token = app.register("ann@example.com").await;
    let body = json!({"code": setup(app, &token).await.code(app)});
    let request = |_| app.request(Method::POST, "/v1/me/mfa/enable").bearer_auth(&token).json(&body);
    let replies = race(100, request).await;
    let counts = statuses(&replies);
    assert_eq!(counts[&200], 1, "{counts:?}");
    assert!(counts.keys().all(|status| [200, 400, 409, 429].contains(status)), "{counts:?}");
    let winner = replies.iter().find(|reply| reply.status == 200).unwrap();
    assert_eq!(status(app, &token).await["recovery_codes_remaining"], 8);
    assert_eq!(
        login_with(app, &recovery_codes(winner)[7]).await.status,
        200,
        "the codes shown are those kept"
    );
}

async fn both_changes_are_told_by_mail(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = setup(app, &token).await;
    enable(app, &token, &phone.wrong_code(app)).await.refused(400, "invalid_code");
    assert!(app.mails().await.is_empty());
    assert_eq!(enable(app, &token, &phone.code(app)).await.status, 200);
    let mails = app.mails().await;
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].to, "ann@example.com");
    assert!(mails[0].subject.to_lowercase().contains("two-factor"), "{}", mails[0].subject);

    app.advance(STEP);
    let body = json!({"password": PASSWORD, "code": phone.code(app)});
    assert_eq!(disable(app, &token, &body).await.status, 204);
    let mails = app.mails().await;
    assert_eq!(mails.len(), 2);
    assert!(mails[1].subject.to_lowercase().contains("two-factor"), "{}", mails[1].subject);
    assert_ne!(mails[0].subject, mails[1].subject);
    let secret = totp::base32(&phone.secret);
    assert!(mails.iter().all(|mail| !mail.text.contains(&secret)), "no mail carries a secret");
}

async fn nonsense_changes_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    setup(app, &token).await;
    let good = json!({"code": "12345"});
    refuses_nonsense(app, Some(&token), Method::POST, "/v1/me/mfa/enable", &good).await;
    assert_eq!(status(app, &token).await["enabled"], false);
    app.reauthenticate(&token).await;
    Phone::switched_on(app, &token).await;
    let good = json!({"password": PASSWORD, "code": "12345"});
    refuses_nonsense(app, Some(&token), Method::POST, "/v1/me/mfa/disable", &good).await;
    assert_eq!(status(app, &token).await, json!({"enabled": true, "recovery_codes_remaining": 8}));
}

/// A person's authenticator app, and the recovery codes they wrote down.
pub(crate) struct Phone {
    secret: Vec<u8>,
    pub(crate) recovery_codes: Vec<String>,
}

impl Phone {
    /// Turns two-factor on, and lets the step pass whose code that took.
    pub(crate) async fn switched_on(app: &App, token: &str) -> Self {
        let mut phone = setup(app, token).await;
        phone.recovery_codes = recovery_codes(&enable(app, token, &phone.code(app)).await);
        app.advance(STEP);
        phone
    }

    /// What the app shows now.
    pub(crate) fn code(&self, app: &App) -> String {
        self.code_at(app, 0)
    }

    /// What the app shows this many steps from now.
    fn code_at(&self, app: &App, steps: i64) -> String {
        totp::code(&self.secret, totp::step_at(app.now()) + steps)
    }

    /// Six digits that count at no step near now.
    fn wrong_code(&self, app: &App) -> String {
        let near = [-1, 0, 1].map(|step| self.code_at(app, step));
        let guesses = ["000000", "111111", "222222", "333333"];
        guesses.into_iter().find(|guess| !near.contains(&(*guess).to_owned())).unwrap().to_owned()
    }
}

pub(crate) async fn setup(app: &App, token: &str) -> Phone {
    let reply = app.call(token, Method::POST, "/v1/me/mfa/setup", &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    Phone { secret: from_base32(reply.json()["secret"].as_str().unwrap()), recovery_codes: Vec::new() }
}

async fn enable(app: &App, token: &str, code: &str) -> Reply {
    app.call(token, Method::POST, "/v1/me/mfa/enable", &json!({"code": code})).await
}

async fn disable(app: &App, token: &str, body: &Value) -> Reply {
    app.call(token, Method::POST, "/v1/me/mfa/disable", body).await
}

async fn status(app: &App, token: &str) -> Value {
    let reply = app.call(token, Method::GET, "/v1/me/mfa", &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// Tries to sign Ann in with her password and a code.
pub(crate) async fn login_with(app: &App, code: &str) -> Reply {
    app.post(LOGIN, &json!({"email": "ann@example.com", "password": PASSWORD, "code": code})).await
}

#[track_caller]
fn recovery_codes(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    serde_json::from_value(reply.json()["recovery_codes"].clone()).unwrap()
}

/// What base32 without padding stands for (RFC 4648).
fn from_base32(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter).unwrap();
        bits = (bits << 5 | u32::try_from(value).unwrap()) & 0xfff;
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap());
        }
    }
    bytes
}
