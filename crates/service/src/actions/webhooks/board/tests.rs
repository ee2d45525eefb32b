use std::sync::Arc;
use std::time::Instant;

use model::TenantId;
use model::webhook::SigningKey;
use store::Lease;

use super::super::attempt::Destination;
use super::*;

const FIRST: Timestamp = Timestamp::from_seconds(0);
const QUICK: Duration = Duration::from_millis(1);

fn deliveries_of(count: usize, bytes: usize) -> Vec<ClaimedDelivery> {
    let destination = Arc::new(Destination {
        tenant: TenantId(Uuid::nil()),
        endpoint_id: Uuid::nil(),
        url: "http://example.com/".parse().unwrap(),
        key: SigningKey::new(""),
        updated_at: FIRST,
    });
    let delivery = |_| ClaimedDelivery {
        destination: Arc::clone(&destination),
        delivery_id: Uuid::nil(),
        event_type: String::new(),
        payload: "x".repeat(bytes),
        attempts: 0,
        max_attempts: 6,
        traceparent: None,
        lease: Lease { token: Uuid::nil(), until: FIRST },
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

/// The lane of an endpoint whose receiver has answered once, and how quickly.
fn proven(board: &Board, number: u128, took: Duration) -> LaneId {
    let lane = put(board, number, deliveries(1))[0];
    assert!(board.next(lane, 0).is_some());
    assert!(board.record_attempt(lane, true, took).is_empty());
    assert!(board.next(lane, 10).is_none());
    lane
}

/// Tasks that wait for an answer from where an endpoint led before an edit.
fn strays(board: &Board) -> usize {
    let lanes = board.lanes();
    lanes.busy - lanes.by_endpoint.values().map(|lane| lane.senders).sum::<usize>()
}

#[test]
fn a_receiver_earns_its_places_and_loses_them() {
    let board = Board::default();
    let one = [demands(1, 0)];
    assert_eq!(rooms(&board, &one), [NEW]);
    let lanes = put(&board, 1, deliveries(NEW));
    assert_eq!(lanes.len(), NEW);
    let lane = lanes[0];
    assert!(board.next(lane, 0).is_some() && board.next(lane, 0).is_some());
    assert_eq!(rooms(&board, &one), [0]);
    assert!(board.record_attempt(lane, true, QUICK).is_empty());
    assert_eq!(rooms(&board, &one), [2 * WELL + 1 - NEW], "one success earns little");
    for _ in 0..MAX_DEPTH {
        assert!(board.record_attempt(lane, true, QUICK / 10).is_empty());
    }
    assert_eq!(rooms(&board, &one), [MAX_CLAIM], "much, but in steps");
    assert_eq!(put(&board, 1, deliveries(MAX_CLAIM)).len(), MOST - NEW);
    let mut held = MAX_CLAIM;
    while let Some(room) = rooms(&board, &one).pop().filter(|room| *room > 0) {
        put(&board, 1, deliveries(room));
        held += room;
    }
    assert!((MAX_DEPTH - MAX_CLAIM..=MAX_DEPTH).contains(&held), "{held}");
    // One failure among many successes is nothing; two in a row give back what was claimed ahead.
    assert!(board.record_attempt(lane, false, Duration::from_secs(10)).is_empty());
    assert_eq!(board.record_attempt(lane, false, Duration::from_secs(10)).len(), held);
    for _ in 0..MOST {
        assert!(board.next(lane, 0).is_none());
    }
    assert_eq!(rooms(&board, &one), [SICK]);
    // Well again, it does not get at once what it had.
    board.record_attempt(lane, true, QUICK);
    assert!(rooms(&board, &one)[0] <= MAX_DEPTH / 4 + 1);
}

#[test]
fn what_is_recalled_is_not_sent() {
    let board = Board::default();
    let lanes = put(&board, 1, deliveries(5));
    assert!(board.next(lanes[0], 0).is_some());
    board.recall(id(1), FIRST);
    board.recall(id(2), FIRST);
    assert_eq!(board.take_recalled().len(), 4);
    assert!(board.take_recalled().is_empty());
    assert!(lanes.iter().all(|lane| board.next(*lane, 0).is_none()));
}

#[test]
fn an_edited_endpoint_does_not_wait_for_its_old_address() {
    let board = Board::default();
    let lane = proven(&board, 1, QUICK);
    let old = put(&board, 1, deliveries(WELL));
    assert_eq!(old.len(), WELL);
    assert!(old.iter().all(|lane| board.next(*lane, 0).is_some()));
    assert_eq!(strays(&board), 0);
    let later = FIRST + Duration::from_secs(1);
    board.recall(id(1), later);
    assert_eq!(strays(&board), WELL, "they still take places");
    let edited = [EndpointDemand { version: later, ..demands(1, 0) }];
    assert_eq!(rooms(&board, &edited), [NEW]);
    // Claimed before the edit, put after it.
    assert!(put(&board, 1, deliveries(3)).is_empty());
    assert_eq!(board.take_recalled().len(), 3);
    let new = board.put(id(1), later, deliveries(NEW));
    assert_eq!(new.len(), NEW);
    // What the old address answers tells nothing about the new one, and its tasks end.
    assert!(board.record_attempt(lane, true, QUICK).is_empty());
    assert!(old.iter().all(|lane| board.next(*lane, 0).is_none()));
    assert_eq!(strays(&board), 0);
    assert!(board.next(new[0], 0).is_some());
    // An edit through another process is noticed by what is claimed next.
    let last = FIRST + Duration::from_secs(2);
    assert_eq!(rooms(&board, &[EndpointDemand { version: last, ..demands(1, 0) }]), [NEW]);
    assert_eq!((board.take_recalled().len(), strays(&board)), (NEW - 1, NEW));
}

#[test]
fn a_task_that_is_lost_leaves_its_place() {
    let board = Board::default();
    let lanes = put(&board, 1, deliveries(5));
    assert!(board.next(lanes[0], 0).is_some() && board.next(lanes[1], 0).is_some());
    assert!(board.abandon(lanes[0], 10).is_empty(), "the other one goes on");
    assert_eq!(board.abandon(lanes[1], 10).len(), 3);
    assert_eq!(rooms(&board, &[demands(1, 0)]), [NEW]);
    assert_eq!(Load::of(&board.lanes()).bytes, 0);
}

#[test]
fn what_was_claimed_is_sent_although_everybody_has_left_meanwhile() {
    let board = Board::default();
    proven(&board, 1, QUICK);
    let lanes = put(&board, 1, deliveries(WELL));
    assert_eq!(lanes.len(), WELL);
    assert!(lanes.iter().all(|lane| board.next(*lane, 0).is_some()));
    assert!(rooms(&board, &[demands(1, 0)])[0] > 0, "more is claimed while all of them send");
    assert!(lanes.iter().all(|lane| board.next(*lane, 10).is_none()), "and then they find nothing more");
    assert_eq!(put(&board, 1, deliveries(3)).len(), 3);
}

#[test]
fn a_slow_receiver_is_not_claimed_ahead_for() {
    let board = Board::default();
    proven(&board, 1, Duration::from_secs(3));
    assert_eq!(rooms(&board, &[demands(1, 0)]), [WELL]);
}

#[test]
fn a_lane_far_from_full_is_hungry_after_a_full_claim_alone() {
    let board = Board::default();
    let lane = proven(&board, 1, QUICK);
    for _ in 0..MAX_DEPTH {
        board.record_attempt(lane, true, QUICK);
    }
    assert!(!board.is_hungry(id(1), MAX_CLAIM - 1), "there was no more");
    for _ in 0..MAX_DEPTH / MAX_CLAIM - 1 {
        assert!(board.is_hungry(id(1), MAX_CLAIM));
        put(&board, 1, deliveries(MAX_CLAIM));
    }
    assert!(!board.is_hungry(id(1), MAX_CLAIM), "its tasks count, so the last claim is not a full one");
    assert!(!board.is_hungry(id(2), MAX_CLAIM), "nobody");
}

#[test]
fn what_is_held_is_bounded_in_bytes_and_some_of_them_are_left_for_the_well() {
    const LARGE: usize = UNWELL_BYTES / 8;
    let board = Board::default();
    let new: Vec<EndpointDemand> = (0..8).map(|number| demands(number, 0)).collect();
    for one in &new {
        let room = board.rooms(std::slice::from_ref(one))[0];
        assert!(room.deliveries > 0 && room.bytes > 0);
        board.put(one.endpoint, FIRST, deliveries_of(1, LARGE));
    }
    assert_eq!(rooms(&board, &[demands(8, 0)]), [0], "others that are new wait");
    let well = proven(&board, 9, QUICK);
    let room = board.rooms(&[demands(9, 0)])[0];
    assert_eq!((room.deliveries > 0, room.bytes), (true, MAX_HELD_BYTES - UNWELL_BYTES));
    let lanes = put(&board, 9, deliveries_of(8, LARGE));
    assert_eq!(rooms(&board, &[demands(9, 0)]), [0], "nothing is left");
    // What was sent makes room.
    assert!(board.next(lanes[0], 0).is_some());
    assert!(board.next(well, LARGE).is_some());
    assert_eq!(Load::of(&board.lanes()).bytes, MAX_HELD_BYTES - LARGE);
}

/// Gives endpoints what there is room for, and says how many places they took.
fn fill(board: &Board, endpoints: &[EndpointDemand]) -> usize {
    let rooms = rooms(board, endpoints);
    assert!(rooms.iter().sum::<usize>() <= MAX_HELD);
    let given = endpoints.iter().zip(rooms).filter(|(_, room)| *room > 0);
    given.map(|(one, room)| board.put(one.endpoint, FIRST, deliveries(room)).len()).sum()
}

#[test]
fn receivers_that_are_not_well_leave_places_to_others() {
    let board = Board::default();
    let sick: Vec<EndpointDemand> = (0..400).map(|number| demands(number, 9)).collect();
    assert_eq!(fill(&board, &sick), SICK_SLOTS);
    let new: Vec<EndpointDemand> = (400..800).map(|number| demands(number, 0)).collect();
    assert_eq!(fill(&board, &new), NEW_SLOTS);
    let slow: Vec<EndpointDemand> = (2_000..2_100).map(|number| demands(number, 0)).collect();
    for number in 2_000..2_100 {
        proven(&board, number, Duration::from_secs(5));
    }
    assert_eq!(fill(&board, &slow), SLOW_SLOTS);
    proven(&board, 1_000, Duration::from_millis(5));
    let asked = [demands(1_001, 0), demands(1_002, 5), slow[99], demands(1_000, 0)];
    let rooms = rooms(&board, &asked);
    assert!(rooms[..3] == [0, 0, 0] && rooms[3] > WELL, "{rooms:?}");
    assert_eq!(put(&board, 1_000, deliveries(rooms[3])).len(), WELL);
}

#[test]
fn places_are_shared_and_hardly_ever_exceeded() {
    let board = Board::default();
    let endpoints: Vec<EndpointDemand> = (0..100).map(|number| demands(number, 0)).collect();
    for number in 0..100 {
        proven(&board, number, QUICK);
    }
    assert!(rooms(&board, &endpoints).iter().all(|room| *room > 0), "everybody gets a turn");
    let busy = fill(&board, &endpoints);
    assert!((SLOTS..SLOTS + endpoints.len()).contains(&busy), "{busy}");
}

#[test]
fn quick_receivers_share_what_they_get_beyond_the_usual() {
    let board = Board::default();
    let mut busy = 0;
    for number in 0..20 {
        let lane = proven(&board, number, QUICK);
        for _ in 0..MAX_DEPTH {
            board.record_attempt(lane, true, QUICK);
        }
        busy += put(&board, number, deliveries(2 * MOST)).len();
    }
    assert_eq!(busy, 20 * WELL + EXTRA_SLOTS);
    proven(&board, 20, QUICK);
    assert_eq!(put(&board, 20, deliveries(WELL)).len(), WELL, "another one finds its usual places");
    // Once all places are taken, those beyond the usual are given back.
    let others: Vec<EndpointDemand> = (100..400).map(|number| demands(number, 0)).collect();
    fill(&board, &others);
    assert!(board.lanes().busy >= SLOTS);
    let lane = board.lanes().by_endpoint[&id(0)].id;
    assert!(board.lanes().by_endpoint[&id(0)].senders > WELL);
    assert!(board.next(lane, 0).is_none());
}
