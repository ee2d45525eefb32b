//! The design that is simulated: its constants, and what is assumed of the rest.

use std::error::Error;
use std::time::Duration;

use server::config::Config;
use service::analysis::{LEASE_MARGIN, SCHEDULER_SOON};
use service::upkeep::BACKSTOP_INTERVAL;

/// The load of the queue in shares of what it can do, with room to spare.
pub(super) const CALM: f64 = 0.8;

/// The design as the code and the default settings have it, and what the simulation assumes of the rest.
pub(super) struct Design {
    pub(super) workers: usize,
    pub(super) debounce_us: u64,
    pub(super) lease_us: u64,
    pub(super) poll_us: u64,
    pub(super) soon_us: u64,
    pub(super) requests_per_minute: i64,
    pub(super) bytes_per_minute: i64,
    /// Assumed: how long an analysis takes.
    pub(super) analysis_us: u64,
    /// Assumed: a round trip to the database.
    pub(super) round_trip_us: u64,
    /// Assumed: a commit of the recorder, all its statements included.
    pub(super) commit_us: u64,
    /// Assumed: an event of 70 characters and its metadata.
    pub(super) bytes_per_request: i64,
}

impl Design {
    pub(super) fn of_settings() -> Result<Self, Box<dyn Error>> {
        let settings = Config::from_environment(std::iter::empty())?;
        let micros = |duration: Duration| duration.as_micros() as u64;
        Ok(Self {
            workers: usize::from(settings.workers),
            debounce_us: micros(settings.debounce),
            lease_us: micros(settings.analyzer.timeout + LEASE_MARGIN),
            poll_us: micros(BACKSTOP_INTERVAL),
            soon_us: micros(SCHEDULER_SOON),
            requests_per_minute: i64::from(settings.rate_limit_per_minute),
            bytes_per_minute: i64::from(settings.ingest_mib_per_minute.0) * 1_024 * 1_024,
            analysis_us: 500_000,
            round_trip_us: 300,
            commit_us: 2_000,
            bytes_per_request: 300,
        })
    }

    /// What the analyzer slots of so many nodes can do.
    pub(super) fn analyses_per_second(&self, nodes: usize) -> f64 {
        (nodes * self.workers) as f64 * 1e6 / self.analysis_us as f64
    }

    /// The requests that keep so many nodes busy, one for each analysis.
    pub(super) fn requests_per_second(&self, nodes: usize) -> f64 {
        CALM * self.analyses_per_second(nodes)
    }
}
