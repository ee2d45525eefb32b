//! The past of an object's answers.

use model::api::{AnalysisList, AnalysisRecord, VersionedAnswer};
use model::{TenantId, event, recorded_answer};
use serde::{Deserialize, Serialize};
use store::analysis::answer_history::{self, Analysis};
use store::objects::reads;
use store::{Conn, Store};
use uuid::Uuid;

use crate::objects::reads::no_such_object;
use crate::runtime::{Error, Result, cursor, internal};

/// Analyses that one page reads at most while it looks for a signal that few of them answer.
const MAX_SCAN: usize = 1_000;

/// Which analyses of an object are listed.
#[derive(Clone, Debug)]
pub struct AnswerQuery {
    /// Only answers to this signal, and the analyses that have one.
    pub signal: Option<String>,
    /// The page size.
    pub limit: i64,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct AnswerCursor {
    object_id: String,
    signal: Option<String>,
    before: Uuid,
}

/// Reads the past of answers.
pub struct AnswerHistory {
    pub(crate) store: Store,
}

impl AnswerHistory {
    /// A page of what the analyses of an object said, newest first.
    pub async fn list(&self, tenant: TenantId, object_id: &str, query: &AnswerQuery) -> Result<AnalysisList> {
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        cursor::check_page_size(query.limit, cursor::MAX_PAGE)?;
        let is_of_list =
            |cursor: &AnswerCursor| cursor.object_id == object_id && cursor.signal == query.signal;
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let before = cursor.map(|cursor| cursor.before);
        let (analyses, next) = self
            .store
            .read("answer_history", async |conn: &mut Conn| {
                reads::find(conn, tenant, object_id).await?.ok_or_else(no_such_object)?;
                page(conn, tenant, object_id, query, before).await
            })
            .await?;
        let next_cursor = next.map(|before| {
            let (object_id, signal) = (object_id.to_owned(), query.signal.clone());
            cursor::encode(&AnswerCursor { object_id, signal, before })
        });
        Ok(AnalysisList { analyses, next_cursor })
    }
}

/// A page, and the id of the analysis after which the next one starts.
async fn page(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    query: &AnswerQuery,
    mut before: Option<Uuid>,
) -> Result<(Vec<AnalysisRecord>, Option<Uuid>)> {
    let limit = usize::try_from(query.limit).unwrap_or(0);
    let (mut found, mut scanned) = (Vec::new(), 0);
    while scanned < MAX_SCAN {
        // One more than the page shows whether there is a next one.
        let rows = answer_history::of_object(conn, tenant, object_id, before, query.limit + 1).await?;
        let is_last = rows.len() <= limit;
        scanned += rows.len();
        for row in rows {
            before = Some(row.analysis_id);
            let analysis = record(&row, query.signal.as_deref())?;
            if query.signal.is_none() || !analysis.answers.is_empty() {
                found.push((row.analysis_id, analysis));
            }
            if found.len() > limit {
                found.truncate(limit);
                let last = found.last().map(|(id, _)| *id);
                return Ok((found.into_iter().map(|(_, analysis)| analysis).collect(), last));
            }
        }
        if is_last {
            before = None;
            break;
        }
    }
    Ok((found.into_iter().map(|(_, analysis)| analysis).collect(), before))
}

/// A row of the history as the API shows it, with the answers to one signal or to all.
pub(crate) fn record(row: &Analysis, signal: Option<&str>) -> Result<AnalysisRecord> {
    let answers = recorded_answer::parse(&row.answers).map_err(internal)?;
    let wanted = answers.iter().filter(|answer| signal.is_none_or(|key| answer.signal == key));
    let answers = wanted.map(|recorded| {
        let answer = recorded.answer().map_err(internal)?;
        Ok(VersionedAnswer { answer, version: recorded.version })
    });
    Ok(AnalysisRecord {
        at: row.at,
        source: row.source,
        model: row.model.clone(),
        read_seq: row.read_seq,
        answers: answers.collect::<Result<_>>()?,
    })
}
