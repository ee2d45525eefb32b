//! The recipients of rule mails, and what they have agreed to.

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, execute, fetch_one, fetch_optional};

/// A recipient of an account's rule mails. The id is derived from the address, which is not stored.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Recipient {
    /// The account whose rules write to it.
    pub tenant_id: TenantId,
    /// Its id.
    pub recipient_id: Uuid,
    /// What its links are derived from, sealed.
    pub secret: Vec<u8>,
    /// When a confirmation was last mailed, or queued to be.
    pub asked_at: Option<Timestamp>,
    /// When it agreed.
    pub confirmed_at: Option<Timestamp>,
    /// When it withdrew, unless it has agreed again since.
    pub withdrawn_at: Option<Timestamp>,
    /// When a rule first had a mail for it.
    pub created_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, recipient_id, secret, asked_at, confirmed_at, withdrawn_at, created_at ",
            $rest
        )
    };
}

/// The known ones of these recipients of an account.
pub async fn known(conn: &mut Conn, tenant: TenantId, recipients: &[Uuid]) -> Result<Vec<Recipient>> {
    Rows::of(recipients)
        .column("tenant", |_| tenant)
        .column("recipient", |recipient| *recipient)
        .with_given(select!(
            "FROM given CROSS JOIN mail_recipients WHERE tenant_id = given.tenant AND recipient_id = given.recipient"
        ))
        .fetch(conn)
        .await
}

/// Adds recipients, in key order to avoid deadlocks; another transaction may have added them meanwhile.
pub async fn insert_missing(conn: &mut Conn, recipients: &[Recipient]) -> Result<()> {
    Rows::of(recipients)
        .column("tenant_id", |recipient| recipient.tenant_id)
        .column("recipient_id", |recipient| recipient.recipient_id)
        .column("secret", |recipient| recipient.secret.as_slice())
        .column("created_at", |recipient| recipient.created_at)
        .insert("mail_recipients", "ON CONFLICT (tenant_id, recipient_id) DO NOTHING")
        .execute(conn)
        .await?;
    Ok(())
}

/// A recipient of an account.
pub async fn find(conn: &mut Conn, tenant: TenantId, recipient: Uuid) -> Result<Option<Recipient>> {
    fetch_optional!(
        conn,
        select!("FROM mail_recipients WHERE tenant_id = $1 AND recipient_id = $2"),
        tenant,
        recipient
    )
}

/// How many recipients an account has asked after `since`.
pub async fn count_asked(conn: &mut Conn, tenant: TenantId, since: Timestamp) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM mail_recipients WHERE tenant_id = $1 AND asked_at > $2",
        tenant,
        since
    )?;
    Ok(count)
}

/// Claims the right to mail confirmations; returns those recipients that were not asked after `since`.
pub async fn claim_confirmations(
    conn: &mut Conn,
    tenant: TenantId,
    recipients: &[Uuid],
    now: Timestamp,
    since: Timestamp,
) -> Result<Vec<Uuid>> {
    let claimed: Vec<(Uuid,)> = Rows::of(recipients)
        .column("tenant", |_| tenant)
        .column("recipient", |recipient| *recipient)
        .column("now", |_| now)
        .column("since", |_| since)
        .with_given(
            "UPDATE mail_recipients SET asked_at = given.now FROM given
             WHERE tenant_id = given.tenant AND recipient_id = given.recipient
               AND (asked_at IS NULL OR asked_at <= given.since)
             RETURNING recipient_id",
        )
        .fetch(conn)
        .await?;
    Ok(claimed.into_iter().map(|(recipient,)| recipient).collect())
}

/// Records that a confirmation was not mailed after all, so that the recipient can be asked.
pub async fn take_back_confirmation(conn: &mut Conn, tenant: TenantId, recipient: Uuid) -> Result<()> {
    execute!(
        conn,
        "UPDATE mail_recipients SET asked_at = NULL WHERE tenant_id = $1 AND recipient_id = $2",
        tenant,
        recipient
    )?;
    Ok(())
}

/// Records that a recipient agrees; false if it has agreed already.
pub async fn confirm(conn: &mut Conn, tenant: TenantId, recipient: Uuid, now: Timestamp) -> Result<bool> {
    let confirmed = execute!(
        conn,
        "UPDATE mail_recipients SET confirmed_at = $3, withdrawn_at = NULL
         WHERE tenant_id = $1 AND recipient_id = $2 AND (confirmed_at IS NULL OR withdrawn_at IS NOT NULL)",
        tenant,
        recipient,
        now
    )?;
    Ok(confirmed == 1)
}

/// Records that a recipient wants no more mails; the first time counts.
pub async fn withdraw(conn: &mut Conn, tenant: TenantId, recipient: Uuid, now: Timestamp) -> Result<()> {
    execute!(
        conn,
        "UPDATE mail_recipients SET withdrawn_at = coalesce(withdrawn_at, $3)
         WHERE tenant_id = $1 AND recipient_id = $2",
        tenant,
        recipient,
        now
    )?;
    Ok(())
}

/// Removes up to `limit` recipients of an account that were last asked before an instant and have not responded; returns how
/// many.
pub async fn drop_unanswered(
    conn: &mut Conn,
    tenant: TenantId,
    before: Timestamp,
    limit: i64,
) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM mail_recipients WHERE tenant_id = $1 AND recipient_id IN (
             SELECT recipient_id FROM mail_recipients
             WHERE tenant_id = $1 AND confirmed_at IS NULL AND withdrawn_at IS NULL
               AND coalesce(asked_at, created_at) <= $2 LIMIT $3)",
        tenant,
        before,
        limit
    )
}
