//! Watches the log of every story: no secret that a story met may be in it.

use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};

use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::app::PASSWORD;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static SECRETS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Shorter ones, such as codes of six digits, would be found in timestamps.
const SHORTEST: usize = 10;

/// Writes log lines where they can be searched.
struct Memory;

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        locked(&LOG).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Memory {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

/// Starts to keep the log of this process, at a level where everything that we log is in it.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let level = tracing_subscriber::EnvFilter::new("debug,h2=info,hyper_util=info,reqwest=info");
        tracing_subscriber::fmt().with_env_filter(level).with_writer(Memory).with_ansi(false).init();
        remember(PASSWORD);
    });
}

/// A secret that must not be found.
pub(crate) fn remember(secret: &str) {
    if secret.len() >= SHORTEST {
        locked(&SECRETS).push(secret.to_owned());
    }
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

/// Searches the log for every secret so far.
pub(crate) fn search() {
    let log = locked(&LOG);
    let log = String::from_utf8_lossy(&log);
    for secret in locked(&SECRETS).iter() {
        if let Some(line) = log.lines().find(|line| line.contains(secret.as_str())) {
            panic!("the log tells a secret: {line}");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A story that failed elsewhere must not hide what this one finds.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_secret_in_the_log_is_found() {
    start();
    tracing::info!("the password is {}", "open sesame, will you");
    search();
    remember("open sesame, will you");
    assert!(std::panic::catch_unwind(search).is_err());
    locked(&SECRETS).retain(|secret| secret != "open sesame, will you");
}
