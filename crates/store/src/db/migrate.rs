//! Brings a database to this binary's schema: all pending migrations in one transaction, or none.
//!
//! Binaries of an older schema may run on a newer one as long as it carries them: each migration states its floor, the oldest
//! schema whose binaries may run beside it (`docs/adr/0046-schemas-carry-older-binaries.md`).

use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use tokio::time::Instant;
use tracing::{info, warn};

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
    floor: i64,
}

macro_rules! migrations {
    ($($version:literal $name:literal;)*) => {
        [$({
            let text = include_str!(concat!("../../migrations/", $name, ".sql"));
            Migration { version: $version, name: $name, text, floor: stated_floor($version, text) }
        }),*]
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
    39 "0039_floors";
};

/// The advisory lock that a migrating process holds; any number that nothing else uses: "auspex" as bytes.
const POSTGRES_LOCK: i64 = 0x0061_7573_7065_7800;

/// The first migration that states a floor, and that gives the journal a column for it.
const FIRST_FLOOR: i64 = 39;

/// How many migrations there are.
pub(crate) const NEWEST: usize = MIGRATIONS.len();
/// The schema of this binary.
const NEWEST_VERSION: i64 = MIGRATIONS[NEWEST - 1].version;

/// How long a migration waits for a lock. Whoever comes after it waits behind it, and processes of the older schema go on
/// meanwhile: it must be shorter than they wait ([`crate::db::limits::POSTGRES_SESSION`]).
const LOCK_LIMIT: &str = "SET LOCAL lock_timeout = '1s'";
/// How long everybody else may work until it is tried again.
const LOCK_PAUSE: Duration = Duration::from_secs(2);
/// How long it is tried: a backup may keep a table locked for as long as it reads.
const LOCK_PATIENCE: Duration = Duration::from_hours(1);

/// The floor that a migration states in its first line, as `-- Floor 39: why`. Older ones carry no other binaries than their own.
const fn stated_floor(version: i64, text: &str) -> i64 {
    if version < FIRST_FLOOR {
        return version;
    }
    let (text, word) = (text.as_bytes(), b"-- Floor ");
    let mut at = 0;
    while at < word.len() {
        assert!(text[at] == word[at], "a migration begins with a line like `-- Floor 39: why`");
        at += 1;
    }
    let mut floor = 0;
    while text[at].is_ascii_digit() {
        floor = floor * 10 + (text[at] - b'0') as i64;
        at += 1;
    }
    assert!(text[at] == b':' && floor > 0, "a migration begins with a line like `-- Floor 39: why`");
    assert!(floor <= version, "the floor of a migration is at most its own version");
    floor
}

/// Applies the missing ones of the first `through` migrations. Processes that start together do so one after the other; the
/// later ones find nothing to do.
pub(crate) async fn run(store: &Store, through: usize) -> Result<()> {
    let unhurried = Store { limits: Limits::Migration, ..store.clone() };
    let begun = Instant::now();
    loop {
        let outcome = unhurried.write("migrate", async |conn| migrate(conn, through).await).await;
        match outcome {
            Err(error) if error.is_lock_timeout() && begun.elapsed() < LOCK_PATIENCE => {
                warn!("a migration needs a lock that others hold; it is tried again until it gets it");
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

async fn migrate(conn: &mut Conn, through: usize) -> Result<()> {
    let backend = conn.backend();
    // SQLite's write transaction is the lock already.
    if backend == Backend::Postgres {
        execute!(conn, "SELECT pg_advisory_xact_lock($1)", POSTGRES_LOCK)?;
        execute!(conn, LOCK_LIMIT)?;
    }
    let journal = backend.translate(
        "CREATE TABLE IF NOT EXISTS migrations (version BIGINT NOT NULL PRIMARY KEY, checksum BYTES NOT NULL) STRICT;",
    );
    run_script(conn, journal).await?;
    let applied = read_journal(conn).await?;
    if let Some((version, _)) = applied.get(NEWEST..).and_then(<[_]>::last) {
        warn!(
            schema = *version,
            knows = NEWEST_VERSION,
            "the schema is newer than this binary, and carries it"
        );
    }
    let missing = MIGRATIONS[..through].get(applied.len()..).unwrap_or_default();
    for migration in missing {
        run_script(conn, backend.translate(migration.text)).await?;
        let journal = "INSERT INTO migrations (version, checksum) VALUES ($1, $2)";
        execute!(conn, journal, migration.version, checksum(migration))?;
        if migration.version >= FIRST_FLOOR {
            let state = "UPDATE migrations SET floor = $2 WHERE version = $1";
            execute!(conn, state, migration.version, migration.floor)?;
        }
    }
    if let Some(newest) = missing.last() {
        info!(migrations = missing.len(), schema = newest.version, "schema migrated");
    }
    Ok(())
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
        match applied.get(NEWEST..).and_then(<[_]>::last) {
            None => Ok(Self::of_checked(applied)),
            Some((version, _)) => Err(Error::Schema(too_new(*version, *version))),
        }
    }

    fn of_checked(applied: &[(i64, Vec<u8>)]) -> Self {
        Self { version: applied.last().map_or(0, |(version, _)| *version), newest: NEWEST_VERSION }
    }

    /// Whether it is the schema of this binary.
    pub fn is_newest(self) -> bool {
        self.version == self.newest
    }

    /// Whether a newer binary has migrated it, to a schema that carries this one.
    pub fn is_ahead(self) -> bool {
        self.version > self.newest
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
            Ok(Schema::of_checked(&read_journal(conn).await?))
        })
        .await
}

/// Why this binary cannot work with the schema any more, which a newer one may have migrated since it started.
pub(crate) async fn refusal(conn: &mut Conn) -> Result<Option<String>> {
    let (version, floor): (Option<i64>, Option<i64>) = fetch_one!(
        conn,
        "SELECT max(version), max(coalesce(floor, version)) FROM migrations WHERE version > $1",
        NEWEST_VERSION
    )?;
    Ok(match (version, floor) {
        (Some(version), Some(floor)) if floor > NEWEST_VERSION => Some(too_new(version, floor)),
        _ => None,
    })
}

/// The migrations of a database; fails if they are not those of this binary, or if those beyond do not carry it.
async fn read_journal(conn: &mut Conn) -> Result<Vec<(i64, Vec<u8>)>> {
    let applied: Vec<(i64, Vec<u8>)> =
        fetch_all!(conn, "SELECT version, checksum FROM migrations ORDER BY version")?;
    check_journal(&applied)?;
    // Before the first floor, the journal has no column for it.
    if applied.len() > NEWEST
        && let Some(reason) = refusal(conn).await?
    {
        return Err(Error::Schema(reason));
    }
    Ok(applied)
}

/// Refuses a database whose first migrations are not the ones of this binary.
fn check_journal(applied: &[(i64, Vec<u8>)]) -> Result<()> {
    for (known, (version, sum)) in MIGRATIONS.iter().zip(applied) {
        if known.version != *version || *sum != checksum(known) {
            return Err(Error::Schema(format!(
                "migration {} differs from the one this database was made with: use the binary that made it, or a new database",
                known.name
            )));
        }
    }
    Ok(())
}

fn too_new(version: i64, floor: i64) -> String {
    format!(
        "the database is at schema version {version}, for binaries of schema {floor} or newer, and this one is of schema \
         {NEWEST_VERSION}: run the newer auspex"
    )
}

fn checksum(migration: &Migration) -> Vec<u8> {
    Sha256::digest(migration.text.as_bytes()).to_vec()
}

/// Runs several statements; the text comes from the binary, never from a caller.
async fn run_script(conn: &mut Conn, script: String) -> Result<()> {
    on_either!(conn, |native| sqlx::raw_sql(AssertSqlSafe(script)).execute(native).await.map(drop))?;
    Ok(())
}
