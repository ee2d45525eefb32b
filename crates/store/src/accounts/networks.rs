//! The networks that people have signed in from.

use model::{TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_one};

/// What is known of the network that somebody signs in from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Familiarity {
    /// They have signed in from it before.
    Known,
    /// They have signed in from others only.
    New,
    /// They have not signed in from anywhere since this is recorded.
    First,
}

/// Records a sign-in from a network.
pub async fn record(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    network: &str,
    now: Timestamp,
) -> Result<Familiarity> {
    let seen_again = execute!(
        conn,
        "UPDATE known_networks SET seen_at = $4 WHERE tenant_id = $1 AND user_id = $2 AND network = $3",
        tenant,
        user,
        network,
        now
    )?;
    if seen_again == 1 {
        return Ok(Familiarity::Known);
    }
    let (others,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM known_networks WHERE tenant_id = $1 AND user_id = $2 LIMIT 1) AS known",
        tenant,
        user
    )?;
    expect_one(execute!(
        conn,
        "INSERT INTO known_networks (tenant_id, user_id, network, seen_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant_id, user_id, network) DO UPDATE SET seen_at = excluded.seen_at",
        tenant,
        user,
        network,
        now
    )?)?;
    Ok(if others == 0 { Familiarity::First } else { Familiarity::New })
}
