//! Starts the providers of `tests/peers`, which run in Python.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use url::Url;

/// A provider on loopback. It ends with this value, and by itself should this process die first.
pub(super) struct Peer {
    pub(super) url: Url,
    process: Child,
}

impl Peer {
    /// Starts a script of `tests/peers`, and returns once it listens.
    pub(super) fn start(script: &str, arguments: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = root.join("target/peers/bin/python");
        assert!(python.exists(), "the test peers are missing: run `make test` (or scripts/test-peers)");
        let mut process = Command::new(python)
            .arg("-B")
            .arg(root.join("tests/peers").join(script))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let greeting: serde_json::Value = serde_json::from_str(&greeting).expect("the peer says its port");
        let url = format!("http://127.0.0.1:{}", greeting["port"]).parse().unwrap();
        Self { url, process }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
