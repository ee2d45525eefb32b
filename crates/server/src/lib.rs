//! The binary `auspex`: configuration, command line, HTTP and the process around the use cases.

pub mod cli;
pub mod config;
mod http;
mod logging;
mod serve;

pub use serve::{Server, StartError};
