//! What a use case says to the audit log about its change. The store writes the line itself, with who is acting.

use model::api::AuditActorKind;
use model::{AuditAction, Provider, TenantId, UserId};
use serde::Serialize;
use serde_json::Value;
use store::Conn;
use store::accounts::audit_log::{self, Actor, NewLine, Note, Origin};
use url::Url;

use crate::runtime::{Caller, Credential, Result};

/// The longest record that a line keeps; of a longer one it only says so.
const MAX_RECORD: usize = 16 * 1024;
/// Fields that are secrets, or lead to something with one.
const SECRET_FIELDS: [&str; 5] = ["secret", "token", "password", "webhook_url", "code"];

/// Runs the work of a request on behalf of its caller.
pub async fn acting_as<F: Future>(caller: Caller, origin: Origin, work: F) -> F::Output {
    let actor = match caller.credential {
        Credential::Console { user, .. } => Actor { kind: AuditActorKind::User, id: Some(user.0) },
        Credential::Key { key, .. } => Actor { kind: AuditActorKind::Key, id: Some(key.0) },
    };
    audit_log::acting(actor, Some(caller.tenant), origin, work).await
}

/// Runs a command of the operator, who belongs to no account.
pub async fn acting_as_operator<F: Future>(origin: Origin, work: F) -> F::Output {
    audit_log::acting(Actor { kind: AuditActorKind::Operator, id: None }, None, origin, work).await
}

/// Says what a transaction changes: the record before and after, from which secrets are left out.
pub(crate) fn note(
    tenant: TenantId,
    target: impl ToString,
    before: Option<&impl Serialize>,
    after: Option<&impl Serialize>,
) {
    let (before, after) = (before.and_then(shown), after.and_then(shown));
    audit_log::note(Note { tenant: Some(tenant), target: target.to_string(), before, after });
}

/// No record before or after.
pub(crate) const NONE: Option<&()> = None;

/// Adds a line about a member who is signing in, in the caller's transaction.
pub(crate) async fn record_sign_in(
    conn: &mut Conn,
    action: AuditAction,
    (tenant, user): (TenantId, UserId),
    origin: &Origin,
) -> Result<()> {
    let actor = Actor { kind: AuditActorKind::User, id: Some(user.0) };
    let note = Note { target: user.to_string(), ..Note::default() };
    Ok(audit_log::append(conn, &NewLine { tenant, actor, action, origin, note: &note }).await?)
}

/// Adds a line about a provider account that a member's sign-in has linked, in the caller's transaction.
pub(crate) async fn record_linked(
    conn: &mut Conn,
    (tenant, user): (TenantId, UserId),
    provider: Provider,
    origin: &Origin,
) -> Result<()> {
    let actor = Actor { kind: AuditActorKind::User, id: Some(user.0) };
    let note = Note { target: provider.to_string(), ..Note::default() };
    let action = AuditAction::IdentityLinked;
    Ok(audit_log::append(conn, &NewLine { tenant, actor, action, origin, note: &note }).await?)
}

/// Adds a line about a member who has just proved their address for the first time, and what that ended or kept.
pub(crate) async fn record_first_proof(
    conn: &mut Conn,
    (tenant, user): (TenantId, UserId),
    origin: &Origin,
    outcome: &Value,
) -> Result<()> {
    let actor = Actor { kind: AuditActorKind::User, id: Some(user.0) };
    // What ended is counted, and tells nothing of what it was; it has no field that is a secret.
    let note = Note { target: user.to_string(), after: Some(outcome.to_string()), ..Note::default() };
    let action = AuditAction::AddressProved;
    Ok(audit_log::append(conn, &NewLine { tenant, actor, action, origin, note: &note }).await?)
}

/// A record as JSON without secrets.
fn shown(record: &impl Serialize) -> Option<String> {
    let mut value = serde_json::to_value(record).ok()?;
    redact(&mut value);
    let text = value.to_string();
    Some(if text.len() <= MAX_RECORD { text } else { r#"{"too_long":true}"#.to_owned() })
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !SECRET_FIELDS.contains(&name.as_str()));
            for (name, field) in fields {
                match field {
                    // Paths and queries of receivers often hold a token.
                    Value::String(text) if name == "url" => *text = origin_of(text),
                    field => redact(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

fn origin_of(url: &str) -> String {
    Url::parse(url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_left_out_of_records() {
        let record = json!({"name": "x", "secret": "sk_1", "url": "https://h.example/hook?token=1",
            "action_config": {"webhook_url": "https://chat.example/secret", "to": "a@b.c"}, "list": [{"token": 1}]});
        let expected =
            json!({"name": "x", "url": "https://h.example", "action_config": {"to": "a@b.c"}, "list": [{}]});
        assert_eq!(shown(&record), Some(expected.to_string()));
    }

    #[test]
    fn a_record_that_is_too_long_is_not_kept() {
        assert_eq!(shown(&json!({"text": "x".repeat(20_000)})).as_deref(), Some(r#"{"too_long":true}"#));
    }
}
