//! Messages on their way out: queued with the change that they tell of, sent by a worker under a lease.
//!
//! A lease is a token and an end. Whoever holds the token may close or put back the row; once the lease has ended,
//! anybody may take it again. So a message is sent at least once.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::bulk::insert_many;
use crate::db::connect::{execute, fetch_all, fetch_optional};
use crate::db::leased_queue::Queue;
use crate::{Conn, Result};

/// The way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// By mail.
    Mail,
    /// To a chat webhook.
    Slack,
}

/// A message to be queued.
#[derive(Clone)]
pub struct NewMessage {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub message_id: Uuid,
    /// The way it goes.
    pub channel: Channel,
    /// Messages of one lane wait for each other only.
    pub lane: String,
    /// What it says, sealed.
    pub message: Vec<u8>,
    /// The object that it is about; it goes with the object.
    pub object_id: Option<String>,
    /// The firing that it reports.
    pub firing_id: Option<Uuid>,
    /// When it was queued; it is due at once.
    pub created_at: Timestamp,
}

/// A claim on messages: only its token closes them, and only until its end.
#[derive(Clone, Copy)]
pub struct Lease {
    /// Known to the claimer alone.
    pub token: Uuid,
    /// When others may take over.
    pub until: Timestamp,
}

/// A message in the hands of whoever claimed it.
#[derive(sqlx::FromRow)]
pub struct Claimed {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub message_id: Uuid,
    /// The lane that it goes by.
    pub lane: String,
    /// What it says, sealed.
    pub message: Vec<u8>,
    /// The firing that it reports.
    pub firing_id: Option<Uuid>,
    /// How often it was claimed, this time included.
    pub attempts: i64,
    /// When it was queued.
    pub created_at: Timestamp,
}

impl Channel {
    /// As it is written in records and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Slack => "slack",
        }
    }
}

/// Queues messages, in the transaction of the change that they tell of.
pub async fn enqueue(conn: &mut Conn, messages: &[NewMessage]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        messages,
        "outbox",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("message_id", "uuid", |row| row.message_id),
            ("channel", "text", |row| row.channel.name()),
            ("lane", "text", |row| row.lane.as_str()),
            ("message", "bytea", |row| row.message.as_slice()),
            ("object_id", "text", |row| row.object_id.as_deref()),
            ("firing_id", "uuid", |row| row.firing_id),
            ("run_after", "timestamptz", |row| row.created_at),
            ("created_at", "timestamptz", |row| row.created_at),
        ],
        "",
    );
    Ok(())
}

const QUEUE: Queue = Queue { table: "outbox", line: "channel", row: "message_id" };

/// The next tenant after one that has a due message.
pub async fn next_tenant(
    conn: &mut Conn,
    channel: Channel,
    after: TenantId,
    now: Timestamp,
) -> Result<Option<TenantId>> {
    let next: Option<(TenantId,)> =
        fetch_optional!(conn, AssertSqlSafe(QUEUE.next_tenant()), channel.name(), after, now)?;
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
             SELECT lane FROM (SELECT lane FROM outbox WHERE channel = $1 AND tenant_id = $2 ORDER BY lane LIMIT 1) AS first
             UNION ALL
             SELECT (SELECT outbox.lane FROM outbox WHERE channel = $1 AND tenant_id = $2 AND outbox.lane > lanes.lane
                     ORDER BY outbox.lane LIMIT 1)
             FROM lanes WHERE lanes.lane IS NOT NULL
         )
         SELECT lane FROM lanes
         WHERE lane IS NOT NULL AND EXISTS (SELECT 1 FROM outbox
             WHERE channel = $1 AND tenant_id = $2 AND outbox.lane = lanes.lane AND due_at <= $3)",
        channel.name(),
        tenant,
        now
    )?;
    Ok(lanes.into_iter().map(|(lane,)| lane).collect())
}

/// Takes up to `limit` due messages of a tenant's lane, longest due first.
pub async fn claim(
    conn: &mut Conn,
    channel: Channel,
    (tenant, lane): (TenantId, &str),
    now: Timestamp,
    lease: Lease,
    limit: i64,
) -> Result<Vec<Claimed>> {
    let returning = "tenant_id, message_id, lane, message, firing_id, attempts, created_at";
    let statement = QUEUE.claim(conn.backend(), " AND lane = $7", "", returning);
    fetch_all!(
        conn,
        AssertSqlSafe(statement),
        channel.name(),
        tenant,
        now,
        limit,
        lease.token,
        lease.until,
        lane
    )
}

/// Removes a message that has gone, or that never will; false when the lease was lost.
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
        "UPDATE outbox SET run_after = $4, lease_token = NULL, lease_until = NULL
         WHERE tenant_id = $1 AND message_id = $2 AND lease_token = $3",
        tenant,
        message,
        token,
        run_after
    )?;
    Ok(put_back == 1)
}

/// When the next message is due, or the next lease ends.
pub async fn next_due(conn: &mut Conn, channel: Channel) -> Result<Option<Timestamp>> {
    let due: Option<(Timestamp,)> = fetch_optional!(
        conn,
        "SELECT due_at FROM outbox WHERE channel = $1 ORDER BY due_at LIMIT 1",
        channel.name()
    )?;
    Ok(due.map(|(at,)| at))
}
