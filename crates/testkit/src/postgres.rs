//! PostgreSQL servers of a test's own, and streaming replicas of them.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::PATIENCE;

/// Names what runs a program of PostgreSQL as its owner; `make test` sets it.
const TOOLS_VARIABLE: &str = "AUSPEX_TEST_POSTGRES_TOOLS";

/// A server that can be killed, started again, copied and promoted. It ends with this value, and its files with the last copy.
pub struct PostgresServer {
    directory: Arc<Directory>,
    data: String,
    port: u16,
    process: Mutex<Option<Child>>,
}

/// Where the servers of a test have their files; it is PostgreSQL's own.
struct Directory(String);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = tool("rm").args(["-rf", &self.0]).status();
    }
}

/// A program of PostgreSQL, or of the system, as the owner of clusters.
fn tool(program: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "set by scripts/with-postgres")]
    let tools = std::env::var_os(TOOLS_VARIABLE).unwrap_or_else(|| "env".into());
    let mut command = Command::new(tools);
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn succeed(command: &mut Command) {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.expect("PostgreSQL's programs are there: run `make test`");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl PostgresServer {
    /// Starts a cluster of its own, with an empty database that belongs to an ordinary user.
    pub async fn start() -> Self {
        let made = tool("mktemp").args(["-d", "/tmp/auspex-pg.XXXXXX"]).stdout(Stdio::piped()).output();
        let path = String::from_utf8(made.unwrap().stdout).unwrap().trim().to_owned();
        let directory = Arc::new(Directory(path));
        let server = Self::at(directory, "first");
        let initdb =
            ["-D", &server.data, "-U", "auspex", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
        succeed(tool("initdb").args(initdb));
        server.restart().await;
        run(&server.superuser_url("postgres"), "CREATE ROLE service LOGIN").await;
        run(&server.superuser_url("postgres"), "CREATE DATABASE service OWNER service").await;
        server
    }

    /// Starts a streaming replica.
    pub async fn copy(&self) -> Self {
        let port = free_port();
        let copy = Self::at(Arc::clone(&self.directory), &port.to_string());
        let backup =
            ["-D", &copy.data, "-d", &self.source(), "-R", "-X", "stream", "-c", "fast", "--no-sync"];
        succeed(tool("pg_basebackup").args(backup));
        copy.restart().await;
        copy
    }

    fn at(directory: Arc<Directory>, name: &str) -> Self {
        let data = format!("{}/{name}", directory.0);
        Self { directory, data, port: free_port(), process: Mutex::default() }
    }

    /// Its address for the ordinary user, as in `DATABASE_URL`.
    pub fn url(&self) -> String {
        format!("postgres://service@127.0.0.1:{}/service", self.port)
    }

    fn superuser_url(&self, database: &str) -> String {
        format!("postgres://auspex@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs a statement in the service's database as a superuser.
    pub async fn execute(&self, statement: &str) {
        run(&self.superuser_url("service"), statement).await;
    }

    /// Whether a condition holds in the service's database.
    pub async fn holds(&self, condition: &str) -> bool {
        let mut connection = PgConnection::connect(&self.superuser_url("service")).await.unwrap();
        let query = AssertSqlSafe(format!("SELECT coalesce(({condition}), false)"));
        sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
    }

    /// Waits until a condition holds in the service's database.
    pub async fn wait_until(&self, condition: &str) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !self.holds(condition).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(waited.await.is_ok(), "in vain: {condition}");
    }

    /// Stops replaying, on a replica, until [`Self::resume`].
    pub async fn pause(&self) {
        self.execute("SELECT pg_wal_replay_pause()").await;
        self.wait_until("SELECT pg_get_wal_replay_pause_state() = 'paused'").await;
    }

    /// Replays again.
    pub async fn resume(&self) {
        self.execute("SELECT pg_wal_replay_resume()").await;
    }

    /// Makes a replica a primary.
    pub async fn promote(&self) {
        self.execute("SELECT pg_promote()").await;
        self.wait_until("SELECT NOT pg_is_in_recovery()").await;
    }

    /// Lets a replica follow another server.
    pub async fn follow(&self, other: &Self) {
        self.follow_source(&other.source()).await;
        self.wait_until("SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)").await;
    }

    /// Lets a replica follow nobody: it stays as it is.
    pub async fn detach(&self) {
        self.follow_source("").await;
        self.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)").await;
    }

    async fn follow_source(&self, source: &str) {
        self.execute(&format!("ALTER SYSTEM SET primary_conninfo = '{source}'")).await;
        self.execute("SELECT pg_reload_conf()").await;
    }

    /// Where replicas get its log.
    fn source(&self) -> String {
        format!("host=127.0.0.1 port={} user=auspex", self.port)
    }

    /// Ends its processes at once, as a crash does.
    pub fn kill(&self) {
        // A test that failed while it held the lock must not hide its own message.
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut process) = process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it, again if it runs, and waits until it answers.
    pub async fn restart(&self) {
        self.kill();
        let port = self.port.to_string();
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "max_connections=100",
            "shared_buffers=16MB",
            "max_standby_streaming_delay=0",
        ];
        let answered = tokio::time::timeout(PATIENCE, async {
            while PgConnection::connect(&self.superuser_url("postgres")).await.is_err() {
                // One that was killed may have processes left, for which its successor does not wait.
                if !self.is_running() {
                    let mut command = tool("postgres");
                    command.args(["-D", &self.data, "-p", &port]);
                    for setting in settings {
                        command.args(["-c", setting]);
                    }
                    *self.process.lock().unwrap() = Some(command.spawn().unwrap());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(answered.await.is_ok(), "no server on port {port}");
    }

    fn is_running(&self) -> bool {
        let mut process = self.process.lock().unwrap();
        process.as_mut().is_some_and(|process| process.try_wait().is_ok_and(|ended| ended.is_none()))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn run(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let ran = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await;
    ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
}
