//! Trials: another wording of a signal, put to objects that are there, and recorded nowhere but in the trial.
//!
//! Both wordings are asked in one call, so that they are compared on the same text by the same model. A trial is one row and a
//! row for each object; any process goes on with it. It is charged object by object, in the transaction that records the answers.

mod adopting;
mod estimating;
mod figures;
mod list;
mod runner;
mod starting;

pub use self::list::Trials;
pub use self::starting::StartedTrial;

pub(crate) use self::runner::TrialRunner;
