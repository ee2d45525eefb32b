//! Lines of `auspex import`: each has events or a reason, in words and without the parser's own.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    match auspex_fuzz::import_line(line) {
        Ok(None) => assert!(
            line.trim_ascii().is_empty()
                || std::str::from_utf8(line).is_ok_and(|text| text.trim().is_empty())
        ),
        Ok(Some(events)) => assert!(events > 0),
        Err(reason) => {
            assert!(!reason.is_empty() && !reason.contains('\n') && reason.len() < 4_096, "{reason}")
        }
    }
});
