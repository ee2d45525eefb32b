//! Labels: what a person, or a program, says is true about a signal of an object.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::api::{
    Author, Label, LabelAnswer, LabelCreate, LabelInput, LabelList, LabelSource, LabelValue, LabelsAccepted,
    RefusedLabel,
};
use model::recorded_answer::analysis_id;
use model::{Question, TenantId, Timestamp, event};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::actions::reviews;
use store::analysis::signals::{self, Signal};
use store::quality::labels::{self, LabelFilter, PresentAnswer};
use store::{Conn, Store};
use uuid::Uuid;

use crate::objects::answers::{AnswerColumns, no_such_signal, question};
use crate::objects::reads::no_such_object;
use crate::runtime::{Caller, Clock, Credential, Error, Kind, Random, Result, cursor, internal};

/// The most labels in a request.
const MAX_LABELS: usize = 1_000;
/// The longest note, in characters.
const MAX_NOTE: usize = 2_000;
/// How long a label about an object that was drawn at random is one of an audit; also how often an object is drawn at most.
pub(crate) const AUDIT_INTERVAL: Duration = Duration::from_hours(30 * 24);
/// How often a page reads on because labels were left out.
const MAX_READS: usize = 10;
/// The page size if none is given.
const PAGE: i64 = 50;

/// Which labels are listed.
#[derive(Clone, Debug, Default)]
pub struct LabelQuery {
    /// Only those about this signal.
    pub signal: Option<String>,
    /// Only those about this object.
    pub object_id: Option<String>,
    /// Only those that were given like this.
    pub source: Option<LabelSource>,
    /// The page size; 50 if left out.
    pub limit: Option<i64>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct LabelCursor {
    signal: Option<String>,
    object_id: Option<String>,
    source: Option<LabelSource>,
    before: Uuid,
}

/// A label to be written, checked against its signal.
pub(crate) struct NewLabel<'a> {
    pub(crate) object_id: &'a str,
    pub(crate) signal: &'a Signal,
    /// JSON.
    pub(crate) value: String,
    pub(crate) note: Option<&'a str>,
    pub(crate) source: LabelSource,
    /// Whether it is known that the object was drawn at random; otherwise that is looked up.
    pub(crate) audit: bool,
}

/// The labels that were written, and those of the same author that they replaced.
pub(crate) struct WrittenLabels {
    pub(crate) written: Vec<labels::Label>,
    /// What stands again if the written ones are withdrawn ([`labels::reinstate`]).
    pub(crate) replaced: Vec<labels::Label>,
}

/// The labels of all tenants.
#[derive(Clone)]
pub struct Labels {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

impl Labels {
    /// Gives a label about a signal of an object. An earlier one of the same author is replaced.
    pub async fn put(&self, caller: Caller, object_id: &str, key: &str, input: &LabelInput) -> Result<Label> {
        let tenant = caller.tenant;
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        let note = checked_note(input.note.as_deref()).map_err(Error::bad_request)?;
        self.store
            .write("put_label", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                if labels::lock_objects(conn, tenant, &[object_id]).await?.is_empty() {
                    return Err(no_such_object());
                }
                let value = checked_value(&question(&signal)?, &input.value).map_err(Error::bad_request)?;
                let source = source_of(caller);
                let new = NewLabel { object_id, signal: &signal, value, note, source, audit: false };
                let author = caller.author(conn).await?;
                let written = self.write(conn, tenant, &author, &[new]).await?.written;
                let label = written.first().ok_or_else(|| internal("the label was not written"))?;
                record(label, &signal.key)
            })
            .await
    }

    /// Gives many labels. Those that are wrong are refused one by one; of several about one signal of one object the last
    /// is kept.
    pub async fn put_many(&self, caller: Caller, requested: &[LabelCreate]) -> Result<LabelsAccepted> {
        if requested.is_empty() || requested.len() > MAX_LABELS {
            return Err(Error::bad_request(format!("labels: there must be 1 to {MAX_LABELS}")));
        }
        let tenant = caller.tenant;
        self.store
            .write("put_labels", async |conn: &mut Conn| {
                let signals = signals::of_tenant(conn, tenant).await?;
                let known: HashMap<&str, (&Signal, Question)> = signals
                    .iter()
                    .map(|signal| Ok((signal.key.as_str(), (signal, question(signal)?))))
                    .collect::<Result<_>>()?;
                let ids: Vec<&str> = requested
                    .iter()
                    .map(|label| label.object_id.as_str())
                    .filter(|object_id| event::check_object_id(object_id).is_ok())
                    .collect();
                let objects = labels::lock_objects(conn, tenant, &ids).await?;
                let (mut accepted, mut refused) = (Vec::new(), Vec::new());
                for (index, label) in (0..).zip(requested) {
                    match checked(label, &known, &objects, source_of(caller)) {
                        Ok(new) => accepted.push(new),
                        Err(message) => refused.push(RefusedLabel { index, message }),
                    }
                }
                let count = i64::try_from(accepted.len()).unwrap_or(i64::MAX);
                let author = caller.author(conn).await?;
                self.write(conn, tenant, &author, &last_of_each(accepted)).await?;
                Ok(LabelsAccepted { accepted: count, refused })
            })
            .await
    }

    /// Writes labels of one author in the caller's transaction, with what the service says now. The objects are locked
    /// ([`labels::lock_objects`]), and there is at most one label for a signal of an object.
    pub(crate) async fn write(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        author: &Author,
        new: &[NewLabel<'_>],
    ) -> Result<WrittenLabels> {
        let asked: Vec<(&str, Uuid)> =
            new.iter().map(|label| (label.object_id, label.signal.signal_id)).collect();
        let answers = labels::present_answers(conn, tenant, &asked).await?;
        let answers: HashMap<(&str, Uuid), &PresentAnswer> =
            answers.iter().map(|answer| ((answer.object_id.as_str(), answer.signal_id), answer)).collect();
        // The time is taken while the objects are locked, so that the latest label is the one that is written last.
        let now = self.clock.now();
        let audited = Audited::read(conn, tenant, &asked, now).await?;
        let written: Vec<labels::Label> = new
            .iter()
            .map(|label| {
                let answer = answers.get(&(label.object_id, label.signal.signal_id));
                let answer = answer.map(|answer| label_answer(label.signal, answer)).transpose()?;
                Ok(labels::Label {
                    label_id: analysis_id(now, self.random.bytes()),
                    object_id: label.object_id.to_owned(),
                    signal_id: label.signal.signal_id,
                    version: label.signal.version,
                    value: label.value.clone(),
                    note: label.note.map(str::to_owned),
                    source: label.source,
                    author_kind: author.kind,
                    author_id: author.id,
                    author_name: author.name.clone(),
                    audit: label.audit || audited.includes(label.object_id, label.signal.signal_id),
                    answer: answer
                        .map(|answer| serde_json::to_string(&answer))
                        .transpose()
                        .map_err(internal)?,
                    created_at: now,
                })
            })
            .collect::<Result<_>>()?;
        let replaced = labels::put(conn, tenant, &written).await?;
        Ok(WrittenLabels { written, replaced })
    }

    /// A page of labels, newest first.
    pub async fn list(&self, tenant: TenantId, query: &LabelQuery) -> Result<LabelList> {
        let limit = query.limit.unwrap_or(PAGE);
        cursor::check_page_size(limit, cursor::MAX_PAGE)?;
        let is_of_list = |cursor: &LabelCursor| {
            cursor.signal == query.signal
                && cursor.object_id == query.object_id
                && cursor.source == query.source
        };
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let before = cursor.map(|cursor| cursor.before);
        self.store
            .read("labels", async |conn: &mut Conn| {
                let signals = signals::of_tenant(conn, tenant).await?;
                let keys: HashMap<Uuid, &str> =
                    signals.iter().map(|signal| (signal.signal_id, signal.key.as_str())).collect();
                let signal = query.signal.as_deref().map(|key| {
                    signals.iter().find(|signal| signal.key == key).map(|signal| signal.signal_id)
                });
                if signal == Some(None) {
                    return Ok(LabelList { labels: Vec::new(), next_cursor: None });
                }
                let filter = LabelFilter {
                    signal: signal.flatten(),
                    object_id: query.object_id.as_deref(),
                    source: query.source,
                    before,
                    limit,
                };
                let (labels, next) = page(conn, tenant, filter, &keys).await?;
                let next_cursor = next.map(|before| {
                    let (signal, object_id) = (query.signal.clone(), query.object_id.clone());
                    cursor::encode(&LabelCursor { signal, object_id, source: query.source, before })
                });
                Ok(LabelList { labels, next_cursor })
            })
            .await
    }

    /// Withdraws a label; the latest one that is left about the same signal of the object counts.
    pub async fn delete(&self, tenant: TenantId, label: Uuid) -> Result<()> {
        self.store
            .write("delete_label", async |conn: &mut Conn| {
                let found = labels::find(conn, tenant, label).await?.ok_or_else(no_such_label)?;
                let signals = signals::of_tenant(conn, tenant).await?;
                if !signals.iter().any(|signal| signal.signal_id == found.signal_id) {
                    return Err(no_such_label());
                }
                labels::lock_objects(conn, tenant, &[&found.object_id]).await?;
                labels::withdraw(conn, tenant, label).await?.ok_or_else(no_such_label)?;
                Ok(())
            })
            .await
    }
}

/// Which of the objects to be labelled were drawn at random: recently, or when an earlier label of theirs was given, so that who
/// corrects a label does not take it out of the audits.
struct Audited {
    objects: HashSet<String>,
    labels: HashSet<(String, Uuid)>,
}

impl Audited {
    async fn read(conn: &mut Conn, tenant: TenantId, asked: &[(&str, Uuid)], now: Timestamp) -> Result<Self> {
        let mut ids: Vec<&str> = asked.iter().map(|(object_id, _)| *object_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let objects = reviews::audited_since(conn, tenant, &ids, now - AUDIT_INTERVAL).await?;
        Ok(Self { objects, labels: labels::audited(conn, tenant, asked).await? })
    }

    fn includes(&self, object_id: &str, signal: Uuid) -> bool {
        self.objects.contains(object_id) || self.labels.contains(&(object_id.to_owned(), signal))
    }
}

/// A page of labels, and the label after which the next page starts. Labels of signals that are gone are left out; while the
/// sweeper has not deleted many of them, a page may be short.
pub(crate) async fn page(
    conn: &mut Conn,
    tenant: TenantId,
    filter: LabelFilter<'_>,
    keys: &HashMap<Uuid, &str>,
) -> Result<(Vec<Label>, Option<Uuid>)> {
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let (mut page, mut last) = (Vec::new(), filter.before);
    for _ in 0..MAX_READS {
        // One more than requested shows whether there are more.
        let one_more = LabelFilter { before: last, limit: filter.limit + 1, ..filter };
        let found = labels::newest(conn, tenant, one_more).await?;
        for label in found.iter().take(limit) {
            last = Some(label.label_id);
            if let Some(key) = keys.get(&label.signal_id) {
                page.push(record(label, key)?);
            }
            if page.len() == limit {
                let is_end = found.last().map(|label| label.label_id) == last;
                return Ok((page, last.filter(|_| !is_end)));
            }
        }
        if found.len() <= limit {
            return Ok((page, None));
        }
    }
    Ok((page, last))
}

/// A label of the API.
pub(crate) fn record(label: &labels::Label, key: &str) -> Result<Label> {
    Ok(Label {
        id: label.label_id,
        object_id: label.object_id.clone(),
        signal: key.to_owned(),
        version: label.version,
        value: serde_json::from_str(&label.value).map_err(internal)?,
        note: label.note.clone(),
        source: label.source,
        by: label.author(),
        audit: label.audit,
        answer: label.answer.as_deref().map(serde_json::from_str).transpose().map_err(internal)?,
        created_at: label.created_at,
    })
}

/// What the service says now, as a label keeps it.
fn label_answer(signal: &Signal, answer: &PresentAnswer) -> Result<LabelAnswer> {
    let columns = AnswerColumns {
        value: answer.value,
        choice: answer.choice.as_deref(),
        probabilities: answer.probabilities.as_deref(),
        confidence: answer.confidence,
        raw: answer.raw.as_deref(),
        escalated: answer.escalated,
    };
    Ok(LabelAnswer {
        answer: columns.answer(signal)?,
        first: answer.first.as_deref().map(serde_json::from_str).transpose().map_err(internal)?,
        version: answer.version,
        model: answer.model.clone(),
        read_seq: answer.read_seq,
    })
}

/// Checks a label of many, or says what is wrong with it.
fn checked<'a>(
    label: &'a LabelCreate,
    signals: &HashMap<&str, (&'a Signal, Question)>,
    objects: &HashSet<String>,
    source: LabelSource,
) -> std::result::Result<NewLabel<'a>, String> {
    event::check_object_id(&label.object_id)?;
    if !objects.contains(&label.object_id) {
        return Err("object_id: there is no such object".to_owned());
    }
    let (signal, question) = signals.get(label.signal.as_str()).ok_or("signal: there is no such signal")?;
    Ok(NewLabel {
        object_id: &label.object_id,
        signal,
        value: checked_value(question, &label.value)?,
        note: checked_note(label.note.as_deref())?,
        source,
        audit: false,
    })
}

/// The last label about each signal of each object.
fn last_of_each(labels: Vec<NewLabel<'_>>) -> Vec<NewLabel<'_>> {
    let mut last: HashMap<(&str, Uuid), NewLabel<'_>> = HashMap::new();
    for label in labels {
        last.insert((label.object_id, label.signal.signal_id), label);
    }
    last.into_values().collect()
}

/// The value of a label about a question, as it is stored.
pub(crate) fn checked_value(question: &Question, value: &Value) -> std::result::Result<String, String> {
    let value = LabelValue::about(question, value)?;
    serde_json::to_string(&value).map_err(|error| error.to_string())
}

pub(crate) fn checked_note(note: Option<&str>) -> std::result::Result<Option<&str>, String> {
    if note.is_some_and(|note| note.chars().count() > MAX_NOTE) {
        return Err(format!("note: it must have at most {MAX_NOTE} characters"));
    }
    Ok(note.filter(|note| !note.is_empty()))
}

fn source_of(caller: Caller) -> LabelSource {
    match caller.credential {
        Credential::Key { .. } => LabelSource::Api,
        Credential::Console { .. } => LabelSource::Person,
    }
}

fn no_such_label() -> Error {
    Error::new(Kind::NotFound, "there is no such label")
}
