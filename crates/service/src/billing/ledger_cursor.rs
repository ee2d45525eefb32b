//! The cursor of a ledger: where a page ended and which list it belongs to, as text that callers hand back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The content of a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedgerCursor {
    /// Only credits, or only charges.
    pub(crate) kind: Option<bool>,
    /// Whether the charges of a bulk run are one entry.
    pub(crate) grouped: bool,
    /// The bulk run of the list.
    pub(crate) batch_id: Option<Uuid>,
    /// The number of the last entry.
    pub(crate) before: i64,
}

impl LedgerCursor {
    /// The cursor as text.
    pub(crate) fn encode(&self) -> String {
        // Serializing numbers and flags to JSON cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a cursor, which anybody may have made up.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}
