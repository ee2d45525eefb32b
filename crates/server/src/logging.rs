//! Logging to standard error, as text or JSON; standard output is for the results of commands.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::{Config, LogFormat};

/// The library that verifies passkeys logs as errors what clients send wrong, and the one for the Model Context Protocol logs every
/// request. A setting for the same target counts instead.
const DEFAULTS: &str = "webauthn_rs_core=off,rmcp=warn";

/// Sets up logging for the whole process, as configured.
pub(crate) fn start(config: &Config) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("{DEFAULTS},{}", config.log)))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Text => lines.finish().try_init(),
        // The fields of the current span are added to each line, so that it has the request id.
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).finish().try_init()
        }
    }
}
