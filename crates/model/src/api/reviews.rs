//! Reviews: work for people.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::{Author, Rule, Signal, UnknownName};
use crate::{TenantId, Timestamp};

/// Why a review was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewReason {
    /// A rule fired.
    Rule,
    /// The object was drawn at random.
    Audit,
    /// Somebody asked for it.
    Person,
}

/// The status of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStatus {
    /// Nobody works on it.
    Open,
    /// Somebody works on it.
    Claimed,
    /// It is decided.
    Resolved,
}

/// The order of a list of reviews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewOrder {
    /// By priority, highest first.
    #[default]
    Value,
    /// By the time that they were opened, oldest first.
    Oldest,
}

crate::text_values!(ReviewReason { Rule = "rule", Audit = "audit", Person = "person" });
crate::text_values!(ReviewOrder { Value = "value", Oldest = "oldest" });
crate::text_values!(ReviewStatus { Open = "open", Claimed = "claimed", Resolved = "resolved" });

impl FromStr for ReviewReason {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(UnknownName)
    }
}

impl FromStr for ReviewStatus {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(UnknownName)
    }
}

/// An object that a person is to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Review {
    /// Its id.
    pub id: Uuid,
    /// The object's id.
    pub object_id: String,
    /// The queue that it is in.
    pub queue: String,
    /// The rule that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rule_id: Option<Uuid>,
    /// Why it was opened.
    pub reason: ReviewReason,
    /// Its status.
    pub status: ReviewStatus,
    /// The keys of the signals to be labelled.
    pub signals: Vec<String>,
    /// What a label is worth, from 0 to 1, and one more for each time that a rule fired again while it was open.
    #[schema(minimum = 0)]
    pub priority: f64,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub claimed_by: Option<Author>,
    /// Until when, unless the claim is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub claimed_until: Option<Timestamp>,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub decision: Option<String>,
    /// What else was said with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub note: Option<String>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resolved_by: Option<Author>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resolved_at: Option<Timestamp>,
}

/// A review to be opened.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReviewCreate {
    /// The object's id.
    pub object_id: String,
    /// The queue; 1 to 64 characters.
    #[schema(min_length = 1, max_length = 64)]
    pub queue: String,
    /// The keys of the signals to be labelled; all enabled ones if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 50)]
    pub signals: Option<Vec<String>>,
}

/// The queue to take the next review from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReviewNext {
    /// The queue.
    #[schema(min_length = 1, max_length = 64)]
    pub queue: String,
}

/// A decision about a review.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReviewResolve {
    /// What was decided, in a word of your choice; 1 to 64 characters.
    #[schema(min_length = 1, max_length = 64)]
    pub decision: String,
    /// What else is worth knowing; at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub note: Option<String>,
    /// What is true, by signal: `noul` true or false; `choice` an option; `score` the index of a level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub labels: Option<Map<String, Value>>,
}

/// A page of reviews.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewList {
    /// The reviews.
    pub reviews: Vec<Review>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// How a queue of reviews stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewQueue {
    /// Its name.
    pub queue: String,
    /// Reviews that nobody works on.
    pub open: i64,
    /// Reviews that somebody works on.
    pub claimed: i64,
    /// When the oldest that is not resolved was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub oldest_at: Option<Timestamp>,
    /// How many were resolved a day, over the last seven days.
    pub resolved_a_day: f64,
}

/// The queues of an account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReviewQueueList {
    /// The queues by name: those with reviews that are not resolved, or that were resolved within seven days.
    pub queues: Vec<ReviewQueue>,
    /// The account's signals, which its reviews are about; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub signals: Option<Vec<Signal>>,
    /// The account's rules, which open reviews; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rules: Option<Vec<Rule>>,
}

/// The payload of `review.opened` and `review.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewEvent {
    /// `review.opened` or `review.resolved`.
    pub event: String,
    /// The account.
    #[schema(value_type = Uuid)]
    pub tenant_id: TenantId,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The review.
    pub review: Review,
}
