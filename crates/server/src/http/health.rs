//! Whether the process lives, and whether it can work.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use service::{Error, Kind};

use super::App;
use super::envelope::Refusal;

/// How long the database may take to answer before the service counts as not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
}

pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

pub(super) async fn ready(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    let not_ready = || Error::new(Kind::NotReady, "the database does not answer");
    match tokio::time::timeout(READY_TIMEOUT, app.store.ping()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ok" })),
        Ok(Err(error)) => Err(Refusal(not_ready().because(error))),
        Err(elapsed) => Err(Refusal(not_ready().because(elapsed))),
    }
}
