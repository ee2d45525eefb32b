use std::sync::Arc;
use std::time::Instant;

use model::webhook::SigningKey;
use model::{TenantId, Timestamp};
use store::Lease;

use super::super::attempt::Destination;
use super::*;

const FIRST: i64 = 1;
const QUICK: Duration = Duration::from_millis(1);

fn deliveries_of(count: usize, bytes: usize) -> Vec<ClaimedDelivery> {
    let destination = Arc::new(Destination {
        tenant: TenantId(Uuid::nil()),
        endpoint_id: Uuid::nil(),
        url: "http://example.com/".parse().unwrap(),
        key: SigningKey::new(""),
        previous: None,
        version: FIRST,
    });
    let delivery = |_| ClaimedDelivery {
        destination: Arc::clone(&destination),
        delivery_id: Uuid::nil(),
        event_type: String::new(),
        payload: "x".repeat(bytes),
        attempts: 0,
        max_attempts: 6,
        traceparent: None,
        lease: Lease { token: Uuid::nil(), until: Timestamp::from_seconds(0) },
        is_probe: false,
        claimed: Instant::now(),
    };
    (0..count).map(delivery).collect()
}

fn deliveries(count: usize) -> Vec<ClaimedDelivery> {
    deliveries_of(count, 10)
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn demands(number: u128, failures: i64) -> EndpointDemand {
    EndpointDemand { endpoint: id(number), version: FIRST, failures }
}

fn rooms(board: &Board, demands: &[EndpointDemand]) -> Vec<usize> {
    board.rooms(demands).iter().map(|room| room.deliveries).collect()
}

fn put(board: &Board, number: u128, deliveries: Vec<ClaimedDelivery>) -> Vec<LaneId> {
    board.put(id(number), FIRST, deliveries)
}

/// The lane of an endpoint whose receiver has succeeded once, in this time.
fn succeeded(board: &Board, number: u128, took: Duration) -> LaneId {
    let lane = put(board, number, deliveries(1))[0];
    assert!(board.next(lane, 0).is_some());
    assert!(board.record_attempt(lane, true, took).is_empty());
    assert!(board.next(lane, 10).is_none());
    lane
}

/// Tasks that wait for a response from a URL before an edit.
fn detached(board: &Board) -> usize {
    let lanes = board.lanes();
    lanes.busy - lanes.by_endpoint.values().map(|lane| lane.senders).sum::<usize>()
}

#[test]
fn a_receiver_earns_slots_and_loses_them() {
    let board = Board::default();
    let one = [demands(1, 0)];
    assert_eq!(rooms(&board, &one), [NEW_SENDERS]);
    let lanes = put(&board, 1, deliveries(NEW_SENDERS));
    assert_eq!(lanes.len(), NEW_SENDERS);
    let lane = lanes[0];
    assert!(board.next(lane, 0).is_some() && board.next(lane, 0).is_some());
    assert_eq!(rooms(&board, &one), [0]);
    assert!(board.record_attempt(lane, true, QUICK).is_empty());
    assert_eq!(rooms(&board, &one), [2 * HEALTHY_SENDERS + 1 - NEW_SENDERS], "one success earns little");
    for _ in 0..MAX_DEPTH {
        assert!(board.record_attempt(lane, true, QUICK / 10).is_empty());
    }
    assert_eq!(rooms(&board, &one), [MAX_CLAIM], "much, but in steps");
    assert_eq!(put(&board, 1, deliveries(MAX_CLAIM)).len(), MAX_SENDERS - NEW_SENDERS);
    let mut claimed = MAX_CLAIM;
    while let Some(room) = rooms(&board, &one).pop().filter(|room| *room > 0) {
        put(&board, 1, deliveries(room));
        claimed += room;
    }
    assert!((MAX_DEPTH - MAX_CLAIM..=MAX_DEPTH).contains(&claimed), "{claimed}");
    // One failure among many successes changes nothing; after two in a row, what was claimed ahead is released.
    assert!(board.record_attempt(lane, false, Duration::from_secs(10)).is_empty());
    assert_eq!(board.record_attempt(lane, false, Duration::from_secs(10)).len(), claimed);
    for _ in 0..MAX_SENDERS {
        assert!(board.next(lane, 0).is_none());
    }
    assert_eq!(rooms(&board, &one), [FAILING_SENDERS]);
    // Healthy again, it does not get its former capacity at once.
    board.record_attempt(lane, true, QUICK);
    assert!(rooms(&board, &one)[0] <= MAX_DEPTH / 4 + 1);
}

#[test]
fn recalled_deliveries_are_not_sent() {
    let board = Board::default();
    let lanes = put(&board, 1, deliveries(5));
    assert!(board.next(lanes[0], 0).is_some());
    board.recall(id(1), FIRST + 1);
    board.recall(id(2), FIRST + 1);
    assert_eq!(board.take_unsent().len(), 4);
    assert!(board.take_unsent().is_empty());
    assert!(lanes.iter().all(|lane| board.next(*lane, 0).is_none()));
}

#[test]
fn an_edited_endpoint_does_not_wait_for_its_old_url() {
    let board = Board::default();
    let lane = succeeded(&board, 1, QUICK);
    let old = put(&board, 1, deliveries(HEALTHY_SENDERS));
    assert_eq!(old.len(), HEALTHY_SENDERS);
    assert!(old.iter().all(|lane| board.next(*lane, 0).is_some()));
    assert_eq!(detached(&board), 0);
    let later = FIRST + 1;
    board.recall(id(1), later);
    // Of two edits at once, the earlier may be reported last.
    board.recall(id(1), FIRST);
    assert_eq!(detached(&board), HEALTHY_SENDERS, "they still use slots");
    let edited = [EndpointDemand { version: later, ..demands(1, 0) }];
    assert_eq!(rooms(&board, &edited), [NEW_SENDERS]);
    // Claimed before the edit, put after it.
    assert!(put(&board, 1, deliveries(3)).is_empty());
    assert_eq!(board.take_unsent().len(), 3);
    let new = board.put(id(1), later, deliveries(NEW_SENDERS));
    assert_eq!(new.len(), NEW_SENDERS);
    // A response from the old URL says nothing about the new one, and its tasks end.
    assert!(board.record_attempt(lane, true, QUICK).is_empty());
    assert!(old.iter().all(|lane| board.next(*lane, 0).is_none()));
    assert_eq!(detached(&board), 0);
    assert!(board.next(new[0], 0).is_some());
    // An edit through another process is noticed by the next claim.
    let last = FIRST + 2;
    assert_eq!(rooms(&board, &[EndpointDemand { version: last, ..demands(1, 0) }]), [NEW_SENDERS]);
    assert_eq!((board.take_unsent().len(), detached(&board)), (NEW_SENDERS - 1, NEW_SENDERS));
}

#[test]
fn a_task_that_panics_frees_its_slot() {
    let board = Board::default();
    let lanes = put(&board, 1, deliveries(5));
    assert!(board.next(lanes[0], 0).is_some() && board.next(lanes[1], 0).is_some());
    assert!(board.abandon(lanes[0], 10).is_empty(), "the other task continues");
    assert_eq!(board.abandon(lanes[1], 10).len(), 3);
    assert_eq!(rooms(&board, &[demands(1, 0)]), [NEW_SENDERS]);
    assert_eq!(Load::of(&board.lanes()).bytes, 0);
}

#[test]
fn claimed_deliveries_are_sent_although_all_tasks_have_ended() {
    let board = Board::default();
    succeeded(&board, 1, QUICK);
    let lanes = put(&board, 1, deliveries(HEALTHY_SENDERS));
    assert_eq!(lanes.len(), HEALTHY_SENDERS);
    assert!(lanes.iter().all(|lane| board.next(*lane, 0).is_some()));
    assert!(rooms(&board, &[demands(1, 0)])[0] > 0, "more is claimed while all tasks send");
    assert!(lanes.iter().all(|lane| board.next(*lane, 10).is_none()), "and then the tasks end");
    assert_eq!(put(&board, 1, deliveries(3)).len(), 3);
}

#[test]
fn nothing_is_claimed_ahead_for_a_slow_receiver() {
    let board = Board::default();
    succeeded(&board, 1, Duration::from_secs(3));
    assert_eq!(rooms(&board, &[demands(1, 0)]), [HEALTHY_SENDERS]);
}

#[test]
fn only_after_a_full_claim_does_a_lane_want_another() {
    let board = Board::default();
    let lane = succeeded(&board, 1, QUICK);
    for _ in 0..MAX_DEPTH {
        board.record_attempt(lane, true, QUICK);
    }
    assert!(!board.wants_full_claim(id(1), MAX_CLAIM - 1), "there was no more");
    for _ in 0..MAX_DEPTH / MAX_CLAIM - 1 {
        assert!(board.wants_full_claim(id(1), MAX_CLAIM));
        put(&board, 1, deliveries(MAX_CLAIM));
    }
    assert!(!board.wants_full_claim(id(1), MAX_CLAIM), "its tasks count, so the last claim is not full");
    assert!(!board.wants_full_claim(id(2), MAX_CLAIM), "an unknown endpoint");
}

#[test]
fn claims_are_bounded_in_bytes_and_some_are_reserved_for_healthy_receivers() {
    const LARGE: usize = UNHEALTHY_BYTES / 8;
    let board = Board::default();
    let new: Vec<EndpointDemand> = (0..8).map(|number| demands(number, 0)).collect();
    for one in &new {
        let room = board.rooms(std::slice::from_ref(one))[0];
        assert!(room.deliveries > 0 && room.bytes > 0);
        board.put(one.endpoint, FIRST, deliveries_of(1, LARGE));
    }
    assert_eq!(rooms(&board, &[demands(8, 0)]), [0], "other new receivers wait");
    let healthy = succeeded(&board, 9, QUICK);
    let room = board.rooms(&[demands(9, 0)])[0];
    assert_eq!((room.deliveries > 0, room.bytes), (true, MAX_CLAIMED_BYTES - UNHEALTHY_BYTES));
    let lanes = put(&board, 9, deliveries_of(8, LARGE));
    assert_eq!(rooms(&board, &[demands(9, 0)]), [0], "nothing is left");
    // A sent delivery frees its bytes.
    assert!(board.next(lanes[0], 0).is_some());
    assert!(board.next(healthy, LARGE).is_some());
    assert_eq!(Load::of(&board.lanes()).bytes, MAX_CLAIMED_BYTES - LARGE);
}

/// Fills the lanes of endpoints, and returns how many slots they use.
fn fill(board: &Board, endpoints: &[EndpointDemand]) -> usize {
    let rooms = rooms(board, endpoints);
    assert!(rooms.iter().sum::<usize>() <= MAX_CLAIMED);
    let served = endpoints.iter().zip(rooms).filter(|(_, room)| *room > 0);
    served.map(|(one, room)| board.put(one.endpoint, FIRST, deliveries(room)).len()).sum()
}

#[test]
fn unhealthy_receivers_leave_slots_to_others() {
    let board = Board::default();
    let failing: Vec<EndpointDemand> = (0..400).map(|number| demands(number, 9)).collect();
    assert_eq!(fill(&board, &failing), FAILING_SLOTS);
    let new: Vec<EndpointDemand> = (400..800).map(|number| demands(number, 0)).collect();
    assert_eq!(fill(&board, &new), NEW_SLOTS);
    let slow: Vec<EndpointDemand> = (2_000..2_100).map(|number| demands(number, 0)).collect();
    for number in 2_000..2_100 {
        succeeded(&board, number, Duration::from_secs(5));
    }
    assert_eq!(fill(&board, &slow), SLOW_SLOTS);
    succeeded(&board, 1_000, Duration::from_millis(5));
    let requested = [demands(1_001, 0), demands(1_002, 5), slow[99], demands(1_000, 0)];
    let rooms = rooms(&board, &requested);
    assert!(rooms[..3] == [0, 0, 0] && rooms[3] > HEALTHY_SENDERS, "{rooms:?}");
    assert_eq!(put(&board, 1_000, deliveries(rooms[3])).len(), HEALTHY_SENDERS);
}

#[test]
fn slots_are_shared_and_rarely_exceeded() {
    let board = Board::default();
    let endpoints: Vec<EndpointDemand> = (0..100).map(|number| demands(number, 0)).collect();
    for number in 0..100 {
        succeeded(&board, number, QUICK);
    }
    assert!(rooms(&board, &endpoints).iter().all(|room| *room > 0), "every endpoint is served");
    let busy = fill(&board, &endpoints);
    assert!((SLOTS..SLOTS + endpoints.len()).contains(&busy), "{busy}");
}

#[test]
fn fast_receivers_share_the_extra_slots() {
    let board = Board::default();
    let mut busy = 0;
    for number in 0..20 {
        let lane = succeeded(&board, number, QUICK);
        for _ in 0..MAX_DEPTH {
            board.record_attempt(lane, true, QUICK);
        }
        busy += put(&board, number, deliveries(2 * MAX_SENDERS)).len();
    }
    assert_eq!(busy, 20 * HEALTHY_SENDERS + EXTRA_SLOTS);
    succeeded(&board, 20, QUICK);
    assert_eq!(
        put(&board, 20, deliveries(HEALTHY_SENDERS)).len(),
        HEALTHY_SENDERS,
        "another one gets its regular slots"
    );
    // Once all slots are busy, those beyond the regular ones are given up.
    let others: Vec<EndpointDemand> = (100..400).map(|number| demands(number, 0)).collect();
    fill(&board, &others);
    assert!(board.lanes().busy >= SLOTS);
    let lane = board.lanes().by_endpoint[&id(0)].id;
    assert!(board.lanes().by_endpoint[&id(0)].senders > HEALTHY_SENDERS);
    assert!(board.next(lane, 0).is_none());
}

#[test]
fn room_is_reserved_for_healthy_receivers_that_nothing_waits_for() {
    let board = Arc::new(Board::default());
    assert!(board.reserve(id(1), FIRST, 10).is_none(), "the receiver is not known");
    put(&board, 1, deliveries(1));
    assert!(board.reserve(id(1), FIRST, 10).is_none(), "its health is not known");
    board.clear();
    board.reopen();
    succeeded(&board, 2, QUICK);
    assert!(board.reserve(id(2), FIRST + 1, 10).is_none(), "it was edited");
    assert!(board.reserve(id(2), FIRST, MAX_CLAIMED_BYTES + 1).is_none());
    assert!(board.reserve(id(2), FIRST, 10).is_none(), "one that found no room goes first");
    board.set_backlogs(&HashSet::new(), Some(&HashSet::from([id(1)])));
    assert!(board.reserve(id(2), FIRST, 10).is_none(), "nobody has looked whether it was claimed");
    board.set_backlogs(&HashSet::new(), None);
    let room = board.reserve(id(2), FIRST, 10);
    assert!(room.is_some() && board.has_reservations());
    drop(room);
    assert!(!board.has_reservations(), "a transaction that fails gives it back");
    assert_eq!(board.lanes().by_endpoint[&id(2)].bytes, 0);
}

#[test]
fn a_slot_that_becomes_free_is_left_to_those_who_wait_for_one() {
    let board = Arc::new(Board::default());
    succeeded(&board, 1, QUICK);
    succeeded(&board, 2, QUICK);
    board.set_backlogs(&HashSet::from([id(2)]), None);
    assert!(board.reserve(id(1), FIRST, 10).is_none(), "another one has a backlog");
    board.set_backlogs(&HashSet::from([id(2)]), None);
    put(&board, 1, deliveries(1));
    assert!(board.reserve(id(1), FIRST, 10).is_some(), "it needs no slot of its own");
}

#[test]
fn a_board_that_is_cleared_takes_nothing_until_it_is_opened_again() {
    let board = Arc::new(Board::default());
    succeeded(&board, 1, QUICK);
    board.clear();
    assert!(board.reserve(id(1), FIRST, 10).is_none());
    board.reopen();
    board.set_backlogs(&HashSet::new(), None);
    assert!(board.reserve(id(1), FIRST, 10).is_some());
}
