//! Texts in cells of a spreadsheet, which runs what begins like a formula: an apostrophe before it makes it a text.

/// What a formula begins with; the wide forms are taken for the narrow ones.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Whether a text needs an apostrophe before it. One that already begins with apostrophes before a formula does too, so that
/// taking one away gives the original back.
pub fn needs_apostrophe(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(FORMULA)
}

/// The original of a cell that an apostrophe may have been put before.
pub fn without_apostrophe(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|original| needs_apostrophe(original)).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["", "a", "'a", "=1+1", "'=1+1", "''-x", "＝x", "'", "\t=x", "it's"] {
            let cell = if needs_apostrophe(text) { format!("'{text}") } else { text.to_owned() };
            assert!(!cell.starts_with(FORMULA), "{cell}");
            assert_eq!(without_apostrophe(&cell), text);
        }
    }
}
