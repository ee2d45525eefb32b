//! Who made a key, an endpoint or a rule.

use model::{KeyId, UserId};

/// Who made a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedBy {
    /// How they acted.
    pub maker: Maker,
    /// The person behind it, also behind a key; none behind the operator's keys.
    pub user: Option<UserId>,
    /// The key that was used.
    pub key: Option<KeyId>,
}

/// How the maker of a row acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// As a person in the console.
    User,
    /// With an API key.
    Key,
    /// As the operator.
    Operator,
}

impl Maker {
    /// The text in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Key => "key",
            Self::Operator => "operator",
        }
    }
}

/// The rows of which a person is the maker: their own and those of their keys; those without a known maker belong to the
/// first person of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeBy {
    /// The person.
    pub user: UserId,
    /// Whether the person is the first of the account.
    pub is_first: bool,
}

impl CreatedBy {
    /// A row that the operator makes.
    pub const OPERATOR: Self = Self { maker: Maker::Operator, user: None, key: None };
}
