//! A newer binary migrates the schema beside a running process: as long as the schema carries that process it goes on, and then it
//! stops by itself, and says why.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use store::{Conn, Store};
use testkit::{PATIENCE, TestDatabase};

use crate::admin::{auspex, finish};
use crate::app::App;
use crate::scripted_analyzer::until;

testkit::on_both!(
    a_process_that_the_schema_does_not_carry_any_more_is_not_ready,
    an_outgrown_process_stops_and_does_not_start_again,
);

/// The checksum of a migration that this binary does not know.
const UNKNOWN: &[u8] = b"unknown";

/// Migrates as a newer binary would: to a schema that carries binaries from the one of `floor` on.
async fn migrate_beyond(store: &Store, floor: i64) {
    let text =
        "INSERT INTO migrations (version, checksum, floor) SELECT max(version) + 1, $1, $2 FROM migrations";
    write(store, text, floor).await;
}

/// Runs a statement with the checksum and a number.
async fn write(store: &Store, text: &'static str, number: i64) {
    store
        .write("pretend", async |conn: &mut Conn| {
            match conn {
                Conn::Sqlite(lent) => {
                    let query = sqlx::query(text).bind(UNKNOWN).bind(number);
                    query.execute(lent.native()).await.map(drop)?;
                }
                Conn::Postgres(lent) => {
                    let query = sqlx::query(text).bind(UNKNOWN).bind(number);
                    query.execute(lent.native()).await.map(drop)?;
                }
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
}

async fn a_process_that_the_schema_does_not_carry_any_more_is_not_ready(app: &App) {
    let store = app.service().store().clone();
    let own = store.schema().await.unwrap().newest;
    migrate_beyond(&store, own).await;
    app.heart_has_beaten().await;
    assert_eq!(app.get("/readyz").await.status, 200, "an expanding migration lets it go on");
    migrate_beyond(&store, own + 1).await;
    app.heart_has_beaten().await;
    let refused = app.get("/readyz").await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.text.contains("run the newer auspex"), "{}", refused.text);
    let reason = app.service().wait_until_outgrown().await.to_owned();
    assert!(refused.text.contains(&reason), "{reason}");
    assert_eq!(app.get("/healthz").await.status, 200, "it is alive, and drains");
    // The books are audited at the end of each test, by this binary.
    write(&store, "DELETE FROM migrations WHERE checksum = $1 AND version > $2", own).await;
}

async fn an_outgrown_process_stops_and_does_not_start_again(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    let mut command = auspex(database.directory(), database.url(), &["serve"]);
    command.env("AUSPEX_ANALYZER", "words").stdin(Stdio::null());
    let mut running = command.spawn().unwrap();
    let node = "SELECT count(*) FROM nodes";
    until("it is a node", async || count(&store, node).await == 1).await;
    migrate_beyond(&store, store.schema().await.unwrap().newest + 1).await;
    // At its next heartbeat.
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(status) = running.try_wait().unwrap() {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let ended = ended.await.unwrap_or_else(|_| {
        let _ = running.kill();
        panic!("it goes on")
    });
    let mut said = String::new();
    running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!ended.success() && said.contains("run the newer auspex") && said.contains("stopped"), "{said}");
    assert_eq!(count(&store, node).await, 0, "it has said goodbye");

    let again = finish(auspex(database.directory(), database.url(), &["serve"]), b"");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("run the newer auspex"), "{said}");
}

async fn count(store: &Store, text: &'static str) -> i64 {
    let read = store.read("count", async |conn: &mut Conn| {
        Ok::<i64, store::Error>(match conn {
            Conn::Sqlite(lent) => sqlx::query_scalar(text).fetch_one(lent.native()).await?,
            Conn::Postgres(lent) => sqlx::query_scalar(text).fetch_one(lent.native()).await?,
        })
    });
    read.await.unwrap()
}
