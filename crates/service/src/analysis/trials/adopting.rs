//! Adopting the wording of a trial.

use model::api::{Signal, TrialStatus};
use store::Conn;
use store::accounts::tenants;
use store::analysis::signals;
use uuid::Uuid;

use crate::analysis::signals::{Definition, Signals, Wording, on_record, record};
use crate::analysis::trials::list::find;
use crate::quality::no_such_signal;
use crate::runtime::{Caller, Error, Kind, Result, audit};

impl Signals {
    /// Gives a signal the wording of a trial that is done.
    pub async fn adopt(&self, caller: Caller, key: &str, trial: Uuid) -> Result<Signal> {
        let tenant = caller.tenant;
        let adopted = self
            .store
            .write("adopt_trial", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let existing = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let trial = find(conn, tenant, &existing, trial).await?;
                if trial.status != TrialStatus::Done {
                    return Err(Error::new(Kind::Conflict, "the trial is not done"));
                }
                let wording = Wording {
                    kind: existing.kind,
                    instructions: &trial.instructions,
                    criteria: trial.criteria.as_deref(),
                };
                // A calibration is fitted to a wording, and off after a new one.
                let calibration_id = existing.calibration_id.filter(|_| wording.is_of(&existing));
                let definition = Definition { wording, calibration_id, enabled: existing.enabled };
                let adopted = self.define(conn, caller, key, Some(&existing), definition).await?;
                audit::note(tenant, key, Some(&on_record(&existing)?), Some(&on_record(&adopted)?));
                record(&adopted)
            })
            .await;
        self.changed();
        adopted
    }
}
