//! Webhooks: endpoints, deliveries as their owner sees them, and the queue that they are sent from.

pub mod deliveries;
pub mod endpoints;
pub mod queue;
