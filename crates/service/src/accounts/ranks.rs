//! Who may manage whom.

use model::MemberRole;
use store::accounts::users::User;

use crate::runtime::{Caller, Error, Result};

/// The role that the caller has now, which may be another than when the request came in.
pub(crate) fn role_of(members: &[User], caller: Caller) -> Result<MemberRole> {
    let user = caller.user()?;
    members.iter().find(|member| member.user_id == user).map(|member| member.role).ok_or_else(Error::gone)
}

/// Who manages members of a role: admins all but owners.
pub(crate) fn rank_over(role: MemberRole) -> MemberRole {
    if role == MemberRole::Owner { MemberRole::Owner } else { MemberRole::Admin }
}
