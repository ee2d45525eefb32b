//! What is done, in a file beside the one that is imported: one line each, written as it happens, the last may be torn.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::reading::Position;

/// A line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first: whose import this is.
    Account(Uuid),
    /// A request was answered.
    Done(String),
    /// All lines up to here are done.
    Through(Position),
}

/// The journal of one file for one account.
pub(super) struct Journal {
    file: File,
    position: Position,
    /// The requests that were answered since.
    done: HashSet<String>,
}

impl Journal {
    /// Opens the journal, and reads how far an earlier run came.
    pub(super) fn open(path: &Path, account: Uuid) -> Result<Self, Box<dyn std::error::Error>> {
        let name = path.display();
        let wrong = |reason: &str| format!("{name}: {reason}; remove it to import from the beginning");
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|cause| format!("cannot use {name}: {cause}"))?;
        let (mut owner, mut position, mut done, mut whole) =
            (None, Position::default(), HashSet::new(), true);
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        while reader.read_line(&mut text)? > 0 {
            // A line without its end was torn by a crash. What it said is asked of the service again.
            whole = text.ends_with('\n');
            match serde_json::from_str(&text) {
                Ok(Line::Account(id)) => owner = Some(id),
                Ok(Line::Done(key)) => drop(done.insert(key)),
                Ok(Line::Through(reached)) => {
                    position = reached;
                    done.clear();
                }
                Err(_) if !whole => {}
                Err(_) => return Err(wrong("this is not a journal of ours").into()),
            }
            text.clear();
        }
        match owner {
            Some(owner) if owner != account => return Err(wrong("it is about another account").into()),
            None if position != Position::default() => {
                return Err(wrong("it does not say whose it is").into());
            }
            _ => {}
        }
        if !whole {
            file.write_all(b"\n")?;
        }
        let mut journal = Self { file, position, done };
        if owner.is_none() {
            journal.write(&Line::Account(account))?;
        }
        Ok(journal)
    }

    /// Up to where everything is done.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    pub(super) fn is_done(&self, key: &str) -> bool {
        self.done.contains(key)
    }

    /// Notes that a request was answered.
    pub(super) fn done(&mut self, key: &str) -> std::io::Result<()> {
        self.write(&Line::Done(key.to_owned()))?;
        self.done.insert(key.to_owned());
        Ok(())
    }

    /// Notes that all lines up to here are done.
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

    /// One write a line, so that a crash tears at most the last.
    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())
    }
}
