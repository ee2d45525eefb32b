//! The audit log: who changed what. No operation can change something on record without a line, and no line can be changed.

use std::collections::BTreeSet;
use std::time::Duration;

use model::AuditAction;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::{admin, tenant_of};
use crate::app::{App, PASSWORD, Reply};
use crate::audit_chain::check;
use crate::login::{DAY, login, sign_in, whoami};
use crate::machine_login;
use crate::members::{invite, join};
use crate::provider_peers::Providers;
use crate::registration::{rows, staged};
use crate::scripted_analyzer::until;
use crate::two_factor;

const LOG: &str = "/v1/audit_log";
const NEW_PASSWORD: &str = "quite another horse and staple";

/// What leaves no line, and why, or which test finds its line. Everything else but reading must leave one here.
const QUIET: &[(&str, &str, &str)] = &[
    ("POST", "/webhooks/stripe", "the ledger records it"),
    ("POST", "/auth/token", "a key gets a token for what it may do anyway"),
    ("POST", "/auth/console/register", "signs in; see nobody_reads_another_account_s_log"),
    ("POST", "/auth/console/login", "see audit_sign_ins"),
    ("POST", "/auth/console/password/forgot", "a mail; counts only once its link is used"),
    ("POST", "/auth/console/password/reset", "see a_reset_password_and_a_first_proof_are_recorded"),
    ("POST", "/auth/console/verify", "see first_proof::what_was_set_up_stays_on_request"),
    ("POST", "/auth/console/first_proof", "reads"),
    ("POST", "/auth/console/recipients/confirm", "what a recipient of mails wants, who may be no member"),
    ("POST", "/auth/console/recipients/withdraw", "what a recipient of mails wants, who may be no member"),
    ("POST", "/auth/console/invitations/accept", "see the_log_is_searched_and_paged"),
    ("POST", "/auth/console/passkey/start", "counts only once it is answered"),
    ("POST", "/auth/console/passkey/finish", "see passkeys::a_failed_sign_in_is_in_the_audit_log"),
    ("POST", "/auth/console/oauth/{provider}/authorize", "counts only once the code comes back"),
    ("POST", "/auth/console/oauth/{provider}", "see identities::who_verified_the_address_keeps_…"),
    ("POST", "/mcp", "its tools leave the lines of what they call, see mcp"),
    ("POST", "/v1/moderations", "records nothing"),
    ("POST", "/v1alpha1/comments:analyze", "records nothing"),
    ("POST", "/v1alpha1/comments:suggestscore", "labels say who gave them"),
    ("POST", "/auth/console/reauthenticate", "renews the proof of a session"),
    ("POST", "/v1/me/onboarded", "a step of the console"),
    ("PUT", "/v1/me/notifications", "a member's own mails"),
    ("POST", "/v1/me/passkeys/start", "counts only once it is added"),
    ("POST", "/v1/me/machine_login", "counts only once the key is made"),
    ("POST", "/v1/me/mfa/setup", "counts only once it is enabled"),
    ("POST", "/v1/objects/{object_id}/analyze", "an analysis"),
    ("POST", "/v1/analyze", "analyses"),
    ("POST", "/v1/objects/{object_id}/events", "ingest"),
    ("POST", "/v1/objects/{object_id}/ingest", "ingest"),
    ("POST", "/v1/signals/{key}/backfill", "analyses"),
    ("POST", "/v1/objects/{object_id}/explain", "records nothing"),
    ("POST", "/v1/playground", "records nothing"),
    ("POST", "/v1/systemone", "records nothing"),
    ("POST", "/v1/rules/test", "a message"),
    ("POST", "/v1/rules/replay", "changes nothing"),
    ("POST", "/v1/conditions/check", "changes nothing"),
    ("POST", "/v1/webhook_deliveries/{delivery_id}/replay", "a delivery"),
    ("POST", "/v1/webhooks/{endpoint_id}/test", "a delivery"),
    ("POST", "/v1/billing/checkout", "the ledger records it"),
    ("PUT", "/v1/objects/{object_id}/labels/{signal}", "labels say who gave them"),
    ("POST", "/v1/labels", "labels say who gave them"),
    ("DELETE", "/v1/labels/{label_id}", "labels"),
    ("POST", "/v1/reviews", "reviews say who resolved them"),
    ("POST", "/v1/reviews/next", "reviews"),
    ("POST", "/v1/reviews/{review_id}/claim", "reviews"),
    ("POST", "/v1/reviews/{review_id}/release", "reviews"),
    ("POST", "/v1/reviews/{review_id}/resolve", "reviews say who resolved them"),
    ("POST", "/v1/reviews/{review_id}/reopen", "reviews"),
    ("POST", "/v1/signals/{key}/trials", "changes nothing until it is adopted"),
    ("DELETE", "/v1/signals/{key}/trials/{trial_id}", "changes nothing"),
];

testkit::on_both!(
    every_operation_that_changes_something_leaves_a_line,
    a_line_says_who_did_what_from_where,
    a_deletion_in_steps_is_one_line,
    secrets_are_left_out,
    a_reset_password_and_a_first_proof_are_recorded,
    a_refused_change_leaves_no_line,
    the_log_is_searched_and_paged,
    nobody_reads_another_account_s_log,
    what_the_operator_does_is_recorded,
    old_lines_are_swept_and_the_rest_can_be_checked,
);

pub(crate) async fn entries(app: &App, token: &str, query: &str) -> Vec<Value> {
    let reply = app.call(token, Method::GET, &format!("{LOG}?limit=200{query}"), &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["entries"].as_array().unwrap().clone()
}

/// Walks through every operation that must leave a line, and checks each of them.
struct Walk<'a> {
    app: &'a App,
    token: String,
    walked: BTreeSet<(String, String)>,
}

impl Walk<'_> {
    /// Calls an operation, which must leave a line with this action as its newest.
    async fn call(
        &mut self,
        (method, template): (Method, &str),
        ids: &[&str],
        body: Value,
        action: &str,
    ) -> Reply {
        let mut path = template.to_owned();
        for id in ids {
            let (start, rest) = path.split_once('{').unwrap();
            path = format!("{start}{id}{}", rest.split_once('}').unwrap().1);
        }
        let before = rows(self.app, "SELECT cast(count(*) as text) FROM audit_log").await;
        let reply = self.app.call(&self.token, method.clone(), &path, &body).await;
        assert!(reply.status.is_success(), "{method} {path}: {}", reply.text);
        let after = rows(self.app, "SELECT cast(count(*) as text) FROM audit_log").await;
        assert_ne!(before, after, "{method} {template} leaves no line");
        let newest = rows(self.app, "SELECT action FROM audit_log ORDER BY seq DESC LIMIT 1").await;
        assert_eq!(newest, [action], "{method} {template}");
        self.walked.insert((method.to_string(), template.to_owned()));
        reply
    }
}

impl Walk<'_> {
    /// The newest lines, oldest first, are of these actions.
    async fn wrote(&self, actions: &[&str]) {
        let all = rows(self.app, "SELECT action FROM audit_log ORDER BY seq").await;
        assert_eq!(all[all.len() - actions.len()..], *actions);
    }
}

fn id(reply: &Reply, pointer: &str) -> String {
    let reply = reply.json();
    reply
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer} in {reply}"))
        .to_owned()
}

async fn every_operation_that_changes_something_leaves_a_line(stage: &Providers) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    let mut walk = Walk { app, token, walked: BTreeSet::new() };
    walk_records(&mut walk).await;
    walk_members(&mut walk).await;
    walk_reads(&mut walk).await;
    walk_sign_in(&mut walk, stage).await;

    let operations: BTreeSet<(String, String)> = auspex_server::operations()
        .into_iter()
        .map(|(method, path, ..)| (method.to_owned(), path.to_owned()))
        .collect();
    let quiet = QUIET.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()));
    let known: BTreeSet<_> = quiet.chain(walk.walked).collect();
    assert_eq!(known, operations, "every operation is walked or quiet, with or without a credential");
}

/// Reading leaves no line, whatever comes of it, but an export does.
async fn walk_reads(walk: &mut Walk<'_>) {
    let export = "/v1/export?what=objects";
    let reply = walk.app.call(&walk.token, Method::GET, export, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let lines = async || rows(walk.app, "SELECT action FROM audit_log ORDER BY seq").await;
    let before = lines().await;
    assert_eq!(before.last().unwrap(), "export.started");
    for (method, template, ..) in auspex_server::operations() {
        if method != "GET" {
            continue;
        }
        let parts: Vec<&str> =
            template.split('/').map(|part| if part.starts_with('{') { "is_rude" } else { part }).collect();
        let reply = walk.app.call(&walk.token, Method::GET, &parts.join("/"), &Value::Null).await;
        assert!(!reply.status.is_server_error(), "{template}: {}", reply.text);
        walk.walked.insert((method.to_owned(), template.to_owned()));
    }
    assert_eq!(lines().await, before);
}

/// A member agrees in the browser, and a machine gets its key.
async fn walk_machine_login(walk: &mut Walk<'_>) {
    let path = "/auth/console/machine_login";
    let code = machine_login::code(walk.app, &walk.token).await;
    let made = machine_login::redeem(walk.app, &code, machine_login::VERIFIER).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let newest = rows(walk.app, "SELECT action FROM audit_log ORDER BY seq DESC LIMIT 1").await;
    assert_eq!(newest, ["api_key.created"]);
    walk.walked.insert(("POST".to_owned(), path.to_owned()));
}

async fn walk_records(walk: &mut Walk<'_>) {
    use Method as M;
    let key = walk.call((M::POST, "/v1/api_keys"), &[], json!({}), "api_key.created").await;
    let key = id(&key, "/api_key/id");
    let path = "/v1/api_keys/{key_id}";
    walk.call((M::PATCH, path), &[&key], json!({"name": "new"}), "api_key.updated").await;
    walk.call((M::POST, "/v1/api_keys/{key_id}/rotate"), &[&key], json!({}), "api_key.rotated").await;
    walk.call((M::DELETE, path), &[&key], Value::Null, "api_key.revoked").await;

    let path = "/v1/signals/{key}";
    let signal = json!({"type": "noul", "instructions": "Is it rude?"});
    walk.call((M::PUT, path), &["is_rude"], signal, "signal.updated").await;
    let restore = "/v1/signals/{key}/versions/{version}/restore";
    walk.call((M::POST, restore), &["is_rude", "1"], Value::Null, "signal.updated").await;

    let rule =
        json!({"when": "is_rude > 0.5", "action_type": "email", "action_config": {"to": "ann@example.com"}});
    let rule = walk.call((M::POST, "/v1/rules"), &[], rule, "rule.created").await;
    let (rule, path) = (id(&rule, "/id"), "/v1/rules/{rule_id}");
    walk.call((M::PATCH, path), &[&rule], json!({"name": "Rude"}), "rule.updated").await;
    walk.call((M::DELETE, path), &[&rule], Value::Null, "rule.deleted").await;
    walk_quality(walk).await;
    walk.call((M::DELETE, "/v1/signals/{key}"), &["is_rude"], Value::Null, "signal.deleted").await;

    let endpoint = json!({"url": "https://127.0.0.1/hook"});
    let endpoint = walk.call((M::POST, "/v1/webhooks"), &[], endpoint, "webhook.created").await;
    let (endpoint, path) = (id(&endpoint, "/endpoint/id"), "/v1/webhooks/{endpoint_id}");
    walk.call((M::PATCH, path), &[&endpoint], json!({"enabled": false}), "webhook.updated").await;
    let rotate = "/v1/webhooks/{endpoint_id}/rotate_secret";
    walk.call((M::POST, rotate), &[&endpoint], json!({}), "webhook.rotated").await;
    walk.call((M::DELETE, path), &[&endpoint], Value::Null, "webhook.deleted").await;

    let settings = json!({"auto_backfill_signals": true});
    walk.call((M::PATCH, "/v1/settings"), &[], settings, "settings.updated").await;
    let events = json!({"events": [{"type": "event", "name": "signup"}]});
    let reply = walk.app.call(&walk.token, M::POST, "/v1/objects/o1/events", &events).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    walk.call((M::DELETE, "/v1/objects/{object_id}"), &["o1"], Value::Null, "object.deleted").await;
}

/// Fits a calibration of a signal to labels, switches it on, and adopts another wording.
async fn walk_quality(walk: &mut Walk<'_>) {
    use Method as M;
    let mut labels = Vec::new();
    for number in 0..50 {
        let events = json!({"wait": true, "events": [{"type": "event", "name": "seen"}]});
        let path = format!("/v1/objects/q{number}/events");
        assert_eq!(walk.app.call(&walk.token, M::POST, &path, &events).await.status, 200);
        labels
            .push(json!({"object_id": format!("q{number}"), "signal": "is_rude", "value": number % 2 == 0}));
    }
    let given = walk.app.call(&walk.token, M::POST, "/v1/labels", &json!({"labels": labels})).await;
    assert_eq!(given.json()["accepted"], 50, "{}", given.text);
    let path = "/v1/signals/{key}/calibrations";
    let fitted = walk.call((M::POST, path), &["is_rude"], Value::Null, "calibration.fitted").await;
    let calibration = json!({"id": id(&fitted, "/id")});
    let path = "/v1/signals/{key}/calibration";
    walk.call((M::PUT, path), &["is_rude"], calibration, "calibration.switched").await;
    let path = "/v1/signals/{key}/escalation";
    walk.call((M::PUT, path), &["is_rude"], json!({"band": null}), "escalation.updated").await;
    let trial = json!({"instructions": "Is it impolite?", "over": "labelled", "limit": 1});
    let started = walk.app.call(&walk.token, M::POST, "/v1/signals/is_rude/trials", &trial).await;
    let trial = id(&started, "/trial/id");
    let path = format!("/v1/signals/is_rude/trials/{trial}");
    until("the trial is done", async || {
        walk.app.call(&walk.token, M::GET, &path, &Value::Null).await.json()["status"] == "done"
    })
    .await;
    let path = "/v1/signals/{key}/trials/{trial_id}/adopt";
    walk.call((M::POST, path), &["is_rude", &trial], Value::Null, "signal.updated").await;
}

async fn walk_members(walk: &mut Walk<'_>) {
    use Method as M;
    let path = "/v1/account/deletion";
    let body = json!({"tenant_name": "Acme"});
    walk.call((M::POST, path), &[], body, "account.deletion_requested").await;
    walk.call((M::DELETE, path), &[], Value::Null, "account.deletion_cancelled").await;
    let member = join(walk.app, &walk.token, "bob@example.com", "viewer").await;
    let bob = id(&whoami(walk.app, &member).await, "/user_id");
    let guest = json!({"email": "cleo@example.com", "role": "viewer"});
    let made = walk.call((M::POST, "/v1/invitations"), &[], guest, "invitation.created").await;
    let path = "/v1/invitations/{invitation_id}";
    walk.call((M::DELETE, path), &[&id(&made, "/id")], Value::Null, "invitation.withdrawn").await;
    let path = "/v1/members/{user_id}";
    walk.call((M::PATCH, path), &[&bob], json!({"role": "admin"}), "member.updated").await;
    // What ends with another change has a line of its own.
    let guest = async |email: &str| assert_eq!(invite(walk.app, &member, email, "viewer").await.status, 201);
    guest("dan@example.com").await;
    guest("Dan@example.com").await;
    walk.wrote(&["invitation.created", "invitation.withdrawn", "invitation.created"]).await;
    walk.app.api_key(&member).await;
    walk.call((M::PATCH, path), &[&bob], json!({"role": "viewer"}), "member.updated").await;
    walk.wrote(&["api_key.created", "invitation.withdrawn", "member.updated"]).await;
    walk.call((M::PATCH, path), &[&bob], json!({"role": "admin"}), "member.updated").await;
    let guest = async |email: &str| assert_eq!(invite(walk.app, &member, email, "viewer").await.status, 201);
    guest("eli@example.com").await;
    walk.app.api_key(&member).await;
    let removal = format!("{bob}?revoke_keys=true");
    walk.call((M::DELETE, path), &[&removal], Value::Null, "member.removed").await;
    walk.wrote(&["api_key.revoked", "api_key.revoked", "invitation.withdrawn", "member.removed"]).await;
}

async fn walk_sign_in(walk: &mut Walk<'_>, stage: &Providers) {
    use Method as M;
    stage.person("google", 1, "ann@example.com", true).await;
    let path = "/v1/me/identities/{provider}";
    let proof = stage.proof("google", 1).await;
    walk.call((M::POST, path), &["google"], proof, "identity.linked").await;
    walk.call((M::DELETE, path), &["google"], Value::Null, "identity.unlinked").await;

    let options = walk.app.call(&walk.token, M::POST, "/v1/me/passkeys/start", &Value::Null).await.json();
    let answer = testkit::Authenticator::p256("https://example.test", 1).create(&options);
    let added = walk.call((M::POST, "/v1/me/passkeys/finish"), &[], answer, "passkey.added").await;
    let (path, passkey) = ("/v1/me/passkeys/{passkey_id}", id(&added, "/id"));
    let renamed = json!({"name": "Phone"});
    walk.call((M::PATCH, path), &[&passkey], renamed, "passkey.renamed").await;
    walk.call((M::DELETE, path), &[&passkey], Value::Null, "passkey.removed").await;

    let phone = two_factor::setup(walk.app, &walk.token).await;
    let code = json!({"code": phone.code(walk.app)});
    walk.call((M::POST, "/v1/me/mfa/enable"), &[], code, "mfa.enabled").await;
    walk.app.advance(Duration::from_mins(1));
    let code = json!({"code": phone.code(walk.app), "password": PASSWORD});
    walk.call((M::POST, "/v1/me/mfa/disable"), &[], code, "mfa.disabled").await;
    walk_machine_login(walk).await;

    let body = json!({"current_password": PASSWORD, "new_password": NEW_PASSWORD});
    let changed = walk.call((M::POST, "/v1/me/password"), &[], body, "password.changed").await;
    walk.token = id(&changed, "/token");
    for _ in 0..2 {
        login(walk.app, "ann@example.com", NEW_PASSWORD).await;
    }
    let listed = walk.app.call(&walk.token, M::GET, "/v1/me/sessions", &Value::Null).await.json();
    let other = listed["sessions"].as_array().unwrap().iter().find(|session| session["current"] == false);
    let other = other.unwrap()["id"].as_str().unwrap().to_owned();
    walk.call((M::DELETE, "/v1/me/sessions/{session_id}"), &[&other], Value::Null, "session.ended").await;
    walk.call((M::DELETE, "/v1/me/sessions"), &[], Value::Null, "session.ended").await;
    walk.call((M::POST, "/auth/console/logout"), &[], Value::Null, "session.ended").await;
}

async fn a_line_says_who_did_what_from_where(app: &App) {
    let token = app.register("ann@example.com").await;
    let me = whoami(app, &token).await.json();
    let request =
        app.request(Method::PATCH, "/v1/settings").bearer_auth(&token).header("x-request-id", "r-1");
    app.send(request.json(&json!({"auto_backfill_signals": true}))).await;
    let line = &entries(app, &token, "").await[0];
    let before = json!({"auto_backfill_signals": false, "event_retention": "forever", "event_retention_days": null,
            "audit_rate_pct": 0.0, "audit_queue": "audit"});
    let after = json!({"auto_backfill_signals": true, "event_retention": "forever", "event_retention_days": null,
            "audit_rate_pct": 0.0, "audit_queue": "audit"});
    assert_eq!(
        *line,
        json!({"id": line["id"], "at": app.now(), "actor": {"kind": "user", "id": me["user_id"], "name": "ann@example.com"},
               "action": "settings.updated", "target": {"kind": "settings", "id": me["tenant_id"]}, "address": "127.0.0.1",
               "request_id": "r-1", "before": before, "after": after})
    );
    let key = app.call(&token, Method::POST, "/v1/api_keys", &json!({"name": "shop"})).await.json();
    let signer = crate::signer::Signer::new(key["key"].as_str().unwrap(), key["secret"].as_str().unwrap());
    signer.call(app, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await;
    let line = &entries(app, &token, "").await[0];
    assert_eq!(line["actor"], json!({"kind": "key", "id": key["api_key"]["id"], "name": "shop"}));
    assert_eq!(line["target"], json!({"kind": "signal", "id": "is_scammer"}));
    assert_eq!((&line["before"]["type"], line.get("after")), (&json!("noul"), None));
    for question in ["Is it rude?", "Is it impolite?"] {
        let signal = json!({"type": "noul", "instructions": question});
        let put = app.call(&token, Method::PUT, "/v1/signals/is_rude", &signal).await;
        assert!(put.status.is_success(), "{}", put.text);
    }
    let line = &entries(app, &token, "").await[0];
    for (side, version, question) in [("before", 1, "Is it rude?"), ("after", 2, "Is it impolite?")] {
        let shown = &line[side];
        assert_eq!((&shown["version"], &shown["calibration"]), (&json!(version), &Value::Null), "{line}");
        assert_eq!(shown["instructions"], question);
    }
    let events = json!({"object_type": "user",
        "events": [{"type": "event", "name": "signup", "metadata": {"name": "Eve"}}]});
    assert_eq!(app.call(&token, Method::POST, "/v1/objects/o1/events", &events).await.status, 202);
    assert_eq!(app.call(&token, Method::DELETE, "/v1/objects/o1", &Value::Null).await.status, 204);
    let line = &entries(app, &token, "").await[0];
    let before = json!({"object_type": "user", "display_name": "Eve", "events": 1, "labels": 0, "reviews": 0, "firings": 0});
    assert_eq!((&line["action"], &line["before"]), (&json!("object.deleted"), &before));
}

async fn a_deletion_in_steps_is_one_line(app: &App) {
    let token = app.register("ann@example.com").await;
    let events = json!({"events": vec![json!({"type": "message", "content": "hi"}); 500]});
    for _ in 0..21 {
        assert_eq!(app.call(&token, Method::POST, "/v1/objects/o1/events", &events).await.status, 202);
    }
    assert_eq!(app.call(&token, Method::DELETE, "/v1/objects/o1", &Value::Null).await.status, 204);
    let lines = entries(app, &token, "&action=object.deleted").await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["before"]["events"], 10_500);
    assert_eq!(app.call(&token, Method::GET, "/v1/objects/o1", &Value::Null).await.status, 404);
}

async fn secrets_are_left_out(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.call(&token, Method::POST, "/v1/api_keys", &json!({})).await.json();
    let hook = json!({"url": "http://127.0.0.1:9/hook?token=hush"});
    let hook = app.call(&token, Method::POST, "/v1/webhooks", &hook).await.json();
    let rule = json!({"when": "is_scammer > 0.5", "action_type": "slack",
                      "action_config": {"webhook_url": "http://127.0.0.1:9/services/hush"}});
    let reply = app.call(&token, Method::POST, "/v1/rules", &rule).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let log = json!(entries(app, &token, "").await).to_string();
    for secret in
        ["hush", key["secret"].as_str().unwrap(), hook["secret"].as_str().unwrap(), PASSWORD, &token]
    {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    assert!(log.contains("http://127.0.0.1:9"), "{log}");
}

async fn a_refused_change_leaves_no_line(app: &App) {
    let token = app.register("ann@example.com").await;
    let lines = entries(app, &token, "").await.len();
    for (method, path, body) in [
        (Method::DELETE, "/v1/objects/none", Value::Null),
        (Method::DELETE, "/v1/signals/none", Value::Null),
        (Method::DELETE, "/v1/webhooks/00000000-0000-0000-0000-000000000007", Value::Null),
        (Method::DELETE, "/v1/rules/00000000-0000-0000-0000-000000000007", Value::Null),
        (Method::PATCH, "/v1/api_keys/00000000-0000-0000-0000-000000000007", json!({"name": "x"})),
        (Method::PATCH, "/v1/settings", json!({"event_retention": "days"})),
    ] {
        let reply = app.call(&token, method, path, &body).await;
        assert!(reply.status.is_client_error(), "{path}: {}", reply.text);
    }
    assert_eq!(entries(app, &token, "").await.len(), lines);
}

async fn the_log_is_searched_and_paged(app: &App) {
    let token = app.register("ann@example.com").await;
    let member = join(app, &token, "bob@example.com", "admin").await;
    let bob = id(&whoami(app, &member).await, "/user_id");
    for on in [true, false, true] {
        let body = json!({"auto_backfill_signals": on});
        app.call(&member, Method::PATCH, "/v1/settings", &body).await;
    }
    let all = entries(app, &token, "").await;
    let of_bob = entries(app, &token, &format!("&actor={bob}")).await;
    assert_eq!(of_bob.len(), 5, "joined, signed in, and three changes: {of_bob:?}");
    assert_eq!(entries(app, &token, "&action=settings.updated").await.len(), 3);
    assert_eq!(entries(app, &token, &format!("&actor={bob}&action=session.opened")).await.len(), 1);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let reply =
            app.call(&token, Method::GET, &format!("{LOG}?limit=2{cursor}"), &Value::Null).await.json();
        paged.extend(reply["entries"].as_array().unwrap().clone());
        let Some(next) = reply["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, all);
    for query in ["limit=0", "limit=201", "action=nothing", "actor=ann", "cursor=nonsense"] {
        let reply = app.call(&token, Method::GET, &format!("{LOG}?{query}"), &Value::Null).await;
        reply.refused(400, "bad_request");
    }
    let foreign = format!("{LOG}?action=settings.updated{cursor}");
    app.call(&token, Method::GET, &foreign, &Value::Null).await.refused(400, "bad_request");
}

async fn nobody_reads_another_account_s_log(app: &App) {
    let (ann, eve) = (app.register("ann@example.com").await, app.register("eve@example.com").await);
    let of_ann = id(&whoami(app, &ann).await, "/user_id");
    assert_eq!(entries(app, &eve, &format!("&actor={of_ann}")).await, Vec::<Value>::new());
    assert_eq!(entries(app, &eve, "").await.len(), 1);
}

async fn what_the_operator_does_is_recorded(app: &App) {
    let token = app.register("ann@example.com").await;
    let tenant = tenant_of(app, &token).await;
    // Neither sends a mail, which would be due by the real clock of the command.
    let import = ["key", "import-legacy", "--tenant", &tenant, "--name", "from the shell"];
    admin(app, &import, "an-old-long-key-0123456789");
    admin(app, &["user", "create", "--tenant", &tenant, "bob@example.com", "--role", "viewer"], PASSWORD);
    let lines = entries(app, &token, "").await;
    assert_eq!(lines[0]["actor"], json!({"kind": "operator", "name": "operator"}));
    assert_eq!(
        (&lines[0]["action"], &lines[0]["after"]["role"]),
        (&json!("member.joined"), &json!("viewer"))
    );
    assert_eq!(
        (&lines[1]["action"], &lines[1]["after"]["name"]),
        (&json!("api_key.created"), &json!("from the shell"))
    );
    assert_eq!(lines[0].get("address"), None);
}

/// A service that keeps its log for a week.
struct Forgetful(App);

staged! {
    Forgetful: &[("AUSPEX_AUDIT_DAYS", "7")];
}

async fn old_lines_are_swept_and_the_rest_can_be_checked(app: &Forgetful) {
    app.register("ann@example.com").await;
    for _ in 0..8 {
        app.advance(DAY);
        sign_in(app, "ann@example.com").await;
    }
    app.heart_has_beaten().await;
    app.advance(Duration::from_mins(11));
    app.sweeper_has_swept().await;
    let left = rows(app, "SELECT cast(seq as text) FROM audit_log ORDER BY seq LIMIT 1").await;
    assert_eq!(left, ["3"], "the lines of the first two days are gone");
    let output = check(app);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("audit logs with 7 lines"), "{output:?}");
}

#[test]
fn every_action_has_a_kind_and_a_name_of_its_own() {
    let names: BTreeSet<&str> = AuditAction::ALL.map(AuditAction::as_str).into();
    assert_eq!(names.len(), AuditAction::ALL.len());
    for action in AuditAction::ALL {
        assert_eq!(serde_json::to_value(action).unwrap(), action.as_str());
        assert!(action.as_str().starts_with(&format!("{}.", action.target_kind())));
    }
}

async fn a_reset_password_and_a_first_proof_are_recorded(stage: &Providers) {
    let app = &stage.app;
    let squatter = app.register("ann@example.com").await;
    app.api_key(&squatter).await;
    stage.reset_password("ann@example.com", NEW_PASSWORD).await;
    let reply = stage.log_in("ann@example.com", NEW_PASSWORD).await;
    let token = id(&reply, "/token");
    let proved = entries(app, &token, "&action=address.proved").await;
    assert_eq!(proved.len(), 1);
    let me = whoami(app, &token).await.json();
    assert_eq!(proved[0]["actor"]["id"], me["user_id"]);
    assert_eq!(proved[0]["target"], json!({"kind": "address", "id": me["user_id"]}));
    assert!(proved[0]["address"].is_string() && proved[0]["request_id"].is_string(), "{}", proved[0]);
    let ended = &proved[0]["after"]["ended"];
    assert_eq!((&ended["keys"], &ended["sessions"]), (&json!(1), &json!(1)), "{ended}");
    assert_eq!(entries(app, &token, "&action=password.reset").await.len(), 1);
}
