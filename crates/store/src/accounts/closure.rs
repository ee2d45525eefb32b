//! The end of an account: it is suspended, and everything of it but the sums of its ledger is deleted, in steps.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;

use crate::db::{Backend, Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};
use crate::objects::grams;

/// Tables with money or the account itself: they go last, and not row by row.
const LAST: [&str; 4] = ["balances", "ledger_entries", "ledger_sums", "tenants"];
/// The table that others refer to: it goes after them.
const REFERENCED: &str = "users";

/// Suspends a tenant; false when it is suspended already, or does not exist.
pub async fn suspend(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE tenants SET suspended_at = $2 WHERE tenant_id = $1 AND suspended_at IS NULL",
        tenant,
        now
    )?;
    Ok(changed == 1)
}

/// Ends a suspension; false when there is none, or when the account is being deleted.
pub async fn resume(conn: &mut Conn, tenant: TenantId) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE tenants SET suspended_at = NULL
         WHERE tenant_id = $1 AND suspended_at IS NOT NULL AND deleting_at IS NULL",
        tenant
    )?;
    Ok(changed == 1)
}

/// Marks the beginning of a deletion; the first time counts.
pub async fn begin_deletion(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE tenants SET deleting_at = coalesce(deleting_at, $2) WHERE tenant_id = $1 AND suspended_at IS NOT NULL",
        tenant,
        now
    )?)
}

/// Whether a tenant is suspended.
pub async fn is_suspended(conn: &mut Conn, tenant: TenantId) -> Result<bool> {
    let found: Option<(i64,)> = fetch_optional!(
        conn,
        "SELECT CAST(1 AS bigint) FROM tenants WHERE tenant_id = $1 AND suspended_at IS NOT NULL",
        tenant
    )?;
    Ok(found.is_some())
}

/// The tenants that are suspended.
pub async fn suspended(conn: &mut Conn) -> Result<Vec<TenantId>> {
    let found: Vec<(TenantId,)> = fetch_all!(
        conn,
        "SELECT tenant_id FROM tenants WHERE tenant_id > $1 AND suspended_at IS NOT NULL ORDER BY tenant_id",
        TenantId(uuid::Uuid::nil())
    )?;
    Ok(found.into_iter().map(|(tenant,)| tenant).collect())
}

/// A table with rows of tenants, and the columns of its primary key.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct OwnedTable {
    /// Its name.
    pub name: String,
    key: String,
}

/// All tables that a deletion empties, in the order in which it does. They are read from the schema, so that none that is added
/// later can be forgotten.
pub async fn owned_tables(conn: &mut Conn) -> Result<Vec<OwnedTable>> {
    let text = match conn.backend() {
        Backend::Sqlite => {
            "SELECT tables.name AS name, group_concat(columns.name, ', ' ORDER BY columns.pk) AS key
             FROM pragma_table_list AS tables JOIN pragma_table_xinfo(tables.name) AS columns
             WHERE tables.schema = 'main' AND tables.type = 'table' AND columns.pk > 0
               AND EXISTS (SELECT 1 FROM pragma_table_xinfo(tables.name) AS owner WHERE owner.name = 'tenant_id')
             GROUP BY tables.name ORDER BY tables.name"
        }
        Backend::Postgres => {
            "SELECT tables.relname::text AS name,
                    (SELECT string_agg(columns.attname::text, ', ' ORDER BY part.position)
                     FROM unnest(keys.indkey::int2[]) WITH ORDINALITY AS part (number, position)
                     JOIN pg_attribute AS columns ON columns.attrelid = tables.oid AND columns.attnum = part.number) AS key
             FROM pg_class AS tables JOIN pg_index AS keys ON keys.indrelid = tables.oid AND keys.indisprimary
             WHERE tables.relnamespace = current_schema()::regnamespace AND tables.relkind IN ('r', 'p')
               AND EXISTS (SELECT 1 FROM pg_attribute AS owner
                           WHERE owner.attrelid = tables.oid AND owner.attname = 'tenant_id')
             ORDER BY tables.relname"
        }
    };
    let mut tables: Vec<OwnedTable> = fetch_all!(conn, text)?;
    tables.retain(|table| !LAST.contains(&table.name.as_str()));
    tables.sort_by_key(|table| table.name == REFERENCED);
    Ok(tables)
}

/// Deletes up to `limit` rows that a tenant has in a table; returns how many.
pub async fn delete_rows(conn: &mut Conn, table: &OwnedTable, tenant: TenantId, limit: i64) -> Result<u64> {
    if table.name == "object_grams" {
        return delete_grams(conn, tenant, limit).await;
    }
    let OwnedTable { name, key } = table;
    let text = format!(
        "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE tenant_id = $1 LIMIT $2)"
    );
    execute!(conn, AssertSqlSafe(text), tenant, limit)
}

/// Deletes grams together with what SQLite's full-text index has of them, which no column names.
async fn delete_grams(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<u64> {
    let objects: Vec<(String,)> =
        fetch_all!(conn, "SELECT object_id FROM object_grams WHERE tenant_id = $1 LIMIT $2", tenant, limit)?;
    for (object,) in &objects {
        grams::remove(conn, tenant, object).await?;
    }
    Ok(objects.len() as u64)
}

/// Adds up to `limit` of the oldest ledger entries of a tenant to its sums and deletes them; returns how many.
pub async fn fold_ledger(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<i64> {
    let (entries, last_seq, credit, charge): (i64, i64, i64, i64) = fetch_one!(
        conn,
        "SELECT count(*), coalesce(max(seq), 0),
                CAST(coalesce(sum(CASE WHEN kind = 'credit' THEN delta_micros ELSE 0 END), 0) AS bigint),
                CAST(coalesce(sum(CASE WHEN kind = 'charge' THEN delta_micros ELSE 0 END), 0) AS bigint)
         FROM (SELECT seq, kind, delta_micros FROM ledger_entries WHERE tenant_id = $1 ORDER BY seq LIMIT $2) AS oldest",
        tenant,
        limit
    )?;
    expect_one(execute!(
        conn,
        "INSERT INTO ledger_sums (tenant_id, entries, credit_micros, charge_micros) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant_id) DO UPDATE SET entries = ledger_sums.entries + excluded.entries,
             credit_micros = ledger_sums.credit_micros + excluded.credit_micros,
             charge_micros = ledger_sums.charge_micros + excluded.charge_micros",
        tenant,
        entries,
        credit,
        charge
    )?)?;
    execute!(conn, "DELETE FROM ledger_entries WHERE tenant_id = $1 AND seq <= $2", tenant, last_seq)?;
    Ok(entries)
}

/// Ends a deletion: notes the last balance beside the sums, and deletes the balance and the tenant. False when money has moved
/// since the ledger was folded; then it must be folded again.
pub async fn finish_deletion(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<bool> {
    // Whoever writes to the ledger locks this row first.
    let balance: Option<(i64,)> = fetch_optional!(
        conn,
        "UPDATE balances SET low_mailed = low_mailed WHERE tenant_id = $1 RETURNING balance_micros",
        tenant
    )?;
    let (left,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM ledger_entries WHERE tenant_id = $1 LIMIT 1) AS entries",
        tenant
    )?;
    if left > 0 {
        return Ok(false);
    }
    expect_one(execute!(
        conn,
        "UPDATE ledger_sums SET balance_micros = $2, deleted_at = $3 WHERE tenant_id = $1",
        tenant,
        balance.map_or(0, |(balance,)| balance),
        now
    )?)?;
    execute!(conn, "DELETE FROM balances WHERE tenant_id = $1", tenant)?;
    expect_one(execute!(conn, "DELETE FROM tenants WHERE tenant_id = $1", tenant)?)?;
    Ok(true)
}

/// The sums of a deleted account's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema")]
pub struct LedgerSums {
    pub tenant_id: TenantId,
    pub entries: i64,
    pub credit_micros: i64,
    pub charge_micros: i64,
    pub balance_micros: i64,
}

/// The sums of all deleted accounts.
pub async fn ledger_sums(conn: &mut Conn) -> Result<Vec<LedgerSums>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, entries, credit_micros, charge_micros, balance_micros FROM ledger_sums
         WHERE deleted_at IS NOT NULL ORDER BY tenant_id"
    )
}
