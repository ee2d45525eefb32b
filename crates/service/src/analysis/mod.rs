//! Analyses: signals, the scheduler that runs queued jobs, verdicts for callers who wait, bulk runs, the
//! playground, and the concluder that writes finished analyses.

mod asking;
mod bulk_runs;
mod calibration;
mod concluder;
pub(crate) mod default_signals;
mod escalations;
mod explanations;
pub(crate) mod history;
mod jobs;
mod moderation;
mod playground;
mod questions;
mod recent_calls;
mod response;
mod running;
mod scheduler;
mod second_analyzer;
mod signal_versions;
mod signals;
mod stage;
mod timeline;
mod trials;
mod verdict;
mod verdict_slots;

pub use self::bulk_runs::BulkRuns;
pub use self::escalations::Escalations;
pub use self::explanations::Explanations;
pub use self::jobs::Jobs;
pub use self::moderation::Moderation;
pub use self::playground::Playground;
pub use self::scheduler::{LEASE_MARGIN, SOON as SCHEDULER_SOON};
pub use self::signals::Signals;
pub use self::timeline::{Timeline, TimelineQuery};
pub use self::trials::{StartedTrial, Trials};
pub use self::verdict::Verdicts;

pub(crate) use self::asking::Asker;
pub(crate) use self::concluder::{Concluder, ConclusionWriter};
pub(crate) use self::questions::CachedQuestions;
pub(crate) use self::recent_calls::CallCounts;
pub(crate) use self::running::Running;
pub(crate) use self::scheduler::Scheduler;
pub(crate) use self::second_analyzer::{Caps, Escalator};
pub(crate) use self::stage::Stage;
pub(crate) use self::trials::TrialRunner;
pub(crate) use self::verdict_slots::VerdictSlots;

/// Signals and analyses.
pub struct Analysis {
    /// The questions that tenants configure.
    pub signals: Signals,
    /// Analyses of single objects on request.
    pub jobs: Jobs,
    /// Analyses of all objects.
    pub bulk_runs: BulkRuns,
    /// Records events and returns answers while the caller waits.
    pub verdicts: Verdicts,
    /// What happened about an object.
    pub timeline: Timeline,
    /// Which answers of signals go to the second analyzer.
    pub escalations: Escalations,
    /// Other wordings of signals, put to objects that are there.
    pub trials: Trials,
    /// What moved an answer.
    pub explanations: Explanations,
    /// Answers about events that are not recorded.
    pub playground: Playground,
    /// Scores of texts, in the shapes of other moderation services.
    pub moderation: Moderation,
}
