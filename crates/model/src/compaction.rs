//! The rolling summary of an object, into which each older event is folded once, in order of arrival.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::api::EventType;

/// The number of actions counted by name; further ones are counted together.
const MAX_ACTIONS: usize = 50;
/// The name that further actions are counted under.
const OTHER_ACTIONS: &str = "(other)";
/// The number of messages kept as samples, the newest ones.
const MAX_SAMPLES: usize = 8;
/// The length of a sample, in characters.
const MAX_SAMPLE: usize = 200;

/// The rolling summary of an object's older events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompactedState {
    /// The number of events folded in.
    pub total_events: i64,
    /// How many of them are messages.
    pub messages: i64,
    /// How many of them are actions.
    pub actions: i64,
    /// The number of actions by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub by_action: IndexMap<String, i64>,
    /// The newest messages, shortened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample_messages: Vec<String>,
    /// When the earliest of them happened.
    pub first_seen: Timestamp,
    /// When the latest of them was received.
    pub updated_at: Timestamp,
}

/// The parts of an event that the summary uses.
#[derive(Clone, Copy, Debug)]
pub struct Folded<'a> {
    /// The type of event.
    pub kind: EventType,
    /// The event's name, or a message's subject.
    pub name: Option<&'a str>,
    /// The text.
    pub content: Option<&'a str>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it was received.
    pub received_at: Timestamp,
}

impl CompactedState {
    /// Folds in one more event. One at a time, so that the grouping of events makes no difference.
    #[must_use]
    pub fn fold(state: Option<Self>, event: Folded<'_>) -> Self {
        let mut state = state.unwrap_or_else(|| Self {
            total_events: 0,
            messages: 0,
            actions: 0,
            by_action: IndexMap::new(),
            sample_messages: Vec::new(),
            first_seen: event.occurred_at,
            updated_at: event.received_at,
        });
        state.total_events += 1;
        state.first_seen = state.first_seen.min(event.occurred_at);
        state.updated_at = event.received_at;
        match event.kind {
            EventType::Message => {
                state.messages += 1;
                state.keep_sample(event);
            }
            EventType::Event => {
                state.actions += 1;
                state.count_action(event.name.unwrap_or("event"));
            }
        }
        state
    }

    fn count_action(&mut self, name: &str) {
        let is_counted = self.by_action.contains_key(name);
        let name = if is_counted || self.by_action.len() < MAX_ACTIONS { name } else { OTHER_ACTIONS };
        *self.by_action.entry(name.to_owned()).or_insert(0) += 1;
    }

    fn keep_sample(&mut self, event: Folded<'_>) {
        let Some(text) = event.content.or(event.name) else { return };
        if self.sample_messages.len() == MAX_SAMPLES {
            self.sample_messages.remove(0);
        }
        self.sample_messages.push(text.chars().take(MAX_SAMPLE).collect());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Raw = (bool, Option<String>, Option<String>, i32);

    fn fold_all(state: Option<CompactedState>, events: &[Raw]) -> Option<CompactedState> {
        events.iter().fold(state, |state, (is_message, name, content, second)| {
            let at = Timestamp::from_seconds(i64::from(*second));
            let kind = if *is_message { EventType::Message } else { EventType::Event };
            let event = Folded {
                kind,
                name: name.as_deref(),
                content: content.as_deref(),
                occurred_at: at,
                received_at: at,
            };
            Some(CompactedState::fold(state, event))
        })
    }

    proptest! {
        #[test]
        fn any_grouping_of_the_same_events_gives_the_same_summary(
            events in prop::collection::vec((any::<bool>(), prop::option::of("[a-z]{1,2}"), prop::option::of(".{0,20}"), any::<i32>()), 0..120),
            cuts in prop::collection::vec(0_usize..120, 0..5),
        ) {
            let whole = fold_all(None, &events);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(events.len())).collect();
            cuts.sort_unstable();
            let mut grouped = None;
            let mut start = 0;
            for cut in cuts.into_iter().chain([events.len()]) {
                // Through JSON, as it is stored between two analyses.
                grouped = grouped.map(|state: CompactedState| serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap());
                grouped = fold_all(grouped, &events[start..cut]);
                start = cut;
            }
            prop_assert_eq!(&grouped, &whole);
            if let Some(state) = whole {
                prop_assert_eq!(state.total_events, state.messages + state.actions);
                prop_assert_eq!(state.by_action.values().sum::<i64>(), state.actions);
                prop_assert!(state.by_action.len() <= MAX_ACTIONS + 1 && state.sample_messages.len() <= MAX_SAMPLES);
            }
        }
    }
}
