//! The binary `auspex`: configuration, command line, HTTP and the process around the use cases.

mod assembly;
pub mod cli;
pub mod config;
mod http;
mod logging;
mod meters;
mod serve;
mod traces;
mod wording;

pub use assembly::{StartError, assemble};
pub use http::openapi_document;
pub use serve::Server;
