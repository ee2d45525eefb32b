//! Watches the log of every test: no secret that a test met may be in it.
//!
//! All tests of a process share one log and one watch, since the subscriber of `tracing` is global. Each byte is searched
//! once for the secrets that were known before it, and once more for each batch of secrets that came after it. Both are
//! bounded: `cargo test` runs the whole suite in one process.

use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use aho_corasick::AhoCorasick;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::app::PASSWORD;

/// Shorter ones, such as codes of six digits, would be found in timestamps.
const SHORTEST: usize = 10;
/// Bytes of the log that are kept for secrets still to come: a secret is remembered soon after it was made.
const KEPT: usize = 8 << 20;
/// Secrets that are searched for: more than tests that run at the same time have.
const MAX_SECRETS: usize = 4_000;

/// The watch over the log of this process.
static WATCH: LazyLock<LogWatch> = LazyLock::new(|| {
    let watch = LogWatch::new(KEPT, MAX_SECRETS);
    tracing_subscriber::fmt()
        .with_env_filter("debug,h2=info,hyper_util=info,reqwest=info")
        .with_writer(watch.clone())
        .with_ansi(false)
        .init();
    watch.remember(PASSWORD);
    watch
});

/// Starts to keep the log of this process, at a level where everything that we log is in it.
pub(crate) fn start() {
    LazyLock::force(&WATCH);
}

/// A secret that must not be found.
pub(crate) fn remember(secret: &str) {
    WATCH.remember(secret);
}

/// The secrets of an answer: tokens, signing secrets, TOTP secrets, recovery codes.
pub(crate) fn remember_answer(answer: &Value) {
    for field in ["token", "secret"] {
        if let Some(secret) = answer[field].as_str() {
            remember(secret);
        }
    }
    for code in answer["recovery_codes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        remember(code);
    }
}

/// The lines of the log with this text in them.
pub(crate) fn lines_about(text: &str) -> Vec<String> {
    lines_with([&text.to_owned()], &WATCH.lock().log)
}

/// Fails if a secret is in the log. With several tests in one process the line may be another test's.
pub(crate) fn search() {
    let found = WATCH.search();
    assert!(found.is_empty(), "secrets are in the log: {found:#?}");
}

/// A log and the secrets that must not be in it. Cheap to clone; clones share it.
#[derive(Clone)]
struct LogWatch(Arc<Mutex<State>>);

struct State {
    log: Vec<u8>,
    /// How much of the log was searched for the secrets that are `searched_for`.
    searched: usize,
    searched_for: VecDeque<String>,
    /// Secrets that none of the log was searched for.
    new: Vec<String>,
    /// All of both, to keep each once.
    known: HashSet<String>,
    /// Lines with a secret that nobody was told of.
    found: Vec<String>,
    max_log: usize,
    max_secrets: usize,
}

impl LogWatch {
    fn new(max_log: usize, max_secrets: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            log: Vec::new(),
            searched: 0,
            searched_for: VecDeque::new(),
            new: Vec::new(),
            known: HashSet::new(),
            found: Vec::new(),
            max_log,
            max_secrets,
        })))
    }

    fn remember(&self, secret: &str) {
        let mut state = self.lock();
        if secret.len() >= SHORTEST && state.known.insert(secret.to_owned()) {
            state.new.push(secret.to_owned());
        }
    }

    /// The lines with a secret, each reported once.
    fn search(&self) -> Vec<String> {
        let mut state = self.lock();
        state.search();
        std::mem::take(&mut state.found)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that failed elsewhere must not hide what this one finds.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn search(&mut self) {
        let old = lines_with(&self.searched_for, &self.log[self.searched..]);
        let new = lines_with(&self.new, &self.log);
        self.found.extend(old.into_iter().chain(new));
        self.searched = self.log.len();
        self.searched_for.extend(self.new.drain(..));
        while self.searched_for.len() > self.max_secrets {
            if let Some(secret) = self.searched_for.pop_front() {
                self.known.remove(&secret);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.log.extend_from_slice(bytes);
        if self.log.len() > self.max_log {
            // Nothing goes unsearched. Half is dropped, so that this is rare.
            self.search();
            let half = self.log.len() / 2;
            let end =
                self.log[half..].iter().position(|byte| *byte == b'\n').map_or(half, |at| half + at + 1);
            self.log.drain(..end);
            self.searched = self.log.len();
        }
    }
}

/// The lines of a log that contain one of these secrets.
fn lines_with<'a>(secrets: impl IntoIterator<Item = &'a String>, log: &[u8]) -> Vec<String> {
    let mut secrets = secrets.into_iter().peekable();
    if secrets.peek().is_none() || log.is_empty() {
        return Vec::new();
    }
    let searcher = AhoCorasick::new(secrets).expect("secrets are short");
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(found) = searcher.find(&log[at..]) {
        let is_break = |byte: &u8| *byte == b'\n';
        let position = at + found.start();
        let begin = log[..position].iter().rposition(is_break).map_or(0, |before| before + 1);
        let end = log[position..].iter().position(is_break).map_or(log.len(), |length| position + length);
        lines.push(String::from_utf8_lossy(&log[begin..end]).into_owned());
        at = end;
    }
    lines
}

impl Write for LogWatch {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lock().write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogWatch {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Runs `log` with a watch of its own, which no other test sees.
fn watched(max_log: usize, log: impl FnOnce(&LogWatch)) {
    let watch = LogWatch::new(max_log, 3);
    let subscriber = tracing_subscriber::fmt().with_writer(watch.clone()).with_ansi(false).finish();
    tracing::subscriber::with_default(subscriber, || log(&watch));
}

#[test]
fn a_secret_in_the_log_is_found_once() {
    watched(KEPT, |watch| {
        tracing::info!("the password is {}", "open sesame, will you");
        assert!(watch.search().is_empty());
        watch.remember("open sesame, will you");
        let found = watch.search();
        assert!(found.len() == 1 && found[0].ends_with("the password is open sesame, will you"), "{found:?}");
        assert!(watch.search().is_empty(), "it is reported once");
        tracing::info!("again: open sesame, will you");
        tracing::info!("and again: open sesame, will you");
        assert_eq!(watch.search().len(), 2, "known secrets are searched for in what is new");
    });
}

#[test]
fn a_secret_is_found_in_what_is_no_longer_kept() {
    watched(2_000, |watch| {
        watch.remember("open sesame, will you");
        tracing::info!("the password is open sesame, will you");
        for number in 0..1_000 {
            tracing::info!(number, "something else");
        }
        assert!(watch.lock().log.len() <= 2_000);
        assert_eq!(watch.search().len(), 1);
    });
}

#[test]
fn the_oldest_secrets_are_forgotten() {
    watched(KEPT, |watch| {
        for number in 0..10 {
            watch.remember(&format!("secret number {number}"));
        }
        assert!(watch.search().is_empty());
        let known = watch.lock().known.len();
        assert_eq!(known, 3);
        tracing::info!("secret number 0, secret number 9");
        assert_eq!(watch.search().len(), 1);
    });
}
