//! What follows from answers: rules, their firings, and webhooks.

pub mod firings;
pub mod rules;
pub mod webhooks;
