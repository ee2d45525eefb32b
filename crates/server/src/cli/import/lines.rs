//! Reads a file line by line, remembers where it is, and checks that what was read before has not changed.
//!
//! A line of CSV goes on over line breaks inside of quotes; it is named by the number of its first.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest line; an ingest request may have 4 MiB.
const LINE_BYTES: usize = 8 * 1024 * 1024;

/// How the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// A JSON object on each line.
    Ndjson,
    /// Values separated by this character.
    Csv(u8),
}

/// A position between two lines of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The number of bytes before it.
    pub(super) offset: u64,
    /// The number of lines before it.
    pub(super) lines: u64,
    /// The SHA-256 of all bytes before it, in hex; empty at the beginning.
    pub(super) hash: String,
}

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.reason)
    }
}

/// Where a file is, before its hash is worked out.
pub(super) struct Mark {
    position: Position,
    hasher: Sha256,
}

impl Mark {
    /// The position, with the hash of everything before it.
    pub(super) fn position(&self) -> Position {
        let hash = if self.position.offset == 0 { String::new() } else { hash(&self.hasher) };
        Position { hash, ..self.position }
    }
}

/// Reads a file from a position on.
pub(super) struct Lines {
    file: BufReader<File>,
    size: u64,
    syntax: Syntax,
    position: Position,
    hasher: Sha256,
    line: Vec<u8>,
}

impl Lines {
    /// Opens a file, and checks that its contents before the position are unchanged.
    pub(super) fn open(
        path: &Path,
        position: &Position,
        syntax: Syntax,
    ) -> Result<Self, Box<dyn std::error::Error>> {
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
        Ok(Self { file, size, syntax, position: position.clone(), hasher, line: Vec::new() })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Where the next line begins.
    pub(super) fn mark(&self) -> Mark {
        Mark { position: self.position.clone(), hasher: self.hasher.clone() }
    }

    /// The number of the next line.
    pub(super) fn next_number(&self) -> u64 {
        self.position.lines + 1
    }

    /// Reads the next line; none at the end of the file. The inner error says what is wrong with the line.
    pub(super) fn next(&mut self) -> Result<Option<Result<&[u8], String>>, BadLine> {
        let number = self.next_number();
        self.line.clear();
        let (mut cell, mut is_at_end) = (Cell::Start, true);
        loop {
            let read = self.read_piece(&mut cell);
            let read = read
                .map_err(|cause| BadLine { line: number, reason: format!("it cannot be read: {cause}") })?;
            is_at_end &= !read;
            if !read || cell != Cell::Quoted {
                break;
            }
        }
        if is_at_end {
            return Ok(None);
        }
        if self.line.len() > LINE_BYTES {
            let hint = if self.syntax == Syntax::Ndjson { "" } else { "; is a quote missing?" };
            return Ok(Some(Err(format!("it is longer than {LINE_BYTES} bytes{hint}"))));
        }
        if cell == Cell::Quoted {
            return Ok(Some(Err("a quote is not closed".to_owned())));
        }
        Ok(Some(Ok(&self.line)))
    }

    /// Reads up to the next line break; false at the end of the file. Keeps only the start of what is too long.
    fn read_piece(&mut self, cell: &mut Cell) -> std::io::Result<bool> {
        let mut length = 0;
        loop {
            let mut piece = Vec::new();
            let read = (&mut self.file).take(LINE_BYTES as u64).read_until(b'\n', &mut piece)?;
            self.hasher.update(&piece);
            length += read as u64;
            if let Syntax::Csv(delimiter) = self.syntax {
                *cell = piece.iter().fold(*cell, |cell, byte| cell.after(*byte, delimiter));
            }
            if self.line.len() <= LINE_BYTES {
                self.line.extend_from_slice(&piece);
            }
            if read == 0 || piece.ends_with(b"\n") {
                break;
            }
        }
        self.position.offset += length;
        self.position.lines += u64::from(length > 0);
        Ok(length > 0)
    }
}

/// Where in a cell of CSV a byte stands. Only a quote that opens a cell, and not one inside its text, takes line breaks in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Start,
    Plain,
    Quoted,
    /// After a quote that closes a cell, or is the first of two.
    Closed,
}

impl Cell {
    fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Self::Quoted, b'"') => Self::Closed,
            (Self::Quoted, _) | (Self::Start | Self::Closed, b'"') => Self::Quoted,
            (_, b'\n') => Self::Start,
            (_, byte) if byte == delimiter => Self::Start,
            _ => Self::Plain,
        }
    }
}

fn hash(hasher: &Sha256) -> String {
    hex::encode(hasher.clone().finalize())
}
