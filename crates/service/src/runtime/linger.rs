//! Whether a group waits a moment for more pieces before it is written.
//!
//! At some hundred pieces a second, each comes just after the group before it was written, and would be a transaction of its own,
//! which costs about as much as a transaction of several. Waiting a few milliseconds halves their number. With fewer pieces there
//! is nothing to gain; with more, they gather by themselves while the group before is written.

use std::time::Duration;

use tokio::time::Instant;

/// The pieces a second at which waiting pays.
const RATES: std::ops::Range<f64> = 100.0..500.0;
/// How long pieces are counted for a rate.
const COUNTED: Duration = Duration::from_millis(100);
/// After this many groups in a row that nobody joined, the callers must be waiting for each answer before they send again.
const IN_VAIN: u32 = 8;
/// This many groups do not wait after that.
const PAUSE: u32 = 64;

/// Counts pieces, and decides for each group.
pub(crate) struct Linger {
    since: Instant,
    pieces: u32,
    per_second: f64,
    /// Groups in a row that waited and gained nothing.
    in_vain: u32,
    /// Groups that are not to wait.
    paused: u32,
}

impl Linger {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), pieces: 0, per_second: 0.0, in_vain: 0, paused: 0 }
    }

    /// Counts the pieces that a group has when it could be written, and says whether it should wait for more.
    pub(crate) fn begins(&mut self, pieces: usize, now: Instant) -> bool {
        self.pieces += u32::try_from(pieces).unwrap_or(u32::MAX);
        let elapsed = now - self.since;
        if elapsed >= COUNTED {
            self.per_second = f64::from(self.pieces) / elapsed.as_secs_f64();
            (self.since, self.pieces) = (now, 0);
        }
        if self.paused > 0 {
            self.paused -= 1;
            return false;
        }
        RATES.contains(&self.per_second)
    }

    /// How many pieces have joined a group that waited.
    pub(crate) fn gained(&mut self, pieces: usize) {
        self.pieces += u32::try_from(pieces).unwrap_or(u32::MAX);
        self.in_vain = if pieces == 0 { self.in_vain + 1 } else { 0 };
        if self.in_vain == IN_VAIN {
            (self.in_vain, self.paused) = (0, PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of so many pieces, so far apart; how many of the last hundred are to wait, if so many pieces join each that does.
    fn waiting(pieces: usize, apart: Duration, joining: usize) -> usize {
        let mut linger = Linger::new();
        let start = linger.since;
        let waits = (1..=500).map(|number| {
            let waits = linger.begins(pieces, start + apart * number);
            if waits {
                linger.gained(joining);
            }
            waits
        });
        waits.skip(400).filter(|waits| *waits).count()
    }

    #[test]
    fn groups_wait_where_that_makes_them_larger() {
        assert_eq!(waiting(1, Duration::from_millis(50), 1), 0, "a few pieces a second");
        assert_eq!(waiting(1, Duration::from_millis(5), 1), 100, "some hundred a second");
        assert_eq!(waiting(40, Duration::from_millis(5), 1), 0, "thousands a second are many at once anyway");
    }

    #[test]
    fn who_waits_for_each_answer_is_not_slowed_down() {
        let waits = waiting(1, Duration::from_millis(4), 0);
        assert!((1..=20).contains(&waits), "{waits} of 100: it is tried from time to time");
    }
}
