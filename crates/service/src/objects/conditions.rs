//! The check of conditions, for editors: what is wrong and where, and how many objects match now.

use model::TenantId;
use model::api::{ConditionCheck, ConditionCheckRequest, ConditionPlace, ConditionProblem, MatchCount};
use model::condition::{BoundCondition, Condition, ConditionError, Query};
use store::analysis::signals::{self, Signal};
use store::objects::conditions::AnswerFilter;
use store::{Conn, Store};

use crate::objects::answers::shape;
use crate::runtime::Result;

/// The number up to which matching objects are counted.
const MAX_COUNTED: i64 = 10_000;
/// The longest condition that is checked, in characters: the longest of a rule.
const MAX_LENGTH: usize = 4_000;

/// Checks conditions.
pub struct ConditionChecks {
    pub(crate) store: Store,
}

impl ConditionChecks {
    /// Checks a condition. Whatever it says, that is no error of the request.
    pub async fn check(&self, tenant: TenantId, request: &ConditionCheckRequest) -> Result<ConditionCheck> {
        if let Some((at, _)) = request.when.chars().enumerate().nth(MAX_LENGTH) {
            let message = format!("a condition has at most {MAX_LENGTH} characters");
            return Ok(invalid(ConditionError { message, column: at + 1 }, Vec::new()));
        }
        self.store
            .read("check_condition", async |conn: &mut Conn| {
                let all = signals::of_tenant(conn, tenant).await?;
                let bound = match request.place.unwrap_or_default() {
                    ConditionPlace::Rule => bind_rule(&request.when, &all),
                    ConditionPlace::Query => bind_query(&request.when, &all),
                };
                let condition = match bound {
                    Ok(Some(condition)) => condition,
                    Ok(None) => return Ok(valid(Vec::new(), None)),
                    Err(error) => return Ok(invalid(error, named_signals(&request.when, &all))),
                };
                let keys = condition.keys().into_iter().map(str::to_owned).collect();
                let matches = count_matches(conn, tenant, &condition, &all).await?;
                Ok(valid(keys, matches))
            })
            .await
    }
}

/// The condition of a rule, over signals that are enabled or not: a disabled one may be enabled again.
fn bind_rule(when: &str, all: &[Signal]) -> Result<Option<BoundCondition>, ConditionError> {
    Condition::parse(when)?.bind(|key| shape(all, key)).map(Some)
}

/// The condition of a query; none for a text without an operator, which is searched for.
fn bind_query(when: &str, all: &[Signal]) -> Result<Option<BoundCondition>, ConditionError> {
    let enabled: Vec<Signal> = all.iter().filter(|signal| signal.enabled).cloned().collect();
    let (query, skipped) = Query::parse_with_skipped(when, |key| shape(&enabled, key));
    match (skipped.into_iter().next(), query) {
        (Some(skipped), _) => Err(skipped.error),
        (None, Query::Signals(condition)) => Ok(Some(condition)),
        (None, Query::Text(_)) => Ok(None),
    }
}

/// How many objects match now; none if that depends on facts.
async fn count_matches(
    conn: &mut Conn,
    tenant: TenantId,
    condition: &BoundCondition,
    all: &[Signal],
) -> Result<Option<MatchCount>> {
    if !condition.facts().is_empty() {
        return Ok(None);
    }
    // The answers of a disabled signal are hidden, so that no object matches.
    let enabled = |key: &str| Some(all.iter().find(|signal| signal.key == key && signal.enabled)?.signal_id);
    let Some(filter) = AnswerFilter::new(condition, enabled) else {
        return Ok(Some(MatchCount { count: 0, capped: false }));
    };
    let found = filter.count(conn, tenant, MAX_COUNTED + 1).await?;
    Ok(Some(MatchCount { count: found.min(MAX_COUNTED), capped: found > MAX_COUNTED }))
}

/// The signals that a condition names as far as it can be read.
fn named_signals(when: &str, all: &[Signal]) -> Vec<String> {
    let Ok(condition) = Condition::parse(when) else { return Vec::new() };
    let known = |key: &&str| all.iter().any(|signal| signal.key == **key);
    condition.keys().into_iter().filter(known).map(str::to_owned).collect()
}

fn valid(signals: Vec<String>, matches: Option<MatchCount>) -> ConditionCheck {
    ConditionCheck { valid: true, error: None, signals, matches }
}

fn invalid(error: ConditionError, signals: Vec<String>) -> ConditionCheck {
    let at = u64::try_from(error.column.saturating_sub(1)).unwrap_or(u64::MAX);
    let error = ConditionProblem { message: error.message, at };
    ConditionCheck { valid: false, error: Some(error), signals, matches: None }
}
