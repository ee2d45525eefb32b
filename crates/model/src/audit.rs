//! What the audit log records: the actions, and the transactions that carry them out.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the texts below say it")]
pub enum AuditAction {
    #[serde(rename = "session.opened")]
    SessionOpened,
    #[serde(rename = "session.failed")]
    SessionFailed,
    #[serde(rename = "session.ended")]
    SessionEnded,
    #[serde(rename = "password.changed")]
    PasswordChanged,
    #[serde(rename = "password.reset")]
    PasswordReset,
    #[serde(rename = "address.proved")]
    AddressProved,
    #[serde(rename = "mfa.enabled")]
    MfaEnabled,
    #[serde(rename = "mfa.disabled")]
    MfaDisabled,
    #[serde(rename = "passkey.added")]
    PasskeyAdded,
    #[serde(rename = "passkey.renamed")]
    PasskeyRenamed,
    #[serde(rename = "passkey.removed")]
    PasskeyRemoved,
    #[serde(rename = "identity.linked")]
    IdentityLinked,
    #[serde(rename = "identity.unlinked")]
    IdentityUnlinked,
    #[serde(rename = "member.joined")]
    MemberJoined,
    #[serde(rename = "member.updated")]
    MemberUpdated,
    #[serde(rename = "member.removed")]
    MemberRemoved,
    #[serde(rename = "invitation.created")]
    InvitationCreated,
    #[serde(rename = "invitation.withdrawn")]
    InvitationWithdrawn,
    #[serde(rename = "api_key.created")]
    ApiKeyCreated,
    #[serde(rename = "api_key.updated")]
    ApiKeyUpdated,
    #[serde(rename = "api_key.rotated")]
    ApiKeyRotated,
    #[serde(rename = "api_key.revoked")]
    ApiKeyRevoked,
    #[serde(rename = "signal.updated")]
    SignalUpdated,
    #[serde(rename = "signal.deleted")]
    SignalDeleted,
    #[serde(rename = "calibration.fitted")]
    CalibrationFitted,
    #[serde(rename = "calibration.switched")]
    CalibrationSwitched,
    #[serde(rename = "escalation.updated")]
    EscalationUpdated,
    #[serde(rename = "rule.created")]
    RuleCreated,
    #[serde(rename = "rule.updated")]
    RuleUpdated,
    #[serde(rename = "rule.deleted")]
    RuleDeleted,
    #[serde(rename = "webhook.created")]
    WebhookCreated,
    #[serde(rename = "webhook.updated")]
    WebhookUpdated,
    #[serde(rename = "webhook.rotated")]
    WebhookRotated,
    #[serde(rename = "webhook.deleted")]
    WebhookDeleted,
    #[serde(rename = "settings.updated")]
    SettingsUpdated,
    #[serde(rename = "account.deletion_requested")]
    AccountDeletionRequested,
    #[serde(rename = "account.deletion_cancelled")]
    AccountDeletionCancelled,
    #[serde(rename = "object.deleted")]
    ObjectDeleted,
    #[serde(rename = "export.started")]
    ExportStarted,
}

crate::text_values!(AuditAction {
    SessionOpened = "session.opened",
    SessionFailed = "session.failed",
    SessionEnded = "session.ended",
    PasswordChanged = "password.changed",
    PasswordReset = "password.reset",
    AddressProved = "address.proved",
    MfaEnabled = "mfa.enabled",
    MfaDisabled = "mfa.disabled",
    PasskeyAdded = "passkey.added",
    PasskeyRenamed = "passkey.renamed",
    PasskeyRemoved = "passkey.removed",
    IdentityLinked = "identity.linked",
    IdentityUnlinked = "identity.unlinked",
    MemberJoined = "member.joined",
    MemberUpdated = "member.updated",
    MemberRemoved = "member.removed",
    InvitationCreated = "invitation.created",
    InvitationWithdrawn = "invitation.withdrawn",
    ApiKeyCreated = "api_key.created",
    ApiKeyUpdated = "api_key.updated",
    ApiKeyRotated = "api_key.rotated",
    ApiKeyRevoked = "api_key.revoked",
    SignalUpdated = "signal.updated",
    SignalDeleted = "signal.deleted",
    CalibrationFitted = "calibration.fitted",
    CalibrationSwitched = "calibration.switched",
    EscalationUpdated = "escalation.updated",
    RuleCreated = "rule.created",
    RuleUpdated = "rule.updated",
    RuleDeleted = "rule.deleted",
    WebhookCreated = "webhook.created",
    WebhookUpdated = "webhook.updated",
    WebhookRotated = "webhook.rotated",
    WebhookDeleted = "webhook.deleted",
    SettingsUpdated = "settings.updated",
    AccountDeletionRequested = "account.deletion_requested",
    AccountDeletionCancelled = "account.deletion_cancelled",
    ObjectDeleted = "object.deleted",
    ExportStarted = "export.started",
});

impl AuditAction {
    /// What the transaction of this name does, if that is recorded. The store writes a line for it before the transaction
    /// commits, so no use case and no route can forget one.
    pub fn of_transaction(name: &str) -> Option<Self> {
        Some(match name {
            "end_session" | "end_other_sessions" | "log_out" => Self::SessionEnded,
            "change_password" => Self::PasswordChanged,
            "mfa_enable" => Self::MfaEnabled,
            "mfa_disable" | "reset_mfa" => Self::MfaDisabled,
            "add_passkey" => Self::PasskeyAdded,
            "rename_passkey" => Self::PasskeyRenamed,
            "remove_passkey" => Self::PasskeyRemoved,
            "link_identity" => Self::IdentityLinked,
            "unlink_identity" => Self::IdentityUnlinked,
            "create_user" => Self::MemberJoined,
            "update_member" => Self::MemberUpdated,
            "remove_member" => Self::MemberRemoved,
            "create_invitation" => Self::InvitationCreated,
            "withdraw_invitation" => Self::InvitationWithdrawn,
            "create_api_key" | "import_legacy_key" => Self::ApiKeyCreated,
            "update_api_key" => Self::ApiKeyUpdated,
            "rotate_api_key" => Self::ApiKeyRotated,
            "revoke_api_key" => Self::ApiKeyRevoked,
            "put_signal" | "restore_signal" | "adopt_trial" => Self::SignalUpdated,
            "keep_calibration" => Self::CalibrationFitted,
            "set_calibration" => Self::CalibrationSwitched,
            "set_escalation" => Self::EscalationUpdated,
            "delete_signal" => Self::SignalDeleted,
            "create_rule" => Self::RuleCreated,
            "update_rule" => Self::RuleUpdated,
            "delete_rule" => Self::RuleDeleted,
            "create_webhook" => Self::WebhookCreated,
            "update_webhook" => Self::WebhookUpdated,
            "rotate_webhook_secret" => Self::WebhookRotated,
            "delete_webhook" => Self::WebhookDeleted,
            "update_settings" => Self::SettingsUpdated,
            "request_deletion" => Self::AccountDeletionRequested,
            "cancel_deletion" => Self::AccountDeletionCancelled,
            "delete_object" => Self::ObjectDeleted,
            "start_export" => Self::ExportStarted,
            _ => return None,
        })
    }

    /// The kind of thing that it is done to: what stands before the dot.
    pub fn target_kind(self) -> &'static str {
        self.as_str().split('.').next().unwrap_or_default()
    }
}
