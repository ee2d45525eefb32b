//! Searching objects by their answers: a condition as SQL that follows an index, however many objects there are.
//!
//! There are two strategies. Where few answers meet one of the comparisons, they lead to their objects, which are then
//! sorted. Where many meet each of them, scanning the objects in their order soon fills a page. No strategy serves all cases,
//! and the planners cannot be left to choose: SQLite keeps no statistics unless it is told to, and PostgreSQL's may be old. So
//! the answers are counted first, up to a bound, and a scan has a bound too.
//!
//! Where very many answers meet each comparison and hardly any object meets all, both end at their bounds: the page then
//! holds what is found among the first objects in their order. Nobody can make the database read everything.

use std::fmt::Write as _;

use model::TenantId;
use model::condition::Accepts;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Backend, Conn, Error, Result, on_either};
use crate::objects::reads;
use crate::objects::reads::{Object, Sort};

/// From how many answers on objects are scanned instead. With a million objects and a page of a hundred both strategies
/// read about as many rows at this number; with fewer objects either is fast.
pub const MANY_ANSWERS: i64 = 10_000;
/// Up to how many answers are followed without trying anything else.
const FEW_ANSWERS: [i64; 2] = [100, 1_000];
/// How many objects are scanned until a page is full: at least, and for each object of the page.
const SHORT_SCAN: (i64, i64) = (500, 4);
const LONGER_SCAN: (i64, i64) = (2_500, 20);
/// Up to how many answers are followed rather than scanning any further.
const MOST_ANSWERS: i64 = 50_000;
/// Objects that are scanned at most.
pub const LONGEST_SCAN: i64 = 50_000;

/// A page of the objects that meet a condition.
#[derive(Clone, Copy, Debug)]
pub struct ConditionSearch<'a> {
    /// Whose objects.
    pub tenant: TenantId,
    /// Signals, and which of their answers are accepted; all must be.
    pub comparisons: &'a [(Uuid, &'a Accepts)],
    /// In which order.
    pub sort: Sort,
    /// How many at most.
    pub limit: i64,
    /// How many to skip first.
    pub offset: i64,
}

/// How a page is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// From the few answers that meet the comparison at this index to their objects.
    FollowAnswers(usize),
    /// By scanning so many of the objects in their order.
    ScanObjects(i64),
}

/// What is tried, until one fills the page.
enum Step {
    /// Following the answers that meet one comparison, if they are fewer than this.
    Follow(i64),
    /// Scanning so many objects.
    Scan(i64),
}

impl ConditionSearch<'_> {
    /// Finds the page.
    pub async fn run(&self, conn: &mut Conn) -> Result<Vec<Object>> {
        Ok(self.run_with_strategy(conn).await?.0)
    }

    /// Finds the page, and tells how.
    pub async fn run_with_strategy(&self, conn: &mut Conn) -> Result<(Vec<Object>, Strategy)> {
        // A step that fails costs little: each costs a few times what the one before it does.
        let steps = [
            Step::Follow(FEW_ANSWERS[0]),
            Step::Follow(FEW_ANSWERS[1]),
            Step::Scan(self.scan_limit(SHORT_SCAN)),
            Step::Follow(MANY_ANSWERS),
            Step::Scan(self.scan_limit(LONGER_SCAN)),
            Step::Follow(MOST_ANSWERS),
            Step::Scan(LONGEST_SCAN),
        ];
        let mut scanned = (Vec::new(), Strategy::ScanObjects(0));
        for step in steps {
            let strategy = match step {
                Step::Scan(most) => Some(Strategy::ScanObjects(most)),
                Step::Follow(most) => self.fewest(conn, most).await?.map(Strategy::FollowAnswers),
            };
            let Some(strategy) = strategy else { continue };
            let page = self.run_by(conn, strategy).await?;
            // A scan that does not fill the page may have ended too early.
            let is_full = i64::try_from(page.len()).is_ok_and(|found| found == self.limit);
            if is_full || matches!(strategy, Strategy::FollowAnswers(_)) {
                return Ok((page, strategy));
            }
            scanned = (page, strategy);
        }
        Ok(scanned)
    }

    /// How many objects to scan for this page.
    fn scan_limit(&self, (least, per_result): (i64, i64)) -> i64 {
        self.offset.saturating_add(self.limit).saturating_mul(per_result).clamp(least, LONGEST_SCAN)
    }

    /// The comparison that the fewest answers meet, if those are fewer than a bound.
    async fn fewest(&self, conn: &mut Conn, bound: i64) -> Result<Option<usize>> {
        let (mut fewest, mut at) = (bound, None);
        for (index, (signal, accepts)) in self.comparisons.iter().enumerate() {
            let mut found = 0;
            for range in ranges(accepts) {
                let count = self.count(*signal, &range, fewest - found);
                let rows: Vec<(i64,)> = count.fetch_all(conn).await?;
                found += rows.first().map_or(0, |(counted,)| *counted);
            }
            if found < fewest {
                (fewest, at) = (found, Some(index));
            }
        }
        Ok(at)
    }

    /// Finds the page by one strategy: it is the same page with each, unless a scan ends too early.
    pub async fn run_by(&self, conn: &mut Conn, strategy: Strategy) -> Result<Vec<Object>> {
        self.page(conn.backend(), strategy).fetch_all(conn).await
    }

    /// The plan of the database for the page, line by line.
    #[cfg(feature = "test-util")]
    pub async fn explain(&self, conn: &mut Conn, strategy: Strategy) -> Result<Vec<String>> {
        let backend = conn.backend();
        let mut page = self.page(backend, strategy);
        match backend {
            Backend::Sqlite => {
                page.text.insert_str(0, "EXPLAIN QUERY PLAN ");
                let lines: Vec<(i64, i64, i64, String)> = page.fetch_all(conn).await?;
                Ok(lines.into_iter().map(|(_id, _parent, _unused, line)| line).collect())
            }
            Backend::Postgres => {
                page.text.insert_str(0, "EXPLAIN (COSTS OFF) ");
                let lines: Vec<(String,)> = page.fetch_all(conn).await?;
                Ok(lines.into_iter().map(|(line,)| line).collect())
            }
        }
    }

    /// Counts the answers in a range, up to a bound. The `ORDER BY` makes the index the only cheap plan.
    fn count<'a>(&self, signal: Uuid, range: &Range<'a>, most: i64) -> Statement<'a> {
        let mut statement = Statement::new("SELECT count(*) FROM (SELECT 1 AS one FROM answers WHERE ");
        statement.answers_of(self.tenant, signal).push(" AND ").range(range);
        statement.push(" ORDER BY ").push(range.column).push(" LIMIT ").bind(Value::Count(most));
        statement.push(") AS counted");
        statement
    }

    fn page(&self, backend: Backend, strategy: Strategy) -> Statement<'_> {
        let mut statement = Statement::new("");
        match strategy {
            Strategy::ScanObjects(most) => self.scan(&mut statement, most),
            Strategy::FollowAnswers(index) => self.follow(&mut statement, backend, index),
        }
        statement.push(" ORDER BY ").push(self.sort.order());
        statement.push(" LIMIT ").bind(Value::Count(self.limit));
        statement.push(" OFFSET ").bind(Value::Count(self.offset));
        statement
    }

    /// The first objects in their order that meet all comparisons.
    fn scan<'a>(&'a self, statement: &mut Statement<'a>, most: i64) {
        let columns = reads::COLUMNS;
        statement.push("SELECT ").push(columns).push(" FROM (SELECT tenant_id, ").push(columns);
        statement.push(" FROM objects WHERE tenant_id = ").bind(Value::Id(self.tenant.0));
        statement.push(" ORDER BY ").push(self.sort.order()).push(" LIMIT ").bind(Value::Count(most));
        statement.push(") AS objects WHERE TRUE");
        for (signal, accepts) in self.comparisons {
            statement.push(" AND ").has_answer("objects", *signal, accepts);
        }
    }

    /// The objects of the answers that meet one comparison and whose objects meet the others.
    ///
    /// One object after the other is looked up for the answers found. Each database has its own form for that: SQLite
    /// takes the tables of a cross join in their order; PostgreSQL would rather read all objects where it expects many
    /// answers, and its estimate is far off, because it does not know that each signal has values of its own.
    fn follow<'a>(&'a self, statement: &mut Statement<'a>, backend: Backend, index: usize) {
        let (signal, accepts) = self.comparisons[index];
        statement.push("WITH found AS MATERIALIZED (");
        for (number, range) in ranges(accepts).iter().enumerate() {
            statement.push(if number == 0 { "" } else { " UNION ALL " });
            statement.push("SELECT object_id AS found_id FROM answers AS met WHERE ");
            statement.answers_of(self.tenant, signal).push(" AND ").range(range);
            for (other, (signal, accepts)) in self.comparisons.iter().enumerate() {
                if other != index {
                    statement.push(" AND ").has_answer("met", *signal, accepts);
                }
            }
        }
        let (before, after) = match backend {
            Backend::Sqlite => ("found CROSS JOIN objects WHERE object_id = found_id AND ", ""),
            Backend::Postgres => (
                "found CROSS JOIN LATERAL (SELECT * FROM objects WHERE object_id = found_id AND ",
                " LIMIT 1) AS objects",
            ),
        };
        statement.push(") SELECT ").push(reads::COLUMNS).push(" FROM ").push(before);
        statement.push("tenant_id = ").bind(Value::Id(self.tenant.0)).push(after);
    }
}

/// Answers side by side in an index: a column of `answers`, and what it is compared with.
struct Range<'a> {
    column: &'static str,
    bounds: Vec<(&'static str, Value<'a>)>,
}

/// The accepted answers, as ranges that do not overlap.
fn ranges(accepts: &Accepts) -> Vec<Range<'_>> {
    let value = |bounds| Range { column: "value", bounds };
    let choice = |operator, option| Range { column: "choice", bounds: vec![(operator, Value::Text(option))] };
    match accepts {
        Accepts::Within(range) => {
            let (low, high) = range.bounds();
            vec![value(vec![(">=", Value::Number(low)), ("<=", Value::Number(high))])]
        }
        Accepts::Outside(range) => {
            let (low, high) = range.bounds();
            vec![value(vec![("<", Value::Number(low))]), value(vec![(">", Value::Number(high))])]
        }
        Accepts::Option(option) => vec![choice("=", option)],
        // Not `<>`, which no index serves.
        Accepts::OtherOption(option) => vec![choice("<", option), choice(">", option)],
    }
}

/// A value to bind.
#[derive(Clone, Copy)]
enum Value<'a> {
    Id(Uuid),
    Number(f64),
    Text(&'a str),
    Count(i64),
}

/// A statement put together from our own texts; values are only ever bound.
struct Statement<'a> {
    text: String,
    values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), values: Vec::new() }
    }

    fn push(&mut self, words: &'static str) -> &mut Self {
        self.text.push_str(words);
        self
    }

    fn bind(&mut self, value: Value<'a>) -> &mut Self {
        self.values.push(value);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "${}", self.values.len());
        self
    }

    fn answers_of(&mut self, tenant: TenantId, signal: Uuid) -> &mut Self {
        self.push("tenant_id = ").bind(Value::Id(tenant.0)).push(" AND signal_id = ").bind(Value::Id(signal))
    }

    fn range(&mut self, range: &Range<'a>) -> &mut Self {
        for (index, (operator, value)) in range.bounds.iter().enumerate() {
            self.push(if index == 0 { "" } else { " AND " });
            self.push(range.column).push(" ").push(operator).push(" ").bind(*value);
        }
        self
    }

    /// Whether the object of the row with this name has an answer that is accepted. The offset keeps PostgreSQL from
    /// turning it into a join, which for lack of a good estimate would read all answers.
    fn has_answer(&mut self, row: &'static str, signal: Uuid, accepts: &'a Accepts) -> &mut Self {
        self.push("EXISTS (SELECT 1 FROM answers WHERE answers.tenant_id = ").push(row).push(".tenant_id");
        self.push(" AND answers.object_id = ").push(row).push(".object_id");
        self.push(" AND answers.signal_id = ").bind(Value::Id(signal)).push(" AND (");
        for (index, range) in ranges(accepts).iter().enumerate() {
            self.push(if index == 0 { "" } else { " OR " }).range(range);
        }
        self.push(") LIMIT 1 OFFSET 0)")
    }

    /// All rows, each as the type that the caller names.
    async fn fetch_all<T>(self, conn: &mut Conn) -> Result<Vec<T>>
    where
        T: for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>,
        T: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
        T: Send + Unpin,
    {
        on_either!(conn, |native| {
            let mut query = sqlx::query_as(AssertSqlSafe(self.text));
            for value in self.values {
                query = match value {
                    Value::Id(id) => query.bind(id),
                    Value::Number(number) => query.bind(number),
                    Value::Text(text) => query.bind(text),
                    Value::Count(count) => query.bind(count),
                };
            }
            // Planned for these values each time: a plan for any values could be wrong by orders of magnitude.
            query.persistent(false).fetch_all(native).await
        })
        .map_err(Error::from)
    }
}
