//! Throttles: attempts before sign-in, counted for each scope and subject.

use model::Timestamp;

use crate::db::{Conn, Result, Rows, execute, fetch_one, fetch_optional};

/// One attempt and the limits on it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// What is attempted.
    pub scope: &'a str,
    /// What it is aimed at, or who makes it.
    pub subject: &'a str,
    /// When.
    pub now: Timestamp,
    /// How many attempts a window allows.
    pub limit: i64,
    /// A window that started then or earlier is over.
    pub window_cutoff: Timestamp,
    /// Until when further attempts are blocked once the limit is reached.
    pub block_until: Timestamp,
}

/// Whether the attempts so far still count: their window is not over and did not end in a block.
///
/// While a block lasts, the statement does not get this far.
macro_rules! still_counts {
    () => {
        "throttles.blocked_until IS NULL AND throttles.window_start > $5"
    };
}

/// Counts an attempt; returns the end of the block if attempts are blocked.
///
/// Concurrent attempts wait for each other on the row, so no more are counted than the limit allows.
pub async fn attempt(conn: &mut Conn, attempt: Attempt<'_>) -> Result<Option<Timestamp>> {
    let Attempt { scope, subject, now, limit, window_cutoff, block_until } = attempt;
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
        limit,
        window_cutoff,
        block_until
    )?;
    if counted.is_some() {
        return Ok(None);
    }
    // The statement above has locked the row, so it is still there and still blocked.
    let (blocked_until,): (Timestamp,) = fetch_one!(
        conn,
        "SELECT blocked_until FROM throttles WHERE scope = $1 AND subject = $2",
        scope,
        subject
    )?;
    Ok(Some(blocked_until))
}

/// Which of these subjects are blocked. Counts and locks nothing.
pub async fn blocked(
    conn: &mut Conn,
    scope: &str,
    subjects: &[String],
    now: Timestamp,
) -> Result<Vec<String>> {
    let blocked: Vec<(String,)> = Rows::of(subjects)
        .column("of_scope", |_| scope)
        .column("of_subject", String::as_str)
        .column("now", |_| now)
        .with_given(
            "SELECT of_subject FROM given
             WHERE (SELECT blocked_until FROM throttles WHERE scope = given.of_scope AND subject = given.of_subject)
                   > given.now",
        )
        .fetch(conn)
        .await?;
    Ok(blocked.into_iter().map(|(subject,)| subject).collect())
}

/// Takes one attempt back, and with it a block: the limit is not reached any more.
pub async fn forgive(conn: &mut Conn, scope: &str, subject: &str) -> Result<u64> {
    execute!(
        conn,
        "UPDATE throttles SET attempts = attempts - 1, blocked_until = NULL
         WHERE scope = $1 AND subject = $2 AND attempts > 0",
        scope,
        subject
    )
}

/// Removes all attempts.
pub async fn clear(conn: &mut Conn, scope: &str, subject: &str) -> Result<u64> {
    execute!(conn, "DELETE FROM throttles WHERE scope = $1 AND subject = $2", scope, subject)
}

/// Removes up to `limit` rows whose window started at `stale` or earlier, oldest first.
pub async fn sweep(conn: &mut Conn, stale: Timestamp, limit: i64) -> Result<u64> {
    // Checked twice: an attempt may start a new window in a row after it was found and before it is deleted.
    execute!(
        conn,
        "DELETE FROM throttles WHERE window_start <= $1 AND (scope, subject) IN (
             SELECT scope, subject FROM throttles WHERE window_start <= $1 ORDER BY window_start LIMIT $2)",
        stale,
        limit
    )
}
