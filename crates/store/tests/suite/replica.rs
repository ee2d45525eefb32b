//! What is read from a replica, tried on PostgreSQL servers of its own.

use std::time::Duration;

use store::{Conn, Error, Result, Store, reading_as};
use testkit::{Backend, PATIENCE, PostgresServer, TestDatabase, run_on};
use tokio::time::Instant;
use uuid::Uuid;

const WRITER: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);
const PRIMARY: bool = false;
const REPLICA: bool = true;

async fn set_up() -> (PostgresServer, PostgresServer, Store) {
    let primary = PostgresServer::start().await;
    let replica = primary.copy().await;
    let store = Store::open(&primary.url()).await.unwrap().with_replica(&replica.url()).unwrap();
    until_read_from(REPLICA, &store).await;
    (primary, replica, store)
}

/// A list: which server it is from, and what there is.
async fn contents(conn: &mut Conn) -> Result<(bool, String)> {
    let server: Vec<(bool,)> = fetch_all!(conn, "SELECT pg_is_in_recovery()")?;
    let rows: Vec<(String,)> = fetch_all!(conn, "SELECT value FROM deployment WHERE name = 'list'")?;
    Ok((server[0].0, rows.into_iter().map(|(value,)| value).collect()))
}

async fn list(store: &Store, caller: Uuid) -> (bool, String) {
    let lists = store.for_lists();
    reading_as(caller, lists.read("list", contents)).await.unwrap()
}

async fn write(store: &Store, value: &str) {
    store
        .write("put", async |conn: &mut Conn| {
            execute!(
                conn,
                "INSERT INTO deployment (name, value) VALUES ('list', $1)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                value
            )
        })
        .await
        .unwrap();
}

async fn until_read_from(server: bool, store: &Store) {
    let read = tokio::time::timeout(PATIENCE, async {
        while list(store, Uuid::nil()).await.0 != server {
            store.follow_replica().await;
        }
    });
    assert!(read.await.is_ok(), "in vain: {:?}", store.replica_lag().await);
}

fn pair(server: bool, value: &str) -> (bool, String) {
    (server, value.to_owned())
}

#[tokio::test]
async fn a_list_from_the_replica_shows_what_its_caller_has_written() {
    let (_primary, replica, store) = set_up().await;
    replica.pause().await;
    write(&store, "new").await;
    store.note_write(WRITER);
    assert_eq!(list(&store, WRITER).await, pair(PRIMARY, "new"), "the replica does not have it");
    assert_eq!(list(&store, OTHER).await, pair(REPLICA, ""), "others may see the state of before");
    store.follow_replica().await;
    assert_eq!(list(&store, WRITER).await, pair(PRIMARY, "new"), "it still does not have it");
    assert_eq!(contents_of_nobody(&store).await, pair(PRIMARY, "new"));

    let both = reading_as(OTHER, async {
        write(&store, "newer").await;
        list(&store, OTHER).await
    });
    assert_eq!(Box::pin(both).await, pair(PRIMARY, "newer"), "a request that reads may write, too");

    replica.resume().await;
    let caught_up = tokio::time::timeout(PATIENCE, async {
        while list(&store, WRITER).await != pair(REPLICA, "newer") {
            store.follow_replica().await;
        }
    });
    caught_up.await.expect("the replica catches up");
    let lists = store.for_lists();
    assert_eq!(reading_as(WRITER, lists.snapshot("list", contents)).await.unwrap(), pair(REPLICA, "newer"));
    store.note_writing(OTHER);
    assert_eq!(list(&store, OTHER).await.0, PRIMARY, "its transaction may not be over");
    assert_eq!(store.read("list", contents).await.unwrap().0, PRIMARY, "this is no list");
    store.close().await;
}

async fn contents_of_nobody(store: &Store) -> (bool, String) {
    store.for_lists().read("list", contents).await.unwrap()
}

#[tokio::test]
async fn a_list_that_would_be_too_old_comes_from_the_primary() {
    let (_primary, replica, store) = set_up().await;
    replica.pause().await;
    write(&store, "new").await;
    let paused = Instant::now();
    until_read_from(PRIMARY, &store).await;
    assert!(paused.elapsed() < Duration::from_secs(30), "{:?}", paused.elapsed());
    assert_eq!(list(&store, OTHER).await, pair(PRIMARY, "new"));
    let lag = store.replica_lag().await.unwrap().unwrap();
    assert!(lag > 0, "{lag}");
    store.close().await;
}

#[tokio::test]
async fn what_the_replica_does_not_answer_the_primary_does() {
    let (primary, replica, store) = set_up().await;
    write(&store, "there").await;
    until_read_from(REPLICA, &store).await;
    let lists = store.for_lists();
    let refused = lists.read("list", async |conn: &mut Conn| match contents(conn).await? {
        (REPLICA, _) => Err(Error::Schema("the table is not there yet".to_owned())),
        found => Ok(found),
    });
    assert_eq!(reading_as(OTHER, refused).await.unwrap(), pair(PRIMARY, "there"));

    // The replica must replay what removes rows that a snapshot on it still sees.
    until_read_from(REPLICA, &store).await;
    let conflict = lists.snapshot("list", async |conn: &mut Conn| {
        let (server, value) = contents(conn).await?;
        if server == REPLICA {
            primary.execute("UPDATE deployment SET value = 'changed' WHERE name = 'list'").await;
            primary.execute("VACUUM deployment").await;
            execute!(conn, "SELECT pg_sleep(4)")?;
        }
        Ok::<_, Error>((server, value))
    });
    assert_eq!(reading_as(WRITER, conflict).await.unwrap(), pair(PRIMARY, "changed"));

    until_read_from(REPLICA, &store).await;
    replica.kill();
    for caller in 10..30 {
        let asked = Instant::now();
        assert_eq!(list(&store, Uuid::from_u128(caller)).await, pair(PRIMARY, "changed"));
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    store.follow_replica().await;
    let asked = Instant::now();
    list(&store, OTHER).await;
    assert!(asked.elapsed() < Duration::from_millis(900), "nobody asks it: {:?}", asked.elapsed());
    replica.restart().await;
    until_read_from(REPLICA, &store).await;
    store.close().await;
}

/// Why a server cannot stand in for the primary of this store.
async fn objection(store: &Store, url: &str) -> String {
    let store = store.clone().with_replica(url).unwrap();
    store.replica_lag().await.unwrap_err().to_string()
}

#[tokio::test]
async fn only_a_replica_of_the_primary_is_read() {
    let (primary, replica, store) = set_up().await;
    assert!(objection(&store, &primary.url()).await.contains("takes writes itself"));
    let stranger = PostgresServer::start().await;
    assert!(objection(&store, &stranger.url()).await.contains("another cluster"));
    drop(stranger);
    let postgres = replica.url().strip_suffix("service").unwrap().to_owned() + "postgres";
    assert!(objection(&store, &postgres).await.contains("another database"));

    replica.promote().await;
    store.note_write(WRITER);
    assert_eq!(list(&store, OTHER).await.0, PRIMARY);
    store.follow_replica().await;
    assert_eq!(list(&store, WRITER).await.0, PRIMARY);
    assert!(objection(&store, &replica.url()).await.contains("takes writes itself"));
    store.close().await;
}

/// One that still follows the old primary may be further in its log than the new one is in its own.
#[tokio::test]
async fn after_a_failover_only_a_replica_that_has_followed_it_is_read() {
    let (old, new, store) = set_up().await;
    let (ahead, able) = (old.copy().await, old.copy().await);
    able.detach().await;
    new.detach().await;
    write(&store, "of the old primary").await;
    store.close().await;
    ahead.wait_until("SELECT EXISTS (SELECT FROM deployment WHERE name = 'list')").await;
    old.kill();
    new.promote().await;
    let store = Store::open(&new.url()).await.unwrap().with_replica(&ahead.url()).unwrap();
    write(&store, "of the new").await;
    assert!(store.replica_lag().await.unwrap_err().to_string().contains("has not followed"));
    store.follow_replica().await;
    assert_eq!(list(&store, OTHER).await, pair(PRIMARY, "of the new"));

    // One that has nothing that the new primary lacks can follow it.
    able.follow(&new).await;
    let store = store.with_replica(&able.url()).unwrap();
    let followed = tokio::time::timeout(PATIENCE, async {
        while store.replica_lag().await.is_err() {
            new.execute("CHECKPOINT").await;
            able.execute("CHECKPOINT").await;
        }
    });
    followed.await.expect("it records that it has followed");
    until_read_from(REPLICA, &store).await;
    assert_eq!(list(&store, OTHER).await, pair(REPLICA, "of the new"));
    store.close().await;
}

#[test]
fn sqlite_has_no_replica() {
    run_on(Backend::Sqlite, async |database: &TestDatabase| {
        let store = database.open().await;
        let refused = store.clone().with_replica("postgres://replica/auspex").err().unwrap();
        assert_eq!(refused.to_string(), "SQLite has no replicas");
        let lists = store.for_lists();
        let listed = lists.read("list", async |conn: &mut Conn| {
            let rows: Vec<(String,)> = fetch_all!(conn, "SELECT value FROM deployment WHERE name = 'list'")?;
            Ok::<_, Error>(rows.len())
        });
        assert_eq!(reading_as(OTHER, listed).await.unwrap(), 0);
    });
}
