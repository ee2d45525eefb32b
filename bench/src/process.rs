//! The process: how fast it starts, and how much memory it needs when idle.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::{Figure, median};

/// The number of starts; the median counts, because the machine may be busy during a single one.
const STARTS: usize = 9;

pub(crate) fn measure(binary: &Path) -> Result<Vec<Figure>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    // The first start creates the database; only starts on an existing one are measured.
    drop(Running::start(binary, directory.path())?);
    let mut starts = Vec::new();
    let mut resident = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let service = Running::start(binary, directory.path())?;
        service.get("/healthz")?;
        starts.push(begun.elapsed().as_secs_f64());
        service.get("/readyz")?;
        resident.push(service.resident_mib()?);
    }
    Ok(vec![
        Figure::at_most("start to first answer, existing SQLite database (median)", median(starts), "s", 0.5),
        Figure::at_most(
            "resident memory when idle, without the model (median)",
            median(resident),
            "Mi",
            40.0,
        ),
    ])
}

pub(crate) struct Running {
    child: Child,
    address: String,
    /// Kept open, so that writing to it does not fail.
    _output: BufReader<ChildStdout>,
}

impl Running {
    fn start(binary: &Path, directory: &Path) -> Result<Self, Box<dyn Error>> {
        Self::start_with(binary, directory, &[])
    }

    /// Starts the service with more settings.
    pub(crate) fn start_with(
        binary: &Path,
        directory: &Path,
        settings: &[(&str, String)],
    ) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(binary)
            .arg("serve")
            .env_clear()
            .env("AUSPEX_LISTEN", "127.0.0.1:0")
            .env("AUSPEX_ANALYZER", "words")
            .envs(settings.iter().map(|(name, value)| (*name, value.as_str())))
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        output.read_line(&mut line)?;
        let address = line.trim_end().rsplit_once("http://").ok_or("the service did not start")?.1.to_owned();
        Ok(Self { child, address, _output: output })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The CPU time that it has taken.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, Box<dyn Error>> {
        cpu_seconds_of(&[self.child.id()])
    }

    /// How often its threads have waited for something.
    pub(crate) fn waits(&self) -> Result<Waits, Box<dyn Error>> {
        let mut waits = HashMap::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let thread = thread?;
            // It may have ended since.
            let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits.insert(thread.file_name(), line.ok_or("no context switches")?.trim().parse()?);
        }
        Ok(Waits(waits))
    }

    fn get(&self, path: &str) -> Result<(), Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        if response.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("{path}: {response}").into()) }
    }

    fn resident_mib(&self) -> Result<f64, Box<dyn Error>> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
        Ok(kib / 1_024.0)
    }
}

/// How often each thread of a process has waited for something, each of which is a context switch.
pub(crate) struct Waits(HashMap<OsString, u32>);

impl Waits {
    /// How many there were after `before`, without those of threads that have ended.
    pub(crate) fn since(&self, before: &Self) -> f64 {
        let of_thread = |(thread, waits): (&OsString, &u32)| {
            f64::from(waits.saturating_sub(before.0.get(thread).copied().unwrap_or_default()))
        };
        self.0.iter().map(of_thread).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// The CPU time of processes, and of those that they have started and that have ended.
pub(crate) fn cpu_seconds_of(processes: &[u32]) -> Result<f64, Box<dyn Error>> {
    let mut ticks = 0;
    for process in processes {
        // A process may have ended: its parent has its time then.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        let fields: Vec<&str> = stat.rsplit_once(") ").ok_or("no stat")?.1.split(' ').collect();
        for index in 11..15 {
            ticks += fields.get(index).ok_or("no time")?.parse::<u32>()?;
        }
    }
    // Linux always reports times in hundredths of a second.
    Ok(f64::from(ticks) / 100.0)
}

/// A process and those that it has started.
pub(crate) fn with_children(parent: u32) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut family = vec![parent];
    for process in std::fs::read_dir("/proc")? {
        let process = process?;
        let Ok(number) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        if parent_of(number)? == Some(parent) {
            family.push(number);
        }
    }
    Ok(family)
}

/// The process that has started another; none if that has ended.
pub(crate) fn parent_of(process: u32) -> Result<Option<u32>, Box<dyn Error>> {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return Ok(None) };
    let fields = stat.rsplit_once(") ").ok_or("no stat")?.1;
    Ok(Some(fields.split(' ').nth(1).ok_or("no parent")?.parse()?))
}
