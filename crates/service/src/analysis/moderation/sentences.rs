//! Sentences of a comment, with their places in UTF-16 units, as the Perspective API counts.

/// The maximum number of sentences; the last one has the rest.
const MAX_SENTENCES: usize = 32;

/// A sentence and its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence<'a> {
    pub(super) text: &'a str,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// The length of a text in UTF-16 units.
pub(super) fn utf16_length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Splits a text after marks that end a sentence and after line breaks. Sentences have no white space around them, and a text
/// of nothing else is one sentence.
pub(super) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match char {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' => next.is_none_or(char::is_whitespace),
            _ => false,
        };
        if ends && found.len() + 1 < MAX_SENTENCES {
            push(&mut found, text, start, at + char.len_utf8());
            start = at + char.len_utf8();
        }
    }
    push(&mut found, text, start, text.len());
    if found.is_empty() {
        found.push(Sentence { text, begin: 0, end: utf16_length(text) });
    }
    found
}

fn push<'a>(found: &mut Vec<Sentence<'a>>, text: &'a str, start: usize, end: usize) {
    let untrimmed = &text[start..end];
    let sentence = untrimmed.trim();
    if sentence.is_empty() {
        return;
    }
    let begin = start + untrimmed.len() - untrimmed.trim_start().len();
    let begin = utf16_length(&text[..begin]);
    found.push(Sentence { text: sentence, begin, end: begin + utf16_length(sentence) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(&str, usize, usize)> {
        sentences(text).into_iter().map(|sentence| (sentence.text, sentence.begin, sentence.end)).collect()
    }

    #[test]
    fn sentences_have_their_place_in_utf_16_units() {
        assert_eq!(split("One. Two!  Three"), [("One.", 0, 4), ("Two!", 5, 9), ("Three", 11, 16)]);
        assert_eq!(split("\u{1F600} a.\nb"), [("\u{1F600} a.", 0, 5), ("b", 6, 7)]);
        assert_eq!(split("3.14 is e.g. a number"), [("3.14 is e.g.", 0, 12), ("a number", 13, 21)]);
        assert_eq!(split("你好。再见"), [("你好。", 0, 3), ("再见", 3, 5)]);
        assert_eq!(split("  "), [("  ", 0, 2)]);
        assert_eq!(split(""), [("", 0, 0)]);
    }

    #[test]
    fn however_many_there_are_the_last_has_the_rest() {
        let text = "a. ".repeat(100);
        let found = split(&text);
        assert_eq!(found.len(), MAX_SENTENCES);
        assert_eq!(found.last().map(|last| last.2), Some(299));
    }
}
