//! Webhook deliveries: queued with the change that they tell of, sent under a lease, kept for a while afterwards.

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::bulk::insert_many;
use crate::{Conn, Result};

/// A delivery to be queued.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, made at `created_at`.
    pub delivery_id: Uuid,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// What it tells.
    pub event_type: &'static str,
    /// The object that it is about; it goes with the object.
    pub object_id: Option<String>,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// How often it is tried.
    pub max_attempts: i64,
    /// When it is sent at the earliest.
    pub run_after: Timestamp,
    /// When it was queued.
    pub created_at: Timestamp,
}

/// Queues deliveries, in the transaction of the change that they tell of.
pub async fn queue(conn: &mut Conn, deliveries: &[NewDelivery]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        deliveries,
        "webhook_deliveries",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("delivery_id", "uuid", |row| row.delivery_id),
            ("endpoint_id", "uuid", |row| row.endpoint_id),
            ("event_type", "text", |row| row.event_type),
            ("object_id", "text", |row| row.object_id.as_deref()),
            ("payload", "text", |row| row.payload.as_str()),
            ("status", "text", |_row| "pending"),
            ("max_attempts", "bigint", |row| row.max_attempts),
            ("run_after", "timestamptz", |row| row.run_after),
            ("created_at", "timestamptz", |row| row.created_at),
        ],
        "",
    );
    Ok(())
}
