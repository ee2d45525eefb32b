//! Deleting an object and everything about it.

use model::TenantId;

use crate::actions::webhooks::deliveries;
use crate::analysis::{concluder, storage};
use crate::db::{Conn, Result, execute};
use crate::objects::grams;

/// Removes an object and everything about it except what was charged; false when there is none.
pub async fn delete(conn: &mut Conn, tenant: TenantId, object_id: &str, shard: i64) -> Result<bool> {
    if !concluder::remove_from_tallies(conn, tenant, object_id, shard).await? {
        return Ok(false);
    }
    let stored = concluder::drop_events(conn, tenant, object_id, i64::MAX).await?;
    for text in [
        "DELETE FROM objects WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM summaries WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM answers WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM jobs WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_states WHERE tenant_id = $1 AND object_id = $2",
        // Messages before the firings that they report: their sender locks the rows in this order.
        "DELETE FROM outbox WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_firings WHERE tenant_id = $1 AND object_id = $2",
    ] {
        execute!(conn, text, tenant, object_id)?;
    }
    deliveries::drop_of_object(conn, tenant, object_id).await?;
    grams::remove(conn, tenant, object_id).await?;
    storage::remove(conn, tenant, stored, shard).await?;
    Ok(true)
}
