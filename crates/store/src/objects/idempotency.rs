//! Idempotency keys: a request with a key that was used before is not recorded again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::TenantId;

use crate::db::{Conn, Result, Rows, bigint, fetch_optional};
use crate::objects::request::{IdempotencyKey, IngestKind, IngestRequest, Recorded};

/// The request that first used a key.
#[derive(sqlx::FromRow)]
struct FirstUse {
    object_id: String,
    kind: IngestKind,
    accepted: i64,
}

impl FirstUse {
    /// The outcome of another request with the same key. Bodies are not compared.
    fn repeated_by(&self, request: &IngestRequest, kind: IngestKind) -> Recorded {
        if request.object_id != self.object_id {
            Recorded::KeyReused
        } else if (kind, self.kind) == (IngestKind::Async, IngestKind::Async) {
            Recorded::Replayed { accepted: self.accepted }
        } else {
            Recorded::Conflict
        }
    }
}

/// The outcome of a request whose key was used before, if it was.
pub(crate) async fn find_repeat(conn: &mut Conn, request: &IngestRequest) -> Result<Option<Recorded>> {
    let Some(idempotency) = &request.idempotency else { return Ok(None) };
    let first: Option<FirstUse> = fetch_optional!(
        conn,
        "SELECT object_id, kind, accepted FROM idempotency_keys
         WHERE tenant_id = $1 AND idempotency_key = $2 AND expires_at > $3",
        request.tenant,
        &idempotency.key,
        request.received_at
    )?;
    Ok(first.map(|first| first.repeated_by(request, idempotency.kind)))
}

/// Stores the idempotency keys of requests, and settles those whose key was used before.
pub(crate) async fn settle_keys(
    conn: &mut Conn,
    requests: &[IngestRequest],
    outcomes: &mut [Option<Recorded>],
) -> Result<()> {
    // The first of several requests with one key in a batch gets it; the others are settled once that one is recorded.
    let mut firsts: BTreeMap<(TenantId, &str), &IngestRequest> = BTreeMap::new();
    for (request, outcome) in requests.iter().zip(outcomes.iter()) {
        if let (Some(idempotency), None) = (&request.idempotency, outcome) {
            firsts.entry((request.tenant, &idempotency.key)).or_insert(request);
        }
    }
    let rows: Vec<(&IngestRequest, &IdempotencyKey)> =
        firsts.values().filter_map(|request| Some((*request, request.idempotency.as_ref()?))).collect();
    let stored = store_keys(conn, &rows).await?;
    for ((tenant, key), _) in firsts {
        if stored.contains(&(tenant, key.to_owned())) {
            continue;
        }
        let first: Option<FirstUse> = fetch_optional!(
            conn,
            "SELECT object_id, kind, accepted FROM idempotency_keys WHERE tenant_id = $1 AND idempotency_key = $2",
            tenant,
            key
        )?;
        let Some(first) = first else { continue };
        for (request, outcome) in requests.iter().zip(outcomes.iter_mut()) {
            if let Some(idempotency) = &request.idempotency
                && (request.tenant, idempotency.key.as_str()) == (tenant, key)
                && outcome.is_none()
            {
                *outcome = Some(first.repeated_by(request, idempotency.kind));
            }
        }
    }
    // A later request with a key that an earlier one of the batch has just got waits for the outcome of that one.
    let mut seen: BTreeSet<(TenantId, &str)> = BTreeSet::new();
    for (request, outcome) in requests.iter().zip(outcomes.iter_mut()) {
        if let Some(idempotency) = &request.idempotency
            && outcome.is_none()
            && !seen.insert((request.tenant, &idempotency.key))
        {
            *outcome = Some(Recorded::Conflict);
        }
    }
    Ok(())
}

/// Stores keys that are not there or have expired; returns which.
async fn store_keys(
    conn: &mut Conn,
    rows: &[(&IngestRequest, &IdempotencyKey)],
) -> Result<BTreeSet<(TenantId, String)>> {
    let stored = Rows::of(rows)
        .column("tenant_id", |row| row.0.tenant)
        .column("idempotency_key", |row| row.1.key.as_str())
        .column("object_id", |row| row.0.object_id.as_str())
        .column("kind", |row| row.1.kind.as_str())
        .column("accepted", |row| bigint(row.0.events.len()))
        .column("created_at", |row| row.0.received_at)
        .column("expires_at", |row| row.1.expires_at)
        .insert(
            "idempotency_keys",
            "ON CONFLICT (tenant_id, idempotency_key) DO UPDATE SET object_id = excluded.object_id,
                 kind = excluded.kind, accepted = excluded.accepted, created_at = excluded.created_at,
                 expires_at = excluded.expires_at
             WHERE idempotency_keys.expires_at <= excluded.created_at
             RETURNING tenant_id, idempotency_key",
        )
        .fetch::<(TenantId, String)>(conn)
        .await?;
    Ok(stored.into_iter().collect())
}

/// Settles the requests of a batch whose key an earlier request of the same batch got.
pub(crate) fn settle_within_batch(requests: &[IngestRequest], outcomes: &mut [Option<Recorded>]) {
    let mut firsts: HashMap<(TenantId, &str), FirstUse> = HashMap::new();
    for (request, outcome) in requests.iter().zip(outcomes.iter_mut()) {
        let Some(idempotency) = &request.idempotency else { continue };
        let key = (request.tenant, idempotency.key.as_str());
        match (&outcome, firsts.get(&key)) {
            (Some(Recorded::New { .. }), _) => {
                let first = FirstUse {
                    object_id: request.object_id.clone(),
                    kind: idempotency.kind,
                    accepted: bigint(request.events.len()),
                };
                firsts.insert(key, first);
            }
            (Some(Recorded::Conflict), Some(first)) => {
                *outcome = Some(first.repeated_by(request, idempotency.kind));
            }
            _ => {}
        }
    }
}
