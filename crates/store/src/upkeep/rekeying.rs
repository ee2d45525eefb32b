//! Columns whose values are sealed with the master key, for sealing them with another key.

use model::TenantId;
use uuid::Uuid;

use crate::db::{Conn, Result, execute, fetch_all, fetch_one};

/// A column of sealed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// `table.column`: part of what a value is sealed for.
    pub qualified_name: &'static str,
    /// Its table.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The column of the row's id, which is the other part of what a value is sealed for.
    id: &'static str,
    /// Whether the tenant comes before it in the table's key.
    by_tenant: bool,
}

/// All sealed columns. A test compares them with the schema.
pub const COLUMNS: [Column; 8] = [
    Column {
        qualified_name: "api_keys.secret",
        table: "api_keys",
        name: "secret",
        id: "key_id",
        by_tenant: false,
    },
    Column {
        qualified_name: "users.totp_secret",
        table: "users",
        name: "totp_secret",
        id: "user_id",
        by_tenant: false,
    },
    Column {
        qualified_name: "rules.action_config",
        table: "rules",
        name: "action_config",
        id: "rule_id",
        by_tenant: true,
    },
    Column {
        qualified_name: "webhook_endpoints.secret",
        table: "webhook_endpoints",
        name: "secret",
        id: "endpoint_id",
        by_tenant: true,
    },
    Column {
        qualified_name: "webhook_endpoints.previous_secret",
        table: "webhook_endpoints",
        name: "previous_secret",
        id: "endpoint_id",
        by_tenant: true,
    },
    Column {
        qualified_name: "webhook_endpoints.sealed_url",
        table: "webhook_endpoints",
        name: "sealed_url",
        id: "endpoint_id",
        by_tenant: true,
    },
    Column {
        qualified_name: "mail_recipients.secret",
        table: "mail_recipients",
        name: "secret",
        id: "recipient_id",
        by_tenant: true,
    },
    Column {
        qualified_name: "outbox.message",
        table: "outbox",
        name: "message",
        id: "message_id",
        by_tenant: true,
    },
];

/// A sealed value and the row that it is in.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Value {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// The row.
    pub row_id: Uuid,
    /// The value.
    pub sealed: Vec<u8>,
}

/// The next values after a row, in the order of the table's key.
pub async fn after(
    conn: &mut Conn,
    column: Column,
    row: Option<(TenantId, Uuid)>,
    limit: i64,
) -> Result<Vec<Value>> {
    let Column { table, name, id, by_tenant, .. } = column;
    let (tenant, row) = row.unwrap_or((TenantId(Uuid::nil()), Uuid::nil()));
    let select = format!("SELECT tenant_id, {id} AS row_id, {name} AS sealed FROM {table}");
    if by_tenant {
        let text = format!(
            "{select} WHERE (tenant_id, {id}) > ($1, $2) AND {name} IS NOT NULL ORDER BY tenant_id, {id} LIMIT $3"
        );
        fetch_all!(conn, sqlx::AssertSqlSafe(text), tenant, row, limit)
    } else {
        let text = format!("{select} WHERE {id} > $1 AND {name} IS NOT NULL ORDER BY {id} LIMIT $2");
        fetch_all!(conn, sqlx::AssertSqlSafe(text), row, limit)
    }
}

/// Replaces a value, unless it has changed meanwhile.
pub async fn replace(conn: &mut Conn, column: Column, value: &Value, sealed: &[u8]) -> Result<bool> {
    let Column { table, name, id, .. } = column;
    let text = format!("UPDATE {table} SET {name} = $1 WHERE tenant_id = $2 AND {id} = $3 AND {name} = $4");
    let changed = execute!(
        conn,
        sqlx::AssertSqlSafe(text),
        sealed,
        value.tenant_id,
        value.row_id,
        value.sealed.as_slice()
    )?;
    Ok(changed == 1)
}

/// Counts the values of a column that do not begin with these bytes, the id of a key.
pub async fn sealed_otherwise(conn: &mut Conn, column: Column, key: &[u8]) -> Result<i64> {
    let Column { table, name, .. } = column;
    let text = format!("SELECT count(*) FROM {table} WHERE substr({name}, 1, $1) <> $2");
    let length = i32::try_from(key.len()).unwrap_or(i32::MAX);
    let (count,): (i64,) = fetch_one!(conn, sqlx::AssertSqlSafe(text), length, key)?;
    Ok(count)
}
