//! Whose turn it is to be analyzed: tenants in one order, whatever a planner would rather do.

use std::time::Duration;

use model::{TenantId, Timestamp};
use store::analysis::jobs;
use store::analysis::jobs::Priority;
use store::{Conn, Store};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(tenants_come_in_turn);

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

async fn tenants_come_in_turn(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("turns", async |conn: &mut Conn| {
            // In an order of their own: 7, 14, 21, … modulo 101.
            for number in (1..=100).map(|step| step * 7 % 101) {
                let due = if number % 10 == 5 { NOW + Duration::from_secs(1) } else { NOW };
                for object in ["user_1", "user_2", "user_3"] {
                    jobs::schedule_now(conn, TenantId(Uuid::from_u128(number)), object, due, None).await?;
                }
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();

    let walked = store.read("turns", async |conn: &mut Conn| walk(conn).await).await.unwrap();
    let expected: Vec<u128> = (1..=100).filter(|number| number % 10 != 5).collect();
    assert_eq!(walked, expected);
    store.close().await;
}

async fn walk(conn: &mut Conn) -> store::Result<Vec<u128>> {
    let mut walked = Vec::new();
    let mut after = None;
    while let Some(tenant) = jobs::next_tenant(conn, Priority::Live, after, NOW).await? {
        walked.push(tenant.0.as_u128());
        after = Some(tenant);
    }
    Ok(walked)
}
