//! Lines of `auspex import`: each has events or a reason, in words and without the parser's own.

#[path = "../../crates/server/src/cli/import/line.rs"]
mod line;

/// Runs one case.
pub fn check(data: &[u8]) {
    match line::parse(data) {
        Ok(None) => assert!(
            data.trim_ascii().is_empty()
                || std::str::from_utf8(data).is_ok_and(|text| text.trim().is_empty())
        ),
        Ok(Some(line)) => assert!(!line.events.is_empty()),
        Err(reason) => {
            assert!(!reason.is_empty() && !reason.contains('\n') && reason.len() < 4_096, "{reason}");
        }
    }
}
