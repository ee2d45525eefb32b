//! The versions of a signal: what it asked before, and going back to that.

use std::collections::HashMap;

use model::TenantId;
use model::api::{Author, AuthorKind, Signal, SignalVersion, SignalVersionList};
use serde_json::value::RawValue;
use store::Conn;
use store::accounts::{tenants, users};
use store::analysis::{signal_versions, signals};

use crate::analysis::signals::{Definition, Signals, Wording, on_record, record};
use crate::quality::no_such_signal;
use crate::runtime::{Caller, Error, Kind, Result, audit, internal};

impl Signals {
    /// The versions of a signal, newest first.
    pub async fn versions(&self, tenant: TenantId, key: &str) -> Result<SignalVersionList> {
        self.store
            .read("signal_versions", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let objects = signal_versions::objects_by_version(conn, tenant, signal.signal_id).await?;
                let objects: HashMap<i64, i64> = objects.into_iter().collect();
                let versions = signal_versions::of_key(conn, tenant, key).await?;
                // What nobody is known to have made belongs to the first user of the account.
                let unknown = if versions.iter().any(|version| version.author().is_none()) {
                    first_user(conn, tenant).await?
                } else {
                    None
                };
                let versions = versions.iter().map(|version| {
                    let raw = |text: &String| RawValue::from_string(text.clone()).map_err(internal);
                    Ok(SignalVersion {
                        version: version.version,
                        kind: version.kind,
                        instructions: raw(&version.instructions)?,
                        criteria: version.criteria.as_ref().map(raw).transpose()?,
                        calibration: version.calibration_id,
                        created_at: version.created_at,
                        by: version.author().or_else(|| unknown.clone()),
                        objects: objects.get(&version.version).copied().unwrap_or(0),
                    })
                });
                Ok(SignalVersionList { versions: versions.collect::<Result<_>>()? })
            })
            .await
    }

    /// Makes the definition of a version the next version of its signal, unless it is the present one.
    pub async fn restore(&self, caller: Caller, key: &str, version: i64) -> Result<Signal> {
        let restored = self
            .store
            .write("restore_signal", async |conn: &mut Conn| {
                let owner = tenants::lock(conn, caller.tenant).await?;
                let existing = signals::find(conn, caller.tenant, key).await?.ok_or_else(no_such_signal)?;
                let version = signal_versions::find(conn, caller.tenant, key, version)
                    .await?
                    .ok_or_else(|| Error::new(Kind::NotFound, "the signal has no such version"))?;
                let wording = Wording {
                    kind: version.kind,
                    instructions: &version.instructions,
                    criteria: version.criteria.as_deref(),
                };
                let definition =
                    Definition { wording, calibration_id: version.calibration_id, enabled: existing.enabled };
                let signal = self.define(conn, caller, key, Some(&existing), definition).await?;
                let backfill = self.backfill_if_new(conn, owner, Some(&existing), &signal).await?;
                audit::note(caller.tenant, key, Some(&on_record(&existing)?), Some(&on_record(&signal)?));
                Ok(Signal { backfill, ..record(&signal)? })
            })
            .await;
        self.changed();
        restored
    }
}

async fn first_user(conn: &mut Conn, tenant: TenantId) -> Result<Option<Author>> {
    let Some(id) = users::first_of_tenant(conn, tenant).await? else { return Ok(None) };
    let user = users::find(conn, tenant, id).await?;
    Ok(user.map(|user| Author { kind: AuthorKind::User, id: id.0, name: user.email }))
}
