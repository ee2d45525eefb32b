//! The spans of time that events are counted in.

use model::Timestamp;

/// The start of the minute that an instant falls into.
pub fn minute_of(instant: Timestamp) -> Timestamp {
    start_of(instant, 60)
}

/// The start of the hour that an instant falls into.
pub fn hour_of(instant: Timestamp) -> Timestamp {
    start_of(instant, 3_600)
}

fn start_of(instant: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_seconds(instant.seconds() - instant.seconds().rem_euclid(seconds))
}
