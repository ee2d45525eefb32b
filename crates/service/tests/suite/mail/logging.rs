//! The log and the metrics identify mails and their outcomes, and never contain what they say.

use std::io;
use std::sync::{Arc, Mutex};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use service::mail::MailTemplates;
use testkit::{Backend, Stage as _};

use super::peer::Peer;
use super::stage::{MailStage, start};
use super::{FIRST_WAIT, SPREAD};

/// An in-memory log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// The count of each outcome.
fn outcomes(snapshotter: &Snapshotter) -> Vec<(String, u64)> {
    let mut outcomes = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if let ("auspex_mails_total", DebugValue::Counter(count)) = (key.key().name(), value) {
            outcomes.extend(key.key().labels().map(|label| (label.value().to_owned(), count)));
        }
    }
    outcomes.sort();
    outcomes
}

/// On one thread, because log and metrics are thread-local; on SQLite only, because the database makes no difference.
#[test]
fn the_log_identifies_a_mail_without_its_content() {
    let (log, recorder) = (Log::default(), DebuggingRecorder::new());
    let (writer, snapshotter) = (log.clone(), recorder.snapshotter());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let _metering = metrics::set_default_local_recorder(&recorder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = MailStage::set_up(Backend::Sqlite).await;
        let mail =
            MailTemplates::new("https://auspex.example").password_reset("ann@example.com", "hush-hush-token");
        let refusing = Peer::start(&["--refuse"]);
        let mailer = stage.plain_mailer(&refusing.plain_url());
        let workers = start(&mailer);
        stage.queue(&mailer, &mail).await;
        stage.until_left(0).await;
        workers.drain().await;
        let busy = Peer::start(&["--busy", "ann@example.com=1"]);
        let mailer = stage.plain_mailer(&busy.plain_url());
        let workers = start(&mailer);
        stage.queue(&mailer, &mail).await;
        stage.until_due_in(FIRST_WAIT).await;
        stage.advance(FIRST_WAIT.mul_f64(SPREAD));
        stage.until_left(0).await;
        workers.drain().await;
        stage.tear_down().await;
    });
    let text = log.text();
    for expected in
        ["WARN", "message_id=", "event=\"password_reset\"", "the server answered 550", "answered 451"]
    {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    for secret in ["hush", "console/reset", "Reset your password", "ann@example.com", "not known here"] {
        assert!(!text.contains(secret), "{secret} is logged in {text}");
    }
    let counted = [("failed", 1), ("retried", 1), ("sent", 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(outcomes(&snapshotter), counted);
}
