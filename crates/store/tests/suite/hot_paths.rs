//! Statements that run all the time, or over tables that grow without end, find their rows by an index, in order.
//!
//! Each hot path runs for real against a filled database, and the databases are asked for their plans of exactly the
//! statements that it ran. A new hot path is one more call in `paths.rs`.

mod capture;
mod fixtures;
mod paths;
mod plans;

use std::fmt::Write as _;

use store::Database;
use testkit::{Backend, Stage as _, TestDatabase, on_both, run_on};

use self::capture::{Capture, HotPath, Statement};
use self::plans::{Access, Plan, plan};
use crate::migrated;

on_both!(every_hot_path_follows_an_index, a_slow_path_is_noticed);

/// Tables that grow without end.
const GROWING: [&str; 17] = [
    "answer_history",
    "answers",
    "event_counters",
    "events",
    "idempotency_keys",
    "jobs",
    "labels",
    "ledger_entries",
    "object_grams",
    "objects",
    "outbox",
    "rule_firings",
    "rule_states",
    "summaries",
    "webhook_deliveries",
    "webhook_outcomes",
    "webhook_queue",
];

/// Indexes of growing tables by whose first column alone rows are read: in the order of the index, and no further than needed.
const IN_ORDER: [(&str, &str); 17] = [
    ("idempotency_keys_expired", "the oldest keys are swept first"),
    ("jobs_due", "what is due, and when the next job is"),
    ("jobs_unpaid", "only jobs that wait for money are in it"),
    ("object_grams_listed", "the objects of a gram, and on SQLite the newest number"),
    ("objects_flagged", "a page"),
    ("objects_recent", "a page"),
    ("objects_trust", "a page"),
    ("outbox_due", "when the next message is due"),
    ("outbox_of_lane", "the next lane or tenant"),
    ("rule_firings_newest", "a page"),
    ("sqlite_autoindex_webhook_deliveries_1", "a page"),
    ("summaries_with_samples", "only summaries that quote messages are in it"),
    ("webhook_deliveries_pkey", "a page"),
    ("webhook_outcomes_pkey", "the next endpoint"),
    ("webhook_queue_due", "the next endpoint, and what is due of one"),
    ("webhook_queue_pkey", "the next endpoint"),
    ("primary key", "the next endpoint, on SQLite"),
];

/// Indexes of which a statement reads one end, without any bound.
const ONE_END: [&str; 2] = ["jobs_due", "object_grams_listed"];

/// Paths that sort, and why what they sort is little.
const SORTING: [(&str, &str); 10] = [
    ("bulk runs", "those that are under way"),
    ("claim deliveries", "the endpoints of one round"),
    ("conclude", "the given rows, before they are locked"),
    ("export events", "the events of one instant, by object"),
    ("give labels", "the given rows, before they are locked"),
    ("overview", "the types of objects"),
    ("read a long history", "the signals of a tenant"),
    ("read histories", "the events that are read"),
    ("record", "the given rows, before they are indexed"),
    ("sweep", "the oldest events, by object"),
];

fn is_growing(access: &Access) -> bool {
    let index = access.index.trim_start_matches("sqlite_autoindex_");
    GROWING.iter().any(|table| access.table == *table || index.starts_with(&format!("{table}_")))
}

/// Why an access reads more than it should, if it does.
fn complaint(access: &Access) -> Option<String> {
    let is_narrow = match access.columns.len() {
        0 => ONE_END.contains(&access.index.as_str()),
        1 => IN_ORDER.iter().any(|(index, _)| access.index == *index),
        _ => true,
    };
    (is_growing(access) && !is_narrow)
        .then(|| format!("{} by {:?} ({})", access.table, access.columns, access.index))
}

/// What is slow about a plan.
fn complaints(name: &str, plan: &Plan) -> Vec<String> {
    let mut complaints: Vec<String> = plans::accesses(plan).iter().filter_map(complaint).collect();
    let may_sort = SORTING.iter().any(|(path, _)| name == *path);
    if plan.iter().any(|line| plans::is_sort(line)) && !may_sort {
        complaints.push("a sort".to_owned());
    }
    complaints
}

async fn every_hot_path_follows_an_index(database: &TestDatabase) {
    let mut capture = Capture::new(database.open().await);
    paths::run(&mut capture).await;
    let paths = capture.finish().await;
    let filled = migrated(database).await;
    if let Database::Postgres(pool) = &filled {
        fixtures::fill(pool).await;
    }
    let mut slow = String::new();
    for HotPath { name, statements } in paths {
        assert!(!statements.is_empty(), "{name}: no statement was captured");
        for statement in statements {
            let plan = plan(&filled, &statement).await;
            for complaint in complaints(name, &plan) {
                writeln!(slow, "\n{name}: {complaint}\n{}\n{}", statement.text, plan.join("\n")).unwrap();
            }
        }
    }
    assert!(slow.is_empty(), "{slow}");
}

/// PostgreSQL keeps the plan of a statement over one row, or over no given rows, from the time when tables were empty: it must
/// find rows by their keys, however many come to lie beside them. Statements over arrays are planned again each time.
#[test]
fn postgres_finds_rows_by_key_from_the_start() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let mut capture = Capture::new(database.open().await);
        paths::run(&mut capture).await;
        let paths = capture.finish().await;
        let stage = TestDatabase::create(Backend::Postgres).await;
        let empty = migrated(&stage).await;
        let mut slow = String::new();
        // A page of an empty table may be sorted, until the table has grown and autovacuum has analyzed it.
        for HotPath { name, statements } in paths.into_iter().filter(|path| path.name != "list deliveries") {
            for statement in statements.iter().filter(|statement| !statement.text.contains("UNNEST")) {
                let plan = plan(&empty, statement).await;
                for complaint in plans::accesses(&plan).iter().filter_map(complaint) {
                    writeln!(slow, "\n{name}: {complaint}\n{}\n{}", statement.text, plan.join("\n")).unwrap();
                }
            }
        }
        assert!(slow.is_empty(), "{slow}");
        stage.tear_down().await;
    });
}

/// Statements that no index serves, each in its own way: were they not noticed, the tests above would prove nothing.
async fn a_slow_path_is_noticed(database: &TestDatabase) {
    let database = migrated(database).await;
    for text in [
        "SELECT object_id FROM objects",
        "SELECT object_id FROM jobs WHERE due_at IS NOT NULL OR priority = 1",
        "SELECT object_id FROM objects WHERE tenant_id = $1 ORDER BY first_seen LIMIT 10",
        "SELECT object_id FROM events WHERE tenant_id = $1 AND content = 'text'",
    ] {
        let types = if text.contains("$1") { vec!["uuid".to_owned()] } else { Vec::new() };
        let plan = plan(&database, &Statement { text: text.to_owned(), types }).await;
        assert!(!complaints("slow", &plan).is_empty(), "{text}:\n{}", plan.join("\n"));
    }
}
