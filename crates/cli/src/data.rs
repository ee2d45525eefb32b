//! JSON that is sent as it was given: the argument `-d`, and requests that are made of parts. Parsing a number and writing it
//! again may make another one of it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::Failure;

/// A JSON document, which is sent as it was given: in the argument itself, in a file, or on standard input.
#[derive(Clone, Debug)]
pub struct Data(Box<RawValue>);

impl Data {
    /// The document, unchanged.
    pub(crate) fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The fields of an object; none if it is something else.
    pub(crate) fn fields(&self) -> Option<Fields> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// The text of a field that is a string.
    pub(crate) fn text(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.fields()?.get(field)?.get()).ok()
    }

    /// Whether it is a list.
    pub(crate) fn is_list(&self) -> bool {
        self.0.get().trim_start().starts_with('[')
    }
}

impl From<Box<RawValue>> for Data {
    fn from(document: Box<RawValue>) -> Self {
        Self(document)
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

/// The fields of a JSON object, each as it was given.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    /// The value of a field, unchanged.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(Box::as_ref)
    }

    /// Sets a field; a [`RawValue`] in it stays as it is.
    pub(crate) fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
        let value = to_raw_value(value).map_err(Failure::other)?;
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    /// Sets a field if there is a value for it.
    pub(crate) fn set_if(
        &mut self,
        name: &str,
        value: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<(), Failure> {
        value.map_or(Ok(()), |value| self.set(name, value))
    }

    /// Takes a field out.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// A value that may be JSON, and is a text otherwise: `true`, `3`, `browsing`.
pub(crate) fn json_or_text(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_as_they_were_given() {
        let data: Data = r#" {"b": [1.50, 12345678901234567890123], "a": 1e400} "#.parse().unwrap();
        assert!(!data.is_list());
        let mut fields = data.fields().unwrap();
        fields.set("c", &[data.raw()]).unwrap();
        fields.remove("a");
        let written = r#"{"b":[1.50, 12345678901234567890123],"c":[{"b": [1.50, 12345678901234567890123], "a": 1e400}]}"#;
        assert_eq!(serde_json::to_string(&fields).unwrap(), written);
        assert!(" [1]".parse::<Data>().unwrap().is_list());
        assert!("[1]".parse::<Data>().unwrap().fields().is_none());
    }
}
