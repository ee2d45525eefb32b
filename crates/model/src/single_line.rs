//! Untrusted text on a single line. Histories, prompts, mails and log lines are read line by line, so a line break in what
//! somebody wrote could pass for a line of ours.

/// Whether some reader starts a new line at this character: a control character (line feed, carriage return, vertical tab,
/// form feed, U+001C to U+001E, U+0085 and the rest), or Unicode's line or paragraph separator.
pub fn breaks_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// A text on a single line: a space stands for each character that could break it.
pub fn single_line(text: &str) -> String {
    text.chars().map(|character| if breaks_line(character) { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `str.splitlines` splits at, which is every separator that Unicode and ASCII know.
    const SEPARATORS: &str = "\n\r\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}";

    #[test]
    fn every_separator_becomes_a_space() {
        for separator in SEPARATORS.chars() {
            assert_eq!(single_line(&format!("a{separator}b")), "a b", "{separator:?}");
        }
        assert_eq!(single_line("naïve\u{a0}text — 你好 👩‍👩‍👧"), "naïve\u{a0}text — 你好 👩‍👩‍👧");
    }
}
