//! Reading one page of an export.
//!
//! Pages follow each other by the key of the last row that was read, whether it is in the range or not: a range that few rows
//! are in costs many short reads, never a long one.

use std::collections::HashMap;
use std::ops;

use model::api::{ExportKind, ExportedAnswer, ExportedEvent, ExportedObject, ExportedRow, ObjectSummary};
use model::recorded_answer::first_id;
use model::{TenantId, Timestamp};
use serde_json::value::RawValue;
use store::Conn;
use store::accounts::audit_log;
use store::analysis::{answer_history, signals};
use store::billing::ledger;
use store::objects::{exports, reads};
use store::quality::labels;
use uuid::Uuid;

use super::position::{LAST_ANSWER, Position};
use crate::accounts::audit_record;
use crate::billing::ledger_record;
use crate::objects::answers::{enabled_signals, results};
use crate::objects::history_record;
use crate::quality::label_record;
use crate::runtime::cursor::CursorTime;
use crate::runtime::{Result, internal};

/// Rows of a page. An event has at most 48 KiB, so a page has at most 12 MiB.
const ROWS: i64 = 256;
/// Analyses of a page: each has an answer to every signal.
const ANALYSES: i64 = 64;

/// A part of an export.
pub(super) struct Page {
    pub(super) rows: Vec<(Position, ExportedRow)>,
    /// The last row that was read, also if it is not in the range.
    pub(super) last: Option<Position>,
    /// Whether there are no more.
    pub(super) is_last: bool,
}

impl Page {
    fn new(rows: Vec<(Position, ExportedRow)>, last: Option<Position>, (read, limit): (usize, i64)) -> Self {
        Self { rows, last, is_last: i64::try_from(read).is_ok_and(|read| read < limit) }
    }
}

/// Reads the rows after a position.
pub(super) async fn read(
    conn: &mut Conn,
    tenant: TenantId,
    what: ExportKind,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    match what {
        ExportKind::Objects => objects(conn, tenant, after, range).await,
        ExportKind::Answers => answers(conn, tenant, after, range).await,
        ExportKind::Labels => given_labels(conn, tenant, after, range).await,
        ExportKind::Events => events(conn, tenant, after, range).await,
        ExportKind::Ledger => entries(conn, tenant, after, range).await,
        ExportKind::Audit => lines(conn, tenant, after, range).await,
    }
}

async fn objects(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    let after = if let Some(Position::Object(id)) = after { id } else { "" };
    let found = exports::objects_after(conn, tenant, after, ROWS).await?;
    let (read, last) = (found.len(), found.last().map(|object| Position::Object(object.object_id.clone())));
    let found: Vec<_> = found.into_iter().filter(|object| range.contains(&object.last_seen)).collect();
    let ids: Vec<&str> = found.iter().map(|object| object.object_id.as_str()).collect();
    let answers = reads::answers_of(conn, tenant, &ids).await?;
    let enabled = enabled_signals(conn, tenant).await?;
    let row = |object: exports::ExportedObject| {
        let answers = answers.get(&object.object_id).map_or(&[][..], Vec::as_slice);
        let (analysis, pending) = results(&enabled, answers)?;
        let position = Position::Object(object.object_id.clone());
        let exported = ExportedObject {
            object: ObjectSummary {
                object_id: object.object_id,
                object_type: object.object_type,
                display_name: object.display_name,
                event_count: object.event_count,
                last_seen: object.last_seen,
                analysis,
                pending,
            },
            first_seen: object.first_seen,
            last_analyzed_at: object.last_analyzed_at,
        };
        Ok((position, ExportedRow::Object(exported)))
    };
    let rows = found.into_iter().map(row).collect::<Result<_>>()?;
    Ok(Page::new(rows, last, (read, ROWS)))
}

async fn answers(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    let (mut rows, mut key) = (Vec::new(), None);
    if let Some(Position::Answer(analysis, object_id, index)) = after {
        key = Some((*analysis, object_id.as_str()));
        // The rest of the analysis that the last row is of comes first.
        if *index != LAST_ANSWER
            && let Some(begun) = answer_history::find(conn, tenant, object_id, *analysis).await?
        {
            rows.extend(answer_rows(&begun, index + 1)?);
        }
    }
    let found = answer_history::page_between(conn, tenant, range, key, ANALYSES).await?;
    for analysis in &found {
        rows.extend(answer_rows(analysis, 0)?);
    }
    let last = found.last().map(|row| Position::Answer(row.analysis_id, row.object_id.clone(), LAST_ANSWER));
    Ok(Page::new(rows, last, (found.len(), ANALYSES)))
}

/// The rows of an analysis, from one of its answers on.
fn answer_rows(
    analysis: &answer_history::Analysis,
    from: u32,
) -> Result<impl Iterator<Item = (Position, ExportedRow)>> {
    let record = history_record(analysis, None)?;
    let (id, object_id) = (analysis.analysis_id, analysis.object_id.clone());
    let answers = (0..).zip(record.answers).filter(move |(index, _)| *index >= from);
    Ok(answers.map(move |(index, mut answer)| {
        // Each row has one model: that of its answer.
        let model = answer.answer.model.take().unwrap_or_else(|| record.model.clone());
        let exported = ExportedAnswer {
            object_id: object_id.clone(),
            at: record.at,
            answer,
            model,
            source: record.source,
            read_seq: record.read_seq,
        };
        (Position::Answer(id, object_id.clone(), index), ExportedRow::Answer(exported))
    }))
}

async fn given_labels(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    let after = if let Some(Position::Label(id)) = after { *id } else { first_id(range.start) };
    let found = labels::between(conn, tenant, (after, first_id(range.end)), ROWS).await?;
    let signals = signals::of_tenant(conn, tenant).await?;
    let keys: HashMap<Uuid, &str> =
        signals.iter().map(|signal| (signal.signal_id, signal.key.as_str())).collect();
    // Labels of signals that are gone are gone too, and only not swept yet.
    let row = |label: &labels::Label| {
        let key = keys.get(&label.signal_id)?;
        Some(
            label_record(label, key)
                .map(|record| (Position::Label(label.label_id), ExportedRow::Label(record))),
        )
    };
    let rows = found.iter().filter_map(row).collect::<Result<_>>()?;
    let last = found.last().map(|label| Position::Label(label.label_id));
    Ok(Page::new(rows, last, (found.len(), ROWS)))
}

async fn events(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    // No object has the empty id, so that an event of the first instant comes after it.
    let start = (range.start, "", 0);
    let after =
        if let Some(Position::Event(at, id, seq)) = after { (at.0, id.as_str(), *seq) } else { start };
    let found = exports::events_after(conn, tenant, after, range.end, ROWS).await?;
    let read = found.len();
    let position = |event: &exports::ExportedEvent| {
        Position::Event(CursorTime(event.received_at), event.object_id.clone(), event.seq)
    };
    let last = found.last().map(position);
    let row = |event: exports::ExportedEvent| {
        let position = position(&event);
        let exported = ExportedEvent {
            object_id: event.object_id,
            object_type: event.object_type.unwrap_or_default(),
            seq: event.seq,
            kind: event.kind,
            name: event.name,
            content: event.content,
            metadata: event.metadata.map(RawValue::from_string).transpose().map_err(internal)?,
            occurred_at: event.occurred_at,
            received_at: event.received_at,
        };
        Ok((position, ExportedRow::Event(exported)))
    };
    let rows = found.into_iter().map(row).collect::<Result<_>>()?;
    Ok(Page::new(rows, last, (read, ROWS)))
}

async fn entries(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    let after = if let Some(Position::Ledger(seq)) = after { *seq } else { 0 };
    let found = ledger::entries_after(conn, tenant, after, ROWS).await?;
    let (read, last) = (found.len(), found.last().map(|entry| Position::Ledger(entry.seq)));
    let found = found.into_iter().filter(|entry| range.contains(&entry.created_at));
    let records = found.map(ledger_record);
    let rows = records.map(|(seq, entry)| (Position::Ledger(seq), ExportedRow::Ledger(entry))).collect();
    Ok(Page::new(rows, last, (read, ROWS)))
}

async fn lines(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&Position>,
    range: ops::Range<Timestamp>,
) -> Result<Page> {
    let after = if let Some(Position::Audit(seq)) = after { *seq } else { 0 };
    let found = audit_log::after(conn, tenant, after, ROWS).await?;
    let (read, last) = (found.len(), found.last().map(|line| Position::Audit(line.seq)));
    let found = found.into_iter().filter(|line| range.contains(&line.at));
    let row = |line: audit_log::Line| {
        let position = Position::Audit(line.seq);
        Ok((position, ExportedRow::Audit(audit_record(line)?)))
    };
    let rows = found.map(row).collect::<Result<_>>()?;
    Ok(Page::new(rows, last, (read, ROWS)))
}
