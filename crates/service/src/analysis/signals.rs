//! Signals: the questions of a tenant, as it edits them.

use std::sync::Arc;

use model::api::{Signal, SignalBackfill, SignalInput, SignalList};
use model::condition::{Condition, MAX_KEY, is_key};
use model::{Question, SignalType, TenantId};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::accounts::tenants::{self, Tenant};
use store::actions::rules;
use store::analysis::{signal_versions, signals};
use store::{Conn, Store};
use uuid::Uuid;

use crate::analysis::bulk_runs::BulkRuns;
use crate::analysis::questions::CachedQuestions;
use crate::objects::ObjectCache;
use crate::quality::no_such_signal;
use crate::runtime::{Caller, Clock, Error, Kind, Random, Result, audit, internal};

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
    pub async fn put(&self, caller: Caller, key: &str, input: &SignalInput) -> Result<Signal> {
        check_key(key)?;
        let criteria = input.criteria.as_deref().map(RawValue::get).filter(|text| *text != "null");
        let wording = Wording { kind: input.kind, instructions: input.instructions.get(), criteria };
        Question::parse(key, wording.kind, wording.instructions, wording.criteria)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        let put = self
            .store
            .write("put_signal", async |conn: &mut Conn| {
                let owner = tenants::lock(conn, caller.tenant).await?;
                let existing = signals::find(conn, caller.tenant, key).await?;
                if existing.is_none() && signals::count(conn, caller.tenant).await? >= MAX_SIGNALS {
                    let reason = format!("an account has at most {MAX_SIGNALS} signals");
                    return Err(Error::new(Kind::Conflict, reason));
                }
                let was_enabled = existing.as_ref().map(|existing| existing.enabled);
                // A calibration is fitted to a wording, and off after a new one.
                let calibration_id = existing
                    .as_ref()
                    .filter(|existing| wording.is_of(existing))
                    .and_then(|existing| existing.calibration_id);
                let definition = Definition {
                    wording,
                    calibration_id,
                    enabled: input.enabled.or(was_enabled).unwrap_or(true),
                };
                let signal = self.define(conn, caller, key, existing.as_ref(), definition).await?;
                let backfill = self.backfill_if_new(conn, owner, existing.as_ref(), &signal).await?;
                let before = existing.as_ref().map(on_record).transpose()?;
                audit::note(caller.tenant, key, before.as_ref(), Some(&on_record(&signal)?));
                Ok(Signal { backfill, ..record(&signal)? })
            })
            .await;
        self.changed();
        put
    }

    /// Gives a key a definition, in the caller's transaction, which has locked the tenant and found the `existing` signal. Every
    /// change of the wording or the calibration is recorded as a version.
    pub(crate) async fn define(
        &self,
        conn: &mut Conn,
        caller: Caller,
        key: &str,
        existing: Option<&signals::Signal>,
        definition: Definition<'_>,
    ) -> Result<signals::Signal> {
        let (now, tenant) = (self.clock.now(), caller.tenant);
        let Definition { wording, calibration_id, enabled } = definition;
        let same_question = existing.filter(|existing| existing.kind == wording.kind);
        let same_version = existing
            .filter(|existing| wording.is_of(existing) && existing.calibration_id == calibration_id)
            .map(|existing| existing.version);
        if existing.is_some() && same_question.is_none() {
            // They were fitted to the answers to the question that goes, and are swept with it.
            signal_versions::forget_calibrations(conn, tenant, key).await?;
        }
        let signal = signals::Signal {
            key: key.to_owned(),
            signal_id: same_question.map_or_else(|| self.random.id(now), |existing| existing.signal_id),
            kind: wording.kind,
            instructions: wording.instructions.to_owned(),
            criteria: wording.criteria.map(str::to_owned),
            version: match same_version {
                Some(version) => version,
                None => signal_versions::next(conn, tenant, key).await?,
            },
            calibration_id,
            // It is about the question, not about its wording.
            escalation: same_question.and_then(|existing| existing.escalation.clone()),
            enabled,
            created_at: existing.map_or(now, |existing| existing.created_at),
            updated_at: now,
        };
        signals::put(conn, tenant, &signal).await?;
        if same_version.is_none() {
            let author = caller.author(conn).await?;
            signal_versions::record(conn, tenant, &signal, Some(&author)).await?;
        }
        self.apply_change(conn, tenant, existing, &signal).await?;
        Ok(signal)
    }

    /// Starts a backfill of a signal that has become a new question, for a tenant that has chosen that.
    pub(crate) async fn backfill_if_new(
        &self,
        conn: &mut Conn,
        owner: Option<Tenant>,
        before: Option<&signals::Signal>,
        signal: &signals::Signal,
    ) -> Result<Option<SignalBackfill>> {
        let is_new = before.is_none_or(|before| before.signal_id != signal.signal_id);
        match owner.filter(|owner| owner.auto_backfill_signals && is_new && signal.enabled) {
            Some(owner) => Ok(Some(self.bulk_runs.backfill_signal(conn, owner.tenant_id, signal).await?)),
            None => Ok(None),
        }
    }

    /// To be called after the commit of a change: nobody sees the old definition on this node any more.
    pub(crate) fn changed(&self) {
        self.questions.clear();
        self.objects.invalidate_all();
        self.bulk_runs.feeder.wake();
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
                audit::note(tenant, key, Some(&on_record(&signal)?), audit::NONE);
                signals::delete(conn, tenant, key).await?;
                signals::delete_tallies(conn, tenant, signal.signal_id).await?;
                signal_versions::forget_calibrations(conn, tenant, key).await?;
                self.reset_rules(conn, tenant, key).await?;
                self.bulk_runs.rerank_all(conn, tenant).await
            })
            .await?;
        self.changed();
        Ok(())
    }
}

/// What a signal asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wording<'a> {
    pub(crate) kind: SignalType,
    /// JSON.
    pub(crate) instructions: &'a str,
    /// JSON.
    pub(crate) criteria: Option<&'a str>,
}

impl Wording<'_> {
    /// Whether a signal has this wording, to the byte.
    pub(crate) fn is_of(&self, signal: &signals::Signal) -> bool {
        signal.kind == self.kind
            && signal.instructions == self.instructions
            && signal.criteria.as_deref() == self.criteria
    }
}

/// Everything that a tenant says about a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition<'a> {
    pub(crate) wording: Wording<'a>,
    pub(crate) calibration_id: Option<Uuid>,
    pub(crate) enabled: bool,
}

fn check_key(key: &str) -> Result<()> {
    if is_key(key) {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "key: it must have 1 to {MAX_KEY} letters, digits and underscores, at least one letter, and not be and, or, not"
    )))
}

/// A signal as the audit log shows it: with the version and the calibration that its answers have.
pub(crate) fn on_record(signal: &signals::Signal) -> Result<Value> {
    let mut value = serde_json::to_value(record(signal)?).map_err(internal)?;
    value["version"] = json!(signal.version);
    value["calibration"] = json!(signal.calibration_id);
    Ok(value)
}

pub(crate) fn record(signal: &signals::Signal) -> Result<Signal> {
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
