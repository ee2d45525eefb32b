//! What was deleted, or has outlived its retention, is in no file of the database any more.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use store::Backend;
use testkit::Stage as _;

use crate::app::App;
use crate::scripted_analyzer::until;
use crate::signer::Signer;

/// What deleted objects said, what people noted about them, and what events said that have outlived their retention. Long, so that
/// they fill pages.
const DELETED: &str = "canary-of-what-was-deleted";
const NOTED: &str = "canary-of-what-people-noted";
const EXPIRED: &str = "canary-of-what-has-expired";
const DAY: Duration = Duration::from_hours(24);

async fn account(app: &App, email: &str, settings: &Value) -> Signer {
    let key = app.api_key(&app.register(email).await).await;
    assert_eq!(key.call(app, Method::PATCH, "/v1/settings", settings).await.status, 200);
    key
}

/// Records a few objects whose events repeat `canary`.
async fn record(app: &App, key: &Signer, canary: &str) {
    for number in 0..6 {
        let text = format!("{canary} ").repeat(60);
        let events: Vec<Value> =
            (0..8).map(|_| json!({"type": "message", "content": text, "metadata": {"note": text}})).collect();
        let path = format!("/v1/objects/user_{number}/events");
        let reply = key.call(app, Method::POST, &path, &json!({"events": events})).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
    app.advance(Duration::from_secs(3));
    app.settle().await;
}

/// Labels and reviews the objects, with notes and decisions that repeat `canary`.
async fn judge(app: &App, key: &Signer, canary: &str) {
    let note = format!("{canary} ").repeat(60);
    for number in 0..6 {
        let object = format!("user_{number}");
        let path = format!("/v1/objects/{object}/labels/is_scammer");
        let labelled = key.call(app, Method::PUT, &path, &json!({"value": true, "note": note})).await;
        assert!(labelled.status.is_success(), "{}", labelled.text);
        let review = json!({"object_id": object, "queue": "new"});
        let review = key.call(app, Method::POST, "/v1/reviews", &review).await;
        assert_eq!(review.status, 201, "{}", review.text);
        let path = format!("/v1/reviews/{}/resolve", review.json()["id"].as_str().unwrap());
        let decision = json!({"decision": canary, "note": note, "labels": {"is_scammer": false}});
        let resolved = key.call(app, Method::POST, &path, &decision).await;
        assert_eq!(resolved.status, 200, "{}", resolved.text);
    }
}

/// Whether the text is anywhere in the database: in the bytes of SQLite's files, in the rows of PostgreSQL's tables.
async fn is_kept(app: &App, text: &str) -> bool {
    let Some(file) = app.database_url().strip_prefix("sqlite:") else {
        return is_in_a_table(app.database_url(), text).await;
    };
    let folder = Path::new(file).parent().unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(!files.is_empty());
    files.iter().any(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

async fn is_in_a_table(url: &str, text: &str) -> bool {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let tables: Vec<(String,)> = sqlx::query_as(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    let mut found = false;
    for (table,) in tables {
        let count = format!("SELECT count(*) FROM {table} AS t WHERE strpos(t::text, $1) > 0");
        let (rows,): (i64,) =
            sqlx::query_as(AssertSqlSafe(count)).bind(text).fetch_one(&mut connection).await.unwrap();
        found |= rows > 0;
    }
    found
}

async fn what_is_deleted_is_in_no_file(backend: Backend) {
    let mut app = App::start(backend, &[]).await;
    let ann = account(&app, "ann@example.com", &json!({"event_retention": "forever"})).await;
    let days = json!({"event_retention": "days", "event_retention_days": 1});
    let bob = account(&app, "bob@example.com", &days).await;
    record(&app, &ann, DELETED).await;
    judge(&app, &ann, NOTED).await;
    record(&app, &bob, EXPIRED).await;
    for canary in [DELETED, NOTED, EXPIRED] {
        assert!(is_kept(&app, canary).await, "the scan finds what is there: {canary}");
    }
    for number in 0..6 {
        let path = format!("/v1/objects/user_{number}");
        assert_eq!(ann.call(&app, Method::DELETE, &path, &Value::Null).await.status, 204);
    }
    app.advance(DAY + DAY);
    // A clock that nobody has watched yet is not believed.
    until("what has expired is swept", async || {
        app.sweeper_has_swept().await;
        let listed = bob.call(&app, Method::GET, "/v1/objects/user_0/events", &Value::Null).await.json();
        listed["events"] == json!([])
    })
    .await;
    // The journal of SQLite has older pages until it is written back, at the latest when the service stops.
    app.restart(&[]).await;
    assert!(!is_kept(&app, DELETED).await, "what was deleted is still in a file");
    assert!(!is_kept(&app, NOTED).await, "what was noted about it is still in a file");
    assert!(!is_kept(&app, EXPIRED).await, "what has expired is still in a file");
    app.tear_down().await;
}

#[test]
fn what_is_deleted_is_in_no_file_of_sqlite() {
    testkit::in_runtime(what_is_deleted_is_in_no_file(Backend::Sqlite));
}

#[test]
fn what_is_deleted_is_in_no_table_of_postgres() {
    testkit::in_runtime(what_is_deleted_is_in_no_file(Backend::Postgres));
}
