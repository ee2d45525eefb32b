//! API key records.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{KeyKind, Scope, Timestamp};

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKey {
    /// The id that the key routes take.
    pub id: Uuid,
    /// The public key ID, sent as `api_key` or as the token's `kid`.
    #[schema(example = "ak_3f9a…")]
    pub key: String,
    /// A name of your choice.
    pub name: String,
    /// Whether it authenticates.
    pub status: APIKeyStatus,
    /// How it authenticates.
    #[serde(default)]
    #[schema(required = true)]
    pub kind: KeyKind,
    /// What it may be used for.
    #[serde(default)]
    #[schema(required = true)]
    pub scopes: Vec<Scope>,
    /// Whether it can sign; bearer keys cannot, and legacy keys not until they are rotated.
    pub has_secret: bool,
    /// Whether it was created before request signing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy: Option<bool>,
    /// The first characters of the old long key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy_preview: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last authenticated, accurate to about a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_used_at: Option<Timestamp>,
    /// When it last authenticated as a legacy key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy_used_at: Option<Timestamp>,
}

/// Whether a key authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum APIKeyStatus {
    /// It authenticates.
    Active,
    /// It does not authenticate until it is activated again.
    Inactive,
    /// It will never authenticate again.
    Revoked,
}

crate::text_values!(APIKeyStatus { Active = "active", Inactive = "inactive", Revoked = "revoked" });

/// A new key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeyCreate {
    /// A name of your choice; 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, example = "production")]
    pub name: Option<String>,
    /// How it authenticates; `signed` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KeyKind>,
    /// What it may be used for. A signed key takes `ingest`, `read`, `write` and `label`, and has all of them if this is left
    /// out. A bearer key needs `moderate` or `mcp`; with `mcp` it also takes `write` and `label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
}

/// A change of a key; fields left out keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeyUpdate {
    /// A name of your choice; 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// Whether it authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<APIKeyActivity>,
}

/// The states that a key can be set to; revoking has its own route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum APIKeyActivity {
    /// It authenticates.
    Active,
    /// It does not authenticate.
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

/// A key with its signing secret, which is shown only once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIKeySecret {
    /// The key.
    pub api_key: APIKey,
    /// The public key ID.
    #[schema(example = "ak_3f9a…")]
    pub key: String,
    /// The signing secret, which is never sent on requests; of a bearer key (`bk_…`) what requests carry. It is never shown
    /// again.
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

/// Why a request that named a key was refused. The response to the request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyRefusalCause {
    /// The token is too old or from the future: the caller's clock is off, or the token was sent late.
    Clock,
    /// The token lives longer than five minutes, or ends before it begins.
    Lifetime,
    /// `htm` names another method than the request's.
    Method,
    /// `htu` names another path than the request's.
    Path,
    /// The token is not signed with the key's present secret.
    Signature,
    /// `iat` or `exp` is missing, or a claim has the wrong type.
    Claims,
    /// `api_key` in the query and `kid` in the token name different keys.
    KeyMismatch,
    /// A token was in the query, where it would be logged.
    TokenInQuery,
    /// The key cannot sign: it is a bearer key, or a legacy key that was not rotated.
    NotForSigning,
    /// The key is inactive.
    Inactive,
    /// The key is revoked.
    Revoked,
    /// The key's scopes or its kind do not allow the operation. This one the response does say.
    Scope,
}

crate::text_values!(KeyRefusalCause {
    Clock = "clock",
    Lifetime = "lifetime",
    Method = "method",
    Path = "path",
    Signature = "signature",
    Claims = "claims",
    KeyMismatch = "key_mismatch",
    TokenInQuery = "token_in_query",
    NotForSigning = "not_for_signing",
    Inactive = "inactive",
    Revoked = "revoked",
    Scope = "scope",
});

/// Refused requests of one key, for one cause, within one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyRefusal {
    /// When the newest of these requests came.
    pub at: Timestamp,
    /// The key's `id`.
    pub key_id: Uuid,
    /// Its public key ID.
    #[schema(example = "ak_3f9a…")]
    pub key: String,
    /// Its name.
    pub name: String,
    /// Why they were refused.
    pub cause: KeyRefusalCause,
    /// What exactly was wrong with the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
    /// How many requests there were.
    #[schema(minimum = 1)]
    pub count: i64,
    /// `X-Request-Id` of the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
    /// The IP address that the newest came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub address: Option<String>,
}

/// The newest refused requests of an account's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyRefusalList {
    /// The refused requests, newest first.
    pub refusals: Vec<KeyRefusal>,
}
