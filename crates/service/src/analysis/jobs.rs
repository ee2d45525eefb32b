//! Analyses of single objects on request.

use model::api::{AnalysisStatus, AnalyzeScheduled};
use model::{TenantId, event};
use store::analysis::jobs;
use store::objects::reads;
use store::{Conn, Store};

use crate::objects::reads::no_such_object;
use crate::runtime::{Clock, Error, Result, Wakeup, traces};

/// Schedules analyses of single objects.
#[derive(Clone)]
pub struct Jobs {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) scheduler: Wakeup,
}

impl Jobs {
    /// Schedules an analysis of one object, at live priority.
    pub async fn schedule(&self, tenant: TenantId, object_id: &str) -> Result<AnalyzeScheduled> {
        event::check_object_id(object_id).map_err(|_| no_such_object())?;
        self.store
            .write("analyze_object", async |conn: &mut Conn| {
                let object =
                    reads::find(conn, tenant, object_id).await?.filter(|object| object.event_count > 0);
                object.ok_or_else(no_such_object)?;
                let traceparent = traces::current();
                jobs::schedule_now(conn, tenant, object_id, self.clock.now(), traceparent.as_deref()).await?;
                Ok::<_, Error>(())
            })
            .await?;
        self.scheduler.wake();
        Ok(AnalyzeScheduled { object_id: object_id.to_owned(), analysis_status: AnalysisStatus::Scheduled })
    }
}
