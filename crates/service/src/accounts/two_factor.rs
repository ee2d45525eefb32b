//! Two-factor authentication: codes of an authenticator app or a passkey, and recovery codes. Each code works once.

use model::api::{
    MfaDisableRequest, MfaEnableRequest, MfaRecoveryCodes, MfaSetup, MfaStatus, PasskeyAssertion,
};
use model::{TenantId, UserId, totp};
use serde_json::json;
use store::accounts::two_factor;
use store::accounts::users::User;
use store::{Conn, Store};

use crate::accounts::authentication::Authentication;
use crate::accounts::passkeys::{PasskeyChecks, UsedPasskey};
use crate::accounts::passwords::Passwords;
use crate::accounts::reauthentication::reauthenticating;
use crate::accounts::sessions::end_others;
use crate::accounts::tokens;
use crate::accounts::users::existing_user;
use crate::outbox::Notifications;
use crate::runtime::{Caller, Clock, Error, Kind, Random, Result, Sealer, Throttle, audit, internal};

/// The number of recovery codes issued.
const RECOVERY_CODES: usize = 8;
/// Letters and digits that are easy to tell apart: 32, so that five bits choose one uniformly.
const RECOVERY_ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Two groups of five: 50 bits, in addition to the limit on sign-in attempts.
const RECOVERY_CHARACTERS: usize = 10;

/// Two-factor authentication of members.
pub struct TwoFactor {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) throttle: Throttle,
    pub(crate) passwords: Passwords,
    pub(crate) codes: TwoFactorCodes,
    pub(crate) passkeys: PasskeyChecks,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
}

/// Checks codes. Each code works once.
#[derive(Clone)]
pub(crate) struct TwoFactorCodes {
    pub(crate) clock: Clock,
    pub(crate) sealer: Sealer,
}

/// A second factor that a request presents.
#[derive(Clone, Copy)]
enum PresentedFactor<'a> {
    Code(&'a str),
    Passkey(&'a PasskeyAssertion),
}

/// The same; a passkey is verified.
enum VerifiedFactor<'a> {
    Code(&'a str),
    Passkey(UsedPasskey),
}

impl VerifiedFactor<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Code(_) => "authenticator",
            Self::Passkey(_) => "passkey",
        }
    }
}

/// Exactly one of a code and a passkey.
fn factor<'a>(code: Option<&'a str>, passkey: Option<&'a PasskeyAssertion>) -> Result<PresentedFactor<'a>> {
    match (code, passkey) {
        (Some(code), None) => Ok(PresentedFactor::Code(code)),
        (None, Some(passkey)) => Ok(PresentedFactor::Passkey(passkey)),
        (None, None) => Err(Error::bad_request("code: it is required, or passkey")),
        (Some(_), Some(_)) => Err(Error::bad_request("code: send it alone, without passkey")),
    }
}

impl TwoFactor {
    /// Whether two-factor is on for a member, and how many recovery codes are left.
    pub async fn status(&self, tenant: TenantId, user: UserId) -> Result<MfaStatus> {
        self.store
            .read("mfa_status", async |conn: &mut Conn| {
                let user = existing_user(conn, tenant, user).await?;
                let enabled = user.totp_enabled_at.is_some();
                let recovery_codes_remaining = if enabled {
                    two_factor::count_recovery_codes(conn, tenant, user.user_id).await?
                } else {
                    0
                };
                let passkey = (enabled && user.totp_secret.is_none()).then_some(true);
                Ok(MfaStatus { enabled, recovery_codes_remaining, passkey })
            })
            .await
    }

    /// Issues a secret for an authenticator app; a repeated call replaces it.
    pub async fn setup(&self, caller: Caller) -> Result<MfaSetup> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let secret: [u8; totp::SECRET_BYTES] = self.random.bytes();
        let sealed = self.sealer.seal(&self.random, "users.totp_secret", user.0, &secret);
        self.store
            .write("mfa_setup", async |conn: &mut Conn| {
                self.authentication.require_recent_proof(conn, caller).await?;
                let user = existing_user(conn, tenant, user).await?;
                if !two_factor::set_totp_secret(conn, tenant, user.user_id, &sealed).await? {
                    return Err(already_on());
                }
                let secret = totp::base32(&secret);
                let mut otpauth_uri = url::Url::parse("otpauth://totp/").map_err(internal)?;
                otpauth_uri.set_path(&format!("Auspex:{}", user.email));
                otpauth_uri.query_pairs_mut().extend_pairs([
                    ("secret", secret.as_str()),
                    ("issuer", "Auspex"),
                    ("digits", "6"),
                    ("period", "30"),
                ]);
                Ok(MfaSetup { secret, otpauth_uri: otpauth_uri.into() })
            })
            .await
    }

    /// Turns two-factor on, if the code proves that the app has the secret, or a passkey that the user has one.
    pub async fn enable(&self, caller: Caller, request: &MfaEnableRequest) -> Result<MfaRecoveryCodes> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let factor = factor(request.code.as_deref(), request.passkey.as_ref())?;
        self.authentication.check_recent_proof(caller).await?;
        let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| self.new_recovery_code()).collect();
        let hashes: Vec<_> = codes.iter().map(|code| recovery_hash(code)).collect();
        reauthenticating(&self.throttle, user, async || {
            let verified = self.verified(user, factor).await?;
            self.store
                .write("mfa_enable", async |conn: &mut Conn| {
                    self.authentication.require_recent_proof(conn, caller).await?;
                    let now = self.clock.now();
                    let user = existing_user(conn, tenant, user).await?;
                    if user.totp_enabled_at.is_some() {
                        return Err(already_on());
                    }
                    match &verified {
                        VerifiedFactor::Code(code) => self.enable_app(conn, &user, code).await?,
                        VerifiedFactor::Passkey(used) => {
                            self.passkeys.record(conn, used).await?;
                            if !two_factor::require_passkey(conn, tenant, user.user_id, now).await? {
                                return Err(already_on());
                            }
                        }
                    }
                    two_factor::set_recovery_codes(conn, tenant, user.user_id, &hashes).await?;
                    audit::note(tenant, user.user_id, audit::NONE, Some(&json!({"factor": verified.name()})));
                    end_others(conn, caller).await?;
                    let by_passkey = matches!(verified, VerifiedFactor::Passkey(_));
                    let mail = self.notifications.templates.mfa_enabled(&user.email, by_passkey, now);
                    self.notifications.mail_user(conn, &user, &mail).await
                })
                .await
        })
        .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(MfaRecoveryCodes { recovery_codes: codes })
    }

    /// Turns two-factor on with the secret of an app, if the code is of it.
    async fn enable_app(&self, conn: &mut Conn, user: &User, code: &str) -> Result<()> {
        let now = self.clock.now();
        let Some(sealed) = &user.totp_secret else {
            return Err(Error::new(Kind::Conflict, "two-factor must be set up before it is turned on"));
        };
        let secret = self.sealer.open("users.totp_secret", user.user_id.0, sealed).map_err(internal)?;
        let step = totp::matching_step(&secret, code.trim(), now).ok_or_else(invalid_code)?;
        if two_factor::enable_totp(conn, user.tenant_id, user.user_id, sealed, step, now).await? {
            Ok(())
        } else {
            Err(already_on())
        }
    }

    /// Verifies a presented passkey, which the caller's transaction marks as used. A code is verified when it is taken.
    async fn verified<'a>(&self, user: UserId, factor: PresentedFactor<'a>) -> Result<VerifiedFactor<'a>> {
        Ok(match factor {
            PresentedFactor::Code(code) => VerifiedFactor::Code(code),
            PresentedFactor::Passkey(assertion) => {
                VerifiedFactor::Passkey(self.passkeys.verify_of(user, assertion).await?)
            }
        })
    }

    /// Turns two-factor off, with the password, if there is one, and a code or a passkey.
    pub async fn disable(&self, caller: Caller, request: &MfaDisableRequest) -> Result<()> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let factor = factor(request.code.as_deref(), request.passkey.as_ref())?;
        self.authentication.check_recent_proof(caller).await?;
        reauthenticating(&self.throttle, user, async || {
            let user = self.store.read("user", async |conn| existing_user(conn, tenant, user).await).await?;
            if user.totp_enabled_at.is_none() {
                return Err(Error::new(Kind::Conflict, "two-factor is off"));
            }
            // The password is checked first: a refused request must not use up the code.
            if let Some(hash) = &user.password_hash {
                let Some(password) = &request.password else {
                    return Err(Error::bad_request("password: it is required"));
                };
                if !self.passwords.verify(password, Some(hash)).await? {
                    return Err(Error::new(Kind::InvalidPassword, "the password is not right"));
                }
            }
            let verified = self.verified(user.user_id, factor).await?;
            self.store
                .write("mfa_disable", async |conn: &mut Conn| {
                    self.authentication.require_recent_proof(conn, caller).await?;
                    match &verified {
                        VerifiedFactor::Code(code) if self.codes.take(conn, &user, code).await? => {}
                        VerifiedFactor::Code(_) => return Err(invalid_code()),
                        VerifiedFactor::Passkey(used) => self.passkeys.record(conn, used).await?,
                    }
                    let factor = if user.totp_secret.is_some() { "authenticator" } else { "passkey" };
                    audit::note(tenant, user.user_id, Some(&json!({"factor": factor})), audit::NONE);
                    two_factor::disable_totp(conn, tenant, user.user_id).await?;
                    end_others(conn, caller).await?;
                    let mail = self.notifications.templates.mfa_disabled(&user.email, self.clock.now());
                    self.notifications.mail_user(conn, &user, &mail).await
                })
                .await
        })
        .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(())
    }

    fn new_recovery_code(&self) -> String {
        let bytes: [u8; RECOVERY_CHARACTERS] = self.random.bytes();
        let characters: String =
            bytes.iter().map(|byte| char::from(RECOVERY_ALPHABET[usize::from(byte % 32)])).collect();
        format!("{}-{}", &characters[..RECOVERY_CHARACTERS / 2], &characters[RECOVERY_CHARACTERS / 2..])
    }
}

impl TwoFactorCodes {
    /// Uses up an authenticator or recovery code: true for one caller only.
    pub(crate) async fn take(&self, conn: &mut Conn, user: &User, code: &str) -> Result<bool> {
        let (tenant, id, code) = (user.tenant_id, user.user_id, code.trim());
        let is_totp = code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit());
        if !is_totp {
            return Ok(two_factor::take_recovery_code(conn, tenant, id, &recovery_hash(code)).await?);
        }
        let Some(sealed) = &user.totp_secret else { return Ok(false) };
        let secret = self.sealer.open("users.totp_secret", id.0, sealed).map_err(internal)?;
        match totp::matching_step(&secret, code, self.clock.now()) {
            Some(step) => Ok(two_factor::take_totp_step(conn, tenant, id, step).await?),
            None => Ok(false),
        }
    }
}

/// The hash of a recovery code. The dash may be missing, and case is ignored.
fn recovery_hash(code: &str) -> [u8; 32] {
    let plain: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
    tokens::hash(&plain.to_ascii_lowercase())
}

fn invalid_code() -> Error {
    Error::new(Kind::InvalidCode, "the code is not valid")
}

fn already_on() -> Error {
    Error::new(Kind::Conflict, "two-factor is already on")
}
