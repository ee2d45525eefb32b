//! Says in the words of the interface what a parser says in its own: which value is wrong, and what it must be.
//!
//! A client must not have to know what the service is written with. Parsers give their reasons as text alone, so this
//! goes by what they say; what it does not know it leaves out, and still names the place.

use serde::de::DeserializeOwned;

/// What is said where nothing better is known.
const UNFIT: &str = "it does not fit";

/// The complaint about JSON that is no `T`, with the place. Parses again, so that only refusals pay for it.
pub(crate) fn locate<T: DeserializeOwned>(json: &[u8]) -> String {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Ok(_) => UNFIT.to_owned(),
        Err(error) => {
            let path = error.path().to_string();
            complaint(&path, &error.into_inner().to_string())
        }
    }
}

/// The complaint about a value at `path`, which is empty for the whole.
pub(crate) fn complaint(path: &str, reason: &str) -> String {
    // The position in the text means little where the path names the field.
    let reason = reason.rsplit_once(" at line ").map_or(reason, |(reason, _)| reason);
    let path = if path == "." { "" } else { path };
    if let Some(field) = quoted(reason, "missing field ") {
        let place = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
        return format!("{place}: it is required");
    }
    if let Some(field) = quoted(reason, "duplicate field ") {
        return format!("{field}: it is there more than once");
    }
    let words = in_our_words(reason);
    if path.is_empty() { words } else { format!("{path}: {words}") }
}

fn in_our_words(reason: &str) -> String {
    // The last one: what was sent comes before it, and may say anything.
    let (found, expected) = reason.rsplit_once(", expected ").unwrap_or((reason, ""));
    let words = match found {
        _ if found.starts_with("unknown variant ") => {
            return format!("it must be one of: {}", names(expected).collect::<Vec<_>>().join(", "));
        }
        _ if found.starts_with("invalid value: integer") => "it is out of range",
        _ if found.starts_with("invalid value: ") || found.starts_with("invalid type: ") => must_be(expected),
        _ if found.starts_with("invalid length ") => UNFIT,
        _ if found.starts_with("UUID parsing failed") => "it must be a UUID",
        // Numbers in addresses.
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "it must be a whole number"
        }
        _ if found.starts_with("number too ") => "it is out of range",
        _ if found.starts_with("recursion limit ") => "it is nested too deeply",
        // What our own types say.
        _ => reason,
    };
    words.to_owned()
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
        _ => UNFIT,
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
    fn a_parser_s_reasons_become_ours() {
        for (path, reason, said) in [
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
            ("a", "invalid type: null, expected a thing that nobody knows", "a: it does not fit"),
        ] {
            assert_eq!(complaint(path, reason), said);
        }
    }
}
