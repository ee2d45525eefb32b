//! Conditions resolved against the signals that they name: the answers that each comparison accepts.
//!
//! There is no `not` in a bound condition: it is moved inwards to the comparisons, each of which has an opposite. That
//! keeps the three values of logic: neither a comparison nor its opposite accepts a missing answer, and `all` and `any` are
//! true exactly where they are true with every unknown taken for false.
//!
//! Numbers are compared exactly, as whole millionths, which is what answers are rounded to: a bound is the decimal that
//! was written, and rounding to percents and to levels is half up.

use serde_json::Value;

use super::facts::{BoundFact, Facts};
use super::syntax::shown;
use super::window::EventWindow;
use super::{
    Comparison, ConditionError, MAX_COMPARISONS, Node, Operator, Skipped, Strictness, Subject, too_many,
    without_duplicates,
};
use crate::{Question, SignalType};

const MILLION: u32 = 1_000_000;
/// A percent, in millionths.
const PERCENT: u32 = MILLION / 100;

/// The answers that a signal can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalShape {
    /// A probability.
    Noul,
    /// A position on a scale.
    Score {
        /// The number of levels.
        levels: usize,
    },
    /// One of several options.
    Choice {
        /// Their names.
        options: Vec<String>,
    },
}

/// An answer to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComparedValue<'a> {
    /// A probability or a position.
    Number(f64),
    /// The most likely option.
    Choice(&'a str),
}

/// A condition over signals that exist. There is at least one comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundCondition {
    root: BoundNode,
}

/// A part of a bound condition. `All` and `Any` have two members or more, none of which is of their own kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundNode {
    /// A comparison with a signal.
    Answer(BoundComparison),
    /// A comparison with a fact.
    Fact(BoundFact),
    /// All must hold.
    All(Vec<Self>),
    /// One must hold.
    Any(Vec<Self>),
}

/// A signal, and the answers that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundComparison {
    /// The key of the signal.
    pub key: String,
    /// The accepted answers.
    pub accepts: Accepts,
}

/// The answers that a comparison accepts. A missing answer is never accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Numbers within the range.
    Within(ValueRange),
    /// Numbers outside the range.
    Outside(ValueRange),
    /// This option.
    Option(String),
    /// Every other option.
    OtherOption(String),
}

/// A range of answers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRange {
    from_millionths: u32,
    to_millionths: u32,
}

impl From<&Question> for SignalShape {
    fn from(question: &Question) -> Self {
        match question.kind {
            SignalType::Noul => Self::Noul,
            SignalType::Score => Self::Score { levels: question.candidates.len() },
            SignalType::Choice => {
                let names = question.candidates.iter().map(|candidate| candidate.name.clone());
                Self::Choice { options: names.collect() }
            }
        }
    }
}

impl BoundCondition {
    pub(super) fn new(root: BoundNode) -> Self {
        Self { root }
    }

    /// The condition as a tree.
    pub fn root(&self) -> &BoundNode {
        &self.root
    }

    /// The comparisons with signals.
    pub fn comparisons(&self) -> Vec<&BoundComparison> {
        let mut comparisons = Vec::new();
        self.root.each(&mut |leaf| {
            if let BoundNode::Answer(comparison) = leaf {
                comparisons.push(comparison);
            }
        });
        comparisons
    }

    /// The comparisons with facts.
    pub fn facts(&self) -> Vec<&BoundFact> {
        let mut facts = Vec::new();
        self.root.each(&mut |leaf| {
            if let BoundNode::Fact(fact) = leaf {
                facts.push(fact);
            }
        });
        facts
    }

    /// The facts that it is about, each under its text: counts, seconds and the type.
    pub fn values_of_facts(&self, facts: &Facts) -> Vec<(String, Value)> {
        self.facts().into_iter().map(|fact| fact.found_in(facts)).collect()
    }

    /// The keys of the signals that it names, without duplicates.
    pub fn keys(&self) -> Vec<&str> {
        without_duplicates(self.comparisons().into_iter().map(|comparison| comparison.key.as_str()))
    }

    /// The windows in which it counts events, without duplicates.
    pub fn event_windows(&self) -> Vec<&EventWindow> {
        without_duplicates(self.facts().into_iter().filter_map(|fact| match fact {
            BoundFact::Events(window, ..) => Some(window),
            BoundFact::Age(..) | BoundFact::Type(..) => None,
        }))
    }

    /// Whether an object matches, by its answer to each signal. No fact holds.
    pub fn matches<'a>(&self, answer: impl Fn(&str) -> Option<ComparedValue<'a>>) -> bool {
        self.root.holds(&answer, None)
    }

    /// Whether an object matches, by its answer to each signal and its facts.
    pub fn matches_with<'a>(
        &self,
        answer: impl Fn(&str) -> Option<ComparedValue<'a>>,
        facts: Option<&Facts>,
    ) -> bool {
        self.root.holds(&answer, facts)
    }
}

impl BoundNode {
    /// All of some parts. The ranges of each signal are merged into one: few answers may lie between two bounds that each
    /// admit many.
    fn all_of(parts: Vec<Self>) -> Option<Self> {
        let mut merged: Vec<Self> = Vec::new();
        let flat = parts.into_iter().flat_map(|part| match part {
            Self::All(inner) => inner,
            other => vec![other],
        });
        for part in flat {
            let mut ranges = merged.iter_mut().filter_map(|other| match (other, &part) {
                (Self::Answer(other), Self::Answer(part)) if other.key == part.key => Some((other, part)),
                _ => None,
            });
            let merges = ranges.any(|(other, part)| match (&mut other.accepts, &part.accepts) {
                (Accepts::Within(range), Accepts::Within(more)) => {
                    *range = range.intersected(*more);
                    true
                }
                _ => false,
            });
            if !merges {
                merged.push(part);
            }
        }
        if merged.len() > 1 { Some(Self::All(merged)) } else { merged.pop() }
    }

    /// Any of some parts.
    fn any_of(parts: Vec<Self>) -> Option<Self> {
        let flat = parts.into_iter().flat_map(|part| match part {
            Self::Any(inner) => inner,
            other => vec![other],
        });
        let mut flat: Vec<Self> = flat.collect();
        if flat.len() > 1 { Some(Self::Any(flat)) } else { flat.pop() }
    }

    fn each<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        match self {
            Self::Answer(_) | Self::Fact(_) => visit(self),
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.each(visit);
                }
            }
        }
    }

    fn holds<'a>(&self, answer: &impl Fn(&str) -> Option<ComparedValue<'a>>, facts: Option<&Facts>) -> bool {
        match self {
            Self::Answer(comparison) => {
                answer(&comparison.key).is_some_and(|value| comparison.accepts.admits(value))
            }
            Self::Fact(fact) => facts.is_some_and(|facts| fact.holds(facts)),
            Self::All(parts) => parts.iter().all(|part| part.holds(answer, facts)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(answer, facts)),
        }
    }
}

/// Resolves a condition, and skips what is invalid.
pub(super) struct Binder<'s> {
    signals: &'s dyn Fn(&str) -> Option<SignalShape>,
    strictness: Strictness,
    /// The comparisons that were bound.
    bound: usize,
    pub(super) skipped: Vec<Skipped>,
}

impl<'s> Binder<'s> {
    pub(super) fn new(signals: &'s dyn Fn(&str) -> Option<SignalShape>, strictness: Strictness) -> Self {
        Self { signals, strictness, bound: 0, skipped: Vec::new() }
    }

    /// Resolves a part; none if nothing of it is valid.
    pub(super) fn bind(&mut self, node: &Node) -> Option<BoundNode> {
        self.bind_part(node, false)
    }

    // The depth of recursion is that of the text, which is bounded.
    fn bind_part(&mut self, node: &Node, is_negated: bool) -> Option<BoundNode> {
        match node {
            Node::Comparison(comparison) => self.bind_or_skip(comparison, is_negated),
            Node::Not(inner) => self.bind_part(inner, !is_negated),
            Node::All(parts) | Node::Any(parts) => {
                let bound = parts.iter().filter_map(|part| self.bind_part(part, is_negated)).collect();
                // Not all is any not, and not any is all not.
                let is_all = matches!(node, Node::All(_)) != is_negated;
                if is_all { BoundNode::all_of(bound) } else { BoundNode::any_of(bound) }
            }
        }
    }

    fn bind_or_skip(&mut self, comparison: &Comparison, is_negated: bool) -> Option<BoundNode> {
        let bound = match self.bind_comparison(comparison, is_negated) {
            Ok(_) if self.bound == MAX_COMPARISONS => Err(too_many(comparison)),
            other => other,
        };
        match bound {
            Ok(bound) => {
                self.bound += 1;
                Some(bound)
            }
            Err(error) => {
                if self.skipped.len() < MAX_COMPARISONS {
                    self.skipped.push(Skipped { text: comparison.to_string(), error });
                }
                None
            }
        }
    }

    fn bind_comparison(
        &self,
        comparison: &Comparison,
        is_negated: bool,
    ) -> Result<BoundNode, ConditionError> {
        let key = match &comparison.subject {
            Subject::Events(window) => {
                return self.fact(comparison, comparison.bind_events(window), is_negated);
            }
            Subject::Key(key) => key,
        };
        let accepts = match ((self.signals)(key), key.as_str()) {
            (Some(SignalShape::Noul), _) => comparison.bind_noul(key),
            (Some(SignalShape::Score { levels }), _) => comparison.bind_score(key, levels),
            (Some(SignalShape::Choice { options }), _) => {
                comparison.bind_choice(key, &options, self.strictness)
            }
            (None, "age") => return self.fact(comparison, comparison.bind_age(), is_negated),
            (None, "type") => return self.fact(comparison, comparison.bind_type(), is_negated),
            (None, _) => Err(error(comparison.columns.subject, format!("unknown signal {}", shown(key)))),
        };
        let accepts = if is_negated { accepts?.negated() } else { accepts? };
        Ok(BoundNode::Answer(BoundComparison { key: key.clone(), accepts }))
    }

    fn fact(
        &self,
        comparison: &Comparison,
        fact: Result<BoundFact, ConditionError>,
        is_negated: bool,
    ) -> Result<BoundNode, ConditionError> {
        if self.strictness == Strictness::Query {
            let message =
                format!("{} is a fact, which only rules know", shown(&comparison.subject.to_string()));
            return Err(error(comparison.columns.subject, message));
        }
        Ok(BoundNode::Fact(if is_negated { fact?.negated() } else { fact? }))
    }
}

impl Accepts {
    /// Whether an answer is accepted. One of another type never is.
    pub fn admits(&self, answer: ComparedValue<'_>) -> bool {
        match (self, answer) {
            (Self::Within(range), ComparedValue::Number(value)) => range.contains(value),
            (Self::Outside(range), ComparedValue::Number(value)) => !range.contains(value),
            (Self::Option(option), ComparedValue::Choice(choice)) => option == choice,
            (Self::OtherOption(option), ComparedValue::Choice(choice)) => option != choice,
            _ => false,
        }
    }

    /// What is accepted of all answers but these.
    fn negated(self) -> Self {
        match self {
            // Nothing is within an empty range, and two ranges outside of it would overlap.
            Self::Within(range) if range.is_empty() => Self::Within(ValueRange::POSITIONS),
            Self::Within(range) => Self::Outside(range),
            Self::Outside(range) => Self::Within(range),
            Self::Option(option) => Self::OtherOption(option),
            Self::OtherOption(option) => Self::Option(option),
        }
    }
}

impl ValueRange {
    const PROBABILITIES: Self = Self { from_millionths: 0, to_millionths: MILLION };
    /// Ends far above any level, because answers from before the scale was shortened count too.
    const POSITIONS: Self = Self { from_millionths: 0, to_millionths: u32::MAX };
    /// No answer.
    const NONE: Self = Self { from_millionths: u32::MAX, to_millionths: 0 };

    /// The lowest and the highest number in the range. Both lie halfway between two possible answers, so that no
    /// floating-point error can put an answer on the wrong side.
    pub fn bounds(self) -> (f64, f64) {
        let low = f64::from(self.from_millionths) - 0.5;
        let high = f64::from(self.to_millionths) + 0.5;
        (low / f64::from(MILLION), high / f64::from(MILLION))
    }

    fn is_empty(self) -> bool {
        self.from_millionths > self.to_millionths
    }

    fn intersected(self, other: Self) -> Self {
        Self {
            from_millionths: self.from_millionths.max(other.from_millionths),
            to_millionths: self.to_millionths.min(other.to_millionths),
        }
    }

    // Compares the same numbers in the same way as the databases.
    fn contains(self, value: f64) -> bool {
        let (low, high) = self.bounds();
        low <= value && value <= high
    }

    /// The answers that round, half up, to `multiple`, which is a multiple of `step`.
    fn nearest_to(multiple: u32, step: u32) -> Self {
        let half = step / 2;
        Self {
            from_millionths: multiple.saturating_sub(half),
            to_millionths: multiple.saturating_add(half - 1),
        }
    }
}

/// A decimal number, in millionths.
#[derive(Clone, Copy)]
struct Decimal {
    /// Whether it is below zero; the other fields describe its absolute value.
    negative: bool,
    /// Rounded down; `u32::MAX` for every larger number.
    millionths: u32,
    /// Whether that is the exact number.
    exact: bool,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (sign, text) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = !(whole.is_empty() && fraction.is_empty())
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        if !is_number {
            return None;
        }
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
        let fraction_millionths = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        let whole: Option<u32> = format!("0{whole}").parse().ok();
        let millionths = whole
            .and_then(|whole| whole.checked_mul(MILLION))
            .and_then(|millionths| millionths.checked_add(fraction_millionths));
        let nothing_follows = fraction.bytes().skip(6).all(|digit| digit == b'0');
        let exact = nothing_follows && millionths.is_some();
        let millionths = millionths.unwrap_or(u32::MAX);
        let is_zero = exact && millionths == 0;
        Some(Self { negative: sign == "-" && !is_zero, millionths, exact })
    }

    fn is_above(self, millionths: u32) -> bool {
        self.millionths > millionths || (self.millionths == millionths && !self.exact)
    }

    fn hundredth(self) -> Self {
        let exact = self.exact && self.millionths.is_multiple_of(100);
        Self { millionths: self.millionths / 100, exact, ..self }
    }

    /// The answers out of `all` that satisfy the comparison with this number. `equal` are those that count as equal.
    fn compared(self, operator: Operator, equal: Option<ValueRange>, all: ValueRange) -> Accepts {
        if self.negative {
            let is_below_all = matches!(operator, Operator::Above | Operator::AtLeast | Operator::NotEqual);
            return Accepts::Within(if is_below_all { all } else { ValueRange::NONE });
        }
        let from = |from_millionths| ValueRange { from_millionths, ..all };
        let up_to = |to_millionths| ValueRange { to_millionths, ..all };
        let next = self.millionths.checked_add(1);
        let rounded_up = if self.exact { Some(self.millionths) } else { next };
        let range = match operator {
            Operator::Above => next.map(from),
            Operator::AtLeast => rounded_up.map(from),
            Operator::AtMost => Some(up_to(self.millionths)),
            Operator::Below => match rounded_up {
                Some(bound) => bound.checked_sub(1).map(up_to),
                None => Some(all),
            },
            Operator::Equal => equal,
            Operator::NotEqual => return equal.map_or(Accepts::Within(all), Accepts::Outside),
        };
        Accepts::Within(range.unwrap_or(ValueRange::NONE))
    }
}

impl Comparison {
    fn bind_noul(&self, key: &str) -> Result<Accepts, ConditionError> {
        let number = self.number().ok_or_else(|| {
            self.wrong_value(
                key,
                "is a probability: from 0 to 1, or in percent without the sign, such as 0.7 or 70",
            )
        })?;
        let probability = if number.is_above(MILLION) { number.hundredth() } else { number };
        // Both sides in whole percents. Digits beyond the millionths cannot change the percent.
        let percents = (probability.millionths + PERCENT / 2) / PERCENT;
        let equal = ValueRange::nearest_to(percents * PERCENT, PERCENT);
        Ok(probability.compared(self.operator, Some(equal), ValueRange::PROBABILITIES))
    }

    fn bind_score(&self, key: &str, levels: usize) -> Result<Accepts, ConditionError> {
        let number = self.number().ok_or_else(|| {
            let last = levels.saturating_sub(1);
            self.wrong_value(key, &format!("is a position: a number from 0 to {last}"))
        })?;
        let is_level = number.exact && number.millionths.is_multiple_of(MILLION);
        let equal = if is_level {
            Some(ValueRange::nearest_to(number.millionths, MILLION))
        } else {
            let exact = ValueRange { from_millionths: number.millionths, to_millionths: number.millionths };
            number.exact.then_some(exact)
        };
        Ok(number.compared(self.operator, equal, ValueRange::POSITIONS))
    }

    fn bind_choice(
        &self,
        key: &str,
        options: &[String],
        strictness: Strictness,
    ) -> Result<Accepts, ConditionError> {
        let option = self.value.clone();
        let accepts = match self.operator {
            Operator::Equal => Accepts::Option(option),
            Operator::NotEqual => Accepts::OtherOption(option),
            other => {
                let message = format!("{} is a choice: it is compared with = or !=, not {other}", shown(key));
                return Err(error(self.columns.operator, message));
            }
        };
        if strictness == Strictness::Query || options.contains(&self.value) {
            Ok(accepts)
        } else {
            let options: Vec<String> = options.iter().map(|option| shown(option)).collect();
            Err(self.wrong_value(key, &format!("is a choice of {}", options.join(", "))))
        }
    }

    fn number(&self) -> Option<Decimal> {
        Decimal::parse(&self.value)
    }

    fn wrong_value(&self, key: &str, description: &str) -> ConditionError {
        let message = format!("{} {description}, not {}", shown(key), shown(&self.value));
        error(self.columns.value, message)
    }
}

fn error(column: usize, message: String) -> ConditionError {
    ConditionError { message, column }
}
