//! Statements that run all the time, or over tables that grow without end, find their rows by an index, in order.
//!
//! Each hot path runs for real against a filled database, and the databases are asked for their plans of exactly the
//! statements that it ran. A new hot path is one more call in `paths.rs`.

mod backlog;
mod capture;
mod fixtures;
mod paths;
mod plans;
mod rows_read;
mod shards;

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, Executor as _, PgConnection};
use store::{Conn, Database, Error, Store};
use testkit::{Backend, Stage as _, TestDatabase, on_both, run_on};

use self::backlog::Statistics;
use self::capture::{Capture, Captured, HotPath, Statement};
use self::plans::{Access, Plan, plan};
use self::rows_read::Execution;
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
const SORTING: [(&str, &str); 11] = [
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
    ("what is due", "bulk runs and trials that are under way"),
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

/// Runs all hot paths in one transaction of a store, which it closes.
async fn hot_paths(store: Store) -> Vec<HotPath> {
    let run = async |conn: &mut Conn| {
        let mut capture = Capture::new(conn);
        paths::run(&mut capture).await;
        Ok::<_, Error>(capture.finish())
    };
    let captured = store.for_maintenance().write("captured", run).await.unwrap();
    store.close().await;
    captured.hot_paths()
}

async fn every_hot_path_follows_an_index(database: &TestDatabase) {
    let paths = hot_paths(database.open().await).await;
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

/// Rows that a statement may read beside twice those that it returns or changes.
const SPARE_ROWS: f64 = 16.0;
/// Paths that read more than twice their rows, how many times, and why.
const READING_MORE: [(&str, f64, &str); 1] =
    [("apply rules", 12.0, "events of the hour in which a window begins or ends, also those of other names")];
/// A path that reads more in one state: while the planner believes in no rows at any size, a sweep by age may go through the key
/// of its tenant instead. Autovacuum ends that state after some changes, and a sweep runs every ten minutes.
const EXEMPT: (&str, Statistics) = ("sweep", Statistics::OfEmptiedTables);
/// Pages that a statement may read beside [`PAGES_A_ROW`].
const SPARE_PAGES: f64 = 200.0;
/// Pages that a statement may read for each row that it is given, returns or changes, those of all indexes of a new row included.
const PAGES_A_ROW: f64 = 50.0;

/// Whatever PostgreSQL knows of its tables, and whether it has kept the plans from when they were empty, a statement reads no
/// more than twice the rows that it returns or changes.
#[test]
fn no_statistics_change_what_postgres_reads() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let migrated = migrated(database).await;
        let Database::Postgres(pool) = &migrated else { unreachable!("it is PostgreSQL") };
        rows_read::log_plans(pool).await;
        pool.close().await;
        let store = database.open().await;
        let slow = store.for_maintenance().write("captured", slow_in_any_state).await.unwrap();
        assert!(slow.is_empty(), "{slow}");
    });
}

/// Runs the hot paths of queued work.
async fn work(conn: &mut Conn) -> Captured {
    let mut capture = Capture::new(conn);
    paths::run_work(&mut capture).await;
    capture.finish()
}

async fn slow_in_any_state(conn: &mut Conn) -> Result<String, Error> {
    execute(conn, "SAVEPOINT empty").await;
    // Prepares all statements.
    work(conn).await;
    execute(conn, "ROLLBACK TO empty").await;
    let prepared = backlog::prepared(native(conn)).await;
    let mut slow = String::new();
    for statistics in Statistics::ALL {
        statistics.bring_about(native(conn)).await;
        execute(conn, "SAVEPOINT state").await;
        for mode in ["force_generic_plan", "force_custom_plan"] {
            execute(conn, &format!("SET LOCAL plan_cache_mode = {mode}")).await;
            let notices = work(conn).await.notices();
            execute(conn, "ROLLBACK TO state").await;
            let is_kept = prepared.is_subset(&backlog::prepared(native(conn)).await);
            assert!(is_kept, "a statement was dropped, and its kept plan with it");
            assert!(notices.len() > prepared.len(), "{} statements have told what they read", notices.len());
            for (name, notice) in notices {
                if let Some(execution) = Execution::of_notice(&notice)
                    && reads_too_much(name, &execution)
                    && (name, statistics) != EXEMPT
                {
                    let Execution { text, result, read, pages, plan, .. } = execution;
                    writeln!(slow, "\n{statistics:?}, {mode}, {name}: {read} rows for {result}, {pages} pages\n{text}\n{plan}")
                        .unwrap();
                }
            }
        }
    }
    Ok(slow)
}

fn reads_too_much(name: &str, execution: &Execution) -> bool {
    let times = READING_MORE.iter().find(|(path, ..)| *path == name).map_or(2.0, |(_, times, _)| *times);
    execution.read > times * execution.result + SPARE_ROWS
        || execution.pages > PAGES_A_ROW * (execution.result + execution.given) + SPARE_PAGES
}

async fn execute(conn: &mut Conn, statement: &str) {
    native(conn).execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
}

fn native(conn: &mut Conn) -> &mut PgConnection {
    let Conn::Postgres(lent) = conn else { unreachable!("it is PostgreSQL") };
    lent.native()
}

/// PostgreSQL keeps the plan of a statement over one row, or over no given rows, from the time when tables were empty: it must
/// find rows by their keys, however many come to lie beside them. Statements over arrays are planned again each time.
#[test]
fn postgres_finds_rows_by_key_from_the_start() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let paths = hot_paths(database.open().await).await;
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
