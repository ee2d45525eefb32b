//! Objects and their events: recording, reading, searching and counting them.

pub mod conditions;
pub mod grams;
pub(crate) mod idempotency;
pub mod overview;
pub mod reads;
pub mod recorder;
pub mod search;
