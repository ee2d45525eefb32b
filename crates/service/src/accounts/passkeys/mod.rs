//! Passkeys: a member's authenticator signs a challenge, after it has verified the member. That is password and second factor in one.

mod checks;
mod verifier;

pub(crate) use self::checks::{PasskeyChecks, UsedPasskey};

use model::api::{
    Passkey, PasskeyAssertion, PasskeyCreationOptions, PasskeyList, PasskeyRegistration,
    PasskeyRequestOptions, PasskeyUpdate, Token,
};
use model::{TenantId, UserId, single_line};
use store::accounts::identities;
use store::accounts::passkeys::{self, Challenge, Passkey as StoredPasskey};
use store::accounts::users;
use store::{Conn, Store};
use tracing::error;
use uuid::Uuid;

use self::checks::refused;
use self::verifier::{Ceremony, Credential};
use crate::accounts::authentication::Authentication;
use crate::accounts::sessions::{Sessions, end_others};
use crate::accounts::users::existing_user;
use crate::outbox::Notifications;
use crate::runtime::audit::FailedBecause;
use crate::runtime::{
    Caller, ClientInfo, Clock, Error, Kind, Limit, Random, Result, Throttle, audit, client_network, internal,
};

/// Passkeys of one member.
const MAX_PASSKEYS: usize = 20;
const MAX_NAME: usize = 64;
const DEFAULT_NAME: &str = "Passkey";

/// The passkeys of all members.
pub struct Passkeys {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) throttle: Throttle,
    pub(crate) sessions: Sessions,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
    pub(crate) checks: PasskeyChecks,
}

impl Passkeys {
    /// The passkeys of the caller.
    pub async fn list(&self, caller: Caller) -> Result<PasskeyList> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let found =
            self.store.read("passkeys", async |conn| passkeys::of_user(conn, tenant, user).await).await?;
        Ok(PasskeyList { passkeys: found.iter().map(record).collect() })
    }

    /// Starts to add a passkey. What the caller has started before no longer counts.
    pub async fn start_registration(&self, caller: Caller) -> Result<PasskeyCreationOptions> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let verifier = self.checks.verifier()?;
        self.store
            .write("start_passkey", async |conn: &mut Conn| {
                self.authentication.require_recent_proof(conn, caller).await?;
                let user = existing_user(conn, tenant, user).await?;
                let known = passkeys::of_user(conn, tenant, user.user_id).await?;
                let handle = known.first().map_or_else(|| self.new_handle(), |passkey| passkey.user_handle);
                let known: Vec<&str> = known.iter().map(|passkey| passkey.credential_id.as_str()).collect();
                let Ceremony { options, state } =
                    verifier.ask_to_create(handle, &user.email, &known).map_err(internal)?;
                passkeys::delete_challenges_of(conn, user.user_id).await?;
                let challenge = Challenge { user_id: Some(user.user_id), user_handle: Some(handle), state };
                self.checks.keep(conn, &options.challenge, &challenge).await?;
                Ok::<_, Error>(options)
            })
            .await
    }

    /// What authenticators are to call a member: random, because whoever holds one may read it.
    fn new_handle(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.random.bytes()).into_uuid()
    }

    /// Adds a passkey; the member's other sessions end.
    pub async fn finish_registration(
        &self,
        caller: Caller,
        request: &PasskeyRegistration,
    ) -> Result<Passkey> {
        let user = caller.user()?;
        let verifier = self.checks.verifier()?;
        let name = passkey_name(request.name.as_deref().unwrap_or(DEFAULT_NAME))?;
        self.authentication.check_recent_proof(caller).await?;
        let challenge = self.checks.take(&request.response.client_data, Some(user)).await?;
        let credential = verifier.verify_created(&challenge.state, &request.response).map_err(refused)?;
        let handle = challenge.user_handle.ok_or_else(|| internal("a challenge without a handle"))?;
        let added = self
            .store
            .write("add_passkey", async |conn: &mut Conn| {
                self.authentication.require_recent_proof(conn, caller).await?;
                self.add(conn, caller, handle, &credential, &name).await
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(added)
    }

    async fn add(
        &self,
        conn: &mut Conn,
        caller: Caller,
        handle: Uuid,
        credential: &Credential,
        name: &str,
    ) -> Result<Passkey> {
        let tenant = caller.tenant;
        let user = existing_user(conn, tenant, caller.user()?).await?;
        if passkeys::of_user(conn, tenant, user.user_id).await?.len() >= MAX_PASSKEYS {
            let reason = format!("a user has at most {MAX_PASSKEYS} passkeys: remove one first");
            return Err(Error::new(Kind::Conflict, reason));
        }
        let now = self.clock.now();
        let passkey = StoredPasskey {
            credential_id: credential.id.clone(),
            passkey_id: self.random.id(now),
            tenant_id: tenant,
            user_id: user.user_id,
            user_handle: handle,
            credential: credential.content.clone(),
            name: name.to_owned(),
            created_at: now,
            last_used_at: None,
        };
        if !passkeys::insert(conn, &passkey).await? {
            return Err(Error::new(Kind::Conflict, "this passkey is registered already"));
        }
        let added = record(&passkey);
        audit::note(tenant, added.id, audit::NONE, Some(&added));
        end_others(conn, caller).await?;
        let mail = self.notifications.templates.passkey_added(&user.email, &added.name, now);
        self.notifications.mail_user(conn, &user, &mail).await?;
        Ok(added)
    }

    /// Renames a passkey.
    pub async fn rename(&self, caller: Caller, id: Uuid, update: &PasskeyUpdate) -> Result<Passkey> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let name = passkey_name(&update.name)?;
        self.store
            .write("rename_passkey", async |conn: &mut Conn| {
                caller.require_valid(conn, self.clock.now()).await?;
                let before = record(&find(conn, caller, id).await?);
                if !passkeys::rename(conn, (tenant, user), id, &name).await? {
                    return Err(missing());
                }
                let after = Passkey { name: name.clone(), ..before.clone() };
                audit::note(tenant, id, Some(&before), Some(&after));
                Ok(after)
            })
            .await
    }

    /// Removes a passkey, unless it is the last way to sign in; the member's other sessions end.
    pub async fn remove(&self, caller: Caller, id: Uuid) -> Result<()> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        self.store
            .write("remove_passkey", async |conn: &mut Conn| {
                // This locks the user, so that two concurrent requests cannot remove the last two.
                self.authentication.require_recent_proof(conn, caller).await?;
                let user = existing_user(conn, tenant, user).await?;
                let found = find(conn, caller, id).await?;
                let held = passkeys::of_user(conn, tenant, user.user_id).await?.len();
                if held == 1 && user.totp_enabled_at.is_some() && user.totp_secret.is_none() {
                    let message =
                        "two-factor rests on this passkey: add another one or turn two-factor off first";
                    return Err(Error::new(Kind::Conflict, message));
                }
                let linked = identities::of_user(conn, tenant, user.user_id).await?.len();
                if user.password_hash.is_none() && held == 1 && linked == 0 {
                    let message = "this is the last way to sign in: set a password first";
                    return Err(Error::new(Kind::Conflict, message));
                }
                passkeys::delete(conn, tenant, user.user_id, id).await?;
                audit::note(tenant, id, Some(&record(&found)), audit::NONE);
                end_others(conn, caller).await?;
                let now = self.clock.now();
                let mail = self.notifications.templates.passkey_removed(&user.email, &found.name, now);
                self.notifications.mail_user(conn, &user, &mail).await
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(())
    }

    /// Starts a sign-in, or a proof of who is signed in.
    pub async fn start(&self, client: &ClientInfo) -> Result<PasskeyRequestOptions> {
        self.checks.verifier()?;
        let address = client_network(client.address).to_string();
        self.throttle.attempt(&Limit::PASSKEY_START, &address).await?;
        self.checks.ask().await
    }

    /// Signs in with a passkey. No code is asked for: a passkey is two factors.
    pub async fn sign_in(&self, assertion: &PasskeyAssertion, client: &ClientInfo) -> Result<Token> {
        let address = client_network(client.address).to_string();
        let _slot = self.throttle.slot().await?;
        self.throttle.attempt(&Limit::LOGIN_ADDRESS, &address).await?;
        let token = self.check_sign_in(assertion, client).await;
        match &token {
            Err(error) if error.kind() == Kind::InvalidPasskey => {}
            _ => self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?,
        }
        if token.is_ok() {
            self.sessions.opened();
        }
        token
    }

    async fn check_sign_in(&self, assertion: &PasskeyAssertion, client: &ClientInfo) -> Result<Token> {
        let shown = self.checks.find(assertion).await?;
        let owner = shown.owner();
        let opened = async {
            let used = self.checks.verify(shown)?;
            let (tenant, user) = used.owner();
            self.store
                .write("sign_in_with_passkey", async |conn: &mut Conn| {
                    // Whoever ends this member's sessions and passkeys meanwhile comes before or after this sign-in.
                    users::lock(conn, tenant, user).await?;
                    self.checks.record(conn, &used).await?;
                    self.sessions.open(conn, tenant, user, client).await
                })
                .await
        };
        let token = opened.await;
        match token.as_ref().err().map(Error::kind) {
            Some(Kind::InvalidPasskey) => self.record_failure(owner, client, None).await,
            Some(Kind::Suspended) => {
                self.record_failure(owner, client, Some(FailedBecause::Suspended)).await;
            }
            _ => {}
        }
        token
    }

    /// Records a failed sign-in with a passkey of this member.
    async fn record_failure(
        &self,
        owner: (TenantId, UserId),
        client: &ClientInfo,
        because: Option<FailedBecause>,
    ) {
        let origin = client.origin(self.clock.now());
        let recorded = self
            .store
            .write("record_failed_sign_in", async |conn: &mut Conn| {
                audit::record_failed_sign_in(conn, owner, &origin, because).await
            })
            .await;
        if let Err(error) = recorded {
            error!(cause = error.cause(), "cannot record a failed sign-in: {error}");
        }
    }
}

async fn find(conn: &mut Conn, caller: Caller, id: Uuid) -> Result<StoredPasskey> {
    let own = passkeys::of_user(conn, caller.tenant, caller.user()?).await?;
    own.into_iter().find(|passkey| passkey.passkey_id == id).ok_or_else(missing)
}

fn missing() -> Error {
    Error::new(Kind::NotFound, "there is no such passkey")
}

fn passkey_name(name: &str) -> Result<String> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(Error::bad_request(format!(
            "name: it must have 1 to {MAX_NAME} characters, on one line"
        )));
    }
    Ok(single_line(name))
}

fn record(passkey: &StoredPasskey) -> Passkey {
    Passkey {
        id: passkey.passkey_id,
        name: passkey.name.clone(),
        created_at: passkey.created_at,
        last_used_at: passkey.last_used_at,
    }
}
