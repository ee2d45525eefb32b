//! All SQL, and only SQL: one file a noun. One text serves SQLite and PostgreSQL (see [`database`]).
//!
//! A use case runs in one named transaction: [`Store::write`] retries it when the database asks for that and meters
//! it by its name, [`Store::read`] lends a connection for statements that need none.

pub mod analyses;
pub mod audit;
mod bulk;
pub mod bulk_runs;
pub mod checkouts;
pub mod conditions;
pub mod database;
pub mod deliveries;
pub mod delivery_queue;
pub mod deployment;
mod dialect;
mod error;
pub mod firings;
pub mod grams;
pub mod histories;
mod idempotency;
pub mod identities;
pub mod jobs;
pub mod keys;
mod leasing;
pub mod ledger;
pub mod ledger_pages;
mod migrations;
pub mod nodes;
pub mod objects;
pub mod outbox;
pub mod overview;
mod pending;
pub mod queues;
pub mod rate_budgets;
pub mod recording;
pub mod retention;
mod round;
pub mod rules;
pub mod sealed;
pub mod search;
pub mod sessions;
pub mod signals;
pub mod sync_leases;
pub mod tenants;
pub mod throttles;
mod transaction;
pub mod unpaid;
pub mod usage;
pub mod users;
mod wakeups;
pub mod webhooks;

pub use database::{Backend, Database};
pub use error::{Error, Result};
pub use pending::Pending;
pub use round::Round;
pub use transaction::{Conn, StoreError};
pub use wakeups::{Heard, Listener};

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
        migrations::run(&database, migrations::NEWEST).await?;
        Ok(Self { database })
    }

    /// Opens a database as the version of Auspex did that knew so many migrations: for tests of those that follow.
    #[doc(hidden)]
    pub async fn open_at(url: &str, migrations: usize) -> Result<Self> {
        let database = Database::connect(url).await?;
        migrations::run(&database, migrations).await?;
        Ok(Self { database })
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.database.backend()
    }

    /// Asks the database for its simplest answer.
    pub async fn ping(&self) -> Result<()> {
        self.read("ping", async |conn| {
            let _: (i64,) = database::fetch_one!(conn, "SELECT count(*) FROM deployment WHERE name = ''")?;
            Ok(())
        })
        .await
    }

    /// Closes every connection, after the work under way on each.
    pub async fn close(&self) {
        self.database.close().await;
    }
}
