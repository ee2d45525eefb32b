//! The outbox: messages queued with the change that they report, and sent by a worker under a lease, at least once.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::claim_statements::ClaimStatements;
use crate::db::{Conn, Lease, Result, Rows, execute, fetch_all, fetch_optional};

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// By email.
    Mail,
    /// To a Slack webhook.
    Slack,
}

model::text_values!(Channel { Mail = "mail", Slack = "slack" });
model::sql_text!(Channel);

/// A message to be queued.
#[derive(Clone)]
pub struct NewMessage {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub message_id: Uuid,
    /// How it is sent.
    pub channel: Channel,
    /// Messages of one lane wait for each other only.
    pub lane: String,
    /// What it says, sealed.
    pub message: Vec<u8>,
    /// The object that it is about; it is deleted with the object.
    pub object_id: Option<String>,
    /// The firing that it reports.
    pub firing_id: Option<Uuid>,
    /// When it was queued; it is due at once.
    pub created_at: Timestamp,
}

/// A message that a worker has claimed.
#[derive(sqlx::FromRow)]
pub struct LeasedMessage {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub message_id: Uuid,
    /// Its lane.
    pub lane: String,
    /// What it says, sealed.
    pub message: Vec<u8>,
    /// The firing that it reports.
    pub firing_id: Option<Uuid>,
    /// How often it was tried, this time included.
    pub attempts: i64,
    /// Earlier claims since an attempt last ended: their processes have ended during it.
    pub unfinished_claims: i64,
    /// When it was queued.
    pub created_at: Timestamp,
}

/// Queues messages, in the transaction of the change that they report.
pub async fn enqueue(conn: &mut Conn, messages: &[NewMessage]) -> Result<()> {
    Rows::of(messages)
        .column("tenant_id", |message| message.tenant)
        .column("message_id", |message| message.message_id)
        .column("channel", |message| message.channel.as_str())
        .column("lane", |message| message.lane.as_str())
        .column("message", |message| message.message.as_slice())
        .column("object_id", |message| message.object_id.as_deref())
        .column("firing_id", |message| message.firing_id)
        .column("run_after", |message| message.created_at)
        .column("created_at", |message| message.created_at)
        .insert("outbox", "")
        .execute(conn)
        .await?;
    Ok(())
}

const QUEUE: ClaimStatements = ClaimStatements {
    table: "outbox",
    queue_column: "channel",
    row_column: "message_id",
    has_lanes: true,
    indexed: " AND attempts <> -2",
    claimed_by: " AND attempts <> -3",
    // Mails tell people about their account, also that it is suspended.
    waits_while_suspended: false,
};

/// The next tenant after another with a due message.
pub async fn next_tenant(
    conn: &mut Conn,
    channel: Channel,
    after: TenantId,
    now: Timestamp,
) -> Result<Option<TenantId>> {
    let statement = QUEUE.next_tenant(conn);
    let next: Option<(TenantId,)> = fetch_optional!(conn, AssertSqlSafe(statement), channel, after, now)?;
    Ok(next.map(|(tenant,)| tenant))
}

/// The lanes of a tenant with a due message.
pub async fn lanes(
    conn: &mut Conn,
    channel: Channel,
    tenant: TenantId,
    now: Timestamp,
) -> Result<Vec<String>> {
    // From lane to lane by the index, however many messages each has.
    let lanes: Vec<(String,)> = fetch_all!(
        conn,
        "WITH RECURSIVE lanes (lane) AS (
             SELECT lane FROM (SELECT lane FROM outbox WHERE channel = $1 AND tenant_id = $2 AND attempts <> -3
                                ORDER BY lane LIMIT 1) AS first
             UNION ALL
             SELECT (SELECT outbox.lane FROM outbox WHERE channel = $1 AND tenant_id = $2 AND outbox.lane > lanes.lane
                       AND attempts <> -3
                     ORDER BY outbox.lane LIMIT 1)
             FROM lanes WHERE lanes.lane IS NOT NULL
         )
         SELECT lane FROM lanes
         WHERE lane IS NOT NULL AND (SELECT 1 FROM outbox
             WHERE channel = $1 AND tenant_id = $2 AND outbox.lane = lanes.lane AND due_at <= $3 AND attempts <> -3
             LIMIT 1) = 1",
        channel,
        tenant,
        now
    )?;
    Ok(lanes.into_iter().map(|(lane,)| lane).collect())
}

/// Claims up to `limit` due messages of a tenant's lane, longest due first.
pub async fn claim(
    conn: &mut Conn,
    channel: Channel,
    (tenant, lane): (TenantId, &str),
    now: Timestamp,
    lease: Lease,
    limit: i64,
) -> Result<Vec<LeasedMessage>> {
    let returning = "tenant_id, message_id, lane, message, firing_id, attempts + 1 AS attempts,
                     begun - 1 AS unfinished_claims, created_at";
    let statement = QUEUE.claim(conn, "", returning);
    fetch_all!(conn, AssertSqlSafe(statement), channel, tenant, now, limit, lease.token, lease.until, lane)
}

/// Removes a message that was sent or given up; false when the lease was lost.
pub async fn finish(conn: &mut Conn, tenant: TenantId, message: Uuid, token: Uuid) -> Result<bool> {
    let removed = execute!(
        conn,
        "DELETE FROM outbox WHERE tenant_id = $1 AND message_id = $2 AND lease_token = $3",
        tenant,
        message,
        token
    )?;
    Ok(removed == 1)
}

/// Puts a message back until `run_after`; false when the lease was lost.
pub async fn retry(
    conn: &mut Conn,
    tenant: TenantId,
    message: Uuid,
    token: Uuid,
    run_after: Timestamp,
) -> Result<bool> {
    let put_back = execute!(
        conn,
        "UPDATE outbox SET run_after = $4, lease_token = NULL, lease_until = NULL, attempts = attempts + 1, begun = 0
         WHERE tenant_id = $1 AND message_id = $2 AND lease_token = $3",
        tenant,
        message,
        token,
        run_after
    )?;
    Ok(put_back == 1)
}

/// Puts a claimed message back that was not begun, until `run_after`.
pub async fn put_off(
    conn: &mut Conn,
    tenant: TenantId,
    message: Uuid,
    token: Uuid,
    run_after: Timestamp,
) -> Result<()> {
    execute!(
        conn,
        "UPDATE outbox SET run_after = $4, lease_token = NULL, lease_until = NULL, begun = begun - 1
         WHERE tenant_id = $1 AND message_id = $2 AND lease_token = $3",
        tenant,
        message,
        token,
        run_after
    )?;
    Ok(())
}

/// When the next message is due, or the next lease expires.
pub async fn next_due(conn: &mut Conn, channel: Channel) -> Result<Option<Timestamp>> {
    let due: Option<(Timestamp,)> = fetch_optional!(
        conn,
        "SELECT due_at FROM outbox WHERE channel = $1 AND attempts <> -1 ORDER BY due_at LIMIT 1",
        channel
    )?;
    Ok(due.map(|(at,)| at))
}
