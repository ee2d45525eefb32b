//! What a database would do for a statement, and whether that is slow.

use sqlx::{AssertSqlSafe, Executor, PgPool, Row, SqlitePool};
use store::Database;

use super::capture::Statement;

/// The plan of a statement, line by line.
pub(crate) type Plan = Vec<String>;

/// The plan that a database keeps for a statement, whatever values it will run with.
pub(crate) async fn plan(database: &Database, statement: &Statement) -> Plan {
    match database {
        Database::Sqlite { readers, .. } => plan_on_sqlite(readers, statement).await,
        Database::Postgres(pool) => plan_on_postgres(pool, statement).await,
    }
}

async fn plan_on_sqlite(readers: &SqlitePool, statement: &Statement) -> Plan {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.text));
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(explain).persistent(false).fetch_all(readers).await.unwrap();
    rows.into_iter().map(|(_id, _parent, _unused, detail)| detail).collect()
}

async fn plan_on_postgres(pool: &PgPool, statement: &Statement) -> Plan {
    let mut transaction = pool.begin().await.unwrap();
    transaction.execute("SET LOCAL plan_cache_mode = force_generic_plan").await.unwrap();
    let Statement { text, types } = statement;
    let in_brackets = |list: String| if list.is_empty() { list } else { format!("({list})") };
    let parameters = in_brackets(types.join(", "));
    let prepare = AssertSqlSafe(format!("PREPARE hot_path {parameters} AS {text}"));
    if let Err(error) = transaction.execute(prepare).await {
        panic!("{error}: {text}");
    }
    let values = in_brackets(vec!["NULL"; types.len()].join(", "));
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE hot_path {values}");
    let rows = transaction.fetch_all(AssertSqlSafe(explain)).await.unwrap();
    transaction.execute("DEALLOCATE hot_path").await.unwrap();
    rows.into_iter().map(|row| row.get(0)).collect()
}

/// One access to a table: by which index, and by which of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) table: String,
    pub(crate) index: String,
    pub(crate) columns: Vec<String>,
}

/// Every access of a plan to a table or to what looks like one.
pub(crate) fn accesses(plan: &Plan) -> Vec<Access> {
    let next = plan.iter().skip(1).map(String::as_str).chain(std::iter::once(""));
    plan.iter()
        .zip(next)
        .filter_map(|(line, next)| on_sqlite(line).or_else(|| on_postgres(line, next)))
        .collect()
}

/// `SEARCH jobs USING INDEX jobs_due (due_at<?)` or `SCAN jobs`.
fn on_sqlite(line: &str) -> Option<Access> {
    let line = line.trim().replace(" EXISTS", "");
    let words: Vec<&str> = line.split(' ').collect();
    let table = match words[..] {
        ["SEARCH" | "SCAN", table, ..] => table.to_owned(),
        _ => return None,
    };
    if line.contains("CONSTANT ROW") || line.contains("VALUES CLAUSE") || line.contains("VIRTUAL TABLE") {
        return None;
    }
    let index = if line.contains("PRIMARY KEY") {
        "primary key"
    } else {
        let at = words.iter().position(|word| *word == "INDEX");
        at.and_then(|at| words.get(at + 1).copied()).unwrap_or_default()
    };
    let bounds = line.split_once('(').map_or("", |(_, bounds)| bounds);
    let bounds = bounds.split_once(')').map_or("", |(bounds, _)| bounds);
    let column = |bound: &str| bound.split(['=', '<', '>']).next().unwrap_or_default().to_owned();
    let columns = bounds.split(" AND ").filter(|bound| !bound.is_empty()).map(column).collect();
    Some(Access { table, index: index.to_owned(), columns })
}

/// `Index Scan using jobs_due on jobs`, with `Index Cond: (due_at <= $1)` in the next line, or `Seq Scan on jobs`.
fn on_postgres(line: &str, next: &str) -> Option<Access> {
    let line = line.trim().trim_start_matches("->").trim();
    let (index, table) = if let Some(table) = line.strip_prefix("Seq Scan on ") {
        (String::new(), table)
    } else if let Some(index) = line.strip_prefix("Bitmap Index Scan on ") {
        (index.to_owned(), index)
    } else {
        let (_, rest) = line.split_once("Scan using ").or_else(|| line.split_once("Scan Backward using "))?;
        let (index, table) = rest.split_once(" on ")?;
        (index.to_owned(), table)
    };
    let table = table.split(' ').next().unwrap_or_default().to_owned();
    let bounds = next.trim().strip_prefix("Index Cond: ").unwrap_or_default();
    let name = |column: &str| column.rsplit('.').next().unwrap_or_default().to_owned();
    let compared = |bound: &str| -> Vec<String> {
        let left = bound.trim_start_matches('(');
        // Several columns at once: `ROW(priority, tenant_id) >= ROW($1, $2)`.
        match left.strip_prefix("ROW(").and_then(|row| row.split_once(')')) {
            Some((row, _)) => row.split(", ").map(name).collect(),
            None => vec![name(left.split(' ').next().unwrap_or_default())],
        }
    };
    let mut columns: Vec<String> =
        bounds.split(" AND ").filter(|bound| !bound.is_empty()).flat_map(compared).collect();
    columns.sort();
    columns.dedup();
    Some(Access { table, index, columns })
}

/// Whether a line sorts rows that no index has in order.
pub(crate) fn is_sort(line: &str) -> bool {
    let line = line.trim().trim_start_matches("->").trim();
    line.contains("TEMP B-TREE") || line == "Sort" || line.starts_with("Incremental Sort")
}
