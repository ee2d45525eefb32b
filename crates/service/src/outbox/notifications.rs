//! The mails that console users get, and which of them they want.

use std::collections::BTreeSet;

use model::api::{NotificationPreference, NotificationPreferences, NotificationPreferencesUpdate};
use model::{TenantId, UserId};
use store::accounts::users::User;
use store::Conn;
use store::accounts::users;

use crate::outbox::mail::Mail;
use crate::{Error, Result, Service};

/// What a mail is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
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
}

/// How an event is told to people: name, label, description, and whether its mail is always sent.
struct Told(&'static str, &'static str, &'static str, bool);

impl Event {
    const ALL: [Self; 12] = [
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
    ];

    fn told(self) -> Told {
        match self {
            Self::LowBalance => Told(
                "low_balance",
                "Low balance",
                "The prepaid balance has fallen below the warning line.",
                false,
            ),
            Self::ApiKeyCreated => {
                Told("api_key_created", "API key created", "Somebody made an API key.", false)
            }
            Self::ApiKeyRotated => {
                Told("api_key_rotated", "API key rotated", "An API key got a new secret.", false)
            }
            Self::ApiKeyRevoked => Told("api_key_revoked", "API key revoked", "An API key was ended.", false),
            Self::TopupCredited => {
                Told("topup_credited", "Top-up received", "A payment was added to the balance.", false)
            }
            Self::WebhookDead => Told(
                "webhook_dead",
                "Webhook failing",
                "Deliveries to a webhook endpoint were given up; at most one mail a day for each endpoint.",
                false,
            ),
            Self::PasswordReset => Told(
                "password_reset",
                "Password reset",
                "Somebody asked for a link to reset your password.",
                true,
            ),
            Self::PasswordChanged => {
                Told("password_changed", "Password changed", "Your password was changed.", true)
            }
            Self::MfaEnabled => {
                Told("mfa_enabled", "Two-factor on", "Two-factor sign-in was turned on for you.", true)
            }
            Self::MfaDisabled => {
                Told("mfa_disabled", "Two-factor off", "Two-factor sign-in was turned off for you.", true)
            }
            Self::IdentityLinked => Told(
                "identity_linked",
                "Sign-in linked",
                "An account at a sign-in provider was linked to yours.",
                true,
            ),
            Self::IdentityUnlinked => Told(
                "identity_unlinked",
                "Sign-in unlinked",
                "An account at a sign-in provider was unlinked from yours.",
                true,
            ),
        }
    }

    /// As it is written in records and in the database.
    pub(crate) fn name(self) -> &'static str {
        self.told().0
    }

    fn is_critical(self) -> bool {
        self.told().3
    }
}

impl Service {
    /// Which mails a person gets.
    pub async fn notification_preferences(
        &self,
        tenant: TenantId,
        user: UserId,
    ) -> Result<NotificationPreferences> {
        self.store
            .read("notification_preferences", async |conn| self.preferences(conn, tenant, user).await)
            .await
    }

    /// Changes which mails a person gets: all of the change, or none of it.
    pub async fn set_notification_preferences(
        &self,
        tenant: TenantId,
        user: UserId,
        update: &NotificationPreferencesUpdate,
    ) -> Result<NotificationPreferences> {
        for (name, wanted) in &update.0 {
            let Some(event) = Event::ALL.into_iter().find(|event| event.name() == name) else {
                return Err(Error::bad_request(format!("{name}: there is no such email event")));
            };
            if event.is_critical() && !wanted {
                return Err(Error::bad_request(format!("{name}: this mail is always sent")));
            }
        }
        self.store
            .write("set_notification_preferences", async |conn: &mut Conn| {
                self.signed_in_user(conn, tenant, user).await?;
                for (event, wanted) in &update.0 {
                    users::set_optout(conn, tenant, user, event, *wanted).await?;
                }
                self.preferences(conn, tenant, user).await
            })
            .await
    }

    async fn preferences(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        user: UserId,
    ) -> Result<NotificationPreferences> {
        let unwanted: BTreeSet<String> = users::optouts(conn, tenant, user).await?.into_iter().collect();
        let preferences = Event::ALL.into_iter().map(|event| {
            let Told(name, label, description, critical) = event.told();
            NotificationPreference {
                event: name.to_owned(),
                label: label.to_owned(),
                description: description.to_owned(),
                enabled: critical || !unwanted.contains(name),
                critical,
            }
        });
        Ok(NotificationPreferences { preferences: preferences.collect() })
    }

    /// Queues a letter to everybody of the account who wants it, within a transaction of the caller's.
    pub(crate) async fn mail_tenant(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        event: Event,
        letter: impl Fn(&str) -> Mail,
    ) -> Result<()> {
        for user in users::recipients(conn, tenant, event.name()).await? {
            self.mail_user(conn, &user, &letter(&user.email)).await?;
        }
        Ok(())
    }

    /// Queues a letter to one person, within a transaction of the caller's.
    pub(crate) async fn mail_user(&self, conn: &mut Conn, user: &User, letter: &Mail) -> Result<()> {
        tracing::debug!(event = letter.event, user = %user.user_id, "mail queued");
        Ok(self.mailer.enqueue(conn, user.tenant_id, letter, None).await?)
    }
}
