//! What an event, an analysis, a row of history and a delivery write to the log and keep on disk, on either database.
//!
//! Bytes depend on the rows and not on the machine or the kind of build; the times are in docs/operations.md.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::api::IngestRequest;
use model::{KeyId, TenantId};
use server::Server;
use service::{Caller, Clock, Credential, KeyRights, Random, Service};
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tokio::task::JoinSet;

use crate::analyses::analyzed;
use crate::deliveries::{Receiver, queue, register};
use crate::ingest::config;
use crate::new_database;
use crate::waiting::wait_until;

const OBJECTS: u32 = 1_000;
/// Events of each object in the first phase, each a request of its own.
const EVENTS: u32 = 20;
/// Requests in flight, which the recorder writes in groups.
const CONNECTIONS: u32 = 32;
const DELIVERIES: u32 = 5_000;
/// A message of 70 characters.
const MESSAGE: &str = "Is the blue bicycle from last week still for sale, and where is it now?";
/// Tables shown of a phase: those that grew most.
const SHOWN: usize = 5;
/// How long a phase may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// Measures on SQLite, or on a PostgreSQL cluster, and prints what it found.
pub(crate) async fn measure(cluster: Option<&str>) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("costs.db");
    let (url, mut meter) = match cluster {
        Some(cluster) => {
            let url = new_database(cluster, "costs").await?;
            let connection = PgConnection::connect(&url).await?;
            (url, Meter::Postgres(Box::new(connection)))
        }
        None => (format!("sqlite:{}", file.display()), Meter::Sqlite(file)),
    };
    let settings = [
        ("AUSPEX_DEBOUNCE_MS", "1"),
        ("AUSPEX_ENFORCEMENT", "grace"),
        ("AUSPEX_ALLOW_PRIVATE_TARGETS", "true"),
    ];
    let config = config(&url, directory.path(), &settings)?;
    let name = if cluster.is_some() { "PostgreSQL" } else { "SQLite" };
    println!("{name}: bytes for one, log and disk; WAL of PostgreSQL with full pages");
    let mut phase = Phase { name, meter: &mut meter };

    // Without workers, nothing is analyzed yet.
    let service = server::assemble(&config, Clock::system(), Random::system()?).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let before = phase.begin().await?;
    record(&service, tenant, 0..EVENTS * OBJECTS).await?;
    phase.end(before, "event, in a request of its own, 20 an object", EVENTS * OBJECTS).await?;
    service.store().close().await;

    let before = phase.begin().await?;
    let server = Server::start(config, Clock::system(), Random::system()?).await?;
    let service = Arc::clone(server.service());
    analyzed_by(&service, tenant, OBJECTS).await?;
    phase.end(before, "first analysis of an object, three signals", OBJECTS).await?;

    let before = phase.begin().await?;
    record(&service, tenant, EVENTS * OBJECTS..(EVENTS + 1) * OBJECTS).await?;
    analyzed_by(&service, tenant, 2 * OBJECTS).await?;
    phase.end(before, "event and later analysis: a row of history", OBJECTS).await?;

    deliver(&service, tenant, &mut phase).await?;
    server.stop().await;
    Ok(())
}

/// Waits until there were so many analyses.
async fn analyzed_by(service: &Service, tenant: TenantId, count: u32) -> Result<(), Box<dyn Error>> {
    let are_done = async || Ok(analyzed(service.store(), tenant).await? >= f64::from(count));
    wait_until("the analyses of a phase", PATIENCE, are_done).await
}

/// Sends deliveries out of a backlog.
async fn deliver(service: &Service, tenant: TenantId, phase: &mut Phase<'_>) -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::start().await?;
    let key = service.accounts.operators.create_key_for(tenant, None).await?.api_key.id;
    let caller = Caller { tenant, credential: Credential::Key { key: KeyId(key), rights: KeyRights::ALL } };
    let endpoint = register(service, caller, &receiver.url, true).await?;
    let before = phase.begin().await?;
    queue(service, tenant, endpoint, usize::try_from(DELIVERIES)?).await?;
    let are_sent = async || Ok(service.store().pending().await?.deliveries == 0);
    wait_until("the deliveries of a phase", PATIENCE, are_sent).await?;
    phase.end(before, "delivery of three answers", DELIVERIES).await
}

/// Records messages by number, each in a request of its own; the objects take turns.
async fn record(
    service: &Arc<Service>,
    tenant: TenantId,
    numbers: std::ops::Range<u32>,
) -> Result<(), Box<dyn Error>> {
    let mut senders = JoinSet::new();
    for sender in 0..CONNECTIONS {
        let (service, numbers) = (Arc::clone(service), numbers.clone());
        senders.spawn(async move {
            for number in numbers.filter(|number| number % CONNECTIONS == sender) {
                let body = format!(r#"{{"events":[{{"type":"message","content":"{MESSAGE}"}}]}}"#);
                let request: IngestRequest =
                    serde_json::from_str(&body).map_err(|error| error.to_string())?;
                let (object, key) = (format!("user_{}", number % OBJECTS), number.to_string());
                let accepted = service.objects.ingest.accept(tenant, &object, request, Some(&key)).await;
                accepted.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(())
}

/// Reads what a database has written and what it keeps.
enum Meter {
    Sqlite(PathBuf),
    Postgres(Box<PgConnection>),
}

/// What a database has written so far, and the bytes of its tables with their indexes.
struct Reading {
    written: i64,
    tables: Vec<(String, i64)>,
}

impl Meter {
    async fn read(&mut self) -> Result<Reading, Box<dyn Error>> {
        match self {
            Self::Sqlite(file) => {
                let mut connection = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await?;
                let (is_busy, _, _): (i64, i64, i64) =
                    sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut connection).await?;
                if is_busy != 0 {
                    return Err("the log could not be moved into the file".into());
                }
                connection.close().await?;
                let size = i64::try_from(std::fs::metadata(&*file)?.len())?;
                Ok(Reading {
                    written: written_by_this_process()?,
                    tables: vec![("the file".to_owned(), size)],
                })
            }
            Self::Postgres(connection) => {
                let (written,): (i64,) =
                    sqlx::query_as("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
                        .fetch_one(&mut **connection)
                        .await?;
                let tables = sqlx::query_as(
                    "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
                     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
                );
                Ok(Reading { written, tables: tables.fetch_all(&mut **connection).await? })
            }
        }
    }

    /// Removes what deleted rows have left, so that only rows that are kept count, and starts a new checkpoint.
    async fn settle(&mut self) -> Result<(), Box<dyn Error>> {
        if let Self::Postgres(connection) = self {
            sqlx::query("VACUUM").execute(&mut **connection).await?;
            sqlx::query("CHECKPOINT").execute(&mut **connection).await?;
        }
        Ok(())
    }
}

/// What this process has had written to disk: of SQLite that is the log and, later, the pages.
fn written_by_this_process() -> Result<i64, Box<dyn Error>> {
    let counts = std::fs::read_to_string("/proc/self/io")?;
    let line = counts.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("no write_bytes")?.trim().parse()?)
}

/// Measures one phase after the other.
struct Phase<'a> {
    name: &'static str,
    meter: &'a mut Meter,
}

impl Phase<'_> {
    async fn begin(&mut self) -> Result<Reading, Box<dyn Error>> {
        self.meter.settle().await?;
        self.meter.read().await
    }

    /// Prints what each of `count` has cost since `before`.
    async fn end(&mut self, before: Reading, what: &str, count: u32) -> Result<(), Box<dyn Error>> {
        let written = self.meter.read().await?.written - before.written;
        if written == 0 {
            return Err("nothing was counted as written: this system does not count it".into());
        }
        self.meter.settle().await?;
        let after = self.meter.read().await?;
        let count = i64::from(count);
        let mut grown: Vec<(String, i64)> = after
            .tables
            .into_iter()
            .map(|(table, size)| {
                let was = before.tables.iter().find(|(name, _)| *name == table).map_or(0, |(_, size)| *size);
                (table, (size - was) / count)
            })
            .collect();
        grown.sort_by_key(|(_, bytes)| -bytes);
        let kept: i64 = grown.iter().map(|(_, bytes)| bytes).sum();
        let most: Vec<String> =
            grown.iter().take(SHOWN).map(|(table, bytes)| format!("{table} {bytes}")).collect();
        println!("{}: {what}: {} written, {kept} kept ({})", self.name, written / count, most.join(", "));
        Ok(())
    }
}
