//! `auspex backup` and `auspex restore`: a copy of the database beside a running service, and a new database out of a copy.
//!
//! Neither leaves half of anything: a backup has its name only once it is checked, and a database is there whole or not at all.
//! The schema stays as it is; the service migrates it at its next start.

pub(super) mod postgres;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use service::{Audit, Auditor};
use store::upkeep::{backup as copies, deployment};
use store::{Conn, Schema, Store};
use tempfile::{NamedTempFile, TempDir};

use super::{CommandResult, admin, print_line};
use crate::assembly;
use crate::config::Config;
use crate::serve;

#[derive(Args)]
pub(super) struct Arguments {
    /// The backup's file.
    file: PathBuf,
}

type Failure = Box<dyn std::error::Error>;

/// How a SQLite file begins.
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";
/// How a dump of PostgreSQL in its custom format begins.
const DUMP_HEADER: &[u8] = b"PGDMP";

/// Writes a backup of the configured database; the service may be running.
pub(super) async fn back_up(arguments: &Arguments, config: &Config) -> CommandResult {
    unless_stopped(write_backup(&arguments.file, config)).await
}

/// Fills the configured database, which must be empty, out of a backup.
pub(super) async fn restore(arguments: &Arguments, config: &Config) -> CommandResult {
    unless_stopped(read_backup(&arguments.file, config)).await
}

/// Gives up when the process is told to stop: what is dropped then removes its temporary files and child processes.
async fn unless_stopped(work: impl Future<Output = CommandResult>) -> CommandResult {
    let stopping = serve::stop_signal()?;
    tokio::select! {
        outcome = work => outcome,
        () = stopping => Err("stopped; nothing was written".into()),
    }
}

async fn write_backup(file: &Path, config: &Config) -> CommandResult {
    if file.exists() {
        return Err(format!("{} exists already: choose another name", file.display()).into());
    }
    let directory = directory_of(file);
    let partial = Partial::create_in(directory)
        .map_err(|cause| format!("cannot write a file in {}: {cause}", directory.display()))?;
    let url = config.database_address();
    let (schema, audit) = match store::sqlite_path(&url) {
        Some(path) => copy_file(path, partial.path()).await?,
        None => dump(&url, partial.path()).await?,
    };
    let bytes = partial.publish(file)?;
    print_line(&format!(
        "{} holds the database at schema {}: {bytes} bytes.",
        file.display(),
        schema.version
    ));
    print_line(&format!(
        "The master key is not in it. Keep {} apart: without it, the secrets in the backup cannot be read.",
        key_source(config)
    ));
    report(audit.as_ref(), schema)
}

/// Copies a SQLite file and checks the copy.
async fn copy_file(source: &Path, target: &Path) -> Result<(Schema, Option<Audit>), Failure> {
    if !source.exists() {
        return Err(format!("there is no database at {}", source.display()).into());
    }
    copies::copy_sqlite(source, target).await?;
    let checked = check_file(target, None).await?;
    Ok((checked.schema, checked.audit))
}

/// Dumps a PostgreSQL database, reads the dump back, and audits the very state that is in it.
async fn dump(url: &str, target: &Path) -> Result<(Schema, Option<Audit>), Failure> {
    let tools = postgres::Tools::find(url)?;
    let store = Store::attach(url).await?;
    let schema = store.schema().await?;
    let snapshot = copies::ExportedSnapshot::take(url).await?;
    tools.dump(snapshot.id(), target).await?;
    tools.read_through(target).await?;
    let auditor = Auditor::new(store.clone());
    let audit = if schema.is_newest() { Some(auditor.run_in(Some(snapshot.id())).await?) } else { None };
    snapshot.end().await?;
    store.close().await;
    Ok((schema, audit))
}

async fn read_backup(file: &Path, config: &Config) -> CommandResult {
    let url = config.database_address();
    let is_dump = match (begins_with(file)?, store::sqlite_path(&url)) {
        (Kind::Sqlite, Some(_)) => false,
        (Kind::Dump, None) => true,
        (Kind::Sqlite, None) => return Err(mismatch(file, "SQLite", "PostgreSQL")),
        (Kind::Dump, Some(_)) => return Err(mismatch(file, "PostgreSQL", "SQLite")),
        (Kind::Other, _) => {
            return Err(format!("{} is not a backup that `auspex backup` wrote", file.display()).into());
        }
    };
    // A service that is started meanwhile would make a database of its own.
    let _lock = assembly::lock_database(config)?;
    let fingerprint = assembly::known_fingerprint(config)?;
    let (schema, audit) = if is_dump {
        load_dump(file, &url, fingerprint.as_deref()).await?
    } else {
        let target = store::sqlite_path(&url).unwrap_or(Path::new(""));
        place_file(file, target, fingerprint.as_deref()).await?
    };
    print_line(&format!("The database is restored at schema {}.", schema.version));
    let key = key_source(config);
    print_line(&match fingerprint {
        Some(_) => format!("The master key was not in the backup; {key} fits it."),
        None => format!(
            "The master key was not in the backup: put the one that belongs to it into {key} before you start the service."
        ),
    });
    report(audit.as_ref(), schema)
}

/// Puts a checked copy of the backup where the database belongs.
async fn place_file(
    file: &Path,
    target: &Path,
    fingerprint: Option<&str>,
) -> Result<(Schema, Option<Audit>), Failure> {
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", target.display()));
    let occupied = ["", "-wal"].map(beside).into_iter().find(|path| is_in_use(path));
    if let Some(path) = occupied {
        return Err(not_empty(&path.display().to_string()));
    }
    let partial = Partial::create_in(directory_of(target))
        .map_err(|cause| format!("cannot write beside {}: {cause}", target.display()))?;
    let (from, to) = (file.to_owned(), partial.path().to_owned());
    tokio::task::spawn_blocking(move || copy_bytes(&from, &to)).await??;
    let checked = check_file(partial.path(), fingerprint).await?;
    let Schema { version, newest } = checked.schema;
    if checked.schema.is_ahead() {
        return Err(format!(
            "the backup is at schema {version}, this auspex at {newest}: restore it with the newer auspex"
        )
        .into());
    }
    // What an aborted start left: an empty file stands for no database.
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(suffix));
    }
    partial.publish(target)?;
    Ok((checked.schema, checked.audit))
}

/// Loads a dump in one transaction, so that a failure leaves the database as empty as it was.
async fn load_dump(
    file: &Path,
    url: &str,
    fingerprint: Option<&str>,
) -> Result<(Schema, Option<Audit>), Failure> {
    let tools = postgres::Tools::find(url)?;
    let schema = schema_of(&tools.journal(file).await?)?;
    let facts = tools.deployment(file).await?;
    check_key(facts.get(service::MASTER_KEY_FACT).map(String::as_str), fingerprint)?;
    let store = Store::attach(url).await?;
    if !store.is_empty().await? {
        return Err(not_empty("the database that AUSPEX_DATABASE_URL names"));
    }
    tools.load(file).await?;
    let audit = audit_of(&store, schema).await?;
    store.close().await;
    Ok((schema, audit))
}

struct Checked {
    schema: Schema,
    audit: Option<Audit>,
}

/// Checks a SQLite file that nobody else uses.
async fn check_file(file: &Path, fingerprint: Option<&str>) -> Result<Checked, Failure> {
    let defects = copies::sqlite_defects(file).await.unwrap_or_else(|error| vec![error.to_string()]);
    if !defects.is_empty() {
        return Err(format!("the file is damaged: {}", defects.join("; ")).into());
    }
    let store = Store::attach(&format!("sqlite:{}", file.display())).await?;
    let checked = check_open(&store, fingerprint).await;
    // Before the outcome is looked at: the last connection takes the file's log with it.
    store.close().await;
    checked
}

async fn check_open(store: &Store, fingerprint: Option<&str>) -> Result<Checked, Failure> {
    let schema = store.schema().await?;
    if schema.version == 0 {
        return Err("there is no Auspex database in it".into());
    }
    let key = store
        .read("master_key", async |conn: &mut Conn| deployment::find(conn, service::MASTER_KEY_FACT).await)
        .await?;
    check_key(key.as_deref(), fingerprint)?;
    Ok(Checked { schema, audit: audit_of(store, schema).await? })
}

/// Audits a database, if this binary knows its schema to the end.
async fn audit_of(store: &Store, schema: Schema) -> Result<Option<Audit>, Failure> {
    Ok(if schema.is_newest() { Some(Auditor::new(store.clone()).run().await?) } else { None })
}

fn schema_of(journal: &[(i64, Vec<u8>)]) -> Result<Schema, Failure> {
    if journal.is_empty() {
        return Err("there is no Auspex database in it".into());
    }
    Ok(Schema::of_journal(journal)?)
}

/// Refuses a backup whose secrets the configured master key cannot read. `known` is none while no key is configured.
fn check_key(stored: Option<&str>, known: Option<&str>) -> Result<(), Failure> {
    match (stored, known) {
        (Some(stored), Some(known)) if stored != known => Err(format!(
            "the backup was made with another master key, of fingerprint {stored}, and the configured one has {known}: set the \
             one that belongs to the backup; nothing was restored"
        )
        .into()),
        _ => Ok(()),
    }
}

/// Says whether the books agree; a command whose books do not fails, after its work is done.
fn report(audit: Option<&Audit>, schema: Schema) -> CommandResult {
    if let Some(audit) = audit {
        return admin::print_audit(audit);
    }
    let advice = if schema.is_ahead() {
        "Run auspex admin audit of the newer one."
    } else {
        "Run auspex admin audit once the service has migrated it."
    };
    print_line(&format!(
        "It is checked but not audited: this auspex is at schema {}. {advice}",
        schema.newest
    ));
    Ok(())
}

/// The kind of a backup, by how it begins.
enum Kind {
    Sqlite,
    Dump,
    Other,
}

fn begins_with(file: &Path) -> Result<Kind, Failure> {
    let cannot_read = |cause| format!("cannot read {}: {cause}", file.display());
    let mut start = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(SQLITE_HEADER.len() as u64).read_to_end(&mut start))
        .map_err(cannot_read)?;
    if start == SQLITE_HEADER {
        let log = PathBuf::from(format!("{}-wal", file.display()));
        if is_in_use(&log) {
            return Err(format!(
                "{} lies beside the file: it is a database in use, not a backup. Make one with auspex backup",
                log.display()
            )
            .into());
        }
        return Ok(Kind::Sqlite);
    }
    Ok(if start.starts_with(DUMP_HEADER) { Kind::Dump } else { Kind::Other })
}

fn mismatch(file: &Path, of: &str, configured: &str) -> Failure {
    format!("{} is a backup of {of}, and AUSPEX_DATABASE_URL names a {configured} database", file.display())
        .into()
}

fn not_empty(what: &str) -> Failure {
    format!("{what} is not empty: restore into a new database, or move the old one away; nothing was changed")
        .into()
}

fn is_in_use(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file under way: only its owner can read it, and it is gone unless it is published, with whatever SQLite keeps beside it.
struct Partial {
    file: NamedTempFile,
    _directory: TempDir,
}

impl Partial {
    fn create_in(directory: &Path) -> std::io::Result<Self> {
        let own = tempfile::Builder::new().prefix(".auspex-").tempdir_in(directory)?;
        Ok(Self { file: NamedTempFile::new_in(own.path())?, _directory: own })
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the finished file its name once it is on the disk, and returns its size. A file of that name is never replaced.
    fn publish(self, name: &Path) -> Result<u64, Failure> {
        // Opened again: SQLite and pg_dump have written to the path, not to this handle.
        let written = std::fs::File::open(self.path())?;
        written.sync_all()?;
        let bytes = written.metadata()?.len();
        let published = self.file.persist_noclobber(name);
        published.map_err(|error| format!("cannot create {}: {}", name.display(), error.error))?;
        std::fs::File::open(directory_of(name))?.sync_all()?;
        Ok(bytes)
    }
}

fn copy_bytes(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut target = std::fs::OpenOptions::new().write(true).truncate(true).open(to)?;
    std::io::copy(&mut std::fs::File::open(from)?, &mut target).map(drop)
}

/// Where the master key comes from.
fn key_source(config: &Config) -> String {
    match config.master_key {
        Some(_) => "AUSPEX_MASTER_KEY".to_owned(),
        None => config.data_dir.join(assembly::MASTER_KEY_FILE).display().to_string(),
    }
}
