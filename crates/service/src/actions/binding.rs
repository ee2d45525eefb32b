//! Rules and the signals that their conditions name.

use std::collections::{BTreeSet, HashMap};

use model::condition::{BoundCondition, Condition, SignalShape};
use store::actions::rules::Rule;
use store::analysis::signals::Signal;

use crate::objects::answers::shape;

/// The rules that can be bound to the current signals. One that names a disabled signal cannot, also if it is called like a fact.
pub(crate) fn bind<'a>(
    rules: &[&'a Rule],
    enabled: &[Signal],
    disabled: &[Signal],
) -> Vec<(&'a Rule, BoundCondition)> {
    let is_disabled = |key: &&str| disabled.iter().any(|signal| signal.key == **key);
    let parsed: Vec<(&Rule, Condition)> = rules
        .iter()
        .filter_map(|rule| Some((*rule, Condition::parse(&rule.condition).ok()?)))
        .filter(|(_, condition)| !condition.keys().iter().any(is_disabled))
        .collect();
    let used: BTreeSet<&str> = parsed.iter().flat_map(|(_, condition)| condition.keys()).collect();
    let shapes: HashMap<&str, SignalShape> =
        used.iter().filter_map(|key| Some((*key, shape(enabled, key)?))).collect();
    let bound = parsed
        .iter()
        .filter_map(|(rule, condition)| Some((*rule, condition.bind(|key| shapes.get(key).cloned()).ok()?)));
    bound.collect()
}
