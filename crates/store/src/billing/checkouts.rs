//! Top-ups by card: stored before the payment provider is asked, credited once.

use model::api::CheckoutState;
use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_optional};

/// A top-up.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Checkout {
    /// Our id for it, which the provider knows too.
    pub checkout_id: Uuid,
    /// The provider's session, once we know it.
    pub provider_session_id: Option<String>,
    /// Whose balance it tops up.
    pub tenant_id: TenantId,
    /// How much.
    pub amount_cents: i64,
    /// The currency of the amount.
    pub currency: String,
    /// Whether it was credited.
    pub status: CheckoutState,
    /// The balance after it was credited.
    pub balance_after_micros: Option<i64>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT checkout_id, provider_session_id, checkout.tenant_id, amount_cents, currency, status, balance_after_micros
             FROM checkouts AS checkout
             LEFT JOIN ledger_entries AS line ON line.tenant_id = checkout.tenant_id AND line.seq = checkout.ledger_seq ",
            $rest
        )
    };
}

/// Stores a top-up that is not paid yet.
pub async fn insert(
    conn: &mut Conn,
    tenant: TenantId,
    checkout_id: Uuid,
    amount_cents: i64,
    currency: &str,
    now: Timestamp,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO checkouts (checkout_id, tenant_id, amount_cents, currency, status, created_at)
         VALUES ($1, $2, $3, $4, 'pending', $5)",
        checkout_id,
        tenant,
        amount_cents,
        currency,
        now
    )?)
}

/// Stores the provider's session. The payment may have arrived first and stored it already.
pub async fn set_session(conn: &mut Conn, checkout_id: Uuid, session_id: &str) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE checkouts SET provider_session_id = $2
         WHERE checkout_id = $1 AND (provider_session_id IS NULL OR provider_session_id = $2)",
        checkout_id,
        session_id
    )?)
}

/// The top-up with this id.
pub async fn find(conn: &mut Conn, checkout_id: Uuid) -> Result<Option<Checkout>> {
    fetch_optional!(conn, select!("WHERE checkout_id = $1"), checkout_id)
}

/// The top-up with this session of the provider.
pub async fn find_by_session(conn: &mut Conn, session_id: &str) -> Result<Option<Checkout>> {
    fetch_optional!(conn, select!("WHERE provider_session_id = $1"), session_id)
}

/// Records that the provider is asked about a top-up now; false when it was asked after `earlier`.
pub async fn begin_asking(
    conn: &mut Conn,
    checkout_id: Uuid,
    now: Timestamp,
    earlier: Timestamp,
) -> Result<bool> {
    let begun = execute!(
        conn,
        "UPDATE checkouts SET asked_at = $2 WHERE checkout_id = $1 AND (asked_at IS NULL OR asked_at <= $3)",
        checkout_id,
        now,
        earlier
    )?;
    Ok(begun == 1)
}

/// Top-ups of a tenant that were opened before an instant and are not paid, oldest first, up to `limit`.
pub async fn unpaid_before(
    conn: &mut Conn,
    tenant: TenantId,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<Checkout>> {
    fetch_all!(
        conn,
        select!(
            "WHERE checkout.tenant_id = $1 AND checkout.created_at < $2 AND status = 'pending'
             ORDER BY checkout.created_at LIMIT $3"
        ),
        tenant,
        before,
        limit
    )
}

/// Removes a top-up that was not paid.
pub async fn drop_unpaid(conn: &mut Conn, checkout_id: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM checkouts WHERE checkout_id = $1 AND status = 'pending'", checkout_id)?;
    Ok(())
}

/// Claims a top-up for crediting: true for one caller only.
pub async fn claim(conn: &mut Conn, checkout_id: Uuid, session_id: &str, now: Timestamp) -> Result<bool> {
    let claimed = execute!(
        conn,
        "UPDATE checkouts SET status = 'credited', provider_session_id = $2, credited_at = $3
         WHERE checkout_id = $1 AND status = 'pending'",
        checkout_id,
        session_id,
        now
    )?;
    Ok(claimed == 1)
}

/// Stores which entry of the ledger credited a top-up.
pub async fn set_ledger_entry(conn: &mut Conn, checkout_id: Uuid, ledger_seq: i64) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE checkouts SET ledger_seq = $2 WHERE checkout_id = $1 AND status = 'credited'",
        checkout_id,
        ledger_seq
    )?)
}
