//! Records that every part of the API shares.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// What is wrong.
    pub error: ErrorBody,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A stable code, for programs.
    #[schema(example = "bad_request")]
    pub code: String,
    /// A message for people; its text may change.
    pub message: String,
}

/// The health of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(example = "ok")]
    pub status: String,
}
