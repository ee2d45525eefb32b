//! The chain of the audit log: whatever is altered, added or removed behind the service's back is noticed.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;

use crate::admin::{admin, auspex, finish};
use crate::app::App;
use crate::login::sign_in;
use crate::registration::rows;

testkit::on_both!(
    an_altered_line_is_noticed_whatever_its_column,
    an_altered_chain_is_noticed,
    an_account_that_has_lost_its_chain_is_noticed,
);

/// `auspex admin audit` on the database of this service.
pub(crate) fn check(app: &App) -> std::process::Output {
    let directory = app.data_directory();
    finish(auspex(directory.parent().unwrap(), app.database_url(), &["admin", "audit"]), b"")
}

/// Changes the database behind the service's back.
async fn change(app: &App, statement: &'static str) {
    let database = store::Database::connect(app.database_url()).await.unwrap();
    match &database {
        store::Database::Sqlite { writer, .. } => sqlx::raw_sql(statement).execute(writer).await.map(drop),
        store::Database::Postgres(pool) => sqlx::raw_sql(statement).execute(pool).await.map(drop),
    }
    .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

fn is_noticed(app: &App, complaint: &str, what: &str) {
    let output = check(app);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains(complaint), "{what}: {printed}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("1 accounts were altered"), "{what}: {said}");
}

fn is_unaltered(app: &App, lines: usize) {
    let output = check(app);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains(&format!("audit logs with {lines} lines are unaltered")), "{printed}");
}

/// An account with five lines, of which the third is a change with before and after.
async fn with_lines(app: &App) {
    let token = app.register("ann@example.com").await;
    sign_in(app, "ann@example.com").await;
    let settings = json!({"auto_backfill_signals": true});
    assert_eq!(app.call(&token, Method::PATCH, "/v1/settings", &settings).await.status, 200);
    for _ in 0..2 {
        sign_in(app, "ann@example.com").await;
    }
    change(app, "CREATE TABLE kept AS SELECT * FROM audit_log").await;
    change(app, "CREATE TABLE kept_chains AS SELECT * FROM audit_chains").await;
}

async fn restore(app: &App) {
    change(app, "DELETE FROM audit_log; INSERT INTO audit_log SELECT * FROM kept").await;
    change(app, "DELETE FROM audit_chains; INSERT INTO audit_chains SELECT * FROM kept_chains").await;
}

const ALTERED: &str = "line 3 is not what was written";
const MISSING: &str = "line 3 is missing";
const LATER_ON_POSTGRES: &str = "UPDATE audit_log SET at = at + interval '1 second' WHERE seq = 3";
const LATER_ON_SQLITE: &str = "UPDATE audit_log SET at = at + 1000000 WHERE seq = 3";

async fn an_altered_line_is_noticed_whatever_its_column(app: &App) {
    with_lines(app).await;
    is_unaltered(app, 5);
    let columns = [
        ("tenant_id", "UPDATE audit_log SET tenant_id = entry_id WHERE seq = 3", MISSING),
        ("seq", "UPDATE audit_log SET seq = 10 WHERE seq = 3", MISSING),
        (
            "entry_id",
            "UPDATE audit_log SET entry_id = (SELECT entry_id FROM kept WHERE seq = 4) WHERE seq = 3",
            ALTERED,
        ),
        ("actor_kind", "UPDATE audit_log SET actor_kind = 'operator' WHERE seq = 3", ALTERED),
        ("actor_id", "UPDATE audit_log SET actor_id = entry_id WHERE seq = 3", ALTERED),
        ("actor_name", "UPDATE audit_log SET actor_name = 'eve@example.com' WHERE seq = 3", ALTERED),
        ("action", "UPDATE audit_log SET action = 'session.ended' WHERE seq = 3", ALTERED),
        ("target_kind", "UPDATE audit_log SET target_kind = 'session' WHERE seq = 3", ALTERED),
        ("target_id", "UPDATE audit_log SET target_id = 'another' WHERE seq = 3", ALTERED),
        ("address", "UPDATE audit_log SET address = '203.0.113.9' WHERE seq = 3", ALTERED),
        ("request_id", "UPDATE audit_log SET request_id = NULL WHERE seq = 3", ALTERED),
        ("before", "UPDATE audit_log SET before = NULL WHERE seq = 3", ALTERED),
        ("after", "UPDATE audit_log SET after = before WHERE seq = 3", ALTERED),
        ("hash", "UPDATE audit_log SET hash = (SELECT hash FROM kept WHERE seq = 4) WHERE seq = 3", ALTERED),
    ];
    for (column, statement, complaint) in columns {
        change(app, statement).await;
        is_noticed(app, complaint, column);
        restore(app).await;
    }
    let is_postgres = app.database_url().starts_with("postgres");
    change(app, if is_postgres { LATER_ON_POSTGRES } else { LATER_ON_SQLITE }).await;
    is_noticed(app, ALTERED, "at");
    restore(app).await;
    is_unaltered(app, 5);

    let altered: BTreeSet<String> =
        columns.iter().map(|(column, ..)| *column).chain(["at"]).map(str::to_owned).collect();
    let all = if is_postgres {
        "SELECT column_name::text FROM information_schema.columns WHERE table_name = 'audit_log'"
    } else {
        "SELECT name FROM pragma_table_info('audit_log')"
    };
    let all: BTreeSet<String> = rows(app, all).await.into_iter().collect();
    assert_eq!(altered, all, "every column");
}

async fn an_altered_chain_is_noticed(app: &App) {
    with_lines(app).await;
    for (what, statement, complaint) in [
        ("seq", "UPDATE audit_chains SET seq = 6", "the log ends at line 5, and 6 were written"),
        (
            "hash",
            "UPDATE audit_chains SET hash = (SELECT hash FROM kept WHERE seq = 4)",
            "the log ends at line 5",
        ),
        ("swept_seq", "UPDATE audit_chains SET swept_seq = 1", "line 2 is not what was written"),
        (
            "swept_hash",
            "UPDATE audit_chains SET swept_hash = (SELECT hash FROM kept WHERE seq = 1)",
            "line 1 is not what was written",
        ),
        (
            "tenant_id",
            "UPDATE audit_chains SET tenant_id = (SELECT entry_id FROM kept WHERE seq = 1)",
            "its chain is gone",
        ),
        (
            "its last lines",
            "DELETE FROM audit_log WHERE seq > 3",
            "the log ends at line 3, and 5 were written",
        ),
        ("all lines", "DELETE FROM audit_log", "the log ends at line 0, and 5 were written"),
    ] {
        change(app, statement).await;
        is_noticed(app, complaint, what);
        restore(app).await;
    }
    is_unaltered(app, 5);
}

async fn an_account_that_has_lost_its_chain_is_noticed(app: &App) {
    with_lines(app).await;
    change(app, "DELETE FROM audit_chains").await;
    is_noticed(app, "its chain is gone", "the chain");
    change(app, "DELETE FROM audit_log").await;
    is_noticed(app, "its chain is gone", "all of it");
    restore(app).await;
    is_unaltered(app, 5);
    // One that nobody has signed in to has its chain already.
    admin(app, &["tenant", "create", "Bare"], "");
    is_unaltered(app, 5);
    change(app, "DELETE FROM audit_chains WHERE seq = 0").await;
    is_noticed(app, "its chain is gone", "a chain without lines");
}
