//! Actions that follow from answers: rules and their firings, reviews, and webhooks.

mod action_tests;
mod announcements;
mod binding;
mod effects;
mod firing_list;
mod firings;
mod recipients;
mod replays;
mod reviews;
mod rules;
mod webhooks;

pub use self::action_tests::ActionTests;
pub use self::firing_list::FiringQuery;
pub use self::firings::Firings;
pub use self::recipients::Recipients;
pub use self::replays::Replays;
pub use self::reviews::{ReviewQuery, Reviews};
pub use self::rules::Rules;
pub use self::webhooks::{
    Deliveries, DeliveryQuery, Endpoints, FAILING_SENDERS, HEALTHY_SENDERS, MAX_SENDERS, seal_plain_urls,
};

pub(crate) use self::announcements::Announcements;
pub(crate) use self::effects::{ConcludedAnalysis, Effects};
pub(crate) use self::firing_list::record as firing_record;
pub(crate) use self::reviews::{
    Audits, REOPEN_WITHIN, ReviewEvents, ReviewOpener, checked_queue, review_record,
};
pub(crate) use self::webhooks::{
    Courier, CourierHandle, CourierOptions, Expiry, delivery_record, disable_endpoints_made_by,
    drop_deliveries, open_url,
};

/// Rules, reviews and webhooks.
pub struct Actions {
    /// Conditions over answers, and their actions.
    pub rules: Rules,
    /// The record of fired rules.
    pub firings: Firings,
    /// Tests of their actions.
    pub tests: ActionTests,
    /// What rules would have done.
    pub replays: Replays,
    /// Work for people.
    pub reviews: Reviews,
    /// Draws objects for reviews.
    pub(crate) audits: Audits,
    /// Who rules may write to.
    pub recipients: Recipients,
    /// Webhook endpoints.
    pub endpoints: Endpoints,
    /// Webhook deliveries.
    pub deliveries: Deliveries,
}
