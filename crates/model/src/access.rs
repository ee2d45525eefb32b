//! Who may do what: the roles of members, and the scopes and kinds of API keys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a member may do. Each role may do everything that the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    /// Reads all but money, members and the audit log; checks conditions and replays rules.
    Viewer,
    /// Also labels, reviews, tries wordings and uses the playground.
    Analyst,
    /// Also changes everything, sees money and manages members, except for owners.
    Admin,
    /// Everything: also pays, and manages owners.
    Owner,
}

crate::text_values!(MemberRole { Viewer = "viewer", Analyst = "analyst", Admin = "admin", Owner = "owner" });

impl MemberRole {
    /// The role as the specification's records have it, which know no owner.
    pub const fn specified(self) -> &'static str {
        match self {
            Self::Owner | Self::Admin => Self::Admin.as_str(),
            Self::Analyst | Self::Viewer => self.as_str(),
        }
    }
}

/// A part of the API that a key may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Send events.
    Ingest,
    /// Read everything that keys can read.
    Read,
    /// Change everything else that keys can change.
    Write,
    /// Label answers and work on reviews.
    Label,
    /// Score texts by the routes that other moderation services have; for bearer keys.
    Moderate,
    /// Use the Model Context Protocol; for bearer keys.
    Mcp,
}

crate::text_values!(Scope {
    Ingest = "ingest",
    Read = "read",
    Write = "write",
    Label = "label",
    Moderate = "moderate",
    Mcp = "mcp",
});

/// How a key authenticates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// Its secret signs requests and is never sent.
    #[default]
    Signed,
    /// Its secret is sent with each request, for clients that cannot sign. It works on a few routes only.
    Bearer,
}

crate::text_values!(KeyKind { Signed = "signed", Bearer = "bearer" });

/// A set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeSet(u8);

/// Why a key cannot have some scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidScopes(&'static str);

impl ScopeSet {
    /// What a signed key has unless it is given less.
    pub const SIGNED: Self = Self::of(&[Scope::Ingest, Scope::Read, Scope::Write, Scope::Label]);

    /// A set of these scopes.
    pub const fn of(scopes: &[Scope]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < scopes.len() {
            bits |= 1 << scopes[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// Whether it has a scope.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// Whether every scope of `other` is one of these.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The scopes, in the order of their definition.
    pub fn scopes(self) -> Vec<Scope> {
        Scope::ALL.into_iter().filter(|scope| self.has(*scope)).collect()
    }

    /// The scopes as they are stored.
    pub fn to_text(self) -> String {
        self.scopes().into_iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Reads scopes as they are stored. Unknown ones, of a newer release, count for nothing.
    pub fn from_text(text: &str) -> Self {
        let named = |scope: &Scope| text.split(' ').any(|name| name == scope.as_str());
        Self::of(&Scope::ALL.into_iter().filter(named).collect::<Vec<_>>())
    }

    /// The scopes of a new key; `None` if they were left out. A signed key then has all that signed keys can have.
    pub fn for_key(kind: KeyKind, given: Option<&[Scope]>) -> Result<Self, InvalidScopes> {
        let given = given.map(Self::of);
        match kind {
            KeyKind::Signed => {
                let scopes = given.unwrap_or(Self::SIGNED);
                if scopes == Self::of(&[]) {
                    return Err(InvalidScopes("a key needs at least one"));
                }
                if !Self::SIGNED.includes(scopes) {
                    return Err(InvalidScopes("moderate and mcp are for keys whose kind is bearer"));
                }
                Ok(scopes)
            }
            KeyKind::Bearer => {
                let scopes = given.unwrap_or(Self::of(&[]));
                let allowed = if scopes.has(Scope::Mcp) {
                    Self::of(&[Scope::Moderate, Scope::Mcp, Scope::Write, Scope::Label])
                } else {
                    Self::of(&[Scope::Moderate])
                };
                if !(scopes.has(Scope::Moderate) || scopes.has(Scope::Mcp)) {
                    return Err(InvalidScopes("a bearer key needs moderate or mcp"));
                }
                if !allowed.includes(scopes) {
                    return Err(InvalidScopes(
                        "a bearer key takes moderate and mcp, and with mcp also write and label",
                    ));
                }
                Ok(scopes)
            }
        }
    }
}

impl std::fmt::Display for InvalidScopes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for InvalidScopes {}

#[cfg(test)]
mod tests {
    use super::Scope::{Ingest, Label, Mcp, Moderate, Read, Write};
    use super::*;

    #[test]
    fn roles_are_in_order_and_the_specification_knows_no_owner() {
        assert!(MemberRole::ALL.is_sorted());
        assert_eq!(MemberRole::ALL.map(MemberRole::specified), ["viewer", "analyst", "admin", "admin"]);
    }

    #[test]
    fn scopes_are_stored_and_read() {
        let some = ScopeSet::of(&[Label, Ingest, Ingest]);
        assert_eq!(some.to_text(), "ingest label");
        assert_eq!(ScopeSet::from_text("label of_the_future ingest"), some);
        assert_eq!(ScopeSet::from_text(""), ScopeSet::of(&[]));
        assert!(ScopeSet::SIGNED.includes(some) && !some.includes(ScopeSet::SIGNED));
    }

    #[test]
    fn a_key_has_scopes_of_its_kind() {
        let given = |kind, scopes: &[Scope]| ScopeSet::for_key(kind, Some(scopes)).is_ok();
        for scopes in [&[Read][..], &[Write, Label], &[Ingest, Read, Write, Label]] {
            assert!(given(KeyKind::Signed, scopes), "{scopes:?}");
        }
        for scopes in [&[][..], &[Moderate], &[Read, Mcp]] {
            assert!(!given(KeyKind::Signed, scopes), "{scopes:?}");
        }
        for scopes in [&[Moderate][..], &[Mcp], &[Moderate, Mcp], &[Mcp, Write, Label]] {
            assert!(given(KeyKind::Bearer, scopes), "{scopes:?}");
        }
        for scopes in [&[][..], &[Read], &[Write], &[Moderate, Write], &[Mcp, Read], &[Mcp, Ingest]] {
            assert!(!given(KeyKind::Bearer, scopes), "{scopes:?}");
        }
        assert_eq!(ScopeSet::for_key(KeyKind::Signed, None), Ok(ScopeSet::SIGNED));
        assert!(ScopeSet::for_key(KeyKind::Bearer, None).is_err());
    }
}
