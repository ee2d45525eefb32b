//! Conditions resolved against the signals that they name: the answers that each comparison accepts.
//!
//! Numbers are compared exactly, as whole millionths, which is what answers are rounded to: a bound is the decimal that
//! was written, and rounding to percents and to levels is half up.

use super::syntax::shown;
use super::{Comparison, ConditionError, Operator, Strictness, without_duplicates};
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
pub enum AnswerValue<'a> {
    /// A probability or a position.
    Number(f64),
    /// The most likely option.
    Choice(&'a str),
}

/// A condition over signals that exist. There is at least one comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundCondition {
    comparisons: Vec<BoundComparison>,
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
    /// Merges the ranges of each signal into one: few answers may lie between two bounds that each admit many.
    pub(super) fn all_of(comparisons: Vec<BoundComparison>) -> Self {
        let mut merged: Vec<BoundComparison> = Vec::new();
        for comparison in comparisons {
            let mut ranges = merged.iter_mut().filter(|other| other.key == comparison.key);
            let merges = ranges.any(|other| match (&mut other.accepts, &comparison.accepts) {
                (Accepts::Within(range), Accepts::Within(more)) => {
                    *range = range.intersected(*more);
                    true
                }
                _ => false,
            });
            if !merges {
                merged.push(comparison);
            }
        }
        Self { comparisons: merged }
    }

    /// The comparisons, all of which must hold.
    pub fn comparisons(&self) -> &[BoundComparison] {
        &self.comparisons
    }

    /// The keys that it names, without duplicates.
    pub fn keys(&self) -> Vec<&str> {
        without_duplicates(self.comparisons.iter().map(|comparison| comparison.key.as_str()))
    }

    /// Whether an object matches, by its answer to each signal.
    pub fn matches<'a>(&self, answer: impl Fn(&str) -> Option<AnswerValue<'a>>) -> bool {
        self.comparisons
            .iter()
            .all(|comparison| answer(&comparison.key).is_some_and(|value| comparison.accepts.admits(value)))
    }
}

impl Accepts {
    /// Whether an answer is accepted. One of another type never is.
    pub fn admits(&self, answer: AnswerValue<'_>) -> bool {
        match (self, answer) {
            (Self::Within(range), AnswerValue::Number(value)) => range.contains(value),
            (Self::Outside(range), AnswerValue::Number(value)) => !range.contains(value),
            (Self::Option(option), AnswerValue::Choice(choice)) => option == choice,
            (Self::OtherOption(option), AnswerValue::Choice(choice)) => option != choice,
            _ => false,
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
    pub(super) fn bind(
        &self,
        signals: impl Fn(&str) -> Option<SignalShape>,
        strictness: Strictness,
    ) -> Result<BoundComparison, ConditionError> {
        let accepts = match signals(&self.key) {
            None => Err(error(self.columns.key, format!("unknown signal {}", shown(&self.key)))),
            Some(SignalShape::Noul) => self.bind_noul(),
            Some(SignalShape::Score { levels }) => self.bind_score(levels),
            Some(SignalShape::Choice { options }) => self.bind_choice(&options, strictness),
        };
        Ok(BoundComparison { key: self.key.clone(), accepts: accepts? })
    }

    fn bind_noul(&self) -> Result<Accepts, ConditionError> {
        let number = self.number().ok_or_else(|| {
            self.wrong_value("is a probability: a number from 0 to 1, or a percentage up to 100")
        })?;
        let probability = if number.is_above(MILLION) { number.hundredth() } else { number };
        // Both sides in whole percents. Digits beyond the millionths cannot change the percent.
        let percents = (probability.millionths + PERCENT / 2) / PERCENT;
        let equal = ValueRange::nearest_to(percents * PERCENT, PERCENT);
        Ok(probability.compared(self.operator, Some(equal), ValueRange::PROBABILITIES))
    }

    fn bind_score(&self, levels: usize) -> Result<Accepts, ConditionError> {
        let number = self.number().ok_or_else(|| {
            let last = levels.saturating_sub(1);
            self.wrong_value(&format!("is a position: a number from 0 to {last}"))
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

    fn bind_choice(&self, options: &[String], strictness: Strictness) -> Result<Accepts, ConditionError> {
        let option = self.value.clone();
        let accepts = match self.operator {
            Operator::Equal => Accepts::Option(option),
            Operator::NotEqual => Accepts::OtherOption(option),
            other => {
                let message =
                    format!("{} is a choice: it is compared with = or !=, not {other}", shown(&self.key));
                return Err(error(self.columns.operator, message));
            }
        };
        if strictness == Strictness::Lenient || options.contains(&self.value) {
            Ok(accepts)
        } else {
            let options: Vec<String> = options.iter().map(|option| shown(option)).collect();
            Err(self.wrong_value(&format!("is a choice of {}", options.join(", "))))
        }
    }

    fn number(&self) -> Option<Decimal> {
        Decimal::parse(&self.value)
    }

    fn wrong_value(&self, description: &str) -> ConditionError {
        let message = format!("{} {description}, not {}", shown(&self.key), shown(&self.value));
        error(self.columns.value, message)
    }
}

fn error(column: usize, message: String) -> ConditionError {
    ConditionError { message, column }
}
