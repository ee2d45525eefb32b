//! Firings of rules: what happened, and what became of it.

use model::{Date, TenantId, Timestamp};
use uuid::Uuid;

use crate::db::bulk::insert_many;
use crate::db::connect::{execute, fetch_all, fetch_one};
use crate::{Conn, Result};

/// That a rule fired for an object.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Firing {
    /// Whose rule it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub firing_id: Uuid,
    /// The rule.
    pub rule_id: Uuid,
    /// The object; the firing goes with it.
    pub object_id: String,
    /// The condition as it was then.
    pub matched_when: String,
    /// JSON.
    pub signal_values: String,
    /// `email`, `slack` or `webhook`.
    pub action_type: String,
    /// `dispatched` or `error`.
    pub status: String,
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
            " ORDER BY fired_at DESC, firing_id DESC LIMIT $2"
        )
    };
}

/// Records firings.
pub async fn insert(conn: &mut Conn, firings: &[Firing]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        firings,
        "rule_firings",
        [
            ("tenant_id", "uuid", |row| row.tenant_id),
            ("firing_id", "uuid", |row| row.firing_id),
            ("rule_id", "uuid", |row| row.rule_id),
            ("object_id", "text", |row| row.object_id.as_str()),
            ("matched_when", "text", |row| row.matched_when.as_str()),
            ("signal_values", "text", |row| row.signal_values.as_str()),
            ("action_type", "text", |row| row.action_type.as_str()),
            ("status", "text", |row| row.status.as_str()),
            ("detail", "text", |row| row.detail.as_deref()),
            ("fired_at", "timestamptz", |row| row.fired_at),
        ],
        "",
    );
    Ok(())
}

/// The newest firings of a tenant: all, or those of a rule, about an object, or both.
pub async fn newest(
    conn: &mut Conn,
    tenant: TenantId,
    rule: Option<Uuid>,
    object_id: Option<&str>,
    limit: i64,
) -> Result<Vec<Firing>> {
    match (rule, object_id) {
        (None, None) => fetch_all!(conn, select!("WHERE tenant_id = $1"), tenant, limit),
        (Some(rule), None) => {
            fetch_all!(conn, select!("WHERE tenant_id = $1 AND rule_id = $3"), tenant, limit, rule)
        }
        (None, Some(object_id)) => {
            fetch_all!(conn, select!("WHERE tenant_id = $1 AND object_id = $3"), tenant, limit, object_id)
        }
        (Some(rule), Some(object_id)) => fetch_all!(
            conn,
            select!("WHERE tenant_id = $1 AND object_id = $3 AND rule_id = $4"),
            tenant,
            limit,
            object_id,
            rule
        ),
    }
}

/// Writes down what became of a firing's action. Nothing happens where the firing has gone with its object.
pub async fn settle(
    conn: &mut Conn,
    tenant: TenantId,
    firing: Uuid,
    status: &str,
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

/// Messages that rules want to send on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Mails.
    pub mails: i64,
    /// Messages to a chat.
    pub chats: i64,
}

/// Counts messages that rules want to send on a day; says how many were wanted before these.
pub async fn tally(conn: &mut Conn, tenant: TenantId, day: Date, wanted: Tally) -> Result<Tally> {
    let (mails, chats): (i64, i64) = fetch_one!(
        conn,
        "INSERT INTO rule_mail_tallies (tenant_id, day, mails, chats) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant_id, day) DO UPDATE
         SET mails = rule_mail_tallies.mails + excluded.mails, chats = rule_mail_tallies.chats + excluded.chats
         RETURNING mails, chats",
        tenant,
        day,
        wanted.mails,
        wanted.chats
    )?;
    Ok(Tally { mails: mails - wanted.mails, chats: chats - wanted.chats })
}

/// Removes up to `most` firings of a tenant from before an instant.
pub async fn drop_before(conn: &mut Conn, tenant: TenantId, before: Timestamp, most: i64) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM rule_firings WHERE (tenant_id, firing_id) IN (
             SELECT tenant_id, firing_id FROM rule_firings WHERE tenant_id = $1 AND fired_at < $2
             ORDER BY fired_at LIMIT $3)",
        tenant,
        before,
        most
    )
}

/// Removes a tenant's counts of messages from before a day.
pub async fn drop_tallies(conn: &mut Conn, tenant: TenantId, before: Date) -> Result<u64> {
    execute!(conn, "DELETE FROM rule_mail_tallies WHERE tenant_id = $1 AND day < $2", tenant, before)
}
