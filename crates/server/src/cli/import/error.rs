//! Why an import stopped.

use client::Error;

use super::lines::BadLine;

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImportError {
    #[error("{0}")]
    BadLine(BadLine),
    #[error("lines {first} to {last}: {cause}")]
    Service { first: u64, last: u64, cause: Error },
    #[error("the journal cannot be written: {0}")]
    Journal(std::io::Error),
}
