//! The store for lists: what may be read from a replica, and what a replica must know of its readers for that ([`replica`]).
//!
//! [`replica`]: crate::db::replica

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::db::conn::Conn;
use crate::db::connect::{Database, replica_pool};
use crate::db::error::{Error, Result};
use crate::db::replica::{Replica, Standing, reading};
use crate::db::transaction::Store;

/// How often the positions of both servers are read.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

impl Store {
    /// The same database with a replica, from which [`Store::for_lists`] may read. It need not answer yet. SQLite has none.
    pub fn with_replica(self, url: &str) -> Result<Self> {
        match &self.database {
            Database::Sqlite { .. } => Err(Error::Address("SQLite has no replicas".to_owned())),
            Database::Postgres(_) => {
                let replica = Replica::new(replica_pool(url)?);
                Ok(Self { replica: Some(Arc::new(replica)), ..self })
            }
        }
    }

    /// The same database for lists, exports and whatever else need not show the newest state: its reads may come from a
    /// replica, if there is one.
    ///
    /// They show everything that their caller has written through this process ([`crate::reading_as`], [`Store::note_write`]), and are
    /// at most five seconds old. What one caller reads this way does not go back in time, as long as there is one replica. A
    /// read of nobody's comes from the primary.
    #[must_use]
    pub fn for_lists(&self) -> Self {
        Self { is_for_lists: true, ..self.clone() }
    }

    /// Whether there is a replica.
    pub fn has_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Remembers that a caller has just written: what it reads from now on shows that.
    pub fn note_write(&self, caller: Uuid) {
        if let Some(replica) = &self.replica {
            replica.note(caller);
        }
    }

    /// Remembers that the transaction under way writes on behalf of a caller. It is over by its deadline.
    pub fn note_writing(&self, caller: Uuid) {
        if let Some(replica) = &self.replica {
            replica.note_until(caller, Instant::now() + self.deadline());
        }
    }

    /// The replica that may answer a read, and on whose behalf.
    pub(crate) fn reader(&self) -> Option<(&Replica, Uuid)> {
        let replica = self.replica.as_deref().filter(|_| self.is_for_lists)?;
        Some((replica, reading()?))
    }

    /// Remembers that a request that reads has written, as one does that leaves a line in the audit log.
    pub(crate) fn note_own_write(&self) {
        if let Some(replica) = &self.replica
            && let Some(caller) = reading()
        {
            replica.note(caller);
        }
    }

    /// Waits for a moment, then finds out how far the primary and its replica are. To be called again and again: without it
    /// nothing is read from the replica.
    pub async fn follow_replica(&self) {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let Some(replica) = &self.replica else { return };
        let asked = Instant::now();
        // A primary that does not answer says nothing about its replica.
        if let Ok(primary) = self.primary_standing().await {
            let compared = replica.compare(asked, primary).await;
            replica.judge(compared.err().map(|error| error.to_string()).as_deref());
        }
    }

    /// How many bytes of the log the replica lacks; none if there is no replica. Fails if the replica cannot be used.
    pub async fn replica_lag(&self) -> Result<Option<i64>> {
        let Some(replica) = &self.replica else { return Ok(None) };
        let asked = Instant::now();
        let primary = self.primary_standing().await?;
        replica.compare(asked, primary).await.map(Some)
    }

    async fn primary_standing(&self) -> Result<Standing> {
        let primary = self.read("position", async |conn: &mut Conn| Standing::of(conn).await).await?;
        if primary.is_replica {
            return Err(Error::Replica("there is no primary to compare it with"));
        }
        Ok(primary)
    }
}
