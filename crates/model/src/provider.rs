//! The identity providers that members can sign in with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An identity provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Google, or another OpenID Connect issuer configured instead.
    Google,
    /// GitHub, or a compatible server.
    Github,
    /// The operator's own OpenID Connect issuer.
    Oidc,
}

/// A text that names no identity provider.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownProvider;

// In the order in which they are offered.
crate::text_values!(Provider { Google = "google", Github = "github", Oidc = "oidc" });

impl Provider {
    /// The display name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Google => "Google",
            Self::Github => "GitHub",
            Self::Oidc => "Single sign-on",
        }
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, UnknownProvider> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text).ok_or(UnknownProvider)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for UnknownProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not an identity provider: google, github or oidc")
    }
}

impl std::error::Error for UnknownProvider {}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    #[test]
    fn names_parse_and_deserialize() {
        for provider in Provider::ALL {
            assert_eq!(provider.to_string().parse(), Ok(provider));
            let name: StrDeserializer<'_, Error> = provider.as_str().into_deserializer();
            assert_eq!(Provider::deserialize(name), Ok(provider));
        }
        assert_eq!("Google".parse::<Provider>(), Err(UnknownProvider));
    }
}
