//! Captures what the store really runs: the driver logs each statement, whichever database it is for, and PostgreSQL's notices.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use store::{Conn, Result};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Instrument as _, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What was logged inside of a captured span.
struct Logged {
    /// The number of the span.
    number: u64,
    what: Entry,
}

/// What the driver logs.
enum Entry {
    /// A statement that has run.
    Statement(String),
    /// A notice of PostgreSQL.
    Notice(String),
}

static LOGGED: Mutex<Vec<Logged>> = Mutex::new(Vec::new());
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
static INSTALL: Once = Once::new();

/// A hot path: what it does, and the statements that it ran.
pub(crate) struct HotPath {
    pub(crate) name: &'static str,
    pub(crate) statements: BTreeSet<Statement>,
}

/// A statement as it was prepared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// The types of its parameters on PostgreSQL.
    pub(crate) types: Vec<String>,
}

/// Runs hot paths on one connection and captures what the driver logs of each.
pub(crate) struct Capture<'a> {
    conn: &'a mut Conn,
    captured: Captured,
}

/// The paths that have run, with the numbers of their spans.
#[derive(Default)]
pub(crate) struct Captured {
    paths: Vec<(&'static str, u64)>,
    types: HashMap<String, Vec<String>>,
}

impl<'a> Capture<'a> {
    pub(crate) fn new(conn: &'a mut Conn) -> Self {
        // One subscriber for the process: SQLite's statements are logged by a thread of the driver.
        INSTALL.call_once(|| tracing_subscriber::registry().with(Entries).init());
        Self { conn, captured: Captured::default() }
    }

    /// Captures what `work` runs.
    pub(crate) async fn write<T>(
        &mut self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T>,
    ) -> T {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        self.captured.paths.push((name, number));
        let span = tracing::info_span!("captured", number);
        let written = work(self.conn).instrument(span).await;
        // At once: the connection keeps a limited number of statements prepared.
        self.captured.types.extend(parameter_types(self.conn).await.unwrap());
        written.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs `work` without capturing anything.
    pub(crate) async fn prepare<T>(&mut self, work: impl AsyncFnOnce(&mut Conn) -> Result<T>) -> T {
        work(self.conn).await.unwrap()
    }

    /// Ends capturing.
    pub(crate) fn finish(self) -> Captured {
        self.captured
    }
}

impl Captured {
    /// The paths with their statements, all of which have been logged once the store is closed.
    pub(crate) fn hot_paths(self) -> Vec<HotPath> {
        let logged = LOGGED.lock().unwrap();
        let typed = |text: String| {
            let types = self.types.get(&text).cloned().unwrap_or_default();
            Statement { text, types }
        };
        let statements = |number: u64| {
            let of_path = logged.iter().filter(|logged| logged.number == number);
            let texts = of_path.filter_map(|logged| match &logged.what {
                Entry::Statement(text) => Some(text),
                Entry::Notice(_) => None,
            });
            texts.flat_map(|text| split(text)).filter(|text| is_of_the_store(text)).map(typed).collect()
        };
        let path = |(name, number): &(&'static str, u64)| HotPath { name, statements: statements(*number) };
        self.paths.iter().map(path).collect()
    }

    /// The notices of PostgreSQL, each with the path that it was sent in.
    pub(crate) fn notices(&self) -> Vec<(&'static str, String)> {
        let names: HashMap<u64, &'static str> =
            self.paths.iter().map(|(name, number)| (*number, *name)).collect();
        let mut logged = LOGGED.lock().unwrap();
        let (of_paths, others): (Vec<Logged>, Vec<Logged>) =
            std::mem::take(&mut *logged).into_iter().partition(|logged| names.contains_key(&logged.number));
        *logged = others;
        let notice = |logged: Logged| match logged.what {
            Entry::Notice(text) => Some((names[&logged.number], text)),
            Entry::Statement(_) => None,
        };
        of_paths.into_iter().filter_map(notice).collect()
    }
}

/// The statements of a text: a batch for SQLite has several.
fn split(text: &str) -> Vec<String> {
    text.split("; ").map(|statement| statement.trim().to_owned()).collect()
}

fn is_of_the_store(statement: &str) -> bool {
    // Transactions, and the settings of a new connection.
    let of_the_connection = ["BEGIN", "COMMIT", "ROLLBACK", "SET ", "PRAGMA"];
    !of_the_connection.iter().any(|word| statement.starts_with(word)) && statement != PREPARED
}

/// The statements that are prepared on a connection to PostgreSQL, with the types of their parameters.
const PREPARED: &str = "SELECT statement, parameter_types::text[] FROM pg_prepared_statements";

async fn parameter_types(conn: &mut Conn) -> Result<HashMap<String, Vec<String>>> {
    let Conn::Postgres(lent) = conn else { return Ok(HashMap::new()) };
    let prepared: Vec<(String, Vec<String>)> = sqlx::query_as(PREPARED).fetch_all(lent.native()).await?;
    Ok(prepared.into_iter().map(|(text, types)| (text.trim().to_owned(), types)).collect())
}

/// Keeps what the driver logs inside of a captured span.
struct Entries;

/// The number of a captured span.
struct Number(u64);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Entries {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() == "captured" {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            if let (Some(number), Some(span)) = (fields.number, context.span(id)) {
                span.extensions_mut().insert(Number(number));
            }
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let is_notice = match event.metadata().target() {
            "sqlx::query" => false,
            "sqlx::postgres::notice" => true,
            _ => return,
        };
        let Some(mut scope) = context.event_scope(event) else { return };
        let number = scope.find_map(|span| span.extensions().get::<Number>().map(|number| number.0));
        if let Some(number) = number {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let what = if is_notice {
                Entry::Notice(fields.message)
            } else if fields.statement.is_empty() {
                // The driver logs a short statement as its own summary.
                Entry::Statement(fields.summary)
            } else {
                Entry::Statement(fields.statement)
            };
            LOGGED.lock().unwrap().push(Logged { number, what });
        }
    }
}

#[derive(Default)]
struct Fields {
    number: Option<u64>,
    summary: String,
    statement: String,
    message: String,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "number" {
            self.number = Some(value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "message" => value.clone_into(&mut self.message),
            "db.statement" => value.trim().clone_into(&mut self.statement),
            _ => {}
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}
