//! The raw events of an object: dropped once a summary includes them, or with the object.

use model::TenantId;

use crate::db::{Conn, Result, fetch_all};

/// Removes the raw events up to a sequence number, which the summary includes. Returns how many bytes they stored, which
/// the caller must count.
pub async fn drop_through(conn: &mut Conn, tenant: TenantId, object_id: &str, through: i64) -> Result<i64> {
    let removed: Vec<(i64,)> = fetch_all!(
        conn,
        "DELETE FROM events WHERE tenant_id = $1 AND object_id = $2 AND seq <= $3
         RETURNING CAST(coalesce(octet_length(content), 0) + coalesce(octet_length(metadata), 0) AS bigint)",
        tenant,
        object_id,
        through
    )?;
    Ok(removed.iter().map(|(bytes,)| bytes).sum())
}
