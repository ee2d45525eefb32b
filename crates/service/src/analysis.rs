//! One analysis: what is read and what is asked. What follows is written by the concluder.

use std::sync::PoisonError;
use std::time::Instant;

use analyzer::{Failure, Findings, Inquiry};
use model::compaction::Folded;
use model::{Answer, CompactedState, Dossier, DossierEvent, Question, TenantId, Timestamp, dossier};
use store::analyses::{self, Summary};
use store::signals::Signal;
use store::{Conn, ledger, signals, tenants};
use uuid::Uuid;

use crate::{Error, Kind, Result, Service, internal};

/// Events read at a time while a long history is folded.
const READ_AT_ONCE: i64 = 1_000;

/// The questions of a tenant that are asked, ready to be.
pub(crate) struct Asked {
    pub(crate) signals: Vec<Signal>,
    questions: Vec<Question>,
}

/// An object whose history was read, ready to be asked about.
pub(crate) struct History {
    pub(crate) asked: Asked,
    state: String,
    /// When the object began, which tells it from a later one of the same name.
    pub(crate) since: Timestamp,
    /// The newest event that was read.
    pub(crate) read_seq: i64,
    /// The summary, where events were folded into it.
    pub(crate) folded: Option<Summary>,
    /// Whether the raw events go once they were read.
    pub(crate) drop_events: bool,
}

/// What an analyzer found, with the answers that could be made of it.
pub(crate) struct Found {
    pub(crate) answers: Vec<Answer>,
    pub(crate) model: String,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) latency_ms: u64,
}

/// Which of a tenant's enabled signals are asked.
pub(crate) enum Which<'a> {
    All,
    Keys(&'a [String]),
    Ids(&'a [Uuid]),
}

impl Asked {
    /// Picks the enabled signals that are asked for; those that nobody knows are skipped.
    pub(crate) async fn load(conn: &mut Conn, tenant: TenantId, which: &Which<'_>) -> Result<Self> {
        let all = signals::of_tenant(conn, tenant).await?;
        let enabled: Vec<Signal> = all.into_iter().filter(|signal| signal.enabled).collect();
        let is_asked = |signal: &Signal| match which {
            Which::All => true,
            Which::Keys(keys) => keys.contains(&signal.key),
            Which::Ids(ids) => ids.contains(&signal.signal_id),
        };
        let signals: Vec<Signal> = enabled.into_iter().filter(is_asked).collect();
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
}

impl Service {
    /// Reads an object's history up to an event, folding what does not fit the dossier. None when it is gone.
    pub(crate) async fn read_history(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        object_id: &str,
        through: Option<i64>,
        asked: Asked,
    ) -> Result<Option<History>> {
        let Some(subject) = analyses::subject(conn, tenant, object_id).await? else { return Ok(None) };
        let read_seq = through.unwrap_or(subject.event_count);
        let known = analyses::summary(conn, tenant, object_id).await?;
        let mut after = known.as_ref().map_or(0, |summary| summary.through_seq);
        let mut folded = known.clone();
        let mut recent: Vec<DossierEvent> = Vec::new();
        loop {
            let events =
                analyses::events_between(conn, tenant, object_id, after, read_seq, READ_AT_ONCE).await?;
            let is_last = i64::try_from(events.len()).unwrap_or(0) < READ_AT_ONCE;
            after = events.last().map_or(after, |event| event.seq);
            recent.extend(events);
            let older = recent.len() - dossier::fitting(&recent);
            fold(&mut folded, recent.drain(..older));
            if is_last {
                break;
            }
        }
        let retention = tenants::find(conn, tenant).await?.map(|tenant| tenant.event_retention);
        let forever = retention.as_deref() == Some("forever");
        let drop_events = retention.as_deref() == Some("after_analysis");
        let told = Dossier {
            object_type: subject.object_type,
            display_name: subject.display_name,
            summary: folded.as_ref().map(|summary| summary.state.clone()),
            recent: recent.clone(),
        };
        if drop_events {
            fold(&mut folded, recent.into_iter());
        }
        if let (false, Some(summary)) = (forever, folded.as_mut()) {
            summary.state.sample_messages.clear();
        }
        let folded = if folded == known { None } else { folded };
        let since = subject.first_seen;
        Ok(Some(History { asked, state: told.render(), since, read_seq, folded, drop_events }))
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
        History { asked, state: told.render(), since, read_seq, folded: None, drop_events: false }
    }

    /// Asks the analyzer.
    pub(crate) async fn ask(&self, read: &History) -> std::result::Result<Found, Failure> {
        self.inquire(&read.state, &read.asked.questions).await
    }

    /// Asks the analyzer about a text.
    pub(crate) async fn inquire(
        &self,
        state: &str,
        questions: &[Question],
    ) -> std::result::Result<Found, Failure> {
        let started = Instant::now();
        let inquiry = Inquiry { state, questions };
        let begun = self.clock.now();
        let outcome = self.analyzer.analyze(inquiry).await;
        self.keep_pace(begun, outcome.as_ref().err());
        let findings: Findings = outcome?;
        let answers = questions.iter().zip(&findings.answers).filter_map(|(question, finding)| {
            let distribution = finding.as_ref().ok()?;
            Answer::new(question, distribution).ok()
        });
        let answers: Vec<Answer> = answers.collect();
        if answers.is_empty() {
            return Err(Failure::Failed("the analyzer answered none of the questions".into()));
        }
        Ok(Found {
            answers,
            model: findings.model,
            input_tokens: findings.input_tokens,
            output_tokens: findings.output_tokens,
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Learns how much the analyzer bears: one that asks for patience, or is gone, slows the queue down.
    fn keep_pace(&self, begun: Timestamp, failure: Option<&Failure>) {
        let now = self.clock.now();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => pace.succeeded(begun),
            Some(Failure::Throttled { retry_after }) => pace.throttled(begun, *retry_after, now),
            Some(Failure::Down(_)) => pace.throttled(begun, None, now),
            Some(Failure::Failed(_)) => {}
        }
    }

    /// How many analyses may run at a time now, and when to ask again if that is none.
    pub(crate) fn allowed(&self, now: Timestamp) -> (usize, Option<Timestamp>) {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        (pace.allowed(now), pace.resume_at(now))
    }

    /// What an analysis is charged, in micro-dollars.
    pub(crate) fn price_of(&self, found: &Found) -> i64 {
        if !self.options.metering {
            return 0;
        }
        self.options.tariff_of(&found.model).charge(found.input_tokens, found.output_tokens).micros
    }

    /// Refuses an empty balance.
    pub(crate) async fn demand_balance(&self, conn: &mut Conn, tenant: TenantId) -> Result<()> {
        if self.options.blocks() && ledger::balance(conn, tenant).await? <= 0 {
            return Err(crate::ingest::payment_required());
        }
        Ok(())
    }
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

/// What a caller who waits is told of an analyzer's failure.
pub(crate) fn refusal(failure: Failure) -> Error {
    match failure {
        Failure::Throttled { retry_after } => {
            Error::new(Kind::AnalyzerBusy, "the analyzer asks for patience")
                .retry_after(retry_after.unwrap_or(std::time::Duration::from_secs(5)))
        }
        Failure::Down(cause) | Failure::Failed(cause) => {
            Error::new(Kind::AnalyzerError, "the analyzer failed").because(cause)
        }
    }
}
