//! Analyses: signals, the scheduler that works off the job queue, verdicts for callers who wait, bulk runs, the
//! playground, and the concluder that writes what follows from an answer.

pub(crate) mod asking;
pub(crate) mod bulk_runs;
pub(crate) mod concluder;
pub(crate) mod default_signals;
pub(crate) mod hands;
pub(crate) mod history;
pub(crate) mod playground;
pub(crate) mod running;
pub(crate) mod scheduler;
pub(crate) mod signals;
pub(crate) mod verdict;
