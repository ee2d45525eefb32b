//! One process of the service: started, killed, frozen and started again.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::host::{ClockShim, ProcessClock};
use crate::plan::Weather;
use crate::proxy::Proxy;
use crate::{Result, lock};

/// How long a process may take to end after SIGTERM: 20 seconds of its own, the rest for a busy machine and a node that is
/// frozen meanwhile.
const TERMINATION: Duration = Duration::from_mins(1);
/// How often a process is looked after.
const TICK: Duration = Duration::from_millis(200);

/// A process with what it needs to be started again.
pub(crate) struct Node {
    pub(crate) url: String,
    variables: Vec<(&'static str, String)>,
    log: PathBuf,
    clock: ProcessClock,
    shim: Option<ClockShim>,
    proxy: Option<Proxy>,
    state: Mutex<State>,
}

struct State {
    /// What it runs from its next start on.
    binary: PathBuf,
    child: Option<Child>,
    /// Whether it should run: one that ends by itself is started again, as a service manager would.
    is_wanted: bool,
    /// How often it ended by itself with an error, for example because it could not reach its database at start.
    exits: u64,
    /// How it ended by itself by a signal, which must not happen.
    crashes: Vec<String>,
}

impl Node {
    pub(crate) fn new(
        binary: PathBuf,
        port: u16,
        variables: Vec<(&'static str, String)>,
        log: PathBuf,
        (clock, shim): (ProcessClock, Option<ClockShim>),
        proxy: Option<Proxy>,
    ) -> Self {
        let url = format!("http://127.0.0.1:{port}");
        let state = State { binary, child: None, is_wanted: false, exits: 0, crashes: Vec::new() };
        Self { url, variables, log, clock, shim, proxy, state: Mutex::new(state) }
    }

    /// Replaces its binary, from its next start on.
    pub(crate) fn install(&self, binary: &Path) {
        binary.clone_into(&mut lock(&self.state).binary);
    }

    /// Whether it runs this binary.
    pub(crate) fn runs(&self, binary: &Path) -> bool {
        lock(&self.state).binary == binary
    }

    /// Starts it, unless it runs.
    pub(crate) fn start(&self) -> Result<()> {
        let mut state = lock(&self.state);
        state.is_wanted = true;
        if state.child.is_none() {
            state.child = Some(self.spawn(&state.binary)?);
        }
        Ok(())
    }

    fn spawn(&self, binary: &Path) -> Result<Child> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(binary);
        command.arg("serve").env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(shim) = &self.shim {
            command.envs(shim.variables(&self.clock));
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        Ok(command.spawn()?)
    }

    /// Starts it again whenever it ends by itself. Runs until it is dropped.
    pub(crate) async fn supervise(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            let mut state = lock(&self.state);
            let Some(Ok(Some(status))) = state.child.as_mut().map(Child::try_wait) else { continue };
            state.child = None;
            if state.is_wanted {
                state.exits += 1;
                if let Some(crash) = crash(status) {
                    state.crashes.push(crash);
                }
                // If it cannot be started now, the next tick does not find a child; `start` comes at the end of the round.
                state.child = self.spawn(&state.binary).ok();
            }
        }
    }

    /// kill -9.
    pub(crate) async fn kill(&self) {
        let child = {
            let mut state = lock(&self.state);
            state.is_wanted = false;
            state.child.take()
        };
        if let Some(mut child) = child {
            let _ = child.kill().await;
        }
    }

    /// SIGTERM, until it has ended.
    pub(crate) async fn terminate(&self) -> Result<()> {
        lock(&self.state).is_wanted = false;
        self.signal("TERM").await;
        let deadline = Instant::now() + TERMINATION;
        while Instant::now() < deadline {
            tokio::time::sleep(TICK).await;
            if lock(&self.state).child.is_none() {
                return Ok(());
            }
        }
        self.kill().await;
        Err(format!("{} did not end within {TERMINATION:?} after SIGTERM", self.url).into())
    }

    /// Sends a signal to the process, if there is one.
    pub(crate) async fn signal(&self, name: &str) {
        let id = lock(&self.state).child.as_ref().and_then(Child::id);
        if let Some(id) = id {
            let _ = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status().await;
        }
    }

    /// Puts its clock off.
    pub(crate) fn set_clock(&self, offset_ms: i64) -> Result<()> {
        self.clock.set(offset_ms)
    }

    /// Changes the way to its database.
    pub(crate) fn set_weather(&self, weather: Weather) {
        if let Some(proxy) = &self.proxy {
            proxy.set(weather);
        }
    }

    /// How often it ended by itself.
    pub(crate) fn exits(&self) -> u64 {
        lock(&self.state).exits
    }

    /// How it crashed since this was last asked.
    pub(crate) fn take_crashes(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).crashes)
    }
}

/// The signal that ended a process.
fn crash(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().map(|_| format!("it ended by itself: {status}"))
}
