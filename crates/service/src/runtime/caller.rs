//! The authenticated caller of a use case, and where a request comes from.

use std::net::IpAddr;

use model::api::{APIKeyStatus, Author, AuthorKind};
use model::{KeyId, KeyKind, MemberRole, Scope, ScopeSet, TenantId, Timestamp, UserId};
use store::Conn;
use store::accounts::audit_log::Origin;
use store::accounts::{keys, sessions, users};
use store::runtime::created_by::{CreatedBy, Maker};
use uuid::Uuid;

use crate::runtime::{Error, Kind, Result};

/// How many characters of a client's own name are stored: browsers send about 120.
const MAX_AGENT: usize = 256;

/// An authenticated caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant: all that the caller may access.
    pub tenant: TenantId,
    /// How the caller authenticated.
    pub credential: Credential,
}

/// How a caller authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// With an API key, in any form.
    Key {
        /// The key.
        key: KeyId,
        /// What it may be used for.
        rights: KeyRights,
    },
    /// With a console token.
    Console {
        /// The member.
        user: UserId,
        /// The session.
        session: SessionId,
        /// What the member may do.
        role: MemberRole,
        /// How the request carried the token.
        carrier: Carrier,
    },
}

/// What an API key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRights {
    /// How it authenticates.
    pub kind: KeyKind,
    /// Its scopes.
    pub scopes: ScopeSet,
}

impl KeyRights {
    /// A signed key without limits.
    pub const ALL: Self = Self { kind: KeyKind::Signed, scopes: ScopeSet::SIGNED };

    /// The rights of a key, given its scopes as they are stored.
    pub(crate) fn stored(kind: KeyKind, scopes: Option<&str>) -> Self {
        Self { kind, scopes: scopes.map_or(ScopeSet::SIGNED, ScopeSet::from_text) }
    }

    /// Refuses a key that may not be used for this.
    fn require(self, scope: Scope) -> Result<()> {
        let is_for_bearer_keys = matches!(scope, Scope::Moderate | Scope::Mcp);
        if self.kind == KeyKind::Bearer && !is_for_bearer_keys {
            let message =
                "this needs a signed request: a bearer key works only where its scopes moderate and mcp do";
            return Err(Error::new(Kind::Forbidden, message));
        }
        if self.scopes.has(scope) {
            return Ok(());
        }
        let message = format!("this needs a key with the scope {}", scope.as_str());
        Err(Error::new(Kind::Forbidden, message))
    }
}

/// How a request carries a console token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In the header `Authorization`, which a program sets.
    Header,
    /// In a cookie, which a browser adds by itself.
    Cookie,
}

/// A console session, by the hash of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId(pub(crate) [u8; 32]);

/// Where a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// The client's address.
    pub address: IpAddr,
    /// What the client calls itself.
    pub agent: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
}

impl ClientInfo {
    /// Where the request comes from, for the audit log.
    pub(crate) fn origin(&self, at: Timestamp) -> Origin {
        let address = self.address.to_canonical().to_string();
        Origin { at, address: Some(address), request_id: self.request_id.clone() }
    }
}

/// The name that a client gives itself, as far as it is stored.
pub(crate) fn agent_name(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_AGENT).collect()
}

impl Caller {
    /// Who it is: the user, in whatever session, or the key.
    pub fn id(&self) -> Uuid {
        match self.credential {
            Credential::Console { user, .. } => user.0,
            Credential::Key { key, .. } => key.0,
        }
    }

    /// The signed-in user; API keys are refused.
    pub fn user(&self) -> Result<UserId> {
        Ok(self.session()?.0)
    }

    /// The signed-in user and their session; API keys are refused.
    pub(crate) fn session(&self) -> Result<(UserId, SessionId)> {
        match self.credential {
            Credential::Console { user, session, .. } => Ok((user, session)),
            Credential::Key { .. } => Err(members_only()),
        }
    }

    /// Refuses a member whose role is lower than this one, and a key without this scope. Without a scope, all keys are refused.
    pub fn require(&self, least: MemberRole, scope: Option<Scope>) -> Result<()> {
        match (self.credential, scope) {
            (Credential::Console { role, .. }, _) => require_role(role, least),
            (Credential::Key { rights, .. }, Some(scope)) => rights.require(scope),
            (Credential::Key { .. }, None) => Err(members_only()),
        }
    }

    /// Refuses members, and keys without this scope.
    pub fn require_key(&self, scope: Scope) -> Result<()> {
        match self.credential {
            Credential::Key { rights, .. } => rights.require(scope),
            Credential::Console { .. } => {
                let message = format!("this needs a bearer key with the scope {}", scope.as_str());
                Err(Error::new(Kind::Forbidden, message))
            }
        }
    }

    /// Whether the caller is a key with this scope, for routes where scopes open parts of what they do.
    pub fn has_scope(&self, scope: Scope) -> bool {
        matches!(self.credential, Credential::Key { rights, .. } if rights.scopes.has(scope))
    }

    /// Whether the request came with a session in a cookie.
    pub fn has_cookie(&self) -> bool {
        matches!(self.credential, Credential::Console { carrier: Carrier::Cookie, .. })
    }

    /// Refuses a caller whose credential was revoked after authentication: a revoked credential must not create anything.
    /// To be called in the transaction that does; where that locks the tenant, after that.
    pub(crate) async fn require_valid(&self, conn: &mut Conn, now: Timestamp) -> Result<()> {
        let is_valid = match self.credential {
            Credential::Key { key, .. } => keys::find(conn, self.tenant, key)
                .await?
                .is_some_and(|key| key.status == APIKeyStatus::Active),
            Credential::Console { user, session, role, .. } => {
                // Locked, so that ending this user's sessions happens either before or after this transaction.
                users::lock(conn, self.tenant, user).await?;
                let found = sessions::find(conn, &session.0, now).await?;
                // The role may have been lowered since the session was read into a cache.
                found.is_some_and(|session| session.role.is_some_and(|now| now >= role))
            }
        };
        if is_valid { Ok(()) } else { Err(Error::refused("the credential ended while it was used")) }
    }

    /// Who is shown as the author of what this caller says: the key or the person, by the name that it has now.
    pub(crate) async fn author(&self, conn: &mut Conn) -> Result<Author> {
        let author =
            match self.credential {
                Credential::Key { key: id, .. } => keys::find(conn, self.tenant, id)
                    .await?
                    .map(|key| Author { kind: AuthorKind::Key, id: id.0, name: key.name }),
                Credential::Console { user, .. } => users::find(conn, self.tenant, user)
                    .await?
                    .map(|found| Author { kind: AuthorKind::User, id: user.0, name: found.email }),
            };
        author.ok_or_else(Error::gone)
    }

    /// Whether this caller is the author of something.
    pub(crate) fn is(&self, author: &Author) -> bool {
        match self.credential {
            Credential::Key { key, .. } => author.kind == AuthorKind::Key && author.id == key.0,
            Credential::Console { user, .. } => author.kind == AuthorKind::User && author.id == user.0,
        }
    }

    /// Who is recorded as the maker of what this caller creates. Behind a key stands the member who made it.
    pub(crate) async fn created_by(&self, conn: &mut Conn) -> Result<CreatedBy> {
        let key = match self.credential {
            Credential::Console { user, .. } => {
                return Ok(CreatedBy { maker: Maker::User, user: Some(user), key: None });
            }
            Credential::Key { key, .. } => key,
        };
        let user = match keys::maker(conn, self.tenant, key).await? {
            Some((Some(_), user)) => user,
            // A key from before makers were recorded belongs to the first member.
            Some((None, _)) | None => users::first_of_tenant(conn, self.tenant).await?,
        };
        Ok(CreatedBy { maker: Maker::Key, user, key: Some(key) })
    }
}

fn members_only() -> Error {
    Error::new(Kind::Forbidden, "only a signed-in user may do this")
}

/// Refuses a role that is lower than the least one that may do something; the message names those that may.
pub(crate) fn require_role(role: MemberRole, least: MemberRole) -> Result<()> {
    if role >= least {
        return Ok(());
    }
    let may: Vec<&str> =
        MemberRole::ALL.into_iter().filter(|role| *role >= least).map(MemberRole::as_str).collect();
    let message = format!("this needs the role {}; yours is {}", may.join(" or "), role.as_str());
    Err(Error::new(Kind::Forbidden, message))
}
