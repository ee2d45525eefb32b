//! Finds out all the time how far the replica of the database is: lists come from it only if that is known.

use store::Store;
use tokio_util::sync::CancellationToken;

/// Follows the replica until `stop` is cancelled.
pub(crate) async fn follow_replica(store: Store, stop: CancellationToken) {
    while stop.run_until_cancelled(store.follow_replica()).await.is_some() {}
}
