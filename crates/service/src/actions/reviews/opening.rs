//! Opens reviews. An object has at most one open review in a queue: when a rule fires again, the priority of that one
//! rises, and when the object is drawn at random, that one is an audit too.

use std::collections::HashMap;

use model::api::ReviewReason;
use model::recorded_answer::analysis_id;
use model::webhook::REVIEW_OPENED;
use model::{TenantId, Timestamp};
use store::Conn;
use store::actions::reviews::{self, NewReview, Review};
use uuid::Uuid;

use crate::actions::effects::Effects;
use crate::actions::reviews::events::ReviewEvents;
use crate::actions::reviews::priority::PriorityInputs;
use crate::actions::reviews::record::record;
use crate::runtime::{Random, Result, internal};

/// A review that is to be opened, if there is none.
#[derive(Clone, Debug)]
pub(crate) struct ReviewRequest<'a> {
    pub(crate) object_id: &'a str,
    pub(crate) queue: String,
    /// The rule that fired.
    pub(crate) rule_id: Option<Uuid>,
    pub(crate) reason: ReviewReason,
    /// The keys of the signals to be labelled; all enabled ones if there are none.
    pub(crate) signals: Vec<String>,
    pub(crate) at: Timestamp,
}

/// The open review of an object, and whether it was opened for this request.
pub(crate) struct OpenedReview {
    pub(crate) review: Review,
    pub(crate) is_new: bool,
}

/// Opens reviews.
#[derive(Clone)]
pub(crate) struct ReviewOpener {
    pub(crate) random: Random,
    pub(crate) events: ReviewEvents,
}

/// The reviews to be written, by object and queue.
#[derive(Default)]
struct Changes<'a> {
    known: HashMap<(&'a str, &'a str), Review>,
    raised: Vec<(&'a str, &'a str)>,
    new: HashMap<(&'a str, &'a str), NewReview>,
}

impl ReviewOpener {
    /// Opens reviews in the caller's transaction, which has locked their objects. Returns the open review for each request.
    pub(crate) async fn open(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        requests: &[ReviewRequest<'_>],
        effects: &mut Effects,
    ) -> Result<Vec<OpenedReview>> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted: Vec<(&str, &str)> =
            requests.iter().map(|request| (request.object_id, request.queue.as_str())).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let existing = reviews::open_of(conn, tenant, &wanted).await?;
        let mut inputs = PriorityInputs::read(conn, tenant).await?;
        let mut changes = Changes::default();
        for review in &existing {
            changes.known.insert((&review.object_id, &review.queue), review.clone());
        }
        for request in requests {
            self.add(request, &inputs, &mut changes)?;
        }
        let new = write(conn, tenant, &mut inputs, changes).await?;
        let open = reviews::open_of(conn, tenant, &wanted).await?;
        let mut opened = Vec::with_capacity(requests.len());
        for request in requests {
            let review = open
                .iter()
                .find(|review| review.object_id == request.object_id && review.queue == request.queue)
                .ok_or_else(|| internal("an opened review is gone"))?;
            let is_new = new.contains(&review.review_id);
            opened.push(OpenedReview { review: review.clone(), is_new });
        }
        let now = requests[0].at;
        let records = open.iter().filter(|review| new.contains(&review.review_id));
        let records = records.map(|review| record(review, now)).collect::<Result<Vec<_>>>()?;
        self.events.queue(conn, tenant, REVIEW_OPENED, &records, now, effects).await?;
        Ok(opened)
    }

    fn add<'a>(
        &self,
        request: &'a ReviewRequest<'a>,
        inputs: &PriorityInputs,
        changes: &mut Changes<'a>,
    ) -> Result<()> {
        let key = (request.object_id, request.queue.as_str());
        let keys = if request.signals.is_empty() { inputs.keys() } else { request.signals.clone() };
        let fires_again = i64::from(request.reason == ReviewReason::Rule);
        // Also if a rule has flagged the object before: audits without those that are flagged would say too much good.
        let audited_at = (request.reason == ReviewReason::Audit).then_some(request.at);
        let asks_more = fires_again > 0 || audited_at.is_some();
        if let Some(known) = changes.known.get_mut(&key) {
            if asks_more {
                known.refirings += fires_again;
                known.audited_at = audited_at.or(known.audited_at);
                known.signals = with_more(&known.signals, &keys)?;
                changes.raised.push(key);
            }
        } else if let Some(new) = changes.new.get_mut(&key) {
            if asks_more {
                new.refirings += fires_again;
                new.audited_at = audited_at.or(new.audited_at);
                new.signals = with_more(&new.signals, &keys)?;
            }
        } else {
            let new = NewReview {
                review_id: analysis_id(request.at, self.random.bytes()),
                object_id: request.object_id.to_owned(),
                queue: request.queue.clone(),
                rule_id: request.rule_id,
                reason: request.reason,
                signals: with_more("[]", &keys)?,
                refirings: 0,
                priority: 0,
                audited_at,
                created_at: request.at,
            };
            changes.new.insert(key, new);
        }
        Ok(())
    }
}

/// Writes changed reviews with their priorities; returns the ids of the new ones.
async fn write(
    conn: &mut Conn,
    tenant: TenantId,
    inputs: &mut PriorityInputs,
    mut changes: Changes<'_>,
) -> Result<Vec<Uuid>> {
    let keys_of = |signals: &str| -> Result<Vec<String>> { serde_json::from_str(signals).map_err(internal) };
    changes.raised.sort_unstable();
    changes.raised.dedup();
    for key in &changes.raised {
        let Some(review) = changes.known.get_mut(key) else { continue };
        let keys = keys_of(&review.signals)?;
        review.priority = inputs.priority(conn, &review.object_id, review.refirings, &keys).await?;
        reviews::raise(conn, tenant, review).await?;
    }
    let mut new: Vec<NewReview> = changes.new.into_values().collect();
    for review in &mut new {
        let keys = keys_of(&review.signals)?;
        review.priority = inputs.priority(conn, &review.object_id, review.refirings, &keys).await?;
    }
    reviews::insert(conn, tenant, &new).await?;
    Ok(new.into_iter().map(|review| review.review_id).collect())
}

/// A JSON list of keys with those that it lacks.
fn with_more(signals: &str, keys: &[String]) -> Result<String> {
    let mut all: Vec<String> = serde_json::from_str(signals).map_err(internal)?;
    for key in keys {
        if !all.contains(key) {
            all.push(key.clone());
        }
    }
    serde_json::to_string(&all).map_err(internal)
}
