//! Messages as fast as they go on PostgreSQL, whatever it knows of its tables: throughput must not depend on when autovacuum last
//! looked at them ([ADR 10](../../docs/adr/0010-plans-by-index.md)).

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use crate::deliveries::Receiver;
use crate::messages::{Case, Database, set_up, settings};
use crate::process::Running;
use crate::{Figure, cluster, new_database};

/// How much more messages a second the best state may bring than the worst.
const APART: f64 = 1.3;
/// Before the measurement, so that every statement has the plan that it keeps.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(10);
/// Jobs that wait while the tables are analyzed.
const BACKLOG: i64 = 500;
/// How often the number of waiting jobs is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Keeps autovacuum from changing what is measured.
const WITHOUT_AUTOVACUUM: &str = "DO $$ DECLARE known record; BEGIN
    FOR known IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', known.relname);
    END LOOP;
END $$";

/// What PostgreSQL knows of its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Never,
    WhileEmpty,
    DuringBacklog,
}

impl Known {
    const ALL: [(Self, &str, &str); 3] = [
        (Self::Never, "statistics_never", "never analyzed"),
        (Self::WhileEmpty, "statistics_empty", "analyzed while empty"),
        (Self::DuringBacklog, "statistics_backlog", "analyzed during a backlog"),
    ];
}

pub(crate) async fn measure(binary: &Path) -> Result<Vec<Figure>, Box<dyn Error>> {
    let Some(cluster) = cluster() else { return Ok(Vec::new()) };
    let mut rates = Vec::new();
    for (known, database, label) in Known::ALL {
        let url = new_database(&cluster, database).await?;
        let (rate, micros) = measure_when(binary, &url, known).await?;
        println!("PostgreSQL, {label}: saturated {rate:.0}/s, {micros:.0} µs of CPU a message");
        rates.push(rate);
    }
    let most = rates.iter().copied().fold(f64::MIN, f64::max);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    Ok(vec![Figure::at_most("PostgreSQL: messages/s, best over worst statistics", most / least, "×", APART)])
}

/// Messages a second, and microseconds of CPU for each.
async fn measure_when(binary: &Path, url: &str, known: Known) -> Result<(f64, f64), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let receiver = Receiver::start().await?;
    let token = set_up(url, directory.path(), &receiver, 1).await?;
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(WITHOUT_AUTOVACUUM).execute(&mut connection).await?;
    if known == Known::WhileEmpty {
        sqlx::raw_sql("ANALYZE").execute(&mut connection).await?;
    }
    let service = Running::start_with(binary, directory.path(), &settings(url))?;
    let database = Database::postgres(url).await?;
    let case = Case { service: &service, database: &database, receiver: &receiver, endpoints: 1, token };
    let analyze = async {
        if known == Known::DuringBacklog {
            analyze_during_backlog(&mut connection).await?;
        }
        Ok(())
    };
    tokio::try_join!(case.saturated(WARM_UP), analyze)?;
    let measured = case.saturated(MEASURED).await?;
    Ok((measured.per_second, measured.cpu_micros()))
}

/// Analyzes the tables once enough jobs wait.
async fn analyze_during_backlog(connection: &mut PgConnection) -> Result<(), Box<dyn Error>> {
    let end = std::time::Instant::now() + WARM_UP;
    loop {
        let (jobs,): (i64,) = sqlx::query_as("SELECT count(*) FROM jobs").fetch_one(&mut *connection).await?;
        if jobs >= BACKLOG {
            break;
        }
        if std::time::Instant::now() > end {
            return Err(format!("no backlog of {BACKLOG} jobs has built up").into());
        }
        tokio::time::sleep(LOOK).await;
    }
    sqlx::raw_sql("ANALYZE").execute(connection).await?;
    Ok(())
}
