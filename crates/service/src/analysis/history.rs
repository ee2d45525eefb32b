//! What is read for an analysis: the questions that are asked, and the history of the object, folded where it is long.
//! The histories of many objects are read together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::compaction::Folded;
use model::{CompactedState, Dossier, DossierEvent, Question, TenantId, Timestamp, dossier};
use store::Conn;
use store::analysis::history;
use store::analysis::history::{Stretch, Summary, Told};
use store::analysis::signals;
use store::analysis::signals::Signal;
use uuid::Uuid;

use crate::{Result, Service, internal};

/// Events read at a time while a long history is folded.
const READ_AT_ONCE: i64 = 1_000;
/// Unread events of an object that is read together with others: those that its dossier shows again, and as many new ones.
/// One that has more is read on its own.
const READ_TOGETHER: i64 = 400;
/// Objects that are read with one statement: what is left of them is small, but their events are in memory until then.
const OBJECTS_TOGETHER: usize = 16;

/// The questions of a tenant that are asked, ready to be.
pub(crate) struct Asked {
    pub(crate) signals: Vec<Signal>,
    questions: Vec<Question>,
}

/// An object whose history was read, ready to be asked about.
pub(crate) struct History {
    pub(crate) asked: Arc<Asked>,
    pub(crate) state: String,
    /// When the object began, which tells it from a later one of the same name.
    pub(crate) since: Timestamp,
    /// The newest event that was read.
    pub(crate) read_seq: i64,
    /// The summary, where events were folded into it.
    pub(crate) folded: Option<Summary>,
    /// Whether the raw events go once they were read.
    pub(crate) drop_events: bool,
    /// The version of the job that was queued for the object.
    pub(crate) queued: Option<i64>,
}

/// Which of a tenant's enabled signals are asked.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    All,
    Keys(&'a [String]),
    Ids(&'a [Uuid]),
}

/// An object whose history is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) object_id: &'a str,
    pub(crate) which: Which<'a>,
    /// The newest event to be read; none reads all.
    pub(crate) through: Option<i64>,
}

/// What reading a history came to.
pub(crate) enum Read {
    /// It can be asked about.
    Ready(Box<History>),
    /// None of its tenant's signals is asked.
    NothingAsked,
    /// There is no such object.
    Gone,
    /// It is long: it is to be read on its own, piece by piece.
    Long,
}

impl Read {
    /// What reading a history came to that is told.
    pub(crate) fn of(mut told: Told, asked: Arc<Asked>) -> Self {
        if asked.is_empty() {
            return Self::NothingAsked;
        }
        let Some(mut recent) = told.events.take() else { return Self::Long };
        let mut folded = told.summary.clone();
        fold_what_does_not_fit(&mut folded, &mut recent);
        Self::Ready(Box::new(History::of(told, folded, recent, asked)))
    }
}

impl<'a> Wanted<'a> {
    pub(crate) fn key(&self) -> history::Wanted<'a> {
        history::Wanted { tenant: self.tenant, object_id: self.object_id, through: self.through }
    }
}

impl History {
    /// An object with its summary, what does not fit the dossier folded into it, and the events that do.
    fn of(told: Told, mut folded: Option<Summary>, recent: Vec<DossierEvent>, asked: Arc<Asked>) -> Self {
        let drop_events = told.retention == "after_analysis";
        let dossier = Dossier {
            object_type: told.object_type,
            display_name: told.display_name,
            summary: folded.as_ref().map(|summary| summary.state.clone()),
            recent,
        };
        let state = dossier.render();
        if drop_events {
            fold(&mut folded, dossier.recent.into_iter());
        }
        if let (true, Some(summary)) = (told.retention != "forever", folded.as_mut()) {
            summary.state.sample_messages.clear();
        }
        Self {
            asked,
            state,
            since: told.first_seen,
            read_seq: told.through,
            folded: if folded == told.summary { None } else { folded },
            drop_events,
            queued: told.queued,
        }
    }

    /// Folds events that were told on their own, where nothing before them is still to be read, so that they can go.
    pub(crate) fn fold_alone(&mut self, mut summary: Option<Summary>, mut told: Vec<DossierEvent>) {
        let told_count = i64::try_from(told.len()).unwrap_or(i64::MAX);
        let before = self.read_seq - told_count;
        if summary.as_ref().map_or(0, |summary| summary.through_seq) != before {
            return;
        }
        for event in &mut told {
            event.seq += before;
        }
        fold(&mut summary, told.into_iter());
        if let Some(summary) = &mut summary {
            summary.state.sample_messages.clear();
        }
        self.folded = summary;
        self.drop_events = true;
    }
}

impl Asked {
    /// Picks the enabled signals that are asked for; those that nobody knows are skipped.
    fn of(signals: &[Signal], which: Which<'_>) -> Result<Self> {
        let is_asked = |signal: &&Signal| match which {
            Which::All => true,
            Which::Keys(keys) => keys.contains(&signal.key),
            Which::Ids(ids) => ids.contains(&signal.signal_id),
        };
        let asked = signals.iter().filter(|signal| signal.enabled).filter(is_asked);
        let signals: Vec<Signal> = asked.cloned().collect();
        let question = |signal: &Signal| {
            let kind = signal.kind.parse().map_err(internal)?;
            Question::parse(&signal.key, kind, &signal.instructions, signal.criteria.as_deref())
                .map_err(internal)
        };
        let questions = signals.iter().map(question).collect::<Result<_>>()?;
        Ok(Self { signals, questions })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    pub(crate) fn questions(&self) -> &[Question] {
        &self.questions
    }
}

impl Service {
    /// What a tenant asks, as this node believes for a moment. Only for callers who wait: a job may have been queued for
    /// the sake of a signal that was made a moment ago on another node.
    pub(crate) async fn asked_of_callers(&self, tenant: TenantId, which: Which<'_>) -> Result<Arc<Asked>> {
        let everything = if let Some(everything) = self.questions.get(&tenant) {
            everything
        } else {
            let asked = self.questions.ask();
            let signals =
                self.store.read("signals", async |conn| signals::of_tenant(conn, tenant).await).await?;
            self.questions.learn(tenant, asked, Asked::of(&signals, Which::All)?)
        };
        match which {
            Which::All => Ok(everything),
            some => Ok(Arc::new(Asked::of(&everything.signals, some)?)),
        }
    }

    /// An object of which only these events are told.
    pub(crate) fn read_events(
        object_type: &str,
        events: Vec<DossierEvent>,
        since: Timestamp,
        read_seq: i64,
        asked: Arc<Asked>,
    ) -> History {
        let told = Dossier {
            object_type: object_type.to_owned(),
            display_name: None,
            summary: None,
            recent: events,
        };
        let state = told.render();
        History { asked, state, since, read_seq, folded: None, drop_events: false, queued: None }
    }
}

/// Reads the histories of objects, folding what does not fit a dossier. That of each is of one moment; those of all are on a
/// connection whose statements see one.
pub(crate) async fn read_histories(
    conn: &mut Conn,
    wanted: &[Wanted<'_>],
    asked: Vec<Arc<Asked>>,
) -> Result<Vec<Read>> {
    let mut reads = Vec::with_capacity(wanted.len());
    let mut asked = asked.into_iter();
    for wanted in wanted.chunks(OBJECTS_TOGETHER) {
        let keys: Vec<history::Wanted<'_>> = wanted.iter().map(Wanted::key).collect();
        let mut told = history::read(conn, &keys, READ_TOGETHER).await?;
        reads.extend(wanted.iter().zip(asked.by_ref()).map(|(wanted, asked)| {
            let Some(told) = told.remove(&(wanted.tenant, wanted.object_id.to_owned())) else {
                return Read::Gone;
            };
            Read::of(told, asked)
        }));
    }
    Ok(reads)
}

/// Reads the history of an object that may be long, piece by piece, so that only what fits the dossier is in memory. On a
/// connection whose statements see one moment.
pub(crate) async fn read_long_history(
    conn: &mut Conn,
    wanted: &Wanted<'_>,
    asked: Arc<Asked>,
) -> Result<Read> {
    let told = history::read(conn, &[wanted.key()], 0).await?;
    let Some(told) = told.into_values().next() else { return Ok(Read::Gone) };
    let mut folded = told.summary.clone();
    let mut recent: Vec<DossierEvent> = Vec::new();
    let mut stretch = Stretch {
        tenant: wanted.tenant,
        object_id: wanted.object_id,
        after: folded.as_ref().map_or(0, |summary| summary.through_seq),
        through: told.through,
    };
    loop {
        let events = history::events_between(conn, stretch, READ_AT_ONCE).await?;
        let is_last = i64::try_from(events.len()).unwrap_or(0) < READ_AT_ONCE;
        stretch.after = events.last().map_or(stretch.after, |event| event.seq);
        recent.extend(events);
        fold_what_does_not_fit(&mut folded, &mut recent);
        if is_last {
            return Ok(Read::Ready(Box::new(History::of(told, folded, recent, asked))));
        }
    }
}

/// What is asked about each object. Most are asked everything that their tenant asks, which is made ready once.
pub(crate) async fn all_asked(conn: &mut Conn, wanted: &[Wanted<'_>]) -> Result<Vec<Arc<Asked>>> {
    let owners: BTreeSet<TenantId> = wanted.iter().map(|wanted| wanted.tenant).collect();
    let signals = signals::of_tenants(conn, &owners).await?;
    let mut everything: HashMap<TenantId, Arc<Asked>> = HashMap::new();
    let mut asked = Vec::with_capacity(wanted.len());
    for Wanted { tenant, which, .. } in wanted {
        let known = everything.get(tenant).filter(|_| matches!(which, Which::All));
        let ready = match known {
            Some(known) => Arc::clone(known),
            None => Arc::new(Asked::of(signals.get(tenant).map_or(&[], Vec::as_slice), *which)?),
        };
        if matches!(which, Which::All) {
            everything.insert(*tenant, Arc::clone(&ready));
        }
        asked.push(ready);
    }
    Ok(asked)
}

fn fold_what_does_not_fit(summary: &mut Option<Summary>, recent: &mut Vec<DossierEvent>) {
    let older = recent.len() - dossier::fitting(recent);
    fold(summary, recent.drain(..older));
}

pub(crate) fn fold(summary: &mut Option<Summary>, events: impl Iterator<Item = DossierEvent>) {
    for event in events {
        let folded = Folded {
            kind: event.kind,
            name: event.name.as_deref(),
            content: event.content.as_deref(),
            occurred_at: event.occurred_at,
            received_at: event.received_at,
        };
        let state = CompactedState::fold(summary.take().map(|summary| summary.state), folded);
        *summary = Some(Summary { through_seq: event.seq, through_time: event.received_at, state });
    }
}
