//! A database is brought to the newest schema once, or left as it was; a newer one is used as long as it carries this binary.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use store::runtime::nodes;
use store::{Conn, Database, Error, Store};
use testkit::{Backend, PATIENCE, TestDatabase, on_both, run_on};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::catalogue;

on_both!(
    opening_again_changes_nothing,
    processes_that_start_together_migrate_once,
    a_newer_schema_that_states_no_floor_is_refused_and_left_alone,
    a_newer_schema_is_used_while_it_carries_this_binary,
    an_altered_migration_is_refused_by_name,
    a_missing_migration_is_refused_by_name,
    a_migration_that_fails_leaves_nothing_behind,
);

/// What the database remembers of its migrations.
async fn journal(store: &Store) -> Vec<(i64, Vec<u8>)> {
    store
        .read("journal", async |conn: &mut Conn| {
            fetch_all!(conn, "SELECT version, checksum FROM migrations ORDER BY version")
        })
        .await
        .unwrap()
}

/// Opens the database and is refused; the reason.
async fn refusal(database: &TestDatabase) -> String {
    match Store::open(database.url()).await {
        Err(Error::Schema(reason)) => reason,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("opened"),
    }
}

async fn opening_again_changes_nothing(database: &TestDatabase) {
    let first = database.open().await;
    let kept = first.remember("kept", "from the first opening").await.unwrap();
    let before = journal(&first).await;
    let second = database.open().await;
    assert_eq!(journal(&second).await, before);
    assert_eq!(second.remember("kept", "from the second").await.unwrap(), kept);
}

async fn processes_that_start_together_migrate_once(database: &TestDatabase) {
    let mut starting = JoinSet::new();
    for _ in 0..8 {
        let url = database.url().to_owned();
        starting.spawn(async move { Store::open(&url).await });
    }
    let stores = starting.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();

    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<i64> = names.map(|name| name.split('_').next().unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    let versions: Vec<i64> = journal(&stores[0]).await.into_iter().map(|(version, _)| version).collect();
    assert_eq!(versions, numbers);
    for store in &stores {
        store.ping().await.unwrap();
    }
}

/// Adds a migration to the journal that this binary does not know, as a newer one does.
async fn pretend(store: &Store, version: i64, floor: Option<i64>) {
    store
        .write("pretend", async |conn: &mut Conn| {
            execute!(
                conn,
                "INSERT INTO migrations (version, checksum, floor) VALUES ($1, $2, $3)",
                version,
                b"unknown".as_slice(),
                floor
            )
        })
        .await
        .unwrap();
}

async fn a_newer_schema_that_states_no_floor_is_refused_and_left_alone(database: &TestDatabase) {
    let store = database.open().await;
    let newer = journal(&store).await.last().unwrap().0 + 1;
    pretend(&store, newer, None).await;
    let before = journal(&store).await;

    let reason = refusal(database).await;
    assert!(reason.contains(&format!("version {newer}")) && reason.contains("newer"), "{reason}");
    assert_eq!(journal(&store).await, before);
    store.ping().await.unwrap();
}

/// A process that runs finds the same out at its next heartbeat as one that starts.
async fn a_newer_schema_is_used_while_it_carries_this_binary(database: &TestDatabase) {
    let store = database.open().await;
    let known = journal(&store).await.last().unwrap().0;
    let heard = async || {
        store.read("heard", async |conn: &mut Conn| nodes::schema_refusal(conn).await).await.unwrap()
    };
    assert_eq!(heard().await, None);
    for floor in [1, known] {
        let version = journal(&store).await.last().unwrap().0 + 1;
        pretend(&store, version, Some(floor)).await;
        let before = journal(&store).await;
        let beside = database.open().await;
        assert_eq!(journal(&beside).await, before);
        let schema = beside.schema().await.unwrap();
        assert!(schema.is_ahead() && !schema.is_newest() && schema.version == version, "{schema:?}");
        assert_eq!(heard().await, None);
    }
    // One that carries this binary, after one that does not, brings it back for nobody.
    pretend(&store, known + 3, Some(known + 1)).await;
    pretend(&store, known + 4, Some(known)).await;
    let reason = refusal(database).await;
    assert!(
        reason.contains(&format!("version {}, for binaries of schema {}", known + 4, known + 1)),
        "{reason}"
    );
    assert_eq!(heard().await, Some(reason));
}

/// What waits for a lock keeps everybody waiting who comes after it. A migration lets them pass again and again.
#[test]
fn a_migration_that_waits_for_a_lock_lets_others_pass_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let before_floors = Store::open_at(database.url(), 36).await.unwrap();
        assert_eq!(before_floors.schema().await.unwrap().version, 38);
        let outside = pool(database).await;
        // A backup reads the table that the migration changes, for longer than a process of ours may.
        let mut reading = outside.begin().await.unwrap();
        sqlx::query("SET LOCAL idle_in_transaction_session_timeout = 0")
            .execute(&mut *reading)
            .await
            .unwrap();
        sqlx::query("SELECT count(*) FROM migrations").execute(&mut *reading).await.unwrap();
        let url = database.url().to_owned();
        let mut migrating = JoinSet::new();
        migrating.spawn(async move { Store::open(&url).await });
        for _ in 0..2 {
            let is_waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'migrations'::regclass
                              AND mode = 'AccessExclusiveLock' AND NOT granted";
            let waits = async |count: i64| {
                while sqlx::query_scalar::<_, i64>(is_waiting).fetch_one(&outside).await.unwrap() != count {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(PATIENCE, waits(1)).await.expect("the migration waits for its lock");
            // An ordinary statement comes behind it, and is answered within the time that it has.
            before_floors.schema().await.unwrap();
            timeout(PATIENCE, waits(0)).await.expect("the migration lets others pass");
            assert!(migrating.try_join_next().is_none());
        }
        reading.commit().await.unwrap();
        let migrated = timeout(PATIENCE, migrating.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        assert!(migrated.schema().await.unwrap().is_newest());
    });
}

async fn pool(database: &TestDatabase) -> sqlx::PgPool {
    match Database::connect(database.url()).await.unwrap() {
        Database::Postgres(pool) => pool,
        Database::Sqlite { .. } => unreachable!("the test is for PostgreSQL"),
    }
}

async fn an_altered_migration_is_refused_by_name(database: &TestDatabase) {
    let store = database.open().await;
    store
        .write("alter", async |conn: &mut Conn| {
            execute!(conn, "UPDATE migrations SET checksum = $1 WHERE version = 2", b"another".as_slice())
        })
        .await
        .unwrap();
    let before = journal(&store).await;

    let reason = refusal(database).await;
    assert!(reason.contains("0002_objects"), "{reason}");
    assert_eq!(journal(&store).await, before);
}

async fn a_missing_migration_is_refused_by_name(database: &TestDatabase) {
    let store = database.open().await;
    store
        .write("skip", async |conn: &mut Conn| execute!(conn, "DELETE FROM migrations WHERE version = 3"))
        .await
        .unwrap();

    let reason = refusal(database).await;
    assert!(reason.contains("0003_analyses"), "{reason}");
}

/// A table that is in the way of the last migration stands for any failure after much has been done.
async fn a_migration_that_fails_leaves_nothing_behind(database: &TestDatabase) {
    let outside = Database::connect(database.url()).await.unwrap();
    run(&outside, "CREATE TABLE sync_leases (in_the_way INTEGER)").await;

    let failure = Store::open(database.url()).await.err().unwrap();
    assert!(failure.to_string().contains("sync_leases"), "{failure}");
    assert_eq!(catalogue::tables(&outside).await, ["sync_leases".to_owned()].into());

    run(&outside, "DROP TABLE sync_leases").await;
    database.open().await.ping().await.unwrap();
}

async fn run(database: &Database, statement: &str) {
    let statement = sqlx::raw_sql(AssertSqlSafe(statement));
    match database {
        Database::Sqlite { writer, .. } => statement.execute(writer).await.map(drop),
        Database::Postgres(pool) => statement.execute(pool).await.map(drop),
    }
    .unwrap();
}
