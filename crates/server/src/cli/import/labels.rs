//! A file of labels, sent 1,000 at a time in the order of the file. The same label twice is the same as once, so a request that
//! may not have arrived is simply sent again.

use client::Client;
use client::api::LabelCreate;
use serde_json::Value;

use super::columns::LabelColumns;
use super::error::ImportError;
use super::journal::Journal;
use super::lines::{BadLine, Lines, Mark};
use super::progress::Progress;
use crate::parse_errors;

/// The most labels in a request.
const MAX_LABELS: usize = 1_000;
/// The most bytes of lines in a request: below the largest body, also where escapes make it longer than the lines.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// An import of labels in progress.
pub(super) struct LabelImport {
    pub(super) client: Client,
    pub(super) skip_bad: bool,
    pub(super) journal: Journal,
    pub(super) progress: Progress,
    /// What the columns of CSV are.
    pub(super) columns: Option<LabelColumns>,
    pub(super) sent: u64,
    pub(super) skipped: u64,
}

/// Labels to be sent, each with the number of its line and where that begins.
#[derive(Default)]
struct Batch {
    labels: Vec<LabelCreate>,
    lines: Vec<(u64, Mark)>,
    /// The invalid line that ended the batch, if any.
    bad: Option<(BadLine, Mark)>,
    is_last: bool,
}

impl LabelImport {
    /// Sends what is left of a file.
    pub(super) async fn run(&mut self, lines: &mut Lines) -> Result<(), ImportError> {
        loop {
            let batch = self.next_batch(lines).map_err(ImportError::BadLine)?;
            let is_last = batch.is_last;
            self.send(batch).await?;
            let end = lines.mark().position();
            self.progress.reached(end.offset, self.sent);
            self.journal.through(&end).map_err(ImportError::Journal)?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn next_batch(&self, lines: &mut Lines) -> Result<Batch, BadLine> {
        let (mut batch, mut bytes) = (Batch::default(), 0);
        while batch.labels.len() < MAX_LABELS && bytes < MAX_BYTES {
            let (number, mark) = (lines.next_number(), lines.mark());
            let Some(line) = lines.next()? else {
                batch.is_last = true;
                break;
            };
            bytes += line.as_ref().map_or(0, |line| line.len());
            let read = line.and_then(|line| match &self.columns {
                None => parse(line),
                // The header.
                Some(_) if number == 1 => Ok(None),
                Some(columns) => columns.parse(line),
            });
            match read {
                Ok(Some(label)) => {
                    batch.labels.push(label);
                    batch.lines.push((number, mark));
                }
                Ok(None) => {}
                Err(reason) => {
                    batch.bad = Some((BadLine { line: number, reason }, mark));
                    break;
                }
            }
        }
        Ok(batch)
    }

    async fn send(&mut self, batch: Batch) -> Result<(), ImportError> {
        let mut bad: Vec<(BadLine, &Mark)> = Vec::new();
        if let (Some((first, _)), Some((last, _))) = (batch.lines.first(), batch.lines.last()) {
            let accepted = self.client.put_labels(&batch.labels).await;
            let accepted =
                accepted.map_err(|cause| ImportError::Service { first: *first, last: *last, cause })?;
            self.sent += u64::try_from(accepted.accepted).unwrap_or(0);
            bad.extend(accepted.refused.into_iter().filter_map(|refused| {
                let (line, mark) = batch.lines.get(usize::try_from(refused.index).ok()?)?;
                Some((BadLine { line: *line, reason: refused.message }, mark))
            }));
        }
        bad.extend(batch.bad.as_ref().map(|(bad, mark)| (bad.clone(), mark)));
        for (bad, before) in bad {
            if !self.skip_bad {
                // The next run resumes at this line.
                self.journal.through(&before.position()).map_err(ImportError::Journal)?;
                return Err(ImportError::BadLine(bad));
            }
            self.skipped += 1;
            self.progress.print(&format!("skipped {bad}"));
        }
        Ok(())
    }
}

/// Reads a line of JSON; none if it is blank.
fn parse(line: &[u8]) -> Result<Option<LabelCreate>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let label: LabelCreate = serde_json::from_str(text).map_err(|reason| {
        if reason.is_data() {
            parse_errors::explain::<LabelCreate>(text.as_bytes())
        } else {
            format!("it is not JSON: see column {}", reason.column())
        }
    })?;
    match label.value {
        Value::Bool(_) | Value::String(_) | Value::Number(_) => Ok(Some(label)),
        _ => Err("value: it must be true or false, an option, or the index of a level".to_owned()),
    }
}
