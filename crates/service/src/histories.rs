//! What is read for an analysis: the questions that are asked, and the history of the object, folded where it is long.
//! The histories of many objects are read together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::compaction::Folded;
use model::{CompactedState, Dossier, DossierEvent, Question, TenantId, Timestamp, dossier};
use store::analyses::{self, Stretch, Subject, Summary};
use store::signals::{self, Signal};
use store::{Conn, tenants};
use uuid::Uuid;

use crate::{Result, Service, internal};

/// Events read at a time while a long history is folded.
const READ_AT_ONCE: i64 = 1_000;
/// Unread events of an object that is read together with others: those that its dossier shows again, and as many new ones.
/// One that has more is read on its own.
const READ_TOGETHER: i64 = 400;

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

impl<'a> Wanted<'a> {
    /// The events that are not in the summary yet.
    fn unread(&self, subject: &Subject, known: Option<&Summary>) -> Stretch<'a> {
        Stretch {
            tenant: self.tenant,
            object_id: self.object_id,
            after: known.map_or(0, |summary| summary.through_seq),
            through: self.through.unwrap_or(subject.event_count),
        }
    }
}

/// What reading a history came to.
pub(crate) enum Read {
    /// It can be asked about.
    Ready(Box<History>),
    /// None of its tenant's signals is asked.
    NothingAsked,
    /// There is no such object.
    Gone,
    /// It is long, and others are read with it: it is to be read on its own.
    Long,
}

impl History {
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
    pub(crate) async fn load(conn: &mut Conn, tenant: TenantId, which: Which<'_>) -> Result<Self> {
        Self::of(&signals::of_tenant(conn, tenant).await?, which)
    }

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
    /// Reads the histories of objects, folding what does not fit a dossier.
    pub(crate) async fn read_histories(&self, conn: &mut Conn, wanted: &[Wanted<'_>]) -> Result<Vec<Read>> {
        let owners: BTreeSet<TenantId> = wanted.iter().map(|wanted| wanted.tenant).collect();
        let asked = all_asked(conn, &owners, wanted).await?;
        let retentions = tenants::retentions(conn, &owners).await?;
        let keys: Vec<(TenantId, &str)> =
            wanted.iter().map(|wanted| (wanted.tenant, wanted.object_id)).collect();
        let mut subjects = analyses::subjects(conn, &keys).await?;
        let mut summaries = analyses::summaries(conn, &keys).await?;
        let short = wanted.iter().filter_map(|wanted| {
            let key = (wanted.tenant, wanted.object_id.to_owned());
            Some(wanted.unread(subjects.get(&key)?, summaries.get(&key)))
        });
        let short: Vec<Stretch<'_>> =
            short.filter(|stretch| stretch.through - stretch.after <= READ_TOGETHER).collect();
        let mut events = analyses::events_of(conn, &short).await?;
        let reads_many = wanted.len() > 1;
        let mut reads = Vec::with_capacity(wanted.len());
        for (wanted, asked) in wanted.iter().zip(asked) {
            let key = (wanted.tenant, wanted.object_id.to_owned());
            let Some(subject) = subjects.remove(&key) else {
                reads.push(Read::Gone);
                continue;
            };
            if asked.is_empty() {
                reads.push(Read::NothingAsked);
                continue;
            }
            let known = summaries.remove(&key);
            let stretch = wanted.unread(&subject, known.as_ref());
            let is_short = stretch.through - stretch.after <= READ_TOGETHER;
            if !is_short && reads_many {
                reads.push(Read::Long);
                continue;
            }
            let mut folded = known.clone();
            let recent = if is_short {
                let mut recent = events.remove(&key).unwrap_or_default();
                fold_what_does_not_fit(&mut folded, &mut recent);
                recent
            } else {
                read_long(conn, stretch, &mut folded).await?
            };
            let retention = retentions.get(&wanted.tenant).map_or("forever", String::as_str);
            let told = Told { subject, known, folded, recent, read_seq: stretch.through };
            reads.push(Read::Ready(Box::new(told.history(asked, retention))));
        }
        Ok(reads)
    }

    /// An object of which only these events are told.
    pub(crate) fn read_events(
        object_type: &str,
        events: Vec<DossierEvent>,
        since: Timestamp,
        read_seq: i64,
        asked: Asked,
    ) -> History {
        let told = Dossier {
            object_type: object_type.to_owned(),
            display_name: None,
            summary: None,
            recent: events,
        };
        let asked = Arc::new(asked);
        History { asked, state: told.render(), since, read_seq, folded: None, drop_events: false }
    }
}

/// What is asked about each object. Most are asked everything that their tenant asks, which is made ready once.
async fn all_asked(
    conn: &mut Conn,
    owners: &BTreeSet<TenantId>,
    wanted: &[Wanted<'_>],
) -> Result<Vec<Arc<Asked>>> {
    let signals = signals::of_tenants(conn, owners).await?;
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

/// What was read of an object.
struct Told {
    subject: Subject,
    /// The summary as it stands.
    known: Option<Summary>,
    /// The summary with what does not fit the dossier.
    folded: Option<Summary>,
    /// What does.
    recent: Vec<DossierEvent>,
    read_seq: i64,
}

impl Told {
    fn history(mut self, asked: Arc<Asked>, retention: &str) -> History {
        let drop_events = retention == "after_analysis";
        let dossier = Dossier {
            object_type: self.subject.object_type,
            display_name: self.subject.display_name,
            summary: self.folded.as_ref().map(|summary| summary.state.clone()),
            recent: self.recent,
        };
        let state = dossier.render();
        if drop_events {
            fold(&mut self.folded, dossier.recent.into_iter());
        }
        if let (true, Some(summary)) = (retention != "forever", self.folded.as_mut()) {
            summary.state.sample_messages.clear();
        }
        History {
            asked,
            state,
            since: self.subject.first_seen,
            read_seq: self.read_seq,
            folded: if self.folded == self.known { None } else { self.folded },
            drop_events,
        }
    }
}

/// Reads a long stretch of events piece by piece, so that only what fits the dossier is in memory.
async fn read_long(
    conn: &mut Conn,
    mut stretch: Stretch<'_>,
    folded: &mut Option<Summary>,
) -> Result<Vec<DossierEvent>> {
    let mut recent: Vec<DossierEvent> = Vec::new();
    loop {
        let events = analyses::events_between(conn, stretch, READ_AT_ONCE).await?;
        let is_last = i64::try_from(events.len()).unwrap_or(0) < READ_AT_ONCE;
        stretch.after = events.last().map_or(stretch.after, |event| event.seq);
        recent.extend(events);
        fold_what_does_not_fit(folded, &mut recent);
        if is_last {
            return Ok(recent);
        }
    }
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
