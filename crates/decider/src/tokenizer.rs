//! The `WordPiece` tokenizer of BERT's uncased models: text is lowercased and stripped of accents, punctuation is split off,
//! and a word that is not in the vocabulary is split into the longest pieces that are.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

const VOCABULARY: &str = include_str!("vocabulary.txt");
/// The prefix of pieces that continue a word.
const CONTINUED: &str = "##";
/// A longer word is unknown.
const MAX_WORD_CHARACTERS: usize = 100;
const UNKNOWN: u32 = 100;

/// The token that opens a text: `[CLS]`.
pub(crate) const START: u32 = 101;
/// The token that closes a text: `[SEP]`.
pub(crate) const END: u32 = 102;

/// Turns text into the ids of tokens.
pub(crate) struct Tokenizer {
    first: HashMap<&'static str, u32>,
    continued: HashMap<&'static str, u32>,
}

impl Tokenizer {
    /// Reads the vocabulary.
    pub(crate) fn new() -> Self {
        let mut pieces = Self { first: HashMap::new(), continued: HashMap::new() };
        for (token, id) in VOCABULARY.lines().zip(0..) {
            match token.strip_prefix(CONTINUED) {
                Some(rest) if !rest.is_empty() => pieces.continued.insert(rest, id),
                _ => pieces.first.insert(token, id),
            };
        }
        pieces
    }

    /// The tokens of a text.
    pub(crate) fn tokens(&self, text: &str) -> Vec<u32> {
        let text = normalized(text);
        let mut tokens = Vec::with_capacity(text.len() / 4);
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(character) = rest.chars().next() {
                let end = if is_punctuation(character) {
                    character.len_utf8()
                } else {
                    rest.find(is_punctuation).unwrap_or(rest.len())
                };
                let (part, after) = rest.split_at(end);
                self.add_word(part, &mut tokens);
                rest = after;
            }
        }
        tokens
    }

    /// Appends a word as pieces, each the longest that fits, or as one unknown token where a piece is missing.
    fn add_word(&self, word: &str, tokens: &mut Vec<u32>) {
        if word.chars().nth(MAX_WORD_CHARACTERS).is_some() {
            return tokens.push(UNKNOWN);
        }
        let before = tokens.len();
        let mut rest = word;
        while !rest.is_empty() {
            let known = if rest.len() == word.len() { &self.first } else { &self.continued };
            let mut ends = rest.char_indices().rev().map(|(at, character)| at + character.len_utf8());
            let longest = ends.find_map(|end| known.get(&rest[..end]).map(|id| (end, *id)));
            let Some((end, id)) = longest else {
                tokens.truncate(before);
                return tokens.push(UNKNOWN);
            };
            tokens.push(id);
            rest = &rest[end..];
        }
    }
}

/// Lowercases, strips accents and control characters, and puts spaces around ideographs.
fn normalized(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_whitespace() {
            clean.push(' ');
        } else if is_ideograph(character) {
            clean.extend([' ', character, ' ']);
        } else if character != '\u{fffd}' && character.general_category_group() != GeneralCategoryGroup::Other
        {
            clean.push(character);
        }
    }
    if clean.is_ascii() {
        clean.make_ascii_lowercase();
        return clean;
    }
    let bare =
        clean.nfd().filter(|character| character.general_category() != GeneralCategory::NonspacingMark);
    bare.flat_map(char::to_lowercase).collect()
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Chinese characters, which are words of their own.
fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x2_0000..=0x2_A6DF | 0x2_A700..=0x2_B73F | 0x2_B740..=0x2_B81F
        | 0x2_B920..=0x2_CEAF | 0xF900..=0xFAFF | 0x2_F800..=0x2_FA1F)
}
