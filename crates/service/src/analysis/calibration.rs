//! Switching a signal's calibration on and off.

use model::api::{CalibrationSwitched, RuleMode};
use model::condition::Condition;
use serde_json::json;
use store::Conn;
use store::accounts::tenants;
use store::actions::rules;
use store::analysis::{signal_versions, signals};
use store::quality::calibrations;
use uuid::Uuid;

use crate::analysis::signals::{Definition, Signals, Wording};
use crate::quality::no_such_signal;
use crate::runtime::{Caller, Error, Kind, Result, audit};

impl Signals {
    /// Switches a calibration on, or off with none. This is a new version of the signal: answers from now on are calibrated,
    /// and thresholds mean something else. Rules are not changed; the response says how many there are to look at.
    pub async fn set_calibration(
        &self,
        caller: Caller,
        key: &str,
        calibration: Option<Uuid>,
    ) -> Result<CalibrationSwitched> {
        let tenant = caller.tenant;
        let switched = self
            .store
            .write("set_calibration", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let existing = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                if let Some(calibration) = calibration {
                    require_present_wording(conn, caller, &existing, calibration).await?;
                }
                let wording = Wording {
                    kind: existing.kind,
                    instructions: &existing.instructions,
                    criteria: existing.criteria.as_deref(),
                };
                let enabled = existing.enabled;
                let definition = Definition { wording, calibration_id: calibration, enabled };
                let signal = self.define(conn, caller, key, Some(&existing), definition).await?;
                let switched =
                    |id: Option<Uuid>, version: i64| json!({"calibration": id, "version": version});
                let before = switched(existing.calibration_id, existing.version);
                let after = switched(calibration, signal.version);
                audit::note(tenant, key, Some(&before), Some(&after));
                let rules = rules::of_tenant(conn, tenant).await?;
                let live = rules.iter().filter(|rule| {
                    let uses_signal = Condition::parse(&rule.condition)
                        .is_ok_and(|condition| condition.keys().contains(&key));
                    rule.enabled && rule.mode == RuleMode::Live && uses_signal
                });
                let live_rules = i64::try_from(live.count()).unwrap_or(i64::MAX);
                Ok(CalibrationSwitched { version: signal.version, live_rules })
            })
            .await;
        self.changed();
        switched
    }
}

/// Refuses a calibration that does not exist, or that was fitted to answers to another wording.
async fn require_present_wording(
    conn: &mut Conn,
    caller: Caller,
    signal: &signals::Signal,
    calibration: Uuid,
) -> Result<()> {
    let tenant = caller.tenant;
    let found = calibrations::find(conn, tenant, signal.signal_id, calibration)
        .await?
        .ok_or_else(|| Error::new(Kind::NotFound, "there is no such calibration"))?;
    let fitted_to = signal_versions::find(conn, tenant, &signal.key, found.version).await?;
    let is_present = fitted_to.is_some_and(|version| {
        let criteria = version.criteria.as_deref();
        Wording { kind: version.kind, instructions: &version.instructions, criteria }.is_of(signal)
    });
    if is_present {
        return Ok(());
    }
    let reason = "the calibration was fitted to another wording of the signal: fit a new one";
    Err(Error::new(Kind::Conflict, reason))
}
