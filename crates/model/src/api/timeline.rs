//! Records of an object's timeline.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Timestamp;
use crate::api::{AnalysisRecord, Event, Label, Review, RuleFiring, WebhookDelivery};

/// The kind of an item on a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
// In the order of items at the same time, newest first: what follows from another one comes before it.
pub enum TimelineKind {
    /// Somebody said what is true.
    Label,
    /// A webhook delivery was queued.
    Delivery,
    /// A review was opened.
    Review,
    /// A rule fired.
    Firing,
    /// The object was analyzed.
    Analysis,
    /// An event happened.
    Event,
}

crate::text_values!(TimelineKind {
    Label = "label",
    Delivery = "delivery",
    Review = "review",
    Firing = "firing",
    Analysis = "analysis",
    Event = "event",
});

/// Something that happened about an object. The record is under the name of its kind.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TimelineItem {
    /// What it is.
    pub kind: TimelineKind,
    /// When it happened.
    pub at: Timestamp,
    /// The record's id; events have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<Uuid>,
    /// The event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub event: Option<Event>,
    /// What the analysis said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub analysis: Option<AnalysisRecord>,
    /// The firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub firing: Option<RuleFiring>,
    /// The delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delivery: Option<WebhookDelivery>,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub label: Option<Label>,
    /// The review, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub review: Option<Review>,
}

impl TimelineItem {
    /// An item without its record, which the caller adds.
    pub fn new(kind: TimelineKind, at: Timestamp, id: Option<Uuid>) -> Self {
        Self {
            kind,
            at,
            id,
            event: None,
            analysis: None,
            firing: None,
            delivery: None,
            label: None,
            review: None,
        }
    }
}

/// A page of what happened about an object, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The items.
    pub items: Vec<TimelineItem>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}
