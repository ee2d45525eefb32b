//! Lists: `--limit` rows, or `--all` of them, over as many pages as that takes.

use std::collections::HashMap;

use clap::Args;
use client::Call;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::context::Context;
use crate::failure::Failure;
use crate::messages::remark;
use crate::output::{Output, View};

/// The largest page that every list of the service gives; some give larger ones.
const LARGEST_PAGE: u64 = 100;

/// How many rows to list.
#[derive(Args, Clone, Debug)]
pub struct Paging {
    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List everything.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Paging {
    /// Lists the rows under `field` of each page.
    pub(crate) async fn list(
        &self,
        context: &Context,
        call: Call,
        field: &str,
        view: impl FnOnce(&[Value]) -> View,
    ) -> Result<(), Failure> {
        let wanted = if self.all { u64::MAX } else { self.limit };
        let size = wanted.min(LARGEST_PAGE);
        let (mut response, mut page) = context.fetch(call.clone().query("limit", Some(size))).await?;
        print_warnings(&page);
        let first = page[field].as_array().map_or(0, |rows| rows.len() as u64);
        let is_whole = first == wanted || (first < wanted && follow(&page, first, size, 0).is_none());
        if context.output.json && is_whole {
            // What one page holds is printed as it came.
            return context.output.document(&response.body);
        }
        let (mut listed, mut values) = (0, Vec::new());
        let has_more = loop {
            let mut rows = rows(&response.body, field)?;
            let count = rows.len() as u64;
            let following = follow(&page, count, (wanted - listed).min(LARGEST_PAGE), listed);
            // Some routes give pages of a size of their own.
            rows.truncate(usize::try_from(wanted - listed).unwrap_or(usize::MAX));
            if context.output.json {
                print_rows(&rows, field, listed == 0)?;
            } else {
                let parsed = rows.iter().map(|row| serde_json::from_str::<Value>(row.get()));
                values.extend(parsed.collect::<Result<Vec<_>, _>>().map_err(Failure::other)?);
            }
            let has_cut = count > rows.len() as u64;
            listed += rows.len() as u64;
            let Some((name, value)) = following else { break has_cut };
            if listed >= wanted {
                break true;
            }
            let size = (wanted - listed).min(LARGEST_PAGE);
            let next = call.clone().query("limit", Some(size)).query(name, Some(value));
            (response, page) = context.fetch(next).await?;
        };
        if context.output.json {
            return Output::piece(b"\n]}\n");
        }
        context.output.view(view(&values))?;
        if has_more {
            remark("there are more: use --limit or --all");
        }
        Ok(())
    }
}

/// Says what the service says about a list beside its rows, such as what it skipped of a query.
pub(crate) fn print_warnings(page: &Value) {
    for warning in page["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        remark(&format!("warning: {warning}"));
    }
}

/// How the next page is asked for: by its cursor, or by the number of rows before it where a full page has none.
fn follow(page: &Value, count: u64, size: u64, before: u64) -> Option<(&'static str, String)> {
    match page["next_cursor"].as_str() {
        Some(cursor) if !cursor.is_empty() => Some(("cursor", cursor.to_owned())),
        _ => (page["offset"].is_number() && count == size && count > 0)
            .then(|| ("offset", (before + count).to_string())),
    }
}

/// The rows of a page, as the service wrote them.
pub(crate) fn rows(body: &[u8], field: &str) -> Result<Vec<Box<RawValue>>, Failure> {
    let fields: HashMap<String, Box<RawValue>> = serde_json::from_slice(body).map_err(Failure::other)?;
    match fields.get(field) {
        Some(rows) => serde_json::from_str(rows.get()).map_err(Failure::other),
        None => Ok(Vec::new()),
    }
}

/// Prints rows of a document that goes on over several pages.
fn print_rows(rows: &[Box<RawValue>], field: &str, is_first: bool) -> Result<(), Failure> {
    if is_first {
        Output::piece(format!("{{\"{field}\":[").as_bytes())?;
    }
    for (at, row) in rows.iter().enumerate() {
        let separator = if is_first && at == 0 { "\n" } else { ",\n" };
        Output::piece(format!("{separator}{}", row.get()).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pages_follow_by_cursor_or_by_offset() {
        let by_cursor = json!({"objects": [1, 2], "offset": 0, "next_cursor": "c"});
        assert_eq!(follow(&by_cursor, 2, 2, 0), Some(("cursor", "c".to_owned())));
        let by_offset = json!({"objects": [1, 2], "offset": 0});
        assert_eq!(follow(&by_offset, 2, 2, 4), Some(("offset", "6".to_owned())));
        assert_eq!(follow(&by_offset, 2, 3, 4), None, "the page is not full");
        assert_eq!(follow(&json!({"labels": [1], "next_cursor": ""}), 1, 1, 0), None);
    }
}
