//! The round of sweeps that processes share.

use std::time::Duration;

use model::{TenantId, Timestamp};
use store::accounts::tenants;
use store::upkeep::sweep_rounds::{self, ClaimedAccounts};
use store::{Conn, Store};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(
    processes_share_the_accounts_of_a_round,
    what_a_process_has_claimed_when_it_ends_is_swept_in_the_next_round,
    a_round_can_begin_at_once,
);

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const EVERY: Duration = Duration::from_mins(10);

/// Two processes on a database with this many accounts.
async fn two_processes(database: &TestDatabase, accounts: u128) -> [Store; 2] {
    let stores = [database.open().await, database.open().await];
    let write = async |conn: &mut Conn| {
        for number in 1..=accounts {
            tenants::insert(conn, TenantId(Uuid::from_u128(number)), "Acme", NOW).await?;
        }
        Ok::<_, store::Error>(())
    };
    stores[0].write("accounts", write).await.unwrap();
    stores
}

async fn claim(store: &Store, now: Timestamp, limit: i64) -> ClaimedAccounts {
    let write = async |conn: &mut Conn| sweep_rounds::claim(conn, now, EVERY, false, limit).await;
    store.write("claim_sweep", write).await.unwrap()
}

async fn is_open(store: &Store, now: Timestamp) -> bool {
    let read = async |conn: &mut Conn| sweep_rounds::is_open(conn, now, EVERY).await;
    store.read("sweep_round", read).await.unwrap()
}

fn numbers(claimed: &ClaimedAccounts) -> Vec<u128> {
    claimed.accounts.iter().map(|account| account.tenant_id.0.as_u128()).collect()
}

async fn processes_share_the_accounts_of_a_round(database: &TestDatabase) {
    let [one, other] = two_processes(database, 5).await;
    for round in 0..3 {
        let now = NOW + EVERY * round;
        assert!(is_open(&one, now).await && is_open(&other, now).await);
        let first = claim(&one, now, 2).await;
        assert_eq!((numbers(&first), first.is_first, first.is_last), (vec![1, 2], true, false));
        let second = claim(&other, now, 2).await;
        assert_eq!((numbers(&second), second.is_first, second.is_last), (vec![3, 4], false, false));
        let third = claim(&one, now, 2).await;
        assert_eq!((numbers(&third), third.is_last), (vec![5], true));
        let soon = now + EVERY - Duration::from_secs(1);
        assert!(!is_open(&other, soon).await);
        let none = claim(&other, soon, 2).await;
        assert_eq!((numbers(&none), none.is_first, none.is_last), (vec![], false, true));
    }
    // As many at once as there are, by both at the same time.
    let now = NOW + EVERY * 3;
    let (here, there) = tokio::join!(claim(&one, now, 3), claim(&other, now, 3));
    let mut all = [numbers(&here), numbers(&there)].concat();
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4, 5], "each was claimed by one");
    one.close().await;
    other.close().await;
}

async fn what_a_process_has_claimed_when_it_ends_is_swept_in_the_next_round(database: &TestDatabase) {
    let [one, other] = two_processes(database, 4).await;
    assert_eq!(numbers(&claim(&one, NOW, 2).await), [1, 2]);
    one.close().await;
    // The other one goes on where that one was, however late, and then begins the next round.
    let late = NOW + EVERY * 7;
    assert!(is_open(&other, late).await);
    assert_eq!(numbers(&claim(&other, late, 2).await), [3, 4]);
    assert_eq!(numbers(&claim(&other, late, 2).await), [0; 0]);
    let next = claim(&other, late, 9).await;
    assert_eq!((numbers(&next), next.is_first), (vec![1, 2, 3, 4], true));
    other.close().await;
}

async fn a_round_can_begin_at_once(database: &TestDatabase) {
    let [one, other] = two_processes(database, 2).await;
    assert!(claim(&one, NOW, 9).await.is_last);
    assert!(!is_open(&one, NOW).await);
    let write = async |conn: &mut Conn| sweep_rounds::claim(conn, NOW, EVERY, true, 9).await;
    let again = other.write("claim_sweep", write).await.unwrap();
    assert_eq!((numbers(&again), again.is_first), (vec![1, 2], true));
    one.close().await;
    other.close().await;
}
