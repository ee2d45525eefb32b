//! The mails that members receive, and their preferences.

use std::collections::BTreeSet;

use model::api::{NotificationPreference, NotificationPreferences, NotificationPreferencesUpdate};
use model::{MemberRole, TenantId, UserId};
use store::accounts::users::{self, User};
use store::{Conn, Store};

use crate::outbox::mail::{Mail, MailTemplates, Mailer};
use crate::runtime::{Error, Result};

/// An email event: what a mail to members is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmailEvent {
    LowBalance,
    ApiKeyCreated,
    ApiKeyRotated,
    ApiKeyRevoked,
    TopupCredited,
    WebhookDead,
    PasswordReset,
    PasswordChanged,
    MfaEnabled,
    MfaDisabled,
    IdentityLinked,
    IdentityUnlinked,
    PasskeyAdded,
    PasskeyRemoved,
    EmailVerification,
    AddressProved,
    SignInNewNetwork,
}

/// An event as the API and the console describe it: name, label, description, and whether its mail is always sent.
struct Description(&'static str, &'static str, &'static str, bool);

impl EmailEvent {
    const ALL: [Self; 17] = [
        Self::LowBalance,
        Self::ApiKeyCreated,
        Self::ApiKeyRotated,
        Self::ApiKeyRevoked,
        Self::TopupCredited,
        Self::WebhookDead,
        Self::PasswordReset,
        Self::PasswordChanged,
        Self::MfaEnabled,
        Self::MfaDisabled,
        Self::IdentityLinked,
        Self::IdentityUnlinked,
        Self::PasskeyAdded,
        Self::PasskeyRemoved,
        Self::EmailVerification,
        Self::AddressProved,
        Self::SignInNewNetwork,
    ];

    fn description(self) -> Description {
        match self {
            Self::LowBalance => Description(
                "low_balance",
                "Low balance",
                "The prepaid balance has fallen below the warning line.",
                false,
            ),
            Self::ApiKeyCreated => {
                Description("api_key_created", "API key created", "Somebody made an API key.", true)
            }
            Self::ApiKeyRotated => {
                Description("api_key_rotated", "API key rotated", "An API key got a new secret.", true)
            }
            Self::ApiKeyRevoked => {
                Description("api_key_revoked", "API key revoked", "An API key was ended.", true)
            }
            Self::TopupCredited => {
                Description("topup_credited", "Top-up received", "A payment was added to the balance.", false)
            }
            Self::WebhookDead => Description(
                "webhook_dead",
                "Webhook failing",
                "Deliveries to a webhook endpoint were given up; at most one mail a day for each endpoint.",
                false,
            ),
            Self::PasswordReset => Description(
                "password_reset",
                "Password reset",
                "Somebody asked for a link to reset your password.",
                true,
            ),
            Self::PasswordChanged => {
                Description("password_changed", "Password changed", "Your password was changed.", true)
            }
            Self::MfaEnabled => {
                Description("mfa_enabled", "Two-factor on", "Two-factor sign-in was turned on for you.", true)
            }
            Self::MfaDisabled => Description(
                "mfa_disabled",
                "Two-factor off",
                "Two-factor sign-in was turned off for you.",
                true,
            ),
            Self::IdentityLinked => Description(
                "identity_linked",
                "Sign-in linked",
                "An account at a sign-in provider was linked to yours.",
                true,
            ),
            Self::IdentityUnlinked => Description(
                "identity_unlinked",
                "Sign-in unlinked",
                "An account at a sign-in provider was unlinked from yours.",
                true,
            ),
            Self::PasskeyAdded => {
                Description("passkey_added", "Passkey added", "A passkey was added to your account.", true)
            }
            Self::PasskeyRemoved => Description(
                "passkey_removed",
                "Passkey removed",
                "A passkey was removed from your account.",
                true,
            ),
            Self::EmailVerification => Description(
                "email_verification",
                "Confirm your address",
                "An account was opened with your email address; the mail has a link to confirm it.",
                true,
            ),
            Self::AddressProved => Description(
                "address_proved",
                "Address confirmed",
                "Your address was confirmed for the first time, and what was set up before was ended.",
                true,
            ),
            Self::SignInNewNetwork => Description(
                "sign_in_new_network",
                "Sign-in from a new network",
                "Somebody signed in to your account from a network that was not used before.",
                true,
            ),
        }
    }

    /// The event's name in the API and in the database.
    pub(crate) fn name(self) -> &'static str {
        self.description().0
    }

    /// Who may get its mails: some roles see no money.
    fn least_role(self) -> MemberRole {
        match self {
            Self::LowBalance | Self::TopupCredited => MemberRole::Admin,
            _ => MemberRole::Viewer,
        }
    }

    fn is_critical(self) -> bool {
        self.description().3
    }
}

/// Mails to the members of a tenant, and their preferences.
#[derive(Clone)]
pub struct Notifications {
    pub(crate) store: Store,
    pub(crate) mailer: Mailer,
    pub(crate) templates: MailTemplates,
}

impl Notifications {
    /// Which mails a member receives.
    pub async fn preferences(&self, tenant: TenantId, user: UserId) -> Result<NotificationPreferences> {
        self.store.read("notification_preferences", async |conn| preferences(conn, tenant, user).await).await
    }

    /// Changes which mails a member receives: all of the changes, or none.
    pub async fn set_preferences(
        &self,
        tenant: TenantId,
        user: UserId,
        update: &NotificationPreferencesUpdate,
    ) -> Result<NotificationPreferences> {
        for (name, enabled) in &update.0 {
            let Some(event) = EmailEvent::ALL.into_iter().find(|event| event.name() == name) else {
                return Err(Error::bad_request(format!("{name}: there is no such email event")));
            };
            if event.is_critical() && !enabled {
                return Err(Error::bad_request(format!("{name}: this mail is always sent")));
            }
        }
        self.store
            .write("set_notification_preferences", async |conn: &mut Conn| {
                users::find(conn, tenant, user).await?.ok_or_else(Error::gone)?;
                for (event, wanted) in &update.0 {
                    users::set_optout(conn, tenant, user, event, *wanted).await?;
                }
                preferences(conn, tenant, user).await
            })
            .await
    }

    /// Queues a mail to every member who may know of the event, in the caller's transaction; if the event is not critical, only to
    /// those who have not opted out of it. Call [`Self::wake`] once that is committed.
    pub(crate) async fn mail_tenant(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        event: EmailEvent,
        write: impl Fn(&MailTemplates, &str) -> Mail,
    ) -> Result<()> {
        let recipients = if event.is_critical() {
            // An opt-out from before the event became critical does not count.
            users::of_tenant(conn, tenant).await?
        } else {
            users::recipients(conn, tenant, event.name()).await?
        };
        for user in recipients.into_iter().filter(|user| user.role >= event.least_role()) {
            self.mail_user(conn, &user, &write(&self.templates, &user.email)).await?;
        }
        Ok(())
    }

    /// Queues a mail to somebody who is no member yet, in the caller's transaction.
    pub(crate) async fn mail_stranger(&self, conn: &mut Conn, tenant: TenantId, mail: &Mail) -> Result<()> {
        Ok(self.mailer.enqueue(conn, tenant, mail, None).await?)
    }

    /// Queues a mail to one member, in the caller's transaction.
    pub(crate) async fn mail_user(&self, conn: &mut Conn, user: &User, mail: &Mail) -> Result<()> {
        tracing::debug!(event = mail.event, user = %user.user_id, "mail queued");
        Ok(self.mailer.enqueue(conn, user.tenant_id, mail, None).await?)
    }

    /// Wakes the worker to send queued mails at once; to be called after the commit.
    pub(crate) fn wake(&self) {
        self.mailer.wake();
    }
}

async fn preferences(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<NotificationPreferences> {
    let opted_out: BTreeSet<String> = users::optouts(conn, tenant, user).await?.into_iter().collect();
    let preferences = EmailEvent::ALL.into_iter().map(|event| {
        let Description(name, label, description, critical) = event.description();
        NotificationPreference {
            event: name.to_owned(),
            label: label.to_owned(),
            description: description.to_owned(),
            enabled: critical || !opted_out.contains(name),
            critical,
        }
    });
    Ok(NotificationPreferences { preferences: preferences.collect() })
}
