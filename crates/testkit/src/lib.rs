//! What tests share: every test runs on a SQLite file of its own and on a PostgreSQL database of its own.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test's scaffolding fails the test")]

mod authenticator;
mod database;
mod module_graph;
mod peers;
mod postgres;
mod proxy;

use std::time::Duration;

// For its features alone: see `Cargo.toml`.
use metrics_util as _;

pub use authenticator::{Authenticator, flags as authenticator_flags};
pub use database::TestDatabase;
pub use module_graph::ModuleGraph;
pub use peers::{
    GithubPeer, GooglePeer, OwnIssuerPeer, StripePeer, agree, ask_peer, openapi_complaints,
    scikit_learn_figures, verify_webhooks,
};
pub use postgres::PostgresServer;
pub use proxy::{Proxy, through_proxy};
pub use store::Backend;

/// How long a test waits for what must come. Only a failure takes so long; a machine that is shared with others may stand
/// still for many seconds.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// What a test runs on: set up on one database, and torn down with checks of its own when the test is over.
pub trait Stage: Sized {
    /// Sets it up on a fresh database.
    fn set_up(backend: Backend) -> impl Future<Output = Self>;

    /// Ends the test: checks that nothing is left behind, and cleans up.
    fn tear_down(self) -> impl Future<Output = ()>;
}

/// Runs one test on one database.
pub fn run_on<S: Stage>(backend: Backend, test: impl AsyncFnOnce(&S)) {
    in_runtime(async {
        let stage = S::set_up(backend).await;
        test(&stage).await;
        stage.tear_down().await;
    });
}

/// Runs a future in a runtime of its own, with two threads.
pub fn in_runtime(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future);
}

/// Makes each function a test on both databases: `on_both!(a_claim, another)`, where `async fn a_claim(stage: &impl Stage)`.
#[macro_export]
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn sqlite() {
                $crate::run_on($crate::Backend::Sqlite, super::$test);
            }

            #[test]
            fn postgres() {
                $crate::run_on($crate::Backend::Postgres, super::$test);
            }
        }
    )*};
}
