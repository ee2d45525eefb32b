//! What follows from answers: rules, their firings, and webhooks.

pub mod firings;
pub mod recipients;
pub mod replays;
pub mod rules;
pub mod webhooks;
