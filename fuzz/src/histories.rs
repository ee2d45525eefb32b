//! The rendering of histories: bounded, and one line for each event, whatever anybody wrote.

use model::Timestamp;
use model::api::EventType;
use model::history::{History, HistoryEvent, MAX_TOKENS, estimate_tokens, fitting};

/// Characters at which some reader begins a new line.
const SEPARATORS: [char; 8] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}', '\u{0}'];

/// Runs one case: texts that `~` parts from each other.
pub fn check(data: &[u8]) {
    let all = String::from_utf8_lossy(data);
    let texts: Vec<String> = all.split('~').map(str::to_owned).collect();
    let at = Timestamp::from_seconds(1_767_225_600);
    let text = |index: usize| texts.get(index).cloned();
    let recent: Vec<HistoryEvent> = texts
        .iter()
        .enumerate()
        .map(|(index, content)| HistoryEvent {
            seq: i64::try_from(index).unwrap_or(0),
            kind: if index % 2 == 0 { EventType::Message } else { EventType::Event },
            name: text(index + 1),
            content: Some(content.clone()),
            metadata: text(index + 2),
            occurred_at: at,
            received_at: at,
        })
        .collect();
    let lines = fitting(&recent);
    let history =
        History { object_type: text(0).unwrap_or_default(), display_name: text(1), summary: None, recent };
    let rendered = history.render();
    assert!(estimate_tokens(&rendered) <= MAX_TOKENS + 50, "{} tokens", estimate_tokens(&rendered));
    let expected = if lines == 0 { 1 } else { lines + 2 };
    assert_eq!(rendered.lines().count(), expected, "{rendered}");
    let body = rendered.replace('\n', "");
    assert!(!body.contains(SEPARATORS), "{rendered:?}");
}
