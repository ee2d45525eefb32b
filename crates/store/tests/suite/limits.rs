//! No work on the database takes for ever, and none keeps others waiting.

use std::sync::mpsc;
use std::time::Duration;

use sqlx::PgConnection;
use store::{Conn, Result, Store};
use testkit::{Backend, PATIENCE, Proxy, TestDatabase, run_on};
use tokio::task::JoinSet;

const NAME: &str = "a row that everybody wants";

async fn put(conn: &mut Conn, value: &str) -> Result<()> {
    execute!(
        conn,
        "INSERT INTO deployment (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = deployment.value || excluded.value",
        NAME,
        value
    )
    .map(drop)
}

async fn write(store: &Store, value: &str) -> Result<()> {
    store.write("put", async |conn: &mut Conn| put(conn, value).await).await
}

async fn value(store: &Store) -> String {
    let rows: Vec<(String,)> = store
        .read("value", async |conn: &mut Conn| {
            fetch_all!(conn, "SELECT value FROM deployment WHERE name = $1", NAME)
        })
        .await
        .unwrap();
    rows.into_iter().map(|(value,)| value).collect()
}

/// A store behind a proxy.
async fn behind(database: &TestDatabase) -> (Store, Proxy) {
    let (url, proxy) = testkit::through_proxy(database).await;
    (Store::open(&url).await.unwrap(), proxy)
}

fn soon<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let waited = tokio::time::timeout(PATIENCE, Box::pin(future));
    async move { waited.await.unwrap_or_else(|_| panic!("in vain: {what}")) }
}

/// A thread that stands still in the middle of a transaction is what a process is that was stopped or cut off: it holds locks,
/// and says nothing more.
#[test]
fn a_process_that_freezes_in_a_transaction_stops_no_other_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let url = database.url().to_owned();
        let (holds, is_held) = tokio::sync::oneshot::channel();
        let (thaw, thawed) = mpsc::channel::<()>();
        let frozen = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut holds = Some(holds);
            runtime.block_on(async {
                let store = Store::open(&url).await.unwrap();
                // A transaction may run again, so what it does outside must not be in it.
                let signal = std::sync::Mutex::new((holds.take(), thawed));
                let signal = &signal;
                store
                    .write("freezes", async |conn: &mut Conn| {
                        put(conn, "frozen ").await?;
                        let mut signal = signal.lock().unwrap();
                        if let Some(holds) = signal.0.take() {
                            holds.send(()).unwrap();
                            // The whole process stands still, not only this transaction.
                            signal.1.recv().unwrap();
                        }
                        Ok::<_, store::Error>(())
                    })
                    .await
            })
        });
        is_held.await.unwrap();
        let store = database.open().await;
        soon("others go on", async { while write(&store, "other ").await.is_err() {} }).await;
        thaw.send(()).unwrap();
        let ended = tokio::task::spawn_blocking(|| frozen.join().unwrap()).await.unwrap();
        ended.expect("it was not committed, so it runs again");
        assert_eq!(value(&store).await, "other frozen ");
    });
}

#[test]
fn a_statement_that_takes_too_long_is_given_up_unless_it_is_maintenance_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = database.open().await;
        let doze = async |conn: &mut Conn| {
            put(conn, "dozed ").await?;
            execute!(conn, "SELECT pg_sleep(5.5)").map(drop)
        };
        let given_up = store.write("dozes", doze).await.unwrap_err();
        assert!(given_up.is_unavailable() && !given_up.is_transient(), "{given_up}");
        store.for_maintenance().write("dozes", doze).await.unwrap();
        store
            .for_maintenance()
            .read("dozes", async |conn: &mut Conn| execute!(conn, "SELECT pg_sleep(5.5)"))
            .await
            .unwrap();
        assert_eq!(value(&store).await, "dozed ");
        // What held for maintenance holds for nothing else on the same connection.
        let given_up =
            store.read("dozes", async |conn: &mut Conn| execute!(conn, "SELECT pg_sleep(5.5)")).await;
        assert!(given_up.unwrap_err().is_unavailable());
    });
}

#[test]
fn a_lock_that_is_not_granted_is_asked_for_again_until_the_deadline_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = database.open().await;
        write(&store, "first ").await.unwrap();
        // A session without our limits, such as an operator's.
        let mut other = <PgConnection as sqlx::Connection>::connect(database.url()).await.unwrap();
        sqlx::raw_sql("BEGIN; UPDATE deployment SET value = value || 'other '")
            .execute(&mut other)
            .await
            .unwrap();
        let (waited, ()) = tokio::join!(write(&store, "second "), async {
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
        });
        waited.unwrap();
        assert_eq!(value(&store).await, "first other second ");
        sqlx::raw_sql("BEGIN; UPDATE deployment SET value = value || 'never '")
            .execute(&mut other)
            .await
            .unwrap();
        let given_up = soon("it is given up", write(&store, "third ")).await.unwrap_err();
        assert!(given_up.is_unavailable(), "{given_up}");
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        write(&store, "fourth ").await.unwrap();
        assert_eq!(value(&store).await, "first other second fourth ");
    });
}

#[test]
fn a_connection_that_stalls_is_given_up_and_thrown_away_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let (store, proxy) = behind(database).await;
        let stalls = store.write("stalls", async |conn: &mut Conn| {
            put(conn, "stalled ").await?;
            proxy.stall();
            put(conn, "still ").await
        });
        let given_up = soon("it is given up", stalls).await.unwrap_err();
        assert!(matches!(given_up, store::Error::Late { .. }) && given_up.is_unavailable(), "{given_up}");
        // The connection is still stalled, and with it the lock, until the server ends the transaction.
        soon("others go on", async { while write(&store, "next ").await.is_err() {} }).await;
        let given_up = store.read("stalls", async |conn: &mut Conn| {
            proxy.stall();
            execute!(conn, "SELECT 1")
        });
        assert!(soon("it is given up", given_up).await.unwrap_err().is_unavailable());
        assert_eq!(value(&store).await, "next ");
    });
}

/// More are left in the middle than there are connections: whoever comes next finds some all the same.
#[test]
fn connections_that_stall_in_idleness_or_when_left_are_replaced_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let (store, proxy) = behind(database).await;
        let nap = async |conn: &mut Conn| execute!(conn, "SELECT pg_sleep(0.2)");
        let mut all = JoinSet::new();
        for _ in 0..10 {
            let store = store.clone();
            all.spawn(async move { store.read("opens connections", nap).await });
        }
        for opened in all.join_all().await {
            opened.unwrap();
        }
        assert!(proxy.connections() >= 10);
        // Longer than a connection is believed to be alive.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        proxy.stall();
        soon("idle ones are replaced", async { while write(&store, "one ").await.is_err() {} }).await;

        for _ in 0..25 {
            let leaves = store.write("leaves", async |conn: &mut Conn| {
                proxy.stall();
                put(conn, "never ").await
            });
            let left = tokio::time::timeout(Duration::from_millis(50), leaves).await;
            assert!(left.is_err() || left.unwrap().is_err());
        }
        soon("those left are replaced", async { while write(&store, "two ").await.is_err() {} }).await;
        assert_eq!(value(&store).await, "one two ");
    });
}

#[test]
fn a_full_database_is_unavailable_and_goes_on_by_itself_on_sqlite() {
    run_on(Backend::Sqlite, async |database: &TestDatabase| {
        let store = database.open().await;
        write(&store, "before ").await.unwrap();
        store.check().await.unwrap();
        let full = store
            .write("fills", async |conn: &mut Conn| {
                // Holds on this connection, as long as that lives.
                execute!(conn, "PRAGMA max_page_count = 1")?;
                put(conn, &"never ".repeat(10_000)).await
            })
            .await
            .unwrap_err();
        assert!(full.is_unavailable() && !full.is_transient(), "{full}");
        store.check().await.expect("a probe has found that there is room again");
        write(&store, "after ").await.unwrap();
        assert_eq!(value(&store).await, "before after ");
    });
}

#[test]
fn a_read_only_database_is_unavailable_and_goes_on_by_itself_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = database.open().await;
        write(&store, "before ").await.unwrap();
        database.set_read_only(true).await;
        let refused = soon("it is noticed", async {
            loop {
                match write(&store, "never ").await {
                    // The sessions were ended; new ones cannot write.
                    Err(error) if error.to_string().contains("read-only") => break error,
                    _ => {}
                }
            }
        });
        let refused = refused.await;
        assert!(refused.is_unavailable() && !refused.is_transient(), "{refused}");
        assert!(store.check().await.is_err(), "reads work, writes do not");
        assert_eq!(value(&store).await, "before ");
        database.set_read_only(false).await;
        soon("it goes on", async { while store.check().await.is_err() {} }).await;
        // A session that was opened meanwhile, and has only read, is found out and closed by its first write.
        soon("every session does", async { while write(&store, "after ").await.is_err() {} }).await;
        assert_eq!(value(&store).await, "before after ");
    });
}

/// After a failover, connections of before may lead to the server that was demoted. One that only reads does not notice.
#[test]
fn one_refused_write_throws_away_every_connection_to_a_demoted_server_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = database.open().await;
        write(&store, "before ").await.unwrap();
        // New sessions cannot write, and stay so for good.
        database.set_read_only(true).await;
        let nap = async |conn: &mut Conn| execute!(conn, "SELECT pg_sleep(0.2)");
        let mut all = JoinSet::new();
        for _ in 0..10 {
            let store = store.clone();
            all.spawn(async move { store.read("opens connections", nap).await });
        }
        all.join_all().await;
        database.set_read_only(false).await;
        let refused = soon("one of them is found out", async {
            loop {
                match write(&store, "after ").await {
                    Err(error) if error.to_string().contains("read-only") => break,
                    Err(_) => {}
                    Ok(()) => panic!("no connection is read-only"),
                }
            }
        });
        refused.await;
        for _ in 0..10 {
            write(&store, "after ").await.expect("the others are gone, too");
        }
    });
}

/// Whoever restarts the database, or cuts the way to it, catches some connections in their first words.
#[tokio::test]
async fn a_connection_cut_in_its_first_words_is_an_outage_on_postgres() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://auspex@{}/auspex", listener.local_addr().unwrap());
    let cutting = async {
        while let Ok((mut stream, _)) = listener.accept().await {
            // The request for TLS; what is left unread would reset the connection, which the driver recognizes.
            let _ = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut [0; 8]).await;
        }
    };
    let error = tokio::select! {
        opened = Store::open(&url) => opened.err().expect("there is no database"),
        () = cutting => unreachable!("it goes on"),
    };
    assert!(error.is_unavailable(), "{error:?}");
}
