//! A database is brought to the newest schema once, or left as it was.

use sqlx::AssertSqlSafe;
use store::{Conn, Database, Error, Store};
use testkit::{TestDatabase, on_both};
use tokio::task::JoinSet;

use crate::catalogue;

on_both!(
    opening_again_changes_nothing,
    processes_that_start_together_migrate_once,
    a_newer_schema_is_refused_and_left_alone,
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

async fn a_newer_schema_is_refused_and_left_alone(database: &TestDatabase) {
    let store = database.open().await;
    let newer = journal(&store).await.last().unwrap().0 + 1;
    store
        .write("pretend", async |conn: &mut Conn| {
            execute!(
                conn,
                "INSERT INTO migrations (version, checksum) VALUES ($1, $2)",
                newer,
                b"unknown".as_slice()
            )
        })
        .await
        .unwrap();
    let before = journal(&store).await;

    let reason = refusal(database).await;
    assert!(reason.contains(&format!("version {newer}")) && reason.contains("newer"), "{reason}");
    assert_eq!(journal(&store).await, before);
    store.ping().await.unwrap();
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
