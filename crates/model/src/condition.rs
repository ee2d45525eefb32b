//! The language of conditions: comparisons of signals, used by `q` of the object list and `when` of a rule.
//!
//! ```text
//! condition  = comparison *( joiner comparison )      all must hold
//! joiner     = "," | "and", in any case
//! comparison = key operator value
//! operator   = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
//! value      = word | quoted                          a number or the name of an option
//! word       = anything without white space, commas and operators that does not start with a quote
//! quoted     = in single or double quotes; the quote itself is written twice, there are no other escapes
//! ```
//!
//! A [`Condition`] is the parsed text. Its meaning depends on the signals that it names: a [`BoundCondition`] holds the
//! answers that it accepts, in a form that Rust and both databases compare alike.

mod bound;
mod syntax;
#[cfg(test)]
mod tests;

use std::fmt;

pub use bound::{Accepts, AnswerValue, BoundComparison, BoundCondition, SignalShape, ValueRange};

/// The maximum number of comparisons in a condition: more than anyone writes, few enough for one statement.
pub const MAX_COMPARISONS: usize = 50;
/// The maximum length of a signal's key.
pub const MAX_KEY: usize = 64;
/// Words that cannot be a key, nor a value without quotes.
const RESERVED: [&str; 3] = ["and", "or", "not"];

/// Comparisons that must all hold. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    comparisons: Vec<Comparison>,
}

/// A signal compared with a value.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The key of the signal.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The value it is compared with, without quotes: they only delimit it.
    pub value: String,
    columns: Columns,
}

/// The columns where the parts of a comparison start.
#[derive(Clone, Copy, Debug)]
struct Columns {
    key: usize,
    operator: usize,
    value: usize,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
}

/// What is wrong with a condition, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// What is wrong.
    pub message: String,
    /// The column, in characters, counted from 1.
    pub column: usize,
}

/// A search of the object list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Objects whose answers satisfy a condition.
    Signals(BoundCondition),
    /// Objects that have this text in their id or display name.
    Text(String),
}

/// Whether a condition may name an option or a position that its signal does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strictness {
    Strict,
    Lenient,
}

impl Condition {
    /// Parses a condition. [`Condition::bind`] checks that its signals exist.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let comparisons: Vec<Comparison> = syntax::comparisons(text).collect::<Result<_, _>>()?;
        match comparisons.get(MAX_COMPARISONS) {
            None => Ok(Self { comparisons }),
            Some(beyond) => Err(ConditionError {
                message: format!("a condition has at most {MAX_COMPARISONS} comparisons"),
                column: beyond.columns.key,
            }),
        }
    }

    /// The comparisons, as written.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.comparisons
    }

    /// The keys that it names, without duplicates.
    pub fn keys(&self) -> Vec<&str> {
        without_duplicates(self.comparisons.iter().map(|comparison| comparison.key.as_str()))
    }

    /// Resolves the condition against the existing signals. Every comparison must be valid for its signal, and name an
    /// option or a position that the signal has.
    pub fn bind(
        &self,
        signals: impl Fn(&str) -> Option<SignalShape>,
    ) -> Result<BoundCondition, ConditionError> {
        let bound = self.comparisons.iter().map(|comparison| comparison.bind(&signals, Strictness::Strict));
        Ok(BoundCondition::all_of(bound.collect::<Result<_, _>>()?))
    }
}

impl Query {
    /// Parses the text of a search box, which is never invalid: comparisons that do not parse, name an unknown signal or
    /// are invalid for it are skipped, and if none is left the whole text is searched for.
    ///
    /// An option or a position that the signal does not have is allowed: answers from before the signal was changed may
    /// have it.
    pub fn parse(text: &str, signals: impl Fn(&str) -> Option<SignalShape>) -> Self {
        let comparisons: Vec<BoundComparison> = syntax::comparisons(text)
            .filter_map(|comparison| comparison.ok()?.bind(&signals, Strictness::Lenient).ok())
            .take(MAX_COMPARISONS)
            .collect();
        if comparisons.is_empty() {
            Self::Text(text.to_owned())
        } else {
            Self::Signals(BoundCondition::all_of(comparisons))
        }
    }
}

/// Whether a text can be the key of a signal.
pub fn is_key(text: &str) -> bool {
    text.len() <= MAX_KEY
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_reserved(text)
}

fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

fn without_duplicates<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique = Vec::new();
    for key in keys {
        if !unique.contains(&key) {
            unique.push(key);
        }
    }
    unique
}

// Comparisons are equal wherever they were written.
impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, self.operator, &self.value) == (&other.key, other.operator, &other.value)
    }
}

impl Eq for Comparison {}

impl Operator {
    /// The operator's symbol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
            Self::NotEqual => "!=",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} ", self.key, self.operator)?;
        if syntax::is_word(&self.value) {
            formatter.write_str(&self.value)
        } else {
            write!(formatter, "\"{}\"", self.value.replace('"', "\"\""))
        }
    }
}

/// The canonical text of the condition, which parses to the same condition.
impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, comparison) in self.comparisons.iter().enumerate() {
            let joiner = if index == 0 { "" } else { " and " };
            write!(formatter, "{joiner}{comparison}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConditionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for ConditionError {}
