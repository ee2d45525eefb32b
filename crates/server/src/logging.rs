//! Log lines: for people or for machines, on standard error, so that standard output stays a command's own.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::{Config, LogFormat};

/// Starts writing log lines as configured, for the whole process.
pub(crate) fn start(config: &Config) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&config.log))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Text => lines.finish().try_init(),
        // The spans around a line become its fields, so that the request id is in each.
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).finish().try_init()
        }
    }
}
