//! Servers that others have built, as processes of a deployment: their programs, ports and owner.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::Result;

/// Who the servers run as: PostgreSQL and `PgBouncer` refuse to run as root.
const OWNER: &str = "postgres";

/// A directory in which servers run.
#[derive(Clone)]
pub(crate) struct Workplace {
    pub(crate) directory: PathBuf,
    is_root: bool,
    programs: String,
}

impl Workplace {
    /// Makes it, below directories that the servers' owner can pass through.
    pub(crate) fn new(directory: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let is_root = std::fs::metadata(&directory)?.uid() == 0;
        if is_root {
            let status = std::process::Command::new("chown").arg(OWNER).arg(&directory).status()?;
            if !status.success() {
                return Err(format!("there is no user {OWNER}: install PostgreSQL").into());
            }
        }
        let postgres = newest_postgres().map(|path| format!("{}:", path.display())).unwrap_or_default();
        Ok(Self { directory, is_root, programs: format!("{postgres}/usr/local/bin:/usr/bin:/bin:/usr/sbin") })
    }

    /// Starts a server, whose output goes to a log of its name. It is killed when it is dropped.
    pub(crate) fn start(&self, name: &str, program: &str, arguments: &[String]) -> Result<Child> {
        let log = self.directory.join(format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = if self.is_root {
            let mut command = Command::new("setpriv");
            command.args([
                &format!("--reuid={OWNER}"),
                &format!("--regid={OWNER}"),
                "--init-groups",
                program,
            ]);
            command
        } else {
            Command::new(program)
        };
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs([("HOME", "/"), ("PATH", &self.programs), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        command
            .spawn()
            .map_err(|error| format!("{program}: {error}; scripts/server-parts installs it").into())
    }

    /// Writes a file that the servers can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.directory.join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// The path of something in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// The programs of the newest PostgreSQL of Debian, which are not in anybody's `PATH`.
fn newest_postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let version =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(version).max()?;
    Some(PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin")))
}

/// Addresses on loopback that were free a moment ago; a server that finds its own taken ends at once, and the run with it.
pub(crate) fn free_addresses<const COUNT: usize>() -> Result<[SocketAddr; COUNT]> {
    let listeners: Vec<TcpListener> =
        (0..COUNT).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<_>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<std::io::Result<Vec<_>>>()?;
    addresses.try_into().map_err(|_| "as many as listeners".into())
}

/// Sends a signal to processes of this machine.
pub(crate) fn signal(name: &str, processes: &[u32]) {
    if !processes.is_empty() {
        let ids = processes.iter().map(u32::to_string);
        // One that has ended meanwhile is no error.
        let sent = std::process::Command::new("kill")
            .arg(format!("-{name}"))
            .args(ids)
            .stderr(Stdio::null())
            .status();
        let _ = sent;
    }
}

/// The children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let listed =
        std::process::Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
