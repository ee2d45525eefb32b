//! The binary as an operator meets it: commands, logs, signals.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A command of ours with an empty environment and a data directory of its own.
fn auspex(directory: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_auspex"));
    command.args(arguments).env_clear().current_dir(directory).env("AUSPEX_LISTEN", "127.0.0.1:0");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(directory: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    auspex(directory, arguments).envs(variables.iter().copied()).output().unwrap()
}

/// A client of services in other processes, which gives up on one that is frozen.
pub(crate) fn client() -> reqwest::Client {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap()
}

/// A running service and the address that it printed.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Running {
    pub(crate) fn start(directory: &TempDir, variables: &[(&str, &str)]) -> Self {
        Self::spawn(auspex(directory, &["serve"]), variables)
    }

    /// Starts a process that gets an error where others end: when it exceeds a file size limit.
    pub(crate) fn start_ignoring_file_size(directory: &TempDir, variables: &[(&str, &str)]) -> Self {
        let plain = auspex(directory, &["serve"]);
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args());
        command.env_clear().current_dir(directory).env("AUSPEX_LISTEN", "127.0.0.1:0");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::spawn(command, variables)
    }

    fn spawn(mut command: Command, variables: &[(&str, &str)]) -> Self {
        if cfg!(not(feature = "embedded")) {
            command.env("AUSPEX_ANALYZER", "words");
        }
        let mut child = command.envs(variables.iter().copied()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Some((_, address)) = line.trim_end().split_once(" listens on http://") else {
            let mut errors = String::new();
            child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            panic!("the service did not start: {line:?} {errors}");
        };
        let address = address.to_owned();
        Self { child, stdout, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\nx-request-id: id-of-{}\r\n\r\n",
            path.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The most memory that it has had at a time, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Tells it to stop, and returns whether it ended well, with all it wrote to its log.
    pub(crate) fn stop(self) -> (bool, String) {
        self.signal("-TERM");
        self.wait()
    }

    fn wait(mut self) -> (bool, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().success(), log)
    }
}

impl Drop for Running {
    /// A test that fails must not leave its service behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_where_it_listens_and_what_to_do_next() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Running::start(&directory, &[]);
    assert!(service.get("/readyz").starts_with("HTTP/1.1 200"));
    let mut told = String::new();
    while !told.contains("stop") {
        service.stdout.read_line(&mut told).unwrap();
    }
    assert!(told.contains(&format!("auspex signup --url http://{}", service.address)), "{told}");
    assert!(directory.path().join("data/auspex.db").exists());
    assert!(service.stop().0);
}

#[test]
#[cfg(not(feature = "embedded"))]
fn a_build_without_the_embedded_model_says_so_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(&directory, &["serve"], &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("built without the embedded model"), "{errors}");
}

#[test]
fn it_starts_again_on_the_database_it_made() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let service = Running::start(&directory, &[]);
        assert!(service.get("/readyz").starts_with("HTTP/1.1 200"));
        assert!(service.stop().0);
    }
}

#[test]
fn log_lines_about_a_request_carry_its_id_in_both_formats() {
    for format in ["text", "json"] {
        let directory = tempfile::tempdir().unwrap();
        // Without the statements of migrations: nobody reads the pipe until the service ends, and it holds 64 KiB.
        let settings = [("AUSPEX_LOG", "debug,sqlx=warn"), ("AUSPEX_LOG_FORMAT", format)];
        let service = Running::start(&directory, &settings);
        service.get("/healthz");
        let (_, log) = service.stop();
        let about: Vec<&str> = log.lines().filter(|line| line.contains("answered")).collect();
        assert_eq!(about.len(), 1, "{log}");
        assert!(about[0].contains("id-of-8"), "{}", about[0]);
        if format == "json" {
            for line in log.lines() {
                let parsed: serde_json::Value =
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                assert!(parsed["timestamp"].is_string() && parsed["level"].is_string(), "{line}");
            }
        }
    }
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let service = Running::start(&directory, &[]);
    // Half a request is under way when the signal comes; a silent connection is not, and must not hold the end up.
    let _silent = service.connect();
    let mut half = service.connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost: te").unwrap();
    // A second request, answered, shows that the server has read what came before it.
    assert!(service.get("/healthz").starts_with("HTTP/1.1 200"));
    service.signal("-TERM");
    half.write_all(b"st\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    assert!(service.wait().0);
}

#[test]
fn a_bad_setting_stops_the_start_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["serve", "migrate", "config"] {
        let output = run(&directory, &[command], &[("AUSPEX_WORKERS", "many")]);
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "auspex: AUSPEX_WORKERS is not valid: `many`: invalid digit found in string\n");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&directory, &["serve"], &[("AUSPEX_LISTEN", &address)]);
    assert!(String::from_utf8(output.stderr).unwrap().contains(&format!("cannot listen on {address}")));
}

#[test]
fn config_shows_every_setting_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let output =
        run(&directory, &["config"], &[("AUSPEX_SMTP_URL", "smtp://me:hush@mail"), ("AUSPEX_WORKERS", "3")]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(!shown.contains("hush"));
    insta::assert_snapshot!(shown);
}

#[test]
fn admin_refuses_where_there_is_no_database() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["admin", "tenant", "list"] as &[&str], &["admin", "rekey"], &["admin", "audit"]] {
        let output = run(&directory, arguments, &[("AUSPEX_ANALYZER", "words")]);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("there is no database at ./data/auspex.db"), "{said}");
        assert!(!directory.path().join("data").exists(), "nothing is made");
    }
}

#[test]
fn migrate_makes_the_schema_and_may_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let output = run(&directory, &["migrate"], &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(directory.path().join("data/auspex.db").exists());
}

#[test]
fn a_second_process_on_one_sqlite_file_is_refused_and_commands_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let service = Running::start(&directory, &[]);
    for command in [&["serve"] as &[&str], &["admin", "rekey"]] {
        let output = run(&directory, command, &[("AUSPEX_ANALYZER", "words")]);
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!(
            "auspex: cannot use the database: another auspex (process {}) is serving from ./data/auspex.db: stop it first, \
             or use PostgreSQL to run several\n",
            service.child.id()
        );
        assert!(!output.status.success() && said == expected, "{command:?}: {said}");
    }
    std::os::unix::fs::symlink("data/auspex.db", directory.path().join("other.db")).unwrap();
    let by_another_name = [("AUSPEX_ANALYZER", "words"), ("AUSPEX_DATABASE_URL", "sqlite:other.db")];
    let output = run(&directory, &["serve"], &by_another_name);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("is serving from"), "{said}");
    for command in [&["admin", "tenant", "create", "Acme"] as &[&str], &["admin", "audit"], &["migrate"]] {
        let output = run(&directory, command, &[]);
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    service.signal("-KILL");
    assert!(!service.wait().0);
    let next = Running::start(&directory, &[]);
    assert!(next.get("/readyz").starts_with("HTTP/1.1 200"), "nothing is left of one that was killed");
    assert!(next.stop().0);
}
