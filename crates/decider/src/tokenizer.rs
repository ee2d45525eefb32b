//! Words to tokens, as BERT's uncased models were taught: lower case without accents, punctuation apart, and words that are
//! not in the vocabulary in the longest pieces that are.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

const VOCABULARY: &str = include_str!("vocabulary.txt");
const CONTINUED: &str = "##";
/// A longer word is no word.
const MAX_WORD_CHARACTERS: usize = 100;
const UNKNOWN: u32 = 100;

/// Opens a text.
pub(super) const START: u32 = 101;
/// Closes a text.
pub(super) const END: u32 = 102;

/// Turns text into the numbers of tokens.
pub(super) struct Tokenizer {
    first: HashMap<&'static str, u32>,
    continued: HashMap<&'static str, u32>,
}

impl Tokenizer {
    pub(super) fn new() -> Self {
        let mut pieces = Self { first: HashMap::new(), continued: HashMap::new() };
        for (token, number) in VOCABULARY.lines().zip(0..) {
            match token.strip_prefix(CONTINUED) {
                Some(rest) if !rest.is_empty() => pieces.continued.insert(rest, number),
                _ => pieces.first.insert(token, number),
            };
        }
        pieces
    }

    /// The tokens of a text.
    pub(super) fn tokens(&self, text: &str) -> Vec<u32> {
        let text = normalized(text);
        let mut tokens = Vec::with_capacity(text.len() / 4);
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(letter) = rest.chars().next() {
                let end = if is_punctuation(letter) {
                    letter.len_utf8()
                } else {
                    rest.find(is_punctuation).unwrap_or(rest.len())
                };
                let (part, after) = rest.split_at(end);
                self.add(part, &mut tokens);
                rest = after;
            }
        }
        tokens
    }

    /// A word in pieces, each the longest that fits; unknown as a whole when one is missing.
    fn add(&self, word: &str, tokens: &mut Vec<u32>) {
        if word.chars().nth(MAX_WORD_CHARACTERS).is_some() {
            return tokens.push(UNKNOWN);
        }
        let before = tokens.len();
        let mut rest = word;
        while !rest.is_empty() {
            let known = if rest.len() == word.len() { &self.first } else { &self.continued };
            let mut ends = rest.char_indices().rev().map(|(at, letter)| at + letter.len_utf8());
            let longest = ends.find_map(|end| known.get(&rest[..end]).map(|number| (end, *number)));
            let Some((end, number)) = longest else {
                tokens.truncate(before);
                return tokens.push(UNKNOWN);
            };
            tokens.push(number);
            rest = &rest[end..];
        }
    }
}

fn normalized(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_whitespace() {
            clean.push(' ');
        } else if is_ideograph(letter) {
            clean.extend([' ', letter, ' ']);
        } else if letter != '\u{fffd}' && letter.general_category_group() != GeneralCategoryGroup::Other {
            clean.push(letter);
        }
    }
    if clean.is_ascii() {
        clean.make_ascii_lowercase();
        return clean;
    }
    let bare = clean.nfd().filter(|letter| letter.general_category() != GeneralCategory::NonspacingMark);
    bare.flat_map(char::to_lowercase).collect()
}

fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation() || letter.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Chinese characters are words of their own.
fn is_ideograph(letter: char) -> bool {
    matches!(u32::from(letter),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x2_0000..=0x2_A6DF | 0x2_A700..=0x2_B73F | 0x2_B740..=0x2_B81F
        | 0x2_B920..=0x2_CEAF | 0xF900..=0xFAFF | 0x2_F800..=0x2_FA1F)
}
