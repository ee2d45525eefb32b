//! Signals: the questions of a tenant, as it edits them.

use std::sync::Arc;

use model::api::{Signal, SignalInput, SignalList};
use model::condition::{Condition, MAX_KEY, is_key};
use model::{Question, TenantId};
use serde_json::value::RawValue;
use store::accounts::tenants;
use store::actions::rules;
use store::analysis::signals;
use store::{Conn, Store};

use crate::analysis::bulk_runs::{BulkRuns, no_such_signal};
use crate::analysis::questions::CachedQuestions;
use crate::objects::ObjectCache;
use crate::runtime::{Clock, Error, Kind, Random, Result, internal};

/// The maximum number of signals per tenant: each is asked, and paid for, in every analysis, and all of them must fit one
/// call of the analyzer. The same limit as that of `/v1/systemone`.
const MAX_SIGNALS: i64 = 100;

/// The signals of all tenants.
pub struct Signals {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) bulk_runs: BulkRuns,
    pub(crate) questions: CachedQuestions,
    pub(crate) objects: Arc<ObjectCache>,
}

impl Signals {
    /// All signals of a tenant, by key.
    pub async fn list(&self, tenant: TenantId) -> Result<SignalList> {
        let signals = self.store.read("signals", async |conn| signals::of_tenant(conn, tenant).await).await?;
        Ok(SignalList { signals: signals.iter().map(record).collect::<Result<_>>()? })
    }

    /// Creates a signal, or replaces its definition. A new type makes it a new question: its old answers are no longer shown.
    pub async fn put(&self, tenant: TenantId, key: &str, input: &SignalInput) -> Result<Signal> {
        check_key(key)?;
        let (instructions, criteria) =
            (input.instructions.get(), input.criteria.as_deref().map(RawValue::get));
        Question::parse(key, input.kind, instructions, criteria)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        let criteria = criteria.filter(|text| *text != "null");
        let put = self
            .store
            .write("put_signal", async |conn: &mut Conn| {
                let now = self.clock.now();
                let owner = tenants::lock(conn, tenant).await?;
                let existing = signals::find(conn, tenant, key).await?;
                if existing.is_none() && signals::count(conn, tenant).await? >= MAX_SIGNALS {
                    let reason = format!("an account has at most {MAX_SIGNALS} signals");
                    return Err(Error::new(Kind::Conflict, reason));
                }
                let same_question = existing.as_ref().filter(|existing| existing.kind == input.kind);
                let signal = signals::Signal {
                    key: key.to_owned(),
                    signal_id: same_question
                        .map_or_else(|| self.random.id(now), |existing| existing.signal_id),
                    kind: input.kind,
                    instructions: instructions.to_owned(),
                    criteria: criteria.map(str::to_owned),
                    enabled: input
                        .enabled
                        .or_else(|| existing.as_ref().map(|existing| existing.enabled))
                        .unwrap_or(true),
                    created_at: existing.as_ref().map_or(now, |existing| existing.created_at),
                    updated_at: now,
                };
                signals::put(conn, tenant, &signal).await?;
                self.apply_change(conn, tenant, existing.as_ref(), &signal).await?;
                let is_new = existing.is_none_or(|existing| existing.signal_id != signal.signal_id);
                let is_automatic = owner.is_some_and(|owner| owner.auto_backfill_signals);
                let backfill = if is_new && is_automatic && signal.enabled {
                    Some(self.bulk_runs.backfill_signal(conn, tenant, &signal).await?)
                } else {
                    None
                };
                Ok(Signal { backfill, ..record(&signal)? })
            })
            .await;
        self.questions.clear();
        self.objects.invalidate_all();
        self.bulk_runs.feeder.wake();
        put
    }

    /// Updates counts, rules and ranks after a change of a signal, in the caller's transaction.
    async fn apply_change(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        before: Option<&signals::Signal>,
        after: &signals::Signal,
    ) -> Result<()> {
        let Some(before) = before else { return Ok(()) };
        if before.signal_id != after.signal_id {
            signals::delete_tallies(conn, tenant, before.signal_id).await?;
            self.reset_rules(conn, tenant, &before.key).await?;
            self.bulk_runs.rerank_all(conn, tenant).await
        } else if before.enabled != after.enabled {
            // Objects are sorted and flagged by the answers of enabled signals only.
            self.bulk_runs.rerank_all(conn, tenant).await
        } else {
            Ok(())
        }
    }

    /// Resets the state of every rule that uses a signal: its answers are gone, so no condition over them holds any more, and
    /// the next match fires again. The caller has locked the tenant.
    async fn reset_rules(&self, conn: &mut Conn, tenant: TenantId, key: &str) -> Result<()> {
        let now = self.clock.now();
        for rule in rules::of_tenant(conn, tenant).await? {
            let uses_signal =
                Condition::parse(&rule.condition).is_ok_and(|condition| condition.keys().contains(&key));
            if uses_signal {
                rules::retire(conn, tenant, rule.condition_id, now).await?;
                let condition_id = self.random.id(now);
                rules::update(conn, &rules::Rule { condition_id, ..rule }).await?;
            }
        }
        Ok(())
    }

    /// Deletes a signal; its answers are no longer shown, and are swept in the background.
    pub async fn delete(&self, tenant: TenantId, key: &str) -> Result<()> {
        self.store
            .write("delete_signal", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                signals::delete(conn, tenant, key).await?;
                signals::delete_tallies(conn, tenant, signal.signal_id).await?;
                self.reset_rules(conn, tenant, key).await?;
                self.bulk_runs.rerank_all(conn, tenant).await
            })
            .await?;
        self.questions.clear();
        self.objects.invalidate_all();
        self.bulk_runs.feeder.wake();
        Ok(())
    }
}

fn check_key(key: &str) -> Result<()> {
    if is_key(key) {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "key: it must have 1 to {MAX_KEY} letters, digits and underscores, at least one letter, and not be and, or, not"
    )))
}

fn record(signal: &signals::Signal) -> Result<Signal> {
    let raw = |text: &String| RawValue::from_string(text.clone()).map_err(internal);
    Ok(Signal {
        key: signal.key.clone(),
        kind: signal.kind,
        instructions: raw(&signal.instructions)?,
        criteria: signal.criteria.as_ref().map(raw).transpose()?,
        enabled: signal.enabled,
        created_at: signal.created_at,
        updated_at: signal.updated_at,
        backfill: None,
    })
}
