//! Account and console records.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Passkey, PasskeyAssertion};
use crate::{MemberRole, Provider, Timestamp};

/// A new account and its first admin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegisterRequest {
    /// The account's name.
    #[schema(example = "Acme Marketplace")]
    pub tenant_name: String,
    /// The admin's email address.
    #[schema(format = Email, example = "ann@example.com")]
    pub email: String,
    /// 8 to 256 characters, and not easy to guess.
    #[schema(format = Password, min_length = 8, max_length = 256, example = "correct horse battery staple")]
    pub password: String,
}

/// Signing in with email and password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginRequest {
    /// The user's email address.
    #[schema(format = Email, example = "ann@example.com")]
    pub email: String,
    /// The user's password.
    #[schema(format = Password)]
    pub password: String,
    /// An authenticator code or a recovery code; needed only when two-factor is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456")]
    pub code: Option<String>,
    /// The use of a passkey of the user, instead of a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<PasskeyAssertion>,
}

/// Exchanging a legacy key for a short-lived tenant token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenExchangeRequest {
    /// The public key ID.
    #[schema(example = "ak_…")]
    pub api_key: String,
    /// The old long key.
    pub secret: String,
}

/// A credential to be sent as `Authorization: Bearer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// The token.
    pub token: String,
    /// When it expires.
    pub expires_at: Timestamp,
    /// What it is for.
    pub token_type: TokenType,
    /// Whether this sign-in created the account; only for social sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub new_user: Option<bool>,
}

/// What a sign-in page needs to know before anybody has signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsoleState {
    /// Whether the first account is still to be opened.
    pub empty: bool,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenType {
    /// For a signed-in user.
    Console,
    /// For a legacy key.
    Tenant,
}

crate::text_values!(TokenType { Console = "console", Tenant = "tenant" });

/// Asking for a reset link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForgotPasswordRequest {
    /// The user's email address.
    #[schema(format = Email, example = "ann@example.com")]
    pub email: String,
}

/// Setting a new password with a reset link's token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResetPasswordRequest {
    /// The token of the link.
    pub token: String,
    /// The new password.
    #[schema(format = Password, min_length = 8, max_length = 256)]
    pub password: String,
    /// If the link is the first proof of the address: keep what was set up before. Without it, sessions, API keys, sign-in
    /// providers and two-factor end, and webhook endpoints and rules are disabled, unless the request carries the console
    /// token of a session of the same user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
}

/// Agreeing to the mails of an account's rules, with the token of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfirmRecipientRequest {
    /// The token of the link.
    pub token: String,
}

/// Changing the user's own password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangePasswordRequest {
    /// The current password.
    #[schema(format = Password)]
    pub current_password: String,
    /// The new password.
    #[schema(format = Password, min_length = 8, max_length = 256)]
    pub new_password: String,
}

/// A message for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// The text.
    pub message: String,
}

/// The authenticated caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// How the request was authenticated.
    pub auth_type: AuthType,
    /// The account's id.
    pub tenant_id: Uuid,
    /// The account's name.
    pub tenant_name: String,
    /// The signed-in user; the user fields appear for console tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub user_id: Option<Uuid>,
    /// The user's email address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = Email)]
    pub email: Option<String>,
    /// The user's role, where an owner is an `admin` too: see `member_role`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "admin")]
    pub role: Option<String>,
    /// What the user may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member_role: Option<MemberRole>,
    /// Whether the user has finished the console's onboarding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub onboarded: Option<bool>,
    /// Whether the user has proved that the email address is theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub email_verified: Option<bool>,
    /// Whether the user is an operator of the install (`AUSPEX_OPERATORS`) who has proved the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub operator: Option<bool>,
    /// When everything of the account will be deleted, once an owner has asked for that: see `POST /v1/account/deletion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deletes_at: Option<Timestamp>,
    /// The settings of the account; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub settings: Option<Settings>,
    /// The ways in which the user can sign in; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub identities: Option<Identities>,
    /// The user's two-factor sign-in; if `include` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mfa: Option<MfaStatus>,
    /// The user's passkeys, oldest first; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub passkeys: Option<Vec<Passkey>>,
    /// The user's newest 200 sessions, newest first; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sessions: Option<Vec<Session>>,
    /// Which emails the user gets; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub notifications: Option<NotificationPreferences>,
}

/// How a request was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// By an API key, or a token made from one.
    Tenant,
    /// By a signed-in user.
    Console,
}

/// A sign-in that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its id.
    pub id: Uuid,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was last used, accurate to about a minute.
    pub last_seen_at: Timestamp,
    /// The IP address that it was last used from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "203.0.113.9")]
    pub address: Option<String>,
    /// The `User-Agent` that it was last used with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agent: Option<String>,
    /// Whether it is the session of this request.
    pub current: bool,
}

/// The sessions of the signed-in user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// The newest 200, newest first.
    pub sessions: Vec<Session>,
}

/// Confirming who is signed in: one of a password, a code, or a provider with its code and verifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReauthenticateRequest {
    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Password)]
    pub password: Option<String>,
    /// An authenticator code or a recovery code; with `provider`, the code that the provider passed to the browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456")]
    pub code: Option<String>,
    /// A provider whose account is linked to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// With `provider`: the PKCE verifier of the challenge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_verifier: Option<String>,
    /// The use of a passkey of the user, by the challenge of `POST /auth/console/passkey/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<PasskeyAssertion>,
}

/// Proving an address with the link mailed at registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyRequest {
    /// The token of the link.
    pub token: String,
    /// Keep the password, sessions, API keys, sign-in providers, two-factor, webhook endpoints and rules that were set up
    /// before the address was proved. Without it they are ended or disabled, unless the request carries the console token
    /// of a session of the same user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
}

/// Asking what a link would end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FirstProofRequest {
    /// The token of a link to prove an address or to reset a password.
    pub token: String,
}

/// What ends or is disabled when a link is the first proof of an address, unless it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FirstProofPreview {
    /// Whether the link would be the first proof of the address. Where it would not, nothing ends by it and nothing is listed.
    pub first_proof: bool,
    /// Whether there is a password.
    pub password: bool,
    /// Whether two-factor is on.
    pub two_factor: bool,
    /// Open sessions.
    pub sessions: u64,
    /// The names of API keys.
    pub keys: Vec<String>,
    /// The hosts of enabled webhook endpoints, as `https://example.com`.
    pub endpoints: Vec<String>,
    /// The names of enabled rules.
    pub rules: Vec<String>,
    /// Linked sign-in providers.
    pub identities: Vec<Identity>,
    /// The names of passkeys.
    pub passkeys: Vec<String>,
    /// The addresses of open invitations.
    pub invitations: Vec<String>,
}

/// Asking for the deletion of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountDeletionRequest {
    /// The name of the account, to show that this one is meant.
    #[schema(example = "Acme Marketplace")]
    pub tenant_name: String,
}

/// A deletion that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountDeletion {
    /// When everything in the account is deleted. Until then it can be taken back.
    pub deletes_at: Timestamp,
}

/// The settings of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// Whether a new signal is asked about existing objects at once.
    pub auto_backfill_signals: bool,
    /// How long raw events are kept.
    pub event_retention: EventRetention,
    /// How many days, with `days`; null otherwise.
    #[schema(required = true)]
    pub event_retention_days: Option<i64>,
    /// The share of analyzed objects that is drawn at random for a review, in percent; 0 draws none.
    #[serde(default)]
    #[schema(required = true, minimum = 0, maximum = 10)]
    pub audit_rate_pct: f64,
    /// The queue of those reviews.
    #[serde(default)]
    #[schema(required = true, example = "audit")]
    pub audit_queue: String,
}

/// A change of settings; fields left out keep their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettingsUpdate {
    /// Whether a new signal is asked about existing objects at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_backfill_signals: Option<bool>,
    /// How long raw events are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_retention: Option<EventRetention>,
    /// Required with `days`, 1 to 3650; refused otherwise. Null removes it; left out, it is unchanged.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 3650)]
    pub event_retention_days: Option<Option<i64>>,
    /// The share of analyzed objects that is drawn at random for a review, in percent, each at most once in 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 10)]
    pub audit_rate_pct: Option<f64>,
    /// The queue of those reviews; 1 to 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub audit_queue: Option<String>,
}

/// Distinguishes null from a field that was left out.
#[expect(clippy::option_option, reason = "left out, null and a value are three cases")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// How long raw events are kept. Answers are kept in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventRetention {
    /// Until their object is deleted.
    Forever,
    /// For a number of days after they were received.
    Days,
    /// Until an analysis has read them.
    AfterAnalysis,
}

crate::text_values!(EventRetention { Forever = "forever", Days = "days", AfterAnalysis = "after_analysis" });

/// The state of two-factor sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MfaStatus {
    /// Whether it is on.
    pub enabled: bool,
    /// Recovery codes not used yet; 0 while off.
    pub recovery_codes_remaining: i64,
    /// True where the second factor is a passkey, without an authenticator app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<bool>,
}

/// What an authenticator app needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MfaSetup {
    /// The secret in base32.
    pub secret: String,
    /// The same as a URI for a QR code.
    pub otpauth_uri: String,
}

/// Turning two-factor on: with a code, or with a passkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MfaEnableRequest {
    /// A current code from the authenticator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456")]
    pub code: Option<String>,
    /// What the browser answered to `POST /auth/console/passkey/start`, in place of `code`: a passkey of the user becomes the second
    /// factor of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<PasskeyAssertion>,
}

/// Codes for when the authenticator is lost. Shown once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MfaRecoveryCodes {
    /// Eight codes, each good for one sign-in.
    #[schema(min_items = 8, max_items = 8)]
    pub recovery_codes: Vec<String>,
}

/// Turning two-factor off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MfaDisableRequest {
    /// The user's password; required unless the account has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Password)]
    pub password: Option<String>,
    /// A current code or an unused recovery code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456")]
    pub code: Option<String>,
    /// What the browser answered to `POST /auth/console/passkey/start`, in place of `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<PasskeyAssertion>,
}

/// The providers that users can sign in with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OAuthProviders {
    /// The configured providers.
    pub providers: Vec<Provider>,
    /// Whether anyone may open an account.
    pub allow_registration: bool,
    /// What people call the provider `oidc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "Acme SSO")]
    pub oidc_name: Option<String>,
}

/// Starting a sign-in at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OAuthAuthorizeRequest {
    /// The caller's own value, which is returned with the code.
    #[schema(example = "3f1c9a7e")]
    pub state: String,
    /// The base64url SHA-256 of the PKCE verifier (S256).
    #[schema(example = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")]
    pub code_challenge: String,
}

/// Where to send the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthorizationURL {
    /// The URL of the provider's sign-in page.
    #[schema(format = "uri")]
    pub url: String,
}

/// Finishing a sign-in at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OAuthCodeRequest {
    /// The code that the provider passed to the browser.
    pub code: String,
    /// The PKCE verifier of the challenge.
    #[schema(example = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")]
    pub code_verifier: String,
    /// The name of the account, used only if the sign-in creates one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_name: Option<String>,
    /// The token of an invitation, which the sign-in accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<String>,
}

/// A linked account at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Identity {
    /// The provider.
    pub provider: Provider,
    /// The email address at the provider.
    #[schema(format = Email)]
    pub email: String,
    /// When it was linked.
    pub created_at: Timestamp,
}

/// The ways a user can sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Identities {
    /// Whether the user has a password.
    pub has_password: bool,
    /// The linked accounts.
    pub identities: Vec<Identity>,
    /// The configured providers.
    pub providers: Vec<Provider>,
}

/// Whether a user gets emails about an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotificationPreference {
    /// The event.
    #[schema(example = "low_balance")]
    pub event: String,
    /// The event's display name.
    pub label: String,
    /// What the email is about.
    pub description: String,
    /// Whether it is sent.
    pub enabled: bool,
    /// Always sent; cannot be turned off.
    pub critical: bool,
}

/// The emails that a user can get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotificationPreferences {
    /// One for each event.
    pub preferences: Vec<NotificationPreference>,
}

/// Which emails to send, by email event; events left out keep their setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(example = json!({"low_balance": false}))]
pub struct NotificationPreferencesUpdate(pub BTreeMap<String, bool>);
