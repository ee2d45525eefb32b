//! Exports of many events: how many a second, and how much memory that takes.

use std::error::Error;
use std::time::{Duration, Instant};

use model::api::{EventType, ExportFormat, ExportKind};
use model::{KeyId, NewEvent, TenantId, Timestamp};
use service::{Caller, Clock, Credential, ExportQuery, KeyRights, Random, Service};
use store::Conn;
use store::objects::recorder::{self, Admission, Enforcement};
use store::objects::request::IngestRequest;

use crate::ingest::config;
use crate::{Figure, new_database};

/// Events of a request, and requests of a transaction.
const OF_A_REQUEST: u64 = 500;
const OF_A_TRANSACTION: u64 = 20;
/// Events a second that an export must reach: reading is never slower than writing was.
const ROWS_PER_SECOND: f64 = 20_000.0;
/// How much an export may add to the memory of the process. Most of it is SQLite's cache of pages, which does not grow further.
const MEMORY_MIB: f64 = 96.0;

/// Measures exports of this many events, on SQLite or on a PostgreSQL cluster.
pub(crate) async fn measure(cluster: Option<&str>, rows: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let (name, url) = match cluster {
        Some(cluster) => ("PostgreSQL", new_database(cluster, "exports").await?),
        None => ("SQLite", format!("sqlite:{}", directory.path().join("exports.db").display())),
    };
    let config = config(&url, directory.path(), &[("AUSPEX_ROLE", "api")])?;
    let clock = Clock::system();
    let service = server::assemble(&config, clock.clone(), Random::system()?).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let key = service.accounts.operators.create_key_for(tenant, None).await?.api_key.id;
    let caller = Caller { tenant, credential: Credential::Key { key: KeyId(key), rights: KeyRights::ALL } };
    let begun = Instant::now();
    fill(&service, tenant, rows, clock.now()).await?;
    println!("{name}: recorded {rows} events in {:.0} s", begun.elapsed().as_secs_f64());
    let mut figures = Vec::new();
    for format in ExportFormat::ALL {
        let query = ExportQuery { what: ExportKind::Events, format, from: None, to: None, cursor: None };
        let (before, begun) = (resident_mib()?, Instant::now());
        let (mut most, mut bytes, mut lines) = (before, 0, 0);
        let mut export = service.exports.start(caller, &query).await?;
        while let Some(chunk) = export.next().await? {
            bytes += chunk.len();
            lines += chunk.split(|byte| *byte == b'\n').count() as u64 - 1;
            most = most.max(resident_mib()?);
        }
        let took = begun.elapsed().as_secs_f64();
        let header = u64::from(format == ExportFormat::Csv);
        if lines != rows + header {
            return Err(format!("{lines} lines instead of {rows}").into());
        }
        let format = format.as_str();
        println!(
            "{name}: {rows} events, {} MiB of {format} in {took:.1} s, {before:.0} to {most:.0} MiB",
            bytes >> 20
        );
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let rate = rows as f64 / took;
        figures.push(Figure::at_least(
            format!("{name}: events exported as {format}"),
            rate,
            "/s",
            ROWS_PER_SECOND,
        ));
        let what = format!("{name}: memory added by an export as {format}");
        figures.push(Figure::at_most(what, most - before, "Mi", MEMORY_MIB));
    }
    Ok(figures)
}

/// Records messages about a thousand objects.
async fn fill(service: &Service, tenant: TenantId, rows: u64, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let step = OF_A_REQUEST * OF_A_TRANSACTION;
    for first in (0..rows).step_by(usize::try_from(step)?) {
        let requests: Vec<IngestRequest> = (first..rows.min(first + step))
            .step_by(usize::try_from(OF_A_REQUEST)?)
            .map(|from| request(tenant, from, rows.min(from + OF_A_REQUEST), now))
            .collect();
        let write = async |conn: &mut Conn| {
            recorder::record(conn, &requests, Admission::by_balance(Enforcement::Grace), 0).await
        };
        service.store().write("fill", write).await?;
    }
    Ok(())
}

fn request(tenant: TenantId, from: u64, to: u64, now: Timestamp) -> IngestRequest {
    let received_at = now - Duration::from_hours(24) + Duration::from_millis(from);
    let event = |number: u64| NewEvent {
        kind: EventType::Message,
        name: None,
        content: Some(format!(
            "Message {number}: is the bicycle still for sale, and could you send it to the coast?"
        )),
        metadata: Some(format!("{{\"number\":{number},\"channel\":\"chat\"}}")),
        occurred_at: received_at,
    };
    IngestRequest {
        tenant,
        object_id: format!("user_{:04}", from / OF_A_REQUEST % 1_000),
        object_type: Some("user".to_owned()),
        display_name: None,
        events: (from..to).map(event).collect(),
        idempotency: None,
        schedule: None,
        verdict_slot: None,
        received_at,
        traceparent: None,
    }
}

/// The memory of this process.
fn resident_mib() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kib / 1_024.0)
}
