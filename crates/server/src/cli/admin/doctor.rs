//! `auspex admin doctor`: checks what a deployment stands on, and says what to do about what is wrong.
//!
//! It opens the database as it is and starts nothing, so that it works where the service does not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::api::HealthState as State;
use serde::Serialize;
use service::mail::Transport;
use service::{Clock, HEARTBEAT_LIFETIME, MASTER_KEY_FACT};
use store::runtime::nodes;
use store::upkeep::{checkup, deployment};
use store::{Conn, Store};
use tokio::net::TcpStream;

use super::super::backup::postgres::Tools;
use super::super::table::Table;
use super::super::{CommandResult, print_json};
use crate::assembly;
use crate::config::{Analyzer, AnalyzerKind, Config};
use crate::disk::{self, DiskFinding};

/// How long anything that is asked may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// Clocks may differ by this much: beyond it a process does not believe its own until it has watched it for a while.
const MAX_OFFSET: Duration = Duration::from_secs(2);
/// A difference of clocks that is worth looking at.
const SUSPICIOUS_OFFSET: Duration = Duration::from_millis(500);

/// One check.
#[derive(Debug, Serialize)]
struct Finding {
    state: State,
    check: &'static str,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The findings so far.
#[derive(Default)]
struct Report(Vec<Finding>);

impl Report {
    fn good(&mut self, check: &'static str, found: impl Into<String>) {
        self.0.push(Finding { state: State::Good, check, found: found.into(), advice: None });
    }

    fn wrong(
        &mut self,
        state: State,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.0.push(Finding { state, check, found: found.into(), advice: Some(advice.into()) });
    }
}

pub(super) async fn run(json: bool, config: &Config) -> CommandResult {
    assembly::install_tls();
    let mut report = Report::default();
    check_configuration(&mut report, config);
    check_files(&mut report, config);
    check_disk(&mut report, &config.data_dir);
    check_database(&mut report, config).await;
    check_mail(&mut report, config).await;
    check_analyzers(&mut report, config).await;
    if json {
        print_json(&report.0)?;
    } else {
        let mut table = Table::new(&["", "check", "found", "what to do"]);
        for finding in &report.0 {
            let state = format!("{:?}", finding.state).to_lowercase();
            let advice = finding.advice.clone().unwrap_or_default();
            table.row([state, finding.check.to_owned(), finding.found.clone(), advice]);
        }
        table.print();
    }
    match report.0.iter().filter(|finding| finding.state == State::Bad).count() {
        0 => Ok(()),
        1 => Err("one thing is wrong".into()),
        number => Err(format!("{number} things are wrong").into()),
    }
}

fn check_configuration(report: &mut Report, config: &Config) {
    if config.warnings.is_empty() {
        report.good("configuration", format!("{} settings", config.effective.len()));
    }
    for warning in &config.warnings {
        report.wrong(State::Worry, "configuration", warning.clone(), "auspex config shows all settings");
    }
}

/// Files with secrets, which nobody but their owner may read.
fn check_files(report: &mut Report, config: &Config) {
    let mut files = vec![(config.data_dir.clone(), "700")];
    if config.master_key.is_none() {
        files.push((config.data_dir.join(assembly::MASTER_KEY_FILE), "600"));
    }
    if let Some(path) = store::sqlite_path(&config.database_address()) {
        files.extend(
            ["", "-wal", "-shm"].map(|suffix| (PathBuf::from(format!("{}{suffix}", path.display())), "600")),
        );
    }
    let mut checked = 0;
    for (path, wanted) in files {
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        checked += 1;
        if mode & 0o077 != 0 {
            let found = format!("{} is open to others: {mode:o}", path.display());
            report.wrong(State::Bad, "files", found, format!("chmod {wanted} {}", path.display()));
        }
    }
    if report.0.iter().all(|finding| finding.check != "files") {
        report.good("files", format!("{checked} of the data directory, closed to others"));
    }
}

fn check_disk(report: &mut Report, data_dir: &Path) {
    let DiskFinding { state, found, advice } = disk::free(data_dir);
    report.0.push(Finding { state, check: "disk", found, advice: advice.map(str::to_owned) });
}

async fn check_database(report: &mut Report, config: &Config) {
    let url = config.database_address();
    if store::sqlite_path(&url).is_some_and(|path| !path.exists()) {
        let advice =
            "auspex serve makes one; if there should be one, check AUSPEX_DATA_DIR and AUSPEX_DATABASE_URL";
        return report.wrong(State::Worry, "database", "there is none yet", advice);
    }
    let unreachable = "check AUSPEX_DATABASE_URL, and that the database runs and admits this host";
    let store = match tokio::time::timeout(DEADLINE, Store::attach(&url)).await {
        Ok(Ok(store)) => store,
        Ok(Err(error)) => return report.wrong(State::Bad, "database", error.to_string(), unreachable),
        Err(_) => return report.wrong(State::Bad, "database", no_answer(), unreachable),
    };
    match tokio::time::timeout(DEADLINE, examine(report, config, &store)).await {
        Ok(Ok(())) => check_replica(report, config, &store).await,
        Ok(Err(error)) => report.wrong(State::Bad, "database", error.to_string(), "see the message"),
        Err(_) => report.wrong(State::Bad, "database", no_answer(), unreachable),
    }
    let _ = tokio::time::timeout(DEADLINE, store.close()).await;
    if store::sqlite_path(&url).is_none() {
        match Tools::find(&url) {
            Ok(_) => report.good("backup", "pg_dump and pg_restore are installed"),
            Err(error) => report.wrong(
                State::Worry,
                "backup",
                error.to_string(),
                "install PostgreSQL's client programs",
            ),
        }
    }
}

async fn examine(report: &mut Report, config: &Config, store: &Store) -> store::Result<()> {
    let clock = Clock::system();
    let asked = clock.now();
    let (version, size, connections, time) = store
        .read("doctor", async |conn: &mut Conn| {
            let (version, size) = (checkup::version(conn).await?, checkup::size(conn).await?);
            let connections = checkup::connections(conn).await?;
            Ok::<_, store::Error>((version, size, connections, nodes::clock(conn).await?))
        })
        .await?;
    let took = clock.now().since(asked);
    report.good("database", format!("{version}, {} MiB, answers in {} ms", size >> 20, took.as_millis()));
    if let Some((used, admitted)) = connections {
        let found = format!("{used} of {admitted} connections");
        if used * 10 > admitted * 9 {
            report.wrong(State::Worry, "connections", found, "raise max_connections, or run fewer processes");
        } else {
            report.good("connections", found);
        }
    }
    if let Some(theirs) = time {
        let ours = clock.now();
        let offset = theirs.since(ours).max(ours.since(theirs)).saturating_sub(took);
        let found = format!("{} ms off the database's", offset.as_millis());
        let advice = "synchronize the clocks of this host and the database's (NTP)";
        match offset {
            offset if offset > MAX_OFFSET => report.wrong(State::Bad, "clock", found, advice),
            offset if offset > SUSPICIOUS_OFFSET => report.wrong(State::Worry, "clock", found, advice),
            _ => report.good("clock", found),
        }
    }
    check_schema(report, config, store).await
}

/// The replica that lists come from.
async fn check_replica(report: &mut Report, config: &Config, store: &Store) {
    let Some(url) = &config.database_read_url else { return };
    let advice = "check AUSPEX_DATABASE_READ_URL; until then lists come from the primary";
    let lag = async { store.clone().with_replica(url.expose())?.replica_lag().await };
    match tokio::time::timeout(DEADLINE, lag).await {
        Ok(Ok(bytes)) => {
            report.good("replica", format!("it lacks {} bytes of the log", bytes.unwrap_or_default()));
        }
        Ok(Err(error)) => report.wrong(State::Worry, "replica", error.to_string(), advice),
        Err(_) => report.wrong(State::Worry, "replica", no_answer(), advice),
    }
}

async fn check_schema(report: &mut Report, config: &Config, store: &Store) -> store::Result<()> {
    let schema = match store.schema().await {
        Ok(schema) => schema,
        Err(error) => {
            report.wrong(
                State::Bad,
                "schema",
                error.to_string(),
                "install the auspex that this database was made with",
            );
            return Ok(());
        }
    };
    if schema.version == 0 {
        report.wrong(
            State::Worry,
            "schema",
            "the database is empty",
            "auspex serve or auspex migrate fills it",
        );
        return Ok(());
    }
    if schema.is_newest() {
        report.good(
            "schema",
            format!("{}, the newest of auspex {}", schema.version, env!("CARGO_PKG_VERSION")),
        );
    } else {
        let found =
            format!("{}, and auspex {} knows {}", schema.version, env!("CARGO_PKG_VERSION"), schema.newest);
        let advice = if schema.is_ahead() {
            "it carries this binary: finish the upgrade, or go on with the older one until the next"
        } else {
            "back up; the next start migrates it"
        };
        report.wrong(State::Worry, "schema", found, advice);
    }
    let (stored, live) = store
        .read("doctor", async |conn: &mut Conn| {
            let stored = deployment::find(conn, MASTER_KEY_FACT).await?;
            // Heartbeats follow the database's clock.
            let now = nodes::clock(conn).await?.unwrap_or_else(|| Clock::system().now());
            Ok::<_, store::Error>((stored, nodes::seen_after(conn, now - HEARTBEAT_LIFETIME).await?))
        })
        .await?;
    check_master_key(report, config, store, stored).await?;
    report.good("nodes", format!("{live} running"));
    Ok(())
}

async fn check_master_key(
    report: &mut Report,
    config: &Config,
    store: &Store,
    stored: Option<String>,
) -> store::Result<()> {
    if service::is_rekeying(store).await? {
        let found = "a move to another key was begun and not finished";
        report.wrong(State::Bad, "master key", found, "run auspex admin rekey again");
        return Ok(());
    }
    let advice = "set AUSPEX_MASTER_KEY to the key that this database was made with";
    match (stored, assembly::known_fingerprint(config)) {
        (_, Err(error)) => report.wrong(State::Bad, "master key", error.to_string(), advice),
        (Some(stored), Ok(Some(known))) if stored == known => {
            report.good("master key", format!("fingerprint {known}"));
        }
        (Some(stored), Ok(Some(known))) => {
            let found = format!("it has fingerprint {known}, and the database was made with {stored}");
            report.wrong(State::Bad, "master key", found, advice);
        }
        (Some(stored), Ok(None)) => {
            let found = format!("there is none, and the database was made with {stored}");
            report.wrong(State::Bad, "master key", found, advice);
        }
        (None, Ok(_)) => report.good("master key", "not used yet"),
    }
    Ok(())
}

async fn check_mail(report: &mut Report, config: &Config) {
    let Some(url) = &config.smtp_url else {
        let found = format!("written to {}", config.data_dir.join("mail").display());
        return report.wrong(State::Worry, "mail", found, "set AUSPEX_SMTP_URL to send it");
    };
    let advice = "check AUSPEX_SMTP_URL: host, port, TLS, user and password";
    let transport = match Transport::smtp(url.expose()) {
        Ok(transport) => transport,
        Err(error) => return report.wrong(State::Bad, "mail", error.to_string(), advice),
    };
    match tokio::time::timeout(DEADLINE, transport.probe()).await {
        Ok(Ok(())) => report.good("mail", "the SMTP server lets us in"),
        Ok(Err(reason)) => report.wrong(State::Bad, "mail", reason, advice),
        Err(_) => report.wrong(State::Bad, "mail", no_answer(), advice),
    }
}

/// What the report calls an analyzer, and the prefix of its settings.
struct AnalyzerPart {
    name: &'static str,
    kind: &'static str,
    url: &'static str,
}

const FIRST: AnalyzerPart =
    AnalyzerPart { name: "analyzer", kind: "AUSPEX_ANALYZER", url: "AUSPEX_ANALYZER_URL" };
const SECOND: AnalyzerPart =
    AnalyzerPart { name: "second analyzer", kind: "AUSPEX_ESCALATE_ANALYZER", url: "AUSPEX_ESCALATE_URL" };

async fn check_analyzers(report: &mut Report, config: &Config) {
    check_analyzer(report, &FIRST, &config.analyzer).await;
    if let Some(second) = &config.escalation.analyzer {
        check_analyzer(report, &SECOND, second).await;
    }
}

async fn check_analyzer(report: &mut Report, part: &AnalyzerPart, settings: &Analyzer) {
    let AnalyzerPart { name, kind, url: setting } = part;
    let url = match (&settings.kind, &settings.url) {
        (AnalyzerKind::Embedded, _) => return check_embedded(report, part),
        (AnalyzerKind::Words, _) => {
            let advice = format!("set {kind}: the word counter is for benchmarks of the service itself");
            return report.wrong(State::Worry, name, "the word counter, which is no model", advice);
        }
        (_, Some(url)) => url,
        (_, None) => return report.wrong(State::Bad, name, "it has no URL", format!("set {setting}")),
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let advice = format!("check {setting}, and that its server runs and can be reached from here");
    match tokio::time::timeout(DEADLINE, TcpStream::connect((host.as_str(), port))).await {
        Ok(Ok(_)) => report.good(name, format!("{host}:{port} accepts connections")),
        Ok(Err(error)) => report.wrong(State::Bad, name, format!("{host}:{port}: {error}"), advice),
        Err(_) => report.wrong(State::Bad, name, format!("{host}:{port}: {}", no_answer()), advice),
    }
}

fn check_embedded(report: &mut Report, AnalyzerPart { name, kind, .. }: &AnalyzerPart) {
    if cfg!(feature = "embedded") {
        report.good(name, "the embedded model");
    } else {
        let advice = format!("install a build with it, or set {kind} to another one");
        report.wrong(State::Bad, name, "this binary was built without the embedded model", advice);
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", DEADLINE.as_secs())
}
