//! What tenants have escalated to the second analyzer, by day: for caps that hold over all nodes.

use model::{Date, TenantId};
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, execute, fetch_one, fetch_optional};

/// Answers and their price in micro-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Escalated {
    /// The number of answers.
    pub answers: i64,
    /// What they cost.
    pub micros: i64,
}

/// What a tenant has escalated on a day so far. The row is locked until the transaction ends.
pub async fn lock_day(conn: &mut Conn, tenant: TenantId, day: Date) -> Result<Escalated> {
    // On PostgreSQL an update that changes nothing locks the row; on SQLite the write transaction is the lock.
    fetch_one!(
        conn,
        "INSERT INTO escalation_days (tenant_id, day, answers, micros) VALUES ($1, $2, 0, 0)
         ON CONFLICT (tenant_id, day) DO UPDATE SET answers = escalation_days.answers
         RETURNING answers, micros",
        tenant,
        day
    )
}

/// Adds to what a tenant has escalated on a day, by question, each named once; what is given back is negative.
pub async fn add(
    conn: &mut Conn,
    tenant: TenantId,
    day: Date,
    questions: &[(Uuid, Escalated)],
) -> Result<()> {
    let total = questions.iter().fold(Escalated::default(), |total, (_, one)| Escalated {
        answers: total.answers + one.answers,
        micros: total.micros + one.micros,
    });
    execute!(
        conn,
        "INSERT INTO escalation_days (tenant_id, day, answers, micros) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant_id, day) DO UPDATE SET answers = escalation_days.answers + excluded.answers,
             micros = escalation_days.micros + excluded.micros",
        tenant,
        day,
        total.answers,
        total.micros
    )?;
    // The row of the day is locked, so the order of these does not matter.
    Rows::of(questions)
        .column("tenant_id", |_| tenant)
        .column("day", |_| day)
        .column("signal_id", |row| row.0)
        .column("answers", |row| row.1.answers)
        .column("micros", |row| row.1.micros)
        .insert(
            "escalation_signal_days",
            "ON CONFLICT (tenant_id, day, signal_id) DO UPDATE SET
                 answers = escalation_signal_days.answers + excluded.answers,
                 micros = escalation_signal_days.micros + excluded.micros",
        )
        .execute(conn)
        .await?;
    Ok(())
}

/// What was escalated of a question on a day.
pub async fn of_signal(conn: &mut Conn, tenant: TenantId, day: Date, signal: Uuid) -> Result<Escalated> {
    let found: Option<Escalated> = fetch_optional!(
        conn,
        "SELECT answers, micros FROM escalation_signal_days WHERE tenant_id = $1 AND day = $2 AND signal_id = $3",
        tenant,
        day,
        signal
    )?;
    Ok(found.unwrap_or_default())
}

/// Removes the counts of a tenant's days before one.
pub async fn drop_before(conn: &mut Conn, tenant: TenantId, day: Date) -> Result<()> {
    execute!(conn, "DELETE FROM escalation_days WHERE tenant_id = $1 AND day < $2", tenant, day)?;
    execute!(conn, "DELETE FROM escalation_signal_days WHERE tenant_id = $1 AND day < $2", tenant, day)?;
    Ok(())
}
