//! Records that every part of the interface shares.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// What was refused and why.
    pub error: ErrorBody,
}

/// What was refused and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Stable, for programs.
    #[schema(example = "bad_request")]
    pub code: String,
    /// For people; its text may change.
    pub message: String,
}

/// How the process is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    #[schema(example = "ok")]
    pub status: String,
}
