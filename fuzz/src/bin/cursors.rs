//! Cursors of lists: text that a caller hands back, or makes up.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        auspex_fuzz::cursors(text);
    }
    // As the fuzzer would hardly write it: the same bytes as a well-formed cursor's content.
    auspex_fuzz::cursors(&URL_SAFE_NO_PAD.encode(data));
});
