//! The row builder: one statement over many rows, for the hot paths of recording, concluding and delivering.
//!
//! How the rows reach the database differs, because it was measured to matter:
//!
//! - PostgreSQL gets one array for each column, so the text is the same for any number of rows and stays prepared. A
//!   statement that looks up many given rows can only be run by looking up each of them; a single row goes as plain values, so
//!   that its plan is kept and finds rows by their keys (`docs/adr/0010-plans-by-index.md`). An insertion has nothing to plan.
//! - SQLite gets lists of values, in chunks of a few fixed sizes: few texts are prepared, and all of them stay prepared.

use std::collections::BTreeMap;
use std::ops::Range;

use model::{Date, TenantId, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::query_builder::Separated;
use sqlx::sqlite::SqliteRow;
use sqlx::types::Json;
use sqlx::{FromRow, Postgres, QueryBuilder, Sqlite};
use uuid::Uuid;

use crate::db::conn::Conn;
use crate::db::dialect::Backend;
use crate::db::error::Result;
use crate::db::statement::Sql;

/// Sizes of a chunk for SQLite, largest first: few enough to stay prepared, and close enough together that most numbers of
/// rows are one or two chunks. The largest keeps fifteen columns far below SQLite's limit of 32,766 values.
const CHUNK_SIZES: [usize; 18] = [512, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 5, 4, 3, 2, 1];

/// Rows on their way into a statement, column by column.
pub(crate) struct Rows<'a, T> {
    items: &'a [T],
    columns: Vec<Column<'a>>,
}

struct Column<'a> {
    name: &'static str,
    values: Values<'a>,
}

impl<'a, T> Rows<'a, T> {
    /// Rows made from items, one from each; they have no columns yet.
    pub(crate) fn of(items: &'a [T]) -> Self {
        Self { items, columns: Vec::new() }
    }

    /// Adds a column: `value` is evaluated for every item.
    pub(crate) fn column<V: ColumnValue<'a>>(
        mut self,
        name: &'static str,
        value: impl Fn(&'a T) -> V,
    ) -> Self {
        let values = V::collect(self.items.iter().map(value));
        self.columns.push(Column { name, values });
        self
    }

    /// Inserts the rows into a table; `tail` follows them (`ON CONFLICT …`, `RETURNING …`) and may be empty.
    pub(crate) fn insert(self, table: &'static str, tail: impl Into<Sql<'a>>) -> RowsStatement<'a> {
        self.statement(Body::Insert { table, tail: tail.into() })
    }

    /// Deletes the rows of a table that have the keys of these, if they meet a condition (`AND …`), which may be empty. The
    /// columns are those of the key.
    pub(crate) fn delete(self, table: &'static str, condition: &'static str) -> RowsStatement<'a> {
        self.statement(Body::Delete { table, condition })
    }

    /// Runs a statement that sees the rows as a table called `given`. On SQLite it runs once for each chunk of rows.
    pub(crate) fn with_given(self, statement: impl Into<Sql<'a>>) -> RowsStatement<'a> {
        self.statement(Body::WithGiven(statement.into()))
    }

    fn statement(self, body: Body<'a>) -> RowsStatement<'a> {
        RowsStatement { columns: self.columns, rows: self.items.len(), body, is_of_one_tenant: false }
    }
}

/// A statement over many rows, ready to run ([`Self::execute`], [`Self::fetch`]) or to join a batch
/// ([`crate::db::Batch::add`]).
#[must_use]
pub(crate) struct RowsStatement<'a> {
    columns: Vec<Column<'a>>,
    rows: usize,
    body: Body<'a>,
    /// Whether all rows are known to be of one tenant, who is then written once.
    is_of_one_tenant: bool,
}

#[derive(Clone, Copy)]
enum Body<'a> {
    Insert { table: &'static str, tail: Sql<'a> },
    Delete { table: &'static str, condition: &'static str },
    WithGiven(Sql<'a>),
}

impl RowsStatement<'_> {
    /// Runs it and returns how many rows changed. Without rows there is nothing to run.
    pub(crate) async fn execute(self, conn: &mut Conn) -> Result<u64> {
        let mut changed = 0;
        match conn {
            Conn::Sqlite(lent) => {
                for chunk in chunks(self.rows) {
                    let mut query = QueryBuilder::default();
                    self.push_sqlite(chunk, &mut query);
                    changed += query.build().execute(lent.native()).await?.rows_affected();
                }
            }
            Conn::Postgres(lent) if self.rows > 0 => {
                for statement in self.by_shard(lent.is_sharded()) {
                    let mut query = QueryBuilder::default();
                    statement.push_postgres(&mut query);
                    changed += query.build().execute(lent.native()).await?.rows_affected();
                }
            }
            Conn::Postgres(_) => {}
        }
        Ok(changed)
    }

    /// Runs it and returns its rows. Without rows there is nothing to run.
    pub(crate) async fn fetch<T: EitherRow>(self, conn: &mut Conn) -> Result<Vec<T>> {
        let mut returned = Vec::new();
        match conn {
            Conn::Sqlite(lent) => {
                for chunk in chunks(self.rows) {
                    let mut query = QueryBuilder::default();
                    self.push_sqlite(chunk, &mut query);
                    returned.extend(query.build_query_as().fetch_all(lent.native()).await?);
                }
            }
            Conn::Postgres(lent) if self.rows > 0 => {
                for statement in self.by_shard(lent.is_sharded()) {
                    let mut query = QueryBuilder::default();
                    statement.push_postgres(&mut query);
                    returned.extend(query.build_query_as().fetch_all(lent.native()).await?);
                }
            }
            Conn::Postgres(_) => {}
        }
        Ok(returned)
    }

    /// The statements that do the same on a database that is divided into shards: one for each tenant, in their order, so that
    /// each goes to one shard, where it may lock rows. An insertion stays whole: it goes to all its shards by itself.
    pub(crate) fn by_shard(self, is_sharded: bool) -> Vec<Self> {
        let tenants = self.columns.iter().find_map(|column| match &column.values {
            Values::Tenant(tenants) => Some(tenants),
            _ => None,
        });
        let (Some(tenants), true) = (tenants, is_sharded && !matches!(self.body, Body::Insert { .. })) else {
            return vec![self];
        };
        let mut rows_of: BTreeMap<Option<Uuid>, Vec<usize>> = BTreeMap::new();
        for (index, tenant) in tenants.iter().enumerate() {
            rows_of.entry(*tenant).or_default().push(index);
        }
        let of_tenant = |rows: Vec<usize>| {
            let columns = self.columns.iter();
            let columns =
                columns.map(|Column { name, values }| Column { name, values: values.chosen(&rows) });
            Self { columns: columns.collect(), rows: rows.len(), body: self.body, is_of_one_tenant: true }
        };
        rows_of.into_values().map(of_tenant).collect()
    }

    /// How many rows it is about.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Writes the statement over one chunk of rows.
    pub(crate) fn push_sqlite(&self, chunk: Range<usize>, query: &mut QueryBuilder<Sqlite>) {
        let names = self.names();
        match &self.body {
            Body::Insert { table, .. } => query.push(format_args!("INSERT INTO {table} ({names}) ")),
            Body::Delete { .. } | Body::WithGiven(_) => query.push(format_args!("WITH given ({names}) AS (")),
        };
        query.push_values(chunk, |mut row, index| {
            for column in &self.columns {
                column.values.push_one(index, &mut row);
            }
        });
        match &self.body {
            Body::Insert { tail, .. } => query.push(" ").push(tail.sqlite),
            Body::Delete { table, condition } => query.push(format_args!(
                ") DELETE FROM {table} WHERE ({names}) IN (SELECT {names} FROM given) {condition}"
            )),
            Body::WithGiven(statement) => query.push(") ").push(statement.sqlite),
        };
    }

    /// Writes the statement over all rows.
    pub(crate) fn push_postgres(self, query: &mut QueryBuilder<Postgres>) {
        if self.is_of_one_tenant && self.rows > 1 {
            return self.push_of_one_tenant(query);
        }
        let names = self.names();
        let is_one_row = self.rows == 1;
        match &self.body {
            Body::Insert { table, .. } => {
                query.push(format_args!("INSERT INTO {table} ({names}) SELECT * FROM UNNEST("));
            }
            Body::Delete { .. } | Body::WithGiven(_) if is_one_row => {
                query.push(format_args!("WITH given ({names}) AS NOT MATERIALIZED (SELECT "));
            }
            Body::Delete { .. } | Body::WithGiven(_) => {
                query.push(format_args!("WITH given ({names}) AS (SELECT * FROM UNNEST("));
            }
        }
        let after = self.after_rows();
        let as_values = is_one_row && matches!(after, After::Lookup(_));
        let mut list = query.separated(", ");
        for Column { values, .. } in self.columns {
            let sql_type = values.sql_type();
            if as_values {
                values.push_single(&mut list);
                list.push_unseparated("::").push_unseparated(sql_type);
            } else {
                values.push_array(&mut list);
                list.push_unseparated("::").push_unseparated(sql_type).push_unseparated("[]");
            }
        }
        match after {
            After::Insert(tail) => query.push(") ").push(tail),
            After::Lookup(statement) if is_one_row => query.push(") ").push(statement),
            After::Lookup(statement) => query.push(")) ").push(looked_up(&statement)),
        };
    }

    /// Writes the statement over rows of one tenant. The tenant is a value of its own, in place of a column, so that whoever
    /// plans the statement sees which shard it is for.
    fn push_of_one_tenant(self, query: &mut QueryBuilder<Postgres>) {
        let names = self.names();
        query.push(format_args!("WITH given ({names}) AS NOT MATERIALIZED (SELECT "));
        let after = self.after_rows();
        let mut list = query.separated(", ");
        for Column { name, values } in &self.columns {
            if let Values::Tenant(tenants) = values {
                list.push_bind(tenants.first().copied().flatten()).push_unseparated("::uuid");
            } else {
                list.push(format_args!("of_tenant.{name}"));
            }
        }
        query.push(" FROM UNNEST(");
        let mut list = query.separated(", ");
        for Column { values, .. } in self.columns {
            let sql_type = values.sql_type();
            values.push_array(&mut list);
            list.push_unseparated("::").push_unseparated(sql_type).push_unseparated("[]");
        }
        query.push(format_args!(") AS of_tenant ({names})) "));
        match after {
            After::Insert(text) | After::Lookup(text) => query.push(text),
        };
    }

    /// What follows the rows on PostgreSQL.
    fn after_rows(&self) -> After {
        match &self.body {
            Body::Insert { tail, .. } => After::Insert(tail.postgres.to_owned()),
            Body::Delete { table, condition } => {
                let equal = |column: &Column<'_>| format!("{table}.{0} = given.{0}", column.name);
                let key: Vec<String> = self.columns.iter().map(equal).collect();
                After::Lookup(format!(
                    "DELETE FROM {table} USING given WHERE {} {condition}",
                    key.join(" AND ")
                ))
            }
            Body::WithGiven(statement) => After::Lookup(statement.postgres.to_owned()),
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        names.join(", ")
    }
}

/// What follows the rows of a statement: the rest of an insertion, or a statement that looks rows up.
enum After {
    Insert(String),
    Lookup(String),
}

/// A statement over many given rows, so that PostgreSQL can only run it by looking up each of them
/// ([`Backend::looked_up_by`]).
fn looked_up(statement: &str) -> String {
    let mut rest = statement;
    let mut written = String::with_capacity(statement.len() + 64);
    while let Some((before, after)) = rest.split_once(LOOKED_UP) {
        let end =
            after.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '_').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        written.push_str(before);
        written.push_str(&Backend::Postgres.looked_up_by(&format!("given.tenant{name}")));
        rest = after;
    }
    written + rest
}

/// How a statement compares the first column of a key, which is always the tenant.
const LOOKED_UP: &str = "= given.tenant";

/// Divides rows into chunks of the fixed sizes.
pub(crate) fn chunks(rows: usize) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < rows {
        let size = CHUNK_SIZES.into_iter().find(|size| *size <= rows - start).unwrap_or(1);
        chunks.push(start..start + size);
        start += size;
    }
    chunks
}

/// A row that either database can return.
pub(crate) trait EitherRow:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> EitherRow for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

/// A value that a column can be made of: its Rust type decides the type of the column.
pub(crate) trait ColumnValue<'a>: Sized {
    /// The values of a column.
    fn collect(values: impl Iterator<Item = Self>) -> Values<'a>;
}

/// Declares the types of columns: a variant of [`Values`], its type on PostgreSQL, and the Rust types that go in there.
macro_rules! column_types {
    ($($variant:ident($native:ty) $sql_type:literal: $($value:ty => |$from:ident| $into:expr),+;)+) => {
        /// The values of a column.
        pub(crate) enum Values<'a> {
            $($variant(Vec<Option<$native>>),)+
        }

        impl Values<'_> {
            /// The type of the column on PostgreSQL.
            fn sql_type(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $sql_type,)+
                }
            }

            /// The values of some rows.
            fn chosen(&self, rows: &[usize]) -> Self {
                match self {
                    $(Self::$variant(values) => {
                        Self::$variant(rows.iter().map(|row| values.get(*row).cloned().flatten()).collect())
                    })+
                }
            }

            /// Binds the value of one row.
            fn push_one(&self, index: usize, list: &mut Separated<'_, Sqlite, &'static str>) {
                match self {
                    $(Self::$variant(values) => list.push_bind(values.get(index).cloned().flatten()),)+
                };
            }

            /// Binds the value of the only row.
            fn push_single(self, list: &mut Separated<'_, Postgres, &'static str>) {
                match self {
                    $(Self::$variant(values) => list.push_bind(values.into_iter().next().flatten()),)+
                };
            }

            /// Binds the values of all rows as one array.
            fn push_array(self, list: &mut Separated<'_, Postgres, &'static str>) {
                match self {
                    $(Self::$variant(values) => list.push_bind(values),)+
                };
            }
        }

        $($(
            impl<'a> ColumnValue<'a> for $value {
                fn collect(values: impl Iterator<Item = Self>) -> Values<'a> {
                    Values::$variant(values.map(|$from| Some($into)).collect())
                }
            }

            impl<'a> ColumnValue<'a> for Option<$value> {
                fn collect(values: impl Iterator<Item = Self>) -> Values<'a> {
                    Values::$variant(values.map(|value| value.map(|$from| $into)).collect())
                }
            }
        )+)+
    };
}

column_types! {
    Tenant(Uuid) "uuid": TenantId => |id| id.0;
    Uuid(Uuid) "uuid": Uuid => |id| id;
    Text(&'a str) "text": &'a str => |text| text;
    Bigint(i64) "bigint": i64 => |number| number;
    Double(f64) "double precision": f64 => |number| number;
    Timestamp(Timestamp) "timestamptz": Timestamp => |instant| instant;
    Date(Date) "date": Date => |day| day;
    Boolean(bool) "boolean": bool => |flag| flag;
    Bytes(&'a [u8]) "bytea": &'a [u8] => |bytes| bytes;
    Json(Json<serde_json::Value>) "jsonb": Json<serde_json::Value> => |json| json;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_few_sizes_and_cover_all_rows() {
        assert_eq!(chunks(1_112), [0..512, 512..1_024, 1_024..1_088, 1_088..1_112]);
        assert!(chunks(0).is_empty());
    }

    fn texts(rows: &[(i64, &str)]) -> (String, String) {
        let built = || {
            Rows::of(rows)
                .column("number", |row| row.0)
                .column("word", |row| row.1)
                .with_given(Sql { sqlite: "SELECT 1 FROM given", postgres: "SELECT 2 FROM given" })
        };
        let (mut sqlite, mut postgres) = (QueryBuilder::default(), QueryBuilder::default());
        built().push_sqlite(0..rows.len(), &mut sqlite);
        built().push_postgres(&mut postgres);
        (sqlite.into_string(), postgres.into_string())
    }

    #[test]
    fn one_row_goes_to_postgres_as_values_and_more_as_arrays() {
        let (sqlite, postgres) = texts(&[(1, "a")]);
        assert_eq!(sqlite, "WITH given (number, word) AS (VALUES (?, ?)) SELECT 1 FROM given");
        assert_eq!(
            postgres,
            "WITH given (number, word) AS NOT MATERIALIZED (SELECT $1::bigint, $2::text) SELECT 2 FROM given"
        );
        let (sqlite, postgres) = texts(&[(1, "a"), (2, "b")]);
        assert_eq!(sqlite, "WITH given (number, word) AS (VALUES (?, ?), (?, ?)) SELECT 1 FROM given");
        assert_eq!(
            postgres,
            "WITH given (number, word) AS (SELECT * FROM UNNEST($1::bigint[], $2::text[])) SELECT 2 FROM given"
        );
    }

    #[test]
    fn a_statement_goes_to_the_shard_of_each_tenant() {
        let [one, other] = [1, 2].map(|number| TenantId(Uuid::from_u128(number)));
        let rows = [(other, "b"), (one, "a"), (other, "c")];
        let built = |is_sharded| {
            let statement = Rows::of(&rows).column("tenant_id", |row| row.0).column("word", |row| row.1);
            let statements = statement.delete("words", "").by_shard(is_sharded).into_iter();
            let text = |statement: RowsStatement<'_>| {
                let mut query = QueryBuilder::default();
                statement.push_postgres(&mut query);
                query.into_string()
            };
            statements.map(text).collect::<Vec<String>>()
        };
        let lookup = "DELETE FROM words USING given WHERE words.tenant_id = given.tenant_id AND words.word = given.word ";
        assert_eq!(
            built(true),
            [
                format!(
                    "WITH given (tenant_id, word) AS NOT MATERIALIZED (SELECT $1::uuid, $2::text) {lookup}"
                ),
                format!(
                    "WITH given (tenant_id, word) AS NOT MATERIALIZED (SELECT $1::uuid, of_tenant.word \
                     FROM UNNEST($2::uuid[], $3::text[]) AS of_tenant (tenant_id, word)) {lookup}"
                ),
            ]
        );
        assert_eq!(built(false).len(), 1);
        let insertion = || Rows::of(&rows).column("tenant_id", |row| row.0).insert("words", "");
        assert_eq!(insertion().by_shard(true).len(), 1, "it stays whole");
    }

    #[test]
    fn many_rows_are_looked_up_and_one_is_compared() {
        let postgres = |rows: &[i64]| {
            let mut query = QueryBuilder::default();
            Rows::of(rows)
                .column("tenant_id", |_| Uuid::nil())
                .column("number", |row| *row)
                .delete("jobs", "AND TRUE")
                .push_postgres(&mut query);
            query.into_string()
        };
        let many = postgres(&[1, 2]);
        let lookup = "jobs.tenant_id = ANY (ARRAY[given.tenant_id]) AND jobs.number = given.number AND TRUE";
        assert!(many.ends_with(lookup), "{many}");
        let one = postgres(&[1]);
        assert!(
            one.ends_with("jobs.tenant_id = given.tenant_id AND jobs.number = given.number AND TRUE"),
            "{one}"
        );
        assert_eq!(
            looked_up("a = given.tenant AND b = given.b"),
            "a = ANY (ARRAY[given.tenant]) AND b = given.b"
        );
    }
}
