//! What the database says, read past the service.

use std::collections::HashMap;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use uuid::Uuid;

use crate::Result;

/// What the harness calls itself there.
const NAME: &str = "faults";

/// A connection to it.
pub(crate) enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// The rows of a statement with bound ids, on either database.
macro_rules! rows {
    ($database:expr, $sql:expr, $($id:expr),+) => {
        match $database {
            Database::Sqlite(pool) => sqlx::query_as($sql)$(.bind($id))+.fetch_all(pool).await?,
            Database::Postgres(pool) => sqlx::query_as($sql)$(.bind($id))+.fetch_all(pool).await?,
        }
    };
}

/// A charge in the ledger.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct Charge {
    pub(crate) object_id: Option<String>,
    pub(crate) delta_micros: i64,
    pub(crate) input_tokens: Option<i64>,
    /// The number of the analyzer's call.
    pub(crate) output_tokens: Option<i64>,
}

/// A firing of a rule.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct Firing {
    pub(crate) rule_id: Uuid,
    pub(crate) object_id: String,
    pub(crate) signal_values: String,
    pub(crate) status: String,
}

/// A webhook delivery.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct Delivery {
    #[sqlx(rename = "delivery_id")]
    pub(crate) id: Uuid,
    pub(crate) endpoint_id: Uuid,
    pub(crate) event_type: String,
    pub(crate) payload: String,
    /// How it ended.
    pub(crate) outcome: Option<String>,
    /// How it waits.
    pub(crate) queued: Option<String>,
}

/// Everything about a tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Object, sequence number, marker.
    pub(crate) events: Vec<(String, i64, String)>,
    /// Object, number of events.
    pub(crate) objects: Vec<(String, i64)>,
    /// In the ledger's order.
    pub(crate) charges: Vec<Charge>,
    /// Object, value, the newest event that it has read.
    pub(crate) answers: Vec<(String, f64, i64)>,
    pub(crate) firings: Vec<Firing>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) balance_micros: i64,
}

/// What waits to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) jobs: i64,
    pub(crate) deliveries: i64,
    pub(crate) messages: i64,
}

impl Waiting {
    pub(crate) const NOTHING: Self = Self { jobs: 0, deliveries: 0, messages: 0 };
}

impl Database {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        if url.starts_with("sqlite:") {
            let options =
                SqliteConnectOptions::from_str(url)?.busy_timeout(std::time::Duration::from_secs(30));
            return Ok(Self::Sqlite(
                SqlitePoolOptions::new().max_connections(1).connect_with(options).await?,
            ));
        }
        let options = PgConnectOptions::from_str(url)?.application_name(NAME);
        Ok(Self::Postgres(PgPoolOptions::new().max_connections(2).connect_with(options).await?))
    }

    /// Reads everything about a tenant.
    pub(crate) async fn rows(&self, tenant: Uuid) -> Result<Rows> {
        let balance: Vec<(i64,)> =
            rows!(self, "SELECT balance_micros FROM balances WHERE tenant_id = $1", tenant);
        Ok(Rows {
            events: rows!(
                self,
                "SELECT object_id, seq, coalesce(name, content, '') FROM events WHERE tenant_id = $1 ORDER BY object_id, seq",
                tenant
            ),
            objects: rows!(self, "SELECT object_id, event_count FROM objects WHERE tenant_id = $1", tenant),
            charges: rows!(
                self,
                "SELECT object_id, delta_micros, input_tokens, output_tokens FROM ledger_entries
                 WHERE tenant_id = $1 AND reason = 'analysis' ORDER BY seq",
                tenant
            ),
            answers: rows!(self, "SELECT object_id, value, read_seq FROM answers WHERE tenant_id = $1", tenant),
            firings: rows!(
                self,
                "SELECT rule_id, object_id, signal_values, status FROM rule_firings WHERE tenant_id = $1",
                tenant
            ),
            deliveries: rows!(
                self,
                "SELECT sent.delivery_id, sent.endpoint_id, sent.event_type, sent.payload, ended.status AS outcome,
                        queue.status AS queued
                 FROM webhook_deliveries AS sent
                 LEFT JOIN webhook_outcomes AS ended
                   ON ended.tenant_id = sent.tenant_id AND ended.delivery_id = sent.delivery_id
                  AND ended.endpoint_id = sent.endpoint_id
                 LEFT JOIN webhook_queue AS queue
                   ON queue.tenant_id = sent.tenant_id AND queue.delivery_id = sent.delivery_id
                  AND queue.endpoint_id = sent.endpoint_id
                 WHERE sent.tenant_id = $1",
                tenant
            ),
            balance_micros: balance.first().map_or(0, |(balance,)| *balance),
        })
    }

    /// The newest migration that it has.
    pub(crate) async fn schema(&self) -> Result<i64> {
        let found: Vec<(i64,)> = rows!(self, "SELECT max(version) FROM migrations WHERE version > $1", 0_i64);
        Ok(found.first().map_or(0, |(version,)| *version))
    }

    /// How many connections to this database there are under each name; none on SQLite.
    pub(crate) async fn connections(&self) -> Result<Option<HashMap<String, i64>>> {
        let Self::Postgres(pool) = self else { return Ok(None) };
        let counted: Vec<(String, i64)> = sqlx::query_as(
            "SELECT application_name, count(*) FROM pg_stat_activity
             WHERE datname = current_database() GROUP BY application_name",
        )
        .fetch_all(pool)
        .await?;
        Ok(Some(counted.into_iter().collect()))
    }

    /// What waits, apart from jobs that nobody can pay for and deliveries to the endpoint whose receiver never responds.
    pub(crate) async fn waiting(&self, silent: Uuid) -> Result<Waiting> {
        let rows: Vec<(i64, i64, i64)> = rows!(
            self,
            "SELECT (SELECT count(*) FROM jobs WHERE NOT unpaid),
                    (SELECT count(*) FROM webhook_queue WHERE endpoint_id <> $1),
                    (SELECT count(*) FROM outbox)",
            silent
        );
        let (jobs, deliveries, messages) = rows.first().copied().unwrap_or_default();
        Ok(Waiting { jobs, deliveries, messages })
    }
}
