//! Audits: analyzed objects that are drawn at random, so that labels also say something about what no rule flags.
//!
//! Objects are drawn, not analyses, so that busy ones are not favoured: time is divided into windows of 30 days, which begin at
//! another moment for every object, and a keyed hash says whether an object is drawn in its window, however often it is
//! analyzed. Without the key nobody can tell, or choose ids that are never drawn.

use std::collections::BTreeMap;

use model::api::ReviewReason;
use model::{TenantId, Timestamp};
use store::Conn;
use store::accounts::tenants;
use store::actions::reviews;

use crate::actions::effects::{ConcludedAnalysis, Effects};
use crate::actions::reviews::opening::{ReviewOpener, ReviewRequest};
use crate::quality::AUDIT_INTERVAL;
use crate::runtime::{KeyedHash, Result};

/// Draws objects and opens their reviews.
#[derive(Clone)]
pub(crate) struct Audits {
    pub(crate) hash: KeyedHash,
    pub(crate) opener: ReviewOpener,
}

impl Audits {
    /// Whether the object of an analysis is drawn, at this share of all objects.
    pub(crate) fn is_drawn(&self, tenant: TenantId, object_id: &str, at: Timestamp, rate: f64) -> bool {
        is_drawn(&self.hash, tenant, object_id, at, rate)
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
            let audited = reviews::audited_since(conn, tenant, &ids, now - AUDIT_INTERVAL).await?;
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

/// Whether an object is drawn in the window that it is in at an instant.
fn is_drawn(hash: &KeyedHash, tenant: TenantId, object_id: &str, at: Timestamp, rate: f64) -> bool {
    if rate <= 0.0 {
        return false;
    }
    let (tenant, object_id) = (tenant.0.as_bytes().as_slice(), object_id.as_bytes());
    let interval = AUDIT_INTERVAL.as_secs().cast_signed();
    let offset = hash.of(&[tenant, b"offset", object_id]).rem_euclid(AUDIT_INTERVAL.as_secs()).cast_signed();
    let window = (at.seconds() + offset).div_euclid(interval);
    hash.fraction_of(&[tenant, &window.to_be_bytes(), object_id]) < rate
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::quality::wilson;
    use uuid::Uuid;

    use super::*;
    use crate::runtime::{MasterKey, Random, Sealer};

    const TENANT: TenantId = TenantId(Uuid::from_u128(1));

    fn drawn(hash: &KeyedHash, object_id: &str, days: u64, rate: f64) -> bool {
        let at = Timestamp::from_seconds(1_800_000_000) + Duration::from_hours(24 * days);
        is_drawn(hash, TENANT, object_id, at, rate)
    }

    fn hash(seed: u64) -> KeyedHash {
        Sealer::new(MasterKey::generate(&Random::seeded(seed)), None).keyed_hash("audits")
    }

    #[test]
    fn a_share_of_the_objects_is_drawn_in_every_window_and_others_in_the_next() {
        let hash = hash(1);
        let objects: Vec<String> = (0..4_000).map(|number| format!("user_{number}")).collect();
        let sample = |days: u64| -> Vec<&String> {
            objects.iter().filter(|object_id| drawn(&hash, object_id, days, 0.1)).collect()
        };
        let (first, next) = (sample(0), sample(30));
        for drawn in [&first, &next] {
            let share = wilson(drawn.len(), objects.len()).unwrap();
            assert!(share.low < 0.1 && share.high > 0.1, "{share:?}");
        }
        let again = first.iter().filter(|object_id| next.contains(object_id)).count();
        assert!(again < 80, "{again} of {} are drawn again; chance says 40", first.len());
        // However often it is analyzed, an object is in two windows of 30 days at most.
        for object_id in &objects[..200] {
            let days: Vec<bool> = (0..30).map(|day| drawn(&hash, object_id, day, 0.1)).collect();
            let changes = days.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes <= 1, "{object_id}: {days:?}");
        }
        // Who is drawn at a share is also drawn at a larger one.
        assert!(first.iter().all(|object_id| drawn(&hash, object_id, 0, 0.2)));
    }

    #[test]
    fn nobody_without_the_key_can_tell_who_is_drawn() {
        let (one, other) = (hash(1), hash(2));
        let differs = |number: &i32| {
            let object_id = format!("user_{number}");
            drawn(&one, &object_id, 0, 0.5) != drawn(&other, &object_id, 0, 0.5)
        };
        let differing = (0..1_000).filter(differs).count();
        assert!((400..600).contains(&differing), "{differing}");
    }
}
