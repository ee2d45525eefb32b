//! `auspex import`: sends the events of a file through HTTP, several requests at a time, in order for each object.
//!
//! The file is cut into windows, always at the same lines. Within a window the lines of an object become as few requests as
//! fit; a journal beside the file notes each request that was answered and each window that is done. The key of a request
//! follows from the bytes of the file up to it and from its lines, so what was sent before an interruption and not noted is
//! known to the service and recorded once.

mod journal;
mod progress;
mod reading;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, Error, Ingest};
use futures_util::StreamExt as _;

use self::journal::Journal;
use self::progress::Progress;
use self::reading::{BadLine, Part, Reader, Window};
use super::{CommandResult, say};

/// Requests at a time: enough to hide the way to the service, few enough to leave others room.
const IN_FLIGHT: usize = 8;
/// The rate limit is by the minute, so whoever is over it waits that long.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(2);

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Lines of `{object_id, object_type?, events}`, or of plain events with an `object_id`.
    file: PathBuf,
    /// Where the service is.
    #[arg(long, env = "AUSPEX_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The API key's public id.
    #[arg(long, env = "AUSPEX_API_KEY")]
    key: String,
    /// The API key's secret; better in the environment, since arguments show up in process lists.
    #[arg(long, env = "AUSPEX_API_SECRET", hide_env_values = true)]
    secret: String,
    /// Leave lines out that cannot be recorded, and count them, instead of stopping at the first.
    #[arg(long)]
    skip_bad: bool,
    /// Where to note what is done; FILE.auspex-journal unless told.
    #[arg(long)]
    journal: Option<PathBuf>,
}

/// One run.
struct Import {
    client: Client,
    skip_bad: bool,
    journal: Mutex<Journal>,
    progress: Progress,
    sent: AtomicU64,
    known: AtomicU64,
    skipped: AtomicU64,
    /// Set by the first failure: what is in flight finishes, and nothing more is sent.
    stop: AtomicBool,
}

/// Why an import stops.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("{0}")]
    BadLine(BadLine),
    #[error("lines {first} to {last}: {cause}")]
    Service { first: u64, last: u64, cause: Error },
    #[error("the journal cannot be written: {0}")]
    Journal(std::io::Error),
}

pub(super) async fn run(arguments: Arguments) -> CommandResult {
    let client = Client::builder(arguments.url)
        .key(arguments.key, arguments.secret)
        .max_retries(10)
        .max_retry_after(LONGEST_RETRY_AFTER)
        .build()?;
    // A wrong key is said before the file is read, and the journal is the account's.
    let account = client.me().await?.tenant_id;
    let path = arguments.journal.unwrap_or_else(|| beside(&arguments.file));
    let journal = Journal::open(&path, account)?;
    let mut reader = Reader::open(&arguments.file, journal.position())?;
    let progress = Progress::start(reader.size(), journal.position().offset);
    let import = Import {
        client,
        skip_bad: arguments.skip_bad,
        journal: Mutex::new(journal),
        progress,
        sent: AtomicU64::new(0),
        known: AtomicU64::new(0),
        skipped: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let outcome = import.run(&mut reader).await;
    import.progress.finish();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut summary = format!("{} events recorded", count(&import.sent));
    for (number, what) in
        [(count(&import.known), "were there already"), (count(&import.skipped), "bad lines skipped")]
    {
        if number > 0 {
            summary = format!("{summary}, {number} {what}");
        }
    }
    say(&format!("{summary}."));
    outcome.map_err(|stop| {
        format!(
            "{}: {stop}\nWhat was recorded is noted in {}; run the command again to go on.",
            arguments.file.display(),
            path.display()
        )
        .into()
    })
}

/// FILE.ndjson.auspex-journal
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".auspex-journal");
    name.into()
}

impl Import {
    async fn run(&self, reader: &mut Reader) -> Result<(), Stop> {
        loop {
            let window = reader.next_window().map_err(Stop::BadLine)?;
            self.send(&window).await?;
            let bad = window.bad;
            if let Some(bad) = &bad {
                if !self.skip_bad {
                    // What comes before it is recorded; the next run begins at this line.
                    self.note(|journal| journal.through(&window.before_bad))?;
                    return Err(Stop::BadLine(bad.clone()));
                }
                self.skip(bad);
            }
            self.note(|journal| journal.through(&window.end))?;
            self.progress.reached(window.end.offset, self.sent.load(Ordering::Relaxed));
            if window.is_last {
                return Ok(());
            }
        }
    }

    /// Sends a window: objects side by side, the requests of one object in order.
    async fn send(&self, window: &Window) -> Result<(), Stop> {
        let (requests, ended) = (window.objects.iter().map(Vec::len).sum::<usize>(), AtomicUsize::new(0));
        let part_ended = || {
            let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
            self.progress.reached(window.after(ended, requests), self.sent.load(Ordering::Relaxed));
        };
        let objects = futures_util::stream::iter(&window.objects);
        let outcomes = objects.map(|parts| self.send_object(parts, &part_ended)).buffer_unordered(IN_FLIGHT);
        let failures: Vec<Stop> = outcomes.filter_map(|outcome| async { outcome.err() }).collect().await;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    async fn send_object(&self, parts: &[Part], part_ended: impl Fn()) -> Result<(), Stop> {
        for part in parts {
            // A stack of what is still to be sent: a part that is refused is halved until the line is found.
            let mut waiting = vec![part.clone()];
            while let Some(part) = waiting.pop() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let key = part.key();
                if self.note(|journal| Ok(journal.is_done(&key)))? {
                    continue;
                }
                if let Err(stop) = self.send_part(part, &key, &mut waiting).await {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(stop);
                }
            }
            part_ended();
        }
        Ok(())
    }

    async fn send_part(&self, part: Part, key: &str, waiting: &mut Vec<Part>) -> Result<(), Stop> {
        let mut ingest = Ingest::new(part.events().cloned()).idempotency_key(key);
        if let Some(kind) = &part.object_type {
            ingest = ingest.object_type(kind);
        }
        match self.client.send(&part.object_id, ingest).await {
            Ok(sent) => {
                let counter = if sent.replayed { &self.known } else { &self.sent };
                counter.fetch_add(sent.accepted.accepted.try_into().unwrap_or(0), Ordering::Relaxed);
                self.note(|journal| journal.done(key))
            }
            // A refused request uses up no key. Half of it may be good, and a single line is to be named.
            Err(cause) if matches!(cause.status(), Some(400 | 413)) || matches!(cause, Error::Setup(_)) => {
                if let Some((first, second)) = part.halves() {
                    waiting.extend([second, first]);
                    return Ok(());
                }
                let bad = BadLine { line: part.first_line(), reason: cause.to_string() };
                if !self.skip_bad {
                    return Err(Stop::BadLine(bad));
                }
                self.skip(&bad);
                Ok(())
            }
            Err(cause) => Err(Stop::Service { first: part.first_line(), last: part.last_line(), cause }),
        }
    }

    fn skip(&self, bad: &BadLine) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.progress.tell(&format!("skipped {bad}"));
    }

    /// Works with the journal. A thread that panicked while it held it has written whole lines all the same.
    fn note<T>(&self, work: impl FnOnce(&mut Journal) -> std::io::Result<T>) -> Result<T, Stop> {
        let mut journal = self.journal.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut journal).map_err(Stop::Journal)
    }
}
