//! PostgreSQL's own tools for dumps, found where distributions put them and run with the password out of sight.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use url::Url;

use crate::config::environment;

use super::Failure;

/// Where distributions keep one directory of tools for each version of PostgreSQL.
const VERSIONED: [&str; 2] = ["/usr/lib/postgresql", "/usr/pgsql"];
/// Parameters of a URL that the tools understand; others are sqlx's own.
const PARAMETERS: [&str; 9] =
    ["application_name", "host", "options", "port", "sslcert", "sslkey", "sslmode", "sslrootcert", "user"];

/// `pg_dump` and `pg_restore`, for one database.
pub(in crate::cli) struct Tools {
    directory: PathBuf,
    /// The database's URL without its password, which would show up in the list of processes.
    url: String,
    password: Option<String>,
}

impl Tools {
    /// Finds the tools: in `PATH`, else the newest version that is installed.
    pub(in crate::cli) fn find(url: &str) -> Result<Self, Failure> {
        let path = environment().find(|(name, _)| name == "PATH").map(|(_, value)| value).unwrap_or_default();
        let on_path = std::env::split_paths(&path).find(|directory| has_tools(directory));
        let directory = on_path.or_else(newest_installed).ok_or(
            "pg_dump and pg_restore are not installed: install PostgreSQL's client programs, of the server's version or newer",
        )?;
        let (url, password) = without_password(url)?;
        Ok(Self { directory, url, password })
    }

    /// Dumps the state of a snapshot.
    pub(super) async fn dump(&self, snapshot: &str, target: &Path) -> Result<(), Failure> {
        let mut command = self.command("pg_dump");
        command.args(["--format=custom", "--no-owner", "--no-privileges", "--dbname", &self.url]);
        command.arg("--snapshot").arg(snapshot).arg("--file").arg(target);
        run(command, "pg_dump").await.map(drop)
    }

    /// Reads a dump from its first byte to its last.
    pub(super) async fn read_through(&self, dump: &Path) -> Result<(), Failure> {
        let mut command = self.command("pg_restore");
        command.arg("--file=/dev/null").arg(dump);
        run(command, "pg_restore").await.map(drop)
    }

    /// Loads a dump in one transaction.
    pub(super) async fn load(&self, dump: &Path) -> Result<(), Failure> {
        let mut command = self.command("pg_restore");
        command.args(["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]);
        command.arg("--dbname").arg(&self.url).arg(dump);
        run(command, "pg_restore").await.map(drop)
    }

    /// The migrations that a dump has, with their checksums.
    pub(super) async fn journal(&self, dump: &Path) -> Result<Vec<(i64, Vec<u8>)>, Failure> {
        let mut journal = Vec::new();
        for row in self.rows(dump, "migrations").await? {
            // Newer dumps have more columns.
            let [version, checksum, ..] = row.as_slice() else { return Err(unreadable(dump)) };
            // In a dump, bytes are `\x` and hexadecimal, the backslash doubled.
            let checksum = checksum.trim_start_matches('\\').trim_start_matches('x');
            journal.push((version.parse()?, hex::decode(checksum)?));
        }
        journal.sort_unstable();
        Ok(journal)
    }

    /// The facts about its deployment that a dump has.
    pub(super) async fn deployment(&self, dump: &Path) -> Result<BTreeMap<String, String>, Failure> {
        let rows = self.rows(dump, "deployment").await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| <[String; 2]>::try_from(row).ok())
            .map(|[name, value]| (name, value))
            .collect())
    }

    /// The rows of a small table of a dump.
    async fn rows(&self, dump: &Path, table: &str) -> Result<Vec<Vec<String>>, Failure> {
        let mut command = self.command("pg_restore");
        command.args(["--data-only", "--file=-", "--table", table]).arg(dump);
        let script = run(command, "pg_restore").await?;
        let lines = script.lines().skip_while(|line| !line.starts_with("COPY ")).skip(1);
        Ok(lines
            .take_while(|line| *line != "\\.")
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect())
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join(name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.arg("--no-password");
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password);
        }
        command
    }
}

fn unreadable(dump: &Path) -> Failure {
    format!("{} is not a dump of an Auspex database", dump.display()).into()
}

fn has_tools(directory: &Path) -> bool {
    ["pg_dump", "pg_restore"].iter().all(|name| directory.join(name).is_file())
}

fn newest_installed() -> Option<PathBuf> {
    let version = |directory: &Path| directory.file_name().and_then(OsStr::to_str)?.parse::<u32>().ok();
    let installed = VERSIONED.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let mut directories: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| Some((version(&entry.path())?, entry.path().join("bin"))))
        .filter(|(_, directory)| has_tools(directory))
        .collect();
    directories.sort();
    directories.pop().map(|(_, directory)| directory)
}

/// Splits the password off a URL, and drops parameters that only our own driver knows.
fn without_password(url: &str) -> Result<(String, Option<String>), Failure> {
    let mut url = Url::parse(url).map_err(|error| format!("AUSPEX_DATABASE_URL: {error}"))?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut password = url.password().map(decoded);
    let _ = url.set_password(None);
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .inspect(|(name, value)| {
            if name == "password" {
                password = Some(value.clone().into_owned());
            }
        })
        .filter(|(name, _)| PARAMETERS.contains(&name.as_ref()))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    Ok((url.into(), password))
}

/// Runs a tool to its end and returns what it printed; its complaints become the error.
async fn run(mut command: Command, name: &str) -> Result<String, Failure> {
    let output = command.output().await.map_err(|cause| format!("cannot run {name}: {cause}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(5).collect();
    Err(format!("{name} failed: {}", said.join("; ")).into())
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn a_password_never_becomes_an_argument() {
        for (url, shown, password) in [
            ("postgres://db/auspex", "postgres://db/auspex", None),
            ("postgres://ann:p%40ss@db:5433/auspex", "postgres://ann@db:5433/auspex", Some("p@ss")),
            (
                "postgres://ann@db/auspex?password=secret&sslmode=require&statement-cache-capacity=7",
                "postgres://ann@db/auspex?sslmode=require",
                Some("secret"),
            ),
        ] {
            assert_eq!(without_password(url).unwrap(), (shown.to_owned(), password.map(str::to_owned)));
        }
    }
}
