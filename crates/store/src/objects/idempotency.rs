//! Idempotency keys: a request that was made before is not recorded again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::TenantId;

use crate::db::bulk::insert_many;
use crate::db::connect::fetch_optional;
use crate::objects::recorder::{Entry, Idempotency, IngestKind, Recorded, count};
use crate::{Conn, Result};

/// What a request gets whose key was used before, if it was.
pub(crate) async fn known_repeat(conn: &mut Conn, entry: &Entry) -> Result<Option<Recorded>> {
    let Some(idempotency) = &entry.idempotency else { return Ok(None) };
    let known: Option<(String, String, i64)> = fetch_optional!(
        conn,
        "SELECT object_id, kind, accepted FROM idempotency_keys
         WHERE tenant_id = $1 AND idempotency_key = $2 AND expires_at > $3",
        entry.tenant,
        &idempotency.key,
        entry.received_at
    )?;
    Ok(known
        .map(|(object_id, kind, accepted)| repeated(entry, idempotency.kind, &object_id, &kind, accepted)))
}

/// Writes the idempotency keys down, and settles the requests whose key was there before.
pub(crate) async fn settle_keys(
    conn: &mut Conn,
    entries: &[Entry],
    outcomes: &mut [Option<Recorded>],
) -> Result<()> {
    // The first of several requests with one key in a batch takes it; the others are settled after it is recorded.
    let mut firsts: BTreeMap<(TenantId, &str), &Entry> = BTreeMap::new();
    for (entry, outcome) in entries.iter().zip(outcomes.iter()) {
        if let (Some(idempotency), None) = (&entry.idempotency, outcome) {
            firsts.entry((entry.tenant, &idempotency.key)).or_insert(entry);
        }
    }
    let rows: Vec<(&Entry, &Idempotency)> =
        firsts.values().filter_map(|entry| Some((*entry, entry.idempotency.as_ref()?))).collect();
    let taken = insert_many!(
        (TenantId, String);
        conn,
        &rows,
        "idempotency_keys",
        [
            ("tenant_id", "uuid", |row| row.0.tenant),
            ("idempotency_key", "text", |row| row.1.key.as_str()),
            ("object_id", "text", |row| row.0.object_id.as_str()),
            ("kind", "text", |row| row.1.kind.name()),
            ("accepted", "bigint", |row| count(row.0.events.len())),
            ("created_at", "timestamptz", |row| row.0.received_at),
            ("expires_at", "timestamptz", |row| row.1.expires_at),
        ],
        "ON CONFLICT (tenant_id, idempotency_key) DO UPDATE SET object_id = excluded.object_id, kind = excluded.kind,
             accepted = excluded.accepted, created_at = excluded.created_at, expires_at = excluded.expires_at
         WHERE idempotency_keys.expires_at <= excluded.created_at
         RETURNING tenant_id, idempotency_key",
    );
    let taken: BTreeSet<(TenantId, String)> = taken.into_iter().collect();
    for ((tenant, key), _) in firsts {
        if taken.contains(&(tenant, key.to_owned())) {
            continue;
        }
        let known: Option<(String, String, i64)> = fetch_optional!(
            conn,
            "SELECT object_id, kind, accepted FROM idempotency_keys WHERE tenant_id = $1 AND idempotency_key = $2",
            tenant,
            key
        )?;
        let Some((object_id, kind, accepted)) = known else { continue };
        for (entry, outcome) in entries.iter().zip(outcomes.iter_mut()) {
            if let Some(idempotency) = &entry.idempotency
                && (entry.tenant, idempotency.key.as_str()) == (tenant, key)
                && outcome.is_none()
            {
                *outcome = Some(repeated(entry, idempotency.kind, &object_id, &kind, accepted));
            }
        }
    }
    // Later requests with a key that an earlier one of the batch has just taken wait for its outcome.
    let mut seen: BTreeSet<(TenantId, &str)> = BTreeSet::new();
    for (entry, outcome) in entries.iter().zip(outcomes.iter_mut()) {
        if let Some(idempotency) = &entry.idempotency
            && outcome.is_none()
            && !seen.insert((entry.tenant, &idempotency.key))
        {
            *outcome = Some(Recorded::Conflict);
        }
    }
    Ok(())
}

/// Settles the requests of a batch whose key an earlier request of the same batch took.
pub(crate) fn replay_within(entries: &[Entry], outcomes: &mut [Option<Recorded>]) {
    let mut firsts: HashMap<(TenantId, &str), &Entry> = HashMap::new();
    for (entry, outcome) in entries.iter().zip(outcomes.iter_mut()) {
        let Some(idempotency) = &entry.idempotency else { continue };
        match (&outcome, firsts.get(&(entry.tenant, idempotency.key.as_str()))) {
            (Some(Recorded::New { .. }), _) => {
                firsts.insert((entry.tenant, &idempotency.key), entry);
            }
            (Some(Recorded::Conflict), Some(first)) => {
                let kind = first.idempotency.as_ref().map_or(IngestKind::Async, |first| first.kind);
                *outcome = Some(repeated(
                    entry,
                    idempotency.kind,
                    &first.object_id,
                    kind.name(),
                    count(first.events.len()),
                ));
            }
            _ => {}
        }
    }
}

/// What a repeat of a request gets. Bodies are not compared.
fn repeated(entry: &Entry, asked: IngestKind, object_id: &str, kind: &str, accepted: i64) -> Recorded {
    if entry.object_id != object_id {
        Recorded::KeyReused
    } else if asked == IngestKind::Async && kind == IngestKind::Async.name() {
        Recorded::Replayed { accepted }
    } else {
        Recorded::Conflict
    }
}
