//! What follows from answers: rules, their firings, reviews, and webhooks.

pub mod firings;
pub mod recipients;
pub mod replays;
pub mod reviews;
pub mod rules;
pub mod webhooks;
