//! CSV: which column is which field of an event or a label.

use std::collections::BTreeMap;

use client::api::{EventType, LabelCreate};
use client::{SignalType, Timestamp};
use model::Date;
use model::spreadsheet::without_apostrophe;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::csv;
use super::line::{EventFields, ValidLine, validated};

/// The fields of an event. `metadata.KEY` is one more for each key.
const EVENT_FIELDS: [&str; 7] =
    ["object_id", "object_type", "type", "name", "content", "metadata", "occurred_at"];
/// The fields of a label.
const LABEL_FIELDS: [&str; 4] = ["object_id", "signal", "value", "note"];
/// What begins the field of one key of the metadata.
const METADATA: &str = "metadata.";
/// The last column of an export, whose texts have an apostrophe before what looks like a formula.
const CURSOR: &str = "cursor";

/// What the arguments say about columns: `FIELD=COLUMN` and `FIELD=VALUE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapping {
    /// The column that a field is in, where it has another name.
    pub(super) columns: Vec<(String, String)>,
    /// The value that a field has on every line.
    pub(super) values: Vec<(String, String)>,
}

/// Splits `FIELD=TEXT`.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.is_empty() && !value.is_empty() => {
            Ok((field.to_owned(), value.to_owned()))
        }
        _ => Err("it must be FIELD=TEXT".to_owned()),
    }
}

/// Where a field comes from.
enum Source {
    Column(usize),
    Value(String),
}

/// Where all fields come from.
struct Columns {
    delimiter: u8,
    /// The number of columns.
    width: usize,
    fields: BTreeMap<String, Source>,
    is_export: bool,
}

impl Columns {
    fn new(header: &[u8], delimiter: u8, known: &[&str], mapping: &Mapping) -> Result<Self, String> {
        let header = header.strip_prefix("\u{feff}".as_bytes()).unwrap_or(header);
        let names = csv::cells(header, delimiter)?;
        let is_field = |field: &str| {
            known.contains(&field) || (known.contains(&"metadata") && field.starts_with(METADATA))
        };
        let mut named = mapping.columns.iter().chain(&mapping.values);
        if let Some((field, _)) = named.find(|(field, _)| !is_field(field)) {
            return Err(format!("there is no field {field:?}; there are: {}", known.join(", ")));
        }
        let column = |name: &str| {
            let mut found = names.iter().enumerate().filter(|(_, column)| column.trim() == name);
            match (found.next(), found.next()) {
                (Some((at, _)), None) => Ok(Some(at)),
                (Some(_), Some(_)) => Err(format!("two columns are called {name:?}")),
                (None, _) => Ok(None),
            }
        };
        let mut fields = BTreeMap::new();
        for field in known {
            if let Some(at) = column(field)? {
                fields.insert((*field).to_owned(), Source::Column(at));
            }
        }
        for (field, name) in &mapping.columns {
            let at = column(name)?
                .ok_or_else(|| format!("there is no column {name:?}; there are: {}", names.join(", ")))?;
            fields.insert(field.clone(), Source::Column(at));
        }
        for (field, value) in &mapping.values {
            fields.insert(field.clone(), Source::Value(value.clone()));
        }
        let is_export = names.last().is_some_and(|name| name == CURSOR);
        let columns = Self { delimiter, width: names.len(), fields, is_export };
        let required: &[&str] =
            if known.contains(&"signal") { &["object_id", "signal", "value"] } else { &["object_id"] };
        if let Some(field) = required.iter().find(|field| !columns.fields.contains_key(**field)) {
            let names = names.join(", ");
            return Err(format!(
                "there is no column {field:?}: name one with --map {field}=COLUMN; there are: {names}"
            ));
        }
        Ok(columns)
    }

    /// The cells of a line; none if it is blank.
    fn cells(&self, line: &[u8]) -> Result<Option<Vec<String>>, String> {
        let mut cells = csv::cells(line, self.delimiter)?;
        if cells.len() == 1 && cells[0].trim().is_empty() {
            return Ok(None);
        }
        if cells.len() != self.width {
            return Err(format!("it has {} cells, and the header has {}", cells.len(), self.width));
        }
        if self.is_export {
            for cell in &mut cells {
                *cell = without_apostrophe(cell).to_owned();
            }
        }
        Ok(Some(cells))
    }

    /// What a line says about a field; an empty cell says nothing.
    fn get<'a>(&'a self, cells: &'a [String], field: &str) -> Option<&'a str> {
        let text = match self.fields.get(field)? {
            Source::Column(at) => cells.get(*at)?,
            Source::Value(value) => value,
        };
        Some(text.as_str()).filter(|text| !text.is_empty())
    }

    fn required(&self, cells: &[String], field: &str) -> Result<String, String> {
        self.get(cells, field).map(str::to_owned).ok_or_else(|| format!("{field}: it is empty"))
    }
}

/// The columns of a file of events.
pub(super) struct EventColumns(Columns);

impl EventColumns {
    pub(super) fn new(header: &[u8], delimiter: u8, mapping: &Mapping) -> Result<Self, String> {
        Columns::new(header, delimiter, &EVENT_FIELDS, mapping).map(Self)
    }

    /// Reads a line; none if it is blank.
    pub(super) fn parse(&self, line: &[u8]) -> Result<Option<ValidLine>, String> {
        let columns = &self.0;
        let Some(cells) = columns.cells(line)? else { return Ok(None) };
        let get = |field: &str| columns.get(&cells, field);
        let kind = match get("type") {
            Some(text) => {
                let known = EventType::ALL.into_iter().find(|kind| kind.as_str() == text);
                known.ok_or("type: it must be one of: event, message")?
            }
            None if get("content").is_some() => EventType::Message,
            None => EventType::Event,
        };
        let fields = EventFields {
            object_id: columns.required(&cells, "object_id")?,
            object_type: get("object_type").map(str::to_owned),
            events: None,
            kind: Some(kind),
            name: get("name").map(str::to_owned),
            content: get("content").map(str::to_owned),
            metadata: self.metadata(&cells)?,
            occurred_at: get("occurred_at").map(time).transpose()?,
        };
        validated(fields).map(Some)
    }

    /// The JSON of the column `metadata`, or an object of the columns that its keys are mapped to.
    fn metadata(&self, cells: &[String]) -> Result<Option<Box<RawValue>>, String> {
        let text = self.0.get(cells, "metadata");
        let keys: Vec<(&str, &str)> = self
            .0
            .fields
            .keys()
            .filter_map(|field| Some((field.strip_prefix(METADATA)?, self.0.get(cells, field)?)))
            .collect();
        if keys.is_empty() {
            let invalid = |_| "metadata: it must be a JSON object".to_owned();
            return text.map(|text| RawValue::from_string(text.to_owned()).map_err(invalid)).transpose();
        }
        let mut whole: serde_json::Map<String, Value> = match text {
            Some(text) => serde_json::from_str(text).map_err(|_| "metadata: it must be a JSON object")?,
            None => serde_json::Map::new(),
        };
        whole.extend(keys.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text))));
        to_raw_value(&whole).map(Some).map_err(|error| error.to_string())
    }
}

/// A time in RFC 3339, also with a space, without seconds or without a zone (UTC), or a date.
fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(date) = text.parse::<Date>() {
        return Ok(date.midnight());
    }
    let text = text.replacen(' ', "T", 1);
    let forms = [text.clone(), format!("{text}Z"), format!("{text}:00Z")];
    forms.iter().find_map(|form| form.parse().ok()).ok_or_else(|| {
        "occurred_at: it must be a time (2026-01-31T12:00:00Z, 2026-01-31 12:00) or a date".to_owned()
    })
}

/// The columns of a file of labels.
pub(super) struct LabelColumns {
    columns: Columns,
    /// The types of the account's signals: a cell does not say whether `true` is a word.
    signals: BTreeMap<String, SignalType>,
}

impl LabelColumns {
    pub(super) fn new(
        header: &[u8],
        delimiter: u8,
        mapping: &Mapping,
        signals: BTreeMap<String, SignalType>,
    ) -> Result<Self, String> {
        Ok(Self { columns: Columns::new(header, delimiter, &LABEL_FIELDS, mapping)?, signals })
    }

    /// Reads a line; none if it is blank.
    pub(super) fn parse(&self, line: &[u8]) -> Result<Option<LabelCreate>, String> {
        let columns = &self.columns;
        let Some(cells) = columns.cells(line)? else { return Ok(None) };
        let signal = columns.required(&cells, "signal")?;
        let text = columns.required(&cells, "value")?;
        let kind =
            self.signals.get(&signal).ok_or_else(|| format!("signal: there is no signal {signal:?}"))?;
        Ok(Some(LabelCreate {
            object_id: columns.required(&cells, "object_id")?,
            value: value(*kind, &text)?,
            note: columns.get(&cells, "note").map(str::to_owned),
            signal,
        }))
    }
}

/// The value of a label, by the type of its signal.
fn value(kind: SignalType, text: &str) -> Result<Value, String> {
    match kind {
        SignalType::Choice => Ok(Value::from(text)),
        SignalType::Score => {
            let level: Result<u64, _> = text.trim().parse();
            level.map(Value::from).map_err(|_| "value: it must be the index of a level, from 0".to_owned())
        }
        SignalType::Noul => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(Value::Bool(true)),
            "false" | "no" | "0" => Ok(Value::Bool(false)),
            _ => Err("value: it must be true or false".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests;
