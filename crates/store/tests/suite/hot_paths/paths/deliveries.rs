//! Hot paths of webhook deliveries: queued, claimed, settled, listed, swept.

use model::api::DeliveryStatus;
use store::Conn;
use store::actions::webhooks::deliveries::DeliveryFilter;
use store::actions::webhooks::queue::{AttemptResult, DeliveryLease, DeliveryOutcome, LeasedDelivery};
use store::actions::webhooks::{deliveries, endpoints, queue};
use store::upkeep::gauges;
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures;
use super::super::fixtures::{ENDPOINTS, MINUTE, NOW, TENANT};
use super::{CLAIMED_AT, LEASE, TOKEN};

pub(crate) async fn sending(capture: &mut Capture<'_>, sizes: &[usize]) {
    for (turn, &count) in sizes.iter().enumerate() {
        let endpoint = ENDPOINTS[turn % 2];
        let limit = i64::try_from(count).unwrap();
        let queued = fixtures::deliveries(endpoint, count, 10_000 * (turn as u128 + 1));
        capture
            .write("queue deliveries", async |conn: &mut Conn| deliveries::queue(conn, &queued).await)
            .await;
        let claimed = capture
            .write("claim deliveries", async |conn: &mut Conn| {
                queue::due_endpoints(conn, Uuid::nil(), CLAIMED_AT, 10).await?;
                queue::next_due(conn).await?;
                gauges::deliveries(conn).await?;
                let claimed = queue::claim(conn, endpoint, CLAIMED_AT, limit, LEASE).await?;
                assert_eq!(claimed.len(), count);
                let keys: Vec<_> = claimed.iter().map(|delivery| (TENANT, delivery.delivery_id)).collect();
                assert_eq!(queue::contents(conn, &keys).await?.len(), count);
                queue::is_current(conn, lease(endpoint, &claimed[0]), 1).await?;
                Ok(claimed)
            })
            .await;
        capture
            .write("release deliveries", async |conn: &mut Conn| {
                let leases = claimed.iter().map(|delivery| lease(endpoint, delivery)).collect();
                queue::release(conn, leases).await?;
                queue::claim(conn, endpoint, CLAIMED_AT, limit, LEASE).await
            })
            .await;
        capture
            .write("settle deliveries", async |conn: &mut Conn| {
                for outcome in [DeliveryOutcome::Retry, DeliveryOutcome::Delivered, DeliveryOutcome::Dead] {
                    let result = |delivery: &LeasedDelivery| AttemptResult {
                        lease: lease(endpoint, delivery),
                        outcome,
                        attempts: 1,
                        at: NOW,
                        status_code: Some(200),
                        error: None,
                        response: None,
                    };
                    let settled = queue::settle(conn, claimed.iter().map(result).collect()).await?;
                    if outcome == DeliveryOutcome::Retry {
                        assert_eq!(settled.len(), count);
                        queue::claim(conn, endpoint, CLAIMED_AT, limit, LEASE).await?;
                    }
                }
                Ok(())
            })
            .await;
    }
    capture
        .write("endpoints", async |conn: &mut Conn| {
            endpoints::of_tenant(conn, TENANT).await?;
            let (circuit, _) = endpoints::circuit(conn, TENANT, ENDPOINTS[0]).await?.unwrap();
            endpoints::set_circuit(conn, TENANT, ENDPOINTS[0], circuit).await?;
            endpoints::claim_probe(conn, TENANT, ENDPOINTS[0], NOW, NOW).await?;
            queue::make_first_due(conn, TENANT, ENDPOINTS[0], NOW).await
        })
        .await;
}

fn lease(endpoint_id: Uuid, delivery: &LeasedDelivery) -> DeliveryLease {
    DeliveryLease { tenant: TENANT, endpoint_id, delivery_id: delivery.delivery_id, token: TOKEN }
}

pub(crate) async fn listing_deliveries(capture: &mut Capture<'_>) {
    capture
        .write("list deliveries", async |conn: &mut Conn| {
            for (endpoint, status) in [
                (None, None),
                (Some(ENDPOINTS[0]), None),
                (None, Some(DeliveryStatus::Delivered)),
                (Some(ENDPOINTS[1]), Some(DeliveryStatus::Pending)),
            ] {
                deliveries::list(conn, TENANT, DeliveryFilter { endpoint, status, before: None }, 50).await?;
            }
            let delivery = Uuid::from_u128(10_000);
            assert!(deliveries::find(conn, TENANT, delivery).await?.is_some());
            deliveries::replay(conn, TENANT, delivery, NOW).await
        })
        .await;
    capture
        .write("sweep deliveries", async |conn: &mut Conn| {
            deliveries::orphaned(conn, TENANT).await?;
            let made_before = Uuid::from_u128(20_000);
            let endpoint = (TENANT, ENDPOINTS[1]);
            deliveries::drop_ended(conn, endpoint, DeliveryStatus::Delivered, made_before, NOW + MINUTE, 10)
                .await?;
            deliveries::drop_of_endpoint(conn, TENANT, ENDPOINTS[0], 10).await
        })
        .await;
}
