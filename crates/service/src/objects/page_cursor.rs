//! The cursor of an object list: where a page ended and which list it belongs to, as text that callers hand back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The timestamps allowed in a cursor, in microseconds: up to the year 9999, which both databases can compare.
const TIMES: std::ops::Range<i64> = 0..253_402_300_800_000_000;

/// The content of a cursor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PageCursor {
    /// The query of the list.
    pub(crate) q: Option<String>,
    /// The sort of the list.
    pub(crate) sort: u8,
    /// The sort's value of the last object.
    pub(crate) value: f64,
    /// When it was last seen, in microseconds.
    pub(crate) seen: i64,
    /// Its id.
    pub(crate) id: String,
}

impl PageCursor {
    /// The cursor as text.
    pub(crate) fn encode(&self) -> String {
        // Serializing strings and finite numbers to JSON cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a cursor, which anybody may have made up; none if a database could not compare with it.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let cursor: Self = serde_json::from_slice(&bytes).ok()?;
        let is_comparable =
            cursor.value.is_finite() && TIMES.contains(&cursor.seen) && !cursor.id.contains('\0');
        is_comparable.then_some(cursor)
    }
}
