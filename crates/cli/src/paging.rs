//! Lists: `--limit` rows, or `--all` of them, over as many pages as that takes.

use std::collections::HashMap;

use clap::Args;
use client::Call;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Output, View, remark};

/// The largest page that the service gives.
const LARGEST_PAGE: u64 = 200;

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
        let first = call.clone().query("limit", Some(wanted.min(LARGEST_PAGE)));
        let (response, mut page) = context.fetch(first).await?;
        for warning in page["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            remark(&format!("warning: {warning}"));
        }
        // What one page holds is printed as it came.
        if context.output.json && (wanted <= LARGEST_PAGE || next(&page, field, 0, wanted).is_none()) {
            return context.output.document(&response.body);
        }
        let (mut rows, mut printed, mut body) = (Vec::new(), 0, response.body);
        if context.output.json {
            Output::piece(format!("{{\"{field}\":[").as_bytes())?;
        }
        let has_more = loop {
            let count = page[field].as_array().map_or(0, |rows| rows.len() as u64);
            if context.output.json {
                print_rows(&body, field, printed == 0)?;
            } else if let Some(Value::Array(found)) = page.get_mut(field).map(Value::take) {
                rows.extend(found);
            }
            let size = wanted.saturating_sub(printed).min(LARGEST_PAGE);
            let following = follow(&page, count, size, printed);
            printed += count;
            let Some((name, value)) = following else { break false };
            if printed >= wanted {
                break true;
            }
            let size = (wanted - printed).min(LARGEST_PAGE);
            let call = call.clone().query("limit", Some(size)).query(name, Some(value));
            let response;
            (response, page) = context.fetch(call).await?;
            body = response.body;
        };
        if context.output.json {
            return Output::piece(b"]}\n");
        }
        let is_empty = rows.is_empty();
        context.output.view(if is_empty { View::new().line("Nothing to list.") } else { view(&rows) })?;
        if has_more {
            remark("there are more: use --limit or --all");
        }
        Ok(())
    }
}

fn next(page: &Value, field: &str, printed: u64, wanted: u64) -> Option<(&'static str, String)> {
    let count = page[field].as_array().map_or(0, |rows| rows.len() as u64);
    follow(page, count, wanted.min(LARGEST_PAGE), printed)
}

/// How the next page is asked for: by its cursor, or by the number of rows before it where a full page has none.
fn follow(page: &Value, count: u64, size: u64, before: u64) -> Option<(&'static str, String)> {
    match page["next_cursor"].as_str() {
        Some(cursor) if !cursor.is_empty() => Some(("cursor", cursor.to_owned())),
        _ => (page["offset"].is_number() && count == size && count > 0)
            .then(|| ("offset", (before + count).to_string())),
    }
}

/// Prints the rows of a page as the service wrote them.
fn print_rows(body: &[u8], field: &str, is_first: bool) -> Result<(), Failure> {
    let fields: HashMap<String, Box<RawValue>> = serde_json::from_slice(body).map_err(Failure::other)?;
    let rows: Vec<Box<RawValue>> = match fields.get(field) {
        Some(rows) => serde_json::from_str(rows.get()).map_err(Failure::other)?,
        None => Vec::new(),
    };
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
