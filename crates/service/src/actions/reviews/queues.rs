//! Queues of reviews: lists, counts and claims.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use model::api::{
    Review, ReviewCreate, ReviewList, ReviewOrder, ReviewQueue, ReviewQueueList, ReviewReason, ReviewStatus,
};
use model::{TenantId, Timestamp, event};
use serde::{Deserialize, Serialize};
use store::actions::reviews::{self, ReviewFilter};
use store::analysis::signals;
use store::quality::labels as label_rows;
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::effects::Effects;
use crate::actions::reviews::events::ReviewEvents;
use crate::actions::reviews::opening::{ReviewOpener, ReviewRequest};
use crate::actions::reviews::record::{checked_queue, checked_signals, no_such_review, record};
use crate::actions::webhooks::CourierHandle;
use crate::objects::reads::no_such_object;
use crate::quality::Labels;
use crate::runtime::{Caller, Clock, Error, Kind, Result, cursor, internal};

/// The usual page size.
const USUAL_LIMIT: i64 = 50;
/// What waits longer than this comes before everything else.
const STARVED: Duration = Duration::from_hours(24);
/// The days over which resolved reviews are averaged.
const PACE_DAYS: u32 = 7;
const DAY: Duration = Duration::from_hours(24);

/// Which reviews are listed.
#[derive(Clone, Debug, Default)]
pub struct ReviewQuery {
    /// Only those in this queue.
    pub queue: Option<String>,
    /// Only those with this status.
    pub status: Option<ReviewStatus>,
    /// The order.
    pub order: ReviewOrder,
    /// The page size; 50 if left out.
    pub limit: Option<i64>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct ReviewCursor {
    queue: Option<String>,
    status: Option<ReviewStatus>,
    order: ReviewOrder,
    after: (i64, Uuid),
}

/// The reviews of all tenants.
pub struct Reviews {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) labels: Labels,
    pub(crate) opener: ReviewOpener,
    pub(crate) events: ReviewEvents,
    pub(crate) courier: CourierHandle,
    /// How long a claim lasts without being renewed.
    pub(crate) claim: Duration,
}

impl Reviews {
    /// A page of reviews.
    pub async fn list(&self, tenant: TenantId, query: &ReviewQuery) -> Result<ReviewList> {
        let limit = query.limit.unwrap_or(USUAL_LIMIT);
        cursor::check_page_size(limit, cursor::MAX_PAGE)?;
        let is_of_list = |cursor: &ReviewCursor| {
            (&cursor.queue, cursor.status, cursor.order) == (&query.queue, query.status, query.order)
        };
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let now = self.clock.now();
        let filter = |status: ReviewStatus, claimed: Option<bool>| ReviewFilter {
            queue: query.queue.as_deref(),
            status,
            claimed: claimed.map(|claimed| (claimed, now)),
            order: query.order,
            after: cursor.as_ref().map(|cursor: &ReviewCursor| cursor.after),
            limit: limit + 1,
        };
        let filters = match query.status {
            Some(ReviewStatus::Open) => vec![filter(ReviewStatus::Open, Some(false))],
            Some(ReviewStatus::Claimed) => vec![filter(ReviewStatus::Open, Some(true))],
            Some(ReviewStatus::Resolved) => vec![filter(ReviewStatus::Resolved, None)],
            None => vec![filter(ReviewStatus::Open, None), filter(ReviewStatus::Resolved, None)],
        };
        // A snapshot, so that a review whose status changes meanwhile is neither missed nor listed twice.
        let mut found = self
            .store
            .snapshot("reviews", async |conn: &mut Conn| {
                let mut found = Vec::new();
                for filter in &filters {
                    found.extend(reviews::list(conn, tenant, *filter).await?);
                }
                Ok::<_, Error>(found)
            })
            .await?;
        match query.order {
            ReviewOrder::Value => found.sort_by_key(|review| (Reverse(review.priority), review.review_id)),
            ReviewOrder::Oldest => found.sort_by_key(|review| review.review_id),
        }
        let (page, last) = cursor::cut(found, limit);
        let next_cursor = last.map(|last| {
            let ReviewQuery { queue, status, order, .. } = query.clone();
            cursor::encode(&ReviewCursor { queue, status, order, after: (last.priority, last.review_id) })
        });
        let reviews = page.iter().map(|review| record(review, now)).collect::<Result<_>>()?;
        Ok(ReviewList { reviews, next_cursor })
    }

    /// How the queues of a tenant stand.
    pub async fn queues(&self, tenant: TenantId) -> Result<ReviewQueueList> {
        let now = self.clock.now();
        let (open, resolved) = self
            .store
            .read("review_queues", async |conn: &mut Conn| {
                let open = reviews::queues(conn, tenant, now).await?;
                let resolved = reviews::resolved_since(conn, tenant, now - DAY * PACE_DAYS).await?;
                Ok::<_, Error>((open, resolved))
            })
            .await?;
        let mut queues: BTreeMap<String, ReviewQueue> = BTreeMap::new();
        let empty =
            |queue: String| ReviewQueue { queue, open: 0, claimed: 0, oldest_at: None, resolved_a_day: 0.0 };
        for counts in open {
            let queue = queues.entry(counts.queue.clone()).or_insert_with(|| empty(counts.queue));
            queue.open = counts.open - counts.claimed;
            queue.claimed = counts.claimed;
            queue.oldest_at = counts.oldest_at;
        }
        for (name, count) in resolved {
            let queue = queues.entry(name.clone()).or_insert_with(|| empty(name));
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let a_day = count as f64 / f64::from(PACE_DAYS);
            queue.resolved_a_day = (a_day * 100.0).round() / 100.0;
        }
        Ok(ReviewQueueList { queues: queues.into_values().collect(), signals: None, rules: None })
    }

    /// A review. Reading it renews the claim of its claimer.
    pub async fn get(&self, caller: Caller, review: Uuid) -> Result<Review> {
        let tenant = caller.tenant;
        let find = async |conn: &mut Conn| reviews::find(conn, tenant, review).await;
        let found = self.store.read("review", find).await?.ok_or_else(no_such_review)?;
        let now = self.clock.now();
        match found.claim(now) {
            Some((claimer, _)) if caller.is(&claimer) => self.claim(caller, review).await,
            _ => record(&found, now),
        }
    }

    /// Opens a review of an object, or returns the one that is open; also says whether it is new.
    pub async fn open(&self, caller: Caller, request: &ReviewCreate) -> Result<(Review, bool)> {
        let tenant = caller.tenant;
        event::check_object_id(&request.object_id).map_err(Error::bad_request)?;
        let queue = checked_queue("queue", &request.queue)?;
        let (opened, effects) = self
            .store
            .write("open_review", async |conn: &mut Conn| {
                let object_id = request.object_id.as_str();
                if label_rows::lock_objects(conn, tenant, &[object_id]).await?.is_empty() {
                    return Err(no_such_object());
                }
                let all = signals::of_tenant(conn, tenant).await?;
                let signals = request.signals.as_deref().map(|keys| checked_signals("signals", keys, &all));
                let review = ReviewRequest {
                    object_id,
                    queue: queue.to_owned(),
                    rule_id: None,
                    reason: ReviewReason::Person,
                    signals: signals.transpose()?.unwrap_or_default(),
                    at: self.clock.now(),
                };
                let mut effects = Effects::default();
                let mut opened = self.opener.open(conn, tenant, &[review], &mut effects).await?;
                let opened = opened.pop().ok_or_else(|| internal("the review was not opened"))?;
                Ok((opened, effects))
            })
            .await?;
        self.follow_up(&effects);
        Ok((record(&opened.review, self.clock.now())?, opened.is_new))
    }

    /// Claims the next review of a queue; none if nobody is needed.
    pub async fn next(&self, caller: Caller, queue: &str) -> Result<Option<Review>> {
        let tenant = caller.tenant;
        let queue = checked_queue("queue", queue)?;
        self.store
            .write("next_review", async |conn: &mut Conn| {
                let now = self.clock.now();
                match reviews::next(conn, tenant, queue, now, now - STARVED).await? {
                    Some(found) => Ok(Some(self.take(conn, caller, found.review_id, now).await?)),
                    None => Ok(None),
                }
            })
            .await
    }

    /// Claims a review, or renews the claim.
    pub async fn claim(&self, caller: Caller, review: Uuid) -> Result<Review> {
        self.store
            .write("claim_review", async |conn: &mut Conn| {
                let now = self.clock.now();
                lock_for(conn, caller, review, now).await?;
                self.take(conn, caller, review, now).await
            })
            .await
    }

    /// Gives a review back to its queue.
    pub async fn release(&self, caller: Caller, review: Uuid) -> Result<Review> {
        self.store
            .write("release_review", async |conn: &mut Conn| {
                let now = self.clock.now();
                lock_for(conn, caller, review, now).await?;
                reviews::set_claim(conn, caller.tenant, review, None).await?;
                let released = reviews::find(conn, caller.tenant, review).await?;
                record(&released.ok_or_else(no_such_review)?, now)
            })
            .await
    }

    /// Gives a locked review to the caller.
    async fn take(&self, conn: &mut Conn, caller: Caller, review: Uuid, now: Timestamp) -> Result<Review> {
        let claimer = caller.author(conn).await?;
        reviews::set_claim(conn, caller.tenant, review, Some((&claimer, now + self.claim))).await?;
        let taken = reviews::find(conn, caller.tenant, review).await?;
        record(&taken.ok_or_else(no_such_review)?, now)
    }

    /// Wakes the courier if there are deliveries. To be called after the commit.
    pub(super) fn follow_up(&self, effects: &Effects) {
        if effects.deliveries {
            self.courier.wake();
        }
    }
}

/// Locks a review that is not resolved and that nobody but the caller has claimed.
pub(super) async fn lock_for(
    conn: &mut Conn,
    caller: Caller,
    review: Uuid,
    now: Timestamp,
) -> Result<reviews::Review> {
    let found = reviews::lock(conn, caller.tenant, review).await?.ok_or_else(no_such_review)?;
    if found.status == ReviewStatus::Resolved {
        return Err(Error::new(Kind::Conflict, "the review is resolved"));
    }
    match found.claim(now) {
        Some((claimer, _)) if !caller.is(&claimer) => {
            let message = format!("the review is claimed by {}", claimer.name);
            Err(Error::new(Kind::Conflict, message))
        }
        _ => Ok(found),
    }
}
