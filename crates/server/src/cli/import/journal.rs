//! The journal: a file of completed requests and windows, one line each. A crash can tear only the last line.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lines::Position;

/// A line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line: the account of the import.
    Account(Uuid),
    /// How lines are read, if not as JSON events.
    With(String),
    /// A request is completed.
    Done(String),
    /// All lines up to here are completed.
    Through(Position),
}

/// The journal of one file for one account.
pub(super) struct Journal {
    file: File,
    position: Position,
    /// The requests completed after that position.
    done: HashSet<String>,
}

impl Journal {
    /// Opens the journal and reads the progress of an earlier run.
    pub(super) fn open(
        path: &Path,
        account: Uuid,
        options: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let name = path.display();
        let unusable = |reason: &str| format!("{name}: {reason}; remove it to import from the beginning");
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|cause| format!("cannot use {name}: {cause}"))?;
        let mut begun_with = String::new();
        let (mut owner, mut position, mut done, mut whole) =
            (None, Position::default(), HashSet::new(), true);
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        while reader.read_line(&mut text)? > 0 {
            // A line without its end was torn by a crash. That request is sent again under the same key.
            whole = text.ends_with('\n');
            match serde_json::from_str(&text) {
                Ok(Line::Account(id)) => owner = Some(id),
                Ok(Line::With(options)) => begun_with = options,
                Ok(Line::Done(key)) => drop(done.insert(key)),
                Ok(Line::Through(reached)) => {
                    position = reached;
                    done.clear();
                }
                Err(_) if !whole => {}
                Err(_) => return Err(unusable("this is not a journal of ours").into()),
            }
            text.clear();
        }
        match owner {
            Some(owner) if owner != account => return Err(unusable("it is about another account").into()),
            None if position != Position::default() => {
                return Err(unusable("it does not say whose it is").into());
            }
            Some(_) if begun_with != options => {
                return Err(unusable("it was begun with other options").into());
            }
            _ => {}
        }
        if !whole {
            file.write_all(b"\n")?;
        }
        let mut journal = Self { file, position, done };
        if owner.is_none() {
            journal.write(&Line::Account(account))?;
            if !options.is_empty() {
                journal.write(&Line::With(options.to_owned()))?;
            }
        }
        Ok(journal)
    }

    /// The position up to which everything is completed.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    pub(super) fn is_done(&self, key: &str) -> bool {
        self.done.contains(key)
    }

    /// Records that a request is completed.
    pub(super) fn done(&mut self, key: &str) -> std::io::Result<()> {
        self.write(&Line::Done(key.to_owned()))?;
        self.done.insert(key.to_owned());
        Ok(())
    }

    /// Records that all lines up to here are completed.
    pub(super) fn through(&mut self, position: &Position) -> std::io::Result<()> {
        if *position == self.position {
            return Ok(());
        }
        self.write(&Line::Through(position.clone()))?;
        self.file.sync_data()?;
        self.position = position.clone();
        self.done.clear();
        Ok(())
    }

    /// Writes a line with one call, so that a crash tears at most the last.
    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())
    }
}
