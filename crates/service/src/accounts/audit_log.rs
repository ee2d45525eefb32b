//! The audit log of an account, and the check of its chain.

use model::api::{AuditActor, AuditEntry, AuditLogPage, AuditTarget};
use model::{AuditAction, TenantId};
use serde::{Deserialize, Serialize};
use store::accounts::audit_log::{self, Line, LineFilter};
use store::accounts::tenants;
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{Error, Result, cursor, internal};

const LISTED: i64 = 50;
/// Lines that are checked at a time.
const STEP: i64 = 1_000;

/// Which lines are listed.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only those of the user or key with this id.
    pub actor: Option<Uuid>,
    /// Only those of this action.
    pub action: Option<String>,
    /// The page size.
    pub limit: Option<i64>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct AuditCursor {
    actor: Option<Uuid>,
    action: Option<String>,
    seq: i64,
}

/// What a check of all chains found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainReport {
    /// Lines that were checked.
    pub lines: u64,
    /// What is wrong: the account, and what was found.
    pub breaks: Vec<(TenantId, String)>,
}

/// The audit logs of all accounts.
pub struct AuditLog {
    pub(crate) store: Store,
    /// For the check, which reads whole chains.
    pub(crate) maintenance: Store,
}

impl AuditLog {
    /// A page of the log of an account, newest first.
    pub async fn list(&self, tenant: TenantId, query: &AuditQuery) -> Result<AuditLogPage> {
        let limit = query.limit.unwrap_or(LISTED);
        cursor::check_page_size(limit, cursor::MAX_PAGE)?;
        if let Some(action) = &query.action
            && !AuditAction::ALL.iter().any(|known| known.as_str() == action)
        {
            return Err(Error::bad_request("action: there is no such action"));
        }
        let is_of_list = |cursor: &AuditCursor| cursor.actor == query.actor && cursor.action == query.action;
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let filter = LineFilter {
            actor: query.actor,
            action: query.action.as_deref(),
            before: cursor.map(|cursor| cursor.seq),
        };
        let lines = self
            .store
            .read("audit_log", async |conn| audit_log::newest(conn, tenant, filter, limit + 1).await)
            .await?;
        let (lines, last) = cursor::cut(lines, limit);
        let next_cursor = last.map(|last| {
            cursor::encode(&AuditCursor { actor: query.actor, action: query.action.clone(), seq: last.seq })
        });
        Ok(AuditLogPage { entries: lines.into_iter().map(record).collect::<Result<_>>()?, next_cursor })
    }

    /// Checks the chains of all accounts: that no line was changed, added or removed.
    pub async fn check(&self) -> Result<ChainReport> {
        let mut report = ChainReport::default();
        let tenants = self.store.read("tenants", async |conn| tenants::all(conn).await).await?;
        for tenant in tenants {
            let tenant = tenant.tenant_id;
            let checked = self
                .maintenance
                .snapshot("check_audit_log", async |conn: &mut Conn| check_chain(conn, tenant).await)
                .await?;
            match checked {
                Ok(lines) => report.lines += lines,
                Err(reason) => report.breaks.push((tenant, reason)),
            }
        }
        Ok(report)
    }
}

/// Follows the chain of one account. The inner error says where it breaks.
async fn check_chain(conn: &mut Conn, tenant: TenantId) -> Result<std::result::Result<u64, String>> {
    // Every account has one from its first day, lines or not.
    let Some(chain) = audit_log::chain(conn, tenant).await? else {
        return Ok(Err("its chain is gone".to_owned()));
    };
    let (mut seq, mut hash, mut lines) = (chain.swept_seq, chain.swept_hash, 0);
    loop {
        let page = audit_log::after(conn, tenant, seq, STEP).await?;
        if page.is_empty() {
            break;
        }
        for line in page {
            if line.seq != seq + 1 {
                return Ok(Err(format!("line {} is missing", seq + 1)));
            }
            if line.hash_after(&hash) != line.hash || line.derived_id() != line.entry_id {
                return Ok(Err(format!("line {} is not what was written", line.seq)));
            }
            (seq, hash) = (line.seq, line.hash);
            lines += 1;
        }
    }
    if (seq, &hash) != (chain.seq, &chain.hash) {
        return Ok(Err(format!("the log ends at line {seq}, and {} were written", chain.seq)));
    }
    Ok(Ok(lines))
}

/// A line of the log as the API shows it.
pub(crate) fn record(line: Line) -> Result<AuditEntry> {
    let json =
        |text: Option<String>| text.map(|text| serde_json::from_str(&text)).transpose().map_err(internal);
    let action = AuditAction::ALL.into_iter().find(|action| action.as_str() == line.action);
    Ok(AuditEntry {
        id: line.entry_id,
        at: line.at,
        actor: AuditActor { kind: line.actor_kind, id: line.actor_id, name: line.actor_name },
        action: action.ok_or_else(|| internal(format!("{} is no action", line.action)))?,
        target: AuditTarget { kind: line.target_kind, id: line.target_id },
        address: line.address,
        request_id: line.request_id,
        before: json(line.before)?,
        after: json(line.after)?,
    })
}
