//! Objects and their events: recording, reading, searching, counting and deleting them.

pub mod conditions;
pub mod deletion;
pub mod event_counters;
pub mod events;
pub mod exports;
pub mod grams;
pub(crate) mod idempotency;
pub mod overview;
pub mod reads;
pub mod recent_answers;
pub mod recorder;
pub mod request;
pub mod search;
pub mod time_spans;
