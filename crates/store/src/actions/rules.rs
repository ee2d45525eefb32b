//! Rules, and where their conditions stand with each object.

use model::rule::Standing;
use model::{TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::bulk::insert_many;
use crate::db::connect::{execute, fetch_all, fetch_one, fetch_optional};
use crate::db::transaction::expect_one;
use crate::{Conn, Result};

/// A rule, with the settings of its action still sealed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Rule {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub rule_id: Uuid,
    /// Names its condition: another text is another condition.
    pub condition_id: Uuid,
    /// What people call it.
    pub name: String,
    /// The condition, as it was sent.
    pub condition: String,
    /// `email`, `slack` or `webhook`.
    pub action_type: String,
    /// Sealed.
    pub action_config: Vec<u8>,
    /// Whether it is looked at.
    pub enabled: bool,
    /// How long it rests after a firing.
    pub cooldown_seconds: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Where a condition stands with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whose it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: String,
    /// The condition.
    pub condition_id: Uuid,
    /// Where it stands.
    pub standing: Standing,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled, \
             cooldown_seconds, created_at, updated_at FROM rules ",
            $rest
        )
    };
}

/// Adds a rule.
pub async fn insert(conn: &mut Conn, rule: &Rule) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO rules (tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled,
             cooldown_seconds, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        rule.tenant_id,
        rule.rule_id,
        rule.condition_id,
        &rule.name,
        &rule.condition,
        &rule.action_type,
        &rule.action_config,
        rule.enabled,
        rule.cooldown_seconds,
        rule.created_at,
        rule.updated_at
    )?)
}

/// The rules of a tenant, oldest first.
pub async fn of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Rule>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 ORDER BY rule_id"), tenant)
}

/// The enabled rules of some tenants, oldest first.
pub async fn enabled_of(conn: &mut Conn, tenants: &[TenantId]) -> Result<Vec<Rule>> {
    match conn {
        // SQLite has no list of identifiers, so each is a value of its own. A batch has few tenants, and the text for
        // one of them, the usual case, stays prepared.
        Conn::Sqlite(held) => {
            let mut query =
                sqlx::QueryBuilder::<sqlx::Sqlite>::new(select!("WHERE enabled AND tenant_id IN ("));
            let mut list = query.separated(", ");
            for tenant in tenants {
                list.push_bind(*tenant);
            }
            query.push(") ORDER BY rule_id");
            Ok(query.build_query_as().fetch_all(held.native().await?).await?)
        }
        Conn::Postgres(held) => {
            let text = select!("WHERE enabled AND tenant_id = ANY($1) ORDER BY rule_id");
            Ok(sqlx::query_as(text).bind(tenants).fetch_all(held.native().await?).await?)
        }
    }
}

/// A rule of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, rule: Uuid) -> Result<Option<Rule>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND rule_id = $2"), tenant, rule)
}

/// How many rules a tenant has.
pub async fn count(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM rules WHERE tenant_id = $1", tenant)?;
    Ok(count)
}

/// Writes down a changed rule.
pub async fn update(conn: &mut Conn, rule: &Rule) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE rules SET condition_id = $3, name = $4, condition = $5, action_type = $6, action_config = $7,
             enabled = $8, cooldown_seconds = $9, updated_at = $10
         WHERE tenant_id = $1 AND rule_id = $2",
        rule.tenant_id,
        rule.rule_id,
        rule.condition_id,
        &rule.name,
        &rule.condition,
        &rule.action_type,
        &rule.action_config,
        rule.enabled,
        rule.cooldown_seconds,
        rule.updated_at
    )?)
}

/// Removes a rule. Its firings stay: they are what happened.
pub async fn delete(conn: &mut Conn, tenant: TenantId, rule: Uuid) -> Result<()> {
    expect_one(execute!(conn, "DELETE FROM rules WHERE tenant_id = $1 AND rule_id = $2", tenant, rule)?)
}

/// Gives a condition up. Where it stood with objects is swept later: a rule may have met millions of them.
pub async fn retire(conn: &mut Conn, tenant: TenantId, condition: Uuid, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO retired_conditions (tenant_id, condition_id, retired_at) VALUES ($1, $2, $3)",
        tenant,
        condition,
        now
    )?)
}

/// Conditions that were given up before an instant.
pub async fn retired(conn: &mut Conn, before: Timestamp) -> Result<Vec<(TenantId, Uuid)>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, condition_id FROM retired_conditions WHERE retired_at <= $1
         ORDER BY tenant_id, condition_id",
        before
    )
}

/// Removes up to `most` states of a condition that was given up, and once there are none the condition itself. Says
/// whether it is gone.
pub async fn sweep_retired(conn: &mut Conn, tenant: TenantId, condition: Uuid, most: i64) -> Result<bool> {
    let removed = execute!(
        conn,
        "DELETE FROM rule_states WHERE (tenant_id, object_id, condition_id) IN (
             SELECT tenant_id, object_id, condition_id FROM rule_states
             WHERE tenant_id = $1 AND condition_id = $2 LIMIT $3)",
        tenant,
        condition,
        most
    )?;
    let is_gone = i64::try_from(removed).is_ok_and(|removed| removed < most);
    if is_gone {
        execute!(
            conn,
            "DELETE FROM retired_conditions WHERE tenant_id = $1 AND condition_id = $2",
            tenant,
            condition
        )?;
    }
    Ok(is_gone)
}

/// Where conditions stand with some objects of a tenant: none where nothing is written down is where all start.
pub async fn states_of(conn: &mut Conn, tenant: TenantId, object_ids: &[&str]) -> Result<Vec<State>> {
    type Row = (String, Uuid, bool, Option<Timestamp>);
    // Each database has its own way to take a list.
    let rows: Vec<Row> = match conn {
        Conn::Sqlite(held) => {
            sqlx::query_as(
                "SELECT object_id, condition_id, matched, fired_at FROM rule_states
                 WHERE tenant_id = $1 AND object_id IN (SELECT value FROM json_each($2))",
            )
            .bind(tenant)
            .bind(Json(object_ids))
            .fetch_all(held.native().await?)
            .await?
        }
        Conn::Postgres(held) => {
            sqlx::query_as(
                "SELECT object_id, condition_id, matched, fired_at FROM rule_states
                 WHERE tenant_id = $1 AND object_id = ANY($2)",
            )
            .bind(tenant)
            .bind(object_ids)
            .fetch_all(held.native().await?)
            .await?
        }
    };
    let state = |(object_id, condition_id, matched, fired_at)| State {
        tenant,
        object_id,
        condition_id,
        standing: Standing { matched, fired_at },
    };
    Ok(rows.into_iter().map(state).collect())
}

/// Writes down where conditions stand. Their objects are locked by the caller.
pub async fn put_states(conn: &mut Conn, states: &[State]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        states,
        "rule_states",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id.as_str()),
            ("condition_id", "uuid", |row| row.condition_id),
            ("matched", "boolean", |row| row.standing.matched),
            ("fired_at", "timestamptz", |row| row.standing.fired_at),
        ],
        "ON CONFLICT (tenant_id, object_id, condition_id) DO UPDATE SET matched = excluded.matched,
             fired_at = excluded.fired_at",
    );
    Ok(())
}
