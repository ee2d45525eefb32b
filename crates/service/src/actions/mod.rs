//! Actions that follow from answers: rules and their firings, and webhooks.

mod announcements;
mod effects;
mod firing_list;
mod firings;
mod recipients;
mod replays;
mod rules;
mod webhooks;

pub use self::firing_list::FiringQuery;
pub use self::firings::Firings;
pub use self::recipients::Recipients;
pub use self::replays::Replays;
pub use self::rules::Rules;
pub use self::webhooks::{Deliveries, DeliveryQuery, Endpoints, seal_plain_urls};

pub(crate) use self::announcements::Announcements;
pub(crate) use self::effects::{ConcludedAnalysis, Effects};
pub(crate) use self::firing_list::record as firing_record;
pub(crate) use self::webhooks::{
    Courier, CourierHandle, CourierOptions, Expiry, delivery_record, disable_endpoints_made_by,
    drop_deliveries,
};

/// Rules and webhooks.
pub struct Actions {
    /// Conditions over answers, and their actions.
    pub rules: Rules,
    /// The record of fired rules.
    pub firings: Firings,
    /// What rules would have done.
    pub replays: Replays,
    /// Who rules may write to.
    pub recipients: Recipients,
    /// Webhook endpoints.
    pub endpoints: Endpoints,
    /// Webhook deliveries.
    pub deliveries: Deliveries,
}
