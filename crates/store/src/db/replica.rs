//! Reads from a replica: lists and the like may come from a streaming replica of PostgreSQL, if it has all that their caller has
//! written through this process (`docs/adr/0044-replicas-by-position.md`).
//!
//! Several times a second the primary says which position its log has reached. A position that it had reached after a caller's
//! last write covers that write. Before a session of the replica answers, it says which position it has replayed; if that is not
//! enough, or if anything fails, the primary answers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{PgPool, SqlStr};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};
use uuid::Uuid;

use crate::db::conn::{Conn, Lent};
use crate::db::connect::{REPLICA_CONNECTIONS, connection_beside};
use crate::db::error::{Error, Result, StoreError};
use crate::db::limits::RETURN_LIMIT;
use crate::db::sessions::require_own_sessions;
use crate::db::statement::fetch_one;

/// How old the state may be that a list shows. What the replica has not replayed by then is read from the primary.
const MAX_LAG: Duration = Duration::from_secs(5);
/// How long positions are kept, to say how far behind the replica is.
const KEPT: Duration = Duration::from_mins(1);
/// How long the replica may take to lend a connection, and to say which position it has replayed.
const LEND_LIMIT: Duration = Duration::from_secs(1);
/// How long it may take to answer before the primary is asked.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// For how long a replica is left alone that did not answer, although it says how far it is.
const REST: Duration = Duration::from_secs(5);
/// Callers whose last write is remembered.
const MAX_CALLERS: usize = 10_000;

/// Where a server is in the log, and in which: the log of a cluster gets a new timeline with each failover.
const STANDING: &str = "
    SELECT pg_is_in_recovery(), current_database()::text, (SELECT system_identifier FROM pg_control_system()),
           CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
                ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END,
           (CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn(), '0/0')
                 ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn)::bigint";

tokio::task_local! {
    /// On whose behalf this task reads.
    static READER: Uuid;
}

/// Runs the work of a request that only reads, on behalf of a caller: its lists may come from a replica.
pub async fn reading_as<F: Future>(caller: Uuid, work: F) -> F::Output {
    READER.scope(caller, work).await
}

/// On whose behalf this task reads, if it does.
pub(crate) fn reading() -> Option<Uuid> {
    READER.try_with(|caller| *caller).ok()
}

/// What a server says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) is_replica: bool,
    database: String,
    /// The cluster, which is the same for all copies of it.
    system: i64,
    timeline: i32,
    /// What it has written, or replayed: bytes since the beginning of the log.
    position: i64,
}

impl Standing {
    pub(crate) async fn of(conn: &mut Conn) -> Result<Self> {
        let said: (bool, String, i64, i32, i64) = fetch_one!(conn, STANDING)?;
        let (is_replica, database, system, timeline, position) = said;
        Ok(Self { is_replica, database, system, timeline, position })
    }

    /// Why this server cannot answer for that primary, however far it is.
    fn objection(&self, primary: &Self) -> Option<&'static str> {
        if self.system != primary.system {
            Some("it belongs to another cluster")
        } else if self.database != primary.database {
            Some("it is another database of the same cluster")
        } else if !self.is_replica {
            Some("it is no replica, but takes writes itself")
        } else if self.timeline != primary.timeline {
            Some("it has not followed the last failover, or not recorded that: CHECKPOINT on it records it")
        } else {
            None
        }
    }
}

/// A replica, and what this process knows of it.
pub(crate) struct Replica {
    pool: PgPool,
    /// The connection of its own on which it is asked how far it is, however many lists are read.
    follower: PgPool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    health: Health,
    rests_until: Option<Instant>,
    /// What the primary said, and when it was asked; oldest first.
    positions: VecDeque<(Instant, Standing)>,
    /// When each caller last wrote, or read from the primary what could have come from the replica.
    writes: HashMap<Uuid, Instant>,
    /// When so many wrote that callers could not be told apart any more.
    everybody_wrote: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Unknown,
    Good,
    Bad,
}

impl State {
    /// The oldest position that a list for this caller may show: of after the caller's last write, and not too long ago.
    fn required(&self, caller: Uuid, now: Instant) -> Option<&Standing> {
        let wrote = self.writes.get(&caller).copied().max(self.everybody_wrote);
        let mut allowed = self.positions.iter().filter(|(asked, _)| now - *asked <= MAX_LAG);
        allowed.find(|(asked, _)| Some(*asked) > wrote).map(|(_, primary)| primary)
    }

    /// Remembers that a caller has written, until `at` at the latest.
    fn note(&mut self, caller: Uuid, at: Instant) {
        let now = Instant::now();
        if self.writes.len() >= MAX_CALLERS && !self.writes.contains_key(&caller) {
            // No list shows a state that is older than these.
            self.writes.retain(|_, wrote| now - *wrote <= MAX_LAG);
            if self.writes.len() >= MAX_CALLERS {
                self.everybody_wrote = self.writes.values().copied().max().max(self.everybody_wrote);
                self.writes.clear();
            }
        }
        let wrote = self.writes.entry(caller).or_insert(at);
        *wrote = at.max(*wrote);
    }

    fn add_position(&mut self, asked: Instant, primary: Standing) {
        while self.positions.front().is_some_and(|(oldest, _)| asked - *oldest > KEPT) {
            self.positions.pop_front();
        }
        self.positions.push_back((asked, primary));
    }

    /// For how long the replica has lacked something of the primary.
    fn lag(&self, replica: &Standing, now: Instant) -> Duration {
        let has = |(_, primary): &&(Instant, Standing)| replica.position >= primary.position;
        if self.positions.back().as_ref().is_some_and(has) {
            return Duration::ZERO;
        }
        self.positions.iter().rev().find(has).map_or(KEPT, |(asked, _)| now - *asked)
    }
}

impl Replica {
    pub(crate) fn new(pool: PgPool) -> Self {
        let follower = connection_beside(&pool);
        Self { pool, follower, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that a caller has just written.
    pub(crate) fn note(&self, caller: Uuid) {
        self.note_until(caller, Instant::now());
    }

    /// Remembers that a caller writes, until then at the latest.
    pub(crate) fn note_until(&self, caller: Uuid, at: Instant) {
        self.state().note(caller, at);
    }

    /// A connection to answer this caller on, inside a transaction if there is a statement that begins one. None if the primary
    /// must answer.
    pub(crate) async fn lend(&self, caller: Uuid, begin: Option<SqlStr>) -> Option<Conn> {
        let lent = self.try_lend(caller, begin).await;
        lent.inspect_err(|outcome| count(outcome)).ok()
    }

    async fn try_lend(&self, caller: Uuid, begin: Option<SqlStr>) -> Result<Conn, &'static str> {
        let required = {
            let state = self.state();
            let rests = state.rests_until.is_some_and(|until| Instant::now() < until);
            if state.health != Health::Good || rests {
                return Err("down");
            }
            // Whoever has just written waits for the next time that the primary is asked.
            state.required(caller, Instant::now()).cloned().ok_or("written")?
        };
        let is_busy = || self.pool.size() >= REPLICA_CONNECTIONS && self.pool.num_idle() == 0;
        if is_busy() {
            return Err("busy");
        }
        let down = |error: Error| {
            self.judge(Some(&error.to_string()));
            "down"
        };
        let (mut conn, standing) = match self.ask(&self.pool).await {
            // Others were faster to take the last one.
            Err(Error::Late { .. }) if is_busy() => return Err("busy"),
            asked => asked.map_err(down)?,
        };
        if standing.objection(&required).is_some() || standing.position < required.position {
            return Err("behind");
        }
        if let (Some(begin), Conn::Postgres(lent)) = (begin, &mut conn) {
            let begun = timeout(LEND_LIMIT, lent.begin(begin)).await;
            begun.unwrap_or_else(|_| Err(late(LEND_LIMIT))).map_err(down)?;
        }
        Ok(conn)
    }

    /// A connection, and what its server says of itself.
    async fn ask(&self, pool: &PgPool) -> Result<(Conn, Standing)> {
        let deadline = Instant::now() + LEND_LIMIT;
        let acquired = timeout_at(deadline, pool.acquire()).await;
        let mut conn = Conn::Postgres(Lent::plain(acquired.map_err(|_| late(LEND_LIMIT))??));
        let said = timeout_at(deadline, Standing::of(&mut conn)).await;
        match said.unwrap_or_else(|_| Err(late(LEND_LIMIT))) {
            Ok(standing) => Ok((conn, standing)),
            Err(error) => {
                conn.discard();
                Err(error)
            }
        }
    }

    /// Until when an answer may take.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + ANSWER_LIMIT
    }

    /// What happens when a read is not answered by then.
    pub(crate) fn late() -> Error {
        late(ANSWER_LIMIT)
    }

    /// Counts an answer of the replica. Only a success counts as one: whatever the replica refuses, the primary is asked.
    pub(crate) fn record<T, E: StoreError>(&self, outcome: &Result<T, E>) {
        count(if outcome.is_ok() { "replica" } else { "failed" });
        if outcome.as_ref().err().and_then(E::store_error).is_some_and(Error::is_unavailable) {
            self.state().rests_until = Some(Instant::now() + REST);
        }
    }

    /// Asks the replica how far it is, now that the primary has said where it is. Returns how many bytes of the log it lacks.
    pub(crate) async fn compare(&self, asked: Instant, primary: Standing) -> Result<i64> {
        self.state().add_position(asked, primary.clone());
        let (_conn, standing) = self.ask(&self.follower).await?;
        if let Some(objection) = standing.objection(&primary) {
            return Err(Error::Replica(objection));
        }
        // A pooler that lends sessions for a statement would give the answer to another session than the one that was asked.
        if self.state().health != Health::Good {
            timeout(RETURN_LIMIT, require_own_sessions(&self.pool))
                .await
                .map_err(|_| late(RETURN_LIMIT))??;
        }
        let lag = self.state().lag(&standing, Instant::now());
        metrics::gauge!("auspex_replica_lag_seconds").set(lag.as_secs_f64());
        Ok((primary.position - standing.position).max(0))
    }

    /// Begins or ceases to read from the replica, and says so in the log when that changes.
    pub(crate) fn judge(&self, complaint: Option<&str>) {
        let health = if complaint.is_none() { Health::Good } else { Health::Bad };
        let before = std::mem::replace(&mut self.state().health, health);
        if complaint.is_some() {
            metrics::gauge!("auspex_replica_lag_seconds").set(KEPT.as_secs_f64());
        }
        match complaint {
            None if before != health => info!("the replica answers: lists come from it"),
            Some(reason) if before != health => {
                warn!(reason, "the replica cannot be used: lists come from the primary");
            }
            _ => {}
        }
    }

    pub(crate) async fn close(&self) {
        // One that no longer answers does not let go of its connections.
        let _ = timeout(RETURN_LIMIT, async { tokio::join!(self.pool.close(), self.follower.close()) }).await;
    }
}

fn late(limit: Duration) -> Error {
    Error::Late { limit_s: limit.as_secs() }
}

fn count(outcome: &'static str) {
    metrics::counter!("auspex_replica_reads_total", "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(position: i64) -> Standing {
        Standing { is_replica: false, database: "auspex".to_owned(), system: 7, timeline: 2, position }
    }

    /// A primary that was at 0, 10, 20, … when it was asked, once a second.
    fn asked_until(now: Instant, seconds: u32) -> State {
        let mut state = State::default();
        for second in (0..=seconds).rev() {
            state.add_position(now - SECOND * second, at(i64::from(seconds - second) * 10));
        }
        state
    }

    fn required(state: &State, caller: Uuid, now: Instant) -> Option<i64> {
        state.required(caller, now).map(|primary| primary.position)
    }

    #[test]
    fn a_list_shows_what_its_caller_has_written_and_is_not_too_old() {
        let (now, writer, other) = (Instant::now() + SECOND * 100, Uuid::from_u128(1), Uuid::from_u128(2));
        let mut state = asked_until(now, 20);
        assert_eq!(required(&state, other, now), Some(150), "five seconds ago");
        state.note(writer, now - SECOND * 3);
        assert_eq!(required(&state, writer, now), Some(180), "asked after the write, not when it was made");
        assert_eq!(required(&state, other, now), Some(150));
        state.note(writer, now - SECOND * 9);
        assert_eq!(required(&state, writer, now), Some(180), "an earlier write changes nothing");
        state.note(writer, now);
        assert_eq!(required(&state, writer, now), None, "nobody has asked since");
        assert_eq!(required(&state, other, now + SECOND * 6), None, "nobody has asked for long");
        assert_eq!(required(&State::default(), other, now), None);
    }

    #[test]
    fn when_too_many_write_all_count_as_writers() {
        let now = Instant::now();
        let mut state = asked_until(now, 5);
        let caller = |number: usize| Uuid::from_u128(number as u128);
        (0..MAX_CALLERS).for_each(|number| state.note(caller(number), now));
        assert_eq!(state.writes.len(), MAX_CALLERS);
        let stranger = caller(MAX_CALLERS + 1);
        assert_eq!(required(&state, stranger, now), Some(0));
        state.note(caller(MAX_CALLERS), now);
        assert_eq!((state.writes.len(), required(&state, stranger, now)), (1, None));
        state.add_position(now + SECOND, at(60));
        assert_eq!(required(&state, stranger, now + SECOND), Some(60));
        assert_eq!(required(&state, caller(3), now + SECOND), Some(60));
    }

    #[test]
    fn only_a_replica_of_the_same_log_answers() {
        let primary = at(10);
        let replica = Standing { is_replica: true, position: 3, ..primary.clone() };
        assert_eq!(replica.objection(&primary), None, "how far it is, is another question");
        let others = [
            primary.clone(),
            Standing { database: "other".to_owned(), ..replica.clone() },
            Standing { system: 8, ..replica.clone() },
            Standing { timeline: 1, ..replica.clone() },
        ];
        assert!(others.iter().all(|other| other.objection(&primary).is_some()));
    }

    #[test]
    fn the_lag_is_since_when_something_is_missing() {
        let now = Instant::now() + SECOND * 100;
        let state = asked_until(now, 20);
        let lag = |position| state.lag(&at(position), now);
        assert_eq!([lag(200), lag(199), lag(180), lag(1)], [Duration::ZERO, SECOND, SECOND * 2, SECOND * 20]);
        assert_eq!(lag(-1), KEPT);
    }
}
