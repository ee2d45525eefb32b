//! What follows from answers: rules and their firings, and webhooks.

pub(crate) mod consequences;
pub(crate) mod firings;
pub(crate) mod rules;
pub(crate) mod webhooks;
