//! What the model reads: the dossier without what says nothing, in chunks that fit, and a text for each option.
//!
//! `training/text.py` says the same; the fixtures beside it hold both to it.

use std::borrow::Cow;

use model::{Candidate, Question, SignalType};
use serde_json::Value;

use super::tokenizer::{END, START, Tokenizer};

/// Tokens of a chunk, its marks included. The model knows 512 places.
const CHUNK_TOKENS: usize = 480;
/// Tokens of a state without marks: the heading and the newest that fit.
const STATE_TOKENS: usize = 4096;
/// Tokens of a question and of an option, their marks included.
const QUESTION_TOKENS: usize = 256;
const OPTION_TOKENS: usize = 128;
/// A line of a dossier starts with a time in microseconds.
const STAMP: &str = "0000-00-00T00:00:00.000000Z ";

/// The state in chunks, oldest first. Lines stay together while they fit, from the newest backwards.
pub(super) fn chunks(words: &Tokenizer, state: &str) -> Vec<Vec<u32>> {
    let room = CHUNK_TOKENS - 2;
    let mut pieces = Vec::new();
    for line in lines(state) {
        let tokens = words.tokens(&reduced(line));
        if tokens.is_empty() {
            pieces.push(tokens);
        } else {
            pieces.extend(tokens.chunks(room).map(<[u32]>::to_vec));
        }
    }
    let heading = if pieces.is_empty() { Vec::new() } else { pieces.remove(0) };
    let mut left = STATE_TOKENS - heading.len();
    // Both the chunks and what is in them are gathered backwards.
    let mut chunks: Vec<Vec<Vec<u32>>> = vec![Vec::new()];
    let mut filled = 0;
    let newest = pieces.into_iter().rev().take_while(|piece| {
        let fits = piece.len() <= left;
        left = left.saturating_sub(piece.len());
        fits
    });
    for piece in newest.chain([heading]) {
        if filled + piece.len() > room {
            chunks.push(Vec::new());
            filled = 0;
        }
        filled += piece.len();
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(piece);
        }
    }
    let closed = |chunk: Vec<Vec<u32>>| {
        std::iter::once(START).chain(chunk.into_iter().rev().flatten()).chain([END]).collect()
    };
    chunks.into_iter().rev().map(closed).collect()
}

/// For each option the question and the option.
pub(super) fn options(words: &Tokenizer, question: &Question) -> Vec<Vec<u32>> {
    let mut ask = words.tokens(&plain(&question.instructions));
    ask.truncate(QUESTION_TOKENS - 2);
    let count = question.candidates.len();
    let option = |(place, candidate): (usize, &Candidate)| {
        let mut option = words.tokens(&option_text(question.kind, place, count, candidate));
        option.truncate(OPTION_TOKENS - 1);
        let asked = std::iter::once(START).chain(ask.iter().copied()).chain([END]);
        asked.chain(option).chain([END]).collect()
    };
    question.candidates.iter().enumerate().map(option).collect()
}

fn option_text(kind: SignalType, place: usize, count: usize, candidate: &Candidate) -> String {
    let name = match kind {
        SignalType::Score => format!("level {} of {count}", place + 1),
        SignalType::Noul | SignalType::Choice => without_marks(&candidate.name),
    };
    match &candidate.description {
        Some(description) => format!("{name}: {}", plain(description)),
        None => name,
    }
}

/// The lines of a text as Python's `splitlines` finds them in a text without other control characters.
fn lines(state: &str) -> impl Iterator<Item = &str> {
    state.split(['\n', '\u{2028}', '\u{2029}', '\u{85}']).filter(|line| !line.is_empty())
}

/// Seconds and the marks of JSON cost a third of the tokens and say nothing.
fn reduced(line: &str) -> String {
    without_marks(&without_seconds(line))
}

fn without_seconds(line: &str) -> Cow<'_, str> {
    let fits = |(letter, pattern): (u8, u8)| {
        if pattern == b'0' { letter.is_ascii_digit() } else { letter == pattern }
    };
    let is_stamped = line.len() > STAMP.len() && line.bytes().zip(STAMP.bytes()).all(fits);
    if !is_stamped {
        return Cow::Borrowed(line);
    }
    let rest = &line[STAMP.len()..];
    let is_event = ["event", "message"].iter().any(|kind| {
        rest.strip_prefix(kind)
            .is_some_and(|after| !after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
    });
    if is_event {
        Cow::Owned(format!("{} {} {rest}", &line[..10], &line[11..16]))
    } else {
        Cow::Borrowed(line)
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => without_marks(text),
        other => without_marks(&other.to_string()),
    }
}

fn without_marks(text: &str) -> String {
    text.replace(['{', '}', '"', '_'], " ")
}
