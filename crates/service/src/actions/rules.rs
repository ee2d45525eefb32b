//! Rules: conditions over answers and their actions, as a tenant edits them.

use model::api::{ActionConfig, ActionType, Rule, RuleCreate, RuleList, RuleMode, RuleUpdate};
use model::condition::Condition;
use model::webhook::RULE_TRIGGERED;
use model::{EmailAddress, TenantId};
use serde_json::{Map, Value};
use store::accounts::tenants;
use store::actions::rules;
use store::actions::webhooks::endpoints;
use store::analysis::signals;
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::reviews::{checked_queue, checked_signals};
use crate::objects::answers::shape;
use crate::runtime::{Caller, Clock, Error, Kind, Outbound, Random, Result, Sealer, audit, internal};

/// The column that settings of actions are sealed for.
const SEALED_COLUMN: &str = "rules.action_config";
/// The maximum number of rules per tenant: each is evaluated after each analysis.
const MAX_RULES: i64 = 200;
const MAX_NAME: usize = 200;
pub(crate) const MAX_WHEN: usize = 4_000;
const MAX_SUBJECT: usize = 200;
/// A year.
const MAX_COOLDOWN_SECONDS: i64 = 31_536_000;

/// The requested content of a rule, checked as far as possible without the database.
struct Draft {
    name: String,
    when: String,
    action: ActionType,
    config: ActionConfig,
    enabled: bool,
    mode: RuleMode,
    cooldown_seconds: i64,
}

/// The rules of all tenants.
#[derive(Clone)]
pub struct Rules {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) outbound: Outbound,
}

impl Rules {
    /// The rules of a tenant, oldest first.
    pub async fn list(&self, tenant: TenantId) -> Result<RuleList> {
        let rules = self.store.read("rules", async |conn| rules::of_tenant(conn, tenant).await).await?;
        Ok(RuleList { rules: rules.iter().map(|rule| self.record(rule)).collect::<Result<_>>()? })
    }

    /// A rule.
    pub async fn get(&self, tenant: TenantId, rule: Uuid) -> Result<Rule> {
        let rule = self.store.read("rule", async |conn| rules::find(conn, tenant, rule).await).await?;
        self.record(&rule.ok_or_else(no_such_rule)?)
    }

    /// Creates a rule.
    pub async fn create(&self, caller: Caller, request: &RuleCreate) -> Result<Rule> {
        let tenant = caller.tenant;
        let draft = Draft {
            name: match &request.name {
                Some(name) => checked_name(name)?,
                None => one_line(&request.when),
            },
            when: checked_length(&request.when)?.to_owned(),
            action: request.action_type,
            config: checked_config(request.action_type, &request.action_config)?,
            enabled: request.enabled.unwrap_or(true),
            mode: request.mode.unwrap_or_default(),
            cooldown_seconds: checked_cooldown(request.cooldown_seconds.unwrap_or(0))?,
        };
        self.check_address(&draft.config).await?;
        let now = self.clock.now();
        let rule_id = self.random.id(now);
        let rule = rules::Rule {
            tenant_id: tenant,
            rule_id,
            condition_id: self.random.id(now),
            action_config: self.seal_config(rule_id, &draft.config),
            action_type: draft.action,
            name: draft.name,
            condition: draft.when,
            enabled: draft.enabled,
            disabled_reason: None,
            mode: draft.mode,
            cooldown_seconds: draft.cooldown_seconds,
            created_at: now,
            updated_at: now,
        };
        self.store
            .write("create_rule", async |conn: &mut Conn| {
                check_condition(conn, tenant, &rule.condition).await?;
                check_references(conn, tenant, &draft.config).await?;
                // Locked, so that two concurrent requests cannot exceed the limit.
                tenants::lock(conn, tenant).await?;
                if rules::count(conn, tenant).await? >= MAX_RULES {
                    let message = format!("an account has at most {MAX_RULES} rules");
                    return Err(Error::new(Kind::Conflict, message));
                }
                caller.require_valid(conn, now).await?;
                let maker = caller.created_by(conn).await?;
                audit::note(tenant, rule_id, audit::NONE, Some(&self.record(&rule)?));
                Ok(rules::insert(conn, &rule, &maker).await?)
            })
            .await?;
        self.record(&rule)
    }

    /// Changes a rule. The whole result is checked, including fields that were not changed.
    pub async fn update(&self, caller: Caller, rule: Uuid, update: &RuleUpdate) -> Result<Rule> {
        self.change(caller, rule, update, false).await
    }

    /// Changes a rule that is in shadow mode; a live one is refused.
    pub async fn update_in_shadow(&self, caller: Caller, rule: Uuid, update: &RuleUpdate) -> Result<Rule> {
        self.change(caller, rule, update, true).await
    }

    async fn change(
        &self,
        caller: Caller,
        rule: Uuid,
        update: &RuleUpdate,
        only_in_shadow: bool,
    ) -> Result<Rule> {
        let tenant = caller.tenant;
        let existing = self.store.read("rule", async |conn| rules::find(conn, tenant, rule).await).await?;
        let draft = self.edited(&existing.ok_or_else(no_such_rule)?, update)?;
        // The host name is resolved before the transaction, which must not wait for it.
        self.check_address(&draft.config).await?;
        let rule = self
            .store
            .write("update_rule", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                caller.require_valid(conn, self.clock.now()).await?;
                let existing = rules::find(conn, tenant, rule).await?.ok_or_else(no_such_rule)?;
                if only_in_shadow && existing.mode != RuleMode::Shadow {
                    let message = "the rule is live: only a person may change it";
                    return Err(Error::new(Kind::Conflict, message));
                }
                // Once more: a concurrent edit may have changed the rule.
                let draft = self.edited(&existing, update)?;
                let condition = check_condition(conn, tenant, &draft.when).await?;
                check_references(conn, tenant, &draft.config).await?;
                let (now, before) = (self.clock.now(), self.record(&existing)?);
                let is_same =
                    Condition::parse(&existing.condition).is_ok_and(|existing| existing == condition);
                if !is_same {
                    rules::retire(conn, tenant, existing.condition_id, now).await?;
                }
                let rule = rules::Rule {
                    condition_id: if is_same { existing.condition_id } else { self.random.id(now) },
                    action_config: self.seal_config(existing.rule_id, &draft.config),
                    action_type: draft.action,
                    name: draft.name,
                    condition: draft.when,
                    // Until somebody enables it, it keeps the reason.
                    disabled_reason: existing.disabled_reason.filter(|_| !draft.enabled),
                    enabled: draft.enabled,
                    mode: draft.mode,
                    cooldown_seconds: draft.cooldown_seconds,
                    updated_at: now,
                    ..existing
                };
                rules::update(conn, &rule).await?;
                audit::note(tenant, rule.rule_id, Some(&before), Some(&self.record(&rule)?));
                Ok::<_, Error>(rule)
            })
            .await?;
        self.record(&rule)
    }

    /// Deletes a rule; its firings are kept.
    pub async fn delete(&self, tenant: TenantId, rule: Uuid) -> Result<()> {
        self.store
            .write("delete_rule", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let existing = rules::find(conn, tenant, rule).await?.ok_or_else(no_such_rule)?;
                rules::retire(conn, tenant, existing.condition_id, self.clock.now()).await?;
                audit::note(tenant, rule, Some(&self.record(&existing)?), audit::NONE);
                Ok(rules::delete(conn, tenant, rule).await?)
            })
            .await
    }

    fn edited(&self, existing: &rules::Rule, update: &RuleUpdate) -> Result<Draft> {
        let action = match update.action_type {
            Some(action) => action,
            None => existing.action_type,
        };
        let config = if let Some(config) = &update.action_config {
            checked_config(action, config)?
        } else {
            let existing = serde_json::to_value(self.open_config(existing)?).map_err(internal)?;
            checked_config(action, existing.as_object().unwrap_or(&Map::new()))?
        };
        let when = checked_length(update.when.as_deref().unwrap_or(&existing.condition))?;
        let name = match &update.name {
            Some(name) if *name != existing.name => checked_name(name)?,
            // A rule that is called by its condition is called by the new one.
            _ if existing.name == one_line(&existing.condition) => one_line(when),
            _ => existing.name.clone(),
        };
        Ok(Draft {
            name,
            when: when.to_owned(),
            action,
            config,
            enabled: update.enabled.unwrap_or(existing.enabled),
            mode: update.mode.unwrap_or(existing.mode),
            cooldown_seconds: checked_cooldown(update.cooldown_seconds.unwrap_or(existing.cooldown_seconds))?,
        })
    }

    /// Refuses a chat webhook whose URL is not allowed.
    pub(super) async fn check_address(&self, config: &ActionConfig) -> Result<()> {
        let Some(text) = &config.webhook_url else { return Ok(()) };
        let refused = |reason: String| Error::bad_request(format!("action_config.webhook_url: {reason}"));
        let url = self.outbound.check(text).await.map_err(refused)?;
        if url.scheme() != "https" && !self.outbound.allows_private() {
            return Err(refused("it must start with https://".to_owned()));
        }
        Ok(())
    }

    fn seal_config(&self, rule: Uuid, config: &ActionConfig) -> Vec<u8> {
        // Serializing strings and an id to JSON cannot fail.
        let plain = serde_json::to_vec(config).unwrap_or_default();
        self.sealer.seal(&self.random, SEALED_COLUMN, rule, &plain)
    }

    /// The settings of a rule's action.
    pub(crate) fn open_config(&self, rule: &rules::Rule) -> Result<ActionConfig> {
        let plain = self.sealer.open(SEALED_COLUMN, rule.rule_id, &rule.action_config).map_err(internal)?;
        serde_json::from_slice(&plain).map_err(internal)
    }

    fn record(&self, rule: &rules::Rule) -> Result<Rule> {
        Ok(Rule {
            id: rule.rule_id,
            name: rule.name.clone(),
            when: rule.condition.clone(),
            action_type: rule.action_type,
            action_config: self.open_config(rule)?,
            enabled: rule.enabled,
            mode: rule.mode,
            disabled_reason: rule.disabled_reason.clone(),
            cooldown_seconds: rule.cooldown_seconds,
            created_at: rule.created_at,
            updated_at: rule.updated_at,
        })
    }
}

/// Checks a condition against the tenant's signals, enabled or not: a disabled one may be enabled again.
async fn check_condition(conn: &mut Conn, tenant: TenantId, when: &str) -> Result<Condition> {
    let all = signals::of_tenant(conn, tenant).await?;
    let condition = Condition::parse(when).and_then(|condition| {
        condition.bind(|key| shape(&all, key))?;
        Ok(condition)
    });
    condition.map_err(|error| Error::bad_request(format!("when: column {}: {}", error.column, error.message)))
}

/// Refuses signals that do not exist, and an endpoint that does not exist or is not subscribed to the events of rules.
pub(super) async fn check_references(conn: &mut Conn, tenant: TenantId, config: &ActionConfig) -> Result<()> {
    if let Some(keys) = &config.signals {
        checked_signals("action_config.signals", keys, &signals::of_tenant(conn, tenant).await?)?;
    }
    let Some(endpoint) = config.endpoint_id else { return Ok(()) };
    let refused = |reason| Err(Error::bad_request(format!("action_config.endpoint_id: {reason}")));
    match endpoints::find(conn, tenant, endpoint).await? {
        None => refused("there is no such webhook endpoint"),
        // A disabled endpoint may be enabled again.
        Some(endpoint) if !endpoint.events.0.iter().any(|event| event == RULE_TRIGGERED) => {
            refused("the webhook endpoint is not subscribed to rule.triggered")
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    if (1..=MAX_NAME).contains(&name.chars().count()) && !name.contains(char::is_control) {
        Ok(name.to_owned())
    } else {
        let rule = format!("it must have 1 to {MAX_NAME} characters, none of them a control character");
        Err(Error::bad_request(format!("name: {rule}")))
    }
}

pub(crate) fn checked_length(when: &str) -> Result<&str> {
    if when.chars().count() > MAX_WHEN {
        return Err(Error::bad_request(format!("when: it must have at most {MAX_WHEN} characters")));
    }
    Ok(when)
}

pub(crate) fn checked_cooldown(seconds: i64) -> Result<i64> {
    if (0..=MAX_COOLDOWN_SECONDS).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(Error::bad_request(format!("cooldown_seconds: it must be 0 to {MAX_COOLDOWN_SECONDS}")))
    }
}

/// The settings of an action: the fields of its type, and no other.
pub(super) fn checked_config(action: ActionType, config: &Map<String, Value>) -> Result<ActionConfig> {
    let refused = |field: &str, reason: &str| Error::bad_request(format!("action_config.{field}: {reason}"));
    let text = |field: &str| match config.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(refused(field, "it must be a text")),
    };
    let required = |field: &str| {
        let reason = format!("it is required for the action {}", action.as_str());
        text(field)?.ok_or_else(|| refused(field, &reason))
    };
    let mut checked = ActionConfig::default();
    match action {
        ActionType::Email => {
            let to: EmailAddress =
                required("to")?.parse().map_err(|_| refused("to", "it is not an email address"))?;
            checked.to = Some(to.as_str().to_owned());
            checked.subject = text("subject")?.map(str::to_owned);
            let is_valid = |subject: &String| {
                !subject.trim().is_empty()
                    && subject.chars().count() <= MAX_SUBJECT
                    && !subject.contains(char::is_control)
            };
            if checked.subject.as_ref().is_some_and(|subject| !is_valid(subject)) {
                let rule = format!("it must be one line of 1 to {MAX_SUBJECT} characters");
                return Err(refused("subject", &rule));
            }
        }
        ActionType::Slack => checked.webhook_url = Some(required("webhook_url")?.to_owned()),
        ActionType::Webhook => {
            let id = required("endpoint_id")?.parse();
            checked.endpoint_id = Some(id.map_err(|_| refused("endpoint_id", "it is not a UUID"))?);
        }
        ActionType::Review => {
            checked.queue = Some(checked_queue("action_config.queue", required("queue")?)?.to_owned());
            let signals = config.get("signals").filter(|signals| !signals.is_null());
            let signals = signals.map(|signals| serde_json::from_value(signals.clone()));
            checked.signals =
                signals.transpose().map_err(|_| refused("signals", "it must be a list of keys"))?;
        }
    }
    Ok(checked)
}

/// A text on one line, for a subject.
fn one_line(text: &str) -> String {
    model::single_line(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn no_such_rule() -> Error {
    Error::new(Kind::NotFound, "there is no such rule")
}
