//! `auspex backup` and `auspex restore` as an operator uses them: beside a service under load, into a new place.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use store::{Conn, Store};
use testkit::{Backend, PATIENCE, Stage as _, TestDatabase};

use crate::admin::{MASTER_KEY, OTHER_MASTER_KEY, auspex, finish, refused};
use crate::app::PASSWORD;
use crate::process::Running;

testkit::on_both!(
    a_backup_under_load_has_everything_acknowledged_before_it,
    what_cannot_be_restored_leaves_the_place_as_it_was,
    a_backup_of_an_older_schema_is_migrated_by_the_service,
);

/// An object that the backup does not know.
const NEW: usize = 1_000_000;

/// A service in a process of its own, on one database.
struct Deployment {
    database: TestDatabase,
    directory: tempfile::TempDir,
}

impl Deployment {
    async fn new(backend: Backend) -> Self {
        Self { database: TestDatabase::create(backend).await, directory: tempfile::tempdir().unwrap() }
    }

    fn settings(&self) -> [(&str, &str); 4] {
        [
            ("AUSPEX_DATABASE_URL", self.database.url()),
            ("AUSPEX_MASTER_KEY", MASTER_KEY),
            ("AUSPEX_ANALYZER", "words"),
            ("AUSPEX_DEBOUNCE_MS", "50"),
        ]
    }

    fn start(&self) -> Running {
        Running::start(&self.directory, &self.settings())
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = auspex(self.directory.path(), self.database.url(), arguments);
        command.envs(self.settings()).envs(variables.iter().copied());
        finish(command, b"")
    }

    /// Runs a command that must succeed, and returns what it printed.
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, &[]);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn execute(&self, statement: &str) {
        let store = Store::attach(self.database.url()).await.unwrap();
        store
            .write("test", async |conn: &mut Conn| {
                match conn {
                    Conn::Sqlite(lent) => {
                        sqlx::raw_sql(AssertSqlSafe(statement)).execute(lent.native()).await.map(drop)?;
                    }
                    Conn::Postgres(lent) => {
                        sqlx::raw_sql(AssertSqlSafe(statement)).execute(lent.native()).await.map(drop)?;
                    }
                }
                Ok::<_, store::Error>(())
            })
            .await
            .unwrap();
        store.close().await;
    }

    /// Whether nothing was restored here.
    async fn is_untouched(&self) -> bool {
        if let Some(path) = store::sqlite_path(self.database.url()) {
            let left = std::fs::read_dir(path.parent().unwrap()).unwrap();
            return left
                .map(|entry| entry.unwrap().file_name())
                .all(|name| name == "data" || name == "auspex.db-lock");
        }
        let store = Store::attach(self.database.url()).await.unwrap();
        let is_empty = store.is_empty().await.unwrap();
        store.close().await;
        is_empty
    }

    async fn tear_down(self) {
        self.database.tear_down().await;
    }
}

/// Somebody who talks to a service in another process.
struct Caller {
    http: reqwest::Client,
    token: String,
}

impl Caller {
    fn new(token: String) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { http: reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap(), token }
    }

    async fn register(service: &Running) -> Self {
        let nobody = Self::new(String::new());
        let body = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
        let (status, answer) = nobody.call(service, Method::POST, "/auth/console/register", &body).await;
        assert_eq!(status, 201, "{answer}");
        Self::new(answer["token"].as_str().unwrap().to_owned())
    }

    async fn call(&self, service: &Running, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("http://{}{path}", service.address);
        let request = self.http.request(method, url).bearer_auth(&self.token);
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    /// Sends an event about an object; it is acknowledged.
    async fn send(&self, service: &Running, object: usize) {
        let path = format!("/v1/objects/user_{object}/events");
        let body = json!({"events": [{"type": "message", "content": format!("hello {object}")}]});
        let (status, answer) = self.call(service, Method::POST, &path, &body).await;
        assert_eq!(status, 202, "{answer}");
    }

    async fn events(&self, service: &Running, object: usize) -> u64 {
        let path = format!("/v1/objects/user_{object}");
        let (status, answer) = self.call(service, Method::GET, &path, &Value::Null).await;
        if status == 200 { answer["event_count"].as_u64().unwrap() } else { 0 }
    }
}

async fn a_backup_under_load_has_everything_acknowledged_before_it(database: &TestDatabase) {
    let old = Deployment::new(database.backend()).await;
    let service = old.start();
    let caller = Caller::register(&service).await;
    let file = old.directory.path().join("backup");
    let acknowledged = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let load = async {
        while !is_over.load(Ordering::Relaxed) {
            let next = acknowledged.load(Ordering::Relaxed);
            caller.send(&service, next).await;
            acknowledged.store(next + 1, Ordering::Relaxed);
        }
    };
    let back_up = async {
        while acknowledged.load(Ordering::Relaxed) < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let before = acknowledged.load(Ordering::Relaxed);
        let command = {
            let mut command =
                auspex(old.directory.path(), old.database.url(), &["backup", file.to_str().unwrap()]);
            command.envs(old.settings());
            command
        };
        let output = tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap();
        let during = acknowledged.load(Ordering::Relaxed) - before;
        is_over.store(true, Ordering::Relaxed);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(during > 0, "the service went on meanwhile");
        (before, String::from_utf8(output.stdout).unwrap())
    };
    let ((), (before, told)) = tokio::join!(load, back_up);
    assert!(told.contains("The master key is not in it"), "{told}");
    assert!(told.contains("are consistent"), "{told}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(MASTER_KEY.len()).any(|window| window == MASTER_KEY.as_bytes()));
    only_the_backup_is_left(&file);
    // A name that is taken stays what it is.
    let again = refused(&old.run(&["backup", file.to_str().unwrap()], &[]));
    assert!(again.contains("exists already"), "{again}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);

    let new = Deployment::new(database.backend()).await;
    let told = new.succeed(&["restore", file.to_str().unwrap()]);
    assert!(told.contains("is restored") && told.contains("AUSPEX_MASTER_KEY fits it"), "{told}");
    assert!(told.contains("are consistent"), "{told}");
    let restored = new.start();
    for object in 0..before {
        assert_eq!(caller.events(&restored, object).await, 1, "object {object} of {before}");
    }
    // The old service is not disturbed, and the new one works: with the old session, and with new work.
    caller.send(&service, 0).await;
    caller.send(&restored, NEW).await;
    assert_eq!(caller.events(&restored, NEW).await, 1);
    let analyzed = tokio::time::timeout(PATIENCE, async {
        loop {
            let path = format!("/v1/objects/user_{NEW}");
            let (_, object) = caller.call(&restored, Method::GET, &path, &Value::Null).await;
            if object["pending"] == json!([]) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    analyzed.await.expect("the restored service analyzes");
    assert!(restored.stop().0 && service.stop().0);
    assert!(new.succeed(&["admin", "audit"]).contains("are consistent"));

    // What is there now is not replaced.
    let occupied = refused(&new.run(&["restore", file.to_str().unwrap()], &[]));
    assert!(occupied.contains("not empty"), "{occupied}");
    old.tear_down().await;
    new.tear_down().await;
}

/// Nothing but what the operator asked for lies beside the backup.
fn only_the_backup_is_left(file: &Path) {
    let beside = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let left: Vec<_> = beside
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "data" && name != "backup")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

async fn what_cannot_be_restored_leaves_the_place_as_it_was(database: &TestDatabase) {
    let old = Deployment::new(database.backend()).await;
    old.succeed(&["migrate"]);
    old.succeed(&["admin", "tenant", "create", "Acme"]);
    let file = |name: &str| old.directory.path().join(name);
    let backup = file("backup");
    old.succeed(&["backup", backup.to_str().unwrap()]);

    let good = std::fs::read(&backup).unwrap();
    std::fs::write(file("half"), &good[..good.len() / 2]).unwrap();
    std::fs::write(file("text"), "not a database").unwrap();
    std::fs::write(file("empty"), "").unwrap();
    let newer = newer_backup(&old, &file("newer")).await;
    let new = Deployment::new(database.backend()).await;
    for (path, reason) in [
        (file("half"), ""),
        (file("text"), "is not a backup"),
        (file("empty"), "is not a backup"),
        (file("missing"), "cannot read"),
        (newer, "newer auspex"),
    ] {
        let line = refused(&new.run(&["restore", path.to_str().unwrap()], &[]));
        assert!(line.contains(reason), "{}: {line}", path.display());
        assert!(new.is_untouched().await, "{}: {line}", path.display());
    }
    let other_key = [("AUSPEX_MASTER_KEY", OTHER_MASTER_KEY)];
    let line = refused(&new.run(&["restore", backup.to_str().unwrap()], &other_key));
    assert!(line.contains("another master key") && new.is_untouched().await, "{line}");
    // The other database's backups are told apart.
    let (other, name) = match database.backend() {
        Backend::Sqlite => (b"PGDMP".as_slice(), "PostgreSQL"),
        Backend::Postgres => (b"SQLite format 3\0".as_slice(), "SQLite"),
    };
    std::fs::write(file("other"), other).unwrap();
    let line = refused(&new.run(&["restore", file("other").to_str().unwrap()], &[]));
    assert!(line.contains(&format!("a backup of {name}")), "{line}");

    // After all that the good one goes in, and no other key starts the service on it.
    new.succeed(&["restore", backup.to_str().unwrap()]);
    let line = refused(&new.run(&["serve"], &other_key));
    assert!(line.contains("AUSPEX_MASTER_KEY is not the key"), "{line}");
    assert!(new.succeed(&["admin", "tenant", "list"]).contains("Acme"));
    old.tear_down().await;
    new.tear_down().await;
}

/// A backup as a newer binary would write it.
async fn newer_backup(old: &Deployment, file: &Path) -> PathBuf {
    let version = "(SELECT max(version) + 1 FROM migrations)";
    let bytes = if old.database.backend() == Backend::Sqlite { "x'00'" } else { "'\\x00'" };
    old.execute(&format!("INSERT INTO migrations (version, checksum) SELECT {version}, {bytes}")).await;
    if let Some(path) = store::sqlite_path(old.database.url()) {
        store::upkeep::backup::copy_sqlite(path, file).await.unwrap();
    } else {
        let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let beside = installed.map(|version| version.path().join("bin/pg_dump")).find(|path| path.exists());
        let mut dump = Command::new(beside.unwrap_or_else(|| PathBuf::from("pg_dump")));
        dump.arg("--format=custom").arg("--dbname").arg(old.database.url()).arg("--file").arg(file);
        assert!(dump.status().unwrap().success());
    }
    // And the backup command of this binary refuses such a database.
    let line = refused(&old.run(&["backup", &format!("{}-again", file.display())], &[]));
    assert!(line.contains("newer auspex"), "{line}");
    old.execute("DELETE FROM migrations WHERE version = (SELECT max(version) FROM migrations)").await;
    file.to_owned()
}

async fn a_backup_of_an_older_schema_is_migrated_by_the_service(database: &TestDatabase) {
    let old = Deployment::new(database.backend()).await;
    Store::open_at(old.database.url(), 12).await.unwrap().close().await;
    let file = old.directory.path().join("backup");
    let told = old.succeed(&["backup", file.to_str().unwrap()]);
    assert!(told.contains("at schema 12"), "{told}");
    let new = Deployment::new(database.backend()).await;
    let told = new.succeed(&["restore", file.to_str().unwrap()]);
    assert!(told.contains("restored at schema 12"), "{told}");
    let service = new.start();
    let caller = Caller::register(&service).await;
    caller.send(&service, 1).await;
    assert!(service.stop().0);
    old.tear_down().await;
    new.tear_down().await;
}
