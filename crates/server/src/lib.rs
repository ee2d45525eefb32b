//! The binary `auspex`: configuration, command line, HTTP API, and the process around them.

mod assembly;
pub mod cli;
pub mod config;
mod disk;
mod http;
mod logging;
mod meters;
mod parse_errors;
mod serve;
mod traces;

pub use assembly::{StartError, assemble};
pub use http::{OperationAccess, access_table, openapi_document, operations};
pub use serve::Server;
