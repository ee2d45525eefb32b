//! State that processes share to work side by side: heartbeats, request budgets and throttles; and who makes rows of any room.

pub mod created_by;
pub mod nodes;
pub mod rate;
pub mod throttle;
