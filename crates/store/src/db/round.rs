//! Rounds: statements whose answer nobody needs go to the database together.
//!
//! A transaction for one caller costs less by what its statements do than by their number: each is a way to the database
//! and back. PostgreSQL takes those of a round as parts of one statement, SQLite as one text of several. So the
//! statements of a round must not see what others of it change, but where they name it by [`Round::changed`].

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Postgres, QueryBuilder, Sqlite};

use crate::db::transaction::Held;
use crate::{Conn, Result};

/// Rows of a statement that goes with others on SQLite. Texts are prepared as they are, so the sizes of all chunks in a
/// text multiply: larger chunks go alone, where the way counts for little.
const FEW: usize = 6;

/// Statements on their way.
pub enum Round {
    /// Texts, each of one statement or of several with few rows.
    Sqlite(SqliteTexts),
    /// The parts of one statement.
    Postgres(PostgresParts),
}

/// Texts for SQLite.
#[derive(Default)]
pub struct SqliteTexts {
    texts: Vec<QueryBuilder<Sqlite>>,
    /// Whether the last text takes more.
    is_open: bool,
}

/// Parts of a statement for PostgreSQL.
#[derive(Default)]
pub struct PostgresParts {
    query: Option<QueryBuilder<Postgres>>,
    parts: usize,
    /// What the statement itself does.
    word: Option<(&'static str, String)>,
}

impl Conn {
    /// A round for this connection.
    pub fn round(&self) -> Round {
        match self {
            Self::Sqlite(_) => Round::Sqlite(SqliteTexts::default()),
            Self::Postgres(_) => Round::Postgres(PostgresParts::default()),
        }
    }
}

impl Round {
    /// Says a word on a channel once the transaction is committed; on SQLite there is nobody to hear it.
    pub(crate) fn say(&mut self, channel: &'static str, word: String) {
        if let Self::Postgres(parts) = self {
            parts.word = Some((channel, word));
        }
    }

    /// Sends everything.
    pub async fn run(self, conn: &mut Conn) -> Result<()> {
        match (self, conn) {
            (Self::Sqlite(statements), Conn::Sqlite(held)) => statements.run(held).await?,
            (Self::Postgres(mut parts), Conn::Postgres(held)) => {
                if let Some((channel, word)) = parts.word {
                    let query = parts.query.get_or_insert_default();
                    query.push(" SELECT pg_notify(").push_bind(channel).push(", ").push_bind(word).push(")");
                } else if let Some(query) = &mut parts.query {
                    query.push(" SELECT 1");
                }
                if let Some(mut query) = parts.query {
                    query.build().execute(held.native().await?).await?;
                }
            }
            (Self::Sqlite(_), Conn::Postgres(_)) | (Self::Postgres(_), Conn::Sqlite(_)) => wrong_connection(),
        }
        Ok(())
    }

    /// Where the next statements find what the latest one has made of a table: in what it returns on PostgreSQL, where none
    /// sees another's changes, and in the table itself on SQLite, where they run one after the other.
    pub(crate) fn changed(&self, table: &str) -> String {
        match self {
            Self::Sqlite(_) => table.to_owned(),
            Self::Postgres(parts) => format!("part_{}", parts.parts),
        }
    }

    /// Sends everything, and returns the rows of the one statement that returns some, which is [`Self::changed`].
    pub(crate) async fn fetch<T: RoundRow>(self, conn: &mut Conn, changed: &str) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        match (self, conn) {
            (Self::Sqlite(statements), Conn::Sqlite(held)) => {
                for mut text in statements.texts {
                    rows.extend(text.build_query_as().fetch_all(held.native().await?).await?);
                }
            }
            (Self::Postgres(parts), Conn::Postgres(held)) => {
                debug_assert!(parts.word.is_none(), "a round that returns rows says nothing");
                if let Some(mut query) = parts.query {
                    query.push(format_args!(" SELECT * FROM {changed}"));
                    rows = query.build_query_as().fetch_all(held.native().await?).await?;
                }
            }
            (Self::Sqlite(_), Conn::Postgres(_)) | (Self::Postgres(_), Conn::Sqlite(_)) => wrong_connection(),
        }
        Ok(rows)
    }
}

fn wrong_connection() {
    unreachable!("a round is made for the connection that it runs on")
}

/// A row that either database can return.
pub(crate) trait RoundRow:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> RoundRow for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl SqliteTexts {
    /// Runs the texts, and commits with the last of them a transaction that began with a statement.
    pub(crate) async fn commit(mut self, held: &mut Held<Sqlite>) -> Result<()> {
        // A statement whose thread breaks off looks like one that has ended: only the row that follows tells of the commit.
        self.next(1).push("COMMIT; SELECT 1");
        let Some(mut last) = self.texts.pop() else { return Ok(()) };
        self.run(held).await?;
        if last.build().fetch_all(held.native().await?).await?.is_empty() {
            return Err(sqlx::Error::WorkerCrashed.into());
        }
        Ok(())
    }

    pub(crate) async fn run(self, held: &mut Held<Sqlite>) -> Result<()> {
        for mut text in self.texts {
            text.build().execute(held.native().await?).await?;
        }
        Ok(())
    }

    /// Where a statement over so many rows is to be written.
    pub(crate) fn next(&mut self, rows: usize) -> &mut QueryBuilder<Sqlite> {
        let joins = self.is_open && rows <= FEW;
        self.is_open = rows <= FEW;
        if !joins {
            self.texts.push(QueryBuilder::default());
        }
        let last = self.texts.len() - 1;
        let text = &mut self.texts[last];
        if joins {
            text.push("; ");
        }
        text
    }
}

impl PostgresParts {
    /// Where a part is to be written; whoever writes it closes its bracket.
    pub(crate) fn next(&mut self) -> &mut QueryBuilder<Postgres> {
        let start = if self.parts == 0 { "WITH " } else { ", " };
        self.parts += 1;
        let query = self.query.get_or_insert_default();
        query.push(start).push(format_args!("part_{} AS (", self.parts));
        query
    }
}

/// Inserts rows with the round:
/// `insert_later!(round, &rows, "table", [("column", "type on PostgreSQL", |row| row.value), …], "ON CONFLICT …")`.
macro_rules! insert_later {
    ($round:expr, $rows:expr, $table:literal, [$(($column:literal, $kind:literal, |$row:ident| $value:expr)),+ $(,)?], $tail:literal $(,)?) => {{
        const COLUMNS: &[(&str, &str)] = &[$(($column, $kind)),+];
        let rows = $rows;
        match &mut *$round {
            $crate::db::round::Round::Sqlite(statements) => {
                for chunk in $crate::db::bulk::chunks(rows) {
                    let query = statements.next(chunk.len());
                    query.push($crate::db::bulk::columns_text($table, COLUMNS)).push(" ");
                    query.push_values(chunk, |mut values, row| {
                        $({ let $row = row; values.push_bind($value); })+
                    });
                    query.push(concat!(" ", $tail));
                }
            }
            $crate::db::round::Round::Postgres(parts) => {
                if !rows.is_empty() {
                    let query = parts.next();
                    query.push($crate::db::bulk::columns_text($table, COLUMNS)).push(" SELECT * FROM UNNEST(");
                    let mut arrays = query.separated(", ");
                    $(
                        arrays.push_bind(rows.iter().map(|$row| $value).collect::<Vec<_>>());
                        arrays.push_unseparated(concat!("::", $kind, "[]"));
                    )+
                    query.push(concat!(") ", $tail, ")"));
                }
            }
        }
    }};
}

/// Runs a statement with the round over rows that it sees as a table called `given`:
/// `change_later!(round, &rows, [("column", "type on PostgreSQL", |row| row.value), …], "UPDATE … FROM given …")`.
macro_rules! change_later {
    ($round:expr, $rows:expr, [$(($column:literal, $kind:literal, |$row:ident| $value:expr)),+ $(,)?], $statement:expr $(,)?) => {{
        const COLUMNS: &[(&str, &str)] = &[$(($column, $kind)),+];
        let rows = $rows;
        match &mut *$round {
            $crate::db::round::Round::Sqlite(statements) => {
                for chunk in $crate::db::bulk::chunks(rows) {
                    let query = statements.next(chunk.len());
                    query.push($crate::db::bulk::given_text(COLUMNS));
                    query.push_values(chunk, |mut values, row| {
                        $({ let $row = row; values.push_bind($value); })+
                    });
                    query.push(") ").push($crate::db::bulk::after_given(&$statement));
                }
            }
            $crate::db::round::Round::Postgres(parts) => {
                let rows: &[_] = rows;
                match rows {
                    [] => {}
                    [row] => {
                        let query = parts.next();
                        query.push($crate::db::bulk::given_one_text(COLUMNS)).push("SELECT ");
                        let mut values = query.separated(", ");
                        $(
                            values.push_bind({ let $row = row; $value });
                            values.push_unseparated(concat!("::", $kind));
                        )+
                        query.push(") ").push(&$statement).push(")");
                    }
                    rows => {
                        let query = parts.next();
                        query.push($crate::db::bulk::given_text(COLUMNS)).push("SELECT * FROM UNNEST(");
                        let mut arrays = query.separated(", ");
                        $(
                            arrays.push_bind(rows.iter().map(|$row| $value).collect::<Vec<_>>());
                            arrays.push_unseparated(concat!("::", $kind, "[]"));
                        )+
                        query.push(")) ").push(&$statement).push(")");
                    }
                }
            }
        }
    }};
}

pub(crate) use {change_later, insert_later};
