//! Deleting an object and everything about it.

use model::TenantId;

use crate::actions::webhooks::deliveries;
use crate::analysis::{concluder, storage};
use crate::db::{Conn, Result, execute, fetch_one};
use crate::objects::{events, grams};

/// Removes some of what is about an object where there is more than `limit` rows of a kind: events, analyses in its past,
/// counters, deliveries. False when what is left fits into one transaction: [`delete`] removes it. Whoever waits for the
/// object's lock does not wait for all of it.
pub async fn drop_some(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    limit: i64,
    shard: i64,
) -> Result<bool> {
    // In the order of all others: the object first.
    let locked = concluder::LockedObjects::lock(conn, &[(tenant, object_id)]).await?;
    let Some(newest) = locked.newest_seq(tenant, object_id) else { return Ok(false) };
    let (oldest,): (Option<i64>,) = fetch_one!(
        conn,
        "SELECT min(seq) FROM events WHERE tenant_id = $1 AND object_id = $2",
        tenant,
        object_id
    )?;
    if let Some(oldest) = oldest.filter(|oldest| newest - oldest >= limit) {
        let stored = events::drop_through(conn, tenant, object_id, oldest + limit - 1).await?;
        storage::remove(conn, tenant, stored, shard).await?;
        return Ok(true);
    }
    // Each removes the first rows by its key, if there are more than `limit`; from fewer the inner query finds none to end at.
    for text in [
        "DELETE FROM answer_history WHERE tenant_id = $1 AND object_id = $2 AND analysis_id <=
             (SELECT analysis_id FROM answer_history WHERE tenant_id = $1 AND object_id = $2
              ORDER BY analysis_id LIMIT 1 OFFSET $3)",
        "DELETE FROM event_counters WHERE tenant_id = $1 AND object_id = $2 AND (name, hour) <=
             (SELECT name, hour FROM event_counters WHERE tenant_id = $1 AND object_id = $2
              ORDER BY name, hour LIMIT 1 OFFSET $3)",
    ] {
        if execute!(conn, text, tenant, object_id, limit)? > 0 {
            return Ok(true);
        }
    }
    deliveries::drop_some_of_object(conn, tenant, object_id, limit).await
}

/// What people and rules have recorded about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ObjectRecords {
    /// Labels of all authors.
    pub labels: i64,
    /// Reviews, open and resolved.
    pub reviews: i64,
    /// Firings of rules.
    pub firings: i64,
}

/// How much people and rules have recorded about an object. A condition that always holds states which index serves (ADR 10).
pub async fn records_about(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<ObjectRecords> {
    fetch_one!(
        conn,
        "SELECT (SELECT count(*) FROM labels WHERE tenant_id = $1 AND object_id = $2) AS labels,
                (SELECT count(*) FROM reviews WHERE tenant_id = $1 AND object_id = $2) AS reviews,
                (SELECT count(*) FROM rule_firings
                 WHERE tenant_id = $1 AND object_id = $2 AND action_type <> 'of an object') AS firings",
        tenant,
        object_id
    )
}

/// Removes an object and everything about it except what was charged; false when there is none.
pub async fn delete(conn: &mut Conn, tenant: TenantId, object_id: &str, shard: i64) -> Result<bool> {
    if !concluder::remove_from_tallies(conn, tenant, object_id, shard).await? {
        return Ok(false);
    }
    let stored = events::drop_through(conn, tenant, object_id, i64::MAX).await?;
    for text in [
        "DELETE FROM objects WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM summaries WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM answers WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM answer_history WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM event_counters WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM labels WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM trial_objects WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM reviews WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM jobs WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_replay_examples WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_states WHERE tenant_id = $1 AND object_id = $2",
        // Messages before the firings that they report: their sender locks the rows in this order.
        "DELETE FROM outbox WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_firings WHERE tenant_id = $1 AND object_id = $2 AND action_type <> 'of an object'",
    ] {
        execute!(conn, text, tenant, object_id)?;
    }
    deliveries::drop_of_object(conn, tenant, object_id).await?;
    grams::remove(conn, tenant, object_id).await?;
    storage::remove(conn, tenant, stored, shard).await?;
    Ok(true)
}
