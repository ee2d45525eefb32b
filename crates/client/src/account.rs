//! The account: sign-in, who is asking, API keys, settings.

use http::Method;
use model::api::{
    APIKey, APIKeyCreate, APIKeyList, APIKeySecret, APIKeyUpdate, LoginRequest, Me, RegisterRequest,
    Settings, SettingsUpdate, Token,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

impl Client {
    /// Opens an account and signs its first person in; needs no credential.
    pub async fn register(&self, request: &RegisterRequest) -> Result<Token, Error> {
        self.call(Call::new(Method::POST, &["auth", "console", "register"])?.json(request)?).await
    }

    /// Signs a person in; needs no credential.
    pub async fn log_in(&self, request: &LoginRequest) -> Result<Token, Error> {
        self.call(Call::new(Method::POST, &["auth", "console", "login"])?.json(request)?).await
    }

    /// Who is asking.
    pub async fn me(&self) -> Result<Me, Error> {
        self.call(Call::new(Method::GET, &["v1", "me"])?).await
    }

    /// The API keys that are not revoked, oldest first.
    pub async fn keys(&self) -> Result<Vec<APIKey>, Error> {
        let list: APIKeyList = self.call(Call::new(Method::GET, &["v1", "api_keys"])?).await?;
        Ok(list.api_keys)
    }

    /// Makes a key. Its secret is in this answer and in no other.
    pub async fn create_key(&self, name: Option<&str>) -> Result<APIKeySecret, Error> {
        let create = APIKeyCreate { name: name.map(str::to_owned) };
        self.call(Call::new(Method::POST, &["v1", "api_keys"])?.json(&create)?).await
    }

    /// Renames a key, or stops it for a while.
    pub async fn update_key(&self, id: Uuid, change: &APIKeyUpdate) -> Result<APIKey, Error> {
        self.call(Call::new(Method::PATCH, &["v1", "api_keys", &id.to_string()])?.json(change)?).await
    }

    /// Gives a key a new secret; the old one stops at once.
    pub async fn rotate_key(&self, id: Uuid) -> Result<APIKeySecret, Error> {
        self.call(Call::new(Method::POST, &["v1", "api_keys", &id.to_string(), "rotate"])?).await
    }

    /// Ends a key for good.
    pub async fn revoke_key(&self, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "api_keys", &id.to_string()])?).await
    }

    /// The account's settings.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.call(Call::new(Method::GET, &["v1", "settings"])?).await
    }

    /// Changes settings; what is left out stays.
    pub async fn update_settings(&self, change: &SettingsUpdate) -> Result<Settings, Error> {
        self.call(Call::new(Method::PATCH, &["v1", "settings"])?.json(change)?).await
    }
}
