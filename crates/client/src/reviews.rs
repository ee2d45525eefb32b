//! Reviews: objects that people are to look at.

use http::Method;
use model::api::{
    Review, ReviewCreate, ReviewList, ReviewNext, ReviewOrder, ReviewQueue, ReviewQueueList, ReviewResolve,
    ReviewStatus,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Which reviews to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewsQuery {
    /// Only reviews in this queue.
    pub queue: Option<String>,
    /// Only reviews with this status.
    pub status: Option<ReviewStatus>,
    /// Whether the oldest come first; otherwise those of the highest priority.
    pub oldest_first: bool,
    /// The maximum number, 1 to 200; 50 if left out.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl Client {
    /// Returns a page of reviews.
    pub async fn reviews(&self, query: &ReviewsQuery) -> Result<ReviewList, Error> {
        let order = if query.oldest_first { ReviewOrder::Oldest } else { ReviewOrder::Value };
        let call = Call::new(Method::GET, &["v1", "reviews"])?
            .query("queue", query.queue.as_ref())
            .query("status", query.status.map(ReviewStatus::as_str))
            .query("order", Some(order.as_str()))
            .query("limit", query.limit)
            .query("cursor", query.cursor.as_ref());
        self.call(call).await
    }

    /// Returns how the queues of reviews stand.
    pub async fn review_queues(&self) -> Result<Vec<ReviewQueue>, Error> {
        let list: ReviewQueueList = self.call(Call::new(Method::GET, &["v1", "reviews", "queues"])?).await?;
        Ok(list.queues)
    }

    /// Opens a review of an object, or returns the one that is open in that queue.
    pub async fn open_review(&self, review: &ReviewCreate) -> Result<Review, Error> {
        self.call(Call::new(Method::POST, &["v1", "reviews"])?.json(review)?.repeatable()).await
    }

    /// Claims the next review of a queue; none if none is left.
    pub async fn next_review(&self, queue: &str) -> Result<Option<Review>, Error> {
        let next = ReviewNext { queue: queue.to_owned() };
        let response =
            self.request(Call::new(Method::POST, &["v1", "reviews", "next"])?.json(&next)?).await?;
        if response.status == http::StatusCode::NO_CONTENT { Ok(None) } else { response.parse().map(Some) }
    }

    /// Returns a review, and renews the claim if it is this client's.
    pub async fn review(&self, id: Uuid) -> Result<Review, Error> {
        self.call(Call::new(Method::GET, &["v1", "reviews", &id.to_string()])?).await
    }

    /// Claims a review.
    pub async fn claim_review(&self, id: Uuid) -> Result<Review, Error> {
        self.act(id, "claim").await
    }

    /// Gives a claimed review back.
    pub async fn release_review(&self, id: Uuid) -> Result<Review, Error> {
        self.act(id, "release").await
    }

    /// Decides about a review.
    pub async fn resolve_review(&self, id: Uuid, decision: &ReviewResolve) -> Result<Review, Error> {
        let path = ["v1", "reviews", &id.to_string(), "resolve"];
        self.call(Call::new(Method::POST, &path)?.json(decision)?).await
    }

    /// Takes a decision back, within 24 hours.
    pub async fn reopen_review(&self, id: Uuid) -> Result<Review, Error> {
        self.act(id, "reopen").await
    }

    async fn act(&self, id: Uuid, what: &str) -> Result<Review, Error> {
        self.call(Call::new(Method::POST, &["v1", "reviews", &id.to_string(), what])?).await
    }
}
