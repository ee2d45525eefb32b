//! Sign-in with the operator's own OpenID Connect issuer: its name, its domains, and all that the other providers can do.

use std::time::Duration;

use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use service::Clock;
use testkit::{Backend, OwnIssuerPeer, Stage};
use url::Url;

use crate::app::{App, Reply};
use crate::login::{QUARTER, sign_in, whoami};
use crate::members::{invitation_to, invite};
use crate::provider_peers::{challenge, parameter};

testkit::on_both!(
    the_issuer_is_announced_by_its_name,
    a_stranger_signs_up_and_signs_in_again,
    a_member_links_confirms_and_unlinks,
    an_invitation_is_accepted_with_the_issuer,
    other_domains_and_unproved_addresses_get_nowhere,
);

const PUBLIC_URL: &str = "https://example.test/auspex";
const SIGN_IN: &str = "/auth/console/oauth/oidc";
const LINK: &str = "/v1/me/identities/oidc";
/// The issuer's clock runs while the service's stands still.
const AHEAD_SECONDS: i64 = 600;

/// The service beside an issuer, for addresses of one domain.
struct OwnIssuer {
    app: App,
    issuer: OwnIssuerPeer,
}

impl Stage for OwnIssuer {
    async fn set_up(backend: Backend) -> Self {
        let callback = format!("{PUBLIC_URL}/console/oauth/oidc");
        let issuer = OwnIssuerPeer::start("RS256", "auspex", "hush:a+b c/d%", &callback);
        let url = issuer.url().to_string();
        let settings = [
            ("AUSPEX_PUBLIC_URL", PUBLIC_URL),
            ("AUSPEX_OIDC_ISSUER", url.as_str()),
            ("AUSPEX_OIDC_CLIENT_ID", "auspex"),
            ("AUSPEX_OIDC_CLIENT_SECRET", "hush:a+b c/d%"),
            ("AUSPEX_OIDC_NAME", "Acme"),
            ("AUSPEX_OIDC_ALLOWED_DOMAINS", "acme.example, Acme.test"),
        ];
        let start = Timestamp::from_seconds(Clock::system().now().seconds() + AHEAD_SECONDS);
        Self { app: App::start_at(backend, &settings, start).await, issuer }
    }

    async fn tear_down(self) {
        self.app.tear_down().await;
    }
}

impl OwnIssuer {
    async fn person(&self, subject: &str, email: &str, verified: bool) {
        let claims = json!({"name": "Ann", "email": email, "email_verified": verified});
        self.issuer.person(subject, &claims).await;
    }

    /// The person agrees at the issuer. What the console then posts.
    async fn proof(&self, subject: &str) -> Value {
        let verifier = "v".repeat(43);
        let request = json!({"state": "s", "code_challenge": challenge(&verifier)});
        let reply = self.app.post(&format!("{SIGN_IN}/authorize"), &request).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let url: Url = reply.json()["url"].as_str().unwrap().parse().unwrap();
        let back = testkit::agree(url, &[("sub", subject)]).await;
        json!({"code": parameter(&back, "code"), "code_verifier": verifier})
    }

    async fn sign_in(&self, subject: &str) -> Reply {
        self.app.post(SIGN_IN, &self.proof(subject).await).await
    }
}

fn token_of(reply: &Reply, status: u16) -> String {
    assert_eq!(reply.status, status, "{}", reply.text);
    reply.json()["token"].as_str().unwrap().to_owned()
}

async fn the_issuer_is_announced_by_its_name(stage: &OwnIssuer) {
    let offered = stage.app.get("/auth/console/oauth/providers").await.json();
    assert_eq!(
        offered,
        json!({"providers": ["oidc"], "allow_registration": true, "oidc_name": "Acme"}),
        "nothing of the issuer but its name"
    );
    let token = stage.app.register("ann@acme.example").await;
    let ways = stage.app.call(&token, Method::GET, "/v1/me/identities", &Value::Null).await.json();
    assert_eq!(ways["providers"], json!(["oidc"]));
}

async fn a_stranger_signs_up_and_signs_in_again(stage: &OwnIssuer) {
    stage.person("1", "ann@acme.example", true).await;
    let first = token_of(&stage.sign_in("1").await, 201);
    let me = whoami(&stage.app, &first).await.json();
    assert_eq!((&me["email"], &me["email_verified"]), (&json!("ann@acme.example"), &json!(true)));
    // The address may change at the issuer; the subject stays.
    stage.person("1", "ann.lee@acme.test", true).await;
    let again = token_of(&stage.sign_in("1").await, 200);
    assert_eq!(whoami(&stage.app, &again).await.json(), me);
    let proof = stage.proof("1").await;
    assert_eq!(stage.app.post(SIGN_IN, &proof).await.status, 200);
    stage.app.post(SIGN_IN, &proof).await.refused(400, "bad_request");
}

async fn a_member_links_confirms_and_unlinks(stage: &OwnIssuer) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    stage.person("1", "ann@acme.example", true).await;
    let linked = app.call(&token, Method::POST, LINK, &stage.proof("1").await).await;
    assert_eq!(linked.status, 201, "{}", linked.text);
    assert_eq!(linked.json()["provider"], "oidc");
    let mails = app.mails().await;
    assert!(mails.iter().any(|mail| mail.text.contains("Acme")), "the mail names it as people do");

    app.advance(QUARTER + Duration::from_secs(1));
    app.call(&token, Method::DELETE, LINK, &Value::Null).await.refused(403, "reauthentication_required");
    stage.person("2", "eve@acme.example", true).await;
    let confirm = "/auth/console/reauthenticate";
    for (subject, status) in [("2", 403), ("1", 204)] {
        let mut proof = stage.proof(subject).await;
        proof["provider"] = json!("oidc");
        assert_eq!(app.call(&token, Method::POST, confirm, &proof).await.status, status, "{subject}");
    }
    assert_eq!(app.call(&token, Method::DELETE, LINK, &Value::Null).await.status, 204);
    sign_in(app, "ann@example.com").await;
    assert_eq!(stage.sign_in("1").await.status, 201, "it is somebody else's account now");
}

async fn an_invitation_is_accepted_with_the_issuer(stage: &OwnIssuer) {
    let app = &stage.app;
    let owner = app.register("ann@acme.example").await;
    invite(app, &owner, "bob@acme.example", "analyst").await;
    stage.person("1", "bob@elsewhere.example", true).await;
    stage.person("2", "bob@acme.example", true).await;
    let invitation = invitation_to(app, "bob@acme.example").await;
    for (subject, status) in [("1", 403), ("2", 201)] {
        let mut proof = stage.proof(subject).await;
        proof["invitation"] = json!(invitation);
        let reply = app.post(SIGN_IN, &proof).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        if status == 201 {
            let me = whoami(app, &token_of(&reply, 201)).await.json();
            assert_eq!((&me["email"], &me["role"]), (&json!("bob@acme.example"), &json!("analyst")));
        }
    }
}

async fn other_domains_and_unproved_addresses_get_nowhere(stage: &OwnIssuer) {
    let app = &stage.app;
    let token = app.register("ann@acme.example").await;
    for (subject, email, verified) in [
        ("1", "ann@acme.example", false),
        ("2", "eve@evil.example", true),
        ("3", "eve@acme.example.evil.example", true),
        ("4", "eve@sub.acme.example", true),
    ] {
        stage.person(subject, email, verified).await;
        stage.sign_in(subject).await.refused(403, "forbidden");
        let proof = stage.proof(subject).await;
        app.call(&token, Method::POST, LINK, &proof).await.refused(403, "forbidden");
    }
    let ways = app.call(&token, Method::GET, "/v1/me/identities", &Value::Null).await.json();
    assert_eq!(ways["identities"], json!([]));
    // The first had a member's address, and the others nobody's.
    let failed =
        app.call(&token, Method::GET, "/v1/audit_log?action=session.failed", &Value::Null).await.json();
    let failed = failed["entries"].as_array().unwrap();
    assert_eq!((failed.len(), &failed[0]["after"]["reason"]), (1, &json!("domain_not_allowed")));
    stage.person("5", "Cleo@ACME.test", true).await;
    assert_eq!(stage.sign_in("5").await.status, 201, "domains have no case");
}
