//! Cursors of lists: text that a caller hands back, or makes up.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

#[path = "../../crates/service/src/billing/ledger_cursor.rs"]
mod ledger_cursor;

#[path = "../../crates/service/src/objects/page_cursor.rs"]
mod page_cursor;

/// Runs one case.
pub fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        read_again(text);
    }
    // As the fuzzer would hardly write it: the same bytes as a well-formed cursor's content.
    read_again(&URL_SAFE_NO_PAD.encode(data));
}

/// A cursor that was read can be written and read again: nothing about it is lost or changes.
fn read_again(text: &str) {
    if let Some(cursor) = page_cursor::PageCursor::decode(text) {
        assert_eq!(page_cursor::PageCursor::decode(&cursor.encode()), Some(cursor));
    }
    if let Some(cursor) = ledger_cursor::LedgerCursor::decode(text) {
        assert_eq!(ledger_cursor::LedgerCursor::decode(&cursor.encode()), Some(cursor));
    }
}
