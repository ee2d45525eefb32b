//! The schema as each database describes it: the same on both, and keyed by tenant wherever a tenant owns the row.

use std::collections::{BTreeMap, BTreeSet};

use store::Database;
use testkit::{Backend, Stage, TestDatabase, on_both, run_on};

use crate::migrated;

on_both!(every_key_of_a_tenant_s_table_starts_with_the_tenant, every_table_has_a_primary_key);

/// Tables that are asked before the tenant is known, and so may be keyed by something else.
const DIRECTORY: [(&str, &str); 9] = [
    ("api_keys", "a request names its key, and the key names the tenant"),
    ("checkouts", "the payment provider names the checkout, not the tenant"),
    ("email_verifications", "a verification link carries a token only"),
    ("identities", "an identity provider names its subject, not the tenant"),
    ("invitations", "an invitation carries a token only"),
    ("passkeys", "an authenticator names its passkey, not the tenant"),
    ("password_resets", "a reset link carries a token only"),
    ("sessions", "a request carries a token only"),
    ("users", "sign-in names an email only, which is unique over all tenants"),
];

/// Tables whose rows belong to no tenant.
const DEPLOYMENT_WIDE: [(&str, &str); 5] = [
    ("deployment", "facts about the deployment itself"),
    ("migrations", "the journal of the schema"),
    ("nodes", "processes serve all tenants"),
    ("passkey_challenges", "they are given out before anybody is signed in"),
    ("throttles", "attempts are counted before anybody is signed in"),
];

/// References that do not begin with the tenant on both sides. A database that shards by tenant keeps the table that they lead to
/// whole on every shard, so each needs a reason.
const ACROSS_TENANTS: [(&str, &str); 7] = [
    ("email_verifications (user_id) -> users (user_id)", "between directories"),
    ("identities (user_id) -> users (user_id)", "between directories"),
    ("known_networks (user_id) -> users (user_id)", "a network is known of a member, who is in a directory"),
    ("notification_optouts (user_id) -> users (user_id)", "a member opts out, who is in a directory"),
    ("passkeys (user_id) -> users (user_id)", "between directories"),
    ("recovery_codes (user_id) -> users (user_id)", "a code is a member's, who is in a directory"),
    ("sessions (user_id) -> users (user_id)", "between directories"),
];

/// What only SQLite has: a table that is no table.
const VIRTUAL: [(&str, &str); 1] =
    [("gram_lists", "lists objects by gram, which on PostgreSQL an index of object_grams does")];

/// Indexes that have a condition on PostgreSQL only, so that its planner does not confuse them (`docs/adr/0010-plans-by-index.md`).
const TOLD_APART: [&str; 21] = [
    "answer_history_by_age",
    "answers_by_choice",
    "answers_by_value",
    "event_counters_by_age",
    "events_listed",
    "events_retained",
    "jobs_due",
    "jobs_due_by_tenant",
    "objects_flagged",
    "objects_recent",
    "objects_trust",
    "outbox_due",
    "outbox_of_lane",
    "outbox_of_object",
    "outbox_of_tenant",
    "rule_firings_newest",
    "rule_firings_of_object",
    "rule_firings_of_rule",
    "rule_states_of_condition",
    "webhook_deliveries_of_object",
    "webhook_queue_due",
];

/// A column as the database describes it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
struct Column {
    table_name: String,
    name: String,
    native_type: String,
    nullable: bool,
    generated: bool,
}

/// An index, or the index behind a key. Databases name the latter as they like, so here it is named by its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
struct Index {
    table_name: String,
    name: String,
    is_unique: bool,
    is_partial: bool,
    /// In order, each with its direction: `tenant_id, last_seen DESC`.
    columns: String,
}

impl Index {
    fn starts_with_the_tenant(&self) -> bool {
        self.columns.split(", ").next() == Some("tenant_id")
    }
}

const SQLITE_COLUMNS: &str = "
    SELECT tables.name AS table_name, columns.name, columns.type AS native_type,
           columns.\"notnull\" = 0 AS nullable, columns.hidden <> 0 AS generated
    FROM pragma_table_list AS tables JOIN pragma_table_xinfo(tables.name) AS columns
    WHERE tables.schema = 'main' AND tables.type = 'table' AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    ORDER BY tables.name, columns.cid";

const POSTGRES_COLUMNS: &str = "
    SELECT tables.relname::text AS table_name, columns.attname::text AS name,
           format_type(columns.atttypid, columns.atttypmod) AS native_type,
           NOT columns.attnotnull AS nullable, columns.attgenerated <> '' AS generated
    FROM pg_class AS tables
    JOIN pg_attribute AS columns ON columns.attrelid = tables.oid
    WHERE tables.relnamespace = 'public'::regnamespace AND tables.relkind = 'r'
      AND columns.attnum > 0 AND NOT columns.attisdropped
    ORDER BY tables.relname, columns.attnum";

/// A primary key is read from the columns: SQLite keeps no index for one that is its row number.
const SQLITE_INDEXES: &str = "
    SELECT tables.name AS table_name, 'primary key' AS name, TRUE AS is_unique, FALSE AS is_partial,
           group_concat(columns.name, ', ' ORDER BY columns.pk) AS columns
    FROM pragma_table_list AS tables JOIN pragma_table_xinfo(tables.name) AS columns
    WHERE tables.schema = 'main' AND tables.type = 'table' AND columns.pk > 0
    GROUP BY tables.name
    UNION ALL
    SELECT tables.name, CASE indexes.origin WHEN 'u' THEN 'unique' ELSE indexes.name END,
           indexes.\"unique\", indexes.partial,
           group_concat(columns.name || CASE WHEN columns.\"desc\" THEN ' DESC' ELSE '' END,
                        ', ' ORDER BY columns.seqno)
    FROM pragma_table_list AS tables
    JOIN pragma_index_list(tables.name) AS indexes
    JOIN pragma_index_xinfo(indexes.name) AS columns
    WHERE tables.schema = 'main' AND indexes.origin <> 'pk' AND columns.key = 1
    GROUP BY tables.name, indexes.name";

const POSTGRES_INDEXES: &str = "
    SELECT tables.relname::text AS table_name,
           CASE WHEN indexes.indisprimary THEN 'primary key'
                WHEN EXISTS (SELECT FROM pg_constraint WHERE conindid = indexes.indexrelid AND contype = 'u')
                THEN 'unique'
                ELSE names.relname::text END AS name,
           indexes.indisunique AS is_unique, indexes.indpred IS NOT NULL AS is_partial,
           (SELECT string_agg(pg_get_indexdef(indexes.indexrelid, position, TRUE)
                              || CASE WHEN indexes.indoption[position - 1] & 1 = 1 THEN ' DESC' ELSE '' END,
                              ', ' ORDER BY position)
            FROM generate_series(1, indexes.indnkeyatts) AS position) AS columns
    FROM pg_index AS indexes
    JOIN pg_class AS names ON names.oid = indexes.indexrelid
    JOIN pg_class AS tables ON tables.oid = indexes.indrelid
    WHERE tables.relnamespace = 'public'::regnamespace AND tables.relkind = 'r'";

/// All columns, table by table, in their order.
async fn columns(database: &Database) -> Vec<Column> {
    match database {
        Database::Sqlite { readers, .. } => sqlx::query_as(SQLITE_COLUMNS).fetch_all(readers).await,
        Database::Postgres(pool) => sqlx::query_as(POSTGRES_COLUMNS).fetch_all(pool).await,
    }
    .unwrap()
}

/// All indexes and keys, sorted.
async fn indexes(database: &Database) -> Vec<Index> {
    let mut indexes: Vec<Index> = match database {
        Database::Sqlite { readers, .. } => sqlx::query_as(SQLITE_INDEXES).fetch_all(readers).await,
        Database::Postgres(pool) => sqlx::query_as(POSTGRES_INDEXES).fetch_all(pool).await,
    }
    .unwrap();
    indexes.sort();
    indexes
}

/// The names of all tables.
pub(crate) async fn tables(database: &Database) -> BTreeSet<String> {
    columns(database).await.into_iter().map(|column| column.table_name).collect()
}

/// What SQLite keeps in a column that is of this type on PostgreSQL.
fn on_sqlite(postgres_type: &str) -> &'static str {
    match postgres_type {
        // The grams of an object, or where they are.
        "bigint" | "bigint[]" | "boolean" | "timestamp with time zone" => "INTEGER",
        "bytea" | "uuid" => "BLOB",
        "date" | "jsonb" | "text" => "TEXT",
        "double precision" => "REAL",
        other => panic!("the schema has no word for {other}"),
    }
}

#[tokio::test]
async fn both_databases_have_the_same_schema() {
    let on_file = TestDatabase::create(Backend::Sqlite).await;
    let on_server = TestDatabase::create(Backend::Postgres).await;
    let (sqlite, postgres) = (migrated(&on_file).await, migrated(&on_server).await);

    let mut expected = columns(&postgres).await;
    for column in &mut expected {
        column.native_type = on_sqlite(&column.native_type).to_owned();
    }
    assert!(expected.iter().any(|column| column.generated), "the comparison sees generated columns");
    assert_same(&columns(&sqlite).await, &expected);

    let mut expected = indexes(&postgres).await;
    assert!(expected.iter().any(|index| index.is_partial && index.name == "bulk_runs_running"));
    for index in expected.iter_mut().filter(|index| TOLD_APART.contains(&index.name.as_str())) {
        assert!(index.is_partial, "{} is told apart", index.name);
        index.is_partial = false;
    }
    assert!(expected.iter().any(|index| index.columns.ends_with(" DESC")));
    assert_same(&indexes(&sqlite).await, &expected);

    on_file.tear_down().await;
    on_server.tear_down().await;
}

#[test]
fn virtual_tables_are_named() {
    run_on(Backend::Sqlite, async |database: &TestDatabase| {
        let Database::Sqlite { readers, .. } = migrated(database).await else { panic!("not SQLite") };
        let found: Vec<(String,)> =
            sqlx::query_as("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'virtual'")
                .fetch_all(&readers)
                .await
                .unwrap();
        let found: BTreeSet<&str> = found.iter().map(|(name,)| name.as_str()).collect();
        assert_eq!(found, names(&VIRTUAL), "tables of their own kind are named above, and only those");
    });
}

/// Two long lists are equal; a failure shows where they part, not all of both.
fn assert_same<T: PartialEq + std::fmt::Debug>(sqlite: &[T], postgres: &[T]) {
    for (on_sqlite, on_postgres) in sqlite.iter().zip(postgres) {
        assert_eq!(on_sqlite, on_postgres);
    }
    assert_eq!(sqlite.len(), postgres.len());
}

async fn every_key_of_a_tenant_s_table_starts_with_the_tenant(database: &TestDatabase) {
    let database = migrated(database).await;
    let columns = columns(&database).await;
    let of_tenants: BTreeSet<&str> = columns
        .iter()
        .filter(|column| column.name == "tenant_id")
        .map(|column| column.table_name.as_str())
        .collect();
    let of_none: BTreeSet<&str> = columns
        .iter()
        .map(|column| column.table_name.as_str())
        .filter(|table| !of_tenants.contains(table))
        .collect();
    assert_eq!(of_none, names(&DEPLOYMENT_WIDE), "tables without a tenant are named above, and only those");

    let indexes = indexes(&database).await;
    let keyed_otherwise: BTreeSet<&str> = indexes
        .iter()
        .filter(|index| index.is_unique && !index.starts_with_the_tenant())
        .map(|index| index.table_name.as_str())
        .filter(|table| of_tenants.contains(table))
        .collect();
    assert_eq!(keyed_otherwise, names(&DIRECTORY), "directory tables are named above, and only those");
}

/// Every reference, as `table (columns) -> table (columns)`.
const POSTGRES_REFERENCES: &str = "
    SELECT format('%s (%s) -> %s (%s)', conrelid::regclass,
                  (SELECT string_agg(attname, ', ' ORDER BY position)
                   FROM unnest(conkey) WITH ORDINALITY AS keys (number, position)
                   JOIN pg_attribute ON attrelid = conrelid AND attnum = number),
                  confrelid::regclass,
                  (SELECT string_agg(attname, ', ' ORDER BY position)
                   FROM unnest(confkey) WITH ORDINALITY AS keys (number, position)
                   JOIN pg_attribute ON attrelid = confrelid AND attnum = number))
    FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace";

/// Everything that hands out numbers to all tenants alike: sequences, and columns that take theirs from one.
const POSTGRES_SEQUENCES: &str = "
    SELECT relname::text FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT attrelid::regclass::text || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE attidentity <> '' AND relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT adrelid::regclass::text || ': ' || pg_get_expr(adbin, adrelid)
    FROM pg_attrdef JOIN pg_class ON pg_class.oid = adrelid
    WHERE relnamespace = 'public'::regnamespace AND pg_get_expr(adbin, adrelid) LIKE '%nextval(%'";

/// A database that shards by tenant can hold the schema: rows refer to rows of the same tenant, and no counter is everybody's.
#[test]
fn no_reference_and_no_sequence_goes_across_tenants() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let Database::Postgres(pool) = migrated(database).await else { panic!("not PostgreSQL") };
        let references: Vec<(String,)> = sqlx::query_as(POSTGRES_REFERENCES).fetch_all(&pool).await.unwrap();
        let begins_with_the_tenant = |side: &str| {
            let (_, columns) = side.split_once(" (").expect("table (columns)");
            columns.trim_end_matches(')').split(", ").next() == Some("tenant_id")
        };
        let (within, across): (BTreeSet<&str>, BTreeSet<&str>) =
            references.iter().map(|(reference,)| reference.as_str()).partition(|reference| {
                let (from, to) = reference.split_once(" -> ").expect("from -> to");
                begins_with_the_tenant(from) && begins_with_the_tenant(to)
            });
        assert!(within.contains("users (tenant_id) -> tenants (tenant_id)"), "{within:?}");
        assert_eq!(
            across,
            names(&ACROSS_TENANTS),
            "references across tenants are named above, and only those"
        );
        let to_others: Vec<&&str> = across
            .iter()
            .filter(|reference| {
                !DIRECTORY.iter().any(|(table, _)| reference.contains(&format!("-> {table} (")))
            })
            .collect();
        assert_eq!(to_others, Vec::<&&str>::new(), "they lead to directories");

        let sequences: Vec<(String,)> = sqlx::query_as(POSTGRES_SEQUENCES).fetch_all(&pool).await.unwrap();
        assert_eq!(sequences, Vec::<(String,)>::new(), "numbers are counted in a row of the tenant");
    });
}

/// The names of the tables that are asked before the tenant is known.
pub(crate) fn directories() -> BTreeSet<&'static str> {
    names(&DIRECTORY)
}

/// The names of the tables whose rows belong to no tenant.
pub(crate) fn deployment_wide() -> BTreeSet<&'static str> {
    names(&DEPLOYMENT_WIDE)
}

fn names<const N: usize>(list: &[(&'static str, &str); N]) -> BTreeSet<&'static str> {
    list.iter().map(|(name, _reason)| *name).collect()
}

async fn every_table_has_a_primary_key(database: &TestDatabase) {
    let database = migrated(database).await;
    let with_key: BTreeSet<String> = indexes(&database)
        .await
        .into_iter()
        .filter(|index| index.name == "primary key")
        .map(|index| index.table_name)
        .collect();
    assert_eq!(with_key, tables(&database).await);
}

/// In another collation a keyset would follow the locale that the cluster was made with.
#[test]
fn text_sorts_by_bytes_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let Database::Postgres(pool) = migrated(database).await else { panic!("not PostgreSQL") };
        let collations: Vec<(String, String)> = sqlx::query_as(
            "SELECT table_name || '.' || column_name, coalesce(collation_name, 'default')::text
             FROM information_schema.columns WHERE table_schema = 'public' AND data_type = 'text'",
        )
        .fetch_all(&pool)
        .await
        .unwrap();
        let others: BTreeMap<_, _> =
            collations.iter().filter(|(_, collation)| collation != "C").cloned().collect();
        assert_eq!(others, BTreeMap::new());
        assert!(!collations.is_empty());
    });
}

/// Columns of bytes that are hashes, and stay what they are whatever the master key.
const HASHES: [&str; 12] = [
    "api_keys.bearer_hash",
    "api_keys.legacy_hash",
    "audit_chains.hash",
    "audit_chains.swept_hash",
    "audit_log.hash",
    "email_verifications.token_hash",
    "invitations.token_hash",
    "migrations.checksum",
    "passkey_challenges.challenge_hash",
    "password_resets.token_hash",
    "recovery_codes.code_hash",
    "sessions.token_hash",
];

/// A sealed column that the move to another master key forgets is lost with the old key.
#[test]
fn every_column_of_bytes_is_a_hash_or_known_to_be_sealed() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let columns = columns(&migrated(database).await).await;
        let bytes: BTreeSet<String> = columns
            .iter()
            .filter(|column| column.native_type == "bytea")
            .map(|column| format!("{}.{}", column.table_name, column.name))
            .collect();
        let sealed = store::upkeep::rekeying::COLUMNS.iter().map(|column| {
            assert_eq!(column.qualified_name, format!("{}.{}", column.table, column.name));
            column.qualified_name
        });
        let known: BTreeSet<String> = sealed.chain(HASHES).map(str::to_owned).collect();
        assert_eq!(bytes, known);
    });
}
