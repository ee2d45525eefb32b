//! Rules, and the state of their conditions for each object.

use model::api::{ActionType, RuleMode};
use model::rule::RuleState;
use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Chosen, Conn, Result, Rows, execute, expect_one, fetch_all, fetch_one, fetch_optional};
use crate::runtime::created_by::{CreatedBy, MadeBy};

/// A rule, with the settings of its action still sealed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Rule {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub rule_id: Uuid,
    /// Identifies its condition: another text is another condition.
    pub condition_id: Uuid,
    /// What people call it.
    pub name: String,
    /// The condition, as it was sent.
    pub condition: String,
    /// What happens when it fires.
    pub action_type: ActionType,
    /// Sealed.
    pub action_config: Vec<u8>,
    /// Whether it is evaluated.
    pub enabled: bool,
    /// Why the service disabled it.
    pub disabled_reason: Option<String>,
    /// Whether its action is carried out.
    pub mode: RuleMode,
    /// How long it rests after a firing.
    pub cooldown_seconds: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether a condition held for an object when it was last evaluated, and when its rule last fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionState {
    /// Whose it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: String,
    /// The condition.
    pub condition_id: Uuid,
    /// Whether it held, and when the rule fired.
    pub rule_state: RuleState,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled, \
             disabled_reason, mode, cooldown_seconds, created_at, updated_at FROM rules ",
            $rest
        )
    };
}

/// Adds a rule.
pub async fn insert(conn: &mut Conn, rule: &Rule, by: &CreatedBy) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO rules (tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled,
             cooldown_seconds, created_at, updated_at, created_by, created_by_user, created_by_key, mode)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        rule.tenant_id,
        rule.rule_id,
        rule.condition_id,
        &rule.name,
        &rule.condition,
        rule.action_type,
        &rule.action_config,
        rule.enabled,
        rule.cooldown_seconds,
        rule.created_at,
        rule.updated_at,
        by.maker.as_str(),
        by.user,
        by.key,
        rule.mode
    )?)
}

/// The rules of a tenant, oldest first.
pub async fn of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Rule>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 ORDER BY rule_id"), tenant)
}

/// The enabled rules of some tenants, oldest first.
pub async fn enabled_of(conn: &mut Conn, tenants: &[TenantId]) -> Result<Vec<Rule>> {
    let mut rules = Rows::of(tenants)
        .column("tenant", |tenant| *tenant)
        .with_given(
            "SELECT tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled,
                    disabled_reason, mode, cooldown_seconds, created_at, updated_at
             FROM given CROSS JOIN rules WHERE tenant_id = given.tenant AND enabled",
        )
        .fetch::<Rule>(conn)
        .await?;
    rules.sort_unstable_by_key(|rule| rule.rule_id);
    Ok(rules)
}

/// A rule of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, rule: Uuid) -> Result<Option<Rule>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND rule_id = $2"), tenant, rule)
}

/// Counts the rules of a tenant.
pub async fn count(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM rules WHERE tenant_id = $1", tenant)?;
    Ok(count)
}

/// Stores a changed rule.
pub async fn update(conn: &mut Conn, rule: &Rule) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE rules SET condition_id = $3, name = $4, condition = $5, action_type = $6, action_config = $7,
             enabled = $8, cooldown_seconds = $9, updated_at = $10, disabled_reason = $11,
             mode = $12
         WHERE tenant_id = $1 AND rule_id = $2",
        rule.tenant_id,
        rule.rule_id,
        rule.condition_id,
        &rule.name,
        &rule.condition,
        rule.action_type,
        &rule.action_config,
        rule.enabled,
        rule.cooldown_seconds,
        rule.updated_at,
        &rule.disabled_reason,
        rule.mode
    )?)
}

/// The names of the enabled rules that a person made, oldest first.
pub async fn names_made_by(conn: &mut Conn, tenant: TenantId, by: MadeBy) -> Result<Vec<String>> {
    let names: Vec<(String,)> = fetch_all!(
        conn,
        "SELECT name FROM rules WHERE tenant_id = $1 AND enabled AND (created_by_user = $2 OR ($3 AND created_by IS NULL))
         ORDER BY created_at, rule_id",
        tenant,
        by.user,
        by.is_first
    )?;
    Ok(names.into_iter().map(|(name,)| name).collect())
}

/// Disables every enabled rule that a person made; returns how many that were.
pub async fn disable_made_by(
    conn: &mut Conn,
    tenant: TenantId,
    by: MadeBy,
    reason: &str,
    now: Timestamp,
) -> Result<u64> {
    execute!(
        conn,
        "UPDATE rules SET enabled = FALSE, disabled_reason = $4, updated_at = $5
         WHERE tenant_id = $1 AND enabled AND (created_by_user = $2 OR ($3 AND created_by IS NULL))",
        tenant,
        by.user,
        by.is_first,
        reason,
        now
    )
}

/// Removes a rule. Its firings stay.
pub async fn delete(conn: &mut Conn, tenant: TenantId, rule: Uuid) -> Result<()> {
    expect_one(execute!(conn, "DELETE FROM rules WHERE tenant_id = $1 AND rule_id = $2", tenant, rule)?)
}

/// Retires a condition. Its states are swept later: there may be millions of them.
pub async fn retire(conn: &mut Conn, tenant: TenantId, condition: Uuid, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO retired_conditions (tenant_id, condition_id, retired_at) VALUES ($1, $2, $3)",
        tenant,
        condition,
        now
    )?)
}

/// Conditions that were retired before an instant.
pub async fn retired(conn: &mut Conn, before: Timestamp) -> Result<Vec<(TenantId, Uuid)>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, condition_id FROM retired_conditions WHERE retired_at <= $1
         ORDER BY tenant_id, condition_id",
        before
    )
}

/// Removes up to `limit` states of a retired condition, and once there are none the condition itself; returns whether it is
/// gone.
pub async fn sweep_retired(conn: &mut Conn, tenant: TenantId, condition: Uuid, limit: i64) -> Result<bool> {
    let states = Chosen {
        table: "rule_states",
        key: &["tenant_id", "object_id", "condition_id"],
        rows: "WHERE tenant_id = $1 AND condition_id = $2 AND matched IN (TRUE, FALSE) LIMIT $3",
        is_of_tenant: true,
    };
    let statement = states.delete(conn);
    let removed = execute!(conn, AssertSqlSafe(statement), tenant, condition, limit)?;
    let is_gone = i64::try_from(removed).is_ok_and(|removed| removed < limit);
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

/// The states of conditions for some objects of a tenant; a condition that was never evaluated for an object has none.
pub async fn states_of(
    conn: &mut Conn,
    tenant: TenantId,
    object_ids: &[&str],
) -> Result<Vec<ConditionState>> {
    let rows = Rows::of(object_ids)
        .column("tenant", |_| tenant)
        .column("id", |id| *id)
        .with_given(
            "SELECT object_id, condition_id, matched, fired_at
             FROM given CROSS JOIN rule_states WHERE tenant_id = given.tenant AND object_id = id",
        )
        .fetch::<(String, Uuid, bool, Option<Timestamp>)>(conn)
        .await?;
    let state = |(object_id, condition_id, matched, fired_at)| ConditionState {
        tenant,
        object_id,
        condition_id,
        rule_state: RuleState { matched, fired_at },
    };
    Ok(rows.into_iter().map(state).collect())
}

/// Stores the states of conditions. The caller has locked their objects.
pub async fn put_states(conn: &mut Conn, states: &[ConditionState]) -> Result<()> {
    Rows::of(states)
        .column("tenant_id", |state| state.tenant)
        .column("object_id", |state| state.object_id.as_str())
        .column("condition_id", |state| state.condition_id)
        .column("matched", |state| state.rule_state.matched)
        .column("fired_at", |state| state.rule_state.fired_at)
        .insert(
            "rule_states",
            "ON CONFLICT (tenant_id, object_id, condition_id) DO UPDATE SET matched = excluded.matched,
                 fired_at = excluded.fired_at",
        )
        .execute(conn)
        .await?;
    Ok(())
}
