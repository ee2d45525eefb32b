//! What the processes run on, as far as it can be disturbed: wall clocks, a small disk, PostgreSQL's own processes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// The size of the disk. The database and its journal fit into it; a filler takes what is left.
const DISK: &str = "size=192m";

/// A library that, loaded into a process, shifts its wall clock.
#[derive(Clone)]
pub(crate) struct ClockShim(PathBuf);

impl ClockShim {
    /// Writes it into a directory; none if the harness was built without a C compiler.
    pub(crate) fn new(directory: &Path) -> Result<Option<Self>> {
        let compiled = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));
        let library = directory.join("clock.so");
        std::fs::write(&library, compiled)?;
        Ok((!compiled.is_empty()).then_some(Self(library)))
    }

    /// The variables that load it into a process with this clock.
    pub(crate) fn variables(&self, clock: &ProcessClock) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.0.clone()), ("AUSPEX_FAULTS_CLOCK", clock.0.clone())]
    }
}

/// The wall clock of one process, by the file that its shim maps.
pub(crate) struct ProcessClock(PathBuf);

impl ProcessClock {
    /// A clock that is right.
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        let clock = Self(path);
        clock.set(0)?;
        Ok(clock)
    }

    /// Puts it off by this many milliseconds.
    pub(crate) fn set(&self, offset_ms: i64) -> Result<()> {
        // In place: the file is mapped.
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.0)?;
        file.write_all(&(offset_ms * 1_000_000).to_ne_bytes())?;
        Ok(())
    }
}

/// A disk of its own in memory, which can be filled.
pub(crate) struct Disk {
    path: PathBuf,
    is_mounted: bool,
}

impl Disk {
    /// Mounts it; where that is not allowed it is a plain directory, which cannot be filled.
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "auspex-faults"])
            .arg(&path)
            .stderr(Stdio::null())
            .status();
        Ok(Self { path, is_mounted: mounted.is_ok_and(|status| status.success()) })
    }

    pub(crate) fn can_be_filled(&self) -> bool {
        self.is_mounted
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut filler = std::fs::File::create(self.path.join("filler"))?;
        // Smaller and smaller pieces, until not a byte fits.
        for size in [1 << 20, 4096, 1] {
            while filler.write(&vec![0; size]).is_ok_and(|written| written == size) {}
        }
        Ok(())
    }

    /// Makes room again.
    pub(crate) fn empty(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.path.join("filler"))?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
        }
    }
}

/// The throw-away PostgreSQL that `scripts/with-postgres` has started.
pub(crate) struct Postgres {
    pub(crate) url: String,
    /// `pg_ctl` for it; none for a cluster that somebody else runs.
    control: Option<PathBuf>,
    data: Option<PathBuf>,
}

impl Postgres {
    pub(crate) fn from_environment() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "set by scripts/with-postgres")]
        let read = |name: &str| std::env::var(name).ok();
        Some(Self {
            url: read("AUSPEX_TEST_POSTGRES")?,
            control: read("AUSPEX_TEST_POSTGRES_CONTROL").map(PathBuf::from),
            data: read("AUSPEX_TEST_POSTGRES_DATA").map(PathBuf::from),
        })
    }

    pub(crate) fn can_be_restarted(&self) -> bool {
        self.control.is_some()
    }

    /// Ends all its processes without a checkpoint, and starts it again.
    pub(crate) async fn restart(&self) -> Result<()> {
        self.control(&["restart", "-m", "immediate", "-w", "-t", "60"]).await
    }

    /// Stops it and copies its files, for whoever looks into a failure.
    pub(crate) async fn keep(&self, target: &Path) -> Result<()> {
        let Some(data) = &self.data else { return Ok(()) };
        self.control(&["stop", "-m", "fast", "-w"]).await?;
        copy(data, target)
    }

    async fn control(&self, arguments: &[&str]) -> Result<()> {
        let Some(control) = &self.control else { return Ok(()) };
        let mut command = tokio::process::Command::new(control);
        let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().await?;
        if status.success() { Ok(()) } else { Err(format!("pg_ctl {}: {status}", arguments[0]).into()) }
    }
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(format!("cannot copy {}", from.display()).into()) }
}
