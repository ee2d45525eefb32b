//! Rules and their firings.

use http::Method;
use model::api::{
    ConditionCheck, ConditionCheckRequest, Rule, RuleCreate, RuleFiring, RuleFiringList, RuleList,
    RuleReplayRequest, RuleReplayResponse, RuleReplayRun, RuleTest, RuleTestRequest, RuleUpdate,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Which firings to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FiringsQuery {
    /// Only firings of this rule.
    pub rule_id: Option<Uuid>,
    /// Only firings about this object.
    pub object_id: Option<String>,
    /// The maximum number, 1 to 200; 50 if left out.
    pub limit: Option<u32>,
}

impl Client {
    /// Lists all rules, oldest first.
    pub async fn rules(&self) -> Result<Vec<Rule>, Error> {
        let list: RuleList = self.call(Call::new(Method::GET, &["v1", "rules"])?).await?;
        Ok(list.rules)
    }

    /// Creates a rule.
    pub async fn create_rule(&self, rule: &RuleCreate) -> Result<Rule, Error> {
        self.call(Call::new(Method::POST, &["v1", "rules"])?.json(rule)?).await
    }

    /// Returns a rule.
    pub async fn rule(&self, id: Uuid) -> Result<Rule, Error> {
        self.call(Call::new(Method::GET, &["v1", "rules", &id.to_string()])?).await
    }

    /// Changes a rule; fields left out keep their values.
    pub async fn update_rule(&self, id: Uuid, change: &RuleUpdate) -> Result<Rule, Error> {
        self.call(Call::new(Method::PATCH, &["v1", "rules", &id.to_string()])?.json(change)?).await
    }

    /// Deletes a rule.
    pub async fn delete_rule(&self, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "rules", &id.to_string()])?).await
    }

    /// Checks a condition: what is wrong with it and where, and how many objects it is true for.
    pub async fn check_condition(&self, check: &ConditionCheckRequest) -> Result<ConditionCheck, Error> {
        self.call(Call::new(Method::POST, &["v1", "conditions", "check"])?.json(check)?).await
    }

    /// Sends a test of a rule's action at once, and says what came of it.
    pub async fn test_rule(&self, request: &RuleTestRequest) -> Result<RuleTest, Error> {
        self.call(Call::new(Method::POST, &["v1", "rules", "test"])?.json(request)?).await
    }

    /// Replays a rule over the past of answers; a long history in the background.
    pub async fn replay_rule(&self, request: &RuleReplayRequest) -> Result<RuleReplayResponse, Error> {
        self.call(Call::new(Method::POST, &["v1", "rules", "replay"])?.json(request)?).await
    }

    /// Returns a replay that runs in the background.
    pub async fn rule_replay(&self, id: Uuid) -> Result<RuleReplayRun, Error> {
        self.call(Call::new(Method::GET, &["v1", "rules", "replays", &id.to_string()])?).await
    }

    /// Lists firings, newest first.
    pub async fn firings(&self, query: &FiringsQuery) -> Result<Vec<RuleFiring>, Error> {
        let call = Call::new(Method::GET, &["v1", "rule_firings"])?
            .query("rule_id", query.rule_id)
            .query("object_id", query.object_id.as_ref())
            .query("limit", query.limit);
        let list: RuleFiringList = self.call(call).await?;
        Ok(list.firings)
    }
}
