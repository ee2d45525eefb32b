//! Exports: everything of one kind, row by row, over as many connections as that takes.

use http::Method;
use model::api::{ExportFormat, ExportKind};
use serde::Deserialize;

use crate::call::{Call, ResponseStream};
use crate::retry::{Outcome, Repeat, random_fraction};
use crate::{Client, Error};

/// What to export, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportQuery {
    /// What.
    pub what: ExportKind,
    /// How rows are written.
    pub format: ExportFormat,
    /// A date or a time: nothing earlier.
    pub from: Option<String>,
    /// A date, which is included, or a time, which is not: nothing later.
    pub to: Option<String>,
    /// The cursor of the row after which to go on.
    pub cursor: Option<String>,
}

impl ExportQuery {
    /// Everything of one kind, as a JSON object on each line.
    pub fn new(what: ExportKind) -> Self {
        Self { what, format: ExportFormat::Ndjson, from: None, to: None, cursor: None }
    }
}

/// An export under way. After a broken connection it goes on after the last whole row.
#[derive(Debug)]
pub struct Export {
    client: Client,
    query: ExportQuery,
    stream: Option<ResponseStream>,
    rows: RowSplitter,
    /// Attempts without any progress.
    attempts: u32,
}

impl Client {
    /// Exports everything of one kind. Nothing is sent until the first rows are asked for.
    ///
    /// ```no_run
    /// # async fn example(client: auspex_client::Client) -> Result<(), auspex_client::Error> {
    /// use auspex_client::{ExportQuery, api::ExportKind};
    ///
    /// let mut export = client.export(ExportQuery::new(ExportKind::Events));
    /// while let Some(rows) = export.next().await? {
    ///     print!("{}", String::from_utf8_lossy(&rows));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, query: ExportQuery) -> Export {
        let rows = RowSplitter::new(query.format, query.cursor.is_none());
        Export { client: self.clone(), query, stream: None, rows, attempts: 0 }
    }
}

impl Export {
    /// The next rows, whole and as the service wrote them; none at the end. An error after some rows is no end: what is
    /// missing can be exported by [`Export::cursor`].
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            match self.read().await {
                Ok(Some(bytes)) => {
                    let before = self.rows.count();
                    let rows = self.rows.push(&bytes)?;
                    // A header or a part of a row is no progress: the next attempt would begin there again.
                    if self.rows.count() > before {
                        self.attempts = 0;
                    }
                    if !rows.is_empty() {
                        return Ok(Some(rows));
                    }
                }
                Ok(None) if self.rows.is_between_rows() => return Ok(None),
                Ok(None) => return Err(unreadable("it ends in the middle of a row")),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// The cursor of the last row that was returned, after which an export can go on.
    pub fn cursor(&self) -> Option<&str> {
        self.rows.cursor().or(self.query.cursor.as_deref())
    }

    /// How many rows were returned.
    pub fn rows(&self) -> u64 {
        self.rows.count()
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if let Some(stream) = &mut self.stream {
            return stream.chunk().await;
        }
        let query = &self.query;
        let call = Call::new(Method::GET, &["v1", "export"])?
            .query("what", Some(query.what.as_str()))
            .query("format", Some(query.format.as_str()))
            .query("from", query.from.as_ref())
            .query("to", query.to.as_ref())
            .query("cursor", self.cursor());
        let stream = self.stream.insert(self.client.stream(&call).await?);
        stream.chunk().await
    }

    /// Waits before the next attempt, or returns the error if there is none.
    async fn recover(&mut self, error: Error) -> Result<(), Error> {
        self.stream = None;
        self.attempts += 1;
        let outcome = match &error {
            Error::Transport(reason) if reason.is_connect() => Outcome::Unconnected,
            Error::Transport(_) => Outcome::Unanswered,
            Error::Refused(refusal) => Outcome::Refused {
                status: refusal.status,
                retry_after: refusal.retry_after,
                events_recorded: false,
            },
            Error::Unreadable { .. } | Error::Setup(_) | Error::GivenUp(_) => return Err(error),
        };
        let retries = self.client.inner.retries;
        match retries.delay(self.attempts, Repeat::Harmless, outcome, random_fraction()) {
            Some(delay) => {
                self.rows.restart();
                tokio::time::sleep(delay).await;
                Ok(())
            }
            None => Err(error),
        }
    }
}

/// Splits the bytes of an export, which arrive in any pieces, after whole rows.
#[derive(Clone, Debug)]
pub struct RowSplitter {
    format: ExportFormat,
    /// What has arrived of the present row.
    pending: Vec<u8>,
    /// Whether that ends inside of a quoted cell.
    is_quoted: bool,
    header: Header,
    cursor: Option<String>,
    count: u64,
}

/// The header line of CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    /// There is none any more.
    Past,
    /// The next line is the header.
    Next,
    /// The same, once more: it was returned before.
    Again,
}

impl RowSplitter {
    /// Splits an export from its start, or one that goes on after a row.
    pub fn new(format: ExportFormat, from_start: bool) -> Self {
        let has_header = from_start && format == ExportFormat::Csv;
        let header = if has_header { Header::Next } else { Header::Past };
        Self { format, pending: Vec::new(), is_quoted: false, header, cursor: None, count: 0 }
    }

    /// Takes bytes and returns all that is whole by now.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let scanned = self.pending.len();
        self.pending.extend_from_slice(bytes);
        // Where what is returned begins, where its last row begins, and where it ends.
        let (mut start, mut last, mut end) = (0, None, 0);
        for at in scanned..self.pending.len() {
            match self.pending[at] {
                b'"' if self.format == ExportFormat::Csv => self.is_quoted = !self.is_quoted,
                b'\n' if !self.is_quoted => {
                    let begin = std::mem::replace(&mut end, at + 1);
                    match std::mem::replace(&mut self.header, Header::Past) {
                        Header::Past => {
                            self.count += 1;
                            last = Some(begin);
                        }
                        Header::Next => {}
                        Header::Again => start = end,
                    }
                }
                _ => {}
            }
        }
        let rest = self.pending.split_off(end);
        let mut whole = std::mem::replace(&mut self.pending, rest);
        if let Some(last) = last {
            self.cursor = Some(cursor_of(self.format, &whole[last..])?);
        }
        Ok(whole.split_off(start))
    }

    /// The cursor of the last whole row.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The number of whole rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether what was pushed ends with a whole row.
    pub fn is_between_rows(&self) -> bool {
        self.pending.is_empty()
    }

    /// Forgets the part of a row that has arrived: the next bytes are of a response that goes on after the last whole row, or
    /// begins again if there is none.
    fn restart(&mut self) {
        self.pending.clear();
        self.is_quoted = false;
        let is_from_start = self.format == ExportFormat::Csv && self.cursor.is_none();
        if is_from_start && self.header == Header::Past && self.count == 0 {
            self.header = Header::Again;
        }
    }
}

/// The cursor of a row.
fn cursor_of(format: ExportFormat, row: &[u8]) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Row {
        cursor: String,
    }
    match format {
        ExportFormat::Ndjson => {
            let row: Row = serde_json::from_slice(row).map_err(|reason| unreadable(&reason.to_string()))?;
            Ok(row.cursor)
        }
        ExportFormat::Csv => {
            // The last cell, which is never quoted.
            let cell = row.trim_ascii_end().rsplit(|byte| *byte == b',').next().unwrap_or_default();
            let is_cursor = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            if cell.is_empty() || !cell.iter().all(is_cursor) {
                return Err(unreadable("a row does not end with a cursor"));
            }
            Ok(String::from_utf8_lossy(cell).into_owned())
        }
    }
}

fn unreadable(reason: &str) -> Error {
    Error::Unreadable { status: 200, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "name,cursor\r\n\"a\n\"\"b\"\"\",c1\r\nplain,c2\r\n";

    /// Pushes a text in pieces of this size; returns the pieces that came out.
    fn pushed(rows: &mut RowSplitter, text: &str, size: usize) -> Vec<String> {
        let pieces = text.as_bytes().chunks(size).map(|piece| rows.push(piece).unwrap());
        pieces.filter(|piece| !piece.is_empty()).map(|piece| String::from_utf8(piece).unwrap()).collect()
    }

    #[test]
    fn rows_come_out_whole_whatever_the_pieces() {
        for size in 1..CSV.len() {
            let mut rows = RowSplitter::new(ExportFormat::Csv, true);
            let pieces = pushed(&mut rows, CSV, size);
            assert_eq!(pieces.concat(), CSV);
            assert!(pieces.iter().all(|piece| piece.ends_with("\r\n")), "{pieces:?}");
            assert_eq!((rows.count(), rows.cursor(), rows.is_between_rows()), (2, Some("c2"), true));
            let text = "{\"name\":\"\\\"\",\"cursor\":\"j1\"}\n{\"cursor\":\"j2\"}\n";
            let mut rows = RowSplitter::new(ExportFormat::Ndjson, true);
            assert_eq!(pushed(&mut rows, text, size).concat(), text);
            assert_eq!((rows.count(), rows.cursor()), (2, Some("j2")));
        }
    }

    #[test]
    fn a_part_of_a_row_is_forgotten_and_a_second_header_dropped() {
        let mut rows = RowSplitter::new(ExportFormat::Csv, true);
        // Broken off after the header and a part of the first row: it begins again.
        assert_eq!(pushed(&mut rows, &CSV[..20], 100), ["name,cursor\r\n"]);
        assert!(!rows.is_between_rows());
        rows.restart();
        assert_eq!(pushed(&mut rows, &CSV[..25], 3).concat(), "\"a\n\"\"b\"\"\",c1\r\n"[..0]);
        rows.restart();
        assert_eq!(pushed(&mut rows, CSV, 4).concat(), CSV["name,cursor\r\n".len()..]);
        assert_eq!((rows.count(), rows.cursor()), (2, Some("c2")));
        // Broken off after a row: it goes on without a header.
        rows.push(b"\"half").unwrap();
        rows.restart();
        assert_eq!(pushed(&mut rows, "more,c3\r\n", 2), ["more,c3\r\n"]);
        assert_eq!((rows.count(), rows.cursor()), (3, Some("c3")));
    }

    #[test]
    fn what_is_no_export_is_noticed() {
        assert!(RowSplitter::new(ExportFormat::Ndjson, true).push(b"{}\n").is_err());
        assert!(RowSplitter::new(ExportFormat::Csv, false).push(b"a,b c\r\n").is_err());
    }
}
