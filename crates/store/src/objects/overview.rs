//! The overview of an account, from tallies: its cost does not grow with the number of objects or events.

use std::time::Duration;

use model::{Date, TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, execute, fetch_all, fetch_one};
use crate::objects::time_spans::hour_of;

const HOUR: Duration = Duration::from_hours(1);

/// Objects of one type.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Category {
    /// The type.
    pub object_type: String,
    /// How many there are.
    pub objects: i64,
    /// How many of them have been analyzed.
    pub analyzed: i64,
    /// How many of them are flagged.
    pub flagged: i64,
}

/// Answers to one question, or those of one option of a choice.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SignalTally {
    /// The question.
    pub signal_id: Uuid,
    /// The option of a choice; empty for the other types.
    pub choice: String,
    /// Objects with such an answer.
    pub answers: i64,
    /// Those that are high.
    pub high: i64,
    /// The sum of the values, in millionths.
    pub value_micros: i64,
}

/// What happened on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Day {
    /// The day, in UTC.
    pub day: Date,
    /// Objects that were first seen.
    pub objects: i64,
    /// Objects that an analysis flagged.
    pub flagged: i64,
    /// How often rules fired.
    pub firings: i64,
}

/// The days since one on which something happened, oldest first.
pub async fn days(conn: &mut Conn, tenant: TenantId, since: Date) -> Result<Vec<Day>> {
    fetch_all!(
        conn,
        "SELECT day, CAST(sum(objects) AS bigint) AS objects, CAST(sum(flagged) AS bigint) AS flagged,
                CAST(sum(firings) AS bigint) AS firings
         FROM (SELECT day, objects, flagged, CAST(0 AS bigint) AS firings FROM object_days
               WHERE tenant_id = $1 AND day >= $2
               UNION ALL
               SELECT day, 0, 0, firings FROM firing_days WHERE tenant_id = $1 AND day >= $2) AS happened
         GROUP BY day ORDER BY day",
        tenant,
        since
    )
}

/// Removes what was counted on the days before one.
pub async fn drop_days(conn: &mut Conn, tenant: TenantId, before: Date) -> Result<()> {
    execute!(conn, "DELETE FROM object_days WHERE tenant_id = $1 AND day < $2", tenant, before)?;
    execute!(conn, "DELETE FROM firing_days WHERE tenant_id = $1 AND day < $2", tenant, before)?;
    Ok(())
}

/// Counts the objects by type, most first.
pub async fn categories(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Category>> {
    // Cast: PostgreSQL widens a sum of bigint to numeric.
    fetch_all!(
        conn,
        "SELECT object_type, CAST(sum(objects) AS bigint) AS objects, CAST(sum(analyzed) AS bigint) AS analyzed,
                CAST(sum(flagged) AS bigint) AS flagged
         FROM object_tallies WHERE tenant_id = $1 GROUP BY object_type HAVING sum(objects) > 0
         ORDER BY 2 DESC, object_type",
        tenant
    )
}

/// Counts the objects of a tenant. Every one of them has events: the first event creates it.
pub async fn objects(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (objects,): (i64,) = fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum(objects), 0) AS bigint) FROM object_tallies WHERE tenant_id = $1",
        tenant
    )?;
    Ok(objects)
}

/// Counts the objects without an answer to a question.
pub async fn unanswered(conn: &mut Conn, tenant: TenantId, signal_id: Uuid) -> Result<i64> {
    let (answers,): (i64,) = fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum(answers), 0) AS bigint) FROM signal_tallies WHERE tenant_id = $1 AND signal_id = $2",
        tenant,
        signal_id
    )?;
    Ok((objects(conn, tenant).await? - answers).max(0))
}

/// The tallies of all signals.
pub async fn signal_tallies(conn: &mut Conn, tenant: TenantId) -> Result<Vec<SignalTally>> {
    fetch_all!(
        conn,
        "SELECT signal_id, choice, CAST(sum(answers) AS bigint) AS answers, CAST(sum(high) AS bigint) AS high,
                CAST(sum(value_micros) AS bigint) AS value_micros
         FROM signal_tallies WHERE tenant_id = $1 GROUP BY signal_id, choice",
        tenant
    )
}

/// Counts the events received in or after a minute: by the minute up to the next hour, by the hour from there.
pub async fn events_since(conn: &mut Conn, tenant: TenantId, minute: Timestamp) -> Result<i64> {
    let next_hour = hour_of(minute) + HOUR;
    let (events,): (i64,) = fetch_one!(
        conn,
        "SELECT CAST(
             coalesce((SELECT sum(events) FROM event_tallies WHERE tenant_id = $1 AND minute >= $2 AND minute < $3), 0)
             + coalesce((SELECT sum(events) FROM hourly_event_tallies WHERE tenant_id = $1 AND hour >= $3), 0)
         AS bigint)",
        tenant,
        minute,
        next_hour
    )?;
    Ok(events)
}
