//! What follows from answers: rules, their firings, and webhooks.

pub mod firings;
pub mod recipients;
pub mod rules;
pub mod webhooks;
