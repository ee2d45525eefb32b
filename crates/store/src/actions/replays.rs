//! Replays of rules in the background, and what they found.

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, execute, expect_one, fetch_all, fetch_one, fetch_optional};

/// A replay in the background.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Replay {
    /// Its id.
    pub replay_id: Uuid,
    /// The analyses that were read so far.
    pub analyses: i64,
    /// What was found, as JSON without the examples; none until it is done.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Until when the process that runs it is believed to be alive.
    pub alive_until: Timestamp,
}

/// A firing that a replay has found. It goes with its object.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Example {
    /// The object.
    pub object_id: String,
    /// When.
    pub at: Timestamp,
    /// JSON.
    pub signal_values: String,
}

/// Adds a replay that has just begun.
pub async fn insert(
    conn: &mut Conn,
    tenant: TenantId,
    replay: Uuid,
    alive_until: Timestamp,
    now: Timestamp,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO rule_replays (tenant_id, replay_id, analyses, alive_until, created_at) VALUES ($1, $2, 0, $3, $4)",
        tenant,
        replay,
        alive_until,
        now
    )?)
}

/// Whether a replay of a tenant is running.
pub async fn is_running(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<bool> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM rule_replays
         WHERE tenant_id = $1 AND result IS NULL AND error IS NULL AND alive_until > $2",
        tenant,
        now
    )?;
    Ok(count > 0)
}

/// Notes how far a replay is.
pub async fn progress(
    conn: &mut Conn,
    tenant: TenantId,
    replay: Uuid,
    analyses: i64,
    alive_until: Timestamp,
) -> Result<()> {
    execute!(
        conn,
        "UPDATE rule_replays SET analyses = $3, alive_until = $4 WHERE tenant_id = $1 AND replay_id = $2",
        tenant,
        replay,
        analyses,
        alive_until
    )?;
    Ok(())
}

/// Ends a replay with what it found. Examples of objects that were deleted meanwhile are left out.
pub async fn finish(
    conn: &mut Conn,
    tenant: TenantId,
    replay: Uuid,
    analyses: i64,
    (result, examples): (&str, &[Example]),
) -> Result<()> {
    let changed = execute!(
        conn,
        "UPDATE rule_replays SET analyses = $3, result = $4 WHERE tenant_id = $1 AND replay_id = $2",
        tenant,
        replay,
        analyses,
        result
    )?;
    if changed == 0 {
        return Ok(());
    }
    let numbered: Vec<(i64, &Example)> = (0..).zip(examples).collect();
    Rows::of(&numbered)
        .column("tenant", |_| tenant)
        .column("replay", |_| replay)
        .column("number", |row| row.0)
        .column("object", |row| row.1.object_id.as_str())
        .column("fired_at", |row| row.1.at)
        .column("seen_values", |row| row.1.signal_values.as_str())
        .with_given(
            "INSERT INTO rule_replay_examples (tenant_id, replay_id, ordinal, object_id, at, signal_values)
             SELECT tenant, replay, number, object, fired_at, seen_values FROM given
             WHERE EXISTS (SELECT 1 FROM objects WHERE objects.tenant_id = given.tenant AND objects.object_id = object)",
        )
        .execute(conn)
        .await?;
    Ok(())
}

/// Ends a replay with an error.
pub async fn fail(conn: &mut Conn, tenant: TenantId, replay: Uuid, error: &str) -> Result<()> {
    execute!(
        conn,
        "UPDATE rule_replays SET error = $3 WHERE tenant_id = $1 AND replay_id = $2",
        tenant,
        replay,
        error
    )?;
    Ok(())
}

/// A replay of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, replay: Uuid) -> Result<Option<Replay>> {
    fetch_optional!(
        conn,
        "SELECT replay_id, analyses, result, error, alive_until FROM rule_replays
         WHERE tenant_id = $1 AND replay_id = $2",
        tenant,
        replay
    )
}

/// The firings that a replay has found, newest first.
pub async fn examples(conn: &mut Conn, tenant: TenantId, replay: Uuid) -> Result<Vec<Example>> {
    fetch_all!(
        conn,
        "SELECT object_id, at, signal_values FROM rule_replay_examples
         WHERE tenant_id = $1 AND replay_id = $2 ORDER BY ordinal",
        tenant,
        replay
    )
}

/// Removes the replays of a tenant from before an instant.
pub async fn drop_before(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<()> {
    execute!(
        conn,
        "DELETE FROM rule_replay_examples WHERE tenant_id = $1 AND replay_id IN (
             SELECT replay_id FROM rule_replays WHERE tenant_id = $1 AND created_at < $2)",
        tenant,
        before
    )?;
    execute!(conn, "DELETE FROM rule_replays WHERE tenant_id = $1 AND created_at < $2", tenant, before)?;
    Ok(())
}
