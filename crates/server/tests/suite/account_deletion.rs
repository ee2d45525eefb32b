//! An owner asks for the deletion of the account, and has a week to think again.

use std::time::Duration;

use model::TenantId;
use reqwest::Method;
use serde_json::{Value, json};
use service::Kind;
use store::Conn;
use store::accounts::tenants::{self, Tenant};

use crate::app::{App, Reply};
use crate::keys::caller_of;
use crate::login::{DAY, LOGIN, QUARTER, sign_in, whoami};
use crate::members::join;
use crate::registration::rows;
use crate::scripted_analyzer::until;
use crate::signer::Signer;

const PATH: &str = "/v1/account/deletion";
const WILL_GO: &str = "Your account will be deleted";
const STAYS: &str = "Your account stays";

testkit::on_both!(
    an_account_is_gone_after_a_week,
    a_deletion_is_taken_back,
    a_deletion_that_was_taken_back_meanwhile_does_not_begin,
    a_deletion_that_has_begun_is_not_taken_back,
    only_an_owner_with_recent_proof_asks_for_it,
);

pub(crate) async fn ask(app: &App, token: &str, name: &str) -> Reply {
    app.call(token, Method::POST, PATH, &json!({"tenant_name": name})).await
}

async fn cancel(app: &App, token: &str) -> Reply {
    app.call(token, Method::DELETE, PATH, &Value::Null).await
}

/// Lets the sweeper run some minutes later, by a clock that it trusts.
pub(crate) async fn sweep(app: &App) {
    app.heart_has_beaten().await;
    app.advance(Duration::from_mins(11));
    app.sweeper_has_swept().await;
}

/// Waits until a key is refused with this status: credentials are cached for less than a second.
async fn refused_with(app: &App, key: &Signer, status: u16) {
    until(&format!("the key is refused with {status}"), async || {
        key.call(app, Method::GET, "/v1/me", &Value::Null).await.status == status
    })
    .await;
}

async fn an_account_is_gone_after_a_week(app: &App) {
    let (ann, eve) = (app.register("ann@example.com").await, app.register("eve@example.com").await);
    let key = app.api_key(&ann).await;
    let reply = ask(app, &ann, "Acme").await;
    let at = app.now() + 7 * DAY;
    assert_eq!((reply.status.as_u16(), reply.json()), (202, json!({"deletes_at": at})));
    assert!(app.subjects_to("ann@example.com").await.contains(&WILL_GO.to_owned()));
    let me = key.call(app, Method::GET, "/v1/me", &Value::Null).await.json();
    assert_eq!(me["deletes_at"], json!(at), "everybody of the account can read it");
    app.advance(DAY);
    let ann = sign_in(app, "ann@example.com").await;
    assert_eq!(
        ask(app, &ann, "Acme").await.json(),
        json!({"deletes_at": at}),
        "asking again changes nothing"
    );
    app.advance(6 * DAY - Duration::from_mins(20));
    sweep(app).await;
    assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200, "until the last minute");
    sweep(app).await;
    refused_with(app, &key, 403).await;
    sweep(app).await;
    refused_with(app, &key, 401).await;
    let body = json!({"email": "ann@example.com", "password": crate::app::PASSWORD});
    app.post(LOGIN, &body).await.refused(401, "unauthorized");
    assert_eq!(rows(app, "SELECT email FROM users").await, ["eve@example.com"]);
    assert_eq!(rows(app, "SELECT cast(count(*) as text) FROM ledger_sums").await, ["1"], "the sums stay");
    sign_in(app, "eve@example.com").await;
    whoami(app, &eve).await.refused(401, "unauthorized");
}

async fn a_deletion_is_taken_back(app: &App) {
    let ann = app.register("ann@example.com").await;
    cancel(app, &ann).await.refused(404, "not_found");
    assert_eq!(ask(app, &ann, "Acme").await.status, 202);
    assert_eq!(app.subjects_to("ann@example.com").await, [WILL_GO]);
    app.advance(Duration::from_secs(1));
    assert_eq!(cancel(app, &ann).await.status, 204);
    cancel(app, &ann).await.refused(404, "not_found");
    assert_eq!(app.subjects_to("ann@example.com").await, [WILL_GO, STAYS]);
    app.advance(8 * DAY);
    sweep(app).await;
    sweep(app).await;
    sign_in(app, "ann@example.com").await;
}

/// An account as the sweeper reads it.
async fn account(app: &App, tenant: TenantId) -> Tenant {
    let service = app.service();
    let found = service.store().read("tenant", async |conn: &mut Conn| tenants::find(conn, tenant).await);
    found.await.unwrap().unwrap()
}

async fn a_deletion_that_was_taken_back_meanwhile_does_not_begin(app: &App) {
    let ann = app.register("ann@example.com").await;
    let service = app.service();
    let closure = &service.accounts.closure;
    let tenant = caller_of(app, &ann).await.tenant;
    assert_eq!(ask(app, &ann, "Acme").await.status, 202);
    let asked = account(app, tenant).await;
    assert_eq!(cancel(app, &ann).await.status, 204);
    closure.delete_as_asked(&asked).await.unwrap();
    let kept = account(app, tenant).await;
    assert_eq!((kept.suspended_at, kept.deleting_at, kept.deletion_at), (None, None, None));
    // Asked for again, it is due a week later.
    assert_eq!(ask(app, &ann, "Acme").await.status, 202);
    closure.delete_as_asked(&asked).await.unwrap();
    let kept = account(app, tenant).await;
    assert_eq!((kept.suspended_at, kept.deleting_at), (None, None));
    assert_eq!(whoami(app, &ann).await.status, 200);
}

async fn a_deletion_that_has_begun_is_not_taken_back(app: &App) {
    let ann = app.register("ann@example.com").await;
    assert_eq!(ask(app, &ann, "Acme").await.status, 202);
    app.advance(7 * DAY - Duration::from_mins(5));
    let ann = sign_in(app, "ann@example.com").await;
    // A request that got in just before everybody was shut out.
    let caller = caller_of(app, &ann).await;
    app.advance(Duration::from_mins(6));
    let due = account(app, caller.tenant).await;
    let service = app.service();
    service.accounts.closure.delete_as_asked(&due).await.unwrap();
    let refused = service.accounts.deletions.cancel(caller).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Suspended);
}

async fn only_an_owner_with_recent_proof_asks_for_it(app: &App) {
    let owner = app.register("ann@example.com").await;
    let second = join(app, &owner, "bob@example.com", "owner").await;
    let admin = join(app, &owner, "cleo@example.com", "admin").await;
    for name in ["", "acme", "Acme Ltd", "Ac me"] {
        let message = ask(app, &owner, name).await.refused(400, "bad_request");
        assert!(message.starts_with("tenant_name: "), "{message}");
    }
    ask(app, &admin, "Acme").await.refused(403, "forbidden");
    cancel(app, &admin).await.refused(403, "forbidden");
    assert_eq!(ask(app, &owner, "Acme").await.status, 202);
    assert!(app.subjects_to("bob@example.com").await.contains(&WILL_GO.to_owned()));
    assert!(!app.subjects_to("cleo@example.com").await.contains(&WILL_GO.to_owned()));
    app.advance(QUARTER + Duration::from_secs(1));
    cancel(app, &second).await.refused(403, "reauthentication_required");
    app.reauthenticate(&second).await;
    assert_eq!(cancel(app, &second).await.status, 204, "by any owner");
    ask(app, &owner, "Acme").await.refused(403, "reauthentication_required");
}
