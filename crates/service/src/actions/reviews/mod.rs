//! Reviews: objects that people are to look at. Rules open them, chance does, and callers do; people claim and resolve them.

mod audits;
mod events;
mod opening;
mod priority;
mod queues;
mod record;
mod resolving;

pub use self::queues::{ReviewQuery, Reviews};

pub(crate) use self::audits::Audits;
pub(crate) use self::events::ReviewEvents;
pub(crate) use self::opening::{ReviewOpener, ReviewRequest};
pub(crate) use self::record::{checked_queue, checked_signals, record as review_record};
pub(crate) use self::resolving::REOPEN_WITHIN;
