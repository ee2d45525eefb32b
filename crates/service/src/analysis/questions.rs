//! Question sets: a tenant's enabled signals, parsed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::quality::calibration::Calibrator;
use model::{Answer, Escalation, Question, TenantId};
use store::analysis::signals::{self, Signal};
use store::quality::calibrations;
use store::{Conn, Store};
use uuid::Uuid;

use crate::objects::answers::question;
use crate::runtime::{Result, ShortCache, internal};

/// Signals of one tenant, with their parsed questions.
pub(crate) struct QuestionSet {
    pub(crate) signals: Vec<Signal>,
    questions: Vec<Question>,
    /// Which answers are unsure, of each signal.
    escalations: Vec<Option<Escalation>>,
    calibrators: Calibrators,
}

/// The calibrations that are switched on, by id.
type Calibrators = Arc<HashMap<Uuid, Calibrator>>;

/// Which of a tenant's enabled signals are asked.
#[derive(Clone, Copy)]
pub(crate) enum SignalSelection<'a> {
    All,
    Keys(&'a [String]),
    Ids(&'a [Uuid]),
}

impl<'a> SignalSelection<'a> {
    /// The signals that a request names. An empty list is the same as none: a moderation caller must not pass
    /// everything by accident.
    pub(crate) fn requested(keys: Option<&'a [String]>) -> Self {
        keys.filter(|keys| !keys.is_empty()).map_or(Self::All, Self::Keys)
    }
}

impl QuestionSet {
    /// Parses the enabled signals that are selected. Keys and ids without a signal are skipped.
    fn of(signals: &[Signal], selection: SignalSelection<'_>, calibrators: &Calibrators) -> Result<Self> {
        let is_selected = |signal: &&Signal| match selection {
            SignalSelection::All => true,
            SignalSelection::Keys(keys) => keys.contains(&signal.key),
            SignalSelection::Ids(ids) => ids.contains(&signal.signal_id),
        };
        let selected = signals.iter().filter(|signal| signal.enabled).filter(is_selected);
        let signals: Vec<Signal> = selected.cloned().collect();
        let questions = signals.iter().map(question).collect::<Result<_>>()?;
        let escalation = |signal: &Signal| signal.escalation.as_deref().map(serde_json::from_str).transpose();
        let escalations =
            signals.iter().map(escalation).collect::<serde_json::Result<_>>().map_err(internal)?;
        Ok(Self { signals, questions, escalations, calibrators: Arc::clone(calibrators) })
    }

    /// The question set of some signals of a tenant, with their calibrations.
    pub(crate) async fn read(conn: &mut Conn, tenant: TenantId, signals: &[Signal]) -> Result<Self> {
        let ids: Vec<_> = switched_on(tenant, signals).collect();
        let calibrators = read_calibrators(conn, &ids).await?;
        Self::of(signals, SignalSelection::All, &calibrators)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    pub(crate) fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Which answers to a signal are unsure, where that is set.
    pub(crate) fn escalation(&self, key: &str) -> Option<(&Signal, &Question, Escalation)> {
        let index = self.signals.iter().position(|signal| signal.key == key)?;
        Some((&self.signals[index], &self.questions[index], self.escalations[index]?))
    }

    /// The analyzer's answers, each calibrated where its signal has a calibration; the others are left as they are.
    pub(crate) fn calibrated(&self, answers: Vec<Answer>) -> Vec<Answer> {
        if self.calibrators.is_empty() {
            return answers;
        }
        let calibrated = |answer: &Answer| {
            let asked = self.signals.iter().zip(&self.questions);
            let (signal, question) = asked.into_iter().find(|(signal, _)| signal.key == answer.signal)?;
            self.calibrators.get(&signal.calibration_id?)?.calibrate(question, &answer.value)
        };
        let calibrate = |answer: Answer| match calibrated(&answer) {
            Some(value) => answer.calibrated(value),
            None => answer,
        };
        answers.into_iter().map(calibrate).collect()
    }
}

/// The calibrations that signals of a tenant have switched on.
fn switched_on(tenant: TenantId, signals: &[Signal]) -> impl Iterator<Item = (TenantId, Uuid)> {
    signals.iter().filter_map(move |signal| Some((tenant, signal.calibration_id?)))
}

/// Reads calibrations; for most tenants there are none, and no query.
async fn read_calibrators(conn: &mut Conn, ids: &[(TenantId, Uuid)]) -> Result<Calibrators> {
    if ids.is_empty() {
        return Ok(Calibrators::default());
    }
    let found = calibrations::calibrators(conn, ids).await?.into_iter();
    let parsed = found.map(|(id, json)| Ok((id, serde_json::from_str(&json).map_err(internal)?)));
    Ok(Arc::new(parsed.collect::<Result<_>>()?))
}

/// The question set of each request. Most requests select all signals of their tenant, which
/// are parsed once.
pub(crate) async fn question_sets<'a>(
    conn: &mut Conn,
    requests: impl Iterator<Item = (TenantId, SignalSelection<'a>)> + Clone,
) -> Result<Vec<Arc<QuestionSet>>> {
    let tenants: BTreeSet<TenantId> = requests.clone().map(|(tenant, _)| tenant).collect();
    let signals = signals::of_tenants(conn, &tenants).await?;
    let ids: Vec<_> =
        signals.iter().flat_map(|(tenant, of_tenant)| switched_on(*tenant, of_tenant)).collect();
    let calibrators = read_calibrators(conn, &ids).await?;
    let mut all: HashMap<TenantId, Arc<QuestionSet>> = HashMap::new();
    let mut sets = Vec::new();
    for (tenant, selection) in requests {
        let parse =
            || QuestionSet::of(signals.get(&tenant).map_or(&[], Vec::as_slice), selection, &calibrators);
        let set = match (selection, all.get(&tenant)) {
            (SignalSelection::All, Some(cached)) => Arc::clone(cached),
            (SignalSelection::All, None) => {
                let set = Arc::new(parse()?);
                all.insert(tenant, Arc::clone(&set));
                set
            }
            _ => Arc::new(parse()?),
        };
        sets.push(set);
    }
    Ok(sets)
}

/// Question sets of tenants, cached for verdicts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CachedQuestions {
    store: Store,
    cache: Arc<ShortCache<TenantId, QuestionSet>>,
}

impl CachedQuestions {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, cache: Arc::new(ShortCache::new()) }
    }

    /// The question set of a tenant, cached for 800 ms. Only for verdicts: a job may have been queued because of
    /// a signal that was just created on another node.
    pub(crate) async fn get(
        &self,
        tenant: TenantId,
        selection: SignalSelection<'_>,
    ) -> Result<Arc<QuestionSet>> {
        let all = if let Some(all) = self.cache.get(&tenant) {
            all
        } else {
            let read = self.cache.start_read();
            let set = self
                .store
                .read("signals", async |conn: &mut Conn| {
                    let signals = signals::of_tenant(conn, tenant).await?;
                    QuestionSet::read(conn, tenant, &signals).await
                })
                .await?;
            self.cache.insert(tenant, read, set)
        };
        match selection {
            SignalSelection::All => Ok(all),
            some => Ok(Arc::new(QuestionSet::of(&all.signals, some, &all.calibrators)?)),
        }
    }

    /// Drops all entries, after a change of a signal on this node.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }
}
