//! When a call is tried again, and after how long.

use std::time::Duration;

use model::backoff::{Backoff, Jitter};
use uuid::Uuid;

/// How patient a client is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    /// How often a call is tried again.
    pub(crate) most: u32,
    /// The first wait; it doubles with each.
    pub(crate) first_wait: Duration,
    /// The longest wait that the service may ask for.
    pub(crate) longest_asked: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 4, first_wait: Duration::from_millis(250), longest_asked: Duration::from_mins(1) }
    }
}

/// What a call may do when it is made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The same as when it is made once.
    Harmless,
    /// Something again: it is repeated only after a refusal that did nothing.
    Harmful,
}

/// How a try ended, as far as another one depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// No connection was made.
    Unconnected,
    /// The connection ended before there was an answer.
    Unanswered,
    /// A refusal with this status.
    Refused { status: u16, retry_after: Option<Duration>, events_recorded: bool },
}

/// No wait of our own choice is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Retries {
    /// How long to wait before try number `tries + 1`; none to give up. `roll` is from 0 up to 1.
    pub(crate) fn wait(&self, tries: u32, repeat: Repeat, ended: Ended, roll: f64) -> Option<Duration> {
        let passing = match ended {
            // The events are there. Sending them again would be answered with a conflict, at best.
            Ended::Refused { events_recorded: true, .. } => false,
            Ended::Unconnected
            | Ended::Refused { status: 429, .. }
            | Ended::Refused { status: 503, retry_after: Some(_), .. } => true,
            Ended::Unanswered | Ended::Refused { status: 500 | 502 | 503 | 504, .. } => {
                repeat == Repeat::Harmless
            }
            Ended::Refused { .. } => false,
        };
        if !passing || tries > self.most {
            return None;
        }
        let backoff = Backoff { first: self.first_wait, longest: LONGEST_WAIT, jitter: Jitter::UP_TO_HALF };
        let ours = backoff.wait(i64::from(tries), roll);
        match ended {
            Ended::Refused { retry_after: Some(asked), .. } if asked > self.longest_asked => None,
            // Not earlier than asked, and not all at that instant either.
            Ended::Refused { retry_after: Some(asked), .. } => Some(asked + ours),
            _ => Some(ours),
        }
    }
}

/// A number from 0 up to 1.
pub(crate) fn roll() -> f64 {
    let [a, b, c, d, ..] = Uuid::new_v4().into_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Ended {
        Ended::Refused { status, retry_after: None, events_recorded: false }
    }

    fn wait(tries: u32, repeat: Repeat, ended: Ended) -> Option<Duration> {
        Retries::default().wait(tries, repeat, ended, 0.0)
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        for status in [400, 401, 402, 403, 404, 409, 413, 422, 501] {
            assert_eq!(wait(1, Repeat::Harmless, refused(status)), None, "{status}");
        }
        for ended in [Ended::Unanswered, refused(500), refused(502), refused(503), refused(504)] {
            assert!(wait(1, Repeat::Harmless, ended).is_some(), "{ended:?}");
            assert_eq!(wait(1, Repeat::Harmful, ended), None, "{ended:?}");
        }
        // These did nothing, so anything may be sent again.
        let busy = Ended::Refused { status: 503, retry_after: Some(Duration::ZERO), events_recorded: false };
        for ended in [Ended::Unconnected, refused(429), busy] {
            assert!(wait(1, Repeat::Harmful, ended).is_some(), "{ended:?}");
        }
    }

    #[test]
    fn recorded_events_are_never_sent_again() {
        for status in [429, 502, 503] {
            let ended =
                Ended::Refused { status, retry_after: Some(Duration::from_secs(1)), events_recorded: true };
            for repeat in [Repeat::Harmless, Repeat::Harmful] {
                assert_eq!(wait(1, repeat, ended), None, "{status}");
            }
        }
    }

    #[test]
    fn waits_double_within_bounds_and_end() {
        let retries = Retries::default();
        let waits = |roll| -> Vec<u128> {
            let wait = |tries| retries.wait(tries, Repeat::Harmless, refused(503), roll);
            (1..9).map_while(wait).map(|wait| wait.as_millis()).collect()
        };
        assert_eq!(waits(0.0), [125, 250, 500, 1_000]);
        assert!(waits(0.999)[3] < 2_000);
        let patient = Retries { most: u32::MAX, ..retries };
        assert!(patient.wait(1_000_000, Repeat::Harmless, refused(503), 0.9).unwrap() <= LONGEST_WAIT);
    }

    #[test]
    fn the_service_says_when() {
        let asked = |seconds| Ended::Refused {
            status: 429,
            retry_after: Some(Duration::from_secs(seconds)),
            events_recorded: false,
        };
        assert!(wait(1, Repeat::Harmful, asked(30)).unwrap() >= Duration::from_secs(30));
        assert_eq!(wait(1, Repeat::Harmless, asked(61)), None, "nobody waits for ever");
    }

    #[test]
    fn rolls_are_spread() {
        let rolls: Vec<f64> = (0..1_000).map(|_| roll()).collect();
        assert!(rolls.iter().all(|roll| (0.0..1.0).contains(roll)));
        assert!(rolls.iter().any(|roll| *roll < 0.2) && rolls.iter().any(|roll| *roll > 0.8));
    }
}
