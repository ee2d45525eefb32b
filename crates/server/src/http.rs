//! HTTP: routes, and what surrounds every one of them. A file a noun.

mod connections;
mod envelope;
mod extract;
mod health;
mod surroundings;

use axum::Router;
use axum::routing::get;
use service::{Clock, Error, Kind, Random};
use store::Store;
use url::Url;

pub(crate) use self::connections::Connections;
use self::envelope::Refusal;

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) public_url: Url,
}

/// The whole HTTP interface.
pub(crate) fn router(app: App) -> Router {
    let routes = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(|| async { Refusal(Error::new(Kind::NotFound, "there is no such route")) })
        .method_not_allowed_fallback(|| async {
            Refusal(Error::new(Kind::MethodNotAllowed, "this route does not take that method"))
        });
    surroundings::around(routes, &app).with_state(app)
}
