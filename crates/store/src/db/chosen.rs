//! Changing rows that are chosen by another index than the one of their key: what a sweep removes, oldest first.

use crate::db::conn::Conn;
use crate::db::dialect::Backend;

/// Rows of a table, to be removed or changed.
pub(crate) struct Chosen<'a> {
    pub(crate) table: &'a str,
    /// The columns of its primary key.
    pub(crate) key: &'a [&'a str],
    /// Which rows: `WHERE … ORDER BY … LIMIT …`.
    pub(crate) rows: &'a str,
    /// Whether they are all of one tenant, the first value: then they are in one shard.
    pub(crate) is_of_tenant: bool,
}

impl Chosen<'_> {
    /// Removes the rows.
    pub(crate) fn delete(&self, conn: &Conn) -> String {
        let Self { table, .. } = self;
        match conn.backend() {
            Backend::Sqlite => format!("DELETE FROM {table} WHERE {}", self.in_list()),
            Backend::Postgres => {
                format!("{} DELETE FROM {table} USING chosen WHERE {}", self.with(conn), self.by_key(conn))
            }
        }
    }

    /// Changes the rows.
    pub(crate) fn update(&self, conn: &Conn, assignments: &str) -> String {
        let Self { table, .. } = self;
        match conn.backend() {
            Backend::Sqlite => format!("UPDATE {table} SET {assignments} WHERE {}", self.in_list()),
            Backend::Postgres => {
                format!(
                    "{} UPDATE {table} SET {assignments} FROM chosen WHERE {}",
                    self.with(conn),
                    self.by_key(conn)
                )
            }
        }
    }

    fn in_list(&self) -> String {
        let Self { table, rows, .. } = self;
        let key = self.key.join(", ");
        format!("({key}) IN (SELECT {key} FROM {table} {rows})")
    }

    /// Materialized, and looked up row by row: PostgreSQL would else consider to read the table again beside it.
    fn with(&self, conn: &Conn) -> String {
        let Self { table, rows, .. } = self;
        let rows = if self.is_in_shard(conn) {
            rows.replacen("WHERE ", "WHERE tenant_id = $1 AND ", 1)
        } else {
            (*rows).to_owned()
        };
        format!("WITH chosen AS MATERIALIZED (SELECT {} FROM {table} {rows})", self.key.join(", "))
    }

    fn by_key(&self, conn: &Conn) -> String {
        let Self { table, .. } = self;
        let equal = |(index, column): (usize, &&str)| {
            let value = format!("chosen.{column}");
            let equals = if index == 0 && !conn.is_sharded() {
                Backend::Postgres.looked_up_by(&value)
            } else {
                format!("= {value}")
            };
            format!("{table}.{column} {equals}")
        };
        let mut key: Vec<String> = self.key.iter().enumerate().map(equal).collect();
        if self.is_in_shard(conn) {
            key.push(format!("{table}.tenant_id = $1"));
        }
        key.join(" AND ")
    }

    /// Whether both parts of the statement are to say which shard they are for.
    fn is_in_shard(&self, conn: &Conn) -> bool {
        self.is_of_tenant && conn.is_sharded()
    }
}
