//! Batches: statements whose results are not needed go to the database in one round trip.
//!
//! PostgreSQL gets the statements of a batch as parts of one statement (data-modifying `WITH` queries), SQLite as one text
//! of several statements. PostgreSQL runs the parts on one snapshot, so a statement of a batch must not depend on what
//! another one changes, unless it names the rows that [`Batch::add_returning`] hands on. Where the database is divided into shards by
//! tenant, they are sent one by one, each to its shard.

use sqlx::{Postgres, QueryBuilder, Sqlite};

use crate::db::conn::{Conn, Lent};
use crate::db::dialect::Backend;
use crate::db::error::Result;
use crate::db::rows::{EitherRow, RowsStatement, chunks};

/// The most rows of a statement that shares its text with others on SQLite. Texts are prepared whole, so the chunk sizes of
/// all statements in a text multiply: larger chunks go alone, where a round trip counts for little.
const SHARED_TEXT_ROWS: usize = 6;

/// Statements that are sent together, made for the connection that they will run on ([`Conn::batch`]).
pub struct Batch {
    statements: Statements,
}

enum Statements {
    Sqlite(SqliteTexts),
    Postgres(PostgresParts),
    Sharded(ShardedStatements),
}

/// Statements of their own, in their order: what changes several tables at once goes to no single shard.
#[derive(Default)]
struct ShardedStatements {
    queries: Vec<QueryBuilder<Postgres>>,
    notification: Option<Notification>,
}

/// The channel and payload of a notification.
type Notification = (&'static str, String);

/// Texts, each of one statement or of several with few rows.
#[derive(Default)]
struct SqliteTexts {
    texts: Vec<QueryBuilder<Sqlite>>,
    /// Whether the last text takes more statements.
    is_open: bool,
}

/// The parts of one statement.
#[derive(Default)]
struct PostgresParts {
    query: Option<QueryBuilder<Postgres>>,
    count: usize,
    notification: Option<Notification>,
}

/// The name of a table with the rows that a statement of the batch has changed, for later statements of the same batch.
pub(crate) struct ChangedRows(String);

impl ChangedRows {
    /// The name, to stand in the text of a statement.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl Conn {
    /// An empty batch for this connection.
    pub fn batch(&self) -> Batch {
        let statements = match self {
            Self::Sqlite(_) => Statements::Sqlite(SqliteTexts::default()),
            Self::Postgres(lent) if lent.is_sharded() => Statements::Sharded(ShardedStatements::default()),
            Self::Postgres(_) => Statements::Postgres(PostgresParts::default()),
        };
        Batch { statements }
    }
}

impl Batch {
    /// Which database it is for.
    pub(crate) fn backend(&self) -> Backend {
        match self.statements {
            Statements::Sqlite(_) => Backend::Sqlite,
            Statements::Postgres(_) | Statements::Sharded(_) => Backend::Postgres,
        }
    }

    /// Adds a statement; one over no rows adds nothing.
    pub(crate) fn add(&mut self, statement: RowsStatement<'_>) {
        match &mut self.statements {
            Statements::Sqlite(texts) => {
                for chunk in chunks(statement.rows()) {
                    let query = texts.next(chunk.len());
                    statement.push_sqlite(chunk, query);
                }
            }
            Statements::Postgres(parts) if statement.rows() > 0 => {
                let query = parts.next();
                statement.push_postgres(query);
                query.push(")");
            }
            Statements::Sharded(sharded) if statement.rows() > 0 => sharded.add(statement),
            Statements::Postgres(_) | Statements::Sharded(_) => {}
        }
    }

    /// Adds a statement that changes rows of `table` and returns them, and names where later statements read the changed
    /// rows: on PostgreSQL in what this one returns, on SQLite and in shards in the table itself.
    pub(crate) fn add_returning(&mut self, table: &str, statement: RowsStatement<'_>) -> ChangedRows {
        self.add(statement);
        ChangedRows(match &self.statements {
            Statements::Sqlite(_) | Statements::Sharded(_) => table.to_owned(),
            Statements::Postgres(parts) => parts.last_name(),
        })
    }

    /// Notifies other processes once the transaction is committed; SQLite has no other processes.
    pub(crate) fn notify(&mut self, channel: &'static str, payload: String) {
        match &mut self.statements {
            Statements::Sqlite(_) => {}
            Statements::Postgres(parts) => parts.notification = Some((channel, payload)),
            Statements::Sharded(sharded) => sharded.notification = Some((channel, payload)),
        }
    }

    /// Sends all statements.
    pub async fn run(self, conn: &mut Conn) -> Result<()> {
        match (self.statements, conn) {
            (Statements::Sqlite(texts), Conn::Sqlite(lent)) => texts.run(lent).await,
            (Statements::Postgres(parts), Conn::Postgres(lent)) => parts.run(lent).await,
            (Statements::Sharded(sharded), Conn::Postgres(lent)) => sharded.run(lent).await,
            (Statements::Sqlite(_), Conn::Postgres(_)) | (_, Conn::Sqlite(_)) => wrong_connection(),
        }
    }

    /// Sends all statements and returns the rows of the one that returns some ([`Self::add_returning`]).
    pub(crate) async fn fetch<T: EitherRow>(self, conn: &mut Conn, changed: &ChangedRows) -> Result<Vec<T>> {
        match (self.statements, conn) {
            (Statements::Sqlite(texts), Conn::Sqlite(lent)) => texts.fetch(lent).await,
            (Statements::Postgres(parts), Conn::Postgres(lent)) => parts.fetch(lent, changed).await,
            (Statements::Sharded(sharded), Conn::Postgres(lent)) => sharded.fetch(lent).await,
            (Statements::Sqlite(_), Conn::Postgres(_)) | (_, Conn::Sqlite(_)) => wrong_connection(),
        }
    }
}

fn wrong_connection() -> ! {
    unreachable!("a batch runs on the connection that it was made for")
}

impl SqliteTexts {
    /// Where a statement over so many rows is to be written.
    fn next(&mut self, rows: usize) -> &mut QueryBuilder<Sqlite> {
        let is_shared = self.is_open && rows <= SHARED_TEXT_ROWS;
        self.is_open = rows <= SHARED_TEXT_ROWS;
        if !is_shared {
            self.texts.push(QueryBuilder::default());
        }
        let last = self.texts.len() - 1;
        let text = &mut self.texts[last];
        if is_shared {
            text.push("; ");
        }
        text
    }

    async fn run(self, lent: &mut Lent<Sqlite>) -> Result<()> {
        for mut text in self.texts {
            text.build().execute(lent.native()).await?;
        }
        Ok(())
    }

    async fn fetch<T: EitherRow>(self, lent: &mut Lent<Sqlite>) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        for mut text in self.texts {
            rows.extend(text.build_query_as().fetch_all(lent.native()).await?);
        }
        Ok(rows)
    }
}

impl ShardedStatements {
    fn add(&mut self, statement: RowsStatement<'_>) {
        for of_shard in statement.by_shard(true) {
            let mut query = QueryBuilder::default();
            of_shard.push_postgres(&mut query);
            self.queries.push(query);
        }
    }

    async fn run(self, lent: &mut Lent<Postgres>) -> Result<()> {
        for mut query in self.queries {
            query.build().execute(lent.native()).await?;
        }
        if let Some((channel, payload)) = self.notification {
            let notify = sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(payload);
            notify.execute(lent.native()).await?;
        }
        Ok(())
    }

    async fn fetch<T: EitherRow>(self, lent: &mut Lent<Postgres>) -> Result<Vec<T>> {
        debug_assert!(self.notification.is_none(), "a batch that returns rows cannot notify");
        let mut rows = Vec::new();
        for mut query in self.queries {
            rows.extend(query.build_query_as().fetch_all(lent.native()).await?);
        }
        Ok(rows)
    }
}

impl PostgresParts {
    /// Where a part is to be written; whoever writes it closes its bracket.
    fn next(&mut self) -> &mut QueryBuilder<Postgres> {
        let start = if self.count == 0 { "WITH " } else { ", " };
        self.count += 1;
        let name = self.last_name();
        let query = self.query.get_or_insert_default();
        query.push(start).push(name).push(" AS (");
        query
    }

    fn last_name(&self) -> String {
        format!("part_{}", self.count)
    }

    async fn run(mut self, lent: &mut Lent<Postgres>) -> Result<()> {
        if let Some((channel, payload)) = self.notification {
            let query = self.query.get_or_insert_default();
            query.push(" SELECT pg_notify(").push_bind(channel).push(", ").push_bind(payload).push(")");
        } else if let Some(query) = &mut self.query {
            query.push(" SELECT 1");
        }
        if let Some(mut query) = self.query {
            query.build().execute(lent.native()).await?;
        }
        Ok(())
    }

    async fn fetch<T: EitherRow>(self, lent: &mut Lent<Postgres>, changed: &ChangedRows) -> Result<Vec<T>> {
        debug_assert!(self.notification.is_none(), "a batch that returns rows cannot notify");
        let Some(mut query) = self.query else { return Ok(Vec::new()) };
        query.push(" SELECT * FROM ").push(changed.name());
        Ok(query.build_query_as().fetch_all(lent.native()).await?)
    }
}
