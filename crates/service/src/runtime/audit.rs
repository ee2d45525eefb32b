//! What a use case says to the audit log about its change. The store writes the line itself, with who is acting.

use model::api::AuditActorKind;
use model::{AuditAction, TenantId, UserId};
use serde::Serialize;
use serde_json::{Value, json};
use store::Conn;
use store::accounts::audit_log::{self, Actor, NewLine, Note, Origin};
use url::Url;

use crate::runtime::{Caller, Credential, Result};

/// The longest record that a line keeps; of a longer one its long fields are cut.
const MAX_RECORD: usize = 16 * 1024;
/// How many characters of a text, and how many members of a list or an object, are kept of a record that is too long: the first that
/// makes it short enough.
const CUTS: [usize; 5] = [2_048, 512, 128, 32, 8];
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

/// Says what else a transaction changes: a line of its own, on behalf of who is acting. To be called last in the transaction.
pub(crate) async fn also(
    conn: &mut Conn,
    (tenant, action): (TenantId, AuditAction),
    target: impl ToString,
    before: Option<&impl Serialize>,
    after: Option<&impl Serialize>,
) -> Result<()> {
    let (before, after) = (before.and_then(shown), after.and_then(shown));
    let note = Note { tenant: Some(tenant), target: target.to_string(), before, after };
    Ok(audit_log::also(conn, action, &note).await?)
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

/// Why a sign-in failed, where it is not that a password, a code or a passkey was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailedBecause {
    /// The email or the client's address had failed too often. One line for each lockout.
    LockedOut,
    /// The password was right, and no code or passkey followed.
    SecondFactorMissing,
    /// The provider has not verified the email address.
    AddressUnverified,
    /// Email addresses of this domain may not sign in.
    DomainNotAllowed,
    /// The provider failed.
    ProviderError,
    /// The account is suspended.
    Suspended,
}

/// Adds a line about a sign-in of a member that has failed, in the caller's transaction.
pub(crate) async fn record_failed_sign_in(
    conn: &mut Conn,
    who: (TenantId, UserId),
    origin: &Origin,
    because: Option<FailedBecause>,
) -> Result<()> {
    let after = because.map(|because| json!({"reason": because}));
    let entrant = Entrant { who, origin };
    entrant.record(conn, AuditAction::SessionFailed, who.1, NONE, after.as_ref()).await
}

/// A member who changes something by signing in or by proving an address: the request is not theirs yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrant<'a> {
    /// The account and the member.
    pub(crate) who: (TenantId, UserId),
    /// Where the request comes from.
    pub(crate) origin: &'a Origin,
}

impl Entrant<'_> {
    /// Adds a line, in the caller's transaction.
    pub(crate) async fn record(
        self,
        conn: &mut Conn,
        action: AuditAction,
        target: impl ToString,
        before: Option<&impl Serialize>,
        after: Option<&impl Serialize>,
    ) -> Result<()> {
        let (tenant, user) = self.who;
        let actor = Actor { kind: AuditActorKind::User, id: Some(user.0) };
        let (before, after) = (before.and_then(shown), after.and_then(shown));
        let note = Note { tenant: Some(tenant), target: target.to_string(), before, after };
        let line = NewLine { tenant, actor, action, origin: self.origin, note: &note };
        Ok(audit_log::append(conn, &line).await?)
    }
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
    let mut text = value.to_string();
    for limit in CUTS {
        if text.len() <= MAX_RECORD {
            break;
        }
        let mut shorter = value.clone();
        cut(&mut shorter, limit);
        text = shorter.to_string();
    }
    Some(if text.len() <= MAX_RECORD { text } else { r#"{"too_long":true}"#.to_owned() })
}

/// Cuts every text, list and object to a length. What is left says how much is missing.
fn cut(value: &mut Value, limit: usize) {
    let more = |length: usize| format!("… ({} more)", length - limit);
    match value {
        Value::String(text) => {
            let length = text.chars().count();
            if length > limit {
                *text = text.chars().take(limit).collect::<String>() + &more(length);
            }
        }
        Value::Array(items) => {
            let length = items.len();
            items.truncate(limit);
            for item in items.iter_mut() {
                cut(item, limit);
            }
            if length > limit {
                items.push(Value::String(more(length)));
            }
        }
        Value::Object(fields) => {
            let length = fields.len();
            let mut kept = 0;
            fields.retain(|_, _| {
                kept += 1;
                kept <= limit
            });
            fields.values_mut().for_each(|field| cut(field, limit));
            if length > limit {
                fields.insert(more(length), Value::Null);
            }
        }
        _ => {}
    }
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

/// Scheme, host and port of a URL.
pub(crate) fn origin_of(url: &str) -> String {
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
    fn of_a_record_that_is_too_long_the_long_fields_are_cut() {
        let record =
            json!({"name": "Rude", "text": "ü".repeat(20_000), "list": vec!["y"; 5_000], "enabled": true});
        let text = shown(&record).unwrap();
        assert!(text.len() <= MAX_RECORD, "{}", text.len());
        let kept: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&kept["name"], &kept["enabled"]), (&json!("Rude"), &json!(true)));
        assert_eq!(kept["text"], format!("{}… (17952 more)", "ü".repeat(2_048)));
        let list = kept["list"].as_array().unwrap();
        assert_eq!((list.len(), &list[2_048]), (2_049, &json!("… (2952 more)")));
        let texts = vec!["z".repeat(1_000); 5_000];
        let kept: Value = serde_json::from_str(&shown(&json!({"list": texts})).unwrap()).unwrap();
        let list = kept["list"].as_array().unwrap();
        let missing = 5_000 - (list.len() - 1);
        assert_eq!(list.last(), Some(&json!(format!("… ({missing} more)"))), "however often it was cut");
        let short = json!({"text": "x".repeat(16_000)});
        assert_eq!(shown(&short), Some(short.to_string()));
    }

    #[test]
    fn of_a_record_with_very_many_fields_the_first_are_kept() {
        let fields: serde_json::Map<String, Value> =
            (0..5_000).map(|number| (format!("field-{number:04}"), json!("x".repeat(300)))).collect();
        let text = shown(&fields).unwrap();
        assert!(text.len() <= MAX_RECORD && text.contains("field-0000"), "{text}");
        let deep =
            (0..100).fold(json!("x".repeat(300)), |inner, _| json!({"a": inner, "b": ["x".repeat(300), 7]}));
        assert!(shown(&deep).unwrap().len() <= MAX_RECORD);
    }
}
