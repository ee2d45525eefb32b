//! Console sessions and the tokens that open them.

use std::time::Duration;

use model::api::{Token, TokenType};
use model::{TenantId, UserId};
use store::Conn;
use store::accounts::closure;
use store::accounts::sessions::{self, Holder};

use crate::accounts::tokens;
use crate::runtime::{Clock, Error, Random, Result};

/// The lifetime of a console token.
const CONSOLE_TOKEN_LIFETIME: Duration = Duration::from_hours(24);

/// Opens sessions.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

impl Sessions {
    /// Opens a console session in the caller's transaction.
    pub(crate) async fn open(&self, conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Token> {
        refuse_suspended(conn, tenant).await?;
        let token = self.new_token(tokens::CONSOLE_TOKEN, CONSOLE_TOKEN_LIFETIME, TokenType::Console);
        let hash = tokens::hash(&token.token);
        sessions::insert(conn, tenant, Holder::User(user), &hash, self.clock.now(), token.expires_at).await?;
        Ok(token)
    }

    pub(crate) fn new_token(&self, prefix: &str, lifetime: Duration, token_type: TokenType) -> Token {
        Token {
            token: tokens::secret(&self.random, prefix),
            expires_at: self.clock.now() + lifetime,
            token_type,
            new_user: None,
        }
    }
}

/// Refuses a suspended account, which gets no new session.
pub(crate) async fn refuse_suspended(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    if closure::is_suspended(conn, tenant).await? { Err(Error::suspended()) } else { Ok(()) }
}
