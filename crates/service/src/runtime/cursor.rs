//! Cursors of lists: where a page ended and which list it belongs to, as text that callers hand back.
//!
//! A cursor is a small record of its list. It contains the parameters that must stay the same, so that one that is used with
//! another list is noticed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::runtime::{Error, Result};

/// The times allowed in a cursor, in microseconds.
const TIMES: std::ops::RangeInclusive<i64> = 0..=Timestamp::MAX.micros();

/// A cursor as text.
pub(crate) fn encode<T: Serialize>(cursor: &T) -> String {
    // Serializing strings and finite numbers to JSON cannot fail.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

/// Reads a cursor, which anybody may have made up. `is_valid` says whether it belongs to this list.
pub(crate) fn decode<T: DeserializeOwned>(text: &str, is_valid: impl FnOnce(&T) -> bool) -> Result<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let cursor = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    cursor.filter(is_valid).ok_or_else(|| Error::bad_request("cursor: does not belong to this list"))
}

/// The most rows of a page.
pub(crate) const MAX_PAGE: i64 = 200;

/// Refuses a page size that is not from 1 to `most`.
pub(crate) fn check_page_size(limit: i64, most: i64) -> Result<()> {
    if (1..=most).contains(&limit) {
        return Ok(());
    }
    Err(Error::bad_request(format!("limit: it must be from 1 to {most}")))
}

/// Cuts a list that was read with one extra row to the page, and returns the last row of the page if there is a next one.
pub(crate) fn cut<T: Clone>(mut rows: Vec<T>, limit: i64) -> (Vec<T>, Option<T>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_next = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| has_next).cloned();
    (rows, last)
}

/// The rows of a list of people: all of an account as a rule.
const LISTED: i64 = MAX_PAGE;

/// Which part of a list in the order of making is asked for.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// The page size.
    pub limit: Option<i64>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page of a list in the order of making ended.
#[derive(Serialize, Deserialize)]
struct MadeCursor {
    list: String,
    at: CursorTime,
    id: Uuid,
}

impl PageQuery {
    /// The page size, and the time and id after which the page starts.
    pub(crate) fn bounds(&self, list: &str) -> Result<(i64, (Timestamp, Uuid))> {
        let limit = self.limit.unwrap_or(LISTED);
        check_page_size(limit, MAX_PAGE)?;
        let is_of_list = |cursor: &MadeCursor| cursor.list == list;
        let cursor = self.cursor.as_deref().map(|text| decode(text, is_of_list)).transpose()?;
        let start = (Timestamp::from_micros(0), Uuid::nil());
        Ok((limit, cursor.map_or(start, |cursor| (cursor.at.0, cursor.id))))
    }
}

/// The cursor after a row of a list in the order of making.
pub(crate) fn after_made(list: &str, at: Timestamp, id: Uuid) -> String {
    encode(&MadeCursor { list: list.to_owned(), at: CursorTime(at), id })
}

/// An instant in a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub(crate) struct CursorTime(pub(crate) Timestamp);

impl TryFrom<i64> for CursorTime {
    type Error = &'static str;

    fn try_from(micros: i64) -> std::result::Result<Self, Self::Error> {
        if TIMES.contains(&micros) { Ok(Self(Timestamp::from_micros(micros))) } else { Err("out of range") }
    }
}

impl From<CursorTime> for i64 {
    fn from(time: CursorTime) -> Self {
        time.0.micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nonsense_is_refused() {
        let time = CursorTime(Timestamp::from_seconds(1_800_000_000));
        let text = encode(&("list", time));
        let read = |text: &str| decode::<(String, CursorTime)>(text, |(list, _)| list == "list");
        assert_eq!(read(&text).unwrap(), ("list".to_owned(), time));
        for wrong in
            ["", "%", "e30", &encode(&("other", time)), &encode(&("list", -1)), &encode(&("list", i64::MAX))]
        {
            assert_eq!(
                read(wrong).unwrap_err().to_string(),
                "cursor: does not belong to this list",
                "{wrong}"
            );
        }
    }
}
