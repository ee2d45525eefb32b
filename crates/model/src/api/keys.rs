//! API key records.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Timestamp;

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKey {
    /// Its id, for the key endpoints.
    pub id: Uuid,
    /// The public key ID, sent as `api_key` or as the token's `kid`.
    #[schema(example = "ak_3f9a…")]
    pub key: String,
    /// What people call it.
    pub name: String,
    /// Whether it authenticates.
    pub status: APIKeyStatus,
    /// Whether it can sign; legacy keys cannot until they are rotated.
    pub has_secret: bool,
    /// Whether it was made before request signing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy: Option<bool>,
    /// The first characters of the old long key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy_preview: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last authenticated, to about a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_used_at: Option<Timestamp>,
    /// When it last authenticated the old way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy_used_at: Option<Timestamp>,
}

/// Whether a key authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum APIKeyStatus {
    /// It does.
    Active,
    /// It does not, until it is made active again.
    Inactive,
    /// It never will again.
    Revoked,
}

crate::text_values!(APIKeyStatus { Active = "active", Inactive = "inactive", Revoked = "revoked" });

/// A new key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeyCreate {
    /// What people call it; 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, example = "production")]
    pub name: Option<String>,
}

/// A change of a key; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeyUpdate {
    /// What people call it; 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// Whether it authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<APIKeyActivity>,
}

/// The states that a key can be put in; revoking has its own endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum APIKeyActivity {
    /// It authenticates.
    Active,
    /// It does not.
    Inactive,
}

impl From<APIKeyActivity> for APIKeyStatus {
    fn from(activity: APIKeyActivity) -> Self {
        match activity {
            APIKeyActivity::Active => Self::Active,
            APIKeyActivity::Inactive => Self::Inactive,
        }
    }
}

/// A key with its signing secret, which is shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeySecret {
    /// The key.
    pub api_key: APIKey,
    /// The public key ID.
    #[schema(example = "ak_3f9a…")]
    pub key: String,
    /// The signing secret. It is never shown again and never sent on requests.
    #[schema(example = "sk_…")]
    pub secret: String,
    /// What to do with it.
    pub note: String,
}

/// The keys of an account that are not revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeyList {
    /// The keys, oldest first.
    pub api_keys: Vec<APIKey>,
}
