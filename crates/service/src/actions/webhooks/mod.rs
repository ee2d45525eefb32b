//! Webhooks: endpoints and deliveries as their owner sees them, and the courier that sends deliveries.

pub(crate) mod courier;
pub(crate) mod endpoints;
