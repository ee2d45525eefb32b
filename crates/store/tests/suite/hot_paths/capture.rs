//! Captures the statements that the store really runs: the driver logs each of them, whichever database it is for.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use store::{Conn, Result, Store};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Instrument as _, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Every statement that was logged inside of a captured span, with the number of the span.
static LOGGED: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());
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

/// Runs hot paths on a store and captures their statements.
pub(crate) struct Capture {
    store: Store,
    paths: Vec<(&'static str, u64)>,
    types: HashMap<String, Vec<String>>,
}

impl Capture {
    pub(crate) fn new(store: Store) -> Self {
        // One subscriber for the process: SQLite's statements are logged by a thread of the driver.
        INSTALL.call_once(|| tracing_subscriber::registry().with(Statements).init());
        Self { store, paths: Vec::new(), types: HashMap::new() }
    }

    /// Captures what `work` runs in a transaction.
    pub(crate) async fn write<T>(
        &mut self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T> + Clone,
    ) -> T {
        let span = self.span(name);
        let with_types = async move |conn: &mut Conn| {
            let value = work.clone()(conn).await?;
            Ok::<_, store::Error>((value, parameter_types(conn).await?))
        };
        let written = self.store.write("captured", with_types).instrument(span).await;
        let (value, types) = written.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.types.extend(types);
        value
    }

    /// Runs `work` in a transaction without capturing anything.
    pub(crate) async fn prepare<T>(&self, work: impl AsyncFnOnce(&mut Conn) -> Result<T> + Clone) -> T {
        self.store.write("prepared", work).await.unwrap()
    }

    fn span(&mut self, name: &'static str) -> tracing::Span {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        self.paths.push((name, number));
        tracing::info_span!("captured", number)
    }

    /// Everything that was captured. The store is closed first, so that every statement has been logged.
    pub(crate) async fn finish(self) -> Vec<HotPath> {
        self.store.close().await;
        let logged = LOGGED.lock().unwrap();
        let typed = |text: String| {
            let types = self.types.get(&text).cloned().unwrap_or_default();
            Statement { text, types }
        };
        let statements = |number: u64| {
            let of_path = logged.iter().filter(|(path, _)| *path == number);
            of_path
                .flat_map(|(_, text)| split(text))
                .filter(|text| is_of_the_store(text))
                .map(typed)
                .collect()
        };
        let path = |(name, number): &(&'static str, u64)| HotPath { name, statements: statements(*number) };
        self.paths.iter().map(path).collect()
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

/// Keeps the statements that the driver logs inside of a captured span.
struct Statements;

/// The number of a captured span.
struct Number(u64);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Statements {
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
        if event.metadata().target() != "sqlx::query" {
            return;
        }
        let Some(mut scope) = context.event_scope(event) else { return };
        let number = scope.find_map(|span| span.extensions().get::<Number>().map(|number| number.0));
        if let Some(number) = number {
            let mut fields = Fields::default();
            event.record(&mut fields);
            // The driver logs a short statement as its own summary.
            let text = if fields.statement.is_empty() { fields.summary } else { fields.statement };
            LOGGED.lock().unwrap().push((number, text));
        }
    }
}

#[derive(Default)]
struct Fields {
    number: Option<u64>,
    summary: String,
    statement: String,
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
            "db.statement" => value.trim().clone_into(&mut self.statement),
            _ => {}
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}
