//! All SQL, and only SQL: a folder a room, a file a noun. One text serves SQLite and PostgreSQL (see [`db`]).
//!
//! A use case runs in one named transaction: [`Store::write`] retries it when the database asks for that and meters
//! it by its name, [`Store::read`] lends a connection for statements that need none.

pub mod accounts;
pub mod actions;
pub mod analysis;
pub mod billing;
pub mod db;
pub mod objects;
pub mod outbox;
pub mod runtime;
pub mod upkeep;

pub use db::connect::{Backend, Database};
pub use db::error::{Error, Result};
pub use db::notify::{Heard, Listener};
pub use db::round::Round;
pub use db::transaction::{Conn, StoreError};
pub use upkeep::pending::Pending;

use db::migrate;

/// The service's memory: one database, on either backend, at the newest schema.
#[derive(Clone)]
pub struct Store {
    database: Database,
}

impl Store {
    /// Opens the database at `url` (`sqlite:PATH` or `postgres://…`) and brings its schema up to date.
    ///
    /// Several processes may do so at once: one migrates, the others wait for it.
    pub async fn open(url: &str) -> Result<Self> {
        let database = Database::connect(url).await?;
        migrate::run(&database, migrate::NEWEST).await?;
        Ok(Self { database })
    }

    /// Opens a database as the version of Auspex did that knew so many migrations: for tests of those that follow.
    #[doc(hidden)]
    pub async fn open_at(url: &str, migrations: usize) -> Result<Self> {
        let database = Database::connect(url).await?;
        migrate::run(&database, migrations).await?;
        Ok(Self { database })
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.database.backend()
    }

    /// Asks the database for its simplest answer.
    pub async fn ping(&self) -> Result<()> {
        self.read("ping", async |conn| {
            let _: (i64,) = db::connect::fetch_one!(conn, "SELECT count(*) FROM deployment WHERE name = ''")?;
            Ok(())
        })
        .await
    }

    /// Closes every connection, after the work under way on each.
    pub async fn close(&self) {
        self.database.close().await;
    }
}
