//! Brings a database to this binary's schema: all pending migrations in one transaction, or none.

use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use tracing::info;

use crate::db::conn::Conn;
use crate::db::dialect::Backend;
use crate::db::error::{Error, Result};
use crate::db::limits::Limits;
use crate::db::statement::{execute, fetch_all, fetch_one, on_either};
use crate::db::transaction::Store;

struct Migration {
    version: i64,
    name: &'static str,
    text: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal;)*) => {
        [$(Migration { version: $version, name: $name, text: include_str!(concat!("../../migrations/", $name, ".sql")) }),*]
    };
}

const MIGRATIONS: &[Migration] = &migrations! {
    1 "0001_accounts";
    2 "0002_objects";
    3 "0003_analyses";
    4 "0004_actions";
    5 "0005_money";
    6 "0006_cluster";
    7 "0007_traces";
    8 "0008_delivery_queue";
    9 "0009_hot_tables";
    10 "0010_unbilled";
    11 "0011_ledger_of_batch";
    12 "0012_places_in_flight";
    14 "0014_ends";
    15 "0015_bounds";
    16 "0016_people";
    17 "0017_recipients";
    18 "0018_closure";
    19 "0019_answer_history";
    20 "0020_event_counters";
    21 "0021_questions_and_links";
    22 "0022_labels";
    23 "0023_reviews";
    24 "0024_trials";
    25 "0025_members";
    26 "0026_audit_log";
    27 "0027_secret_rotation";
    28 "0028_leaving";
    29 "0029_passkeys";
    30 "0030_key_refusals";
    31 "0031_indexes_with_a_purpose";
    32 "0032_makers_of_invitations";
    33 "0033_escalation";
    35 "0035_marks";
    36 "0036_whole_chains";
    37 "0037_hot_queues";
    38 "0038_days";
};

/// The advisory lock that a migrating process holds; any number that nothing else uses: "auspex" as bytes.
const POSTGRES_LOCK: i64 = 0x0061_7573_7065_7800;

/// How many migrations there are.
pub(crate) const NEWEST: usize = MIGRATIONS.len();

/// Applies the missing ones of the first `through` migrations. Processes that start together do so one after the other; the
/// later ones find nothing to do.
pub(crate) async fn run(store: &Store, through: usize) -> Result<()> {
    let backend = store.database.backend();
    let unhurried = Store { limits: Limits::Migration, ..store.clone() };
    unhurried
        .write("migrate", async |conn| {
            // SQLite's write transaction is the lock already.
            if backend == Backend::Postgres {
                execute!(conn, "SELECT pg_advisory_xact_lock($1)", POSTGRES_LOCK)?;
            }
            let journal = backend.translate(
                "CREATE TABLE IF NOT EXISTS migrations (version BIGINT NOT NULL PRIMARY KEY, checksum BYTES NOT NULL) STRICT;",
            );
            run_script(conn, journal).await?;
            let applied: Vec<(i64, Vec<u8>)> =
                fetch_all!(conn, "SELECT version, checksum FROM migrations ORDER BY version")?;
            check_journal(&applied)?;
            for migration in MIGRATIONS[..through].iter().skip(applied.len()) {
                run_script(conn, backend.translate(migration.text)).await?;
                let journal = "INSERT INTO migrations (version, checksum) VALUES ($1, $2)";
                execute!(conn, journal, migration.version, checksum(migration))?;
                info!(migration = migration.name, "schema migrated");
            }
            Ok(())
        })
        .await
}

/// Where a database stands among this binary's migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The newest migration that it has; 0: none.
    pub version: i64,
    /// The newest migration of this binary.
    pub newest: i64,
}

impl Schema {
    /// Reads a journal of migrations, `(version, checksum)` in order; fails if they are not those of this binary.
    pub fn of_journal(applied: &[(i64, Vec<u8>)]) -> Result<Self> {
        check_journal(applied)?;
        let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
        Ok(Self { version: applied.last().map_or(0, |(version, _)| *version), newest })
    }

    /// Whether no migration is missing.
    pub fn is_newest(self) -> bool {
        self.version == self.newest
    }
}

/// The schema of a database, which may have none.
pub(crate) async fn schema(store: &Store) -> Result<Schema> {
    store
        .read("schema", async |conn: &mut Conn| {
            let text = match conn {
                Conn::Sqlite(_) => "SELECT count(*) FROM sqlite_schema WHERE name = 'migrations'",
                Conn::Postgres(_) => {
                    "SELECT count(*) FROM pg_class WHERE oid = to_regclass('migrations') AND relkind = 'r'"
                }
            };
            let (journals,): (i64,) = fetch_one!(conn, text)?;
            if journals == 0 {
                return Schema::of_journal(&[]);
            }
            let applied: Vec<(i64, Vec<u8>)> =
                fetch_all!(conn, "SELECT version, checksum FROM migrations ORDER BY version")?;
            Schema::of_journal(&applied)
        })
        .await
}

/// Refuses a database whose migrations are not the ones of this binary.
fn check_journal(applied: &[(i64, Vec<u8>)]) -> Result<()> {
    for (index, (version, sum)) in applied.iter().enumerate() {
        let Some(known) = MIGRATIONS.get(index) else {
            return Err(Error::Schema(format!(
                "the database is at schema version {version}, this binary knows up to {}: run the newer auspex",
                MIGRATIONS.last().map_or(0, |newest| newest.version)
            )));
        };
        if known.version != *version || *sum != checksum(known) {
            return Err(Error::Schema(format!(
                "migration {} differs from the one this database was made with: use the binary that made it, or a new database",
                known.name
            )));
        }
    }
    Ok(())
}

fn checksum(migration: &Migration) -> Vec<u8> {
    Sha256::digest(migration.text.as_bytes()).to_vec()
}

/// Runs several statements; the text comes from the binary, never from a caller.
async fn run_script(conn: &mut Conn, script: String) -> Result<()> {
    on_either!(conn, |native| sqlx::raw_sql(AssertSqlSafe(script)).execute(native).await.map(drop))?;
    Ok(())
}
