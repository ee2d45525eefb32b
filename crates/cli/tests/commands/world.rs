//! A running service, the command beside it, and a terminal to run it in.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use client::{Call, Client, Method, api::RegisterRequest};
use rustix::termios::Winsize;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Backend, Stage, TestDatabase};

pub(crate) const PASSWORD: &str = "seven lamps along the quay";

/// The real binary on a database of its own.
pub(crate) struct World {
    service: Service,
    pub(crate) url: String,
    database: TestDatabase,
}

/// A process that ends with this value, also when its test fails.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A person with a home of their own.
pub(crate) struct Person {
    pub(crate) home: TempDir,
    pub(crate) url: String,
    pub(crate) email: String,
    pub(crate) variables: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The binary `auspex`, which is built beside these tests.
pub(crate) fn binary() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().parent().unwrap().join("auspex");
    assert!(path.exists(), "{} is not there: build it with: cargo build --bin auspex", path.display());
    path
}

impl Stage for World {
    async fn set_up(backend: Backend) -> Self {
        Self::with(backend, &[]).await
    }

    async fn tear_down(self) {
        let Self { service, database, .. } = self;
        drop(service);
        database.tear_down().await;
    }
}

impl World {
    /// The service with more settings than usual.
    pub(crate) async fn with(backend: Backend, more: &[(&str, &str)]) -> Self {
        let database = TestDatabase::create_migrated(backend).await;
        let settings = [
            ("AUSPEX_LISTEN", "127.0.0.1:0"),
            ("AUSPEX_LOG", "error"),
            ("AUSPEX_ANALYZER", "words"),
            ("AUSPEX_ESCALATE_ANALYZER", "words"),
            ("AUSPEX_DEBOUNCE_MS", "50"),
            ("AUSPEX_DEBOUNCE_MAX_MS", "500"),
            ("AUSPEX_RATE_LIMIT_PER_MINUTE", "1000000"),
            ("AUSPEX_SIGNUP_CREDIT_CENTS", "10000000"),
            ("AUSPEX_ALLOW_PRIVATE_TARGETS", "true"),
            ("AUSPEX_WEBHOOK_MAX_ATTEMPTS", "1"),
            ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ];
        let mut child = Command::new(binary())
            .arg("serve")
            .env_clear()
            .envs(settings)
            .envs(more.iter().copied())
            .env("AUSPEX_DATABASE_URL", database.url())
            .env("AUSPEX_DATA_DIR", database.directory().join("data"))
            .current_dir(database.directory())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let service = Service(child);
        let mut greeting = String::new();
        BufReader::new(stdout).read_line(&mut greeting).unwrap();
        let url = greeting.split(" listens on ").nth(1).expect("the service starts").trim().to_owned();
        Self { service, url, database }
    }

    /// Somebody without an account.
    pub(crate) fn stranger(&self) -> Person {
        let email = format!("ada-{}@example.com", uuid());
        Person { home: tempfile::tempdir().unwrap(), url: self.url.clone(), email, variables: Vec::new() }
    }

    /// Somebody who has opened an account and signed in on this machine.
    pub(crate) fn person(&self) -> Person {
        let person = self.stranger();
        let arguments = ["signup", "--name", "Acme", "--email", &person.email, "--password-stdin"];
        let ran = person.run_with(&arguments, PASSWORD);
        assert_eq!(ran.code, 0, "{ran:?}");
        person
    }

    /// Somebody who has opened an account elsewhere, and a client with the session in which they did.
    pub(crate) async fn owner(&self) -> (Person, Client) {
        let person = self.stranger();
        let nobody = Client::builder(&self.url).build().unwrap();
        let request = RegisterRequest {
            tenant_name: "Acme".to_owned(),
            email: person.email.clone(),
            password: PASSWORD.to_owned(),
        };
        let token = nobody.register(&request).await.unwrap().token;
        (person, Client::builder(&self.url).token(token).build().unwrap())
    }

    /// Somebody who has accepted an owner's invitation, and a client with the session in which they did.
    pub(crate) async fn member(&self, owner: &Client, role: &str) -> (Person, Client) {
        let person = self.stranger();
        let call = Call::new(Method::POST, &["v1", "invitations"]).unwrap();
        owner.request(call.json(&json!({"email": person.email, "role": role})).unwrap()).await.unwrap();
        let token = eventually("the invitation is mailed", async || self.invitation_to(&person.email)).await;
        let call = Call::new(Method::POST, &["auth", "console", "invitations", "accept"]).unwrap();
        let nobody = Client::builder(&self.url).build().unwrap();
        let accept = call.json(&json!({"token": token, "password": PASSWORD})).unwrap();
        let session: Value = nobody.request(accept).await.unwrap().parse().unwrap();
        let client = Client::builder(&self.url).token(session["token"].as_str().unwrap()).build().unwrap();
        (person, client)
    }

    /// The token in the mail that invites this address.
    fn invitation_to(&self, email: &str) -> Option<String> {
        let folder = std::fs::read_dir(self.database.directory().join("data/mail")).ok()?;
        let mails = folder.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
        let mail = mails.into_iter().find(|mail| mail.contains(&format!("To: {email}")))?;
        let (_, rest) = mail.split_once("/console/invitation?token=")?;
        let (token, _) = rest.split_once(char::is_whitespace)?;
        Some(token.to_owned())
    }

    /// A client of a new account, for what tests prepare.
    pub(crate) async fn client(&self) -> (Client, String, String) {
        let (_, person) = self.owner().await;
        let made = person.create_key(Some("tests")).await.unwrap();
        (Client::builder(&self.url).key(&made.key, &made.secret).build().unwrap(), made.key, made.secret)
    }
}

/// Something that no other test has.
fn uuid() -> String {
    tempfile::Builder::new()
        .rand_bytes(16)
        .tempfile()
        .unwrap()
        .path()
        .file_name()
        .unwrap()
        .display()
        .to_string()[4..]
        .to_ascii_lowercase()
}

impl Person {
    /// The command with nothing but this person's home and service in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).env_clear().current_dir(&self.home).env("HOME", self.home.path());
        command.env("AUSPEX_URL", &self.url).envs(self.variables.iter().cloned());
        command
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.home.path().join(".config/auspex/credentials.toml")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "")
    }

    /// Runs a command to its end with this on its standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        finish(self.command(arguments), input)
    }

    /// Runs a command that must succeed, and returns what it printed as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let ran = self.run(&all);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|reason| panic!("{arguments:?}: {reason}: {ran:?}"))
    }

    /// Runs a command that must succeed, and returns what it printed.
    #[track_caller]
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs a line in a shell, where `auspex` is the binary.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let bin = self.home.path().join("bin");
        if !bin.exists() {
            std::fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(binary(), bin.join("auspex")).unwrap();
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).env_clear().current_dir(&self.home).env("HOME", self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command.env("AUSPEX_URL", &self.url).envs(self.variables.iter().cloned());
        finish(command, "")
    }

    /// Runs a command in a terminal of this width, typing `input`; everything that the terminal shows is in `out`.
    pub(crate) fn in_terminal(&self, columns: u16, arguments: &[&str], input: &str) -> Ran {
        self.in_terminal_after(columns, arguments, "", input)
    }

    /// The same, but types only once the terminal shows the prompt.
    pub(crate) fn type_after(&self, arguments: &[&str], prompt: &str, input: &str) -> Ran {
        self.in_terminal_after(80, arguments, prompt, input)
    }

    fn in_terminal_after(&self, columns: u16, arguments: &[&str], prompt: &str, input: &str) -> Ran {
        let controller = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
        rustix::pty::grantpt(&controller).unwrap();
        rustix::pty::unlockpt(&controller).unwrap();
        let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
        let terminal = open(Path::new(name.to_str().unwrap()));
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&terminal, size).unwrap();
        let handle = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = self.command(arguments);
        command.env("TERM", "xterm-256color").stdin(handle()).stdout(handle()).stderr(handle());
        let mut child = command.spawn().unwrap();
        drop((command, terminal));
        let mut controller = std::fs::File::from(controller);
        let (mut shown, mut buffer, mut has_typed) = (Vec::new(), [0; 4096], false);
        loop {
            if !has_typed && String::from_utf8_lossy(&shown).contains(prompt) {
                controller.write_all(input.as_bytes()).unwrap();
                has_typed = true;
            }
            // Reading fails once nobody has the terminal any more.
            let Ok(count @ 1..) = controller.read(&mut buffer) else { break };
            shown.extend_from_slice(&buffer[..count]);
        }
        let code = child.wait().unwrap().code().unwrap_or(-1);
        Ran { code, out: String::from_utf8(shown).unwrap().replace("\r\n", "\n"), err: String::new() }
    }
}

fn open(path: &Path) -> OwnedFd {
    std::fs::File::options().read(true).write(true).open(path).unwrap().into()
}

fn finish(mut command: Command, input: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments ends before it reads, and then nobody takes the input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let ran = Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) };
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    ran
}

/// Asks again until something holds; only a failure takes long.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + testkit::PATIENCE;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
