//! Writes the audit log: each named transaction that changes something on record leaves one line, written before it commits.
//!
//! Whoever handles a request says who is acting ([`acting`]); a use case may add what it changes ([`note`]). Everything else
//! happens in [`Store::write`](crate::Store::write), so that no use case can forget it. The lines of a tenant are a chain: each
//! has a hash over itself and over the hash of the one before.

use std::sync::{Arc, Mutex, PoisonError};

use model::api::AuditActorKind;
use model::{AuditAction, TenantId, Timestamp};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::db::conn::Conn;
use crate::db::error::Result;
use crate::db::statement::{execute, expect_one, fetch_one, fetch_optional};

tokio::task_local! {
    /// Who is acting in this task.
    static ACTING: Arc<Acting>;
}

/// Who is acting, and on whose behalf.
struct Acting {
    actor: Actor,
    tenant: Option<TenantId>,
    origin: Origin,
    note: Mutex<Note>,
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// A user, a key or the operator.
    pub kind: AuditActorKind,
    /// The id of the user or the key.
    pub id: Option<Uuid>,
}

/// Where a request comes from, and when it came.
#[derive(Clone, Debug)]
pub struct Origin {
    /// When.
    pub at: Timestamp,
    /// The client's address.
    pub address: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
}

/// What a use case says about its change.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Whose account it is, where the actor belongs to none.
    pub tenant: Option<TenantId>,
    /// What is changed: an id or a key.
    pub target: String,
    /// The record before, as JSON without secrets.
    pub before: Option<String>,
    /// The record after, as JSON without secrets.
    pub after: Option<String>,
}

/// A line about to be written.
#[derive(Clone, Debug)]
pub struct NewLine<'a> {
    /// The account.
    pub tenant: TenantId,
    /// Who.
    pub actor: Actor,
    /// What.
    pub action: AuditAction,
    /// From where, and when.
    pub origin: &'a Origin,
    /// To what, before and after.
    pub note: &'a Note,
}

/// Runs work on behalf of an actor of a tenant; the operator belongs to none.
pub async fn acting<F: Future>(actor: Actor, tenant: Option<TenantId>, origin: Origin, work: F) -> F::Output {
    let acting = Acting { actor, tenant, origin, note: Mutex::default() };
    ACTING.scope(Arc::new(acting), work).await
}

/// Says what the transaction that is running changes. Where nobody is acting, that is nobody's business.
pub fn note(note: Note) {
    let _ = ACTING.try_with(|acting| *acting.note.lock().unwrap_or_else(PoisonError::into_inner) = note);
}

/// Writes the line of a transaction that is about to commit, if there is one.
pub(crate) async fn conclude(conn: &mut Conn, transaction: &str) -> Result<()> {
    let Some(action) = AuditAction::of_transaction(transaction) else { return Ok(()) };
    let Ok(acting) = ACTING.try_with(Arc::clone) else { return Ok(()) };
    let note = acting.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(tenant) = acting.tenant.or(note.tenant) else { return Ok(()) };
    let line = NewLine { tenant, actor: acting.actor, action, origin: &acting.origin, note: &note };
    append(conn, &line).await
}

/// Adds a line about something else that the transaction changes, on behalf of who is acting. To be called last: the chain of the
/// tenant is locked from then on.
pub async fn also(conn: &mut Conn, action: AuditAction, note: &Note) -> Result<()> {
    let Ok(acting) = ACTING.try_with(Arc::clone) else { return Ok(()) };
    let Some(tenant) = acting.tenant.or(note.tenant) else { return Ok(()) };
    append(conn, &NewLine { tenant, actor: acting.actor, action, origin: &acting.origin, note }).await
}

/// Begins the chain of a tenant, unless it has one.
pub(crate) async fn begin_chain(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    execute!(
        conn,
        "INSERT INTO audit_chains (tenant_id, swept_seq, swept_hash, seq, hash) VALUES ($1, 0, $2, 0, $2)
         ON CONFLICT (tenant_id) DO NOTHING",
        tenant,
        [0u8; 32].as_slice()
    )?;
    Ok(())
}

/// Adds a line to the chain of its tenant, in the caller's transaction.
pub async fn append(conn: &mut Conn, line: &NewLine<'_>) -> Result<()> {
    begin_chain(conn, line.tenant).await?;
    // Locked until the end of the transaction, so that lines of a tenant come one after the other.
    let (seq, previous): (i64, Vec<u8>) = fetch_one!(
        conn,
        "UPDATE audit_chains SET seq = seq + 1 WHERE tenant_id = $1 RETURNING seq, hash",
        line.tenant
    )?;
    let actor_name = actor_name(conn, line).await?;
    let mut row = Line {
        tenant_id: line.tenant,
        seq,
        entry_id: Uuid::nil(),
        at: line.origin.at,
        actor_kind: line.actor.kind,
        actor_id: line.actor.id,
        actor_name,
        action: line.action.as_str().to_owned(),
        target_kind: line.action.target_kind().to_owned(),
        target_id: match (line.note.target.as_str(), line.actor.id) {
            // What people do about themselves.
            ("", Some(actor)) => actor.to_string(),
            (target, _) => target.to_owned(),
        },
        address: line.origin.address.clone(),
        request_id: line.origin.request_id.clone(),
        before: line.note.before.clone(),
        after: line.note.after.clone(),
        hash: Vec::new(),
    };
    row.hash = row.hash_after(&previous);
    row.entry_id = row.derived_id();
    insert(conn, &row).await?;
    expect_one(execute!(
        conn,
        "UPDATE audit_chains SET hash = $2 WHERE tenant_id = $1",
        row.tenant_id,
        &row.hash
    )?)
}

async fn insert(conn: &mut Conn, row: &Line) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO audit_log (tenant_id, seq, entry_id, at, actor_kind, actor_id, actor_name, action, target_kind,
             target_id, address, request_id, before, after, hash)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        row.tenant_id,
        row.seq,
        row.entry_id,
        row.at,
        row.actor_kind,
        row.actor_id,
        &row.actor_name,
        &row.action,
        &row.target_kind,
        &row.target_id,
        &row.address,
        &row.request_id,
        &row.before,
        &row.after,
        &row.hash
    )?)
}

/// What the actor is called now. Whoever has just removed themselves has no name any more.
async fn actor_name(conn: &mut Conn, line: &NewLine<'_>) -> Result<String> {
    let found: Option<(String,)> = match line.actor.kind {
        AuditActorKind::User => fetch_optional!(
            conn,
            "SELECT email FROM users WHERE tenant_id = $1 AND user_id = $2",
            line.tenant,
            line.actor.id
        )?,
        AuditActorKind::Key => fetch_optional!(
            conn,
            "SELECT name FROM api_keys WHERE tenant_id = $1 AND key_id = $2",
            line.tenant,
            line.actor.id
        )?,
        AuditActorKind::Operator => Some(("operator".to_owned(),)),
    };
    Ok(found.map_or_else(|| "(removed)".to_owned(), |(name,)| name))
}

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema")]
pub struct Line {
    pub tenant_id: TenantId,
    pub seq: i64,
    pub entry_id: Uuid,
    pub at: Timestamp,
    pub actor_kind: AuditActorKind,
    pub actor_id: Option<Uuid>,
    pub actor_name: String,
    pub action: String,
    pub target_kind: String,
    pub target_id: String,
    pub address: Option<String>,
    pub request_id: Option<String>,
    pub before: Option<String>,
    pub after: Option<String>,
    pub hash: Vec<u8>,
}

impl Line {
    /// The id that this line has: a UUID v7 from its time and its hash, so that it is as unaltered as they are.
    pub fn derived_id(&self) -> Uuid {
        let millis = u64::try_from(self.at.micros() / 1_000).unwrap_or(0);
        let mut bits = [0; 10];
        bits.iter_mut().zip(&self.hash).for_each(|(bit, byte)| *bit = *byte);
        uuid::Builder::from_unix_timestamp_millis(millis, &bits).into_uuid()
    }

    /// The hash that this line has after one with the hash `previous`. Each part has its length before it, so that nothing can
    /// be moved from one to the next.
    pub fn hash_after(&self, previous: &[u8]) -> Vec<u8> {
        let mut hasher = Sha256::new();
        let mut add = |part: Option<&[u8]>| {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(length.to_be_bytes());
            hasher.update(part.unwrap_or_default());
        };
        add(Some(previous));
        add(Some(self.tenant_id.0.as_bytes()));
        add(Some(&self.seq.to_be_bytes()));
        add(Some(&self.at.micros().to_be_bytes()));
        add(Some(self.actor_kind.as_str().as_bytes()));
        add(self.actor_id.as_ref().map(|id| id.as_bytes().as_slice()));
        let texts = [&self.actor_name, &self.action, &self.target_kind, &self.target_id];
        for text in texts {
            add(Some(text.as_bytes()));
        }
        for text in [&self.address, &self.request_id, &self.before, &self.after] {
            add(text.as_ref().map(String::as_bytes));
        }
        hasher.finalize().to_vec()
    }
}
