//! Analyses: signals, the job queue, histories, bulk runs, and what a finished analysis writes.

pub mod answer_history;
pub mod bulk_runs;
pub mod concluder;
pub mod escalations;
pub mod history;
pub mod jobs;
pub mod signal_versions;
pub mod signals;
pub mod storage;
pub mod tallies;
pub mod trials;
pub mod verdict_slots;
