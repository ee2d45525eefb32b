//! What a named transaction promises: all or nothing, again after a conflict, and a reading on the meter for each.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use model::TenantId;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};
use store::billing::balance;
use store::billing::balance::AnalysisCharge;
use store::billing::usage::UsageSource;
use store::{Batch, Conn, Error, Result, Store, StoreError};
use testkit::{Backend, PATIENCE, TestDatabase, on_both, run_on};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    work_that_fails_leaves_nothing_written,
    an_error_of_the_caller_comes_back_as_it_is,
    a_duplicate_is_reported_and_not_tried_again,
    a_conflict_is_tried_again,
    a_conflict_that_never_passes_is_given_up,
    payments_of_two_processes_all_count,
    every_use_is_metered_by_name_and_outcome,
    a_write_dropped_in_the_middle_is_undone,
    a_write_cut_short_anywhere_is_all_or_nothing,
    a_batch_is_written_with_its_transaction,
    a_batch_that_fails_leaves_nothing_written,
    a_batch_cut_short_anywhere_is_all_or_nothing,
    a_write_that_panics_harms_no_other,
);

const FIRST: TenantId = TenantId(Uuid::from_u128(1));
const SECOND: TenantId = TenantId(Uuid::from_u128(2));

/// A store in which both tenants have a balance of nothing.
async fn accounts(database: &TestDatabase) -> Store {
    let store = database.open().await;
    store
        .write("accounts", async |conn: &mut Conn| {
            open_account(conn, FIRST).await?;
            open_account(conn, SECOND).await
        })
        .await
        .unwrap();
    store
}

async fn open_account(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    execute!(conn, "INSERT INTO balances (tenant_id, balance_micros, ledger_seq) VALUES ($1, 0, 0)", tenant)
        .map(drop)
}

const PAY_IN: &str = "UPDATE balances SET balance_micros = balance_micros + 1 WHERE tenant_id = $1";

async fn pay_in(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    execute!(conn, PAY_IN, tenant).map(drop)
}

/// The balances of the first tenant and of the second.
async fn balances(store: &Store) -> [i64; 2] {
    let rows: Vec<(i64,)> = store
        .read("balances", async |conn: &mut Conn| {
            fetch_all!(conn, "SELECT balance_micros FROM balances ORDER BY tenant_id")
        })
        .await
        .unwrap();
    [rows[0].0, rows[1].0]
}

/// Loses against another connection; the error is the database's own.
async fn collide(database: &TestDatabase, conn: &mut Conn) -> Result<()> {
    match conn {
        // We hold the lock: whoever does not wait for it is refused at once.
        Conn::Sqlite(_) => {
            let mut other = impatient_connection(database).await;
            sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await?;
        }
        // We see the past: whoever writes over what has changed since is refused.
        Conn::Postgres(lent) => {
            let ours = lent.native();
            sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *ours).await?;
            sqlx::query("SELECT balance_micros FROM balances").execute(&mut *ours).await?;
            let mut other = PgConnection::connect(database.url()).await?;
            sqlx::query(PAY_IN).bind(SECOND).execute(&mut other).await?;
            sqlx::query(PAY_IN).bind(SECOND).execute(ours).await?;
        }
    }
    panic!("the database let two transactions pass that exclude each other");
}

/// Another process's connection to a SQLite file, which fails where others wait.
async fn impatient_connection(database: &TestDatabase) -> SqliteConnection {
    SqliteConnectOptions::from_str(database.url())
        .unwrap()
        .busy_timeout(Duration::ZERO)
        .connect()
        .await
        .unwrap()
}

async fn work_that_fails_leaves_nothing_written(database: &TestDatabase) {
    let store = accounts(database).await;
    let failed: Result<()> = store
        .write("fails", async |conn: &mut Conn| {
            pay_in(conn, FIRST).await?;
            execute!(conn, "UPDATE balances SET balance_micros = NULL WHERE tenant_id = $1", SECOND).map(drop)
        })
        .await;
    assert!(matches!(failed, Err(Error::Database(sqlx::Error::Database(_)))), "{failed:?}");
    assert_eq!(balances(&store).await, [0, 0]);
}

/// What a use case answers when it will not go through with it.
#[derive(Debug)]
enum Refusal {
    Frozen { reason: &'static str },
    Store(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl StoreError for Refusal {
    fn store_error(&self) -> Option<&Error> {
        match self {
            Self::Store(error) => Some(error),
            Self::Frozen { .. } => None,
        }
    }
}

async fn an_error_of_the_caller_comes_back_as_it_is(database: &TestDatabase) {
    let store = accounts(database).await;
    let tries = AtomicU32::new(0);
    let refused = store
        .write("refuses", async |conn: &mut Conn| {
            tries.fetch_add(1, Ordering::Relaxed);
            pay_in(conn, FIRST).await?;
            Err::<(), _>(Refusal::Frozen { reason: "under review" })
        })
        .await;
    assert!(matches!(refused, Err(Refusal::Frozen { reason: "under review" })), "{refused:?}");
    assert_eq!(tries.into_inner(), 1);
    assert_eq!(balances(&store).await, [0, 0]);
}

async fn a_duplicate_is_reported_and_not_tried_again(database: &TestDatabase) {
    let store = accounts(database).await;
    let tries = AtomicU32::new(0);
    let refused = store
        .write("duplicate", async |conn: &mut Conn| {
            tries.fetch_add(1, Ordering::Relaxed);
            open_account(conn, FIRST).await
        })
        .await
        .unwrap_err();
    assert!(refused.is_duplicate() && !refused.is_transient() && !refused.is_unavailable(), "{refused}");
    assert_eq!(tries.into_inner(), 1);
}

async fn a_conflict_is_tried_again(database: &TestDatabase) {
    let store = accounts(database).await;
    let tries = AtomicU32::new(0);
    store
        .write("conflicts", async |conn: &mut Conn| {
            let first_try = tries.fetch_add(1, Ordering::Relaxed) == 0;
            if first_try {
                collide(database, conn).await?;
            }
            pay_in(conn, FIRST).await
        })
        .await
        .unwrap();
    assert_eq!(tries.into_inner(), 2);
    assert_eq!(balances(&store).await[0], 1);
}

async fn a_conflict_that_never_passes_is_given_up(database: &TestDatabase) {
    let store = accounts(database).await;
    let tries = AtomicU32::new(0);
    let given_up = store
        .write("always conflicts", async |conn: &mut Conn| {
            tries.fetch_add(1, Ordering::Relaxed);
            collide(database, conn).await
        })
        .await
        .unwrap_err();
    assert!(given_up.is_transient(), "{given_up}");
    assert_eq!(tries.into_inner(), 8);
}

/// Each locks one account and then asks for the other's: PostgreSQL ends one of them, which then finds its turn.
#[test]
fn two_that_wait_for_each_other_both_get_their_turn_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = accounts(database).await;
        let both_hold_one = Barrier::new(2);
        let tries = AtomicU32::new(0);
        let pay = async |one: TenantId, other: TenantId| {
            store
                .write("crosses", async |conn: &mut Conn| {
                    pay_in(conn, one).await?;
                    if tries.fetch_add(1, Ordering::Relaxed) < 2 {
                        both_hold_one.wait().await;
                    }
                    pay_in(conn, other).await
                })
                .await
        };
        let (forth, back) = tokio::join!(pay(FIRST, SECOND), pay(SECOND, FIRST));
        forth.unwrap();
        back.unwrap();
        assert_eq!(balances(&store).await, [2, 2]);
        assert_eq!(tries.load(Ordering::Relaxed), 3);
    });
}

async fn payments_of_two_processes_all_count(database: &TestDatabase) {
    let here = accounts(database).await;
    let there = database.open().await;
    let mut payments = JoinSet::new();
    for _ in 0..20 {
        for process in [here.clone(), there.clone()] {
            payments.spawn(async move {
                process.write("pay in", async |conn: &mut Conn| pay_in(conn, FIRST).await).await
            });
        }
    }
    for payment in payments.join_all().await {
        payment.unwrap();
    }
    assert_eq!(balances(&here).await, [40, 0]);
}

async fn every_use_is_metered_by_name_and_outcome(database: &TestDatabase) {
    let store = accounts(database).await;
    let recorder = DebuggingRecorder::new();
    {
        // The recorder is this thread's, and a story stays on the thread that plays it.
        let _listening = metrics::set_default_local_recorder(&recorder);
        let tries = AtomicU32::new(0);
        let conflicts = store.write("conflicts", async |conn: &mut Conn| {
            if tries.fetch_add(1, Ordering::Relaxed) < 2 { collide(database, conn).await } else { Ok(()) }
        });
        conflicts.await.unwrap();
        store.write("succeeds", async |conn: &mut Conn| pay_in(conn, FIRST).await).await.unwrap();
        store.write("succeeds", async |conn: &mut Conn| pay_in(conn, FIRST).await).await.unwrap();
        store.write("fails", async |conn: &mut Conn| open_account(conn, FIRST).await).await.unwrap_err();
        balances(&store).await;
    }
    let mut readings = readings(&recorder);
    for name in ["balances", "conflicts", "fails", "succeeds"] {
        let took_us = readings.remove(&format!("auspex_store_transaction_microseconds_total name={name}"));
        assert!(took_us.is_some_and(|took_us| took_us > 0), "{name}: {took_us:?}");
    }
    let expected = [
        ("auspex_store_transaction_retries_total name=conflicts", 2),
        ("auspex_store_transaction_seconds outcome=error", 1),
        ("auspex_store_transaction_seconds outcome=ok", 4),
        ("auspex_store_transactions_total name=balances outcome=ok", 1),
        ("auspex_store_transactions_total name=conflicts outcome=ok", 1),
        ("auspex_store_transactions_total name=fails outcome=error", 1),
        ("auspex_store_transactions_total name=succeeds outcome=ok", 2),
    ];
    assert_eq!(readings, expected.map(|(meter, count)| (meter.to_owned(), count)).into());
}

/// Each meter with its labels, and how often it was used.
fn readings(recorder: &DebuggingRecorder) -> BTreeMap<String, u64> {
    let count = |value| match value {
        DebugValue::Counter(count) => count,
        DebugValue::Histogram(samples) => samples.len().try_into().unwrap(),
        DebugValue::Gauge(_) => panic!("the store has no gauges"),
    };
    let described = |key: &metrics::Key| {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        labels.fold(key.name().to_owned(), |text, label| text + &label)
    };
    let readings = recorder.snapshotter().snapshot().into_vec().into_iter();
    readings.map(|(key, _unit, _description, value)| (described(key.key()), count(value))).collect()
}

async fn a_write_dropped_in_the_middle_is_undone(database: &TestDatabase) {
    let store = accounts(database).await;
    let half_done = Notify::new();
    let endless = store.write("endless", async |conn: &mut Conn| {
        pay_in(conn, FIRST).await?;
        half_done.notify_one();
        std::future::pending::<Result<()>>().await
    });
    tokio::select! {
        _ = endless => panic!("ended"),
        () = half_done.notified() => {}
    }
    store.write("next", async |conn: &mut Conn| pay_in(conn, SECOND).await).await.unwrap();
    assert_eq!(balances(&store).await, [0, 1]);
}

/// Polls a future so often at most, then drops it with its statement under way; whether it came to its end.
async fn cut_short(future: impl Future, polls: u32) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn a_write_cut_short_anywhere_is_all_or_nothing(database: &TestDatabase) {
    let store = accounts(database).await;
    let pay_both = async |conn: &mut Conn| {
        pay_in(conn, FIRST).await?;
        pay_in(conn, SECOND).await
    };
    for polls in 1..100 {
        let ended = cut_short(store.write("cut short", pay_both), polls).await;
        store.write("whole", pay_both).await.unwrap();
        let [first, second] = balances(&store).await;
        assert_eq!(first, second, "cut short after {polls} polls");
        if ended {
            return;
        }
    }
    panic!("never came to its end");
}

/// A batch that counts an analysis of the first tenant.
fn analysis(conn: &Conn, input_tokens: i64) -> Batch {
    let charge = AnalysisCharge {
        tenant: FIRST,
        entry_id: Uuid::nil(),
        micros: 1,
        cost_usd: String::new(),
        cost_margin: String::new(),
        model: "none",
        object_id: None,
        input_tokens,
        output_tokens: 0,
        batch_id: None,
        source: UsageSource::Async,
        is_second_stage: false,
        signal_keys: vec!["risk"],
    };
    let mut batch = conn.batch();
    balance::count_usage(&mut batch, &[charge], true, "2026-01-02".parse().unwrap(), 0);
    batch
}

/// How many analyses of the first tenant were counted.
async fn analyses(store: &Store) -> i64 {
    store.read("analyses", async |conn: &mut Conn| balance::spent(conn, FIRST).await).await.unwrap().1
}

/// Pays both in, and counts an analysis of the first by a batch.
async fn pay_both_and_count(conn: &mut Conn) -> Result<()> {
    pay_in(conn, FIRST).await?;
    pay_in(conn, SECOND).await?;
    analysis(conn, 1).run(conn).await
}

async fn a_batch_is_written_with_its_transaction(database: &TestDatabase) {
    let store = accounts(database).await;
    for times in 1..=3 {
        store.write("both", pay_both_and_count).await.unwrap();
        store.write("empty", async |conn: &mut Conn| conn.batch().run(conn).await).await.unwrap();
        assert_eq!((balances(&store).await, analyses(&store).await), ([times, times], times));
    }
}

async fn a_batch_that_fails_leaves_nothing_written(database: &TestDatabase) {
    let store = accounts(database).await;
    store.write("first", pay_both_and_count).await.unwrap();
    let failed = store.write("fails", async |conn: &mut Conn| {
        pay_both_and_count(conn).await?;
        // More tokens than can be counted.
        analysis(conn, i64::MAX).run(conn).await
    });
    let failed = failed.await;
    assert!(matches!(failed, Err(Error::Database(sqlx::Error::Database(_)))), "{failed:?}");
    assert_eq!((balances(&store).await, analyses(&store).await), ([1, 1], 1));
    store.write("next", pay_both_and_count).await.unwrap();
    assert_eq!((balances(&store).await, analyses(&store).await), ([2, 2], 2));
}

async fn a_batch_cut_short_anywhere_is_all_or_nothing(database: &TestDatabase) {
    let store = accounts(database).await;
    for polls in 1..100 {
        let ended = cut_short(store.write("cut short", pay_both_and_count), polls).await;
        store.write("whole", pay_both_and_count).await.unwrap();
        let [first, second] = balances(&store).await;
        assert_eq!((first, second), (second, analyses(&store).await), "cut short after {polls} polls");
        if ended {
            return;
        }
    }
    panic!("never came to its end");
}

async fn a_write_that_panics_harms_no_other(database: &TestDatabase) {
    let store = accounts(database).await;
    let same = store.clone();
    let mut panics = JoinSet::new();
    panics.spawn(async move {
        let panics = same.write("panics", async |conn: &mut Conn| {
            pay_both_and_count(conn).await?;
            assert_eq!(balance::balance(conn, FIRST).await?, 0, "it was paid");
            Ok::<_, Error>(())
        });
        panics.await
    });
    assert!(panics.join_next().await.unwrap().unwrap_err().is_panic());
    store.write("next", pay_both_and_count).await.unwrap();
    assert_eq!((balances(&store).await, analyses(&store).await), ([1, 1], 1));
}

/// Single statements run at the level that [`Store::write`] names, whatever the server's default is.
#[test]
fn a_write_reads_committed_rows_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = accounts(database).await;
        let level = store.write("level", async |conn: &mut Conn| {
            let Conn::Postgres(lent) = conn else { panic!("not PostgreSQL") };
            let shown = sqlx::query_scalar::<_, String>("SHOW transaction_isolation");
            Ok::<_, Error>(shown.fetch_one(lent.native()).await?)
        });
        assert_eq!(level.await.unwrap(), "read committed");
    });
}

/// Whoever gets the connection next must not find a transaction on it that nobody began.
#[test]
fn a_beginning_cut_short_leaves_no_transaction_open_on_postgres() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = accounts(database).await;
        let mut watcher = PgConnection::connect(database.url()).await.unwrap();
        for polls in 1..100 {
            let pay = store.write("cut short", async |conn: &mut Conn| pay_in(conn, FIRST).await);
            let ended = cut_short(pay, polls).await;
            balances(&store).await;
            let closed = async {
                let open = "SELECT count(*) FROM pg_stat_activity
                            WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
                while sqlx::query_scalar::<_, i64>(open).fetch_one(&mut watcher).await.unwrap() > 0 {
                    tokio::task::yield_now().await;
                }
            };
            let closed = tokio::time::timeout(PATIENCE, closed).await;
            closed.unwrap_or_else(|_| panic!("cut short after {polls} polls, a transaction stays open"));
            if ended {
                return;
            }
        }
        panic!("never came to its end");
    });
}

/// The writer's one connection must neither be lost with a caller that left, nor hold a lock for it.
#[test]
fn a_write_dropped_while_it_waits_for_the_lock_is_forgotten_on_sqlite() {
    run_on(Backend::Sqlite, async |database: &TestDatabase| {
        let store = accounts(database).await;
        let pay = async |conn: &mut Conn| pay_in(conn, FIRST).await;
        let mut other = impatient_connection(database).await;
        sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        tokio::time::timeout(Duration::from_millis(20), store.write("leaves", pay)).await.unwrap_err();
        sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();

        store.write("next", pay).await.unwrap();
        assert_eq!(balances(&store).await, [1, 0]);
        sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    });
}

#[test]
fn a_read_cannot_write_on_sqlite() {
    run_on(Backend::Sqlite, async |database: &TestDatabase| {
        let store = accounts(database).await;
        let refused =
            store.read("writes", async |conn: &mut Conn| pay_in(conn, FIRST).await).await.unwrap_err();
        assert!(refused.to_string().contains("readonly"), "{refused}");
        assert_eq!(balances(&store).await, [0, 0]);
    });
}
