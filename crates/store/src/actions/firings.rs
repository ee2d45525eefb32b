//! Firings of rules, and the results of their actions.

use std::collections::BTreeMap;

use model::api::{ActionType, FiringStatus};
use model::{Date, TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Chosen, Conn, Result, Rows, execute, fetch_all, fetch_one};

/// A rule that fired for an object.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Firing {
    /// Whose rule it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub firing_id: Uuid,
    /// The rule.
    pub rule_id: Uuid,
    /// The object; the firing is deleted with it.
    pub object_id: String,
    /// The condition as it was then.
    pub matched_when: String,
    /// JSON.
    pub signal_values: String,
    /// What was to happen.
    pub action_type: ActionType,
    /// Whether it did.
    pub status: FiringStatus,
    /// The error, or a short note of success.
    pub detail: Option<String>,
    /// When.
    pub fired_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, firing_id, rule_id, object_id, matched_when, signal_values, action_type, status, detail, \
             fired_at FROM rule_firings ",
            $rest,
            " AND (fired_at, firing_id) < ($2, $3) ORDER BY fired_at DESC, firing_id DESC LIMIT $4"
        )
    };
}

/// Records firings.
pub async fn insert(conn: &mut Conn, firings: &[Firing]) -> Result<()> {
    Rows::of(firings)
        .column("tenant_id", |firing| firing.tenant_id)
        .column("firing_id", |firing| firing.firing_id)
        .column("rule_id", |firing| firing.rule_id)
        .column("object_id", |firing| firing.object_id.as_str())
        .column("matched_when", |firing| firing.matched_when.as_str())
        .column("signal_values", |firing| firing.signal_values.as_str())
        .column("action_type", |firing| firing.action_type.as_str())
        .column("status", |firing| firing.status.as_str())
        .column("detail", |firing| firing.detail.as_deref())
        .column("fired_at", |firing| firing.fired_at)
        .insert("rule_firings", "")
        .execute(conn)
        .await?;
    Ok(())
}

/// Counts firings on the days on which they fired, in key order.
pub async fn count_by_day(conn: &mut Conn, firings: &[Firing], shard: i64) -> Result<()> {
    let mut days: BTreeMap<(TenantId, Date), i64> = BTreeMap::new();
    for firing in firings {
        *days.entry((firing.tenant_id, firing.fired_at.date())).or_default() += 1;
    }
    let rows: Vec<_> = days.into_iter().collect();
    Rows::of(&rows)
        .column("tenant_id", |row| row.0.0)
        .column("day", |row| row.0.1)
        .column("shard", |_| shard)
        .column("firings", |row| row.1)
        .insert(
            "firing_days",
            "ON CONFLICT (tenant_id, day, shard) DO UPDATE SET firings = firing_days.firings + excluded.firings",
        )
        .execute(conn)
        .await?;
    Ok(())
}

/// Which firings of a tenant are listed: all, or those of a rule, about an object, or both.
#[derive(Clone, Copy, Debug, Default)]
pub struct FiringFilter<'a> {
    /// Only those of this rule.
    pub rule: Option<Uuid>,
    /// Only those about this object.
    pub object_id: Option<&'a str>,
    /// Only those before this time and id, in the order of the list.
    pub before: Option<(Timestamp, Uuid)>,
}

/// The newest firings of a tenant.
pub async fn newest(
    conn: &mut Conn,
    tenant: TenantId,
    filter: FiringFilter<'_>,
    limit: i64,
) -> Result<Vec<Firing>> {
    let (at, id) = filter.before.unwrap_or((Timestamp::MAX, Uuid::max()));
    match (filter.rule, filter.object_id) {
        (None, None) => fetch_all!(
            conn,
            select!("WHERE tenant_id = $1 AND action_type <> 'newest'"),
            tenant,
            at,
            id,
            limit
        ),
        // Conditions that always hold state which index serves (ADR 10).
        (Some(rule), None) => {
            let text = select!("WHERE tenant_id = $1 AND rule_id = $5 AND action_type <> 'of a rule'");
            fetch_all!(conn, text, tenant, at, id, limit, rule)
        }
        (None, Some(object_id)) => {
            let text = select!("WHERE tenant_id = $1 AND object_id = $5 AND action_type <> 'of an object'");
            fetch_all!(conn, text, tenant, at, id, limit, object_id)
        }
        (Some(rule), Some(object_id)) => {
            let text = select!(
                "WHERE tenant_id = $1 AND object_id = $5 AND rule_id = $6 AND action_type <> 'of an object'"
            );
            fetch_all!(conn, text, tenant, at, id, limit, object_id, rule)
        }
    }
}

/// Stores the result of a firing's action. Nothing happens if the firing was deleted with its object.
pub async fn settle(
    conn: &mut Conn,
    tenant: TenantId,
    firing: Uuid,
    status: FiringStatus,
    detail: &str,
) -> Result<()> {
    execute!(
        conn,
        "UPDATE rule_firings SET status = $3, detail = $4 WHERE tenant_id = $1 AND firing_id = $2",
        tenant,
        firing,
        status,
        detail
    )?;
    Ok(())
}

/// How many messages rules send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Emails.
    pub mails: i64,
    /// Chat messages.
    pub chats: i64,
}

/// Counts messages that rules are about to send on a day; returns how many were counted before these.
pub async fn count_messages(
    conn: &mut Conn,
    tenant: TenantId,
    day: Date,
    new: MessageCounts,
) -> Result<MessageCounts> {
    let (mails, chats): (i64, i64) = fetch_one!(
        conn,
        "INSERT INTO rule_mail_tallies (tenant_id, day, mails, chats) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant_id, day) DO UPDATE
         SET mails = rule_mail_tallies.mails + excluded.mails, chats = rule_mail_tallies.chats + excluded.chats
         RETURNING mails, chats",
        tenant,
        day,
        new.mails,
        new.chats
    )?;
    Ok(MessageCounts { mails: mails - new.mails, chats: chats - new.chats })
}

/// Removes up to `limit` firings of a tenant from before an instant.
pub async fn drop_before(conn: &mut Conn, tenant: TenantId, before: Timestamp, limit: i64) -> Result<u64> {
    let firings = Chosen {
        table: "rule_firings",
        key: &["tenant_id", "firing_id"],
        rows: "WHERE tenant_id = $1 AND fired_at < $2 AND action_type <> 'newest' ORDER BY fired_at LIMIT $3",
        is_of_tenant: true,
    };
    let statement = firings.delete(conn);
    execute!(conn, AssertSqlSafe(statement), tenant, before, limit)
}

/// Removes a tenant's message counts from before a day.
pub async fn drop_message_counts(conn: &mut Conn, tenant: TenantId, before: Date) -> Result<u64> {
    execute!(conn, "DELETE FROM rule_mail_tallies WHERE tenant_id = $1 AND day < $2", tenant, before)
}
