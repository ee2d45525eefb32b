//! Our own types come back from a column as they went in, and sort there as they do here.

use std::collections::BTreeSet;

use model::{Date, TenantId, Timestamp};
use proptest::collection::vec;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use sqlx::types::Json;
use store::objects::reads;
use store::objects::reads::StoredAnswer;
use store::{Conn, Database, Result, Store};
use testkit::{Backend, TestDatabase, on_both, run_on};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use uuid::Uuid;

on_both!(
    instants_at_the_edges_come_back,
    days_at_the_edges_come_back,
    any_instants_and_days_come_back_in_order,
    ids_come_back_in_order,
    json_comes_back,
    answers_come_back_to_the_last_bit,
    text_sorts_by_bytes,
);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));

/// The first and last instant that a request can name, and where the epochs of Unix and of PostgreSQL turn.
const EDGES: [&str; 9] = [
    "0000-01-01T00:00:00.000000Z",
    "0000-12-31T23:59:59.999999Z",
    "1582-10-15T00:00:00.000000Z",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00.000000Z",
    "1999-12-31T23:59:59.999999Z",
    "2000-01-01T00:00:00.000000Z",
    "2026-01-31T12:34:56.789012Z",
    "9999-12-30T00:00:00.000000Z",
];

fn edges() -> Vec<Timestamp> {
    EDGES.iter().map(|text| text.parse().unwrap()).collect()
}

/// Writes instants and reads them back, in the database's order.
async fn instants_through(store: &Store, instants: &[Timestamp]) -> Vec<Timestamp> {
    let rows: Result<Vec<(Timestamp,)>> = store
        .write("instants", async |conn: &mut Conn| {
            execute!(conn, "DELETE FROM nodes")?;
            for (number, instant) in (0..).zip(instants) {
                execute!(
                    conn,
                    "INSERT INTO nodes (node_id, seen_at) VALUES ($1, $2)",
                    Uuid::from_u128(number),
                    *instant
                )?;
            }
            fetch_all!(conn, "SELECT seen_at FROM nodes ORDER BY seen_at")
        })
        .await;
    rows.unwrap().into_iter().map(|(instant,)| instant).collect()
}

/// Writes days and reads them back, in the database's order.
async fn days_through(store: &Store, days: &BTreeSet<Date>) -> Vec<Date> {
    let rows: Result<Vec<(Date,)>> = store
        .write("days", async |conn: &mut Conn| {
            execute!(conn, "DELETE FROM rule_mail_tallies")?;
            for day in days {
                let insert = "INSERT INTO rule_mail_tallies (tenant_id, day, mails) VALUES ($1, $2, 0)";
                execute!(conn, insert, TENANT, *day)?;
            }
            fetch_all!(conn, "SELECT day FROM rule_mail_tallies WHERE tenant_id = $1 ORDER BY day", TENANT)
        })
        .await;
    rows.unwrap().into_iter().map(|(day,)| day).collect()
}

async fn instants_at_the_edges_come_back(database: &TestDatabase) {
    let store = database.open().await;
    assert_eq!(instants_through(&store, &edges()).await, edges());
}

async fn days_at_the_edges_come_back(database: &TestDatabase) {
    let store = database.open().await;
    let days: BTreeSet<Date> = edges().into_iter().map(Timestamp::date).collect();
    assert_eq!(days_through(&store, &days).await, days.into_iter().collect::<Vec<_>>());
}

async fn any_instants_and_days_come_back_in_order(database: &TestDatabase) {
    let store = database.open().await;
    let range = edges()[0].micros()..=edges()[EDGES.len() - 1].micros();
    let mut runner = TestRunner::new(Config { cases: 20, failure_persistence: None, ..Config::default() });
    let trial = async |mut instants: Vec<Timestamp>| {
        let read = instants_through(&store, &instants).await;
        instants.sort();
        assert_eq!(read, instants);
        let days: BTreeSet<Date> = instants.into_iter().map(Timestamp::date).collect();
        assert_eq!(days_through(&store, &days).await, days.into_iter().collect::<Vec<_>>());
    };
    let outcome = runner.run(&vec(range, 0..30), |micros| {
        let instants = micros.into_iter().map(Timestamp::from_micros).collect();
        block_in_place(|| Handle::current().block_on(trial(instants)));
        Ok(())
    });
    outcome.unwrap();
}

/// An offset wrong in both directions would come back right: PostgreSQL is asked what it understood.
#[test]
fn postgres_understands_instants_and_days_as_we_do() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let Database::Postgres(pool) = Database::connect(database.url()).await.unwrap() else {
            panic!("not PostgreSQL")
        };
        // PostgreSQL cannot read the year 0, which it writes as 1 BC.
        for text in EDGES.iter().filter(|text| !text.starts_with("0000")) {
            let instant: Timestamp = text.parse().unwrap();
            let (same_instant, same_day): (bool, bool) = sqlx::query_as(
                "SELECT $1 = $3::text::timestamptz, $2 = ($3::text::timestamptz AT TIME ZONE 'UTC')::date",
            )
            .bind(instant)
            .bind(instant.date())
            .bind(*text)
            .fetch_one(&pool)
            .await
            .unwrap();
            assert!(same_instant && same_day, "{text}");
        }
    });
}

async fn ids_come_back_in_order(database: &TestDatabase) {
    let store = database.open().await;
    let sorted = [
        Uuid::nil(),
        Uuid::from_u128(1),
        "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(),
        "7fffffff-ffff-7fff-bfff-ffffffffffff".parse().unwrap(),
        "80000000-0000-7000-8000-000000000000".parse().unwrap(),
        Uuid::max(),
    ];
    let rows: Result<Vec<(TenantId,)>> = store
        .write("ids", async |conn: &mut Conn| {
            for id in sorted.iter().rev() {
                let insert = "INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, '', $2)";
                execute!(conn, insert, TenantId(*id), Timestamp::from_seconds(0))?;
            }
            fetch_all!(conn, "SELECT tenant_id FROM tenants ORDER BY tenant_id")
        })
        .await;
    assert_eq!(rows.unwrap(), sorted.map(|id| (TenantId(id),)));
}

async fn json_comes_back(database: &TestDatabase) {
    let store = database.open().await;
    let states = [
        json!(null),
        json!({}),
        json!("a text with \"quotes\", a \\, an é and a 🦉"),
        json!([i64::MIN, u64::MAX, 0.1, -1.5e-5, 1e300, true]),
        json!({"z": 1, "a": {"": [], "nested": [{"deep": null}]}}),
    ];
    for state in states {
        let rows: Result<Vec<(Json<Value>,)>> = store
            .write("json", async |conn: &mut Conn| {
                execute!(conn, "DELETE FROM summaries")?;
                execute!(
                    conn,
                    "INSERT INTO summaries
                         (tenant_id, object_id, through_seq, through_time, folded_events, state)
                     VALUES ($1, 'object', 1, $2, 1, $3)",
                    TENANT,
                    Timestamp::from_seconds(0),
                    Json(&state)
                )?;
                fetch_all!(conn, "SELECT state FROM summaries")
            })
            .await;
        assert_eq!(rows.unwrap(), [(Json(state),)]);
    }
}

/// Numbers of all sizes, and texts that need care on the way.
async fn answers_come_back_to_the_last_bit(database: &TestDatabase) {
    const NUMBERS: [f64; 9] = [
        0.0,
        1.0,
        0.1 + 0.2,
        1.0 / 3.0,
        0.765_871,
        1e-9,
        2.000_000_000_000_000_4,
        6.02e23,
        f64::MIN_POSITIVE,
    ];
    const OBJECTS: [&str; 3] = ["plain", "it's a \"quoted\" \\ one", "naïve 你好 🎉"];
    let store = Store::open(database.url()).await.unwrap();
    let kept = |object: usize, number: usize| StoredAnswer {
        object_id: OBJECTS[object].to_owned(),
        signal_id: Uuid::from_u128(u128::MAX / (number as u128 + 1)),
        value: (number != 4).then_some(NUMBERS[number]),
        choice: number.is_multiple_of(2).then(|| format!("\"{}\"\n{{}}", OBJECTS[object])),
        probabilities: number
            .is_multiple_of(3)
            .then(|| json!({ OBJECTS[object]: NUMBERS[number] }).to_string()),
        confidence: (number != 5).then_some(NUMBERS[number] / 7.0),
        raw: None,
        escalated: None,
        model: OBJECTS[2 - object].to_owned(),
        computed_at: edges()[number],
    };
    let written: Result<_> = store
        .write("answers", async |conn: &mut Conn| {
            for answer in (0..OBJECTS.len()).flat_map(|object| (0..9).map(move |number| kept(object, number))) {
                execute!(
                    conn,
                    "INSERT INTO answers (tenant_id, object_id, signal_id, value, choice, probabilities, confidence,
                                          model, read_seq, computed_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9)",
                    TENANT,
                    answer.object_id,
                    answer.signal_id,
                    answer.value,
                    answer.choice,
                    answer.probabilities,
                    answer.confidence,
                    answer.model,
                    answer.computed_at
                )?;
            }
            let asked = ["nobody", OBJECTS[2], OBJECTS[1]];
            Ok((
                reads::answers_of(conn, TENANT, &asked).await?,
                reads::answers_of(conn, TENANT, &["nobody"]).await?,
                reads::answers_of(conn, TenantId(Uuid::from_u128(2)), &asked).await?,
            ))
        })
        .await;
    let (mut found, nothing, neighbours) = written.unwrap();
    assert!(nothing.is_empty() && neighbours.is_empty());
    assert_eq!(found.len(), 2);
    for object in [1, 2] {
        let mut answers = found.remove(OBJECTS[object]).unwrap();
        answers.sort_by_key(|answer| std::cmp::Reverse(answer.signal_id));
        assert_eq!(answers, (0..9).map(|number| kept(object, number)).collect::<Vec<_>>());
    }
    store.close().await;
}

async fn text_sorts_by_bytes(database: &TestDatabase) {
    let store = database.open().await;
    let sorted = ["", " ", "1", "10", "9", "Z", "Zebra", "_", "a", "a b", "ab", "z", "É", "é", "ａ", "🦉"];
    assert!(sorted.is_sorted());
    for name in sorted.iter().rev() {
        store.remember(name, "").await.unwrap();
    }
    let rows: Vec<(String,)> = store
        .read("names", async |conn: &mut Conn| fetch_all!(conn, "SELECT name FROM deployment ORDER BY name"))
        .await
        .unwrap();
    assert_eq!(rows, sorted.map(|name| (name.to_owned(),)));
}
