//! Since when the history of answers is whole: what was swept, or not kept, is missing from it for good.

use std::time::Duration;

use model::Timestamp;

use crate::db::{Conn, Result, fetch_one, fetch_optional};
use crate::upkeep::deployment;

const DAY: Duration = Duration::from_hours(24);
/// The fact since when all rows are kept.
const KEPT_SINCE: &str = "answer_history_since";
/// Its value while none are kept.
const NEVER: &str = "never";

/// Notes of a deployment where nothing was ever analyzed that nothing of its history is missing. It goes by no clock; of any other,
/// [`note`] says more once the time is confirmed.
pub async fn begin(conn: &mut Conn, days: u32) -> Result<()> {
    let is_known = deployment::find(conn, KEPT_SINCE).await?.is_some();
    if days > 0 && !is_known && !is_any_answered(conn).await? {
        deployment::set(conn, KEPT_SINCE, "0").await?;
    }
    Ok(())
}

async fn is_any_answered(conn: &mut Conn) -> Result<bool> {
    let answered: Option<(i64,)> = fetch_optional!(conn, "SELECT CAST(1 AS bigint) FROM answers LIMIT 1")?;
    Ok(answered.is_some())
}

/// Notes that the history of the last days is kept, before older ones are swept; of no days, nothing. What was not kept once stays unknown,
/// also if more days are kept from now on.
pub async fn note(conn: &mut Conn, days: u32, now: Timestamp) -> Result<()> {
    let known = deployment::find(conn, KEPT_SINCE).await?;
    let kept = now - DAY * days;
    let since = match known.as_deref() {
        _ if days == 0 => None,
        Some(NEVER) => Some(now),
        Some(known) => Some(known.parse().map_or(now, Timestamp::from_micros).max(kept)),
        // Noted for the first time. There was no history before the oldest row, unless there was nothing to keep.
        None => Some(first_kept(conn, now).await?.max(kept)),
    };
    let value = since.map_or_else(|| NEVER.to_owned(), |since| since.micros().to_string());
    if known.as_ref() != Some(&value) {
        deployment::set(conn, KEPT_SINCE, &value).await?;
    }
    Ok(())
}

/// Since when all rows are kept; none if nobody has noted it yet.
pub async fn since(conn: &mut Conn) -> Result<Option<Timestamp>> {
    let known = deployment::find(conn, KEPT_SINCE).await?;
    let parse = |known: String| match known.as_str() {
        NEVER => Some(Timestamp::MAX),
        known => known.parse().ok().map(Timestamp::from_micros),
    };
    Ok(known.and_then(parse))
}

/// The time of the oldest row; without rows, this instant, or the beginning of time if no object was ever analyzed.
async fn first_kept(conn: &mut Conn, now: Timestamp) -> Result<Timestamp> {
    let text = if conn.is_sharded() {
        // Once in the life of a deployment.
        "SELECT min(at) FROM answer_history"
    } else {
        "SELECT min(oldest) FROM (
             SELECT (SELECT at FROM answer_history WHERE answer_history.tenant_id = tenants.tenant_id
                     ORDER BY tenant_id, analysis_id LIMIT 1) AS oldest FROM tenants) AS of_tenants"
    };
    let (oldest,): (Option<Timestamp>,) = fetch_one!(conn, text)?;
    let otherwise = if is_any_answered(conn).await? { now } else { Timestamp::from_seconds(0) };
    Ok(oldest.unwrap_or(otherwise))
}
