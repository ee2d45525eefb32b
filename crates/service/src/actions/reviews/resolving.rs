//! Decisions about reviews: with their labels in one transaction, and taken back likewise.

use std::collections::HashMap;
use std::time::Duration;

use model::TenantId;
use model::api::{LabelSource, Review, ReviewResolve, ReviewStatus};
use model::webhook::{REVIEW_OPENED, REVIEW_RESOLVED};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::Conn;
use store::actions::reviews::{self, Resolution};
use store::analysis::signals::{self, Signal};
use store::quality::labels::{self, Label};
use uuid::Uuid;

use crate::actions::effects::Effects;
use crate::actions::reviews::queues::{Reviews, lock_for};
use crate::actions::reviews::record::{no_such_review, record};
use crate::objects::answers::question;
use crate::quality::{NewLabel, checked_note, checked_value};
use crate::runtime::{Caller, Error, Kind, Result, internal};

/// The longest decision, in characters.
const MAX_DECISION: usize = 64;
/// How long a decision can be taken back.
pub(crate) const REOPEN_WITHIN: Duration = Duration::from_hours(24);

/// What reopening a review has to undo.
#[derive(Serialize, Deserialize)]
struct Undo {
    /// The labels that the review gave.
    given: Vec<Uuid>,
    /// Those of the same author that they replaced.
    replaced: Vec<Label>,
}

impl Reviews {
    /// Decides about a review, and gives its labels.
    pub async fn resolve(&self, caller: Caller, review: Uuid, request: &ReviewResolve) -> Result<Review> {
        let tenant = caller.tenant;
        let decision = checked_decision(&request.decision)?;
        let note = checked_note(request.note.as_deref()).map_err(Error::bad_request)?;
        let (resolved, effects) = self
            .store
            .write("resolve_review", async |conn: &mut Conn| {
                // The object first, in the order of all others.
                lock_object_of(conn, tenant, review).await?;
                let now = self.clock.now();
                let found = lock_for(conn, caller, review, now).await?;
                let by = caller.author(conn).await?;
                let signals = signals::of_tenant(conn, tenant).await?;
                let values = checked_labels(request.labels.as_ref(), &signals)?;
                let new: Vec<NewLabel<'_>> = values
                    .into_iter()
                    .map(|(signal, value)| NewLabel {
                        object_id: &found.object_id,
                        signal,
                        value,
                        note,
                        source: LabelSource::Review,
                        audit: found.audited_at.is_some(),
                    })
                    .collect();
                let labels = self.labels.write(conn, tenant, &by, &new).await?;
                let given = labels.written.iter().map(|label| label.label_id).collect();
                let undo =
                    serde_json::to_string(&Undo { given, replaced: labels.replaced }).map_err(internal)?;
                let resolution = Resolution { decision, note, by: &by, at: now, undo: &undo };
                reviews::resolve(conn, tenant, review, &resolution).await?;
                self.announce(conn, tenant, review, REVIEW_RESOLVED).await
            })
            .await?;
        self.follow_up(&effects);
        Ok(resolved)
    }

    /// Takes a decision back: the labels that the review gave are withdrawn, and what they replaced stands again.
    pub async fn reopen(&self, caller: Caller, review: Uuid) -> Result<Review> {
        let tenant = caller.tenant;
        let (reopened, effects) = self
            .store
            .write("reopen_review", async |conn: &mut Conn| {
                lock_object_of(conn, tenant, review).await?;
                let found = reviews::lock(conn, tenant, review).await?.ok_or_else(no_such_review)?;
                let conflict = |message: &str| Err(Error::new(Kind::Conflict, message));
                let Some(resolved_at) = found.resolved_at.filter(|_| found.status == ReviewStatus::Resolved)
                else {
                    return conflict("the review is not resolved");
                };
                if self.clock.now() > resolved_at + REOPEN_WITHIN {
                    return conflict("the review was resolved more than 24 hours ago");
                }
                if !reviews::open_of(conn, tenant, &[(&found.object_id, &found.queue)]).await?.is_empty() {
                    return conflict("the object has another open review in this queue");
                }
                if let Some(undo) = &found.undo {
                    let undo: Undo = serde_json::from_str(undo).map_err(internal)?;
                    for label in undo.given {
                        labels::withdraw(conn, tenant, label).await?;
                    }
                    labels::reinstate(conn, tenant, &undo.replaced).await?;
                }
                reviews::reopen(conn, tenant, review).await?;
                self.announce(conn, tenant, review, REVIEW_OPENED).await
            })
            .await?;
        self.follow_up(&effects);
        Ok(reopened)
    }

    /// Queues webhooks about a review as it is now.
    async fn announce(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        review: Uuid,
        event: &'static str,
    ) -> Result<(Review, Effects)> {
        let now = self.clock.now();
        let found = reviews::find(conn, tenant, review).await?.ok_or_else(no_such_review)?;
        let review = record(&found, now)?;
        let mut effects = Effects::default();
        self.events.queue(conn, tenant, event, std::slice::from_ref(&review), now, &mut effects).await?;
        Ok((review, effects))
    }
}

/// Locks the object of a review.
async fn lock_object_of(conn: &mut Conn, tenant: TenantId, review: Uuid) -> Result<()> {
    let found = reviews::find(conn, tenant, review).await?.ok_or_else(no_such_review)?;
    labels::lock_objects(conn, tenant, &[&found.object_id]).await?;
    Ok(())
}

fn checked_decision(decision: &str) -> Result<&str> {
    let decision = decision.trim();
    if (1..=MAX_DECISION).contains(&decision.chars().count()) && !decision.contains(char::is_control) {
        Ok(decision)
    } else {
        let rule = format!("it must have 1 to {MAX_DECISION} characters, none of them a control character");
        Err(Error::bad_request(format!("decision: {rule}")))
    }
}

/// The labels of a decision, as JSON, by signal.
fn checked_labels<'a>(
    labels: Option<&Map<String, Value>>,
    signals: &'a [Signal],
) -> Result<Vec<(&'a Signal, String)>> {
    let known: HashMap<&str, &Signal> = signals.iter().map(|signal| (signal.key.as_str(), signal)).collect();
    let mut checked = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        let refused = |reason: &str| Error::bad_request(format!("labels.{key}: {reason}"));
        let signal = *known.get(key.as_str()).ok_or_else(|| refused("there is no such signal"))?;
        let value = checked_value(&question(signal)?, value)
            .map_err(|reason| refused(reason.strip_prefix("value: ").unwrap_or(&reason)))?;
        checked.push((signal, value));
    }
    Ok(checked)
}
