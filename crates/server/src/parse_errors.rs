//! Rewords the errors of parsers for clients: which value is wrong, and what it must be.
//!
//! A client must not need to know what the service is written in. Parsers give their reasons only as text, so this matches
//! on that text; an unknown reason becomes "invalid value", still with the path of the value.

use serde::de::DeserializeOwned;

/// The message for unknown reasons.
const INVALID: &str = "invalid value";

/// Says why JSON does not parse as a `T`, and where. Parses it again, so that only invalid input pays for tracking the path.
pub(crate) fn explain<T: DeserializeOwned>(json: &[u8]) -> String {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Ok(_) => INVALID.to_owned(),
        Err(error) => {
            let path = error.path().to_string();
            message(&path, &error.into_inner().to_string())
        }
    }
}

/// The message about the value at `path`, which is empty for the whole document.
pub(crate) fn message(path: &str, reason: &str) -> String {
    // The path is more useful than the position in the text.
    let reason = reason.rsplit_once(" at line ").map_or(reason, |(reason, _)| reason);
    let path = if path == "." { "" } else { path };
    if let Some(field) = quoted(reason, "missing field ") {
        let path = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
        return format!("{path}: it is required");
    }
    if let Some(field) = quoted(reason, "duplicate field ") {
        return format!("{field}: it is there more than once");
    }
    let message = reword(reason);
    if path.is_empty() { message } else { format!("{path}: {message}") }
}

fn reword(reason: &str) -> String {
    // The last occurrence: the client's value comes before it and may contain the same text.
    let (found, expected) = reason.rsplit_once(", expected ").unwrap_or((reason, ""));
    let message = match found {
        _ if found.starts_with("unknown variant ") => {
            return format!("it must be one of: {}", names(expected).collect::<Vec<_>>().join(", "));
        }
        _ if found.starts_with("invalid value: integer") => "it is out of range",
        _ if found.starts_with("invalid value: ") || found.starts_with("invalid type: ") => must_be(expected),
        _ if found.starts_with("invalid length ") => INVALID,
        _ if found.starts_with("UUID parsing failed") => "it must be a UUID",
        // Numbers in query parameters.
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "it must be a whole number"
        }
        _ if found.starts_with("number too ") => "it is out of range",
        _ if found.starts_with("recursion limit ") => "it is nested too deeply",
        // Messages of our own types.
        _ => reason,
    };
    message.to_owned()
}

fn must_be(expected: &str) -> &'static str {
    match expected {
        "a string" | "string or map" => "it must be a text",
        "a boolean" => "it must be true or false",
        "f64" => "it must be a number",
        "i64" | "u64" | "u32" | "u16" => "it must be a whole number",
        "a sequence" => "it must be an array",
        "a map" => "it must be an object",
        "a UUID string" => "it must be a UUID",
        _ if expected.starts_with("struct ") => "it must be an object",
        _ => INVALID,
    }
}

/// The name in backticks after `start`.
fn quoted<'a>(reason: &'a str, start: &str) -> Option<&'a str> {
    reason.strip_prefix(start)?.strip_prefix('`')?.strip_suffix('`')
}

/// All names in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_parsers_are_reworded() {
        for (path, reason, expected) in [
            (".", "missing field `events` at line 1 column 2", "events: it is required"),
            ("events[2]", "missing field `type`", "events[2].type: it is required"),
            (".", "duplicate field `limit`", "limit: it is there more than once"),
            ("limit", "invalid digit found in string", "limit: it must be a whole number"),
            ("limit", "number too large to fit in target type", "limit: it is out of range"),
            ("rule_id", "UUID parsing failed: invalid length", "rule_id: it must be a UUID"),
            ("wait", "invalid type: string \"no\", expected a boolean", "wait: it must be true or false"),
            (
                "events",
                "invalid type: map, expected a sequence at line 1 column 9",
                "events: it must be an array",
            ),
            (
                "status",
                "unknown variant `a`, expected b`, expected one of `x`, `y`",
                "status: it must be one of: x, y",
            ),
            ("n", "invalid value: integer `-1`, expected u64", "n: it is out of range"),
            ("at", "it must be a date", "at: it must be a date"),
            ("a", "invalid type: null, expected an unknown thing", "a: invalid value"),
        ] {
            assert_eq!(message(path, reason), expected);
        }
    }
}
