//! Passkeys: added, listed, renamed, removed, and signed in with; as the second factor and as the only one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use store::{Conn, Store};
use testkit::{Authenticator, Backend, Stage, authenticator_flags};

use crate::account_deletion;
use crate::app::{App, PASSWORD, Reply};
use crate::login::{QUARTER, login, sign_in, whoami};
use crate::registration::rows;
use crate::two_factor::Phone;

testkit::on_both!(
    a_passkey_is_added_listed_renamed_and_removed,
    a_passkey_signs_in_without_password_or_code,
    a_passkey_is_the_second_factor_beside_a_password,
    a_password_can_need_a_passkey_without_an_authenticator_app,
    a_passkey_renews_the_proof_of_its_owner,
    adding_and_removing_needs_recent_proof_and_ends_other_sessions,
    a_challenge_works_once_and_for_a_while,
    a_failed_answer_uses_its_challenge_up,
    a_wrong_authenticator_gets_nowhere,
    a_failed_sign_in_is_in_the_audit_log,
    wrong_passkeys_are_limited,
    nobody_fills_the_database_with_challenges,
    the_last_way_to_sign_in_stays,
    who_has_only_passkeys_recovers_by_mail,
    a_deleted_account_leaves_no_passkey,
    the_first_proof_of_an_address_ends_passkeys,
    whoever_is_removed_loses_their_passkeys,
    nonsense_adds_no_passkey,
);

const SITE: &str = "https://auspex.example.com";
const PASSKEYS: &str = "/v1/me/passkeys";
const START: &str = "/auth/console/passkey/start";
const FINISH: &str = "/auth/console/passkey/finish";
const REAUTHENTICATE: &str = "/auth/console/reauthenticate";

/// The service at a domain.
pub(crate) struct AtDomain(App);

impl Stage for AtDomain {
    async fn set_up(backend: Backend) -> Self {
        Self(App::start(backend, &[("AUSPEX_PUBLIC_URL", SITE)]).await)
    }

    async fn tear_down(self) {
        self.0.tear_down().await;
    }
}

/// Adds the passkey of an authenticator.
async fn add(app: &App, token: &str, authenticator: &mut Authenticator, name: &str) -> Reply {
    let options = app.call(token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await;
    assert_eq!(options.status, 200, "{}", options.text);
    let mut answer = authenticator.create(&options.json());
    answer["name"] = json!(name);
    app.call(token, Method::POST, &format!("{PASSKEYS}/finish"), &answer).await
}

/// What an authenticator makes of a new challenge.
async fn signed(app: &App, authenticator: &Authenticator) -> Value {
    let options = app.post(START, &json!({})).await;
    assert_eq!(options.status, 200, "{}", options.text);
    authenticator.sign(&options.json())
}

async fn use_passkey(app: &App, authenticator: &Authenticator) -> Reply {
    app.post(FINISH, &signed(app, authenticator).await).await
}

fn token_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["token"].as_str().unwrap().to_owned()
}

/// Takes everybody's password away, as for members who came by a provider and have unlinked it since.
async fn without_password(app: &App) {
    let store = Store::open(app.database_url()).await.unwrap();
    let statement = "UPDATE users SET password_hash = NULL";
    let done = store.write("without_password", async |conn: &mut Conn| {
        match conn {
            Conn::Sqlite(held) => sqlx::query(statement).execute(held.native()).await.map(drop),
            Conn::Postgres(held) => sqlx::query(statement).execute(held.native()).await.map(drop),
        }?;
        Ok::<_, store::Error>(())
    });
    done.await.unwrap();
    store.close().await;
}

async fn listed(app: &App, token: &str) -> Vec<Value> {
    let reply = app.call(token, Method::GET, PASSKEYS, &Value::Null).await;
    reply.json()["passkeys"].as_array().unwrap().clone()
}

async fn a_passkey_is_added_listed_renamed_and_removed(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    assert!(listed(app, &token).await.is_empty());
    let options = app.call(&token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await.json();
    assert_eq!(options["rp"], json!({"id": "auspex.example.com", "name": "Auspex"}));
    assert_eq!(options["user"]["name"], "ann@example.com");
    let me = whoami(app, &token).await.json()["user_id"].as_str().unwrap().replace('-', "");
    let handle = URL_SAFE_NO_PAD.decode(options["user"]["id"].as_str().unwrap()).unwrap();
    assert_ne!(hex::encode(handle), me, "the handle tells nothing");
    assert_eq!(options["authenticatorSelection"]["userVerification"], "required");

    let mut phone = Authenticator::p256(SITE, 1);
    let added = add(app, &token, &mut phone, " Phone ").await;
    assert_eq!(added.status, 201, "{}", added.text);
    app.advance(Duration::from_secs(1));
    let mut key = Authenticator::p256(SITE, 2);
    assert_eq!(add(app, &token, &mut key, "Key").await.status, 201);
    assert_eq!(key.user_handle, phone.user_handle, "one member, one handle");
    let options = app.call(&token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await.json();
    assert_eq!(options["excludeCredentials"].as_array().unwrap().len(), 2);
    add(app, &token, &mut phone, "Again").await.refused(409, "conflict");

    let all = listed(app, &token).await;
    assert_eq!((all[0]["name"].as_str(), all[1]["name"].as_str()), (Some("Phone"), Some("Key")));
    assert_eq!(all[0], added.json());
    let path = format!("{PASSKEYS}/{}", all[0]["id"].as_str().unwrap());
    let renamed = app.call(&token, Method::PATCH, &path, &json!({"name": "Old phone"})).await;
    assert_eq!((renamed.status.as_u16(), renamed.json()["name"].as_str()), (200, Some("Old phone")));
    let other = app.register("bob@example.com").await;
    app.call(&other, Method::PATCH, &path, &json!({"name": "Mine"})).await.refused(404, "not_found");
    app.call(&other, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");

    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(listed(app, &token).await.len(), 1);
    use_passkey(app, &phone).await.refused(400, "invalid_passkey");
    assert_eq!(use_passkey(app, &key).await.status, 200);
    let subjects = app.subjects_to("ann@example.com").await;
    assert_eq!(subjects.iter().filter(|subject| *subject == "A passkey was added").count(), 2);
    assert_eq!(subjects.iter().filter(|subject| *subject == "A passkey was removed").count(), 1);
}

async fn a_passkey_signs_in_without_password_or_code(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    Phone::switched_on(app, &token).await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    let me = whoami(app, &token).await.json();
    let by_passkey = token_of(&use_passkey(app, &phone).await);
    assert_eq!(whoami(app, &by_passkey).await.json(), me);
    assert_eq!(whoami(app, &token).await.status, 200, "one sign-in does not end another");
    assert!(listed(app, &token).await[0]["last_used_at"].is_string());
    let body = signed(app, &phone).await;
    let request = app.request(Method::POST, FINISH).header("x-auspex-session", "cookie").json(&body);
    let reply = app.send(request).await;
    assert!(reply.status == 200 && reply.json()["token"].is_null(), "{}", reply.text);
    assert!(reply.header("set-cookie").contains("HttpOnly"));
    // An authenticator that counts.
    phone.count = 4;
    assert_eq!(use_passkey(app, &phone).await.status, 200);
    use_passkey(app, &phone).await.refused(400, "invalid_passkey");
    phone.count = 5;
    assert_eq!(use_passkey(app, &phone).await.status, 200);
}

async fn a_passkey_is_the_second_factor_beside_a_password(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    Phone::switched_on(app, &token).await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    login(app, "ann@example.com", PASSWORD).await.refused(401, "mfa_required");
    let log_in = async |password: &str, passkey: Value| {
        let body = json!({"email": "ann@example.com", "password": password, "passkey": passkey});
        app.post("/auth/console/login", &body).await
    };
    assert_eq!(log_in(PASSWORD, signed(app, &phone).await).await.status, 200);
    log_in("not the password", signed(app, &phone).await).await.refused(401, "unauthorized");
    let other = app.register("bob@example.com").await;
    let mut bobs = Authenticator::p256(SITE, 2);
    assert_eq!(add(app, &other, &mut bobs, "Phone").await.status, 201);
    log_in(PASSWORD, signed(app, &bobs).await).await.refused(401, "unauthorized");
}

async fn a_password_can_need_a_passkey_without_an_authenticator_app(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let change = async |token: &str, what: &str, body: Value| {
        app.call(token, Method::POST, &format!("/v1/me/mfa/{what}"), &body).await
    };
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    assert_eq!(login(app, "ann@example.com", PASSWORD).await.status, 200, "a passkey alone asks for nothing");
    let other = sign_in(app, "ann@example.com").await;
    let bob = app.register("bob@example.com").await;
    let mut bobs = Authenticator::p256(SITE, 2);
    assert_eq!(add(app, &bob, &mut bobs, "Phone").await.status, 201);
    change(&token, "enable", json!({"passkey": signed(app, &bobs).await}))
        .await
        .refused(400, "invalid_passkey");
    change(&token, "enable", json!({})).await.refused(400, "bad_request");
    let both = json!({"code": "123456", "passkey": signed(app, &phone).await});
    change(&token, "enable", both).await.refused(400, "bad_request");

    let enabled = change(&token, "enable", json!({"passkey": signed(app, &phone).await})).await;
    assert_eq!(enabled.status, 200, "{}", enabled.text);
    let codes = enabled.json()["recovery_codes"].as_array().unwrap().clone();
    assert_eq!(codes.len(), 8);
    whoami(app, &other).await.refused(401, "unauthorized");
    let status = app.call(&token, Method::GET, "/v1/me/mfa", &Value::Null).await.json();
    assert_eq!(status, json!({"enabled": true, "recovery_codes_remaining": 8, "passkey": true}));
    let lines = app.call(&token, Method::GET, "/v1/audit_log?action=mfa.enabled", &Value::Null).await.json();
    assert_eq!(lines["entries"][0]["after"], json!({"factor": "passkey"}));
    change(&token, "enable", json!({"passkey": signed(app, &phone).await})).await.refused(409, "conflict");
    change(&token, "setup", Value::Null).await.refused(409, "conflict");

    let log_in = async |more: Value| {
        let mut body = json!({"email": "ann@example.com", "password": PASSWORD});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        app.post("/auth/console/login", &body).await
    };
    log_in(json!({})).await.refused(401, "mfa_required");
    log_in(json!({"code": "123456"})).await.refused(401, "unauthorized");
    log_in(json!({"passkey": signed(app, &bobs).await})).await.refused(401, "unauthorized");
    assert_eq!(log_in(json!({"passkey": signed(app, &phone).await})).await.status, 200);
    assert_eq!(log_in(json!({"code": codes[0]})).await.status, 200, "recovery stays");
    log_in(json!({"code": codes[0]})).await.refused(401, "unauthorized");
    assert_eq!(use_passkey(app, &phone).await.status, 200);

    let path = format!("{PASSKEYS}/{}", listed(app, &token).await[0]["id"].as_str().unwrap());
    let message = app.call(&token, Method::DELETE, &path, &Value::Null).await.refused(409, "conflict");
    assert!(message.contains("two-factor"), "{message}");
    let off = json!({"password": PASSWORD, "passkey": signed(app, &phone).await});
    assert_eq!(change(&token, "disable", off).await.status, 204);
    assert_eq!(log_in(json!({})).await.status, 200);
    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
}

async fn a_passkey_renews_the_proof_of_its_owner(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    let other = app.register("bob@example.com").await;
    let mut bobs = Authenticator::p256(SITE, 2);
    assert_eq!(add(app, &other, &mut bobs, "Phone").await.status, 201);
    app.advance(QUARTER + Duration::from_secs(1));
    let setup = async || app.call(&token, Method::POST, "/v1/me/mfa/setup", &Value::Null).await;
    setup().await.refused(403, "reauthentication_required");
    let prove = async |passkey: Value| {
        app.call(&token, Method::POST, REAUTHENTICATE, &json!({"passkey": passkey})).await
    };
    prove(signed(app, &bobs).await).await.refused(400, "invalid_passkey");
    setup().await.refused(403, "reauthentication_required");
    assert_eq!(prove(signed(app, &phone).await).await.status, 204);
    assert_eq!(setup().await.status, 200);
    let both = json!({"password": PASSWORD, "passkey": signed(app, &phone).await});
    app.call(&token, Method::POST, REAUTHENTICATE, &both).await.refused(400, "bad_request");
}

async fn adding_and_removing_needs_recent_proof_and_ends_other_sessions(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let second = sign_in(app, "ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    whoami(app, &second).await.refused(401, "unauthorized");
    let path = format!("{PASSKEYS}/{}", listed(app, &token).await[0]["id"].as_str().unwrap());
    let second = sign_in(app, "ann@example.com").await;
    app.advance(QUARTER + Duration::from_secs(1));
    for (method, path) in [(Method::POST, format!("{PASSKEYS}/start")), (Method::DELETE, path.clone())] {
        let refused = app.call(&token, method, &path, &Value::Null).await;
        refused.refused(403, "reauthentication_required");
    }
    assert_eq!(whoami(app, &second).await.status, 200);
    app.reauthenticate(&token).await;
    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    whoami(app, &second).await.refused(401, "unauthorized");
}

async fn a_challenge_works_once_and_for_a_while(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    let answer = signed(app, &phone).await;
    assert_eq!(app.post(FINISH, &answer).await.status, 200);
    app.post(FINISH, &answer).await.refused(400, "invalid_passkey");
    let late = signed(app, &phone).await;
    app.advance(Duration::from_mins(5));
    app.post(FINISH, &late).await.refused(400, "invalid_passkey");
    // A challenge for a registration is none for a sign-in, and nobody else's.
    app.reauthenticate(&token).await;
    let options = app.call(&token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await.json();
    app.post(FINISH, &phone.sign(&options)).await.refused(400, "invalid_passkey");
    let options = app.call(&token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await.json();
    let other = app.register("bob@example.com").await;
    let stolen = Authenticator::p256(SITE, 3).create(&options);
    let refused = app.call(&other, Method::POST, &format!("{PASSKEYS}/finish"), &stolen).await;
    refused.refused(400, "invalid_passkey");
    app.advance(Duration::from_mins(20));
    app.sweeper_has_swept().await;
    assert!(rows(app, "SELECT 'left' FROM passkey_challenges").await.is_empty());
}

async fn a_failed_answer_uses_its_challenge_up(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    let right = signed(app, &phone).await;
    let mut wrong = right.clone();
    let signature = right["response"]["signature"].as_str().unwrap();
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    wrong["response"]["signature"] = json!(URL_SAFE_NO_PAD.encode(bytes));
    app.post(FINISH, &wrong).await.refused(400, "invalid_passkey");
    app.post(FINISH, &right).await.refused(400, "invalid_passkey");
    assert_eq!(use_passkey(app, &phone).await.status, 200);
    // A second start of a registration ends the first.
    let start =
        async || app.call(&token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await.json();
    let (first, second) = (start().await, start().await);
    let mut key = Authenticator::p256(SITE, 2);
    for (options, status) in [(first, 400), (second, 201)] {
        let answer = key.create(&options);
        let reply = app.call(&token, Method::POST, &format!("{PASSKEYS}/finish"), &answer).await;
        assert_eq!(reply.status, status, "{}", reply.text);
    }
}

async fn a_wrong_authenticator_gets_nowhere(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    use_passkey(app, &Authenticator::p256(SITE, 9)).await.refused(400, "invalid_passkey");
    // Another key under the same name, and the right key in the wrong place.
    let mut copy = Authenticator::p256(SITE, 1);
    copy.user_handle.clone_from(&phone.user_handle);
    use_passkey(app, &copy).await.refused(400, "invalid_passkey");
    let changes: [fn(&mut Authenticator); 6] = [
        |one| "https://auspex.example.com.evil.example".clone_into(&mut one.origin),
        |one| "evil.example".clone_into(&mut one.domain),
        |one| one.flags = authenticator_flags::PRESENT,
        |one| one.flags = authenticator_flags::VERIFIED,
        |one| one.user_handle = Some("AAAA".to_owned()),
        |one| one.user_handle = None,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let kept = (phone.origin.clone(), phone.domain.clone(), phone.flags, phone.user_handle.clone());
        change(&mut phone);
        let message = use_passkey(app, &phone).await.refused(400, "invalid_passkey");
        assert_eq!(message, "the passkey was not accepted", "change {number}: it does not say why");
        (phone.origin, phone.domain, phone.flags, phone.user_handle) = kept;
    }
    // Somebody else's handle with one's own passkey.
    let other = app.register("bob@example.com").await;
    let mut bobs = Authenticator::p256(SITE, 3);
    assert_eq!(add(app, &other, &mut bobs, "Phone").await.status, 201);
    bobs.user_handle.clone_from(&phone.user_handle);
    use_passkey(app, &bobs).await.refused(400, "invalid_passkey");
    add(app, &token, &mut Authenticator::ed25519(SITE, 5), "Wrong").await.refused(400, "invalid_passkey");
    for (origin, flags) in [("https://evil.example", 5), (SITE, 1)] {
        let mut wrong = Authenticator::p256(SITE, 5);
        (wrong.origin, wrong.flags) = (origin.to_owned(), flags);
        add(app, &token, &mut wrong, "Wrong").await.refused(400, "invalid_passkey");
    }
    assert_eq!(listed(app, &token).await.len(), 1);
    assert_eq!(use_passkey(app, &phone).await.status, 200);
}

async fn a_failed_sign_in_is_in_the_audit_log(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    let mut copy = Authenticator::p256(SITE, 1);
    copy.user_handle.clone_from(&phone.user_handle);
    use_passkey(app, &copy).await.refused(400, "invalid_passkey");
    assert_eq!(use_passkey(app, &phone).await.status, 200);
    let me = whoami(app, &token).await.json();
    for action in ["session.failed", "passkey.added"] {
        let path = format!("/v1/audit_log?action={action}");
        let lines = app.call(&token, Method::GET, &path, &Value::Null).await.json();
        let lines = lines["entries"].as_array().unwrap();
        assert_eq!(lines.len(), 1, "{action}: {lines:?}");
        assert_eq!(lines[0]["actor"]["id"], me["user_id"]);
    }
}

async fn wrong_passkeys_are_limited(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    let mut copy = Authenticator::p256(SITE, 1);
    copy.user_handle.clone_from(&phone.user_handle);
    let prove =
        async |body: &Value| app.call(&token, Method::POST, REAUTHENTICATE, &json!({"passkey": body})).await;
    for _ in 0..5 {
        prove(&signed(app, &copy).await).await.refused(400, "invalid_passkey");
    }
    prove(&signed(app, &phone).await).await.refused(429, "rate_limited");
    for _ in 0..20 {
        use_passkey(app, &copy).await.refused(400, "invalid_passkey");
    }
    use_passkey(app, &phone).await.refused(429, "rate_limited");
    app.advance(QUARTER + Duration::from_secs(1));
    assert_eq!(use_passkey(app, &phone).await.status, 200);
    assert_eq!(prove(&signed(app, &phone).await).await.status, 204);
}

async fn nobody_fills_the_database_with_challenges(stage: &AtDomain) {
    let app = &stage.0;
    for _ in 0..100 {
        assert_eq!(app.post(START, &json!({})).await.status, 200);
    }
    app.post(START, &json!({})).await.refused(429, "rate_limited");
    assert_eq!(rows(app, "SELECT 'waits' FROM passkey_challenges").await.len(), 100);
    app.advance(Duration::from_mins(5) + Duration::from_secs(1));
    assert_eq!(app.post(START, &json!({})).await.status, 200);
}

async fn the_last_way_to_sign_in_stays(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    without_password(app).await;
    let path = format!("{PASSKEYS}/{}", listed(app, &token).await[0]["id"].as_str().unwrap());
    app.call(&token, Method::DELETE, &path, &Value::Null).await.refused(409, "conflict");
    let mut key = Authenticator::p256(SITE, 2);
    assert_eq!(add(app, &token, &mut key, "Key").await.status, 201);
    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(use_passkey(app, &key).await.status, 200, "a passkey is the only way in");
}

async fn who_has_only_passkeys_recovers_by_mail(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    app.verify(&token, "ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    without_password(app).await;
    login(app, "ann@example.com", PASSWORD).await.refused(401, "unauthorized");
    let link = crate::first_proof::reset_link(app, "ann@example.com").await;
    let body = json!({"token": link, "password": "another horse battery staple"});
    assert_eq!(app.post("/auth/console/password/reset", &body).await.status, 204);
    assert_eq!(login(app, "ann@example.com", "another horse battery staple").await.status, 200);
    assert_eq!(use_passkey(app, &phone).await.status, 200, "the address was proved before");
}

async fn a_deleted_account_leaves_no_passkey(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &token, &mut phone, "Phone").await.status, 201);
    assert_eq!(account_deletion::ask(app, &token, "Acme").await.status, 202);
    app.advance(Duration::from_hours(7 * 24));
    for _ in 0..3 {
        account_deletion::sweep(app).await;
    }
    assert!(rows(app, "SELECT 'left' FROM passkeys").await.is_empty());
    use_passkey(app, &phone).await.refused(400, "invalid_passkey");
}

async fn the_first_proof_of_an_address_ends_passkeys(stage: &AtDomain) {
    let app = &stage.0;
    let squatter = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &squatter, &mut phone, "Phone").await.status, 201);
    let body = json!({"token": app.verification("ann@example.com").await});
    assert_eq!(app.post("/auth/console/verify", &body).await.status, 204);
    use_passkey(app, &phone).await.refused(400, "invalid_passkey");
    assert!(rows(app, "SELECT 'left' FROM passkeys").await.is_empty());
}

async fn whoever_is_removed_loses_their_passkeys(stage: &AtDomain) {
    let app = &stage.0;
    let owner = app.register("ann@example.com").await;
    let bob = crate::members::join(app, &owner, "bob@example.com", "viewer").await;
    let mut phone = Authenticator::p256(SITE, 1);
    assert_eq!(add(app, &bob, &mut phone, "Phone").await.status, 201);
    let id = whoami(app, &bob).await.json()["user_id"].as_str().unwrap().to_owned();
    let removed = app.call(&owner, Method::DELETE, &format!("/v1/members/{id}"), &Value::Null).await;
    assert_eq!(removed.status, 200, "{}", removed.text);
    use_passkey(app, &phone).await.refused(400, "invalid_passkey");
}

async fn nonsense_adds_no_passkey(stage: &AtDomain) {
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let mut phone = Authenticator::p256(SITE, 1);
    for name in ["", " ", "a\nb", &"n".repeat(65)] {
        add(app, &token, &mut phone, name).await.refused(400, "bad_request");
    }
    let finish = format!("{PASSKEYS}/finish");
    for body in [
        json!({}),
        json!({"response": {}}),
        json!({"response": {"clientDataJSON": 1, "attestationObject": ""}}),
    ] {
        app.call(&token, Method::POST, &finish, &body).await.refused(400, "bad_request");
    }
    for (data, object) in [("", ""), ("e30", "oA"), ("?", "oA"), ("W10", "gA")] {
        let body = json!({"response": {"clientDataJSON": data, "attestationObject": object}});
        app.call(&token, Method::POST, &finish, &body).await.refused(400, "invalid_passkey");
        let body = json!({"id": "AA", "response": {"clientDataJSON": data, "authenticatorData": object, "signature": "AA"}});
        app.post(FINISH, &body).await.refused(400, "invalid_passkey");
    }
    assert!(listed(app, &token).await.is_empty());
    let bare = app.second_node(&[]).await;
    let refused = bare.call(&token, Method::POST, &format!("{PASSKEYS}/start"), &Value::Null).await;
    assert!(refused.refused(409, "conflict").contains("AUSPEX_PUBLIC_URL"));
    bare.stop().await;
}
