//! Validation of events, object ids and object types.

use serde::Deserialize;
use serde_json::Value;

use crate::Timestamp;
use crate::api::{EventInput, EventType};

/// The longest id of an object, in characters.
const MAX_OBJECT_ID: usize = 255;
/// The longest type of an object, in characters.
const MAX_OBJECT_TYPE: usize = 64;
/// The longest name of an event, in characters.
const MAX_NAME: usize = 255;
/// The longest content, in bytes.
const MAX_CONTENT: usize = 32 * 1024;
/// The largest metadata, in bytes of JSON.
const MAX_METADATA: usize = 16 * 1024;
/// The maximum number of events in one request.
pub const MAX_EVENTS: usize = 500;

/// A validated event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The type of event.
    pub kind: EventType,
    /// The event's name, or a message's subject.
    pub name: Option<String>,
    /// The text.
    pub content: Option<String>,
    /// Any other data, as JSON.
    pub metadata: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
}

impl NewEvent {
    /// The bytes of its content and metadata: what counts as storage while the event is kept.
    pub fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, String::len) + self.metadata.as_ref().map_or(0, String::len)
    }
}

/// Validates the events of a request; the error names the index and the field of the first invalid one.
pub fn check_events(inputs: Vec<EventInput>, max: usize, now: Timestamp) -> Result<Vec<NewEvent>, String> {
    if inputs.is_empty() || inputs.len() > max {
        return Err(format!("events: there must be 1 to {max}, there are {}", inputs.len()));
    }
    let check =
        |(index, input)| check_event(input, now).map_err(|reason| format!("events[{index}].{reason}"));
    inputs.into_iter().enumerate().map(check).collect()
}

fn check_event(input: EventInput, now: Timestamp) -> Result<NewEvent, String> {
    if input.name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME) {
        return Err(format!("name: it must have at most {MAX_NAME} characters"));
    }
    if input.content.as_ref().is_some_and(|content| content.len() > MAX_CONTENT) {
        return Err(format!("content: it must have at most {MAX_CONTENT} bytes"));
    }
    let metadata = match input.metadata.map(|raw| raw.get().to_owned()).filter(|text| text != "null") {
        Some(text) if !text.starts_with('{') => return Err("metadata: it must be an object".to_owned()),
        Some(text) if text.len() > MAX_METADATA => {
            return Err(format!("metadata: it must have at most {MAX_METADATA} bytes as JSON"));
        }
        metadata => metadata,
    };
    Ok(NewEvent {
        kind: input.kind,
        name: input.name,
        content: input.content,
        metadata,
        occurred_at: input.occurred_at.unwrap_or(now),
    })
}

/// The object's display name from the newest of these events whose `metadata.name` is a string.
pub fn display_name(events: &[NewEvent]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        name: Value,
    }
    events.iter().rev().find_map(|event| {
        let named: Named = serde_json::from_str(event.metadata.as_deref()?).ok()?;
        match named.name {
            Value::String(name) if !name.trim().is_empty() => Some(name.chars().take(MAX_NAME).collect()),
            _ => None,
        }
    })
}

/// Validates an object's id: 1 to 255 characters without control characters.
pub fn check_object_id(id: &str) -> Result<(), String> {
    if (1..=MAX_OBJECT_ID).contains(&id.chars().count()) && !id.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(format!("object_id: it must have 1 to {MAX_OBJECT_ID} characters, and no control characters"))
    }
}

/// Validates an object's type.
pub fn check_object_type(kind: &str) -> Result<(), String> {
    if (1..=MAX_OBJECT_TYPE).contains(&kind.chars().count()) && !kind.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(format!("object_type: it must have 1 to {MAX_OBJECT_TYPE} characters, and no control characters"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(event: &Value) -> Result<NewEvent, String> {
        let input: EventInput = serde_json::from_str(&event.to_string()).unwrap();
        let events = check_events(vec![input], MAX_EVENTS, Timestamp::from_seconds(7))?;
        Ok(events.into_iter().next().unwrap())
    }

    #[test]
    fn an_event_keeps_its_values() {
        let event = check(&json!({"type": "event", "name": "sale", "metadata": {"z": 1, "a": [2]}})).unwrap();
        assert_eq!(event.metadata.as_deref(), Some(r#"{"z":1,"a":[2]}"#), "order of keys included");
        assert_eq!(event.occurred_at, Timestamp::from_seconds(7), "the time of receipt");
        let event =
            check(&json!({"type": "message", "occurred_at": "2026-01-01T00:00:00Z", "metadata": null}))
                .unwrap();
        assert_eq!((event.occurred_at, event.metadata), (Timestamp::from_seconds(1_767_225_600), None));
    }

    #[test]
    fn limits_name_the_index_and_the_field() {
        let name = "ü".repeat(255);
        assert!(check(&json!({"type": "event", "name": name, "content": "x".repeat(32 * 1024)})).is_ok());
        for (event, field) in [
            (json!({"type": "event", "name": "ü".repeat(256)}), "events[0].name"),
            (json!({"type": "event", "content": "x".repeat(32 * 1024 + 1)}), "events[0].content"),
            (json!({"type": "event", "metadata": {"x": "y".repeat(16 * 1024)}}), "events[0].metadata"),
            (json!({"type": "event", "metadata": [1]}), "events[0].metadata"),
            (json!({"type": "event", "metadata": "text"}), "events[0].metadata"),
        ] {
            assert!(check(&event).unwrap_err().starts_with(field), "{field}");
        }
        assert!(
            check_events(Vec::new(), MAX_EVENTS, Timestamp::from_seconds(0))
                .unwrap_err()
                .starts_with("events:")
        );
    }

    #[test]
    fn the_newest_name_becomes_the_display_name() {
        let named = |name: &Value| check(&json!({"type": "event", "metadata": {"name": name}})).unwrap();
        let events = [
            named(&json!("Ann")),
            named(&json!("Bea")),
            named(&json!(3)),
            check(&json!({"type": "event"})).unwrap(),
        ];
        assert_eq!(display_name(&events).as_deref(), Some("Bea"));
        assert_eq!(display_name(&events[2..]), None);
    }

    #[test]
    fn ids_may_be_almost_anything() {
        for id in ["a", "a/b", "..", "ünï 😀", "%2F", " ", &"😀".repeat(255)] {
            assert!(check_object_id(id).is_ok(), "{id}");
        }
        for id in ["", "a\nb", "\u{0}", "\u{7f}", &"x".repeat(256)] {
            assert!(check_object_id(id).is_err(), "{id:?}");
        }
    }
}
