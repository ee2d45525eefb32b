//! Why the configuration is invalid.

/// Why the configuration is invalid. The message names the setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub(super) fn new(message: String) -> Self {
        Self(message)
    }
}
