//! How many rows PostgreSQL has read for a statement, from the plan with counts that it logs (`auto_explain`).

use std::fmt::Write as _;

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};

/// Lets every new session of a database send the plan of each statement that it has run, as a notice.
pub(crate) async fn log_plans(pool: &PgPool) {
    let (database,): (String,) =
        sqlx::query_as("SELECT current_database()::text").fetch_one(pool).await.unwrap();
    for setting in [
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_analyze = on",
        "auto_explain.log_buffers = on",
        "auto_explain.log_timing = off",
        "auto_explain.log_format = 'json'",
        "auto_explain.log_level = 'notice'",
    ] {
        let alter = AssertSqlSafe(format!("ALTER DATABASE {database} SET {setting}"));
        sqlx::raw_sql(alter).execute(pool).await.unwrap();
    }
}

/// What one execution of a statement did.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) text: String,
    /// Rows that it returned, changed or counted.
    pub(crate) result: f64,
    /// Rows that it was given.
    pub(crate) given: f64,
    /// The most rows that it read from a table in one place, or compared with those of another.
    pub(crate) read: f64,
    /// Pages that it read: also those of an index through which it went without returning rows.
    pub(crate) pages: f64,
    /// How it did so, node by node.
    pub(crate) plan: String,
}

impl Execution {
    /// The execution that a notice tells of; none if it tells of something else.
    pub(crate) fn of_notice(notice: &str) -> Option<Self> {
        let (_, json) = notice.split_once("plan:\n")?;
        let logged: Value = serde_json::from_str(json).unwrap();
        let root = &logged["Plan"];
        let mut execution = Self {
            text: logged["Query Text"].as_str().unwrap_or_default().to_owned(),
            result: rows(root),
            given: 0.0,
            read: 0.0,
            pages: number(root, "Shared Hit Blocks") + number(root, "Shared Read Blocks"),
            plan: String::new(),
        };
        execution.add(root, 0);
        Some(execution)
    }

    fn add(&mut self, node: &Value, depth: usize) {
        let kind = node["Node Type"].as_str().unwrap_or_default();
        let loops = number(node, "Actual Loops");
        let removed =
            ["Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter"]
                .map(|what| number(node, what));
        let removed = removed.iter().sum::<f64>() * loops;
        let reads_table = !node["Relation Name"].is_null() && kind != "ModifyTable";
        self.read = self.read.max(removed + if reads_table { rows(node) } else { 0.0 });
        if kind == "Function Scan" {
            self.given += rows(node);
        }
        let children: Vec<&Value> = node["Plans"].as_array().into_iter().flatten().collect();
        if kind == "Recursive Union" {
            // The steps of a walk along an index.
            self.result += rows(node);
        }
        if kind == "ModifyTable" || kind == "Aggregate" {
            // Without RETURNING it has no rows of its own; those that it changes are what its input has. So are those that
            // are counted.
            let input = children.iter().filter(|child| child["Parent Relationship"] == "Outer");
            self.result += input.map(|child| rows(child)).sum::<f64>();
        }
        let words = [
            "Relation Name",
            "Index Name",
            "CTE Name",
            "Index Cond",
            "Filter",
            "Join Filter",
            "Hash Cond",
            "Merge Cond",
        ];
        let words: Vec<&str> = words.iter().filter_map(|word| node[*word].as_str()).collect();
        let (words, rows) = (words.join(" | "), rows(node));
        writeln!(self.plan, "{:depth$}{kind} {words} (rows {rows}, removed {removed}, loops {loops})", "")
            .unwrap();
        for child in children {
            self.add(child, depth + 2);
        }
    }
}

/// The rows of a node in all of its executions.
fn rows(node: &Value) -> f64 {
    number(node, "Actual Rows") * number(node, "Actual Loops")
}

fn number(node: &Value, name: &str) -> f64 {
    node[name].as_f64().unwrap_or_default()
}
