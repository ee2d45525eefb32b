//! The process: how fast it starts, and how much memory it needs when idle.

use std::error::Error;
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

struct Running {
    child: Child,
    address: String,
    /// Kept open, so that writing to it does not fail.
    _output: BufReader<ChildStdout>,
}

impl Running {
    fn start(binary: &Path, directory: &Path) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(binary)
            .arg("serve")
            .env_clear()
            .env("AUSPEX_LISTEN", "127.0.0.1:0")
            .env("AUSPEX_ANALYZER", "words")
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

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
