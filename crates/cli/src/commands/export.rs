//! `auspex export`: everything of one kind, into a file or to standard output.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::api::{ExportFormat, ExportKind};
use client::{ExportQuery, RowSplitter};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::context::Common;
use crate::failure::Failure;
use crate::messages::remark;
use crate::output::Output;

/// An export takes as long as it takes: a service that restarts is waited for.
const RETRIES: u32 = 8;
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(2);
/// The bytes of a file that are read at a time.
const PIECE: usize = 64 * 1024;

/// The arguments.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex export events > events.ndjson
  auspex export objects --format csv --output objects.csv
  auspex export answers --from 2026-01-01 --to 2026-01-31 --output january.ndjson
  auspex export labels --output labels.ndjson --resume")]
pub struct Arguments {
    /// What to export. The audit log (`audit`) is refused to keys, which commands use: an admin exports it in the console.
    #[arg(value_parser = ["objects", "answers", "labels", "events", "ledger", "audit"])]
    what: String,
    /// How rows are written.
    #[arg(long, default_value = "ndjson", value_parser = ["ndjson", "csv"])]
    format: String,
    /// Nothing earlier than this date or time.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Nothing later than this date, which is included, or this time, which is not.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Write to this file; by default, to standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go on after the last whole row of the file, with the same options as before.
    #[arg(long, requires = "output")]
    resume: bool,
}

impl Arguments {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let what: ExportKind = self.what.parse().map_err(|_| Failure::Usage("WHAT is unknown".to_owned()))?;
        let format: ExportFormat =
            self.format.parse().map_err(|_| Failure::Usage("--format is unknown".to_owned()))?;
        let builder = common.connection.connect()?;
        let client = builder.max_retries(RETRIES).max_retry_after(LONGEST_RETRY_AFTER).build()?;
        let mut target = Target::open(self.output.as_deref(), self.resume, format)?;
        let (from, to, cursor) = (self.from.clone(), self.to.clone(), target.cursor.take());
        let mut export = client.export(ExportQuery { what, format, from, to, cursor });
        let progress = Progress::start(what, self.output.is_some());
        loop {
            match export.next().await {
                Ok(Some(rows)) => {
                    target.write(&rows)?;
                    progress.reached(export.rows(), rows.len());
                }
                Ok(None) => break,
                Err(error) => {
                    progress.finish();
                    if let Some(path) = &target.path
                        && export.rows() > 0
                    {
                        let rows = HumanCount(export.rows());
                        remark(&format!("{rows} rows are in {}; go on with --resume", path.display()));
                    }
                    return Err(error.into());
                }
            }
        }
        progress.finish();
        target.finish()?;
        match &target.path {
            Some(path) => {
                let added = if self.resume { "added to" } else { "written to" };
                common.output().done(&format!(
                    "{} rows {added} {}.",
                    HumanCount(export.rows()),
                    path.display()
                ))
            }
            None => Ok(()),
        }
    }
}

/// Where rows go.
struct Target {
    /// None is standard output.
    path: Option<PathBuf>,
    file: Option<File>,
    /// The cursor of the last row that is there already.
    cursor: Option<String>,
}

impl Target {
    fn open(path: Option<&Path>, resume: bool, format: ExportFormat) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self { path: None, file: None, cursor: None }) };
        let failed = |reason: std::io::Error| Failure::other(format!("{}: {reason}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let opened =
            if resume { options.create(true).truncate(false) } else { options.create_new(true) }.open(path);
        let mut file = opened.map_err(|reason| match reason.kind() {
            ErrorKind::AlreadyExists => {
                let path = path.display();
                Failure::Usage(format!("{path} exists: remove it, or go on after its last row with --resume"))
            }
            _ => failed(reason),
        })?;
        let (length, cursor) = last_row(&mut file, format)
            .map_err(|reason| Failure::Usage(format!("{}: {reason}", path.display())))?;
        // What was left of a row that did not arrive whole.
        file.set_len(length).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path: Some(path.to_owned()), file: Some(file), cursor })
    }

    fn write(&mut self, rows: &[u8]) -> Result<(), Failure> {
        match (&mut self.file, &self.path) {
            (Some(file), Some(path)) => {
                file.write_all(rows).map_err(|reason| Failure::other(format!("{}: {reason}", path.display())))
            }
            _ => Output::piece(rows),
        }
    }

    fn finish(&self) -> Result<(), Failure> {
        match (&self.file, &self.path) {
            (Some(file), Some(path)) => {
                file.sync_all().map_err(|reason| Failure::other(format!("{}: {reason}", path.display())))
            }
            _ => Ok(()),
        }
    }
}

/// Where the last whole row of a file ends, and its cursor. Of a file that has nothing but a header nothing is kept: the export
/// begins anew. Whatever is no export is refused, so that nothing else is ever written over.
fn last_row(file: &mut File, format: ExportFormat) -> Result<(u64, Option<String>), String> {
    let no_export = || format!("it is no export in the format {}; name another file", format.as_str());
    let mut rows = RowSplitter::new(format, true);
    let (mut piece, mut length, mut size, mut header) = (vec![0; PIECE], 0, 0, Vec::new());
    loop {
        let read = file.read(&mut piece).map_err(|reason| reason.to_string())?;
        if read == 0 {
            break;
        }
        let whole = rows.push(&piece[..read]).map_err(|_| no_export())?;
        if length == 0 {
            header.extend(whole.iter().take_while(|byte| **byte != b'\n'));
        }
        (length, size) = (length + whole.len() as u64, size + read as u64);
    }
    let has_header = format == ExportFormat::Ndjson || header.ends_with(b",cursor\r");
    match rows.cursor() {
        Some(cursor) if has_header => Ok((length, Some(cursor.to_owned()))),
        None if size == 0 || (has_header && length > 0) => Ok((0, None)),
        _ => Err(no_export()),
    }
}

/// A line on standard error that shows how far the export is, if somebody watches and the rows go elsewhere.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn start(what: ExportKind, into_file: bool) -> Self {
        let is_watched = std::io::stderr().is_terminal() && (into_file || !std::io::stdout().is_terminal());
        let target = if is_watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::default_spinner());
        bar.set_message(format!("exporting {}", what.as_str()));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    fn reached(&self, rows: u64, bytes: usize) {
        self.bar.inc(bytes as u64);
        let (rows, bytes) = (HumanCount(rows), HumanBytes(self.bar.position()));
        self.bar.set_message(format!("{rows} rows, {bytes}"));
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_of(text: &str, format: ExportFormat) -> Result<(u64, Option<String>), String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        last_row(&mut file, format)
    }

    #[test]
    fn the_last_whole_row_is_found_and_the_rest_cut_off() {
        let row = "{\"cursor\":\"a\"}\n";
        let long = format!("{{\"content\":\"{}\",\"cursor\":\"b\"}}\n", "x".repeat(3 * PIECE));
        for (text, length, cursor) in [
            (String::new(), 0, None),
            (row.to_owned(), row.len(), Some("a")),
            (format!("{row}{{\"curs"), row.len(), Some("a")),
            (format!("{row}{long}"), row.len() + long.len(), Some("b")),
            (format!("{row}{}", &long[..PIECE]), row.len(), Some("a")),
        ] {
            let expected = (length as u64, cursor.map(str::to_owned));
            assert_eq!(last_of(&text, ExportFormat::Ndjson), Ok(expected));
        }
        let csv = "content,cursor\r\n\"two\nlines\",a\r\n";
        assert_eq!(last_of(csv, ExportFormat::Csv), Ok((csv.len() as u64, Some("a".to_owned()))));
        let cut = format!("{csv}\"three\n");
        assert_eq!(last_of(&cut, ExportFormat::Csv), Ok((csv.len() as u64, Some("a".to_owned()))));
        assert_eq!(last_of("content,cursor\r\n", ExportFormat::Csv), Ok((0, None)), "the header comes again");
    }

    #[test]
    fn a_file_that_is_no_export_is_not_written_to() {
        for (text, format) in [
            ("{\"a\":1}\n", ExportFormat::Ndjson),
            ("content,cursor\r\nx,a\r\n", ExportFormat::Ndjson),
            ("a,b c\r\nd,e f\r\n", ExportFormat::Csv),
            ("a,b\r\nc,d\r\n", ExportFormat::Csv),
            ("a,b\r\n", ExportFormat::Csv),
            ("notes", ExportFormat::Csv),
            ("notes", ExportFormat::Ndjson),
            ("{\"half\": ", ExportFormat::Ndjson),
        ] {
            assert!(last_of(text, format).is_err(), "{text:?}");
        }
    }
}
