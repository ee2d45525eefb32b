//! The domain model: records, ids, time, money, and the pure rules that apply to them.
//!
//! Nothing here does I/O, reads a clock or draws random numbers; callers pass those in. The `sqlx` feature
//! maps the types to columns of each database and is only for the `store` crate.

mod access;
pub mod address;
mod answer;
pub mod api;
mod audit;
pub mod backoff;
pub mod compaction;
pub mod condition;
mod date;
mod email;
mod escalation;
pub mod event;
pub mod history;
mod id;
pub mod money;
mod provider;
pub mod quality;
mod question;
mod record;
pub mod recorded_answer;
pub mod replay;
mod retry_after;
pub mod review;
pub mod rule;
mod single_line;
pub mod spreadsheet;
#[cfg(feature = "sqlx")]
mod sql;
mod text_values;
mod timestamp;
pub mod totp;
pub mod webhook;

pub use access::{InvalidScopes, KeyKind, MemberRole, Scope, ScopeSet};
pub use answer::{Answer, AnswerValue, Distribution, FirstAnswer, InvalidDistribution, RawAnswer};
pub use audit::AuditAction;
pub use compaction::CompactedState;
pub use date::{Date, InvalidDate};
pub use email::{EmailAddress, InvalidEmail};
pub use escalation::Escalation;
pub use event::NewEvent;
pub use history::{History, HistoryEvent};
pub use id::{KeyId, TenantId, UserId};
pub use money::{Charge, Tariff};
pub use provider::{Provider, UnknownProvider};
pub use question::{Candidate, InvalidQuestion, Question, SignalType};
pub use retry_after::retry_after;
pub use single_line::{breaks_line, single_line};
pub use timestamp::{InvalidTimestamp, Timestamp};
