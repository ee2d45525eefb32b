//! Queries that run all the time, or over tables that grow without end, find their rows by an index, in order.
//!
//! SQLite is asked whether anything is scanned, PostgreSQL whether rows are read only to be thrown away; neither may
//! sort. A new query is one more entry of the table below, with a column that its index lacks, as the real one has.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, Executor, PgPool, Row, SqlitePool};
use store::Database;
use testkit::{TestDatabase, on_both};

use crate::migrated;

on_both!(every_hot_path_follows_an_index, a_slow_path_is_noticed);

/// What each query is for, and its text.
const HOT_PATHS: &[(&str, &str)] = &[
    // Signing in and authenticating.
    ("API key by public id", "SELECT key_id, tenant_id, secret FROM api_keys WHERE public_id = $1"),
    ("API key by legacy key", "SELECT key_id, tenant_id FROM api_keys WHERE legacy_hash = $1"),
    ("session by token", "SELECT tenant_id, user_id, expires_at FROM sessions WHERE token_hash = $1"),
    (
        "sessions that ran out",
        "SELECT token_hash FROM sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
    ),
    ("user by email", "SELECT user_id, tenant_id, password_hash FROM users WHERE email_key = $1"),
    ("identity", "SELECT tenant_id, user_id FROM identities WHERE provider = $1 AND subject = $2"),
    ("throttle", "SELECT attempts, blocked_until FROM throttles WHERE scope = $1 AND subject = $2"),
    // Ingest.
    (
        "idempotency key",
        "SELECT object_id, kind, accepted, expires_at FROM idempotency_keys
         WHERE tenant_id = $1 AND idempotency_key = $2",
    ),
    (
        "idempotency keys that ran out",
        "SELECT tenant_id, idempotency_key FROM idempotency_keys
         WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
    ),
    (
        "sweep of idempotency keys",
        "DELETE FROM idempotency_keys WHERE (tenant_id, idempotency_key) IN (
             SELECT tenant_id, idempotency_key FROM idempotency_keys
             WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
    ),
    ("synchronous analyses in flight", "SELECT count(*) FROM sync_leases WHERE tenant_id = $1"),
    // Claiming analyses.
    (
        "due jobs of a tenant",
        "SELECT object_id, version FROM jobs
         WHERE priority = $1 AND tenant_id = $2 AND due_at <= $3 ORDER BY due_at LIMIT $4",
    ),
    (
        "next tenant with jobs",
        "SELECT tenant_id FROM jobs WHERE priority = $1 AND tenant_id > $2 ORDER BY tenant_id LIMIT 1",
    ),
    ("when to wake for a job", "SELECT min(due_at) FROM jobs"),
    ("jobs that are due", "SELECT 1 FROM jobs WHERE priority = $1 AND due_at <= $2 LIMIT $3"),
    ("since when a job is due", "SELECT min(due_at) FROM jobs WHERE priority = $1 AND due_at <= $2"),
    (
        "deliveries to be sent",
        "SELECT 1 FROM webhook_queue WHERE endpoint_id >= $1 LIMIT $2",
    ),
    ("messages to be sent", "SELECT 1 FROM outbox WHERE channel = $1 LIMIT $2"),
    (
        "bulk runs under way",
        "SELECT tenant_id, bulk_run_id, object_cursor FROM bulk_runs
         WHERE status = 'running' AND (tenant_id, bulk_run_id) > ($1, $2)
         ORDER BY tenant_id, bulk_run_id LIMIT $3",
    ),
    (
        "newest bulk run of a signal",
        "SELECT bulk_run_id, status FROM bulk_runs
         WHERE tenant_id = $1 AND signal_key = $2 ORDER BY started_at DESC LIMIT 1",
    ),
    (
        "objects that a bulk run feeds next",
        "SELECT object_id FROM objects WHERE tenant_id = $1 AND object_id > $2 ORDER BY object_id LIMIT $3",
    ),
    // The dossier of an object.
    (
        "newest events of an object",
        "SELECT seq, name, content, occurred_at FROM events
         WHERE tenant_id = $1 AND object_id = $2 ORDER BY occurred_at DESC, seq DESC LIMIT 200",
    ),
    (
        "events of an object not folded yet",
        "SELECT seq, name, content FROM events
         WHERE tenant_id = $1 AND object_id = $2 AND seq > $3 ORDER BY seq LIMIT $4",
    ),
    (
        "events past their retention",
        "SELECT object_id, seq FROM events
         WHERE tenant_id = $1 AND received_at < $2 ORDER BY received_at LIMIT $3",
    ),
    (
        "latest answers of an object",
        "SELECT signal_id, value, choice, read_seq FROM answers WHERE tenant_id = $1 AND object_id = $2",
    ),
    // The object list, by each sort: the first page, then the ranges that follow a cursor, nearest first.
    (
        "objects by last seen",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 ORDER BY last_seen DESC, object_id LIMIT $2",
    ),
    (
        "objects by last seen: seen at the same time",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND last_seen = $2 AND object_id > $3
         ORDER BY last_seen DESC, object_id LIMIT $4",
    ),
    (
        "objects by last seen: seen before",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND last_seen < $2
         ORDER BY last_seen DESC, object_id LIMIT $3",
    ),
    (
        "objects by risk",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 ORDER BY risk DESC, last_seen DESC, object_id LIMIT $2",
    ),
    (
        "objects by risk: as risky, seen at the same time",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND risk = $2 AND last_seen = $3 AND object_id > $4
         ORDER BY risk DESC, last_seen DESC, object_id LIMIT $5",
    ),
    (
        "objects by risk: as risky, seen before",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND risk = $2 AND last_seen < $3
         ORDER BY risk DESC, last_seen DESC, object_id LIMIT $4",
    ),
    (
        "objects by risk: less risky",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND risk < $2
         ORDER BY risk DESC, last_seen DESC, object_id LIMIT $3",
    ),
    (
        "objects by trust",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 ORDER BY trust DESC, last_seen DESC, object_id LIMIT $2",
    ),
    (
        "objects by trust: as trusted, seen at the same time",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND trust = $2 AND last_seen = $3 AND object_id > $4
         ORDER BY trust DESC, last_seen DESC, object_id LIMIT $5",
    ),
    (
        "objects by trust: as trusted, seen before",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND trust = $2 AND last_seen < $3
         ORDER BY trust DESC, last_seen DESC, object_id LIMIT $4",
    ),
    (
        "objects by trust: less trusted",
        "SELECT object_id, display_name FROM objects
         WHERE tenant_id = $1 AND trust < $2
         ORDER BY trust DESC, last_seen DESC, object_id LIMIT $3",
    ),
    // Searching by a part of an id or name. The lists themselves are looked at in `search.rs`.
    ("grams of an object", "SELECT grams FROM object_grams WHERE tenant_id = $1 AND object_id = $2"),
    (
        "summaries that quote messages",
        "SELECT object_id FROM summaries WHERE tenant_id = $1 AND samples > 0 ORDER BY object_id LIMIT $2",
    ),
    ("budget of a window long past", "SELECT granted FROM rate_budgets WHERE tenant_id = $1"),
    // Searching by answers.
    (
        "answers of a signal by value",
        "SELECT object_id FROM answers
         WHERE tenant_id = $1 AND signal_id = $2 AND value >= $3 AND value < $4 ORDER BY value DESC LIMIT $5",
    ),
    (
        "answers of a signal by choice",
        "SELECT object_id FROM answers WHERE tenant_id = $1 AND signal_id = $2 AND choice = $3",
    ),
    // Overview and usage.
    (
        "objects counted",
        "SELECT object_type, CAST(sum(objects) AS BIGINT), CAST(sum(flagged) AS BIGINT) FROM object_tallies
         WHERE tenant_id = $1 GROUP BY object_type",
    ),
    (
        "answers counted",
        "SELECT signal_id, choice, CAST(sum(answers) AS BIGINT), CAST(sum(high) AS BIGINT) FROM signal_tallies
         WHERE tenant_id = $1 GROUP BY signal_id, choice",
    ),
    (
        "events of the last day counted",
        "SELECT CAST(sum(events) AS BIGINT) FROM hourly_event_tallies WHERE tenant_id = $1 AND hour >= $2",
    ),
    (
        "events of an hour's last minutes counted",
        "SELECT CAST(sum(events) AS BIGINT) FROM event_tallies WHERE tenant_id = $1 AND minute >= $2 AND minute < $3",
    ),
    (
        "usage by day, source and model",
        "SELECT day, source, model, CAST(sum(analyses) AS BIGINT), CAST(sum(spend_micros) AS BIGINT)
         FROM usage_days
         WHERE tenant_id = $1 AND day BETWEEN $2 AND $3
         GROUP BY day, source, model ORDER BY day, source, model",
    ),
    (
        "usage by day and signal",
        "SELECT day, signal_key, CAST(sum(analyses) AS BIGINT) FROM usage_signal_days
         WHERE tenant_id = $1 AND day BETWEEN $2 AND $3 GROUP BY day, signal_key ORDER BY day, signal_key",
    ),
    // The ledger.
    (
        "ledger",
        "SELECT seq, delta_micros FROM ledger_entries
         WHERE tenant_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
    ),
    (
        "ledger by kind",
        "SELECT seq, delta_micros FROM ledger_entries
         WHERE tenant_id = $1 AND kind = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4",
    ),
    (
        "ledger grouped: entries outside of any batch",
        "SELECT seq, delta_micros FROM ledger_entries
         WHERE tenant_id = $1 AND kind = 'charge' AND batch_id IS NULL AND seq < $2 ORDER BY seq DESC LIMIT $3",
    ),
    (
        "ledger grouped: batches",
        "SELECT last_seq, delta_micros,
             (SELECT created_at FROM ledger_entries WHERE tenant_id = $1 AND seq = last_seq)
         FROM ledger_batches WHERE tenant_id = $1 AND last_seq < $2 ORDER BY last_seq DESC LIMIT $3",
    ),
    (
        "ledger of a batch",
        "SELECT seq, delta_micros FROM ledger_entries
         WHERE tenant_id = $1 AND batch_id = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4",
    ),
    (
        "checkout of a session",
        "SELECT checkout_id, status, balance_after_micros FROM checkouts AS checkout
         LEFT JOIN ledger_entries AS line ON line.tenant_id = checkout.tenant_id AND line.seq = checkout.ledger_seq
         WHERE provider_session_id = $1",
    ),
    // Analyses that wait for money.
    (
        "due jobs of a tenant of either priority",
        "SELECT object_id FROM jobs WHERE priority IN (0, 1) AND tenant_id = $1 AND due_at <= $2 LIMIT $3",
    ),
    (
        "unpaid jobs of a tenant",
        "SELECT object_id FROM jobs WHERE tenant_id = $1 AND unpaid ORDER BY object_id LIMIT $2",
    ),
    (
        "next tenant with unpaid jobs",
        "SELECT tenant_id FROM jobs WHERE unpaid AND tenant_id > $1 ORDER BY tenant_id LIMIT 1",
    ),
    // Webhooks, messages and rules.
    (
        "endpoints of a tenant",
        "SELECT endpoint_id, url FROM webhook_endpoints WHERE tenant_id = $1 ORDER BY endpoint_id",
    ),
    ("endpoint whose turn it is", "SELECT tenant_id, url FROM webhook_endpoints WHERE endpoint_id = $1"),
    (
        "due deliveries of an endpoint",
        "SELECT delivery_id, begun FROM webhook_queue WHERE endpoint_id = $1 AND due_at <= $2 ORDER BY due_at LIMIT $3",
    ),
    (
        "next endpoint with deliveries to send",
        "SELECT endpoint_id FROM webhook_queue WHERE endpoint_id > $1 ORDER BY endpoint_id LIMIT 1",
    ),
    (
        "when to wake for a delivery of an endpoint",
        "SELECT min(due_at) FROM webhook_queue WHERE endpoint_id = $1",
    ),
    (
        "deliveries, newest first",
        "SELECT delivery_id, payload FROM webhook_deliveries WHERE tenant_id = $1 ORDER BY delivery_id DESC LIMIT $2",
    ),
    (
        "queued deliveries of an endpoint by status, newest first",
        "SELECT delivery_id, attempts FROM webhook_queue
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 ORDER BY delivery_id DESC LIMIT $4",
    ),
    (
        "ended deliveries of an endpoint by status, newest first",
        "SELECT delivery_id, attempts FROM webhook_outcomes
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 ORDER BY delivery_id DESC LIMIT $4",
    ),
    (
        "queued deliveries of an endpoint that is gone",
        "SELECT delivery_id FROM webhook_queue WHERE tenant_id = $1 AND endpoint_id = $2
         ORDER BY status, delivery_id LIMIT $3",
    ),
    (
        "ended deliveries of an endpoint that is gone",
        "SELECT delivery_id FROM webhook_outcomes WHERE tenant_id = $1 AND endpoint_id = $2
         ORDER BY status, delivery_id LIMIT $3",
    ),
    (
        "next endpoint of a tenant with queued deliveries",
        "SELECT endpoint_id FROM webhook_queue
         WHERE tenant_id = $1 AND endpoint_id > $2 ORDER BY endpoint_id LIMIT 1",
    ),
    (
        "next endpoint of a tenant with ended deliveries",
        "SELECT endpoint_id FROM webhook_outcomes
         WHERE tenant_id = $1 AND endpoint_id > $2 ORDER BY endpoint_id LIMIT 1",
    ),
    (
        "deliveries about an object",
        "SELECT payload FROM webhook_deliveries WHERE tenant_id = $1 AND object_id = $2",
    ),
    (
        "due messages of a tenant",
        "SELECT tenant_id, message_id FROM outbox
         WHERE channel = $1 AND tenant_id = $2 AND due_at <= $3 ORDER BY due_at LIMIT $4",
    ),
    (
        "next tenant with messages to send",
        "SELECT tenant_id FROM outbox WHERE channel = $1 AND tenant_id > $2 ORDER BY tenant_id LIMIT 1",
    ),
    (
        "next lane of a tenant with messages to send",
        "SELECT lane FROM outbox WHERE channel = $1 AND tenant_id = $2 AND lane > $3 ORDER BY lane LIMIT 1",
    ),
    (
        "due messages of a lane",
        "SELECT message_id FROM outbox
         WHERE channel = $1 AND tenant_id = $2 AND lane = $3 AND due_at <= $4 ORDER BY due_at LIMIT $5",
    ),
    ("when to wake for a message", "SELECT due_at FROM outbox WHERE channel = $1 ORDER BY due_at LIMIT 1"),
    ("where conditions stand with an object", "SELECT matched, fired_at FROM rule_states WHERE tenant_id = $1 AND object_id = $2"),
    (
        "sweep of a condition that is gone",
        "DELETE FROM rule_states WHERE (tenant_id, object_id, condition_id) IN (
             SELECT tenant_id, object_id, condition_id FROM rule_states
             WHERE tenant_id = $1 AND condition_id = $2 LIMIT $3)",
    ),
    (
        "sweep of firings",
        "DELETE FROM rule_firings WHERE (tenant_id, firing_id) IN (
             SELECT tenant_id, firing_id FROM rule_firings WHERE tenant_id = $1 AND fired_at < $2
             ORDER BY fired_at LIMIT $3)",
    ),
    ("messages about an object", "SELECT channel FROM outbox WHERE tenant_id = $1 AND object_id = $2"),
    (
        "firings, newest first",
        "SELECT firing_id, detail FROM rule_firings
         WHERE tenant_id = $1 ORDER BY fired_at DESC, firing_id DESC LIMIT $2",
    ),
    (
        "firings of a rule, newest first",
        "SELECT firing_id, detail FROM rule_firings
         WHERE tenant_id = $1 AND rule_id = $2 ORDER BY fired_at DESC, firing_id DESC LIMIT $3",
    ),
    (
        "firings about an object, newest first",
        "SELECT firing_id, detail FROM rule_firings
         WHERE tenant_id = $1 AND object_id = $2 ORDER BY fired_at DESC, firing_id DESC LIMIT $3",
    ),
];

/// Queries that no index serves, each in its own way: were they not noticed, the test above would prove nothing.
const SLOW_PATHS: &[(&str, &str)] = &[
    ("all of a table", "SELECT name FROM tenants"),
    ("an index all through", "SELECT object_id FROM jobs WHERE due_at IS NOT NULL OR priority = $1"),
    ("a sort", "SELECT object_id FROM objects WHERE tenant_id = $1 ORDER BY first_seen LIMIT $2"),
];

/// What the database will do for a query, line by line.
type Plan = Vec<String>;

async fn plan(database: &Database, query: &str) -> Plan {
    match database {
        Database::Sqlite { readers, .. } => plan_on_sqlite(readers, query).await,
        Database::Postgres(pool) => plan_on_postgres(pool, query).await,
    }
}

async fn plan_on_sqlite(readers: &SqlitePool, query: &str) -> Plan {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}"));
    let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain).fetch_all(readers).await.unwrap();
    rows.into_iter().map(|(_id, _parent, _unused, detail)| detail).collect()
}

/// The plan for any values. An empty table is cheapest to read whole, so that is forbidden where there is a choice.
async fn plan_on_postgres(pool: &PgPool, query: &str) -> Plan {
    let mut transaction = pool.begin().await.unwrap();
    for setting in ["enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off"] {
        transaction.execute(AssertSqlSafe(format!("SET LOCAL {setting}"))).await.unwrap();
    }
    transaction.execute("SET LOCAL plan_cache_mode = force_generic_plan").await.unwrap();
    transaction.execute(AssertSqlSafe(format!("PREPARE hot_path AS {query}"))).await.unwrap();
    let values = vec!["NULL"; placeholders(query)].join(", ");
    let arguments = if values.is_empty() { values } else { format!("({values})") };
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE hot_path {arguments}");
    let rows = transaction.fetch_all(AssertSqlSafe(explain)).await.unwrap();
    transaction.execute("DEALLOCATE hot_path").await.unwrap();
    rows.into_iter().map(|row| row.get(0)).collect()
}

/// How many values a query takes.
fn placeholders(query: &str) -> usize {
    (1..=9).take_while(|number| query.contains(&format!("${number}"))).count()
}

/// What makes a query slow, in the words of either database.
fn is_slow(line: &str) -> bool {
    let sqlite = line.starts_with("SCAN") || line.contains("TEMP B-TREE") || line.contains("AUTOMATIC");
    let postgres = ["Seq Scan", "Sort", "Filter:"].iter().any(|word| line.contains(word));
    sqlite || postgres
}

async fn every_hot_path_follows_an_index(database: &TestDatabase) {
    let database = migrated(database).await;
    let mut slow = String::new();
    for (name, query) in HOT_PATHS {
        let plan = plan(&database, query).await;
        assert!(!plan.is_empty(), "{name}");
        if plan.iter().any(|line| is_slow(line)) {
            writeln!(slow, "\n{name}:\n{}", plan.join("\n")).unwrap();
        }
    }
    assert!(slow.is_empty(), "{slow}");
}

async fn a_slow_path_is_noticed(database: &TestDatabase) {
    let database = migrated(database).await;
    for (name, query) in SLOW_PATHS {
        let plan = plan(&database, query).await;
        assert!(plan.iter().any(|line| is_slow(line)), "{name}:\n{}", plan.join("\n"));
    }
}
