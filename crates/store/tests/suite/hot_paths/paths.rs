//! Every hot path of the store, run for real: what runs all the time, or reads tables that grow without end.

mod accounts;
mod actions;
mod analysis;
mod billing;
mod deliveries;
mod objects;
mod outbox;
mod quality;
mod upkeep;

use model::Timestamp;
use store::Lease;
use uuid::Uuid;

use super::capture::Capture;
use super::fixtures;
use super::fixtures::SIZES;

const TOKEN: Uuid = Uuid::from_u128(7);
/// When queued rows are claimed: all that the paths queue is due before, and so is the backlog.
const CLAIMED_AT: Timestamp = Timestamp::from_seconds(1_800_003_600);
const LEASE: Lease = Lease { token: TOKEN, until: Timestamp::from_seconds(1_800_003_660) };

/// Runs all hot paths; what the first ones write is what the later ones read.
pub(crate) async fn run(capture: &mut Capture<'_>) {
    capture.prepare(fixtures::accounts).await;
    accounts::authentication(capture).await;
    objects::recording(capture, &SIZES).await;
    analysis::claiming_and_reading_jobs(capture, &[1, 5, 40, 300]).await;
    analysis::escalating(capture).await;
    analysis::concluding(capture, &[1, 5, 40, 300]).await;
    analysis::bulk_runs(capture).await;
    actions::rules_and_firings(capture, &[1, 5, 40]).await;
    actions::listing_firings(capture).await;
    quality::labelling(capture).await;
    actions::reviewing(capture).await;
    deliveries::sending(capture, &SIZES).await;
    deliveries::listing_deliveries(capture).await;
    outbox::outbox(capture, &[1, 5, 40]).await;
    objects::reading_objects(capture).await;
    objects::exporting(capture).await;
    billing::money(capture).await;
    upkeep::looking(capture).await;
    upkeep::sweeping(capture).await;
}

/// Runs those of every request, those by which events become answers and answers become actions, what looks for due work, and what
/// sweeps behind them, each for one row and for many: to PostgreSQL these are the only two forms. Their statements fit into what a
/// connection keeps prepared.
pub(crate) async fn run_work(capture: &mut Capture<'_>) {
    capture.prepare(fixtures::accounts).await;
    accounts::keys_of_requests(capture).await;
    objects::recording(capture, &[1, 600]).await;
    analysis::claiming_and_reading_jobs(capture, &[1, 300]).await;
    analysis::escalating(capture).await;
    analysis::concluding(capture, &[1, 300]).await;
    actions::rules_and_firings(capture, &[1, 40]).await;
    deliveries::sending(capture, &[1, 40]).await;
    outbox::outbox(capture, &[1, 40]).await;
    upkeep::looking(capture).await;
    upkeep::sweeping(capture).await;
}
