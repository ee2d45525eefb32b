//! The first proof of an address. Until somebody has proved that a member's email address is theirs, anybody may have registered
//! it and set things up. Whatever proves it first (a reset link, a provider, the link mailed at registration) runs this routine.

use model::api::FirstProofPreview;
use model::{AuditAction, TenantId, Timestamp, UserId};
use serde_json::json;
use store::Conn;
use store::accounts::users::{self, User};
use store::accounts::{
    email_verifications, identities, invitations, keys, passkeys, password_resets, sessions, tenants,
    two_factor,
};
use store::actions::webhooks::endpoints;
use store::actions::{reviews, rules};
use store::runtime::created_by::MadeBy;
use uuid::Uuid;

use crate::accounts::authentication::Authentication;
use crate::accounts::invitations::record as invitation_record;
use crate::accounts::keys::{mail_revoked, record as key_record};
use crate::accounts::users::{existing_user, identity_record};
use crate::actions::{CourierHandle, disable_endpoints_made_by, open_url};
use crate::outbox::Notifications;
use crate::outbox::mail::Ended;
use crate::runtime::{Caller, ClientInfo, Clock, Result, Sealer, audit};

/// Sessions that a preview counts, at most.
const MAX_SESSIONS: i64 = 1_000;
/// Why endpoints and rules were disabled.
const REASON: &str = "address proved";

/// Records first proofs, and ends what was set up before them.
#[derive(Clone)]
pub(crate) struct FirstProof {
    pub(crate) clock: Clock,
    pub(crate) sealer: Sealer,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
    pub(crate) courier: CourierHandle,
}

/// What comes with a proof of an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    /// Whether what was set up before is to stay.
    pub(crate) keep: bool,
    /// The session that the request carries. If it is one of the same member, what was set up before is theirs, and stays.
    pub(crate) session: Option<Caller>,
    /// Who sent it; none where another line of the audit log says so.
    pub(crate) client: Option<&'a ClientInfo>,
}

/// The endpoints that a proof disabled; to be handed to [`FirstProof::finish`] once the proof is committed.
#[must_use]
#[derive(Default)]
pub(crate) struct Proved {
    disabled: Vec<(Uuid, i64)>,
}

impl FirstProof {
    /// Records in the caller's transaction that a member has proved their address. If it is the first proof, the password,
    /// sessions, keys, identities, two-factor and open invitations that the member made end, and their endpoints and rules are
    /// disabled. A password or an identity that the proof itself brings is to be stored after this.
    pub(crate) async fn prove(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        user: UserId,
        proof: Proof<'_>,
    ) -> Result<Proved> {
        if existing_user(conn, tenant, user).await?.email_verified_at.is_some() {
            return Ok(Proved::default());
        }
        // Locked before they are read again: of two concurrent proofs the second must not end what the first one brought,
        // and whatever is created with a credential of the member is created before this, or not at all.
        tenants::lock(conn, tenant).await?;
        users::lock(conn, tenant, user).await?;
        let user = existing_user(conn, tenant, user).await?;
        if user.email_verified_at.is_some() {
            return Ok(Proved::default());
        }
        let now = self.clock.now();
        users::verify_email(conn, tenant, user.user_id, now).await?;
        email_verifications::delete_of_user(conn, user.user_id).await?;
        if proof.keep || is_of(conn, proof.session, user.user_id, now).await? {
            if let Some(client) = proof.client {
                let (who, kept) = ((tenant, user.user_id), json!({"kept": true}));
                audit::record_first_proof(conn, who, &client.origin(now), &kept).await?;
            }
            return Ok(Proved::default());
        }
        self.end_all(conn, &user, proof, now).await
    }

    /// What the first proof of a member's address would end: nothing if it is proved.
    pub(crate) async fn preview(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        user: UserId,
    ) -> Result<FirstProofPreview> {
        let (user, now) = (existing_user(conn, tenant, user).await?, self.clock.now());
        if user.email_verified_at.is_some() {
            return Ok(FirstProofPreview::default());
        }
        let id = user.user_id;
        let by = MadeBy { user: id, is_first: users::first_of_tenant(conn, tenant).await? == Some(id) };
        let mut urls = Vec::new();
        for endpoint in endpoints::enabled_made_by(conn, tenant, by).await? {
            urls.push(open_url(&self.sealer, endpoint.endpoint_id, &endpoint.sealed_url)?);
        }
        Ok(FirstProofPreview {
            first_proof: true,
            password: user.password_hash.is_some(),
            two_factor: user.totp_enabled_at.is_some(),
            sessions: sessions::of_user(conn, id, now, MAX_SESSIONS).await?.len() as u64,
            keys: keys::made_by(conn, tenant, by).await?.into_iter().map(|key| key.name).collect(),
            // Paths and queries of receivers often hold a token.
            endpoints: urls.iter().map(|url| audit::origin_of(url)).collect(),
            rules: rules::names_made_by(conn, tenant, by).await?,
            identities: identities::of_user(conn, tenant, id).await?.iter().map(identity_record).collect(),
            passkeys: passkeys::of_user(conn, tenant, id).await?.into_iter().map(|key| key.name).collect(),
            invitations: invitations::made_by(conn, tenant, by, now)
                .await?
                .into_iter()
                .map(|invitation| invitation.email)
                .collect(),
        })
    }

    async fn end_all(
        &self,
        conn: &mut Conn,
        user: &User,
        proof: Proof<'_>,
        now: Timestamp,
    ) -> Result<Proved> {
        let (tenant, id) = (user.tenant_id, user.user_id);
        let by = MadeBy { user: id, is_first: users::first_of_tenant(conn, tenant).await? == Some(id) };
        let linked = identities::of_user(conn, tenant, id).await?;
        for identity in &linked {
            identities::delete(conn, tenant, id, identity.provider).await?;
        }
        users::set_password(conn, tenant, id, None).await?;
        two_factor::disable_totp(conn, tenant, id).await?;
        password_resets::delete_of_user(conn, id).await?;
        let disabled = disable_endpoints_made_by(conn, &self.courier, by, tenant, REASON, now).await?;
        let keys = keys::revoke_made_by(conn, tenant, by).await?;
        for key in &keys {
            reviews::release_all_of(conn, tenant, key.key_id.0).await?;
        }
        let invitations = invitations::delete_made_by(conn, tenant, by, now).await?;
        let ended = Ended {
            password: user.password_hash.is_some(),
            two_factor: user.totp_enabled_at.is_some(),
            sessions: sessions::delete_of_user(conn, id).await?,
            identities: linked.len() as u64,
            passkeys: passkeys::delete_of_user(conn, tenant, id).await?,
            keys: keys.len() as u64,
            endpoints: disabled.len() as u64,
            rules: rules::disable_made_by(conn, tenant, by, REASON, now).await?,
            invitations: invitations.len() as u64,
        };
        if ended != Ended::default() {
            let mail = self.notifications.templates.address_proved(&user.email, ended, now);
            self.notifications.mail_user(conn, user, &mail).await?;
        }
        // Whoever proves the address is told all of it in that mail.
        mail_revoked(conn, &self.notifications, &keys, Some(id), now).await?;
        if let Some(client) = proof.client {
            let origin = client.origin(now);
            audit::record_first_proof(conn, (tenant, id), &origin, &json!({"ended": ended})).await?;
            let entrant = audit::Entrant { who: (tenant, id), origin: &origin };
            for key in &keys {
                let before = Some(&key_record(key));
                entrant.record(conn, AuditAction::ApiKeyRevoked, key.key_id.0, before, audit::NONE).await?;
            }
            for invitation in invitations {
                let (action, id) = (AuditAction::InvitationWithdrawn, invitation.invitation_id);
                entrant.record(conn, action, id, Some(&invitation_record(invitation)), audit::NONE).await?;
            }
        }
        Ok(Proved { disabled })
    }

    /// Makes this process forget the ended credentials and recall the deliveries of disabled endpoints, and sends the mail.
    pub(crate) fn finish(&self, proved: Proved) {
        self.authentication.clear_cache();
        for (endpoint, version) in proved.disabled {
            self.courier.recall(endpoint, version);
        }
        self.notifications.wake();
    }
}

/// Whether a session is one of this member, and has not ended.
async fn is_of(conn: &mut Conn, session: Option<Caller>, user: UserId, now: Timestamp) -> Result<bool> {
    let Some(caller) = session else { return Ok(false) };
    match caller.session() {
        Ok((holder, session)) if holder == user => Ok(sessions::find(conn, &session.0, now).await?.is_some()),
        _ => Ok(false),
    }
}
