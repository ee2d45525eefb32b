//! Reads the file as requests: windows of lines, always split at the same lines, each grouped by object.

mod line;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use client::api::EventInput;
use model::event::MAX_EVENTS;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::line::{ValidLine, parse};

/// The most of the file that is in memory at once.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;
/// The longest line; an ingest request may have 4 MiB.
const LINE_BYTES: usize = 8 * 1024 * 1024;
/// The largest request, well below the service's limit.
const PART_BYTES: usize = 3 * 1024 * 1024;

/// A position between two lines of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The number of bytes before it.
    pub(super) offset: u64,
    /// The number of lines before it.
    pub(super) lines: u64,
    /// The SHA-256 of all bytes before it, in hex; empty at the beginning.
    hash: String,
}

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) reason: String,
}

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
    file: BufReader<File>,
    size: u64,
    position: Position,
    hasher: Sha256,
    /// The buffer for the current line.
    line: Vec<u8>,
}

impl Reader {
    /// Opens a file, and checks that its contents before the position are unchanged.
    pub(super) fn open(path: &Path, position: &Position) -> Result<Self, Box<dyn std::error::Error>> {
        let cannot = |cause: std::io::Error| format!("cannot read {}: {cause}", path.display());
        let file = File::open(path).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        let (mut file, mut hasher) = (BufReader::with_capacity(256 * 1024, file), Sha256::new());
        let mut left = position.offset;
        while left > 0 {
            let bytes = file.fill_buf().map_err(cannot)?;
            let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if taken == 0 {
                break;
            }
            hasher.update(&bytes[..taken]);
            file.consume(taken);
            left -= taken as u64;
        }
        if left > 0 || (position.offset > 0 && hash(&hasher) != position.hash) {
            return Err(format!(
                "{} is not the file that was imported before: it differs within its first {} lines; remove its journal to \
                 import it as a new one",
                path.display(),
                position.lines
            )
            .into());
        }
        Ok(Self { file, size, position: position.clone(), hasher, line: Vec::new() })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads the next window. It ends early at an invalid line.
    pub(super) fn next_window(&mut self) -> Result<Window, BadLine> {
        let start = self.position.clone();
        let (mut parts, mut bytes) = (Parts::new(&start), 0);
        let (mut bad, mut before_bad, mut is_last) = (None, start.clone(), false);
        while bytes < WINDOW_BYTES {
            let number = self.position.lines + 1;
            let before = (self.position.clone(), self.hasher.clone());
            if !self.read_line(number)? {
                is_last = true;
                break;
            }
            bytes += self.line.len();
            let read = if self.line.len() > LINE_BYTES {
                Err(format!("it is longer than {LINE_BYTES} bytes"))
            } else {
                parse(&self.line)
            };
            let line = std::mem::take(&mut self.line).len();
            match read {
                Ok(Some(read)) => parts.add(number, read, line),
                Ok(None) => {}
                Err(reason) => {
                    bad = Some(BadLine { line: number, reason });
                    before_bad = before.0.with_hash(&before.1);
                    break;
                }
            }
        }
        self.position = self.position.with_hash(&self.hasher);
        let end = self.position.clone();
        Ok(Window { objects: parts.objects, start: start.offset, end, bad, before_bad, is_last })
    }

    /// Reads a line into `self.line`, or only its start if it is too long; false at the end of the file.
    fn read_line(&mut self, number: u64) -> Result<bool, BadLine> {
        let failed =
            |cause: std::io::Error| BadLine { line: number, reason: format!("it cannot be read: {cause}") };
        self.line.clear();
        let mut length = 0;
        loop {
            let mut piece = Vec::new();
            let read =
                (&mut self.file).take(LINE_BYTES as u64).read_until(b'\n', &mut piece).map_err(failed)?;
            self.hasher.update(&piece);
            length += read as u64;
            let ended = read == 0 || piece.ends_with(b"\n");
            if self.line.len() <= LINE_BYTES {
                self.line.extend_from_slice(&piece);
            }
            if ended {
                break;
            }
        }
        self.position.offset += length;
        self.position.lines += u64::from(length > 0);
        Ok(length > 0)
    }
}

fn hash(hasher: &Sha256) -> String {
    hex::encode(hasher.clone().finalize())
}

impl Window {
    /// The approximate offset that corresponds to this many completed requests: they are not sent in line order.
    pub(super) fn offset_after(&self, done: usize, requests: usize) -> u64 {
        let length = self.end.offset - self.start;
        self.start + length * done as u64 / requests.max(1) as u64
    }
}

impl Position {
    /// This position, with the hash of everything before it.
    fn with_hash(&self, hasher: &Sha256) -> Self {
        let hash = if self.offset == 0 { String::new() } else { hash(hasher) };
        Self { hash, ..*self }
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

impl fmt::Display for BadLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.reason)
    }
}

#[cfg(test)]
mod tests;
