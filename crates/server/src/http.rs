//! The HTTP API: routes, one file for each resource, and the middleware around them.

mod access;
mod account;
mod account_deletion;
mod app;
mod audit_log;
mod authenticate;
mod billing;
mod body_budget;
mod client_address;
mod conditions;
mod connections;
#[cfg(feature = "console")]
mod console;
mod docs;
mod envelope;
mod escalation;
mod events;
mod exports;
mod extract;
mod health;
mod identities;
mod keys;
mod labels;
mod machine_login;
mod mcp;
mod members;
mod metrics;
mod middleware;
mod moderations;
mod objects;
mod openapi;
mod operator;
mod passkeys;
mod perspective;
mod quality;
mod recipients;
mod reference;
mod request_body;
mod reviews;
mod rules;
mod session_answer;
mod session_cookie;
mod sessions;
mod sign_in;
mod signals;
mod trials;
mod two_factor;
mod usage;
mod webhooks;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use service::{Error, Kind};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::access::{OperationAccess, access_table, operations};
pub(crate) use self::app::App;
pub(crate) use self::body_budget::BodyBudget;
pub(crate) use self::connections::{ConnectionLimits, Connections};
use self::envelope::Refusal;
pub(crate) use self::mcp::McpEndpoint;
pub(crate) use self::session_cookie::SessionCookie;

/// The whole HTTP API.
pub(crate) fn router(app: App) -> Router {
    let console = console().route_layer(from_fn_with_state(app.clone(), authenticate::limit_by_address));
    let session = session().route_layer(from_fn_with_state(app.clone(), authenticate::authenticate));
    let v1 = v1().route_layer(from_fn_with_state(app.clone(), authenticate::authenticate));
    let perspective = perspective()
        .route_layer(from_fn_with_state(app.clone(), authenticate::authenticate))
        .route_layer(from_fn(perspective::with_errors_in_its_shape));
    let (routes, _) = documented(console, session, v1.merge(perspective)).split_for_parts();
    let routes = routes.merge(docs::routes()).merge(recipients::pages(&app)).merge(mcp::routes(&app));
    #[cfg(feature = "console")]
    let routes = routes.merge(console::routes());
    finish(routes, app)
}

/// The routes of a process that only runs workers: health and metrics.
pub(crate) fn health_router(app: App) -> Router {
    finish(system().split_for_parts().0, app)
}

/// The OpenAPI document of the whole API.
pub fn openapi_document() -> utoipa::openapi::OpenApi {
    openapi::complete(documented(console(), session(), v1().merge(perspective())).into_openapi())
}

/// Adds fallbacks and middleware to a set of routes.
fn finish(routes: Router<App>, app: App) -> Router {
    let routes = routes
        .fallback(|| async { Refusal(Error::new(Kind::NotFound, "there is no such route")) })
        .method_not_allowed_fallback(|| async {
            Refusal(Error::new(Kind::MethodNotAllowed, "this route does not take that method"))
        });
    middleware::wrap(routes, &app).with_state(app)
}

fn documented(
    console: OpenApiRouter<App>,
    session: OpenApiRouter<App>,
    v1: OpenApiRouter<App>,
) -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::Document::openapi())
        .merge(system())
        .merge(openapi_routes())
        .merge(payments())
        .merge(console)
        .merge(session)
        .merge(v1)
}

/// Health and metrics, without authentication.
fn system() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::read))
}

/// The OpenAPI document.
fn openapi_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(openapi::json)).routes(routes!(openapi::yaml))
}

/// Called by the payment provider, which authenticates with a signature of its own.
fn payments() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(billing::payment_event))
}

/// Sign-in: not authenticated, and rate-limited by client address.
fn console() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(sign_in::state))
        .routes(routes!(sign_in::register))
        .routes(routes!(sign_in::log_in))
        .routes(routes!(sign_in::exchange_token))
        .routes(routes!(sign_in::forgot_password))
        .routes(routes!(sign_in::reset_password))
        .routes(routes!(sign_in::verify))
        .routes(routes!(sign_in::preview_first_proof))
        .routes(routes!(members::accept))
        .routes(routes!(recipients::confirm))
        .routes(routes!(recipients::withdraw))
        .routes(routes!(passkeys::start))
        .routes(routes!(passkeys::finish))
        .routes(routes!(machine_login::redeem))
        .routes(routes!(identities::providers))
        .routes(routes!(identities::authorize))
        .routes(routes!(identities::sign_in))
}

/// What a signed-in user does with the session itself: authenticated, and rate-limited by tenant.
fn session() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sign_in::reauthenticate)).routes(routes!(sign_in::log_out))
}

/// The routes of the Perspective API: authenticated by a key in the query, and rate-limited by tenant.
fn perspective() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(perspective::analyze)).routes(routes!(perspective::suggest_score))
}

/// Everything about an account: authenticated, and rate-limited by tenant.
fn v1() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(account::me))
        .routes(routes!(account::settings, account::update_settings))
        .routes(routes!(account::onboarded))
        .routes(routes!(account::change_password))
        .routes(routes!(account::notifications, account::set_notifications))
        .routes(routes!(sessions::list, sessions::end_others))
        .routes(routes!(sessions::end))
        .routes(routes!(two_factor::status))
        .routes(routes!(two_factor::setup))
        .routes(routes!(two_factor::enable))
        .routes(routes!(two_factor::disable))
        .routes(routes!(identities::list))
        .routes(routes!(identities::link, identities::unlink))
        .routes(routes!(passkeys::list))
        .routes(routes!(passkeys::start_registration))
        .routes(routes!(passkeys::finish_registration))
        .routes(routes!(passkeys::rename, passkeys::remove))
        .routes(routes!(machine_login::consent))
        .routes(routes!(account_deletion::request, account_deletion::cancel))
        .routes(routes!(members::list))
        .routes(routes!(members::update, members::remove))
        .routes(routes!(members::invitations, members::invite))
        .routes(routes!(members::withdraw))
        .routes(routes!(audit_log::list))
        .routes(routes!(exports::export))
        .routes(routes!(operator::health))
        .routes(routes!(operator::tenants))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::update, keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::refusals))
        .routes(routes!(objects::overview))
        .routes(routes!(objects::list))
        .routes(routes!(objects::read, objects::delete))
        .routes(routes!(objects::state))
        .routes(routes!(objects::count))
        .routes(routes!(objects::distribution))
        .routes(routes!(objects::answers))
        .routes(routes!(objects::timeline))
        .routes(routes!(objects::explain))
        .routes(routes!(objects::analyze))
        .routes(routes!(objects::analyze_all))
        .routes(routes!(events::ingest, events::list))
        .routes(routes!(events::ingest_alias))
        .routes(routes!(signals::list))
        .routes(routes!(signals::put, signals::delete))
        .routes(routes!(signals::versions))
        .routes(routes!(signals::restore_version))
        .routes(routes!(signals::backfill, signals::start_backfill))
        .routes(routes!(labels::put))
        .routes(routes!(labels::list, labels::put_many))
        .routes(routes!(labels::delete))
        .routes(routes!(trials::list, trials::start))
        .routes(routes!(trials::read, trials::cancel))
        .routes(routes!(trials::adopt))
        .routes(routes!(quality::report))
        .routes(routes!(quality::fit_calibration))
        .routes(routes!(quality::set_calibration))
        .routes(routes!(escalation::get, escalation::set))
        .routes(routes!(reviews::list, reviews::open))
        .routes(routes!(reviews::queues))
        .routes(routes!(reviews::next))
        .routes(routes!(reviews::read))
        .routes(routes!(reviews::claim))
        .routes(routes!(reviews::release))
        .routes(routes!(reviews::resolve))
        .routes(routes!(reviews::reopen))
        .routes(routes!(rules::list, rules::create))
        .routes(routes!(rules::read, rules::update, rules::delete))
        .routes(routes!(rules::test))
        .routes(routes!(rules::replay))
        .routes(routes!(rules::read_replay))
        .routes(routes!(rules::firings))
        .routes(routes!(conditions::check))
        .routes(routes!(signals::playground))
        .routes(routes!(signals::system_one))
        .routes(routes!(moderations::create))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::read, webhooks::update, webhooks::delete))
        .routes(routes!(webhooks::health))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::rotate_secret))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(webhooks::replay))
        .routes(routes!(billing::balance))
        .routes(routes!(billing::ledger))
        .routes(routes!(billing::open_checkout))
        .routes(routes!(billing::checkout))
        .routes(routes!(usage::usage))
}
