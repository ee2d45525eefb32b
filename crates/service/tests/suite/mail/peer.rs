//! A real mail server on loopback, which records the mails sent to it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use serde::Deserialize;
use testkit::PATIENCE;
use tokio::sync::watch;

/// The server `tests/peers/smtp.py`. It is stopped when this is dropped.
pub(super) struct Peer {
    process: Child,
    port: u16,
    authority: Option<String>,
    answers: watch::Receiver<Vec<Answer>>,
    reader: Option<JoinHandle<()>>,
}

/// The first line of the server's output.
#[derive(Deserialize)]
struct Greeting {
    port: u16,
    authority: Option<String>,
}

/// The server's answer to one mail.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) to: String,
    #[serde(rename = "answer")]
    pub(super) code: u16,
    /// The mail, if it was accepted.
    #[serde(default)]
    pub(super) mail: Option<Received>,
}

/// A mail as a mail program reads it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Received {
    pub(super) from: String,
    pub(super) login: Option<String>,
    pub(super) encrypted: bool,
    pub(super) headers: Headers,
    pub(super) content_type: String,
    pub(super) text: String,
    pub(super) html: String,
    pub(super) longest_line: usize,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Headers {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) subject: String,
    pub(super) date: String,
    #[serde(rename = "Message-ID")]
    pub(super) message_id: String,
    #[serde(rename = "Auto-Submitted")]
    pub(super) auto_submitted: String,
    #[serde(rename = "List-Unsubscribe")]
    pub(super) list_unsubscribe: Option<String>,
    #[serde(rename = "List-Unsubscribe-Post")]
    pub(super) list_unsubscribe_post: Option<String>,
}

impl Peer {
    /// Starts the server with these arguments; returns once it listens.
    pub(super) fn start(arguments: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = root.join("target/peers/bin/python");
        assert!(python.exists(), "the test peers are not installed: run `make test` (or scripts/test-peers)");
        let mut process = Command::new(python)
            .arg(root.join("tests/peers/smtp.py"))
            .args(arguments)
            // The server exits when its stdin is closed, so it cannot outlive the test.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mail server starts");
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let greeting: Greeting = serde_json::from_str(&line).expect("the mail server prints its port");
        let (sender, answers) = watch::channel(Vec::new());
        let reader = Some(std::thread::spawn(move || collect(output, &sender)));
        Self { process, port: greeting.port, authority: greeting.authority, answers, reader }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Its URL without encryption.
    pub(super) fn plain_url(&self) -> String {
        format!("smtp://127.0.0.1:{}?tls=none", self.port)
    }

    /// The certificate authority that signed its certificate.
    pub(super) fn authority(&self) -> &[u8] {
        self.authority.as_deref().expect("the server has TLS").as_bytes()
    }

    /// Its answers so far.
    pub(super) fn answers(&self) -> Vec<Answer> {
        self.answers.borrow().clone()
    }

    /// Stops it, and returns all of its answers.
    pub(super) fn close(mut self) -> Vec<Answer> {
        drop(self.process.stdin.take());
        self.reader.take().unwrap().join().unwrap();
        self.answers()
    }

    /// Waits until it has answered this many mails.
    pub(super) async fn until(&self, count: usize) -> Vec<Answer> {
        let mut answers = self.answers.clone();
        let enough = tokio::time::timeout(PATIENCE, answers.wait_for(|answers| answers.len() >= count)).await;
        enough.unwrap_or_else(|_| panic!("not {count} in time: {:?}", self.answers())).unwrap().clone()
    }

    /// Waits for the first mail, which it must accept.
    pub(super) async fn first(&self) -> Received {
        self.until(1).await.remove(0).mail.expect("the mail was accepted")
    }
}

fn collect(output: BufReader<ChildStdout>, answers: &watch::Sender<Vec<Answer>>) {
    for line in output.lines().map_while(Result::ok) {
        let answer = serde_json::from_str(&line).expect("one answer per line");
        answers.send_modify(|answers| answers.push(answer));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
