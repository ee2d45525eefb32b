//! Passkeys: what the console hands to the browser's authenticator, and what comes back. Names follow Web Authentication.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Timestamp;

/// A passkey of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Passkey {
    /// Its id.
    pub id: Uuid,
    /// What the user calls it.
    pub name: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_used_at: Option<Timestamp>,
}

/// The passkeys of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyList {
    /// The passkeys, oldest first.
    pub passkeys: Vec<Passkey>,
}

/// A new name of a passkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyUpdate {
    /// What the user calls it, 1 to 64 characters.
    #[schema(min_length = 1, max_length = 64, example = "Phone")]
    pub name: String,
}

/// How a passkey is to be created: for `PublicKeyCredential.parseCreationOptionsFromJSON`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyCreationOptions {
    /// What the authenticator signs, in base64url. It works once, within five minutes.
    pub challenge: String,
    /// The site.
    pub rp: PasskeySite,
    /// The user.
    pub user: PasskeyUser,
    /// The algorithms that are understood, the preferred first.
    pub pub_key_cred_params: Vec<PasskeyAlgorithm>,
    /// How long the user has, in milliseconds.
    pub timeout: u32,
    /// Passkeys that the user has already.
    pub exclude_credentials: Vec<PasskeyDescriptor>,
    /// What the authenticator must be able to do.
    pub authenticator_selection: PasskeySelection,
    /// `none`: who made the authenticator does not matter.
    pub attestation: String,
}

/// The site that a passkey is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeySite {
    /// The domain.
    #[schema(example = "auspex.example.com")]
    pub id: String,
    /// Its name.
    pub name: String,
}

/// The user that a passkey is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyUser {
    /// What the authenticator calls the user, in base64url: random, and the same for all passkeys of the user.
    pub id: String,
    /// The user's email address.
    pub name: String,
    /// The user's email address.
    pub display_name: String,
}

/// An algorithm of signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyAlgorithm {
    /// `public-key`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its number in COSE.
    #[schema(example = -7)]
    pub alg: i64,
}

/// A passkey, as the authenticator calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyDescriptor {
    /// `public-key`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id in base64url.
    pub id: String,
}

/// What an authenticator must be able to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeySelection {
    /// `required`: the authenticator remembers whom the passkey is for.
    pub resident_key: String,
    /// The same, for older browsers.
    pub require_resident_key: bool,
    /// `required`: the authenticator verifies its user by a PIN, a fingerprint or the like.
    pub user_verification: String,
}

/// How a passkey is to be used: for `PublicKeyCredential.parseRequestOptionsFromJSON`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyRequestOptions {
    /// What the authenticator signs, in base64url. It works once, within five minutes.
    pub challenge: String,
    /// The domain of the site.
    pub rp_id: String,
    /// How long the user has, in milliseconds.
    pub timeout: u32,
    /// `required`.
    pub user_verification: String,
}

/// A new passkey, as the browser's `toJSON()` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyRegistration {
    /// What the user calls it; by default `Passkey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_length = 1, max_length = 64, example = "Phone")]
    pub name: Option<String>,
    /// What the authenticator answered.
    pub response: PasskeyAttestation,
}

/// An authenticator's answer about a new passkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyAttestation {
    /// What the browser did, in base64url.
    #[serde(rename = "clientDataJSON")]
    pub client_data: String,
    /// The new key, in base64url.
    pub attestation_object: String,
}

/// The use of a passkey, as the browser's `toJSON()` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyAssertion {
    /// What the authenticator calls the passkey, in base64url.
    pub id: String,
    /// What the authenticator answered.
    pub response: PasskeySignature,
}

/// An authenticator's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeySignature {
    /// What the browser did, in base64url.
    #[serde(rename = "clientDataJSON")]
    pub client_data: String,
    /// What the authenticator did, in base64url.
    pub authenticator_data: String,
    /// Its signature of both, in base64url.
    pub signature: String,
    /// Whom the passkey is for, in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub user_handle: Option<String>,
}
