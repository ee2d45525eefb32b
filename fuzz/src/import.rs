//! The lines of an import.

#[path = "../../crates/server/src/cli/import/line.rs"]
mod line;

/// Reads a line of an import; the number of events, none for a blank line.
pub fn parse(line: &[u8]) -> Result<Option<usize>, String> {
    Ok(line::parse(line)?.map(|line| line.events.len()))
}
