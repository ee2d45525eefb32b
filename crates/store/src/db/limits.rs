//! How long work on the database may take. No process may keep others waiting, whatever it does or however its host
//! vanishes (`docs/adr/0017-limits-on-database-work.md`).

use std::time::Duration;

use crate::db::dialect::Backend;

/// The settings of every session on PostgreSQL. They hold on the server, where a process that is frozen or cut off can no
/// longer stand in the way: whatever it was doing, its locks are gone after the longest statement and the longest pause
/// between two statements, 8 seconds in all (maintenance may run a statement for longer).
///
/// Waiting for a lock is limited more strictly than pausing, so that transactions of a frozen process that wait for each other
/// are gone before the first of them lets go.
pub(crate) const POSTGRES_SESSION: &str = "
    SET lock_timeout = '2s';
    SET statement_timeout = '5s';
    SET idle_in_transaction_session_timeout = '3s';
    SET tcp_keepalives_idle = 5;
    SET tcp_keepalives_interval = 1;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '8s'";
/// Ends a statement whose client has vanished. Not every server has it, so it is set on its own.
pub(crate) const POSTGRES_CLIENT_CHECK: &str = "SET client_connection_check_interval = '2s'";
/// How long a session may take to answer a ping before it counts as lost.
pub(crate) const PING_LIMIT: Duration = Duration::from_secs(2);
/// How long a connection that was lent may take to become usable again before it is thrown away.
pub(crate) const RETURN_LIMIT: Duration = Duration::from_secs(5);

/// How long a transaction of a group waits for a lock before it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// As long as others take that are busy with the same rows.
    Usual,
    /// Only long enough to find out that another transaction keeps a row locked.
    Brief,
}

/// Limits of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// A request's or a worker's: what everybody waits for.
    Ordinary,
    /// What many have asked for is written together: it waits for locks for less time than a single request, and after it
    /// has waited in vain it is not tried again as it is.
    Group(LockWait),
    /// A sweep, an audit or the removal of much at once: a statement may take minutes.
    Maintenance,
    /// A migration: it waits for the one before it, and is tried again by itself after it has waited in vain for a lock.
    Migration,
}

impl Limits {
    /// How long a transaction or a read may take in all: waiting for a connection, and running again after conflicts.
    /// SQLite's is longer, because all writers wait for each other, and for an `auspex admin` command beside them.
    pub(crate) fn deadline(self, backend: Backend) -> Duration {
        match (self, backend) {
            (Self::Ordinary | Self::Group(_), Backend::Postgres) => Duration::from_secs(8),
            (Self::Ordinary | Self::Group(_), Backend::Sqlite) => Duration::from_secs(30),
            (Self::Maintenance, _) => Duration::from_mins(30),
            (Self::Migration, _) => Duration::from_hours(6),
        }
    }

    /// Whether a transaction that waited in vain for a lock is left to its caller, who does not try the same again at once.
    pub(crate) fn leaves_lock_timeouts(self) -> bool {
        matches!(self, Self::Group(_) | Self::Migration)
    }

    /// What replaces a session's own limits for one transaction on PostgreSQL. The pause between two statements stays short
    /// but for migrations: nothing else may hold locks while its process is frozen.
    pub(crate) fn postgres_settings(self) -> Option<&'static str> {
        match self {
            Self::Ordinary => None,
            Self::Group(LockWait::Usual) => Some("SET LOCAL lock_timeout = '500ms'"),
            Self::Group(LockWait::Brief) => Some("SET LOCAL lock_timeout = '50ms'"),
            Self::Maintenance => Some("SET LOCAL statement_timeout = '10min'"),
            Self::Migration => Some(
                "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1h'; \
                 SET LOCAL idle_in_transaction_session_timeout = '1min'",
            ),
        }
    }
}
