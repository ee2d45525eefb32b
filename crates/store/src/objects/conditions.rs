//! Searching objects by their answers: a condition as SQL that follows an index, however many objects there are.
//!
//! There are two strategies. Where few answers meet one of the comparisons that must hold, they lead to their objects, which
//! are then sorted; of comparisons joined by `or` all are followed. Where many meet each of them, scanning the objects in their order soon fills a page. No strategy serves all cases,
//! and the planners cannot be left to choose: SQLite keeps no statistics unless it is told to, and PostgreSQL's may be old. So
//! the answers are counted first, up to a bound, and a scan has a bound too.
//!
//! Where very many answers meet each comparison and hardly any object meets all, both end at their bounds: the page then
//! holds what is found among the first objects in their order. Nobody can make the database read everything.

use std::fmt::Write as _;

use model::TenantId;
use model::condition::{Accepts, BoundCondition, BoundNode};
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
    /// Which objects.
    pub filter: &'a AnswerFilter<'a>,
    /// In which order.
    pub sort: Sort,
    /// How many at most.
    pub limit: i64,
    /// How many to skip first.
    pub offset: i64,
}

/// A condition over answers, by the ids of signals.
#[derive(Clone, Debug)]
pub struct AnswerFilter<'a> {
    /// Signals, and which of their answers are accepted.
    comparisons: Vec<(Uuid, &'a Accepts)>,
    /// How they are joined.
    root: Joined,
}

/// Comparisons by their index, and how they are joined.
#[derive(Clone, Debug)]
enum Joined {
    Comparison(usize),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl<'a> AnswerFilter<'a> {
    /// The filter for a condition without facts; none if a signal has no id.
    pub fn new(condition: &'a BoundCondition, signal_id: impl Fn(&str) -> Option<Uuid>) -> Option<Self> {
        let mut comparisons = Vec::new();
        let root = join(condition.root(), &signal_id, &mut comparisons)?;
        Some(Self { comparisons, root })
    }

    /// The number of objects that meet it, counted up to a bound. Exact: where many answers meet each comparison and few
    /// objects meet all, every object is read.
    pub async fn count(&self, conn: &mut Conn, tenant: TenantId, most: i64) -> Result<i64> {
        let search = ConditionSearch { tenant, filter: self, sort: Sort::Recent, limit: 0, offset: 0 };
        let mut statement = Statement::new("SELECT count(*) FROM (");
        if let Some(followed) = search.fewest(conn, MOST_ANSWERS).await? {
            search.found(&mut statement, &followed);
        } else {
            statement.push("SELECT 1 AS one FROM objects WHERE tenant_id = ").bind(Value::Id(tenant.0));
            statement.push(" AND ").meets("objects", self, &self.root, None);
        }
        statement.push(" LIMIT ").bind(Value::Count(most)).push(") AS counted");
        let rows: Vec<(i64,)> = statement.fetch_all(conn).await?;
        Ok(rows.first().map_or(0, |(counted,)| *counted))
    }

    /// The number of comparisons, which strategies count from 0 in the order of the text.
    pub fn len(&self) -> usize {
        self.comparisons.len()
    }

    /// Whether there is no comparison, which no condition has.
    pub fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }
}

fn join<'a>(
    node: &'a BoundNode,
    signal_id: &impl Fn(&str) -> Option<Uuid>,
    comparisons: &mut Vec<(Uuid, &'a Accepts)>,
) -> Option<Joined> {
    match node {
        BoundNode::Answer(comparison) => {
            comparisons.push((signal_id(&comparison.key)?, &comparison.accepts));
            Some(Joined::Comparison(comparisons.len() - 1))
        }
        // A query has none.
        BoundNode::Fact(_) => None,
        BoundNode::All(parts) => {
            let parts = parts.iter().map(|part| join(part, signal_id, comparisons));
            Some(Joined::All(parts.collect::<Option<_>>()?))
        }
        BoundNode::Any(parts) => {
            let parts = parts.iter().map(|part| join(part, signal_id, comparisons));
            Some(Joined::Any(parts.collect::<Option<_>>()?))
        }
    }
}

/// How a page is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// From the few answers that meet these comparisons to their objects. Whatever meets the condition meets one of them.
    FollowAnswers(Vec<usize>),
    /// By scanning so many of the objects in their order.
    ScanObjects(i64),
}

impl Strategy {
    /// Whether a page may lack objects that match: it is not full, and the scan ended before the last object.
    pub fn ended_early(&self, found: usize, limit: i64, objects: i64) -> bool {
        let is_full = i64::try_from(found).is_ok_and(|found| found >= limit);
        !is_full && matches!(self, Strategy::ScanObjects(most) if objects > *most)
    }
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
            let page = self.run_by(conn, &strategy).await?;
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

    /// Comparisons one of which every object of the page meets, and that the fewest answers meet, if those are fewer than a
    /// bound.
    async fn fewest(&self, conn: &mut Conn, bound: i64) -> Result<Option<Vec<usize>>> {
        let mut counts = Vec::with_capacity(self.filter.len());
        // No other comparison can be better than one that must hold and that fewer answers meet.
        let mut least = bound;
        for (index, (signal, accepts)) in self.filter.comparisons.iter().enumerate() {
            let mut found = 0;
            for range in ranges(accepts) {
                let count = self.count(*signal, &range, least - found);
                let rows: Vec<(i64,)> = count.fetch_all(conn).await?;
                found += rows.first().map_or(0, |(counted,)| *counted);
            }
            if found < least && self.filter.root.requires(index) {
                least = found;
            }
            counts.push(found);
        }
        let (found, followed) = self.filter.root.cover(&counts);
        Ok((found < bound).then_some(followed))
    }

    /// Finds the page by one strategy: it is the same page with each, unless a scan ends too early.
    pub async fn run_by(&self, conn: &mut Conn, strategy: &Strategy) -> Result<Vec<Object>> {
        self.page(conn, strategy).fetch_all(conn).await
    }

    /// The plan of the database for the page, line by line.
    #[cfg(feature = "test-util")]
    pub async fn explain(&self, conn: &mut Conn, strategy: &Strategy) -> Result<Vec<String>> {
        let mut page = self.page(conn, strategy);
        match conn.backend() {
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

    fn page(&self, conn: &Conn, strategy: &Strategy) -> Statement<'_> {
        let backend = conn.backend();
        let mut statement = Statement::new("");
        statement.is_for_shard = conn.is_sharded();
        match strategy {
            Strategy::ScanObjects(most) => self.scan(&mut statement, *most),
            Strategy::FollowAnswers(followed) => self.follow(&mut statement, backend, followed),
        }
        statement.push(" ORDER BY ").push(self.sort.order());
        statement.push(" LIMIT ").bind(Value::Count(self.limit));
        statement.push(" OFFSET ").bind(Value::Count(self.offset));
        statement
    }

    /// The first objects in their order that meet the condition.
    fn scan<'a>(&'a self, statement: &mut Statement<'a>, most: i64) {
        let columns = reads::COLUMNS;
        statement.push("SELECT ").push(columns).push(" FROM (SELECT tenant_id, ").push(columns);
        statement.push(" FROM objects WHERE tenant_id = ").bind(Value::Id(self.tenant.0));
        statement.push(" AND ").push(self.sort.indexed());
        statement.push(" ORDER BY ").push(self.sort.order()).push(" LIMIT ").bind(Value::Count(most));
        statement.push(") AS objects WHERE ").meets("objects", self.filter, &self.filter.root, None);
    }

    /// The objects of the answers that meet one of some comparisons and whose objects meet the condition.
    ///
    /// One object after the other is looked up for the answers found. Each database has its own form for that: SQLite
    /// takes the tables of a cross join in their order; PostgreSQL would rather read all objects where it expects many
    /// answers, and its estimate is far off, because it does not know that each signal has values of its own.
    fn follow<'a>(&'a self, statement: &mut Statement<'a>, backend: Backend, followed: &[usize]) {
        statement.push("WITH found AS MATERIALIZED (");
        self.found(statement, followed);
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

    /// The ids of the objects of the answers that meet one of some comparisons, if the objects meet the condition.
    fn found<'a>(&'a self, statement: &mut Statement<'a>, followed: &[usize]) {
        // An object is found once by its only answer to a signal, but may be found by answers to several.
        let union = if followed.len() == 1 { " UNION ALL " } else { " UNION " };
        let mut is_first = true;
        for index in followed {
            let (signal, accepts) = self.filter.comparisons[*index];
            for range in ranges(accepts) {
                statement.push(if is_first { "" } else { union });
                is_first = false;
                statement.push("SELECT object_id AS found_id FROM answers AS met WHERE ");
                statement.answers_of(self.tenant, signal).push(" AND ").range(&range);
                statement.push(" AND ").meets("met", self.filter, &self.filter.root, Some(*index));
            }
        }
    }
}

impl Joined {
    /// Whether a comparison must hold.
    fn requires(&self, index: usize) -> bool {
        match self {
            Self::Comparison(other) => *other == index,
            Self::All(parts) => parts.iter().any(|part| part.requires(index)),
            Self::Any(_) => false,
        }
    }

    /// The cheapest set of comparisons, at least one of which must be true whenever the condition is, and how many answers meet them.
    fn cover(&self, counts: &[i64]) -> (i64, Vec<usize>) {
        match self {
            Self::Comparison(index) => (counts[*index], vec![*index]),
            Self::All(parts) => {
                let covers = parts.iter().map(|part| part.cover(counts));
                covers.min_by_key(|(found, _)| *found).unwrap_or((i64::MAX, Vec::new()))
            }
            Self::Any(parts) => parts.iter().fold((0, Vec::new()), |(mut found, mut indexes), part| {
                let (more, others) = part.cover(counts);
                found += more;
                indexes.extend(others);
                (found, indexes)
            }),
        }
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
    /// Whether every table is told the tenant, which is the first value, so that all are read in the same shard.
    is_for_shard: bool,
}

impl<'a> Statement<'a> {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), values: Vec::new(), is_for_shard: false }
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
        self.push(if self.is_for_shard { " AND answers.tenant_id = $1" } else { "" });
        self.push(" AND answers.object_id = ").push(row).push(".object_id");
        self.push(" AND answers.signal_id = ").bind(Value::Id(signal)).push(" AND (");
        for (index, range) in ranges(accepts).iter().enumerate() {
            self.push(if index == 0 { "" } else { " OR " }).range(range);
        }
        self.push(") LIMIT 1 OFFSET 0)")
    }

    /// Whether the object of the row with this name meets a condition. A comparison that is known to hold is left out where
    /// it must hold anyway.
    fn meets(
        &mut self,
        row: &'static str,
        filter: &AnswerFilter<'a>,
        joined: &Joined,
        known: Option<usize>,
    ) -> &mut Self {
        match joined {
            Joined::Comparison(index) if known == Some(*index) => self.push("TRUE"),
            Joined::Comparison(index) => {
                let (signal, accepts) = filter.comparisons[*index];
                self.has_answer(row, signal, accepts)
            }
            Joined::All(parts) | Joined::Any(parts) => {
                let is_all = matches!(joined, Joined::All(_));
                for (number, part) in parts.iter().enumerate() {
                    self.push(match (number, is_all) {
                        (0, _) => "(",
                        (_, true) => " AND ",
                        (_, false) => " OR ",
                    });
                    self.meets(row, filter, part, known);
                }
                self.push(")")
            }
        }
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
