//! The history of an object, as the analyzer reads it; older events are folded into its summary. The histories of many
//! objects are read together.

use std::sync::Arc;

use model::api::EventRetention;
use model::compaction::Folded;
use model::history::HistoryPart;
use model::{CompactedState, History, HistoryEvent, NewEvent, TenantId, Timestamp};
use store::Conn;
use store::analysis::history::{self, EventRange, HistoryRequest, ObjectHistory, Summary};
use uuid::Uuid;

use crate::analysis::questions::{QuestionSet, SignalSelection};
use crate::runtime::Result;

/// Events per read while a long history is folded.
const EVENTS_PER_READ: i64 = 1_000;
/// The maximum number of unfolded events of an object that is read together with others: those that the analyzer saw
/// before, and as many new ones. An object with more is read separately.
const MAX_UNFOLDED_EVENTS: i64 = 400;
/// Objects per statement: the resulting histories are small, but at first all their events are in memory.
const OBJECTS_PER_READ: usize = 16;

/// An object and the questions about it, ready for the analyzer.
pub(crate) struct AnalysisInput {
    pub(crate) questions: Arc<QuestionSet>,
    /// The history as text.
    pub(crate) state: String,
    /// Which of its lines tell about events.
    pub(crate) parts: Vec<HistoryPart>,
    /// When the object was first seen, which distinguishes it from a later object with the same id.
    pub(crate) first_seen: Timestamp,
    /// The newest event that was read.
    pub(crate) read_seq: i64,
    /// The new summary, if events were folded into it.
    pub(crate) new_summary: Option<Summary>,
    /// Whether the raw events are deleted after the analysis.
    pub(crate) drop_events: bool,
    /// The version of the object's queued job.
    pub(crate) queued_version: Option<i64>,
    /// The token of that job's lease.
    pub(crate) queued_lease: Option<Uuid>,
}

/// An object to be analyzed.
#[derive(Clone, Copy)]
pub(crate) struct ObjectRequest<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) object_id: &'a str,
    pub(crate) selection: SignalSelection<'a>,
    /// The newest event to read; all events if none.
    pub(crate) through: Option<i64>,
}

/// The result of reading an object's history.
pub(crate) enum Prepared {
    /// The input of the analyzer.
    Ready(Box<AnalysisInput>),
    /// No enabled signal is selected.
    NoQuestions,
    /// The object does not exist.
    Gone,
    /// The history is long: it must be read separately, in pages.
    Long,
}

impl Prepared {
    /// Prepares the input from a stored history.
    pub(crate) fn of(mut stored: ObjectHistory, questions: Arc<QuestionSet>) -> Self {
        if questions.is_empty() {
            return Self::NoQuestions;
        }
        let Some(mut recent) = stored.events.take() else { return Self::Long };
        let mut summary = stored.summary.clone();
        fold_excess(&mut summary, &mut recent);
        Self::Ready(Box::new(AnalysisInput::of(stored, summary, recent, questions)))
    }
}

impl<'a> ObjectRequest<'a> {
    pub(crate) fn history(&self) -> HistoryRequest<'a> {
        HistoryRequest { tenant: self.tenant, object_id: self.object_id, through: self.through }
    }
}

impl AnalysisInput {
    /// The input for an object with its summary, which includes folded older events, and its recent events.
    fn of(
        stored: ObjectHistory,
        mut summary: Option<Summary>,
        recent: Vec<HistoryEvent>,
        questions: Arc<QuestionSet>,
    ) -> Self {
        let drop_events = stored.retention == EventRetention::AfterAnalysis;
        let history = History {
            object_type: stored.object_type,
            display_name: stored.display_name,
            summary: summary.as_ref().map(|summary| summary.state.clone()),
            recent,
        };
        let (state, parts) = history.render_parts();
        if drop_events {
            fold(&mut summary, history.recent.into_iter());
        }
        if let (true, Some(summary)) = (stored.retention != EventRetention::Forever, summary.as_mut()) {
            summary.state.sample_messages.clear();
        }
        Self {
            questions,
            state,
            parts,
            first_seen: stored.first_seen,
            read_seq: stored.through,
            new_summary: if summary == stored.summary { None } else { summary },
            drop_events,
            queued_version: stored.queued_version,
            queued_lease: stored.queued_lease,
        }
    }

    /// The input for an object of which only these events are read.
    pub(crate) fn of_events(
        object_type: &str,
        events: Vec<HistoryEvent>,
        first_seen: Timestamp,
        read_seq: i64,
        questions: Arc<QuestionSet>,
    ) -> Self {
        let history = History {
            object_type: object_type.to_owned(),
            display_name: None,
            summary: None,
            recent: events,
        };
        let (state, parts) = history.render_parts();
        Self {
            questions,
            state,
            parts,
            first_seen,
            read_seq,
            new_summary: None,
            drop_events: false,
            queued_version: None,
            queued_lease: None,
        }
    }

    /// Folds the events that were read, so that they can be deleted; only if all earlier events are already folded.
    pub(crate) fn fold_read_events(&mut self, mut summary: Option<Summary>, mut events: Vec<HistoryEvent>) {
        let before = self.read_seq - i64::try_from(events.len()).unwrap_or(i64::MAX);
        if summary.as_ref().map_or(0, |summary| summary.through_seq) != before {
            return;
        }
        for event in &mut events {
            event.seq += before;
        }
        fold(&mut summary, events.into_iter());
        if let Some(summary) = &mut summary {
            summary.state.sample_messages.clear();
        }
        self.new_summary = summary;
        self.drop_events = true;
    }
}

/// The events of a request, as a history contains them.
pub(crate) fn history_events(events: &[NewEvent], now: Timestamp) -> Vec<HistoryEvent> {
    events.iter().zip(1..).map(|(event, seq)| HistoryEvent::of(event, seq, now)).collect()
}

/// Reads the histories of objects, and folds older events. The history of each object is consistent; for all of them to
/// be consistent with each other, the connection must be a snapshot.
pub(crate) async fn read_histories(
    conn: &mut Conn,
    requests: &[ObjectRequest<'_>],
    questions: Vec<Arc<QuestionSet>>,
) -> Result<Vec<Prepared>> {
    let mut prepared = Vec::with_capacity(requests.len());
    let mut questions = questions.into_iter();
    for requests in requests.chunks(OBJECTS_PER_READ) {
        let keys: Vec<HistoryRequest<'_>> = requests.iter().map(ObjectRequest::history).collect();
        let mut stored = history::read(conn, &keys, MAX_UNFOLDED_EVENTS).await?;
        prepared.extend(requests.iter().zip(questions.by_ref()).map(|(request, questions)| {
            match stored.remove(&(request.tenant, request.object_id.to_owned())) {
                Some(stored) => Prepared::of(stored, questions),
                None => Prepared::Gone,
            }
        }));
    }
    Ok(prepared)
}

/// Reads the history of an object that may be long, in pages, so that only what the analyzer reads is in memory. The
/// connection must be a snapshot.
pub(crate) async fn read_long_history(
    conn: &mut Conn,
    request: &ObjectRequest<'_>,
    questions: Arc<QuestionSet>,
) -> Result<Prepared> {
    let stored = history::read(conn, &[request.history()], 0).await?;
    let Some(stored) = stored.into_values().next() else { return Ok(Prepared::Gone) };
    read_in_pages(conn, request, stored, questions).await
}

/// Reads the history of an object from its first event on, as it was when `through` was its newest: its summary has passed that.
/// All events up to that one must be kept, and the connection must be a snapshot.
pub(crate) async fn read_past_history(
    conn: &mut Conn,
    request: &ObjectRequest<'_>,
    questions: Arc<QuestionSet>,
) -> Result<Prepared> {
    let stored = history::read(conn, &[request.history()], 0).await?;
    let Some(stored) = stored.into_values().next() else { return Ok(Prepared::Gone) };
    read_in_pages(conn, request, ObjectHistory { summary: None, ..stored }, questions).await
}

async fn read_in_pages(
    conn: &mut Conn,
    request: &ObjectRequest<'_>,
    stored: ObjectHistory,
    questions: Arc<QuestionSet>,
) -> Result<Prepared> {
    let mut summary = stored.summary.clone();
    let mut recent: Vec<HistoryEvent> = Vec::new();
    let mut range = EventRange {
        tenant: request.tenant,
        object_id: request.object_id,
        after: summary.as_ref().map_or(0, |summary| summary.through_seq),
        through: stored.through,
    };
    loop {
        let events = history::events_between(conn, range, EVENTS_PER_READ).await?;
        let is_last = i64::try_from(events.len()).unwrap_or(0) < EVENTS_PER_READ;
        range.after = events.last().map_or(range.after, |event| event.seq);
        recent.extend(events);
        fold_excess(&mut summary, &mut recent);
        if is_last {
            return Ok(Prepared::Ready(Box::new(AnalysisInput::of(stored, summary, recent, questions))));
        }
    }
}

/// Reads the history of one object, however long it is; none if the object does not exist. The connection must be a
/// snapshot.
pub(crate) async fn read_input(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    through: Option<i64>,
    questions: Arc<QuestionSet>,
) -> Result<Option<Box<AnalysisInput>>> {
    // The questions are given: nothing is selected here.
    let request = ObjectRequest { tenant, object_id, selection: SignalSelection::All, through };
    let mut prepared = read_histories(conn, &[request], vec![Arc::clone(&questions)]).await?;
    let prepared = match prepared.pop() {
        Some(Prepared::Long) => read_long_history(conn, &request, questions).await?,
        Some(prepared) => prepared,
        None => return Ok(None),
    };
    match prepared {
        Prepared::Ready(input) => Ok(Some(input)),
        Prepared::NoQuestions | Prepared::Gone | Prepared::Long => Ok(None),
    }
}

/// Folds the older events that do not fit into the history.
fn fold_excess(summary: &mut Option<Summary>, recent: &mut Vec<HistoryEvent>) {
    let older = recent.len() - model::history::fitting(recent);
    fold(summary, recent.drain(..older));
}

/// Folds events into a summary.
pub(crate) fn fold(summary: &mut Option<Summary>, events: impl Iterator<Item = HistoryEvent>) {
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
