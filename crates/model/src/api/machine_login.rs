//! Signing in on a machine through the browser.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// A member agrees that a machine gets a key of the account, with all scopes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineLoginConsent {
    /// What the key is called, such as the name of the machine; 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100, example = "auspex on workstation")]
    pub name: String,
    /// The SHA-256 of the machine's verifier, in base64url without padding.
    #[schema(
        min_length = 43,
        max_length = 43,
        pattern = "^[A-Za-z0-9_-]{43}$",
        example = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )]
    pub challenge: String,
}

/// What the machine gets its key for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineLoginCode {
    /// The code. It works once, and only together with the verifier.
    pub code: String,
    /// Until when it works.
    pub expires_at: Timestamp,
}

/// A machine asks for its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineLoginRedeem {
    /// The code that the browser brought.
    #[schema(min_length = 1, max_length = 2048)]
    pub code: String,
    /// What the challenge is the SHA-256 of; 43 to 128 characters.
    #[schema(min_length = 43, max_length = 128, example = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")]
    pub verifier: String,
}
