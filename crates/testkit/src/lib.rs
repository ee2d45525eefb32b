//! What tests share: every story runs on a SQLite file of its own and on a PostgreSQL database of its own.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test's scaffolding fails the test")]

mod database;
mod module_graph;
mod peers;
mod proxy;

use std::time::Duration;

pub use database::TestDatabase;
pub use module_graph::ModuleGraph;
pub use peers::{GithubPeer, GooglePeer, StripePeer, agree, openapi_complaints, verify_webhooks};
pub use proxy::Proxy;
pub use store::Backend;

/// How long a test waits for what must come. Only a failure takes so long; a machine that is shared with others may stand
/// still for many seconds.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// What a story plays on: set up on one database, and struck down with checks of its own when the story is over.
pub trait Stage: Sized {
    /// Sets the stage on a fresh database.
    fn set(backend: Backend) -> impl Future<Output = Self>;

    /// Ends the story: checks that nothing is left behind, and cleans up.
    fn strike(self) -> impl Future<Output = ()>;
}

/// Plays one story on one database.
pub fn play<S: Stage>(backend: Backend, story: impl AsyncFnOnce(&S)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = S::set(backend).await;
        story(&stage).await;
        stage.strike().await;
    });
}

/// Makes each story a test on both databases: `on_both!(a_story, another)`, where `async fn a_story(stage: &impl Stage)`.
#[macro_export]
macro_rules! on_both {
    ($($story:ident),* $(,)?) => {$(
        mod $story {
            #[test]
            fn sqlite() {
                $crate::play($crate::Backend::Sqlite, super::$story);
            }

            #[test]
            fn postgres() {
                $crate::play($crate::Backend::Postgres, super::$story);
            }
        }
    )*};
}
