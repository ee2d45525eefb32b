//! One line of a file: a JSON object with events about an object, or with one event of its own.

use client::Timestamp;
use client::api::{EventInput, EventType};
use model::event::{check_events, check_object_id, check_object_type};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::parse_errors;

/// A line of the file, in either form.
#[derive(Deserialize)]
pub(crate) struct EventFields {
    pub(crate) object_id: String,
    pub(crate) object_type: Option<String>,
    pub(crate) events: Option<Vec<EventInput>>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<EventType>,
    pub(crate) name: Option<String>,
    pub(crate) content: Option<String>,
    pub(crate) metadata: Option<Box<RawValue>>,
    pub(crate) occurred_at: Option<Timestamp>,
}

/// A validated line.
pub(crate) struct ValidLine {
    pub(crate) object_id: String,
    pub(crate) object_type: Option<String>,
    pub(crate) events: Vec<EventInput>,
}

/// Parses and validates a line; `None` if it is blank.
pub(super) fn parse(line: &[u8]) -> Result<Option<ValidLine>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with('{') {
        return Err("it must be a JSON object".to_owned());
    }
    let line: EventFields = serde_json::from_str(text).map_err(|reason| {
        if reason.is_data() {
            parse_errors::explain::<EventFields>(text.as_bytes())
        } else {
            format!("it is not JSON: see column {}", reason.column())
        }
    })?;
    validated(line).map(Some)
}

/// Validates a line that was read.
pub(crate) fn validated(line: EventFields) -> Result<ValidLine, String> {
    check_object_id(&line.object_id)?;
    line.object_type.as_deref().map_or(Ok(()), check_object_type)?;
    let events = match (line.events, line.kind) {
        (Some(events), None) => events,
        (None, Some(kind)) => vec![EventInput {
            kind,
            name: line.name,
            content: line.content,
            metadata: line.metadata,
            occurred_at: line.occurred_at,
        }],
        (Some(_), Some(_)) => return Err("it has both `events` and a `type` of its own".to_owned()),
        (None, None) => return Err("it has neither `events` nor a `type`".to_owned()),
    };
    // The same validation as in the service, so that the line number is known.
    check_events(events.clone(), usize::MAX, Timestamp::from_seconds(0))?;
    Ok(ValidLine { object_id: line.object_id, object_type: line.object_type, events })
}
