//! The bytes of contents and metadata of the events that a tenant keeps: counted with every event that is recorded or
//! removed, so that reading them does not scan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::TenantId;

use crate::db::{Batch, Conn, Result, Rows, execute, fetch_one};

/// Changes of stored bytes, by tenant: in key order, to avoid deadlocks.
#[derive(Default)]
pub struct StorageChanges(BTreeMap<TenantId, i64>);

impl StorageChanges {
    /// Counts bytes that are stored, or removed if they are negative.
    pub fn add(&mut self, tenant: TenantId, bytes: i64) {
        *self.0.entry(tenant).or_default() += bytes;
    }

    /// Writes all changes. To be added to a batch after other counts, in every transaction, to avoid deadlocks.
    pub fn write(self, batch: &mut Batch, shard: i64) {
        let rows: Vec<(TenantId, i64)> = self.0.into_iter().filter(|(_, bytes)| *bytes != 0).collect();
        batch.add(
            Rows::of(&rows).column("tenant_id", |row| row.0).column("shard", |_| shard).column("bytes", |row| row.1).insert(
                "storage_tallies",
                "ON CONFLICT (tenant_id, shard) DO UPDATE SET bytes = storage_tallies.bytes + excluded.bytes",
            ),
        );
    }
}

/// Counts bytes of a tenant that were removed.
pub async fn remove(conn: &mut Conn, tenant: TenantId, bytes: i64, shard: i64) -> Result<()> {
    if bytes != 0 {
        execute!(
            conn,
            "INSERT INTO storage_tallies (tenant_id, shard, bytes) VALUES ($1, $2, $3)
             ON CONFLICT (tenant_id, shard) DO UPDATE SET bytes = storage_tallies.bytes + excluded.bytes",
            tenant,
            shard,
            -bytes
        )?;
    }
    Ok(())
}

/// The bytes that a tenant stores.
pub async fn stored(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (bytes,): (i64,) = fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM storage_tallies WHERE tenant_id = $1",
        tenant
    )?;
    Ok(bytes)
}

/// The bytes that each of these tenants stores.
pub(crate) async fn stored_by(
    conn: &mut Conn,
    tenants: &BTreeSet<TenantId>,
) -> Result<HashMap<TenantId, i64>> {
    let tenants: Vec<TenantId> = tenants.iter().copied().collect();
    let rows = Rows::of(&tenants)
        .column("tenant_id", |tenant| *tenant)
        .with_given(
            "SELECT given.tenant_id, CAST(coalesce(sum(bytes), 0) AS bigint) FROM given
             LEFT JOIN storage_tallies ON storage_tallies.tenant_id = given.tenant_id GROUP BY given.tenant_id",
        )
        .fetch::<(TenantId, i64)>(conn)
        .await?;
    Ok(rows.into_iter().collect())
}

/// What [`stored`] should be, from the events themselves. Reads all of them: for operators and tests.
pub async fn measured(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (bytes,): (i64,) = fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum(coalesce(octet_length(content), 0) + coalesce(octet_length(metadata), 0)), 0) AS bigint)
         FROM events WHERE tenant_id = $1",
        tenant
    )?;
    Ok(bytes)
}
