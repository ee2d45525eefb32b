//! State that processes share to work side by side: heartbeats, request budgets and throttles.

pub mod nodes;
pub mod rate;
pub mod throttle;
