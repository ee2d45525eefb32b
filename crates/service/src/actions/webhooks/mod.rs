//! Webhooks: endpoints and deliveries as a tenant sees them, and the courier that sends deliveries.

mod attempt;
mod board;
mod courier;
mod deliveries;
mod endpoints;
mod expiry;
mod handle;
mod health;
mod notices;
mod resting;
mod retries;
mod settlement;
mod suspects;

pub use self::board::{FAILING_SENDERS, HEALTHY_SENDERS, MAX_SENDERS};
pub use self::deliveries::{Deliveries, DeliveryQuery};
pub use self::endpoints::{Endpoints, seal_plain_urls};

pub(crate) use self::attempt::CourierOptions;
pub(crate) use self::courier::Courier;
pub(crate) use self::deliveries::{drop_deliveries, no_such_delivery, record as delivery_record};
pub(crate) use self::endpoints::{disable_endpoints_made_by, open_url};
pub(crate) use self::expiry::Expiry;
pub(crate) use self::handle::{CourierHandle, HandedDelivery};
