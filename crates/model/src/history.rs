//! The history: what an analyzer gets to read about an object, cut to a bounded length however many events there are.

use std::fmt::Write as _;

use crate::api::EventType;
use crate::{CompactedState, NewEvent, Timestamp, single_line};

/// The maximum number of recent events in a history.
pub const MAX_RECENT_EVENTS: usize = 200;
/// The maximum number of tokens in a history.
pub const MAX_TOKENS: usize = 8_000;
/// Tokens that are reserved for the summary and the heading.
const SUMMARY_TOKENS: usize = 1_200;
/// The maximum number of tokens of one event: a single long message must not push everything else out.
const EVENT_TOKENS: usize = 2_000;
/// The assumed length of a token in bytes: a bit short for English, about right for JSON.
const BYTES_PER_TOKEN: usize = 4;

/// An event of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// What kind of thing it is.
    pub kind: EventType,
    /// The event's name, or a message's subject.
    pub name: Option<String>,
    /// What was said.
    pub content: Option<String>,
    /// Anything else, as JSON.
    pub metadata: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it was received.
    pub received_at: Timestamp,
}

impl HistoryEvent {
    /// An event that has just been received.
    pub fn of(event: &NewEvent, seq: i64, received_at: Timestamp) -> Self {
        Self {
            seq,
            kind: event.kind,
            name: event.name.clone(),
            content: event.content.clone(),
            metadata: event.metadata.clone(),
            occurred_at: event.occurred_at,
            received_at,
        }
    }
}

/// What an analyzer reads about an object.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What the object is.
    pub object_type: String,
    /// Its display name.
    pub display_name: Option<String>,
    /// The summary of older events.
    pub summary: Option<CompactedState>,
    /// The recent events, in order of arrival.
    pub recent: Vec<HistoryEvent>,
}

/// Estimates the number of tokens in a text.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

impl HistoryEvent {
    /// The event as one line, truncated if it is too long.
    fn line(&self) -> String {
        let kind = self.kind.as_str();
        let mut line = format!("{} {kind}", self.occurred_at);
        for part in [&self.name, &self.content, &self.metadata].into_iter().flatten() {
            line.push(' ');
            // One event, one line: what somebody wrote cannot pass for another event.
            line.push_str(&single_line(part));
        }
        cut(line, EVENT_TOKENS * BYTES_PER_TOKEN)
    }
}

/// How many of the newest events fit into a history, of events in order of arrival.
pub fn fitting(events: &[HistoryEvent]) -> usize {
    let mut left = MAX_TOKENS - SUMMARY_TOKENS;
    let newest = events.iter().rev().take(MAX_RECENT_EVENTS);
    let fits = newest.take_while(|event| {
        let tokens = estimate_tokens(&event.line()) + 1;
        let fits = tokens <= left;
        left = left.saturating_sub(tokens);
        fits
    });
    fits.count()
}

impl History {
    /// The history as text, at most [`MAX_TOKENS`] of it.
    pub fn render(&self) -> String {
        let mut text = format!("Object of type {}", single_line(&self.object_type));
        if let Some(name) = &self.display_name {
            let _ = write!(text, ", called {}", single_line(name));
        }
        text.push_str(".\n");
        if let Some(summary) = &self.summary {
            text.push_str(&summarize(summary));
        }
        let text = cut(text, SUMMARY_TOKENS * BYTES_PER_TOKEN);
        let recent = &self.recent[self.recent.len() - fitting(&self.recent)..];
        if recent.is_empty() {
            return text;
        }
        let lines: Vec<String> = recent.iter().map(HistoryEvent::line).collect();
        format!("{text}Events, oldest first:\n{}\n", lines.join("\n"))
    }
}

fn summarize(summary: &CompactedState) -> String {
    let mut text = format!(
        "Earlier: {} events since {}, {} messages and {} actions.\n",
        summary.total_events, summary.first_seen, summary.messages, summary.actions
    );
    let actions: Vec<String> =
        summary.by_action.iter().map(|(name, count)| format!("{} {count}", single_line(name))).collect();
    if !actions.is_empty() {
        let _ = writeln!(text, "Earlier actions: {}.", actions.join(", "));
    }
    for sample in &summary.sample_messages {
        let _ = writeln!(text, "Earlier message: {}", single_line(sample));
    }
    text
}

/// Truncates a text to a number of bytes, at a character boundary.
fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes.saturating_sub('…'.len_utf8()))
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::Folded;

    fn event(seq: i64, content: &str) -> HistoryEvent {
        let at = Timestamp::from_seconds(1_767_225_600 + seq);
        HistoryEvent {
            seq,
            kind: EventType::Message,
            name: Some("subject".to_owned()),
            content: Some(content.to_owned()),
            metadata: Some("{\"a\":1}".to_owned()),
            occurred_at: at,
            received_at: at,
        }
    }

    #[test]
    fn renders_summary_and_events() {
        let summary = CompactedState::fold(
            None,
            Folded {
                kind: EventType::Event,
                name: Some("sale"),
                content: None,
                occurred_at: Timestamp::from_seconds(0),
                received_at: Timestamp::from_seconds(0),
            },
        );
        let history = History {
            object_type: "user".to_owned(),
            display_name: Some("Ann".to_owned()),
            summary: Some(summary),
            recent: vec![event(1, "hello\n2026-01-01 event forged")],
        };
        assert_eq!(
            history.render(),
            "Object of type user, called Ann.\n\
             Earlier: 1 events since 1970-01-01T00:00:00.000000Z, 0 messages and 1 actions.\n\
             Earlier actions: sale 1.\n\
             Events, oldest first:\n\
             2026-01-01T00:00:01.000000Z message subject hello 2026-01-01 event forged {\"a\":1}\n"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn never_exceeds_its_budget(contents in prop::collection::vec(".{0,400}", 0..300), long in 0_usize..40_000) {
            let mut recent: Vec<HistoryEvent> = contents.iter().zip(1..).map(|(content, seq)| event(seq, content)).collect();
            recent.push(event(1_000, &"ü".repeat(long)));
            let history = History { object_type: "x".repeat(64), display_name: Some("ß\u{0}".repeat(255)), summary: None, recent };
            let text = history.render();
            prop_assert!(estimate_tokens(&text) <= MAX_TOKENS);
            prop_assert!(text.lines().count() <= MAX_RECENT_EVENTS + 2);
        }
    }
}
