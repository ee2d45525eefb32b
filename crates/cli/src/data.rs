//! The argument `-d`: JSON in the argument itself, in a file, or on standard input.

use std::io::Read as _;
use std::str::FromStr;

use serde_json::value::RawValue;

/// A JSON document, which is sent as it was given.
#[derive(Clone, Debug)]
pub struct Data(Box<RawValue>);

impl Data {
    /// The document, unchanged.
    pub(crate) fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The document as a value, to look into it.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }
}

impl FromStr for Data {
    type Err = String;

    /// Reads the document: `-` is standard input, `@FILE` a file, and anything else the document.
    fn from_str(argument: &str) -> Result<Self, String> {
        let text = if argument == "-" {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map(|_| text).map_err(|reason| format!("standard input: {reason}"))?
        } else if let Some(path) = argument.strip_prefix('@') {
            std::fs::read_to_string(path).map_err(|reason| format!("{path}: {reason}"))?
        } else {
            argument.to_owned()
        };
        serde_json::from_str(&text).map(Self).map_err(|reason| format!("not JSON: {reason}"))
    }
}

/// A value that may be JSON, and is a text otherwise: `true`, `3`, `browsing`.
pub(crate) fn json_or_text(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
