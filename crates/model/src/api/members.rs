//! Members of an account, and invitations to become one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::APIKey;
use crate::{MemberRole, Timestamp};

/// A person who can sign in to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// The user's id.
    pub user_id: Uuid,
    /// The user's email address.
    #[schema(format = Email)]
    pub email: String,
    /// What the user may do.
    pub role: MemberRole,
    /// When the user joined.
    pub created_at: Timestamp,
}

/// The members of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberList {
    /// The members, oldest first.
    pub members: Vec<Member>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// A change of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberUpdate {
    /// What the user may do from now on.
    pub role: MemberRole,
}

/// A member who was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberRemoved {
    /// The API keys that the member made. They still work unless they were to be revoked.
    pub keys: Vec<APIKey>,
}

/// Inviting somebody to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationCreate {
    /// Where the link is mailed to; also the email address of the new member.
    #[schema(format = Email, example = "bob@example.com")]
    pub email: String,
    /// What the new member may do.
    pub role: MemberRole,
}

/// An invitation that nobody has accepted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// Its id.
    pub id: Uuid,
    /// Where the link was mailed to.
    #[schema(format = Email)]
    pub email: String,
    /// What the new member may do.
    pub role: MemberRole,
    /// When the link stops working.
    pub expires_at: Timestamp,
}

/// The open invitations of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationList {
    /// The invitations, oldest first.
    pub invitations: Vec<Invitation>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// Accepting an invitation with a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationAcceptRequest {
    /// The token of the link.
    pub token: String,
    /// The new member's password: 8 to 256 characters, and not easy to guess.
    #[schema(format = Password, min_length = 8, max_length = 256)]
    pub password: String,
}
