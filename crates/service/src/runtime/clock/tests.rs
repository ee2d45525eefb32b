use super::*;

const HOUR: Duration = Duration::from_hours(1);
const HEARTBEAT: Duration = Duration::from_secs(5);
const START: Timestamp = Timestamp::from_seconds(1_000_000);

/// Lets time pass with a heartbeat every five seconds.
fn pass(clock: &Clock, hands: &ClockHands, time: Duration) {
    let mut left = time;
    while left > Duration::ZERO {
        let step = left.min(HEARTBEAT);
        hands.advance(step);
        clock.compare_with_host();
        left -= step;
    }
}

/// A clock whose time has been confirmed.
fn confirmed() -> (Clock, ClockHands) {
    let (clock, hands) = Clock::manual(START);
    pass(&clock, &hands, CONFIRMED_AFTER);
    (clock, hands)
}

#[tokio::test]
async fn a_sleep_ends_when_the_clock_reaches_its_time() {
    let (clock, hands) = Clock::manual(Timestamp::from_seconds(1_000));
    let (almost, rest) = (Duration::from_secs(86_399), Duration::from_secs(1));
    let day = almost + rest;
    let sleeper = clock.sleep(day);
    tokio::pin!(sleeper);
    hands.advance(almost);
    assert!(tokio::time::timeout(Duration::ZERO, &mut sleeper).await.is_err());
    hands.advance(rest);
    sleeper.await;
    assert_eq!(clock.now(), Timestamp::from_seconds(87_400));
}

#[tokio::test]
async fn the_system_clock_advances_by_itself() {
    let clock = Clock::system();
    let before = clock.now();
    clock.sleep(Duration::from_millis(2)).await;
    assert!(clock.now().since(before) >= Duration::from_millis(2));
}

#[test]
fn the_time_at_the_start_is_confirmed_by_a_minute_of_agreement() {
    let (clock, hands) = Clock::manual(START);
    assert!(!clock.is_confirmed());
    pass(&clock, &hands, CONFIRMED_AFTER.saturating_sub(HEARTBEAT));
    assert!(!clock.is_confirmed(), "one reading more is missing");
    pass(&clock, &hands, HEARTBEAT);
    assert!(clock.is_confirmed());
    assert_eq!(clock.now(), START + CONFIRMED_AFTER);
}

#[test]
fn a_clock_that_is_ahead_for_a_moment_changes_nothing() {
    let (clock, hands) = confirmed();
    let before = clock.now();
    hands.set_ahead(HOUR * 24 * 40);
    clock.compare_with_host();
    assert_eq!((clock.now(), clock.is_confirmed()), (before, false), "it is not believed, and not ignored");
    pass(&clock, &hands, Duration::from_secs(3));
    hands.set_back(HOUR * 24 * 40);
    clock.compare_with_host();
    assert_eq!((clock.now(), clock.is_confirmed()), (before + Duration::from_secs(3), true));
}

#[tokio::test]
async fn a_clock_that_stands_by_its_jump_is_believed_after_a_minute() {
    let (clock, hands) = confirmed();
    let (before, later) = (clock.now(), clock.now() + HOUR);
    let sleeper = clock.sleep_until(later);
    tokio::pin!(sleeper);
    hands.set_ahead(HOUR);
    clock.compare_with_host();
    pass(&clock, &hands, CONFIRMED_AFTER.saturating_sub(HEARTBEAT));
    assert_eq!(clock.now(), before + CONFIRMED_AFTER - HEARTBEAT);
    assert!(tokio::time::timeout(Duration::ZERO, &mut sleeper).await.is_err());
    pass(&clock, &hands, HEARTBEAT);
    assert_eq!((clock.now(), clock.is_confirmed()), (later + CONFIRMED_AFTER, true));
    sleeper.await;
    // Set right again, it is believed in the same way.
    hands.set_back(HOUR);
    clock.compare_with_host();
    assert!(!clock.is_confirmed());
    pass(&clock, &hands, CONFIRMED_AFTER);
    assert_eq!((clock.now(), clock.is_confirmed()), (before + 2 * CONFIRMED_AFTER, true));
}

#[test]
fn a_clock_that_jumps_about_is_never_believed() {
    let (clock, hands) = confirmed();
    let before = clock.now();
    for _ in 0..30 {
        hands.set_ahead(HOUR);
        clock.compare_with_host();
        pass(&clock, &hands, HEARTBEAT);
        assert!(!clock.is_confirmed());
    }
    assert_eq!(clock.now(), before + HEARTBEAT * 30);
}

#[test]
fn a_wrong_time_at_the_start_is_corrected_soon_and_confirmed_later() {
    let (clock, hands) = Clock::manual(START + HOUR);
    hands.set_back(HOUR);
    clock.compare_with_host();
    pass(&clock, &hands, CORRECTED_AFTER);
    assert_eq!((clock.now(), clock.is_confirmed()), (START + CORRECTED_AFTER, false));
    pass(&clock, &hands, CONFIRMED_AFTER);
    assert!(clock.is_confirmed());
}

#[test]
fn a_small_difference_is_corrected_at_once() {
    let (clock, hands) = confirmed();
    let before = clock.now();
    hands.set_ahead(HOST_LIMIT);
    assert_eq!(clock.compare_with_host(), micros(HOST_LIMIT));
    assert_eq!((clock.now(), clock.is_confirmed()), (before + HOST_LIMIT, true));
}

#[test]
fn the_database_s_clock_is_followed_as_far_as_its_readings_are_exact() {
    let (clock, hands) = confirmed();
    let before = clock.now();
    let read = |took: Duration, ahead: Duration| {
        let asked = clock.moment();
        let shown = clock.now() + took / 2 + ahead;
        hands.advance(took);
        clock.compare_with_database(DatabaseReading { asked, shown, answered: clock.moment() });
    };
    read(Duration::from_millis(100), Duration::from_millis(40));
    assert_eq!(clock.now(), before + Duration::from_millis(100), "nobody knows which half took longer");
    read(Duration::from_millis(100), Duration::from_millis(300));
    assert_eq!(clock.now(), before + Duration::from_millis(500));
    read(Duration::from_secs(2), Duration::from_secs(2));
    assert_eq!(clock.now(), before + Duration::from_millis(2_500), "that took too long to mean anything");
    read(Duration::ZERO, DATABASE_LIMIT + Duration::from_millis(1));
    assert_eq!(clock.now(), before + Duration::from_millis(2_500));
    assert!(!clock.is_confirmed(), "more than two seconds are not believed at once");
}
