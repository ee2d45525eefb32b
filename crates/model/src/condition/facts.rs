//! Facts: what is known about an object without asking an analyzer.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::syntax::{quoted_if_needed, shown};
use super::window::{EventWindow, UNITS, duration};
use super::{Comparison, ConditionError, Operator};

/// The facts about an object that conditions are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The type of the object.
    pub object_type: String,
    /// The time from when the object was first seen to the newest event read.
    pub age: Duration,
    /// The number of events in each window.
    pub events: HashMap<EventWindow, i64>,
}

/// A fact, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundFact {
    /// The number of events in a window.
    Events(EventWindow, Operator, i64),
    /// The time since the object was first seen. `=` and `!=` compare whole seconds.
    Age(Operator, Duration),
    /// The type of the object: `=` or `!=`.
    Type(Operator, String),
}

impl BoundFact {
    /// What it is compared with, under its text: a count, seconds or the type.
    pub(super) fn found_in(&self, facts: &Facts) -> (String, Value) {
        match self {
            Self::Events(window, ..) => (window.to_string(), Value::from(facts.events.get(window).copied())),
            Self::Age(..) => ("age".to_owned(), Value::from(facts.age.as_secs())),
            Self::Type(..) => ("type".to_owned(), Value::from(facts.object_type.as_str())),
        }
    }

    /// Whether it holds.
    pub fn holds(&self, facts: &Facts) -> bool {
        match self {
            Self::Events(window, operator, number) => {
                facts.events.get(window).is_some_and(|count| operator.holds(count, number))
            }
            Self::Age(operator @ (Operator::Equal | Operator::NotEqual), age) => {
                operator.holds(&facts.age.as_secs(), &age.as_secs())
            }
            Self::Age(operator, age) => operator.holds(&facts.age, age),
            Self::Type(operator, object_type) => operator.holds(&facts.object_type, object_type),
        }
    }

    /// The fact that holds where this one does not. Facts are always known.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Events(window, operator, number) => Self::Events(window, operator.negated(), number),
            Self::Age(operator, age) => Self::Age(operator.negated(), age),
            Self::Type(operator, object_type) => Self::Type(operator.negated(), object_type),
        }
    }
}

impl fmt::Display for EventWindow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.window.as_secs();
        let fits = |(_, unit): &(char, u64)| seconds.is_multiple_of(*unit);
        let (letter, unit) = UNITS.into_iter().find(fits).unwrap_or(('s', 1));
        let name = match self.name.as_deref() {
            None => "*".to_owned(),
            Some("*") => "\"*\"".to_owned(),
            Some(name) => quoted_if_needed(name),
        };
        write!(formatter, "events({name}, {}{letter})", seconds / unit)
    }
}

impl Comparison {
    pub(super) fn bind_events(&self, window: &EventWindow) -> Result<BoundFact, ConditionError> {
        let is_whole = !self.value.is_empty() && self.value.bytes().all(|byte| byte.is_ascii_digit());
        if !is_whole {
            return Err(self.wrong_fact("a number of events is a whole number"));
        }
        // More than anyone can send.
        let number = self.value.parse().unwrap_or(i64::MAX);
        Ok(BoundFact::Events(window.clone(), self.operator, number))
    }

    pub(super) fn bind_age(&self) -> Result<BoundFact, ConditionError> {
        let age = duration(&self.value).ok_or_else(|| {
            self.wrong_fact("an age is a duration such as 30s, 15m, 24h or 7d, at most 30d")
        })?;
        Ok(BoundFact::Age(self.operator, age))
    }

    pub(super) fn bind_type(&self) -> Result<BoundFact, ConditionError> {
        match self.operator {
            operator @ (Operator::Equal | Operator::NotEqual) => {
                Ok(BoundFact::Type(operator, self.value.clone()))
            }
            other => Err(ConditionError {
                message: format!("`type` is compared with = or !=, not {other}"),
                column: self.columns.operator,
            }),
        }
    }

    fn wrong_fact(&self, rule: &str) -> ConditionError {
        let message = format!("{rule}, not {}", shown(&self.value));
        ConditionError { message, column: self.columns.value }
    }
}
