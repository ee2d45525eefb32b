//! Audits: analyzed objects that are drawn at random, so that labels also say something about what no rule flags.

use std::collections::BTreeMap;
use std::time::Duration;

use model::TenantId;
use model::api::ReviewReason;
use store::Conn;
use store::accounts::tenants;
use store::actions::reviews;

use crate::actions::effects::{ConcludedAnalysis, Effects};
use crate::actions::reviews::opening::{ReviewOpener, ReviewRequest};
use crate::runtime::{Random, Result};

/// An object is drawn at most once in this time.
const INTERVAL: Duration = Duration::from_hours(30 * 24);

/// Draws objects and opens their reviews.
#[derive(Clone)]
pub(crate) struct Audits {
    pub(crate) random: Random,
    pub(crate) opener: ReviewOpener,
}

impl Audits {
    /// Whether an object is drawn, at this share of all objects.
    pub(crate) fn is_drawn(&self, rate: f64) -> bool {
        rate > 0.0 && self.random.fraction() < rate
    }

    /// Opens reviews of the objects of drawn analyses, in the transaction that writes them and locks the objects.
    pub(crate) async fn open(
        &self,
        conn: &mut Conn,
        drawn: &[ConcludedAnalysis<'_>],
        effects: &mut Effects,
    ) -> Result<()> {
        let mut by_tenant: BTreeMap<TenantId, Vec<&ConcludedAnalysis<'_>>> = BTreeMap::new();
        for analysis in drawn {
            by_tenant.entry(analysis.tenant).or_default().push(analysis);
        }
        for (tenant, drawn) in by_tenant {
            let Some(account) = tenants::find(conn, tenant).await? else { continue };
            let Some(now) = drawn.iter().map(|analysis| analysis.at).max() else { continue };
            let ids: Vec<&str> = drawn.iter().map(|analysis| analysis.object_id).collect();
            let audited = reviews::audited_since(conn, tenant, &ids, now - INTERVAL).await?;
            let requests: Vec<ReviewRequest<'_>> = drawn
                .iter()
                .filter(|analysis| !audited.contains(analysis.object_id))
                .map(|analysis| ReviewRequest {
                    object_id: analysis.object_id,
                    queue: account.audit_queue.clone(),
                    rule_id: None,
                    reason: ReviewReason::Audit,
                    signals: Vec::new(),
                    at: analysis.at,
                })
                .collect();
            self.opener.open(conn, tenant, &requests, effects).await?;
        }
        Ok(())
    }
}
