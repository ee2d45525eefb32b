//! `auspex export`: everything of one kind, as it streams in.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::context::{Common, Context, get};
use crate::failure::Failure;
use crate::output::Output;
use crate::waiting::Progress;

/// Writes rows as they arrive.
#[derive(Args)]
#[command(
    after_help = "Every row has a cursor: an export that was interrupted goes on after its last row with --cursor."
)]
pub struct Arguments {
    /// What to export.
    #[arg(value_parser = ["objects", "answers", "labels", "events", "ledger", "audit"])]
    what: String,
    /// ndjson (a JSON object on each line) or csv.
    #[arg(long, value_parser = ["ndjson", "csv"], default_value = "ndjson")]
    format: String,
    /// From this date or time on.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Up to this date or time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Go on after the row with this cursor.
    #[arg(long)]
    cursor: Option<String>,
    /// Write to this file, which must not exist, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Arguments {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        let call = get(&["v1", "export"])?
            .query("what", Some(&self.what))
            .query("format", Some(&self.format))
            .query("from", self.from.as_ref())
            .query("to", self.to.as_ref())
            .query("cursor", self.cursor.as_ref());
        let mut stream = context.client.stream(&call).await?;
        let mut file = match &self.output {
            None => None,
            Some(path) => Some(
                std::fs::File::create_new(path)
                    .map_err(|reason| Failure::other(format!("{}: {reason}", path.display())))?,
            ),
        };
        let progress = self.output.is_some().then(|| Progress::start(&format!("exporting {}", self.what)));
        let mut rows = Rows::default();
        while let Some(chunk) = stream.chunk().await.map_err(|error| self.interrupted(error.into(), &rows))? {
            // Only whole rows are written, so that what is there can be used and gone on from.
            let whole = rows.take_whole(&chunk);
            match &mut file {
                Some(file) => file.write_all(&whole).map_err(Failure::other)?,
                None => Output::piece(&whole)?,
            }
            if let Some(progress) = &progress {
                progress.say(format!("{} rows of {}", rows.count, self.what));
            }
        }
        drop(progress);
        if let Some(file) = file {
            file.sync_all().map_err(Failure::other)?;
            crate::output::remark(&format!("{} rows are written", rows.count));
        }
        Ok(())
    }

    fn interrupted(&self, failure: Failure, rows: &Rows) -> Failure {
        match rows.cursor() {
            Some(cursor) if self.format == "ndjson" => {
                Failure::other(format!("{failure}\n  go on after the last row with: --cursor {cursor}"))
            }
            _ => failure,
        }
    }
}

/// Splits what arrives at the ends of rows.
#[derive(Default)]
struct Rows {
    rest: Vec<u8>,
    last: Vec<u8>,
    count: u64,
}

impl Rows {
    /// What has arrived up to the last line break.
    fn take_whole(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(chunk);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let after = self.rest.split_off(end);
        let whole = std::mem::replace(&mut self.rest, after);
        let mut lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        self.count += lines.clone().count() as u64;
        if let Some(last) = lines.next_back() {
            self.last = last.to_vec();
        }
        whole
    }

    /// The cursor of the last whole row of ndjson.
    fn cursor(&self) -> Option<String> {
        let row: serde_json::Value = serde_json::from_slice(&self.last).ok()?;
        row["cursor"].as_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn only_whole_rows_are_written() {
        let mut rows = Rows::default();
        assert_eq!(rows.take_whole(b"{\"cursor\":\"a\"}\n{\"cur"), b"{\"cursor\":\"a\"}\n");
        assert_eq!((rows.cursor().as_deref(), rows.count), (Some("a"), 1));
        assert_eq!(rows.take_whole(b"sor\":\"b\"}"), b"");
        assert_eq!(rows.take_whole(b"\n"), b"{\"cursor\":\"b\"}\n");
        assert_eq!((rows.cursor().as_deref(), rows.count), (Some("b"), 2));
    }
}
