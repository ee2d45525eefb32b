//! What PostgreSQL knows of its tables, and what is in them: the states in which hot paths must read the same rows.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Executor as _, PgConnection};

/// A backlog of the tenant that the hot paths are about, one object each. All of it sorts and is due after what the paths
/// themselves write, and is due when they claim.
const BACKLOG: [&str; 17] = [
    "CREATE FUNCTION backlog_id(number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
         $$ SELECT ('11111111-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$",
    "CREATE TEMPORARY TABLE backlog AS
     SELECT number, backlog_id(number) AS id, '00000000-0000-0000-0000-000000000001'::uuid AS tenant,
            'zz-' || lpad(number::text, 6, '0') AS object, to_timestamp(1800001800) AS at
     FROM generate_series(1, 100000) AS number",
    "INSERT INTO jobs (tenant_id, object_id, priority, run_at, deadline_at, version)
     SELECT tenant, object, 0, at, at, 1 FROM backlog",
    "INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, run_after)
     SELECT tenant, '00000000-0000-0000-0000-000000000015', 'pending', id, 1, at FROM backlog",
    "INSERT INTO webhook_deliveries (tenant_id, delivery_id, endpoint_id, event_type, object_id, payload, max_attempts,
                                     created_at)
     SELECT tenant, id, '00000000-0000-0000-0000-000000000015', '', object, '{}', 6, at FROM backlog",
    "INSERT INTO outbox (tenant_id, message_id, channel, message, run_after, created_at)
     SELECT tenant, id, 'mail', '', at, at FROM backlog",
    "DELETE FROM backlog WHERE number > 20000",
    "INSERT INTO objects (tenant_id, object_id, object_type, counted_type, event_count, first_seen, last_seen)
     SELECT tenant, object, 'person', 'person', 1, at, at FROM backlog",
    "INSERT INTO events (tenant_id, object_id, seq, type, content, occurred_at, received_at)
     SELECT tenant, object, 1, 'message', 'text', at, at FROM backlog",
    "INSERT INTO summaries (tenant_id, object_id, through_seq, through_time, folded_events, state)
     SELECT tenant, object, 1, at, 1, '{}' FROM backlog",
    "INSERT INTO idempotency_keys (tenant_id, idempotency_key, object_id, kind, accepted, created_at, expires_at)
     SELECT tenant, object, object, 'async', 1, at, at FROM backlog",
    "INSERT INTO answers (tenant_id, object_id, signal_id, value, choice, model, read_seq, computed_at)
     SELECT tenant, object, signal::uuid, value, choice, '', 1, at FROM backlog
     CROSS JOIN (VALUES ('00000000-0000-0000-0000-00000000000b', 0.5, NULL), ('00000000-0000-0000-0000-00000000000c', 1, NULL),
                        ('00000000-0000-0000-0000-00000000000d', NULL, 'option 0')) AS answer (signal, value, choice)",
    "INSERT INTO answer_history (tenant_id, object_id, analysis_id, at, source, model, read_seq, answers)
     SELECT tenant, object, id, at, 'async', '', 1, '[]' FROM backlog",
    "INSERT INTO rule_states (tenant_id, object_id, condition_id, matched)
     SELECT tenant, object, '00000000-0000-0000-0000-000000000020', TRUE FROM backlog",
    "INSERT INTO rule_firings (tenant_id, firing_id, rule_id, object_id, matched_when, signal_values, action_type, status,
                               fired_at)
     SELECT tenant, id, '00000000-0000-0000-0000-00000000001f', object, '', '{}', 'email', 'error', at FROM backlog",
    "INSERT INTO event_counters (tenant_id, object_id, name, hour, total)
     SELECT tenant, object, '', date_trunc('hour', at, 'UTC'), 1 FROM backlog",
    "INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at)
     SELECT tenant, '00000000-0000-0000-0000-000000000016', 'delivered', id, 1, at FROM backlog",
];

/// Ten thousand other tenants, each with one row of everything.
const SMALL_TENANTS: [&str; 10] = [
    "CREATE TEMPORARY TABLE others AS
     SELECT backlog_id(number) AS id, number::text AS object, to_timestamp(1800001800) AS at
     FROM generate_series(1, 10000) AS number",
    "INSERT INTO tenants (tenant_id, name, created_at) SELECT id, '', at FROM others",
    "INSERT INTO balances (tenant_id, balance_micros, ledger_seq) SELECT id, 1, 0 FROM others",
    "INSERT INTO signals (tenant_id, key, signal_id, type, instructions, enabled, created_at, updated_at)
     SELECT id, 'risk', id, 'noul', '', TRUE, at, at FROM others",
    "INSERT INTO objects (tenant_id, object_id, object_type, counted_type, event_count, first_seen, last_seen)
     SELECT id, object, 'person', 'person', 1, at, at FROM others",
    "INSERT INTO events (tenant_id, object_id, seq, type, content, occurred_at, received_at)
     SELECT id, object, 1, 'message', 'text', at, at FROM others",
    "INSERT INTO answers (tenant_id, object_id, signal_id, value, model, read_seq, computed_at)
     SELECT id, object, id, 0.5, '', 1, at FROM others",
    "INSERT INTO jobs (tenant_id, object_id, priority, run_at, deadline_at, version) SELECT id, object, 0, at, at, 1 FROM others",
    "INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, run_after)
     SELECT id, id, 'pending', id, 1, at FROM others",
    "INSERT INTO outbox (tenant_id, message_id, channel, message, run_after, created_at) SELECT id, id, 'mail', '', at, at FROM others",
];

/// What PostgreSQL knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistics {
    /// It has analyzed tables that were empty.
    OfEmptyTables,
    /// It has analyzed tables whose rows were all gone, but not their pages: it believes that they have none at any size.
    OfEmptiedTables,
    /// It has never analyzed anything.
    None,
    /// It has analyzed the backlog.
    OfBacklog,
    /// It has analyzed one huge tenant and ten thousand small ones.
    OfManyTenants,
}

impl Statistics {
    /// All of them, in the order in which they can be brought about from empty tables.
    pub(crate) const ALL: [Self; 5] =
        [Self::OfEmptyTables, Self::OfEmptiedTables, Self::None, Self::OfBacklog, Self::OfManyTenants];

    /// Brings it about, after the one before.
    pub(crate) async fn bring_about(self, connection: &mut PgConnection) {
        match self {
            Self::OfEmptyTables => {
                for_all_tables(connection, "TRUNCATE").await;
                for_all_tables(connection, "ANALYZE").await;
                keep_plans(connection).await;
                run(connection, &BACKLOG).await;
            }
            Self::OfEmptiedTables => set_sizes(connection, "relpages = 1, reltuples = 0").await,
            Self::None => set_sizes(connection, "relpages = 0, reltuples = -1").await,
            Self::OfBacklog => for_all_tables(connection, "ANALYZE").await,
            Self::OfManyTenants => {
                run(connection, &SMALL_TENANTS).await;
                for_all_tables(connection, "ANALYZE").await;
            }
        }
    }
}

async fn run(connection: &mut PgConnection, statements: &[&'static str]) {
    for statement in statements {
        if let Err(error) = connection.execute(*statement).await {
            panic!("{error}: {statement}");
        }
    }
}

/// Sets what the catalogue says of the sizes of all tables and indexes.
async fn set_sizes(connection: &mut PgConnection, sizes: &str) {
    let statement = format!(
        "UPDATE pg_class SET {sizes} WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"
    );
    connection.execute(AssertSqlSafe(statement)).await.unwrap();
}

/// Runs a command on all tables of the store.
async fn for_all_tables(connection: &mut PgConnection, command: &str) {
    let tables: Vec<(String,)> = sqlx::query_as(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
    )
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    let names: Vec<String> = tables.into_iter().map(|(name,)| name).collect();
    connection.execute(AssertSqlSafe(format!("{command} {}", names.join(", ")))).await.unwrap();
}

/// The hot statements that are prepared on the connection, by the names that it has for them.
pub(crate) async fn prepared(connection: &mut PgConnection) -> BTreeSet<String> {
    let names: Vec<(String,)> = sqlx::query_as(
        "SELECT name FROM pg_prepared_statements WHERE statement !~ '(pg_class|pg_prepared_statements|backlog)'
           AND cardinality(parameter_types) > 0",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    names.into_iter().map(|(name,)| name).collect()
}

/// Plans every statement that is prepared on the connection now, as its sixth execution would: the plans are kept.
async fn keep_plans(connection: &mut PgConnection) {
    connection.execute("SET LOCAL plan_cache_mode = force_generic_plan").await.unwrap();
    let prepared: Vec<(String, i64)> = sqlx::query_as(
        "SELECT name, coalesce(array_length(parameter_types, 1), 0)::bigint FROM pg_prepared_statements
         WHERE statement !~ '^(ANALYZE|TRUNCATE|CREATE|UPDATE pg_class|SET|SAVEPOINT|ROLLBACK|BEGIN|COMMIT)'",
    )
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    for (name, parameters) in prepared {
        let nulls = vec!["NULL"; usize::try_from(parameters).unwrap()].join(", ");
        let values = if nulls.is_empty() { nulls } else { format!("({nulls})") };
        let explain = AssertSqlSafe(format!("EXPLAIN EXECUTE {name} {values}"));
        sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
    }
}
