//! The trials of a signal, as they are read and stopped.

use model::TenantId;
use model::api::{Trial, TrialList, TrialStatus};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::analysis::signals::{self, Signal};
use store::analysis::trials;
use store::{Conn, Store};
use uuid::Uuid;

use crate::analysis::asking::Asker;
use crate::analysis::trials::figures;
use crate::billing::Prices;
use crate::quality::Computing;
use crate::quality::no_such_signal;
use crate::runtime::{Clock, Error, Kind, Random, Result, Wakeup, cursor, internal};

/// The most trials of a page, and the usual number.
const MAX_PAGE: i64 = 100;
const USUAL_LIMIT: i64 = 20;

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct TrialCursor {
    signal: String,
    before: Uuid,
}

/// The trials of all tenants.
pub struct Trials {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) asker: Asker,
    pub(crate) prices: Prices,
    pub(crate) computing: Computing,
    /// Wakes the runner.
    pub(crate) runner: Wakeup,
}

impl Trials {
    /// A page of the trials of a signal, newest first, without figures.
    pub async fn list(
        &self,
        tenant: TenantId,
        key: &str,
        limit: Option<i64>,
        cursor: Option<&str>,
    ) -> Result<TrialList> {
        let limit = limit.unwrap_or(USUAL_LIMIT);
        cursor::check_page_size(limit, MAX_PAGE)?;
        let is_of_list = |cursor: &TrialCursor| cursor.signal == key;
        let before = cursor.map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let before = before.map(|cursor: TrialCursor| cursor.before);
        self.store
            .read("trials", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let found = trials::newest(conn, tenant, signal.signal_id, before, limit + 1).await?;
                let (page, last) = cursor::cut(found, limit);
                let mut records = Vec::with_capacity(page.len());
                for trial in &page {
                    records.push(summary(conn, key, trial).await?);
                }
                let next_cursor = last.map(|last| {
                    cursor::encode(&TrialCursor { signal: key.to_owned(), before: last.trial_id })
                });
                Ok(TrialList { trials: records, next_cursor })
            })
            .await
    }

    /// A trial, with its figures so far.
    pub async fn get(&self, tenant: TenantId, key: &str, trial: Uuid) -> Result<Trial> {
        let (signal, found, record, objects) = self
            .store
            .read("trial", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let found = find(conn, tenant, &signal, trial).await?;
                let record = summary(conn, key, &found).await?;
                let objects = trials::answered_objects(conn, tenant, trial).await?;
                Ok::<_, Error>((signal, found, record, objects))
            })
            .await?;
        self.computing.run(move || figures::complete(record, &signal, &found, objects)).await
    }

    /// Stops a trial. One that has ended is left as it is.
    pub async fn cancel(&self, tenant: TenantId, key: &str, trial: Uuid) -> Result<()> {
        self.store
            .write("cancel_trial", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                find(conn, tenant, &signal, trial).await?;
                trials::end(conn, tenant, trial, TrialStatus::Cancelled, self.clock.now()).await?;
                Ok(())
            })
            .await
    }
}

/// A trial of a signal.
pub(super) async fn find(
    conn: &mut Conn,
    tenant: TenantId,
    signal: &Signal,
    trial: Uuid,
) -> Result<trials::Trial> {
    let found = trials::find(conn, tenant, signal.signal_id, trial).await?;
    found.ok_or_else(|| Error::new(Kind::NotFound, "there is no such trial"))
}

/// A trial as the API shows it, without figures.
pub(super) async fn summary(conn: &mut Conn, key: &str, trial: &trials::Trial) -> Result<Trial> {
    let raw = |text: &String| RawValue::from_string(text.clone()).map_err(internal);
    Ok(Trial {
        id: trial.trial_id,
        signal: key.to_owned(),
        version: trial.version,
        instructions: raw(&trial.instructions)?,
        criteria: trial.criteria.as_ref().map(raw).transpose()?,
        over: serde_json::from_str(&trial.over_objects).map_err(internal)?,
        status: trial.status,
        total: trial.total,
        left_out: trial.left_out,
        completed: trials::count_ended(conn, trial.tenant_id, trial.trial_id).await?,
        cost_micros: trial.cost_micros,
        agreement: None,
        present: None,
        proposed: None,
        difference: None,
        flips: None,
        created_at: trial.created_at,
        ended_at: trial.ended_at,
    })
}
