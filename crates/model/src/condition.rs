//! The language of conditions, used by `q` of the object list and `when` of a rule.
//!
//! ```text
//! condition  = all *( "or" all )
//! all        = part *( joiner part )                  `and` binds stronger than `or`
//! joiner     = "," | "and"
//! part       = "not" part | "(" condition ")" | comparison
//! comparison = subject operator value
//! subject    = key | "age" | "type" | "events(" name "," window ")"
//! operator   = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
//! value      = word | quoted                          a number, an option, a duration or a type
//! name       = "*" | word | quoted                    of an event; `*` is any
//! window     = duration = digits ( "s" | "m" | "h" | "d" )
//! word       = anything without white space, commas and operators that does not start with a quote
//! quoted     = in single or double quotes; the quote itself is written twice, there are no other escapes
//! ```
//!
//! Keywords are read in any case. Right after an operator a word is a value, whatever it is; outside of parentheses it may
//! contain some itself.
//!
//! A [`Condition`] is the parsed text. Its meaning depends on the signals that it names: a [`BoundCondition`] holds the
//! answers that it accepts, in a form that Rust and both databases compare alike. A comparison with a signal that has no
//! answer is unknown, so is its negation, and only what is true matches.

mod bound;
mod facts;
mod syntax;
#[cfg(test)]
mod tests;
mod window;

use std::fmt;

pub use bound::{
    Accepts, BoundComparison, BoundCondition, BoundNode, ComparedValue, SignalShape, ValueRange,
};
pub use facts::{BoundFact, Facts};
pub use window::{EventWindow, MAX_WINDOW};

use bound::Binder;

/// The maximum number of comparisons in a condition: more than anyone writes, few enough for one statement.
pub const MAX_COMPARISONS: usize = 50;
/// The maximum depth of parentheses and negations.
pub const MAX_DEPTH: usize = 20;
/// The maximum length of a signal's key.
pub const MAX_KEY: usize = 64;
/// Words that cannot be a key.
const RESERVED: [&str; 3] = ["and", "or", "not"];

/// Comparisons joined by `and` and `or` and negated by `not`. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    root: Node,
}

/// A part of a condition. `All` and `Any` have two members or more, none of which is of their own kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Comparison(Comparison),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// A signal or a fact compared with a value.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What is compared.
    pub subject: Subject,
    /// The operator.
    pub operator: Operator,
    /// The value it is compared with, without quotes: they only delimit it.
    pub value: String,
    columns: Columns,
}

/// What a comparison is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The key of a signal. `age` and `type` are facts where no signal has that key.
    Key(String),
    /// How often something happened.
    Events(EventWindow),
}

/// The columns where the parts of a comparison start.
#[derive(Clone, Copy, Debug)]
struct Columns {
    subject: usize,
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

/// A part of a query that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The part, cut to length.
    pub text: String,
    /// Why.
    pub error: ConditionError,
}

/// A search of the object list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Objects whose answers satisfy a condition.
    Signals(BoundCondition),
    /// Objects that have this text in their id or display name.
    Text(String),
}

/// What is an error in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strictness {
    /// That of a rule: every error counts, and facts are known.
    Rule,
    /// That of a query: what cannot be understood is skipped, and there are no facts.
    Query,
}

impl Condition {
    /// Parses a condition. [`Condition::bind`] checks that its signals exist.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let parsed = syntax::parse(text, Strictness::Rule);
        if let Some(skipped) = parsed.skipped.into_iter().next() {
            return Err(skipped.error);
        }
        let Some(root) = parsed.root else {
            return Err(ConditionError { message: "there is no comparison".to_owned(), column: 1 });
        };
        let condition = Self { root };
        match condition.comparisons().get(MAX_COMPARISONS) {
            None => Ok(condition),
            Some(beyond) => Err(too_many(beyond)),
        }
    }

    /// The comparisons, as written.
    pub fn comparisons(&self) -> Vec<&Comparison> {
        let mut comparisons = Vec::new();
        self.root.collect_into(&mut comparisons);
        comparisons
    }

    /// The keys that it names, without duplicates. `age` and `type` are among them, because they may be signals.
    pub fn keys(&self) -> Vec<&str> {
        without_duplicates(self.comparisons().into_iter().filter_map(Comparison::key))
    }

    /// Resolves the condition of a rule against the existing signals. Every comparison must be valid for its signal, and
    /// name an option or a position that the signal has.
    pub fn bind(
        &self,
        signals: impl Fn(&str) -> Option<SignalShape>,
    ) -> Result<BoundCondition, ConditionError> {
        let mut binder = Binder::new(&signals, Strictness::Rule);
        let root = binder.bind(&self.root);
        match (binder.skipped.into_iter().next(), root) {
            (None, Some(root)) => Ok(BoundCondition::new(root)),
            (Some(skipped), _) => Err(skipped.error),
            // A condition has a comparison, which is either bound or skipped.
            (None, None) => Err(ConditionError { message: "there is no comparison".to_owned(), column: 1 }),
        }
    }
}

impl Query {
    /// Parses the text of a search box, which is never invalid: what does not parse, names an unknown signal or a fact, or
    /// is invalid for its signal is skipped, and if no comparison is left the whole text is searched for.
    ///
    /// An option or a position that the signal does not have is allowed: answers from before the signal was changed may
    /// have it.
    pub fn parse(text: &str, signals: impl Fn(&str) -> Option<SignalShape>) -> Self {
        Self::parse_with_skipped(text, signals).0
    }

    /// Parses the text of a search box, and lists what was skipped. Nothing is, in a text without an operator.
    pub fn parse_with_skipped(
        text: &str,
        signals: impl Fn(&str) -> Option<SignalShape>,
    ) -> (Self, Vec<Skipped>) {
        let parsed = syntax::parse(text, Strictness::Query);
        if !parsed.has_operator {
            return (Self::Text(text.to_owned()), Vec::new());
        }
        let mut binder = Binder::new(&signals, Strictness::Query);
        let root = parsed.root.and_then(|root| binder.bind(&root));
        let mut skipped = parsed.skipped;
        skipped.append(&mut binder.skipped);
        skipped.sort_by_key(|skipped| skipped.error.column);
        match root {
            Some(root) => (Self::Signals(BoundCondition::new(root)), skipped),
            None => (Self::Text(text.to_owned()), skipped),
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

fn without_duplicates<'a, T: PartialEq + ?Sized>(items: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut unique = Vec::new();
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

fn too_many(beyond: &Comparison) -> ConditionError {
    let message = format!("a condition has at most {MAX_COMPARISONS} comparisons");
    ConditionError { message, column: beyond.columns.subject }
}

impl Node {
    /// All of some parts; one alone stays what it is.
    fn all_of(parts: Vec<Self>) -> Option<Self> {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::All(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() > 1 { Some(Self::All(flat)) } else { flat.pop() }
    }

    /// Any of some parts; one alone stays what it is.
    fn any_of(parts: Vec<Self>) -> Option<Self> {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Any(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() > 1 { Some(Self::Any(flat)) } else { flat.pop() }
    }

    fn collect_into<'a>(&'a self, comparisons: &mut Vec<&'a Comparison>) {
        match self {
            Self::Comparison(comparison) => comparisons.push(comparison),
            Self::Not(inner) => inner.collect_into(comparisons),
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.collect_into(comparisons);
                }
            }
        }
    }
}

impl Comparison {
    fn key(&self) -> Option<&str> {
        match &self.subject {
            Subject::Key(key) => Some(key),
            Subject::Events(_) => None,
        }
    }
}

// Comparisons are equal wherever they were written.
impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        (&self.subject, self.operator, &self.value) == (&other.subject, other.operator, &other.value)
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

    /// The operator that holds exactly where this one does not.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::Above => Self::AtMost,
            Self::AtLeast => Self::Below,
            Self::Below => Self::AtLeast,
            Self::AtMost => Self::Above,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
        }
    }

    /// Whether it holds between two values.
    pub fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Above => left > right,
            Self::AtLeast => left >= right,
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => formatter.write_str(key),
            Self::Events(window) => write!(formatter, "{window}"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.subject, self.operator, syntax::quoted_if_needed(&self.value))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |formatter: &mut fmt::Formatter<'_>, parts: &[Self], joiner: &str| {
            for (index, part) in parts.iter().enumerate() {
                formatter.write_str(if index == 0 { "" } else { joiner })?;
                match (part, self) {
                    (Self::Any(_), Self::All(_)) => write!(formatter, "({part})")?,
                    _ => write!(formatter, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Comparison(comparison) => write!(formatter, "{comparison}"),
            Self::Not(inner) => match **inner {
                Self::All(_) | Self::Any(_) => write!(formatter, "not ({inner})"),
                _ => write!(formatter, "not {inner}"),
            },
            Self::All(parts) => joined(formatter, parts, " and "),
            Self::Any(parts) => joined(formatter, parts, " or "),
        }
    }
}

/// The canonical text of the condition, which parses to the same condition.
impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(formatter)
    }
}

impl fmt::Display for ConditionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for ConditionError {}

/// A sentence for a list of warnings.
impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, error } = self;
        write!(formatter, "skipped {}: {error}", syntax::shown(text))
    }
}
