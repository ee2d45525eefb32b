//! Hot paths of sweeps, and of looking for what is due.

use store::Conn;
use store::accounts::sessions;
use store::actions::{firings, rules};
use store::analysis::{answer_history, bulk_runs, trials};
use store::objects::{event_counters, overview};
use store::upkeep::next_due::next_due;
use store::upkeep::sweeper;

use super::super::capture::Capture;
use super::super::fixtures::{CONDITION, NOW, TENANT};

pub(crate) async fn looking(capture: &mut Capture<'_>) {
    capture
        .write("what is due", async |conn: &mut Conn| {
            next_due(conn).await?;
            bulk_runs::running(conn).await?;
            trials::unleased(conn, NOW, 16).await
        })
        .await;
}

pub(crate) async fn sweeping(capture: &mut Capture<'_>) {
    capture
        .write("sweep", async |conn: &mut Conn| {
            sweeper::drop_idempotency_keys(conn, NOW, 10).await?;
            sweeper::drop_samples(conn, TENANT, 10).await?;
            sweeper::events_past_retention(conn, TENANT, NOW, 10).await?;
            sweeper::drop_event_tallies(conn, TENANT, NOW).await?;
            overview::drop_days(conn, TENANT, NOW.date()).await?;
            sessions::sweep(conn, NOW).await?;
            answer_history::drop_before(conn, TENANT, NOW, 10).await?;
            firings::drop_before(conn, TENANT, NOW, 10).await?;
            firings::drop_message_counts(conn, TENANT, NOW.date()).await?;
            event_counters::sweep(conn, TENANT, NOW, 10).await?;
            rules::sweep_retired(conn, TENANT, CONDITION, 10).await
        })
        .await;
}
