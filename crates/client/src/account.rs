//! The account: sign-in, the authenticated caller, API keys, settings.

use http::Method;
use model::api::{
    APIKey, APIKeyCreate, APIKeyList, APIKeySecret, APIKeyUpdate, FirstProofPreview, FirstProofRequest,
    LoginRequest, MachineLoginRedeem, Me, ReauthenticateRequest, RegisterRequest, Session, SessionList,
    Settings, SettingsUpdate, Token, VerifyRequest,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

impl Client {
    /// Opens an account and signs in its first user; needs no credential.
    pub async fn register(&self, request: &RegisterRequest) -> Result<Token, Error> {
        self.call(Call::new(Method::POST, &["auth", "console", "register"])?.json(request)?).await
    }

    /// Signs in a user; needs no credential.
    pub async fn log_in(&self, request: &LoginRequest) -> Result<Token, Error> {
        self.call(Call::new(Method::POST, &["auth", "console", "login"])?.json(request)?).await
    }

    /// Gets the key of a machine that a member has agreed to in the browser; needs no credential.
    pub async fn redeem_machine_login(&self, request: &MachineLoginRedeem) -> Result<APIKeySecret, Error> {
        self.call(Call::new(Method::POST, &["auth", "console", "machine_login"])?.json(request)?).await
    }

    /// Signs out: the token of this client stops working.
    pub async fn log_out(&self) -> Result<(), Error> {
        self.done(Call::new(Method::POST, &["auth", "console", "logout"])?).await
    }

    /// Confirms who is signed in, for changes that need recent proof.
    pub async fn reauthenticate(&self, request: &ReauthenticateRequest) -> Result<(), Error> {
        self.done(Call::new(Method::POST, &["auth", "console", "reauthenticate"])?.json(request)?).await
    }

    /// Proves an email address with the link mailed at registration. With a console token of the same user, or with
    /// `keep`, everything that was set up before stays.
    pub async fn verify_email(&self, request: &VerifyRequest) -> Result<(), Error> {
        self.done(Call::new(Method::POST, &["auth", "console", "verify"])?.json(request)?).await
    }

    /// What a link to prove an address or to reset a password would end; does not use the link up.
    pub async fn preview_first_proof(&self, token: &str) -> Result<FirstProofPreview, Error> {
        let request = FirstProofRequest { token: token.to_owned() };
        self.call(Call::new(Method::POST, &["auth", "console", "first_proof"])?.json(&request)?).await
    }

    /// Lists the sessions of the signed-in user, newest first.
    pub async fn sessions(&self) -> Result<Vec<Session>, Error> {
        let list: SessionList = self.call(Call::new(Method::GET, &["v1", "me", "sessions"])?).await?;
        Ok(list.sessions)
    }

    /// Ends a session of the signed-in user.
    pub async fn end_session(&self, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "me", "sessions", &id.to_string()])?).await
    }

    /// Ends all sessions of the signed-in user but the one of this client.
    pub async fn end_other_sessions(&self) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "me", "sessions"])?).await
    }

    /// Returns the authenticated caller.
    pub async fn me(&self) -> Result<Me, Error> {
        self.call(Call::new(Method::GET, &["v1", "me"])?).await
    }

    /// Lists the API keys that are not revoked, oldest first.
    pub async fn keys(&self) -> Result<Vec<APIKey>, Error> {
        let list: APIKeyList = self.call(Call::new(Method::GET, &["v1", "api_keys"])?).await?;
        Ok(list.api_keys)
    }

    /// Creates a key. Its secret is only in this response.
    pub async fn create_key(&self, name: Option<&str>) -> Result<APIKeySecret, Error> {
        let create = APIKeyCreate { name: name.map(str::to_owned), ..APIKeyCreate::default() };
        self.call(Call::new(Method::POST, &["v1", "api_keys"])?.json(&create)?).await
    }

    /// Renames, deactivates or activates a key.
    pub async fn update_key(&self, id: Uuid, change: &APIKeyUpdate) -> Result<APIKey, Error> {
        self.call(Call::new(Method::PATCH, &["v1", "api_keys", &id.to_string()])?.json(change)?).await
    }

    /// Gives a key a new secret; the old one stops working at once.
    pub async fn rotate_key(&self, id: Uuid) -> Result<APIKeySecret, Error> {
        self.call(Call::new(Method::POST, &["v1", "api_keys", &id.to_string(), "rotate"])?).await
    }

    /// Revokes a key for good.
    pub async fn revoke_key(&self, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "api_keys", &id.to_string()])?).await
    }

    /// Returns the account's settings.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.call(Call::new(Method::GET, &["v1", "settings"])?).await
    }

    /// Changes settings; fields left out keep their values.
    pub async fn update_settings(&self, change: &SettingsUpdate) -> Result<Settings, Error> {
        self.call(Call::new(Method::PATCH, &["v1", "settings"])?.json(change)?).await
    }
}
