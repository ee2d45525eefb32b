//! Many rows with one statement: the hot paths of recording and of concluding analyses.
//!
//! Each database has its own text here, because it is measured to matter. PostgreSQL takes one array a column, so its
//! text is the same for any number of rows and stays prepared; but a statement that looks for given rows is planned anew
//! each time if they are an array, so one row goes as plain values (an insertion has nothing to plan). SQLite takes a list of values, in chunks of a few fixed sizes, so that few texts are
//! prepared and all of them stay so.

/// Sizes of a chunk for SQLite, largest first: few enough to stay prepared, and close enough that most numbers of rows are
/// one or two of them. The largest keeps fifteen columns far below the limit of 32,766 values.
const CHUNKS: [usize; 18] = [512, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 5, 4, 3, 2, 1];

/// Cuts rows into chunks of the fixed sizes.
pub(crate) fn chunks<T>(mut rows: &[T]) -> Vec<&[T]> {
    let mut cut = Vec::new();
    while !rows.is_empty() {
        let size = CHUNKS.into_iter().find(|size| *size <= rows.len()).unwrap_or(1);
        let (chunk, rest) = rows.split_at(size);
        cut.push(chunk);
        rows = rest;
    }
    cut
}

/// An insertion up to its rows.
pub(crate) fn columns_text(table: &str, columns: &[(&str, &str)]) -> String {
    format!("INSERT INTO {table} ({})", names(columns))
}

/// A statement over rows that are handed to it, up to these rows.
pub(crate) fn given_text(columns: &[(&str, &str)]) -> String {
    format!("WITH given ({}) AS (", names(columns))
}

/// Rows for PostgreSQL: one array a column.
pub(crate) fn arrays_text(columns: &[(&str, &str)]) -> String {
    format!("SELECT * FROM UNNEST({})", typed(columns, "[]"))
}

/// A statement over one row for PostgreSQL, up to that row: the planner sees its values wherever it is named, and finds
/// rows by their keys whatever it believes of a table's size. So the plan that it keeps is a good one.
pub(crate) fn given_one_text(columns: &[(&str, &str)]) -> String {
    format!("WITH given ({}) AS NOT MATERIALIZED (", names(columns))
}

/// One row for PostgreSQL: its values.
pub(crate) fn values_text(columns: &[(&str, &str)]) -> String {
    format!("SELECT {}", typed(columns, ""))
}

/// A place for each column, of its type or an array of it.
fn typed(columns: &[(&str, &str)], suffix: &str) -> String {
    let places: Vec<String> =
        columns.iter().zip(1..).map(|((_, kind), at)| format!("${at}::{kind}{suffix}")).collect();
    places.join(", ")
}

fn names(columns: &[(&str, &str)]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The statement that follows the given rows, for SQLite. A cross join is taken in the order written, and a plus keeps an
/// index of the given rows from being made: from some number of rows on it would rather read a whole table than look each
/// row up.
pub(crate) fn after_given(statement: &str) -> String {
    statement.replace("given JOIN", "given CROSS JOIN").replace(" = given.", " = +given.")
}

/// Inserts rows and returns what the statement's tail asks for:
/// `insert_many!(RowType; conn, &rows, "table", [("column", "type on PostgreSQL", |row| row.value), …], "ON CONFLICT … RETURNING …")`.
macro_rules! insert_many {
    ($row_type:ty; $conn:expr, $rows:expr, $table:literal, [$(($column:literal, $kind:literal, |$row:ident| $value:expr)),+ $(,)?], $tail:expr $(,)?) => {{
        const COLUMNS: &[(&str, &str)] = &[$(($column, $kind)),+];
        let rows = $rows;
        match $conn {
            $crate::Conn::Sqlite(held) => {
                let mut returned: Vec<$row_type> = Vec::new();
                for chunk in $crate::db::bulk::chunks(rows) {
                    let (mut query, native) = held.begin_with_next();
                    query.push($crate::db::bulk::columns_text($table, COLUMNS)).push(" ").push_values(chunk, |mut values, row| {
                        $({ let $row = row; values.push_bind($value); })+
                    });
                    query.push(" ").push($tail);
                    returned.extend(query.build_query_as::<$row_type>().fetch_all(native).await?);
                }
                returned
            }
            $crate::Conn::Postgres(held) => {
                if rows.is_empty() {
                    Vec::<$row_type>::new()
                } else {
                    let (columns, arrays) = ($crate::db::bulk::columns_text($table, COLUMNS), $crate::db::bulk::arrays_text(COLUMNS));
                    let text = format!("{columns} {arrays} {}", $tail);
                    sqlx::query_as::<_, $row_type>(sqlx::AssertSqlSafe(text))
                        $(.bind(rows.iter().map(|$row| $value).collect::<Vec<_>>()))+
                        .fetch_all(held.native().await?)
                        .await?
                }
            }
        }
    }};
}

/// Runs a statement over rows that it sees as a table called `given`, and returns what it returns:
/// `with_rows!(RowType; conn, &rows, [("column", "type on PostgreSQL", |row| row.value), …], "SELECT … FROM given JOIN …")`.
/// On SQLite it runs once a chunk of rows.
macro_rules! with_rows {
    ($row_type:ty; $conn:expr, $rows:expr, [$(($column:literal, $kind:literal, |$row:ident| $value:expr)),+ $(,)?], $statement:expr $(,)?) => {{
        const COLUMNS: &[(&str, &str)] = &[$(($column, $kind)),+];
        let rows = $rows;
        match $conn {
            $crate::Conn::Sqlite(held) => {
                let mut returned: Vec<$row_type> = Vec::new();
                for chunk in $crate::db::bulk::chunks(rows) {
                    let (mut query, native) = held.begin_with_next();
                    query.push($crate::db::bulk::given_text(COLUMNS)).push_values(chunk, |mut values, row| {
                        $({ let $row = row; values.push_bind($value); })+
                    });
                    query.push(") ").push($crate::db::bulk::after_given(&$statement));
                    returned.extend(query.build_query_as::<$row_type>().fetch_all(native).await?);
                }
                returned
            }
            $crate::Conn::Postgres(held) => {
                let rows: &[_] = rows;
                match rows {
                    [] => Vec::<$row_type>::new(),
                    [row] => {
                        let (given, values) = ($crate::db::bulk::given_one_text(COLUMNS), $crate::db::bulk::values_text(COLUMNS));
                        let text = format!("{given}{values}) {}", &$statement);
                        sqlx::query_as::<_, $row_type>(sqlx::AssertSqlSafe(text))
                            $(.bind({ let $row = row; $value }))+
                            .fetch_all(held.native().await?)
                            .await?
                    }
                    rows => {
                        let (given, arrays) = ($crate::db::bulk::given_text(COLUMNS), $crate::db::bulk::arrays_text(COLUMNS));
                        let text = format!("{given}{arrays}) {}", &$statement);
                        sqlx::query_as::<_, $row_type>(sqlx::AssertSqlSafe(text))
                            $(.bind(rows.iter().map(|$row| $value).collect::<Vec<_>>()))+
                            .fetch_all(held.native().await?)
                            .await?
                    }
                }
            }
        }
    }};
}

pub(crate) use {insert_many, with_rows};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_few_sizes_and_lose_nothing() {
        let rows: Vec<usize> = (0..1_112).collect();
        let sizes: Vec<usize> = chunks(&rows).iter().map(|chunk| chunk.len()).collect();
        assert_eq!(sizes, [512, 512, 64, 24]);
        assert_eq!(chunks(&rows).concat(), rows);
        assert!(chunks::<u8>(&[]).is_empty());
    }
}
