//! Identifiers: a UUID v7 each, one type a noun, so that no id can stand where another belongs.

use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
        pub struct $name(pub Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(formatter)
            }
        }
    )*};
}

ids! {
    /// An account: what owns objects, keys, users and a balance.
    TenantId;
    /// A person who signs in to the console.
    UserId;
    /// An API key, by the id that the key endpoints use (not its public key ID).
    KeyId;
}
