//! Reads a file of events as requests: windows of lines, always split at the same lines, each grouped by object.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use client::api::EventInput;
use model::event::MAX_EVENTS;
use sha2::{Digest as _, Sha256};

use super::columns::EventColumns;
use super::line::{self, ValidLine};
use super::lines::{BadLine, Lines, Position, Syntax};

/// The most of the file that is in memory at once.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;
/// The largest request, well below the service's limit.
const PART_BYTES: usize = 3 * 1024 * 1024;

/// The requests of a range of lines.
pub(super) struct Window {
    /// The requests of each object, in the order of the file.
    pub(super) objects: Vec<Vec<Part>>,
    /// The byte offset of its start.
    start: u64,
    /// The position after its last line.
    pub(super) end: Position,
    /// The invalid line that ended the window, if any.
    pub(super) bad: Option<BadLine>,
    /// The position before that line.
    pub(super) before_bad: Position,
    pub(super) is_last: bool,
}

/// One request: events of one object, from some of the lines of a window.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) object_id: String,
    pub(super) object_type: Option<String>,
    /// The hash of the file before the window.
    before: Arc<str>,
    /// The events, each with its line number; shared by the halves of a part.
    events: Arc<Vec<(u64, EventInput)>>,
    range: Range<usize>,
}

/// Reads a file from a position on.
pub(super) struct Reader {
    lines: Lines,
    /// What the columns of CSV are.
    columns: Option<EventColumns>,
}

impl Reader {
    /// Opens a file, and checks that its contents before the position are unchanged.
    pub(super) fn open(
        path: &Path,
        position: &Position,
        syntax: Syntax,
        columns: Option<EventColumns>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Self { lines: Lines::open(path, position, syntax)?, columns })
    }

    pub(super) fn size(&self) -> u64 {
        self.lines.size()
    }

    /// Reads the next window. It ends early at an invalid line.
    pub(super) fn next_window(&mut self) -> Result<Window, BadLine> {
        let start = self.lines.mark().position();
        let (mut parts, mut bytes) = (Parts::new(&start), 0);
        let (mut bad, mut before_bad, mut is_last) = (None, start.clone(), false);
        while bytes < WINDOW_BYTES {
            let (number, before) = (self.lines.next_number(), self.lines.mark());
            let Some(line) = self.lines.next()? else {
                is_last = true;
                break;
            };
            let length = line.as_ref().map_or(0, |line| line.len());
            bytes += length;
            let read = line.and_then(|line| match &self.columns {
                None => line::parse(line),
                // The header.
                Some(_) if number == 1 => Ok(None),
                Some(columns) => columns.parse(line),
            });
            match read {
                Ok(Some(read)) => parts.add(number, read, length),
                Ok(None) => {}
                Err(reason) => {
                    bad = Some(BadLine { line: number, reason });
                    before_bad = before.position();
                    break;
                }
            }
        }
        let end = self.lines.mark().position();
        Ok(Window { objects: parts.objects, start: start.offset, end, bad, before_bad, is_last })
    }
}

impl Window {
    /// The approximate offset that corresponds to this many completed requests: they are not sent in line order.
    pub(super) fn offset_after(&self, done: usize, requests: usize) -> u64 {
        let length = self.end.offset - self.start;
        self.start + length * done as u64 / requests.max(1) as u64
    }
}

/// Groups the lines of a window by object.
struct Parts {
    before: Arc<str>,
    objects: Vec<Vec<Part>>,
    indexes: std::collections::HashMap<String, usize>,
    /// The size of each object's last part.
    sizes: Vec<usize>,
}

impl Parts {
    fn new(start: &Position) -> Self {
        Self {
            before: start.hash.as_str().into(),
            objects: Vec::new(),
            indexes: std::collections::HashMap::new(),
            sizes: Vec::new(),
        }
    }

    fn add(&mut self, number: u64, line: ValidLine, bytes: usize) {
        let index = *self.indexes.entry(line.object_id.clone()).or_insert(self.objects.len());
        if index == self.objects.len() {
            self.objects.push(Vec::new());
            self.sizes.push(0);
        }
        // The size of each event is unknown without serializing it, so the line is divided evenly.
        let share = bytes / line.events.len().max(1) + 1;
        for event in line.events {
            let (parts, size) = (&mut self.objects[index], &mut self.sizes[index]);
            let open_part = parts.last_mut().filter(|part| {
                part.events.len() < MAX_EVENTS
                    && *size + share <= PART_BYTES
                    && (line.object_type.is_none() || part.object_type == line.object_type)
            });
            if let Some(part) = open_part {
                Arc::make_mut(&mut part.events).push((number, event));
                part.range.end += 1;
                *size += share;
            } else {
                parts.push(Part {
                    object_id: line.object_id.clone(),
                    object_type: line.object_type.clone(),
                    before: Arc::clone(&self.before),
                    events: Arc::new(vec![(number, event)]),
                    range: 0..1,
                });
                *size = share;
            }
        }
    }
}

impl Part {
    pub(super) fn events(&self) -> impl Iterator<Item = &EventInput> {
        self.events[self.range.clone()].iter().map(|(_, event)| event)
    }

    pub(super) fn first_line(&self) -> u64 {
        self.events[self.range.start].0
    }

    pub(super) fn last_line(&self) -> u64 {
        self.events[self.range.end - 1].0
    }

    /// The idempotency key of the request: the same for the same lines of the same file, and unique otherwise.
    pub(super) fn key(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.before.as_bytes());
        hasher.update(serde_json::to_vec(&(&self.object_id, &self.object_type)).unwrap_or_default());
        for (line, event) in &self.events[self.range.clone()] {
            hasher.update(line.to_be_bytes());
            hasher.update(serde_json::to_vec(event).unwrap_or_default());
        }
        // If a line's events are in several requests, equal events are distinguished by their position.
        hasher.update((self.range.start as u64).to_be_bytes());
        format!("import-{}", hex::encode(hasher.finalize()))
    }

    /// Splits the request into two, between lines; `None` if it has only one line.
    pub(super) fn halves(&self) -> Option<(Self, Self)> {
        let (first, last) = (self.first_line(), self.last_line());
        if first == last {
            return None;
        }
        let middle = first + (last - first) / 2;
        let length = self.events[self.range.clone()].partition_point(|(line, _)| *line <= middle);
        let cut = self.range.start + length;
        Some((
            Self { range: self.range.start..cut, ..self.clone() },
            Self { range: cut..self.range.end, ..self.clone() },
        ))
    }
}

#[cfg(test)]
mod tests;
