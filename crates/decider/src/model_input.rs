//! What the model reads: the history without characters that carry no meaning, in chunks that fit, and a text for each
//! option of a question.
//!
//! `training/text.py` does the same in training; the fixtures beside it test both.

use std::borrow::Cow;
use std::ops::Range;

use model::{Candidate, Question, SignalType, breaks_line};
use serde_json::Value;

use crate::tokenizer::{END, START, Tokenizer};

/// Tokens of a chunk, including those that open and close it. The model has 512 positions.
const CHUNK_TOKENS: usize = 480;
/// Tokens of all chunks, without those that open and close them: the heading and the newest lines that fit.
const STATE_TOKENS: usize = 4096;
/// Tokens of a question, including those that open and close it.
const QUESTION_TOKENS: usize = 256;
/// Tokens of an option, including the one that closes it.
const OPTION_TOKENS: usize = 128;
/// The form of the time that a line about an event starts with.
const STAMP: &str = "0000-00-00T00:00:00.000000Z ";

/// A state as the model reads it.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    /// The tokens in chunks, oldest first.
    pub(crate) chunks: Vec<Vec<u32>>,
    /// For each piece of a line that is read, where the line starts in the text, and the rows of the piece's tokens among
    /// those of all chunks.
    pieces: Vec<(usize, Range<usize>)>,
}

/// A line of a state, or as much of it as fits into a chunk.
#[derive(Default)]
struct Piece {
    /// Where its line starts in the text.
    line_start: usize,
    tokens: Vec<u32>,
}

impl State {
    /// Chunks are filled with whole lines from the newest backwards; only a line longer than a chunk is split.
    pub(crate) fn read(tokenizer: &Tokenizer, text: &str) -> Self {
        let capacity = CHUNK_TOKENS - 2;
        let mut pieces = pieces(tokenizer, text, capacity);
        let heading = if pieces.is_empty() { Piece::default() } else { pieces.remove(0) };
        let mut left = STATE_TOKENS - heading.tokens.len();
        // Both the chunks and the pieces in them are collected backwards.
        let mut chunks: Vec<Vec<Piece>> = vec![Vec::new()];
        let mut filled = 0;
        let newest = pieces.into_iter().rev().take_while(|piece| {
            let fits = piece.tokens.len() <= left;
            left = left.saturating_sub(piece.tokens.len());
            fits
        });
        for piece in newest.chain([heading]) {
            if filled + piece.tokens.len() > capacity {
                chunks.push(Vec::new());
                filled = 0;
            }
            filled += piece.tokens.len();
            if let Some(chunk) = chunks.last_mut() {
                chunk.push(piece);
            }
        }
        Self::of_pieces(chunks.into_iter().rev().map(|chunk| chunk.into_iter().rev()))
    }

    fn of_pieces(chunks: impl Iterator<Item = impl Iterator<Item = Piece>>) -> Self {
        let mut state = Self { chunks: Vec::new(), pieces: Vec::new() };
        let mut rows_before = 0;
        for pieces in chunks {
            let mut chunk = vec![START];
            for piece in pieces {
                let row = rows_before + chunk.len();
                state.pieces.push((piece.line_start, row..row + piece.tokens.len()));
                chunk.extend(piece.tokens);
            }
            chunk.push(END);
            rows_before += chunk.len();
            state.chunks.push(chunk);
        }
        state
    }

    /// The number of tokens.
    pub(crate) fn row_count(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// The rows of the lines that start in a part of the text, as far as they are read.
    pub(crate) fn rows_of(&self, part: &Range<usize>) -> Vec<Range<usize>> {
        let in_part = self.pieces.iter().filter(|(line_start, _)| part.contains(line_start));
        in_part.map(|(_, rows)| rows.clone()).collect()
    }
}

/// The lines of a text as pieces of at most `capacity` tokens.
fn pieces(tokenizer: &Tokenizer, text: &str, capacity: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (line_start, line) in lines(text) {
        let tokens = tokenizer.tokens(&reduced(line));
        if tokens.is_empty() {
            pieces.push(Piece { line_start, tokens });
        } else {
            let piece = |tokens: &[u32]| Piece { line_start, tokens: tokens.to_vec() };
            pieces.extend(tokens.chunks(capacity).map(piece));
        }
    }
    pieces
}

/// For each option of a question, the tokens of the question and of the option.
pub(crate) fn question_tokens(tokenizer: &Tokenizer, question: &Question) -> Vec<Vec<u32>> {
    let mut instructions = tokenizer.tokens(&plain(&question.instructions));
    instructions.truncate(QUESTION_TOKENS - 2);
    let count = question.candidates.len();
    let option = |(index, candidate): (usize, &Candidate)| {
        let mut option = tokenizer.tokens(&option_text(question.kind, index, count, candidate));
        option.truncate(OPTION_TOKENS - 1);
        let question = std::iter::once(START).chain(instructions.iter().copied()).chain([END]);
        question.chain(option).chain([END]).collect()
    };
    question.candidates.iter().enumerate().map(option).collect()
}

fn option_text(kind: SignalType, index: usize, count: usize, candidate: &Candidate) -> String {
    let name = match kind {
        SignalType::Score => format!("level {} of {count}", index + 1),
        SignalType::Noul | SignalType::Choice => without_json_punctuation(&candidate.name),
    };
    match &candidate.description {
        Some(description) => format!("{name}: {}", plain(description)),
        None => name,
    }
}

/// The lines of a state, each with its place in it. Only a line feed ends one: a history has no other separators, and what somebody wrote into a
/// caller's own state cannot start a line with them.
fn lines(state: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next_start = 0;
    let located = state.split('\n').map(move |line| {
        let start = next_start;
        next_start += line.len() + 1;
        (start, line)
    });
    located.filter(|(_, line)| !line.is_empty())
}

/// A line without seconds and JSON punctuation, which take a third of the tokens and carry no meaning.
fn reduced(line: &str) -> String {
    without_json_punctuation(&without_seconds(line))
}

fn without_seconds(line: &str) -> Cow<'_, str> {
    let matches = |(byte, pattern): (u8, u8)| {
        if pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern }
    };
    let is_stamped = line.len() > STAMP.len() && line.bytes().zip(STAMP.bytes()).all(matches);
    if !is_stamped {
        return Cow::Borrowed(line);
    }
    let rest = &line[STAMP.len()..];
    let is_event = ["event", "message"].iter().any(|kind| {
        rest.strip_prefix(kind)
            .is_some_and(|after| !after.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    });
    if is_event {
        Cow::Owned(format!("{} {} {rest}", &line[..10], &line[11..16]))
    } else {
        Cow::Borrowed(line)
    }
}

/// A text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => without_json_punctuation(text),
        other => without_json_punctuation(&other.to_string()),
    }
}

/// A text with spaces for JSON punctuation, and for what other readers take for the end of a line.
fn without_json_punctuation(text: &str) -> String {
    text.replace(|letter| matches!(letter, '{' | '}' | '"' | '_') || breaks_line(letter), " ")
}
