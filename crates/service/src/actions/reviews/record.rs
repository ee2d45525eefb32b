//! Reviews of the API, and what a caller may say about one.

use model::Timestamp;
use model::api::{Review, ReviewStatus};
use store::actions::reviews;
use store::analysis::signals::Signal;

use crate::runtime::{Error, Kind, Result, internal};

/// The longest name of a queue, in characters.
const MAX_QUEUE: usize = 64;
/// The most signals that a review asks about.
const MAX_SIGNALS: usize = 50;

/// A review as the API shows it at an instant.
pub(crate) fn record(review: &reviews::Review, now: Timestamp) -> Result<Review> {
    let (claimed_by, claimed_until) = review.claim(now).unzip();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let priority = review.priority as f64 / 1_000.0;
    Ok(Review {
        id: review.review_id,
        object_id: review.object_id.clone(),
        queue: review.queue.clone(),
        rule_id: review.rule_id,
        reason: review.reason,
        status: if claimed_by.is_some() { ReviewStatus::Claimed } else { review.status },
        signals: serde_json::from_str(&review.signals).map_err(internal)?,
        priority,
        claimed_by,
        claimed_until,
        decision: review.decision.clone(),
        note: review.note.clone(),
        resolved_by: review.resolved_by(),
        created_at: review.created_at,
        resolved_at: review.resolved_at,
    })
}

/// A name that a queue can have.
pub(crate) fn checked_queue<'a>(field: &str, name: &'a str) -> Result<&'a str> {
    let is_valid = (1..=MAX_QUEUE).contains(&name.chars().count())
        && name.trim() == name
        && !name.contains(char::is_control);
    if is_valid {
        Ok(name)
    } else {
        let rule = format!(
            "it must have 1 to {MAX_QUEUE} characters, no control characters, and no white space at its ends"
        );
        Err(Error::bad_request(format!("{field}: {rule}")))
    }
}

/// Keys of signals to be labelled, without duplicates.
pub(crate) fn checked_signals(field: &str, keys: &[String], signals: &[Signal]) -> Result<Vec<String>> {
    let mut checked: Vec<String> = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        if !signals.iter().any(|signal| signal.key == *key) {
            return Err(Error::bad_request(format!("{field}[{index}]: there is no such signal")));
        }
        if !checked.contains(key) {
            checked.push(key.clone());
        }
    }
    if checked.is_empty() || checked.len() > MAX_SIGNALS {
        return Err(Error::bad_request(format!("{field}: there must be 1 to {MAX_SIGNALS}")));
    }
    Ok(checked)
}

pub(super) fn no_such_review() -> Error {
    Error::new(Kind::NotFound, "there is no such review")
}
