//! Starting a trial: which objects it is put to, and what it will cost.

use model::api::{LabelAnswer, Trial, TrialCreate, TrialEstimate, TrialObjects, TrialOver, TrialStatus};
use model::{Question, TenantId};
use serde_json::value::RawValue;
use store::Conn;
use store::accounts::tenants;
use store::analysis::signals::{self, Signal};
use store::analysis::trials::{self, TrialObject};
use store::quality::labels;

use crate::analysis::trials::list::{Trials, summary};
use crate::analysis::trials::runner::passed;
use crate::objects::counts::recent_objects;
use crate::quality::no_such_signal;
use crate::runtime::{Caller, Error, Kind, Result, internal};

/// The most objects of a trial, and the usual number.
const MAX_OBJECTS: i64 = 1_000;
const USUAL_OBJECTS: i64 = 100;
/// The most trials of an account that run at the same time.
const MAX_RUNNING: i64 = 5;

/// A trial that was started, or what it would cost.
pub enum StartedTrial {
    /// It was started.
    Started(Box<Trial>),
    /// What it would cost.
    Estimate(TrialEstimate),
}

impl Trials {
    /// Starts a trial, or says what it would cost.
    pub async fn start(&self, caller: Caller, key: &str, request: &TrialCreate) -> Result<StartedTrial> {
        let tenant = caller.tenant;
        let limit = request.limit.unwrap_or(USUAL_OBJECTS);
        if !(1..=MAX_OBJECTS).contains(&limit) {
            return Err(Error::bad_request(format!("limit: it must be from 1 to {MAX_OBJECTS}")));
        }
        if request.instructions.is_none() && request.criteria.is_none() {
            return Err(Error::bad_request("instructions: give instructions, criteria or both"));
        }
        let (signal, objects, left_out) = self
            .store
            .read("trial_objects", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                proposed(&signal, request)?;
                let mut objects = choose_objects(conn, tenant, &signal, &request.over, limit).await?;
                let left_out = leave_out_lost(conn, tenant, &mut objects).await?;
                Ok::<_, Error>((signal, objects, left_out))
            })
            .await?;
        if request.dry_run == Some(true) {
            let (instructions, criteria) = wording(&signal, request);
            let proposed = (instructions.as_str(), criteria.as_deref());
            let estimate = self.estimate(tenant, &signal, proposed, &objects).await?;
            return Ok(StartedTrial::Estimate(estimate));
        }
        if objects.is_empty() {
            return Err(Error::new(Kind::Conflict, "no objects match the trial's selection"));
        }
        let started = self
            .store
            .write("start_trial", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                if trials::count_running(conn, tenant).await? >= MAX_RUNNING {
                    let message = format!("an account has at most {MAX_RUNNING} trials at a time");
                    return Err(Error::new(Kind::Conflict, message));
                }
                let now = self.clock.now();
                caller.require_valid(conn, now).await?;
                let (instructions, criteria) = wording(&signal, request);
                let trial = trials::Trial {
                    tenant_id: tenant,
                    trial_id: self.random.id(now),
                    signal_id: signal.signal_id,
                    version: signal.version,
                    instructions,
                    criteria,
                    over_objects: serde_json::to_string(&request.over).map_err(internal)?,
                    status: TrialStatus::Running,
                    total: i64::try_from(objects.len()).unwrap_or(i64::MAX),
                    left_out,
                    cost_micros: 0,
                    created_at: now,
                    ended_at: None,
                };
                trials::insert(conn, &trial, &objects).await?;
                summary(conn, key, &trial).await
            })
            .await?;
        self.runner.wake();
        Ok(StartedTrial::Started(Box::new(started)))
    }
}

/// The proposed wording: what the request leaves out is as it is now.
fn wording(signal: &Signal, request: &TrialCreate) -> (String, Option<String>) {
    let given = |text: &Option<Box<RawValue>>| text.as_deref().map(|text| text.get().to_owned());
    let instructions = given(&request.instructions).unwrap_or_else(|| signal.instructions.clone());
    (instructions, given(&request.criteria).or_else(|| signal.criteria.clone()))
}

/// Checks the proposed wording.
fn proposed(signal: &Signal, request: &TrialCreate) -> Result<()> {
    let (instructions, criteria) = wording(signal, request);
    Question::parse(&signal.key, signal.kind, &instructions, criteria.as_deref())
        .map(drop)
        .map_err(|error| Error::bad_request(error.to_string()))
}

/// Leaves out objects whose history at the time of their label can no longer be read: later events are in their summary, and those
/// that it includes are deleted. Returns how many.
async fn leave_out_lost(conn: &mut Conn, tenant: TenantId, objects: &mut Vec<TrialObject>) -> Result<i64> {
    let before = objects.len();
    let passed = passed(conn, tenant, &objects.iter().collect::<Vec<_>>()).await?;
    objects.retain(|object| passed.get(&object.object_id) != Some(&false));
    Ok(i64::try_from(before - objects.len()).unwrap_or(i64::MAX))
}

/// Chooses the objects that a trial asks about: those labelled last, or analyzed last, never at random.
async fn choose_objects(
    conn: &mut Conn,
    tenant: TenantId,
    signal: &Signal,
    over: &TrialOver,
    limit: i64,
) -> Result<Vec<TrialObject>> {
    let unlabelled = |object_id: String| TrialObject {
        object_id,
        through: None,
        label: None,
        labelled_at: None,
        audit: false,
        present: None,
        proposed: None,
        attempts: 0,
    };
    match over {
        TrialOver::Named(TrialObjects::Labelled) => {
            let found = labels::newest_counting(conn, tenant, signal.signal_id, limit).await?;
            let labelled = found.into_iter().map(|label| {
                let answer: Option<LabelAnswer> =
                    label.answer.as_deref().map(serde_json::from_str).transpose().map_err(internal)?;
                Ok(TrialObject {
                    through: answer.map(|answer| answer.read_seq),
                    label: Some(label.value),
                    labelled_at: Some(label.created_at),
                    audit: label.audit,
                    ..unlabelled(label.object_id)
                })
            });
            labelled.collect()
        }
        TrialOver::Named(TrialObjects::Recent) => {
            let found = recent_objects(conn, tenant, None, limit).await?;
            Ok(found.into_iter().map(unlabelled).collect())
        }
        TrialOver::Query(query) => {
            let found = recent_objects(conn, tenant, Some(&query.q), limit).await?;
            Ok(found.into_iter().map(unlabelled).collect())
        }
    }
}
