//! What rules would have done over the past of answers, one object at a time: the same conditions, the same order of answers
//! and the same states as when analyses are concluded.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::Timestamp;
use crate::condition::{BoundCondition, ComparedValue, Facts};
use crate::rule::RuleState;

/// A rule that is replayed.
#[derive(Clone, Debug)]
pub struct ReplayedRule {
    /// Its condition.
    pub condition: BoundCondition,
    /// Its cooldown.
    pub cooldown: Duration,
}

/// An analysis of the past.
#[derive(Clone, Copy, Debug)]
pub struct ReplayedAnalysis<'a> {
    /// When it was concluded.
    pub at: Timestamp,
    /// The newest event that was read.
    pub read_seq: i64,
    /// Its answers, by signal.
    pub answers: &'a [(&'a str, ComparedValue<'a>)],
    /// What was known about the object then, if a rule asks for it.
    pub facts: Option<&'a Facts>,
}

/// An object during a replay: its current answers, and the state of each rule.
#[derive(Debug)]
pub struct ReplayedObject {
    answers: HashMap<String, CurrentAnswer>,
    states: Vec<RuleState>,
}

#[derive(Debug)]
struct CurrentAnswer {
    read_seq: i64,
    value: OwnedValue,
}

#[derive(Debug)]
enum OwnedValue {
    Number(f64),
    Choice(String),
}

impl ReplayedObject {
    /// An object that no rule has seen.
    pub fn new(rules: &[ReplayedRule]) -> Self {
        Self { answers: HashMap::new(), states: vec![RuleState::default(); rules.len()] }
    }

    /// Takes in the next analysis, and returns the indexes of the rules that fire. An answer that read less than the current
    /// one does not replace it.
    pub fn conclude(&mut self, rules: &[ReplayedRule], analysis: ReplayedAnalysis<'_>) -> Vec<usize> {
        for (signal, value) in analysis.answers {
            self.put(signal, *value, analysis.read_seq);
        }
        let mut fired = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let matches = rule.condition.matches_with(|key| self.answer(key), analysis.facts);
            let (after, fires) = self.states[index].after(matches, rule.cooldown, analysis.at);
            self.states[index] = after;
            if fires {
                fired.push(index);
            }
        }
        fired
    }

    /// Whether the condition of a rule was true after the last analysis.
    pub fn is_true(&self, rule: usize) -> bool {
        self.states[rule].matched
    }

    /// The current values that a condition is about: numbers, names of options, and facts.
    pub fn values(&self, condition: &BoundCondition, facts: Option<&Facts>) -> Map<String, Value> {
        let answers = condition.keys().into_iter().filter_map(|key| {
            let value = match self.answer(key)? {
                ComparedValue::Number(number) => Value::from(number),
                ComparedValue::Choice(option) => Value::from(option),
            };
            Some((key.to_owned(), value))
        });
        let facts = facts.map_or_else(Vec::new, |facts| condition.values_of_facts(facts));
        answers.chain(facts).collect()
    }

    fn put(&mut self, signal: &str, value: ComparedValue<'_>, read_seq: i64) {
        let value = match value {
            ComparedValue::Number(number) => OwnedValue::Number(number),
            ComparedValue::Choice(option) => OwnedValue::Choice(option.to_owned()),
        };
        match self.answers.get_mut(signal) {
            Some(current) if current.read_seq > read_seq => {}
            Some(current) => *current = CurrentAnswer { read_seq, value },
            None => {
                self.answers.insert(signal.to_owned(), CurrentAnswer { read_seq, value });
            }
        }
    }

    fn answer(&self, signal: &str) -> Option<ComparedValue<'_>> {
        Some(match &self.answers.get(signal)?.value {
            OwnedValue::Number(number) => ComparedValue::Number(*number),
            OwnedValue::Choice(option) => ComparedValue::Choice(option),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Condition, SignalShape};

    fn rule(when: &str, cooldown: u64) -> ReplayedRule {
        let shape = |key: &str| match key {
            "topic" => Some(SignalShape::Choice { options: vec!["a".to_owned(), "b".to_owned()] }),
            _ => Some(SignalShape::Noul),
        };
        let condition = Condition::parse(when).unwrap().bind(shape).unwrap();
        ReplayedRule { condition, cooldown: Duration::from_secs(cooldown) }
    }

    #[test]
    fn an_older_answer_replaces_no_newer_one_and_others_stay() {
        let rules = [rule("risk > 50 and topic = a", 0), rule("risk > 50", 60)];
        let mut object = ReplayedObject::new(&rules);
        let mut conclude = |second, read_seq, answers: &[(&str, ComparedValue<'_>)]| {
            let at = Timestamp::from_seconds(second);
            object.conclude(&rules, ReplayedAnalysis { at, read_seq, answers, facts: None })
        };
        let (high, low) = (ComparedValue::Number(0.9), ComparedValue::Number(0.1));
        let none: Vec<usize> = Vec::new();
        assert_eq!(conclude(0, 5, &[("topic", ComparedValue::Choice("a"))]), none);
        assert_eq!(conclude(1, 7, &[("risk", high)]), [0, 1], "the answer to the other signal still stands");
        assert_eq!(conclude(30, 6, &[("risk", low)]), none, "it read less");
        assert_eq!(conclude(61, 7, &[("risk", high)]), [1], "the cooldown is over");
        assert_eq!(conclude(62, 8, &[("risk", low)]), none);
        assert_eq!(conclude(63, 8, &[("risk", high)]), [0], "it read as much");
        assert_eq!(
            Value::Object(object.values(&rules[0].condition, None)),
            serde_json::json!({"risk": 0.9, "topic": "a"})
        );
    }
}
