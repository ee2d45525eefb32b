//! What people say is true, and what follows from it for the answers.

pub mod calibrations;
pub mod labels;
