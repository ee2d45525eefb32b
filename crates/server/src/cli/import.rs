//! `auspex import`: sends the events or the labels of a file through HTTP.
//!
//! Events go several requests at a time, in order for each object. The file is split into windows, always at the same lines.
//! Within a window, the lines of an object become as few requests
//! as possible; a journal beside the file records each completed request and each completed window. The idempotency key of
//! a request is derived from the bytes of the file before its window and from its lines, so requests that were sent before
//! an interruption and are not in the journal are recognized by the service and recorded once.

mod columns;
mod csv;
mod error;
mod journal;
mod labels;
mod line;
mod lines;
mod progress;
mod reader;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, Error, Ingest};
use futures_util::StreamExt as _;

use self::columns::{EventColumns, LabelColumns, Mapping, assignment};
use self::error::ImportError;
use self::journal::Journal;
use self::labels::LabelImport;
use self::lines::{BadLine, Lines, Position, Syntax};
use self::progress::Progress;
use self::reader::{Part, Reader, Window};
use super::{CommandResult, print_line};

/// Requests in flight: enough to hide the round trip to the service, few enough to leave room for other clients.
const IN_FLIGHT: usize = 8;
/// The longest `Retry-After` to wait for: the rate limit is per minute.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(2);

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A file with a JSON object on each line: `{object_id, object_type?, events}`, or an event with an `object_id`; or CSV.
    file: PathBuf,
    /// What the file has.
    #[arg(long, default_value = "events", value_parser = ["events", "labels"])]
    what: String,
    /// How the file is written; by default, `csv` if its name ends with that, else `ndjson`.
    #[arg(long, value_parser = ["ndjson", "csv"])]
    format: Option<String>,
    /// CSV: the column that a field is in, where it has another name; `metadata.KEY=COLUMN` for one key of the metadata.
    #[arg(long, value_name = "FIELD=COLUMN", value_parser = assignment)]
    map: Vec<(String, String)>,
    /// CSV: what a field is on every line.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// CSV: what separates the cells.
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    #[command(flatten)]
    connection: cli::Connection,
    /// The API key's public id; by default, `AUSPEX_KEY` or that of the profile.
    #[arg(long, env = "AUSPEX_API_KEY", requires = "secret")]
    key: Option<String>,
    /// The API key's secret; better in the environment, since arguments show up in process lists.
    #[arg(long, env = "AUSPEX_API_SECRET", hide_env_values = true, requires = "key")]
    secret: Option<String>,
    /// Skip and count invalid lines instead of stopping at the first.
    #[arg(long)]
    skip_bad: bool,
    /// Where to keep the journal; FILE.auspex-journal by default.
    #[arg(long)]
    journal: Option<PathBuf>,
}

/// Reads the character that separates cells.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !b"\"\r\n'".contains(byte) => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err("it must be one character, such as ; or \\t".to_owned()),
    }
}

/// The separator and the header line of a CSV file.
type Header = (u8, Vec<u8>);

impl Arguments {
    fn syntax(&self) -> Syntax {
        let is_csv = match self.format.as_deref() {
            Some(format) => format == "csv",
            None => self.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")),
        };
        if is_csv { Syntax::Csv(self.delimiter) } else { Syntax::Ndjson }
    }

    /// What decides how lines are read: a journal must not be continued with anything else.
    fn options(&self) -> String {
        let (Syntax::Csv(delimiter), mapping) = (self.syntax(), (&self.map, &self.set)) else {
            return if self.what == "events" { String::new() } else { self.what.clone() };
        };
        format!("{} csv {} {mapping:?}", self.what, char::from(delimiter))
    }

    /// The separator and the header of a CSV file, which is needed also where an import goes on later in the file.
    fn header(&self) -> Result<Option<Header>, Box<dyn std::error::Error>> {
        let Syntax::Csv(delimiter) = self.syntax() else {
            if self.map.is_empty() && self.set.is_empty() {
                return Ok(None);
            }
            return Err("--map and --set are for CSV; say so with --format csv".into());
        };
        let mut lines = Lines::open(&self.file, &Position::default(), Syntax::Csv(delimiter))?;
        match lines.next().map_err(|bad| bad.to_string())? {
            Some(Ok(header)) => Ok(Some((delimiter, header.to_vec()))),
            Some(Err(reason)) => Err(format!("{}: line 1: {reason}", self.file.display()).into()),
            None => {
                Err(format!("{}: it is empty; the first line must name the columns", self.file.display())
                    .into())
            }
        }
    }

    fn mapping(&self) -> Mapping {
        Mapping { columns: self.map.clone(), values: self.set.clone() }
    }

    /// A failure about the first line.
    fn about_header(&self) -> impl Fn(String) -> String {
        let name = self.file.display().to_string();
        move |reason| format!("{name}: line 1: {reason}")
    }
}

/// An import in progress.
struct Import {
    client: Client,
    skip_bad: bool,
    journal: Mutex<Journal>,
    progress: Progress,
    sent: AtomicU64,
    already_recorded: AtomicU64,
    skipped: AtomicU64,
    /// Set by the first failure: requests in flight finish, and no more are sent.
    stop: AtomicBool,
}

pub(super) async fn run(arguments: Arguments) -> CommandResult {
    let builder = match (&arguments.key, &arguments.secret) {
        (Some(key), Some(secret)) => arguments.connection.anonymous().key(key, secret),
        _ => arguments.connection.connect()?,
    };
    let client = builder.max_retries(10).max_retry_after(LONGEST_RETRY_AFTER).build()?;
    // Reports a wrong key before the file is read; the journal belongs to an account.
    let account = client.me().await?.tenant_id;
    let path = arguments.journal.clone().unwrap_or_else(|| default_journal_path(&arguments.file));
    let header = arguments.header()?;
    let journal = Journal::open(&path, account, &arguments.options())?;
    let (summary, outcome) = if arguments.what == "labels" {
        import_labels(&arguments, client, journal, header).await?
    } else {
        import_events(&arguments, client, journal, header).await?
    };
    print_line(&format!("{summary}."));
    outcome.map_err(|error| {
        format!(
            "{}: {error}\nWhat was recorded is noted in {}; run the command again to go on.",
            arguments.file.display(),
            path.display()
        )
        .into()
    })
}

/// What an import did, and why it stopped if it did.
type Ended = (String, Result<(), ImportError>);

async fn import_events(
    arguments: &Arguments,
    client: Client,
    journal: Journal,
    header: Option<Header>,
) -> Result<Ended, Box<dyn std::error::Error>> {
    let columns =
        header.map(|(delimiter, header)| EventColumns::new(&header, delimiter, &arguments.mapping()));
    let columns = columns.transpose().map_err(arguments.about_header())?;
    let mut reader = Reader::open(&arguments.file, journal.position(), arguments.syntax(), columns)?;
    let progress = Progress::start("events", reader.size(), journal.position().offset);
    let import = Import {
        client,
        skip_bad: arguments.skip_bad,
        journal: Mutex::new(journal),
        progress,
        sent: AtomicU64::new(0),
        already_recorded: AtomicU64::new(0),
        skipped: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let outcome = import.run(&mut reader).await;
    import.progress.finish();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let also = [
        (count(&import.already_recorded), "were there already"),
        (count(&import.skipped), "bad lines skipped"),
    ];
    Ok((summary(&format!("{} events recorded", count(&import.sent)), &also), outcome))
}

async fn import_labels(
    arguments: &Arguments,
    client: Client,
    journal: Journal,
    header: Option<Header>,
) -> Result<Ended, Box<dyn std::error::Error>> {
    let columns = match header {
        Some((delimiter, header)) => {
            let signals =
                client.signals().await?.into_iter().map(|signal| (signal.key, signal.kind)).collect();
            let columns = LabelColumns::new(&header, delimiter, &arguments.mapping(), signals);
            Some(columns.map_err(arguments.about_header())?)
        }
        None => None,
    };
    let mut lines = Lines::open(&arguments.file, journal.position(), arguments.syntax())?;
    let progress = Progress::start("labels", lines.size(), journal.position().offset);
    let skip_bad = arguments.skip_bad;
    let mut import = LabelImport { client, skip_bad, journal, progress, columns, sent: 0, skipped: 0 };
    let outcome = import.run(&mut lines).await;
    import.progress.finish();
    let also = [(import.skipped, "bad lines skipped")];
    Ok((summary(&format!("{} labels recorded", import.sent), &also), outcome))
}

/// What was done, with what is not nothing beside it.
fn summary(done: &str, also: &[(u64, &str)]) -> String {
    let also =
        also.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!(", {number} {what}"));
    format!("{done}{}", also.collect::<String>())
}

/// FILE.ndjson.auspex-journal
fn default_journal_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".auspex-journal");
    name.into()
}

impl Import {
    async fn run(&self, reader: &mut Reader) -> Result<(), ImportError> {
        loop {
            let window = reader.next_window().map_err(ImportError::BadLine)?;
            self.send(&window).await?;
            let bad = window.bad;
            if let Some(bad) = &bad {
                if !self.skip_bad {
                    // The lines before it are recorded; the next run resumes at this line.
                    self.with_journal(|journal| journal.through(&window.before_bad))?;
                    return Err(ImportError::BadLine(bad.clone()));
                }
                self.skip(bad);
            }
            self.with_journal(|journal| journal.through(&window.end))?;
            self.progress.reached(window.end.offset, self.sent.load(Ordering::Relaxed));
            if window.is_last {
                return Ok(());
            }
        }
    }

    /// Sends a window: objects concurrently, the requests of one object in order.
    async fn send(&self, window: &Window) -> Result<(), ImportError> {
        let (requests, done) = (window.objects.iter().map(Vec::len).sum::<usize>(), AtomicUsize::new(0));
        let on_part_done = || {
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            self.progress.reached(window.offset_after(done, requests), self.sent.load(Ordering::Relaxed));
        };
        let objects = futures_util::stream::iter(&window.objects);
        let outcomes =
            objects.map(|parts| self.send_object(parts, &on_part_done)).buffer_unordered(IN_FLIGHT);
        let failures: Vec<ImportError> =
            outcomes.filter_map(|outcome| async { outcome.err() }).collect().await;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    async fn send_object(&self, parts: &[Part], on_part_done: impl Fn()) -> Result<(), ImportError> {
        for part in parts {
            // A stack of parts to send: a part that is refused is halved until the invalid line is found.
            let mut waiting = vec![part.clone()];
            while let Some(part) = waiting.pop() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let key = part.key();
                if self.with_journal(|journal| Ok(journal.is_done(&key)))? {
                    continue;
                }
                if let Err(error) = self.send_part(part, &key, &mut waiting).await {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            on_part_done();
        }
        Ok(())
    }

    async fn send_part(&self, part: Part, key: &str, waiting: &mut Vec<Part>) -> Result<(), ImportError> {
        let mut ingest = Ingest::new(part.events().cloned()).idempotency_key(key);
        if let Some(kind) = &part.object_type {
            ingest = ingest.object_type(kind);
        }
        match self.client.send(&part.object_id, ingest).await {
            Ok(sent) => {
                let counter = if sent.replayed { &self.already_recorded } else { &self.sent };
                counter.fetch_add(sent.accepted.accepted.try_into().unwrap_or(0), Ordering::Relaxed);
                self.with_journal(|journal| journal.done(key))
            }
            // A refused request does not use up its key. The other lines may be valid, and the invalid one must be named.
            Err(cause) if matches!(cause.status(), Some(400 | 413)) || matches!(cause, Error::Setup(_)) => {
                if let Some((first, second)) = part.halves() {
                    waiting.extend([second, first]);
                    return Ok(());
                }
                let bad = BadLine { line: part.first_line(), reason: cause.to_string() };
                if !self.skip_bad {
                    return Err(ImportError::BadLine(bad));
                }
                self.skip(&bad);
                Ok(())
            }
            Err(cause) => {
                Err(ImportError::Service { first: part.first_line(), last: part.last_line(), cause })
            }
        }
    }

    fn skip(&self, bad: &BadLine) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.progress.print(&format!("skipped {bad}"));
    }

    /// Locks and uses the journal. A poisoned lock is ignored: lines are always written whole.
    fn with_journal<T>(
        &self,
        work: impl FnOnce(&mut Journal) -> std::io::Result<T>,
    ) -> Result<T, ImportError> {
        let mut journal = self.journal.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut journal).map_err(ImportError::Journal)
    }
}
