//! An upgrade: a filled database of an older schema is migrated, and everything in it goes on working.

use std::time::Duration;

use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use service::{MasterKey, Random, Sealer};
use sha2::{Digest as _, Sha256};
use sqlx::AssertSqlSafe;
use store::{Conn, Store};
use testkit::{Backend, TestDatabase};
use uuid::Uuid;

use crate::admin::{MASTER_KEY, auspex, finish};
use crate::app::{App, PASSWORD, START};
use crate::receiver::Receiver;
use crate::signer::Signer;

testkit::on_both!(a_filled_database_of_schema_12_is_migrated_and_works);

/// The last schema of the release before.
const OLD: usize = 12;

/// The rows of the old release.
const ROWS: &str = include_str!("upgrade/schema_12.sql");

/// Writes the rows for one database.
struct Writer<'a> {
    backend: Backend,
    receiver: &'a str,
    sealer: Sealer,
    random: Random,
}

impl Writer<'_> {
    /// Replaces the words in braces. A brace that begins none of them is JSON.
    fn script(&self) -> String {
        let mut script = String::new();
        let mut rest: &str =
            &ROWS.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        while let Some(start) = rest.find('{') {
            script.push_str(&rest[..start]);
            let end = start + closing(&rest[start..]);
            if let Some(written) = self.word(&rest[start + 1..end]) {
                script.push_str(&written);
                rest = &rest[end + 1..];
            } else {
                script.push('{');
                rest = &rest[start + 1..];
            }
        }
        script + rest
    }

    fn word(&self, text: &str) -> Option<String> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "uuid" => self.uuid(rest.parse().unwrap()),
            "at" => {
                let at = Timestamp::from_seconds(START.seconds() + rest.parse::<i64>().unwrap());
                match self.backend {
                    Backend::Sqlite => at.micros().to_string(),
                    Backend::Postgres => format!("'{at}'"),
                }
            }
            "sha" => self.bytes(&Sha256::digest(rest)),
            "sealed" => {
                let (column, rest) = rest.split_once(' ').unwrap();
                let (row, plain) = rest.split_once(' ').unwrap();
                let column =
                    store::upkeep::rekeying::COLUMNS.iter().find(|known| known.qualified_name == column);
                let row = Uuid::from_u128(row.parse().unwrap());
                let sealed =
                    self.sealer.seal(&self.random, column.unwrap().qualified_name, row, plain.as_bytes());
                self.bytes(&sealed)
            }
            "grams" => match self.backend {
                Backend::Sqlite => "1".to_owned(),
                Backend::Postgres => "ARRAY[1]::bigint[]".to_owned(),
            },
            "receiver" => self.receiver.to_owned(),
            "key" => self.sealer.fingerprint(),
            _ => return None,
        })
    }

    fn uuid(&self, number: u128) -> String {
        match self.backend {
            Backend::Sqlite => self.bytes(Uuid::from_u128(number).as_bytes()),
            Backend::Postgres => format!("'{}'", Uuid::from_u128(number)),
        }
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        match self.backend {
            Backend::Sqlite => format!("x'{}'", hex::encode(bytes)),
            Backend::Postgres => format!("'\\x{}'", hex::encode(bytes)),
        }
    }
}

/// Where the brace that begins a text is closed.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    panic!("a brace is not closed: {text}")
}

async fn fill(database: &TestDatabase, receiver: &str) {
    let sealer = Sealer::new(MasterKey::from_base64(MASTER_KEY).unwrap(), None);
    let writer = Writer { backend: database.backend(), receiver, sealer, random: Random::seeded(12) };
    let store = Store::open_at(database.url(), OLD).await.unwrap();
    let script = writer.script();
    store
        .write("fill", async |conn: &mut Conn| {
            match conn {
                Conn::Sqlite(lent) => {
                    sqlx::raw_sql(AssertSqlSafe(script.clone())).execute(lent.native()).await.map(drop)?;
                }
                Conn::Postgres(lent) => {
                    sqlx::raw_sql(AssertSqlSafe(script.clone())).execute(lent.native()).await.map(drop)?;
                }
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    for table in tables(&store).await {
        assert!(count(&store, &table).await > 0, "the old database has no row in {table}");
    }
    store.close().await;
}

async fn tables(store: &Store) -> Vec<String> {
    let sqlite = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'";
    let postgres =
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'";
    let rows: Vec<(String,)> = store
        .read("tables", async |conn: &mut Conn| {
            Ok::<_, store::Error>(match conn {
                Conn::Sqlite(lent) => sqlx::query_as(sqlite).fetch_all(lent.native()).await?,
                Conn::Postgres(lent) => sqlx::query_as(postgres).fetch_all(lent.native()).await?,
            })
        })
        .await
        .unwrap();
    rows.into_iter().map(|(name,)| name).collect()
}

async fn count(store: &Store, table: &str) -> i64 {
    let read = store.read("count", async |conn: &mut Conn| {
        let text = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        Ok::<i64, store::Error>(match conn {
            Conn::Sqlite(lent) => sqlx::query_scalar(text).fetch_one(lent.native()).await?,
            Conn::Postgres(lent) => sqlx::query_scalar(text).fetch_one(lent.native()).await?,
        })
    });
    read.await.unwrap()
}

fn run(database: &TestDatabase, arguments: &[&str]) -> String {
    let mut command = auspex(database.directory(), database.url(), arguments);
    command.env("AUSPEX_ANALYZER", "words");
    let output = finish(command, b"");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn a_filled_database_of_schema_12_is_migrated_and_works(database: &TestDatabase) {
    let receiver = Receiver::start().await;
    fill(database, &receiver.url()).await;
    // By the real binary, as an operator does it; the books agree before anything else has happened.
    run(database, &["migrate"]);
    let audited = run(database, &["admin", "audit"]);
    assert!(audited.contains("1 accounts with 4 entries are consistent"), "{audited}");

    let app = App::start_on(database.share(), database.url(), &[]).await;
    let key = Signer::new("ak_old", "sk_old");
    let get = async |path: &str| key.call(&app, Method::GET, path, &Value::Null).await;
    // Credentials: the key, the session, the password.
    assert_eq!(get("/v1/me").await.json()["tenant_name"], "Old & Söhne");
    let me = app.call("ct_old-session", Method::GET, "/v1/me", &Value::Null).await;
    assert_eq!(me.json()["email"], "Ann@old.example", "{}", me.text);
    let login =
        app.post("/auth/console/login", &json!({"email": "ann@old.example", "password": PASSWORD})).await;
    assert_eq!(login.status, 200, "{}", login.text);
    // What was there.
    let events = get("/v1/objects/old-1/events").await.json();
    assert_eq!(events["events"].as_array().unwrap().len(), 2, "{events}");
    assert!(events.to_string().contains("Grüße, what a price!"), "{events}");
    let endpoints = get("/v1/webhooks").await.json();
    assert!(endpoints.to_string().contains(&receiver.url()), "{endpoints}");
    assert_eq!(get("/v1/rules").await.json()["rules"][0]["when"], "is_rude > 0.99");
    assert!(get("/v1/rule_firings").await.text.contains("is_rude"), "the firing is there");
    let dead = get("/v1/webhook_deliveries?status=dead").await.json();
    assert_eq!(dead["deliveries"].as_array().unwrap().len(), 1, "{dead}");
    assert_eq!(get("/v1/billing").await.status, 200);

    // What waited goes on: the analysis, the bulk run, the delivery, the mail. The sweeper takes the old slot.
    let verdict = json!({"events": [{"type": "message", "content": "you fool"}], "wait": true});
    let answered = key.call(&app, Method::POST, "/v1/objects/old-1/events", &verdict).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    app.advance(Duration::from_mins(11));
    app.sweeper_has_swept().await;
    app.settle().await;
    let sent: Vec<Value> = receiver.arrived().iter().map(crate::receiver::Arrived::json).collect();
    assert!(sent.iter().any(|one| one["old"] == "pending"), "{sent:?}");
    assert!(sent.iter().any(|one| one["object_id"] == "old-1"), "{sent:?}");
    assert_eq!(app.subjects_to("ann@old.example").await[0], "From before the upgrade");
    app.settle().await;
    app.audit().await;
    // The chain that the migration has begun goes on.
    let checked = crate::audit_chain::check(&app);
    assert!(checked.status.success(), "{checked:?}");
    app.stop().await;
}
