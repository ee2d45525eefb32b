//! The history: what an analyzer gets to read about an object, cut to a bounded length however many events there are.

use std::fmt::Write as _;
use std::ops::Range;

use crate::api::{EventType, PartKind};
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

/// A line of a history that tells about events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPart {
    /// The place of its event in the order of arrival; none for a line of the summary.
    pub seq: Option<i64>,
    /// What it tells about.
    pub kind: PartKind,
    /// Its bytes in the text of the history.
    pub line: Range<usize>,
    /// Where it begins to say what happened, after time and type.
    said_from: usize,
}

impl HistoryPart {
    /// What the part says, in the text of its history.
    pub fn said<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.said_from..self.line.end).unwrap_or_default().trim()
    }
}

/// Estimates the number of tokens in a text.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

impl HistoryEvent {
    /// The beginning of the event's line: when it happened, and its type.
    fn stamp(&self) -> String {
        format!("{} {}", self.occurred_at, self.kind.as_str())
    }

    /// The event as one line, truncated if it is too long.
    fn line(&self) -> String {
        let mut line = self.stamp();
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
        self.render_parts().0
    }

    /// The history as text, and which of its lines tell about events.
    pub fn render_parts(&self) -> (String, Vec<HistoryPart>) {
        let mut text = format!("Object of type {}", single_line(&self.object_type));
        if let Some(name) = &self.display_name {
            let _ = write!(text, ", called {}", single_line(name));
        }
        text.push_str(".\n");
        let heading = text.len();
        if let Some(summary) = &self.summary {
            text.push_str(&summarize(summary));
        }
        let mut text = cut(text, SUMMARY_TOKENS * BYTES_PER_TOKEN);
        let mut parts = summary_parts(&text, heading);
        let recent = &self.recent[self.recent.len() - fitting(&self.recent)..];
        if recent.is_empty() {
            return (text, parts);
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("Events, oldest first:\n");
        for event in recent {
            let start = text.len();
            text.push_str(&event.line());
            let said_from = start + event.stamp().len();
            let kind = match event.kind {
                EventType::Event => PartKind::Event,
                EventType::Message => PartKind::Message,
            };
            parts.push(HistoryPart { seq: Some(event.seq), kind, line: start..text.len(), said_from });
            text.push('\n');
        }
        (text, parts)
    }
}

/// The lines of the summary, which comes after the heading.
fn summary_parts(text: &str, heading: usize) -> Vec<HistoryPart> {
    let mut start = heading;
    let lines = text.get(heading..).unwrap_or_default().split_inclusive('\n');
    let part = |line: &str| {
        let said_from = start;
        start += line.len();
        HistoryPart { seq: None, kind: PartKind::Summary, line: said_from..start, said_from }
    };
    lines.map(part).collect()
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

    #[test]
    fn parts_are_the_lines_that_tell_about_events() {
        let mut summary = None;
        for content in ["hello", "who is it"] {
            let folded = Folded {
                kind: EventType::Message,
                name: None,
                content: Some(content),
                occurred_at: Timestamp::from_seconds(0),
                received_at: Timestamp::from_seconds(0),
            };
            summary = Some(CompactedState::fold(summary, folded));
        }
        let recent = vec![event(3, "pay\nnow"), event(4, "")];
        let history = History { object_type: "user".to_owned(), display_name: None, summary, recent };
        let (text, parts) = history.render_parts();
        assert_eq!(text, history.render());
        let told: Vec<_> = parts.iter().map(|part| (part.seq, part.kind, part.said(&text))).collect();
        assert_eq!(
            told,
            [
                (
                    None,
                    PartKind::Summary,
                    "Earlier: 2 events since 1970-01-01T00:00:00.000000Z, 2 messages and 0 actions."
                ),
                (None, PartKind::Summary, "Earlier message: hello"),
                (None, PartKind::Summary, "Earlier message: who is it"),
                (Some(3), PartKind::Message, "subject pay now {\"a\":1}"),
                (Some(4), PartKind::Message, "subject  {\"a\":1}"),
            ]
        );
        for part in parts {
            assert!(part.line.start == 0 || text.as_bytes()[part.line.start - 1] == b'\n');
            assert!(!text[part.line].trim_end().contains('\n'));
        }
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
