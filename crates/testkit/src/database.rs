//! A database for one test.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store::{Backend, Schema, Store};
use tempfile::TempDir;

use crate::Stage;

/// Names the PostgreSQL cluster that tests may make databases in; `make test` sets it.
const CLUSTER_VARIABLE: &str = "AUSPEX_TEST_POSTGRES";
/// Names the other nodes of a sharded cluster, separated by commas: databases are made and removed on all of them, each as a copy of
/// a template that is there already (docs/scale.md).
const NODES_VARIABLE: &str = "AUSPEX_TEST_POSTGRES_NODES";

/// An empty database of its own for one test: a file in a directory that goes with it, or a new one in the cluster.
pub struct TestDatabase {
    backend: Backend,
    url: String,
    directory: Arc<TempDir>,
    name: String,
}

impl TestDatabase {
    /// Makes an empty database; on a sharded cluster, one that is migrated and divided.
    pub async fn create(backend: Backend) -> Self {
        if !nodes().is_empty() {
            return Self::create_migrated(backend).await;
        }
        let database = Self::named(backend);
        if backend == Backend::Postgres {
            run_in_cluster(&format!("CREATE DATABASE {}", database.name)).await;
        }
        database
    }

    /// Makes a database for tests that do not look at migrations. In a cluster it is a copy of one that has them all, which takes
    /// about 0.3 s less.
    pub async fn create_migrated(backend: Backend) -> Self {
        let database = Self::named(backend);
        if backend == Backend::Postgres {
            let template = template().await;
            run_on_nodes(&format!("CREATE DATABASE {} TEMPLATE {template}", database.name)).await;
        }
        database
    }

    fn named(backend: Backend) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        let url = match backend {
            Backend::Sqlite => format!("sqlite:{}", directory.path().join("auspex.db").display()),
            Backend::Postgres => address_of(&name),
        };
        Self { backend, url, directory: Arc::new(directory), name }
    }

    /// The same database for a second holder; one of them tears it down.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            backend: self.backend,
            url: self.url.clone(),
            directory: Arc::clone(&self.directory),
            name: self.name.clone(),
        }
    }

    /// Which database it is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Its address, as in `DATABASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A directory that lives as long as the database.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Makes a PostgreSQL database refuse writes, or take them again, as after a failover: its sessions end, and new ones
    /// find it so.
    pub async fn set_read_only(&self, is_read_only: bool) {
        let name = &self.name;
        let value = if is_read_only { "on" } else { "off" };
        run_in_cluster(&format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}")).await;
        if is_read_only {
            let end =
                format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
            run_in_cluster(&end).await;
        }
    }

    /// Opens it, at the newest schema.
    pub async fn open(&self) -> Store {
        Store::open(&self.url).await.expect("the test database opens")
    }
}

impl Stage for TestDatabase {
    async fn set_up(backend: Backend) -> Self {
        Self::create(backend).await
    }

    async fn tear_down(self) {
        if self.backend == Backend::Postgres {
            run_on_nodes(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
        }
    }
}

/// The cluster's address up to the database, and what follows it.
fn cluster() -> (String, String) {
    #[expect(clippy::disallowed_methods, reason = "the one setting that tests take from outside")]
    let url = std::env::var(CLUSTER_VARIABLE).unwrap_or_else(|_| {
        panic!("{CLUSTER_VARIABLE} is not set: run `make test`, which starts a PostgreSQL of its own")
    });
    let (url, query) = match url.split_once('?') {
        Some((url, query)) => (url.to_owned(), format!("?{query}")),
        None => (url, String::new()),
    };
    let (base, _database) = url.rsplit_once('/').expect("postgres://host/database");
    (base.to_owned(), query)
}

/// The address of a database in the cluster.
fn address_of(name: &str) -> String {
    let (base, query) = cluster();
    format!("{base}/{name}{query}")
}

async fn connection() -> PgConnection {
    PgConnection::connect(&address_of("postgres")).await.expect("the test cluster answers")
}

async fn run_in(connection: &mut PgConnection, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.expect("the test cluster obeys");
}

/// The other nodes of a sharded cluster.
fn nodes() -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "set for a sharded cluster only")]
    let nodes = std::env::var(NODES_VARIABLE).unwrap_or_default();
    nodes.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

/// Runs a statement in the cluster, the other nodes first: a database that is there is there on all of them.
async fn run_on_nodes(statement: &str) {
    for node in nodes() {
        let mut connection = PgConnection::connect(&node).await.expect("a node of the cluster answers");
        run_in(&mut connection, statement).await;
        connection.close().await.expect("the connection closes");
    }
    run_in_cluster(statement).await;
}

async fn run_in_cluster(statement: &str) {
    let mut connection = connection().await;
    run_in(&mut connection, statement).await;
    connection.close().await.expect("the connection closes");
}

/// A database at the newest schema that others are copies of. The first test that needs it makes it, while others wait.
async fn template() -> String {
    const IS_THERE: &str = "SELECT count(*) FROM pg_database WHERE datname = $1 AND datistemplate";
    let newest = Schema::of_journal(&[]).expect("an empty journal").newest;
    let name = format!("auspex_schema_{newest}");
    let mut connection = connection().await;
    let count = async |connection: &mut PgConnection| -> i64 {
        let found = sqlx::query_scalar(IS_THERE).bind(&name).fetch_one(connection);
        found.await.expect("the test cluster answers")
    };
    if count(&mut connection).await == 0 {
        run_in(&mut connection, "SELECT pg_advisory_lock(1)").await;
        if count(&mut connection).await == 0 {
            // One that a test left half-made.
            run_in(&mut connection, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
            run_in(&mut connection, &format!("CREATE DATABASE {name}")).await;
            let store = Store::open(&address_of(&name)).await.expect("the template opens");
            store.close().await;
            run_in(&mut connection, &format!("ALTER DATABASE {name} IS_TEMPLATE true")).await;
        }
    }
    // Ends the session, and with it the lock.
    connection.close().await.expect("the connection closes");
    name
}
