//! Changing rows that are chosen by another index than the one of their key: what a sweep removes, oldest first.

use crate::db::dialect::Backend;

/// Rows of a table, to be removed or changed.
pub(crate) struct Chosen<'a> {
    pub(crate) table: &'a str,
    /// The columns of its primary key.
    pub(crate) key: &'a [&'a str],
    /// Which rows: `WHERE … ORDER BY … LIMIT …`.
    pub(crate) rows: &'a str,
}

impl Chosen<'_> {
    /// Removes the rows.
    pub(crate) fn delete(&self, backend: Backend) -> String {
        let Self { table, .. } = self;
        match backend {
            Backend::Sqlite => format!("DELETE FROM {table} WHERE {}", self.in_list()),
            Backend::Postgres => {
                format!("{} DELETE FROM {table} USING chosen WHERE {}", self.with(), self.by_key())
            }
        }
    }

    /// Changes the rows.
    pub(crate) fn update(&self, backend: Backend, assignments: &str) -> String {
        let Self { table, .. } = self;
        match backend {
            Backend::Sqlite => format!("UPDATE {table} SET {assignments} WHERE {}", self.in_list()),
            Backend::Postgres => {
                format!(
                    "{} UPDATE {table} SET {assignments} FROM chosen WHERE {}",
                    self.with(),
                    self.by_key()
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
    fn with(&self) -> String {
        let Self { table, rows, .. } = self;
        format!("WITH chosen AS MATERIALIZED (SELECT {} FROM {table} {rows})", self.key.join(", "))
    }

    fn by_key(&self) -> String {
        let Self { table, .. } = self;
        let equal = |(index, column): (usize, &&str)| {
            let value = format!("chosen.{column}");
            let equals =
                if index == 0 { Backend::Postgres.looked_up_by(&value) } else { format!("= {value}") };
            format!("{table}.{column} {equals}")
        };
        let key: Vec<String> = self.key.iter().enumerate().map(equal).collect();
        key.join(" AND ")
    }
}
