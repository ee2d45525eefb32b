//! Attempts made before anybody is signed in, counted for each scope and subject.

use model::Timestamp;

use crate::db::connect::{execute, fetch_one, fetch_optional};
use crate::{Conn, Result};

/// One attempt, and what it is measured against.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// What is attempted.
    pub scope: &'a str,
    /// On what, or by whom.
    pub subject: &'a str,
    /// When.
    pub now: Timestamp,
    /// How many a window allows.
    pub most: i64,
    /// A window that opened then, or earlier, has passed.
    pub window_passed: Timestamp,
    /// Until when the last attempt allowed blocks those that follow.
    pub blocks_until: Timestamp,
}

/// Whether the attempts so far still count: their window is open and no block has ended it.
///
/// A block that still holds never gets as far as this.
macro_rules! still_counts {
    () => {
        "throttles.blocked_until IS NULL AND throttles.window_start > $5"
    };
}

/// Counts an attempt, or says until when there are none to be made.
///
/// Racers are put in order by the row: of any number at once, as many are counted as are allowed.
pub async fn attempt(conn: &mut Conn, attempt: Attempt<'_>) -> Result<Option<Timestamp>> {
    let Attempt { scope, subject, now, most, window_passed, blocks_until } = attempt;
    let counted: Option<(i64,)> = fetch_optional!(
        conn,
        concat!(
            "INSERT INTO throttles (scope, subject, attempts, window_start, blocked_until)
             VALUES ($1, $2, 1, $3, CASE WHEN $4 <= 1 THEN $6 END)
             ON CONFLICT (scope, subject) DO UPDATE SET
                 attempts = CASE WHEN ",
            still_counts!(),
            " THEN throttles.attempts + 1 ELSE 1 END,
                 window_start = CASE WHEN ",
            still_counts!(),
            " THEN throttles.window_start ELSE $3 END,
                 blocked_until = CASE WHEN $4 <= CASE WHEN ",
            still_counts!(),
            " THEN throttles.attempts + 1 ELSE 1 END THEN $6 END
             WHERE throttles.blocked_until IS NULL OR throttles.blocked_until <= $3
             RETURNING attempts"
        ),
        scope,
        subject,
        now,
        most,
        window_passed,
        blocks_until
    )?;
    if counted.is_some() {
        return Ok(None);
    }
    // The statement has locked the row that it left alone, so it is still there and still blocked.
    let (blocked_until,): (Timestamp,) = fetch_one!(
        conn,
        "SELECT blocked_until FROM throttles WHERE scope = $1 AND subject = $2",
        scope,
        subject
    )?;
    Ok(Some(blocked_until))
}

/// Takes one attempt back. One fewer than the most is no reason for a block.
pub async fn forgive(conn: &mut Conn, scope: &str, subject: &str) -> Result<u64> {
    execute!(
        conn,
        "UPDATE throttles SET attempts = attempts - 1, blocked_until = NULL
         WHERE scope = $1 AND subject = $2 AND attempts > 0",
        scope,
        subject
    )
}

/// Forgets all attempts.
pub async fn clear(conn: &mut Conn, scope: &str, subject: &str) -> Result<u64> {
    execute!(conn, "DELETE FROM throttles WHERE scope = $1 AND subject = $2", scope, subject)
}

/// Removes up to `most` rows whose window opened at `stale` or earlier, oldest first.
pub async fn sweep(conn: &mut Conn, stale: Timestamp, most: i64) -> Result<u64> {
    // Asked twice: an attempt may open a new window in a row between its being found and its being deleted.
    execute!(
        conn,
        "DELETE FROM throttles WHERE window_start <= $1 AND (scope, subject) IN (
             SELECT scope, subject FROM throttles WHERE window_start <= $1 ORDER BY window_start LIMIT $2)",
        stale,
        most
    )
}
