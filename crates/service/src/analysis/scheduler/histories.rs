//! Reads the histories for claimed jobs, all that start together in one snapshot.

use std::collections::{BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use model::TenantId;
use store::Conn;
use store::analysis::jobs::LeasedJob;
use store::billing::balance;
use tracing::warn;

use crate::analysis::history::{ObjectRequest, Prepared, read_histories, read_long_history};
use crate::analysis::questions::{self, SignalSelection};
use crate::analysis::scheduler::{Readiness, Scheduler, Start};
use crate::runtime::Result;

impl Scheduler {
    /// Reads the histories for claimed jobs together. If that fails, each is read separately, so that one that cannot be read
    /// does not affect the others.
    pub(super) async fn read_together(&self, starts: &[Start]) -> Vec<Readiness> {
        let claimed: Vec<&LeasedJob> = starts.iter().map(|start| &start.job).collect();
        let reason = match AssertUnwindSafe(self.read_claimed(&claimed)).catch_unwind().await {
            Ok(Ok(read)) => return read,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it panicked".to_owned(),
        };
        warn!(reason, "cannot read histories together; reading each separately");
        claimed.iter().map(|_| Readiness::Unread).collect()
    }

    /// Reads the histories for claimed jobs.
    pub(super) async fn read_claimed(&self, claimed: &[&LeasedJob]) -> Result<Vec<Readiness>> {
        let tenants: BTreeSet<TenantId> = claimed.iter().map(|job| job.tenant_id).collect();
        self.store
            .snapshot("read_histories", async |conn: &mut Conn| {
                let broke = if self.unpaid.blocks {
                    balance::empty_balances(conn, &tenants).await?
                } else {
                    HashSet::new()
                };
                let requests: Vec<ObjectRequest<'_>> = claimed
                    .iter()
                    .filter(|job| !broke.contains(&job.tenant_id))
                    .map(|job| object_request(job))
                    .collect();
                let selections = requests.iter().map(|request| (request.tenant, request.selection));
                let questions = questions::question_sets(conn, selections).await?;
                let mut prepared = read_histories(conn, &requests, questions.clone()).await?;
                if let ([request], [questions], [long @ Prepared::Long]) =
                    (&requests[..], &questions[..], &mut prepared[..])
                {
                    *long = read_long_history(conn, request, Arc::clone(questions)).await?;
                }
                let mut prepared = prepared.into_iter();
                let readiness = |job: &&LeasedJob| {
                    if broke.contains(&job.tenant_id) {
                        return Readiness::Unpaid;
                    }
                    match prepared.next() {
                        Some(Prepared::Ready(input)) => Readiness::Ready(input),
                        Some(Prepared::Long) => Readiness::Unread,
                        Some(Prepared::NoQuestions | Prepared::Gone) | None => Readiness::Nothing,
                    }
                };
                Ok(claimed.iter().map(readiness).collect())
            })
            .await
    }
}

fn object_request(job: &LeasedJob) -> ObjectRequest<'_> {
    ObjectRequest {
        tenant: job.tenant_id,
        object_id: &job.object_id,
        selection: job.signals.as_ref().map_or(SignalSelection::All, |ids| SignalSelection::Ids(&ids.0)),
        through: None,
    }
}
