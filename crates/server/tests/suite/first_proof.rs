//! Whoever first proves an address does not inherit what somebody else has set up under it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::{admin, tenant_of};
use crate::app::{App, PASSWORD};
use crate::login::{WRONG, login, race, sign_in, statuses, whoami};
use crate::members::{invitation_to, invite, join};
use crate::provider_peers::Providers;
use crate::registration::{refuses_nonsense, rows};
use crate::signer::Signer;
use crate::two_factor::Phone;

const VERIFY: &str = "/auth/console/verify";
const RESET: &str = "/auth/console/password/reset";
const NEW: &str = "quite another horse and staple";
const ANN: &str = "ann@example.com";
const PROVED: &str = "Your email address was confirmed";
const ADDRESS_PROVED: &str = "address proved";

testkit::on_both!(
    a_reset_link_ends_all_that_a_squatter_set_up,
    a_provider_ends_all_that_a_squatter_set_up,
    the_link_mailed_at_registration_ends_all_that_a_squatter_set_up,
    what_was_set_up_stays_on_request,
    a_link_tells_what_it_would_end,
    what_was_set_up_stays_for_who_holds_a_session,
    a_session_of_somebody_else_keeps_nothing,
    only_the_first_proof_ends_anything,
    a_verification_link_works_once_within_a_week,
    of_many_who_follow_one_link_one_proves_the_address,
    linking_one_s_own_address_keeps_everything,
    users_made_by_an_operator_are_proved,
    what_others_made_stays,
    a_key_that_a_squatter_rotated_ends,
    open_invitations_by_a_squatter_end,
    rows_from_before_makers_were_recorded_belong_to_the_first_user,
    what_was_disabled_can_be_enabled_again,
    nonsense_proves_no_address,
);

/// What somebody has set up in an account.
struct SetUp {
    email: String,
    session: String,
    key: Signer,
    /// Made with the key.
    key_of_key: Signer,
    endpoints: [String; 2],
    rules: [String; 2],
}

impl SetUp {
    /// Opens an account with a password, keys, an endpoint and a rule in the console and one of each with a key.
    async fn by(app: &App, email: &str) -> Self {
        let session = app.register(email).await;
        Self::with(app, email, session).await
    }

    async fn with(app: &App, email: &str, session: String) -> Self {
        let key = app.api_key(&session).await;
        let made = key.call(app, Method::POST, "/v1/api_keys", &json!({"name": "second"})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let made = made.json();
        let key_of_key = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
        let endpoint = json!({"url": "http://127.0.0.1:9/hook"});
        let endpoints = [
            app.call(&session, Method::POST, "/v1/webhooks", &endpoint).await,
            key_of_key.call(app, Method::POST, "/v1/webhooks", &endpoint).await,
        ]
        .map(|reply| reply.json()["endpoint"]["id"].as_str().expect(&reply.text).to_owned());
        let rule = json!({"when": "is_scammer > 0.5", "action_type": "email",
                          "action_config": {"to": "squatter@example.com"}});
        let rules = [
            app.call(&session, Method::POST, "/v1/rules", &rule).await,
            key_of_key.call(app, Method::POST, "/v1/rules", &rule).await,
        ]
        .map(|reply| reply.json()["id"].as_str().expect(&reply.text).to_owned());
        Self { email: email.to_owned(), session, key, key_of_key, endpoints, rules }
    }

    /// Nothing of it opens the account any more, and nothing of it reports to anybody.
    async fn is_ended(&self, app: &App, owner: &str) {
        whoami(app, &self.session).await.refused(401, "unauthorized");
        for key in [&self.key, &self.key_of_key] {
            key.call(app, Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
        }
        login(app, &self.email, PASSWORD).await.refused(401, "unauthorized");
        assert_eq!(get(app, owner, "/v1/api_keys").await, json!({"api_keys": []}));
        assert_eq!(get(app, owner, "/v1/me").await["email_verified"], true);
        self.is_disabled(app, owner).await;
        let mails = app.mails().await;
        let told: Vec<_> =
            mails.iter().filter(|mail| mail.subject == PROVED && mail.to == self.email).collect();
        assert_eq!(told.len(), 1, "{mails:?}");
        let text = &told[0].text;
        for part in ["the password", "1 session", "2 API keys", "2 webhook endpoints", "2 rules"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    async fn is_disabled(&self, app: &App, owner: &str) {
        for path in self.paths() {
            let found = get(app, owner, &path).await;
            assert_eq!(
                (&found["enabled"], &found["disabled_reason"]),
                (&json!(false), &json!(ADDRESS_PROVED))
            );
        }
    }

    /// All of it works as before, but for the sessions.
    async fn is_kept(&self, app: &App) {
        for key in [&self.key, &self.key_of_key] {
            assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
        }
        for path in self.paths() {
            let found = self.key.call(app, Method::GET, &path, &Value::Null).await.json();
            assert_eq!((&found["enabled"], found.get("disabled_reason")), (&json!(true), None), "{found}");
        }
        assert!(!app.subjects_to(&self.email).await.contains(&PROVED.to_owned()));
    }

    fn paths(&self) -> Vec<String> {
        let endpoints = self.endpoints.iter().map(|id| format!("/v1/webhooks/{id}"));
        endpoints.chain(self.rules.iter().map(|id| format!("/v1/rules/{id}"))).collect()
    }
}

async fn a_reset_link_ends_all_that_a_squatter_set_up(stage: &Providers) {
    let app = &stage.app;
    let squatter = SetUp::by(app, ANN).await;
    // The squatter's own account at a provider shows another address, so it proves nothing.
    stage.person("github", 6, "eve@example.com", true).await;
    assert_eq!(stage.link(&squatter.session, "github", 6).await.status, 201);
    Phone::switched_on(app, &squatter.session).await;
    assert_eq!(get(app, &squatter.session, "/v1/me").await["email_verified"], false);

    stage.reset_password(ANN, NEW).await;
    let reply = login(app, ANN, NEW).await;
    assert_eq!(reply.status, 200, "no code is asked for: {}", reply.text);
    let owner = reply.json()["token"].as_str().unwrap().to_owned();
    squatter.is_ended(app, &owner).await;
    assert_eq!(stage.ways_in(&owner).await, (true, vec![]));
    let me = get(app, &owner, "/v1/me").await;
    let theirs = stage.token("github", 6, 201).await;
    assert_ne!(get(app, &theirs, "/v1/me").await["tenant_id"], me["tenant_id"]);
}

async fn a_provider_ends_all_that_a_squatter_set_up(stage: &Providers) {
    for (provider, other) in [("google", "github"), ("github", "google")] {
        let email = format!("ann-{provider}@example.com");
        let squatter = SetUp::by(&stage.app, &email).await;
        stage.person(other, 6, &format!("eve-{provider}@example.com"), true).await;
        assert_eq!(stage.link(&squatter.session, other, 6).await.status, 201);
        stage.person(provider, 1, &email, true).await;
        let owner = stage.token(provider, 1, 200).await;
        squatter.is_ended(&stage.app, &owner).await;
        assert_eq!(stage.ways_in(&owner).await, (false, vec![provider.to_owned()]));
        stage.token(other, 6, 201).await;
    }
}

async fn the_link_mailed_at_registration_ends_all_that_a_squatter_set_up(app: &App) {
    let squatter = SetUp::by(app, ANN).await;
    let reply = app.post(VERIFY, &json!({"token": app.verification(ANN).await})).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    let owner = owner_by_reset(app, &json!({})).await;
    squatter.is_ended(app, &owner).await;
}

async fn what_was_set_up_stays_on_request(app: &App) {
    let set_up = SetUp::by(app, ANN).await;
    let body = json!({"token": app.verification(ANN).await, "keep": true});
    assert_eq!(app.post(VERIFY, &body).await.status, 204);
    assert_eq!(get(app, &set_up.session, "/v1/me").await["email_verified"], true);
    sign_in(app, ANN).await;
    set_up.is_kept(app).await;
    let lines = get(app, &set_up.session, "/v1/audit_log?action=address.proved").await;
    assert_eq!(lines["entries"].as_array().unwrap().len(), 1, "{lines}");
    assert_eq!(lines["entries"][0]["after"], json!({"kept": true}));

    let set_up = SetUp::by(app, "bob@example.com").await;
    let body = json!({"token": reset_link(app, "bob@example.com").await, "password": NEW, "keep": true});
    assert_eq!(app.post(RESET, &body).await.status, 204);
    set_up.is_kept(app).await;
    whoami(app, &set_up.session).await.refused(401, "unauthorized");
    login(app, "bob@example.com", PASSWORD).await.refused(401, "unauthorized");
    assert_eq!(login(app, "bob@example.com", NEW).await.status, 200);
}

async fn a_link_tells_what_it_would_end(stage: &Providers) {
    let app = &stage.app;
    let preview = async |token: &str| app.post("/auth/console/first_proof", &json!({"token": token})).await;
    let squatter = SetUp::by(app, ANN).await;
    stage.person("github", 6, "eve@example.com", true).await;
    assert_eq!(stage.link(&squatter.session, "github", 6).await.status, 201);
    assert_eq!(invite(app, &squatter.session, "friend@example.com", "viewer").await.status, 201);
    let (verification, reset) = (app.verification(ANN).await, reset_link(app, ANN).await);
    let expected = json!({
        "first_proof": true, "password": true, "two_factor": false, "sessions": 1, "keys": ["API key", "second"],
        "endpoints": ["http://127.0.0.1:9", "http://127.0.0.1:9"], "rules": ["is_scammer > 0.5", "is_scammer > 0.5"],
        "identities": [{"provider": "github", "email": "eve@example.com", "created_at": app.now()}],
        "passkeys": [], "invitations": ["friend@example.com"],
    });
    for token in [&verification, &reset, &verification] {
        let reply = preview(token).await;
        let mut shown = reply.json();
        // Both were made at the same instant.
        shown["keys"].as_array_mut().unwrap().sort_by_key(Value::to_string);
        assert_eq!((reply.status.as_u16(), shown), (200, expected.clone()), "reading uses nothing up");
    }
    for nonsense in ["", "x", &verification[1..], "rt_nothing"] {
        preview(nonsense).await.refused(400, "invalid_token");
    }
    assert_eq!(app.post(VERIFY, &json!({"token": verification})).await.status, 204);
    preview(&verification).await.refused(400, "invalid_token");
    preview(&reset).await.refused(400, "invalid_token");
    // Nothing ends by a link once the address is proved, so nothing is told.
    let reset = new_reset_link(app, ANN, &reset).await;
    let proved = preview(&reset).await.json();
    assert_eq!((&proved["first_proof"], &proved["keys"]), (&json!(false), &json!([])));
    let body = json!({"token": reset, "password": NEW});
    assert_eq!(app.post(RESET, &body).await.status, 204);
    let owner = login(app, ANN, NEW).await.json()["token"].as_str().unwrap().to_owned();
    preview(&reset).await.refused(400, "invalid_token");
    let lines = get(app, &owner, "/v1/audit_log?action=api_key.revoked").await;
    assert_eq!(lines["entries"].as_array().unwrap().len(), 2, "{lines}");
    let lines = get(app, &owner, "/v1/audit_log?action=invitation.withdrawn").await;
    assert_eq!(lines["entries"][0]["before"]["email"], "friend@example.com");
}

async fn what_was_set_up_stays_for_who_holds_a_session(stage: &Providers) {
    let app = &stage.app;
    let by_link = SetUp::by(app, ANN).await;
    app.verify(&by_link.session, ANN).await;
    by_link.is_kept(app).await;
    assert_eq!(whoami(app, &by_link.session).await.json()["email_verified"], true);
    sign_in(app, ANN).await;

    let by_reset = SetUp::by(app, "bob@example.com").await;
    let body = json!({"token": reset_link(app, "bob@example.com").await, "password": NEW});
    assert_eq!(app.call(&by_reset.session, Method::POST, RESET, &body).await.status, 204);
    by_reset.is_kept(app).await;

    let by_provider = SetUp::by(app, "cid@example.com").await;
    stage.person("google", 3, "cid@example.com", true).await;
    let proof = stage.proof("google", 3).await;
    let path = "/auth/console/oauth/google";
    let reply = app.call(&by_provider.session, Method::POST, path, &proof).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    by_provider.is_kept(app).await;
    assert_eq!(login(app, "cid@example.com", PASSWORD).await.status, 200);
}

async fn a_session_of_somebody_else_keeps_nothing(app: &App) {
    let squatter = SetUp::by(app, ANN).await;
    let stranger = app.register("bob@example.com").await;
    let ended = sign_in(app, ANN).await;
    assert_eq!(app.call(&ended, Method::POST, "/auth/console/logout", &Value::Null).await.status, 204);
    let body = json!({"token": app.verification(ANN).await});
    assert_eq!(app.call(&ended, Method::POST, VERIFY, &body).await.status, 204);
    squatter.key.call(app, Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");

    let squatter = SetUp::by(app, "cid@example.com").await;
    let body = json!({"token": app.verification("cid@example.com").await});
    assert_eq!(app.call(&stranger, Method::POST, VERIFY, &body).await.status, 204);
    whoami(app, &squatter.session).await.refused(401, "unauthorized");
    assert_eq!(whoami(app, &stranger).await.status, 200);
    // A key opens no session, whoever made it.
    let squatter = SetUp::by(app, "dan@example.com").await;
    let body = json!({"token": app.verification("dan@example.com").await});
    assert_eq!(squatter.key.call(app, Method::POST, VERIFY, &body).await.status, 204);
    squatter.key.call(app, Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
}

async fn only_the_first_proof_ends_anything(app: &App) {
    let token = app.register(ANN).await;
    app.verify(&token, ANN).await;
    let set_up = SetUp::with(app, ANN, token).await;
    let phone = Phone::switched_on(app, &set_up.session).await;
    let body = json!({"token": reset_link(app, ANN).await, "password": NEW});
    assert_eq!(app.post(RESET, &body).await.status, 204);
    set_up.is_kept(app).await;
    login(app, ANN, NEW).await.refused(401, "mfa_required");
    let body = json!({"email": ANN, "password": NEW, "code": phone.code(app)});
    assert_eq!(app.post("/auth/console/login", &body).await.status, 200);
}

async fn a_verification_link_works_once_within_a_week(app: &App) {
    let [ann, bob] = [app.register(ANN).await, app.register("bob@example.com").await];
    let [of_ann, of_bob] = [app.verification(ANN).await, app.verification("bob@example.com").await];
    for token in ["", "made-up", &format!("{of_ann}A"), &of_ann[1..]] {
        app.post(VERIFY, &json!({"token": token})).await.refused(400, "invalid_token");
    }
    let missing = app.post(VERIFY, &json!({})).await.refused(400, "bad_request");
    assert!(missing.contains("token"), "{missing}");
    app.post(VERIFY, &json!({"token": of_ann, "keep": "yes"})).await.refused(400, "bad_request");
    app.verify(&ann, ANN).await;
    app.call(&ann, Method::POST, VERIFY, &json!({"token": of_ann})).await.refused(400, "invalid_token");
    app.advance(std::time::Duration::from_hours(7 * 24));
    app.call(&bob, Method::POST, VERIFY, &json!({"token": of_bob})).await.refused(400, "invalid_token");
    app.sweeper_has_swept().await;
    assert!(rows(app, "SELECT 'a link' FROM email_verifications").await.is_empty());
    assert_eq!(login(app, "bob@example.com", PASSWORD).await.status, 200, "nothing else depends on it");
}

async fn of_many_who_follow_one_link_one_proves_the_address(app: &App) {
    app.register(ANN).await;
    let body = json!({"token": app.verification(ANN).await, "keep": true});
    let replies = race(50, |_| app.request(Method::POST, VERIFY).json(&body)).await;
    assert_eq!(statuses(&replies), [(204, 1), (400, 49)].into());
    sign_in(app, ANN).await;
}

async fn linking_one_s_own_address_keeps_everything(stage: &Providers) {
    let set_up = SetUp::by(&stage.app, ANN).await;
    stage.person("google", 1, ANN, true).await;
    assert_eq!(stage.link(&set_up.session, "google", 1).await.status, 201);
    assert_eq!(get(&stage.app, &set_up.session, "/v1/me").await["email_verified"], true);
    set_up.is_kept(&stage.app).await;
    assert_eq!(stage.ways_in(&set_up.session).await, (true, vec!["google".to_owned()]));
}

async fn users_made_by_an_operator_are_proved(app: &App) {
    let token = app.register("owner@example.com").await;
    let tenant = tenant_of(app, &token).await;
    admin(app, &["user", "create", "--tenant", &tenant, ANN], PASSWORD);
    let ann = sign_in(app, ANN).await;
    assert_eq!(get(app, &ann, "/v1/me").await["email_verified"], true);
    let key = app.api_key(&ann).await;
    let body = json!({"token": reset_link(app, ANN).await, "password": NEW});
    assert_eq!(app.post(RESET, &body).await.status, 204);
    assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    assert!(get_by(app, &key).await.get("email_verified").is_none(), "a key has no address");
}

async fn what_others_made_stays(app: &App) {
    let squatter = SetUp::by(app, ANN).await;
    let tenant = tenant_of(app, &squatter.session).await;
    admin(app, &["user", "create", "--tenant", &tenant, "bob@example.com"], PASSWORD);
    let bob = SetUp::with(app, "bob@example.com", sign_in(app, "bob@example.com").await).await;
    admin(app, &["key", "import-legacy", "--tenant", &tenant], "an-old-long-key-0123456789");
    let by_operator = async || {
        app.send(app.request(Method::GET, "/v1/me").header("x-api-key", "an-old-long-key-0123456789")).await
    };
    assert_eq!(by_operator().await.status, 200);
    assert_eq!(app.post(VERIFY, &json!({"token": app.verification(ANN).await})).await.status, 204);
    squatter.is_disabled(app, &bob.session).await;
    for key in [&squatter.key, &squatter.key_of_key] {
        key.call(app, Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
    }
    bob.is_kept(app).await;
    assert_eq!(whoami(app, &bob.session).await.status, 200);
    assert_eq!(by_operator().await.status, 200, "what the operator made stays too");
}

/// Whoever made it: the squatter has its secret.
async fn a_key_that_a_squatter_rotated_ends(app: &App) {
    let squatter = app.register(ANN).await;
    let tenant = tenant_of(app, &squatter).await;
    admin(app, &["key", "import-legacy", "--tenant", &tenant], "an-old-long-key-0123456789");
    let listed = get(app, &squatter, "/v1/api_keys").await;
    let rotate = format!("/v1/api_keys/{}/rotate", listed["api_keys"][0]["id"].as_str().unwrap());
    let rotated = app.call(&squatter, Method::POST, &rotate, &Value::Null).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let rotated = rotated.json();
    let key = Signer::new(rotated["key"].as_str().unwrap(), rotated["secret"].as_str().unwrap());
    // A key that was rotated with it is the squatter's as well.
    admin(app, &["key", "import-legacy", "--tenant", &tenant], "another-old-key-0123456789");
    let listed = get(app, &squatter, "/v1/api_keys").await;
    let rotate = format!("/v1/api_keys/{}/rotate", listed["api_keys"][1]["id"].as_str().unwrap());
    let second = key.call(app, Method::POST, &rotate, &Value::Null).await.json();
    let second = Signer::new(second["key"].as_str().unwrap(), second["secret"].as_str().unwrap());
    for key in [&key, &second] {
        assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    }
    assert_eq!(app.post(VERIFY, &json!({"token": app.verification(ANN).await})).await.status, 204);
    for key in [&key, &second] {
        key.call(app, Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
    }
}

async fn open_invitations_by_a_squatter_end(app: &App) {
    let squatter = app.register(ANN).await;
    let bob = join(app, &squatter, "bob@example.com", "admin").await;
    for (session, guest) in [(&squatter, "eve@example.com"), (&bob, "cleo@example.com")] {
        assert_eq!(invite(app, session, guest, "admin").await.status, 201);
    }
    let [of_squatter, of_bob] =
        [invitation_to(app, "eve@example.com").await, invitation_to(app, "cleo@example.com").await];
    assert_eq!(app.post(VERIFY, &json!({"token": app.verification(ANN).await})).await.status, 204);
    let accept = async |token: &str| {
        let body = json!({"token": token, "password": NEW});
        app.post("/auth/console/invitations/accept", &body).await
    };
    accept(&of_squatter).await.refused(400, "invalid_token");
    assert_eq!(accept(&of_bob).await.status, 200, "what others made stays");
    assert_eq!(whoami(app, &bob).await.status, 200, "so does who has accepted");
    let mails = app.mails().await;
    let told = mails.iter().find(|mail| mail.subject == PROVED && mail.to == ANN).expect("a mail");
    assert!(told.text.contains("1 invitation"), "{}", told.text);
}

async fn rows_from_before_makers_were_recorded_belong_to_the_first_user(app: &App) {
    let squatter = SetUp::by(app, ANN).await;
    let tenant = tenant_of(app, &squatter.session).await;
    admin(app, &["user", "create", "--tenant", &tenant, "bob@example.com"], PASSWORD);
    let bob = sign_in(app, "bob@example.com").await;
    assert_eq!(invite(app, &squatter.session, "eve@example.com", "admin").await.status, 201);
    forget_makers(app).await;
    assert_eq!(app.post(VERIFY, &json!({"token": app.verification(ANN).await})).await.status, 204);
    squatter.is_disabled(app, &bob).await;
    assert_eq!(get(app, &bob, "/v1/invitations").await["invitations"], json!([]));
    assert_eq!(get(app, &bob, "/v1/api_keys").await, json!({"api_keys": []}));
}

async fn what_was_disabled_can_be_enabled_again(app: &App) {
    let squatter = SetUp::by(app, ANN).await;
    assert_eq!(app.post(VERIFY, &json!({"token": app.verification(ANN).await})).await.status, 204);
    let owner = owner_by_reset(app, &json!({})).await;
    for path in squatter.paths() {
        let text = if path.contains("webhooks") { "description" } else { "name" };
        let edited = app.call(&owner, Method::PATCH, &path, &json!({text: "mine"})).await.json();
        assert_eq!(edited["disabled_reason"], ADDRESS_PROVED, "{edited}");
        let enabled = app.call(&owner, Method::PATCH, &path, &json!({"enabled": true})).await.json();
        assert_eq!((&enabled["enabled"], enabled.get("disabled_reason")), (&json!(true), None), "{enabled}");
        let disabled = app.call(&owner, Method::PATCH, &path, &json!({"enabled": false})).await.json();
        assert_eq!((&disabled["enabled"], disabled.get("disabled_reason")), (&json!(false), None));
    }
}

async fn nonsense_proves_no_address(app: &App) {
    let token = app.register(ANN).await;
    refuses_nonsense(app, None, Method::POST, VERIFY, &json!({"token": WRONG, "keep": true})).await;
    let token = if whoami(app, &token).await.status == 200 { token } else { sign_in(app, ANN).await };
    assert_eq!(get(app, &token, "/v1/me").await["email_verified"], false);
}

/// The owner of Ann's address asks for a reset link, sets a password and signs in.
async fn owner_by_reset(app: &App, more: &Value) -> String {
    let mut body = json!({"token": reset_link(app, ANN).await, "password": NEW});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(app.post(RESET, &body).await.status, 204);
    let reply = login(app, ANN, NEW).await;
    reply.json()["token"].as_str().unwrap_or_else(|| panic!("{}", reply.text)).to_owned()
}

/// Asks for a reset link and reads its token in the mail.
pub(crate) async fn reset_link(app: &App, email: &str) -> String {
    new_reset_link(app, email, "").await
}

/// The same, where the link with this token was mailed before.
async fn new_reset_link(app: &App, email: &str, earlier: &str) -> String {
    let reply = app.post("/auth/console/password/forgot", &json!({"email": email})).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let link = async {
        // The service answers before it looks whether there is somebody to write to.
        loop {
            let mails = app.mails().await;
            let mut found = mails
                .iter()
                .filter(|mail| mail.to == email)
                .filter_map(|mail| mail.text.split_once("/console/reset?token="))
                .filter_map(|(_, rest)| rest.split_whitespace().next());
            if let Some(token) = found.find(|token| *token != earlier) {
                return token.to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(testkit::PATIENCE, link).await.expect("the link is sent")
}

/// Leaves rows as a release left them that recorded no makers.
async fn forget_makers(app: &App) {
    let store = store::Store::open(app.database_url()).await.unwrap();
    store
        .write("forget_makers", async |conn: &mut store::Conn| {
            for statement in [
                "UPDATE api_keys SET created_by = NULL, created_by_user = NULL, created_by_key = NULL",
                "UPDATE rules SET created_by = NULL, created_by_user = NULL, created_by_key = NULL",
                "UPDATE webhook_endpoints SET created_by = NULL, created_by_user = NULL, created_by_key = NULL",
                "UPDATE invitations SET created_by_user = NULL",
            ] {
                match conn {
                    store::Conn::Sqlite(held) => sqlx::query(statement).execute(held.native()).await.map(drop),
                    store::Conn::Postgres(held) => sqlx::query(statement).execute(held.native()).await.map(drop),
                }?;
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

async fn get(app: &App, token: &str, path: &str) -> Value {
    let reply = app.call(token, Method::GET, path, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn get_by(app: &App, key: &Signer) -> Value {
    key.call(app, Method::GET, "/v1/me", &Value::Null).await.json()
}
