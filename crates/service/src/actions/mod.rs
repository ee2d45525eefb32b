//! What follows from answers: rules and their firings, and webhooks.

mod announcements;
mod consequences;
mod firings;
mod rules;
mod webhooks;

pub use self::firings::Firings;
pub use self::rules::Rules;
pub use self::webhooks::{Deliveries, DeliveryQuery, Endpoints};

pub(crate) use self::announcements::Announcements;
pub(crate) use self::consequences::{ConcludedAnalysis, Consequences};
pub(crate) use self::webhooks::{Courier, CourierHandle, CourierOptions, drop_deliveries};

/// Everything that follows from answers.
pub struct Actions {
    /// Conditions over answers.
    pub rules: Rules,
    /// What rules did.
    pub firings: Firings,
    /// Webhook endpoints.
    pub endpoints: Endpoints,
    /// Webhook deliveries.
    pub deliveries: Deliveries,
}
