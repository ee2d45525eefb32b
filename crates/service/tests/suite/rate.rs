//! Rate limits by email, address and tenant, on any number of nodes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use model::{TenantId, Timestamp};
use service::{
    Allowance, Clock, ClockHands, Error, Kind, Limit, Nodes, Random, RateBudget, Result, Throttle, Workers,
};
use store::{Conn, Store};
use testkit::{Backend, Proxy, TestDatabase, on_both, run_on};
use tokio::task::{JoinSet, LocalSet};
use uuid::Uuid;

on_both!(
    the_last_attempt_allowed_starts_the_block,
    attempt_counts_reset_after_their_window,
    an_attempt_that_did_not_fail_is_forgiven,
    success_clears_the_failures_of_one_subject,
    a_single_attempt_may_be_the_last,
    of_a_hundred_concurrent_attempts_five_pass,
    old_attempts_are_swept_in_batches,
    nodes_count_each_other,
    a_node_sends_heartbeats_until_it_stops,
    three_nodes_share_one_budget,
    a_node_with_one_request_wastes_little,
    small_budgets_are_shared_to_the_last_request,
    a_budget_counts_down_to_a_refusal,
    tenants_have_a_budget_each,
    bytes_have_a_budget_of_their_own_over_all_nodes,
    many_at_once_never_exceed_the_budget,
    a_slow_clock_does_not_reset_the_budget,
    a_fast_clock_does_not_starve_other_nodes,
);

/// Ten seconds into a minute.
const START: Timestamp = Timestamp::from_seconds(1_800_000_010);
const MINUTE: Duration = Duration::from_mins(1);
const FIRST: TenantId = TenantId(Uuid::from_u128(1));
const SECOND: TenantId = TenantId(Uuid::from_u128(2));

// Throttle.

const EMAIL: &str = "ada@example.com";

async fn throttle(database: &TestDatabase) -> (Throttle, ClockHands) {
    let (clock, hands) = Clock::manual(START);
    (Throttle::new(database.open().await, clock), hands)
}

/// Attempts until one is refused; returns how many passed, and how long the refused one has to wait.
async fn attempt_all(throttle: &Throttle, limit: &Limit, subject: &str) -> (i64, Duration) {
    let mut passed = 0;
    loop {
        match throttle.attempt(limit, subject).await {
            Ok(()) => passed += 1,
            Err(error) => return (passed, wait(&error)),
        }
    }
}

/// How long a refusal asks to wait.
fn wait(error: &Error) -> Duration {
    assert_eq!(error.kind(), Kind::RateLimited, "{error}");
    error.wait().unwrap()
}

async fn the_last_attempt_allowed_starts_the_block(database: &TestDatabase) {
    let (throttle, hands) = throttle(database).await;
    let limit = &Limit::LOGIN_EMAIL;
    for _ in 0..4 {
        throttle.attempt(limit, EMAIL).await.unwrap();
        hands.advance(MINUTE);
    }
    throttle.attempt(limit, EMAIL).await.unwrap();
    for left_min in (1..=15).rev() {
        let refused = throttle.attempt(limit, EMAIL).await.unwrap_err();
        assert_eq!(wait(&refused), left_min * MINUTE, "the block neither grows nor restarts");
        hands.advance(MINUTE);
    }
    assert_eq!(attempt_all(&throttle, limit, EMAIL).await, (5, 15 * MINUTE));

    assert_eq!(attempt_all(&throttle, limit, "other@example.com").await.0, 5, "another subject");
    assert_eq!(attempt_all(&throttle, &Limit::LOGIN_ADDRESS, EMAIL).await.0, 20, "another scope");
    let after_restart = Throttle::new(database.open().await, Clock::manual(START + 20 * MINUTE).0);
    assert!(after_restart.attempt(limit, EMAIL).await.is_err());
}

async fn attempt_counts_reset_after_their_window(database: &TestDatabase) {
    let (throttle, hands) = throttle(database).await;
    let limit = &Limit::LOGIN_EMAIL;
    for _ in 0..4 {
        throttle.attempt(limit, EMAIL).await.unwrap();
    }
    hands.advance(limit.window);
    assert_eq!(attempt_all(&throttle, limit, EMAIL).await, (5, limit.block));
}

async fn an_attempt_that_did_not_fail_is_forgiven(database: &TestDatabase) {
    let (throttle, _hands) = throttle(database).await;
    let limit = &Limit::LOGIN_EMAIL;
    throttle.forgive(limit, EMAIL).await.unwrap();
    for _ in 0..4 {
        throttle.attempt(limit, EMAIL).await.unwrap();
    }
    for _ in 0..10 {
        throttle.attempt(limit, EMAIL).await.expect("the fifth, and no failure");
        assert!(throttle.attempt(limit, EMAIL).await.is_err(), "blocked while the fifth is checked");
        throttle.forgive(limit, EMAIL).await.unwrap();
    }
    assert_eq!(attempt_all(&throttle, limit, EMAIL).await.0, 1);
    for _ in 0..9 {
        throttle.forgive(limit, EMAIL).await.unwrap();
    }
    assert_eq!(attempt_all(&throttle, limit, EMAIL).await.0, 5, "no attempts are saved up");
}

async fn success_clears_the_failures_of_one_subject(database: &TestDatabase) {
    let (throttle, _hands) = throttle(database).await;
    let limit = &Limit::LOGIN_EMAIL;
    attempt_all(&throttle, limit, EMAIL).await;
    attempt_all(&throttle, limit, "other@example.com").await;
    throttle.clear(limit, EMAIL).await.unwrap();
    assert_eq!(attempt_all(&throttle, limit, EMAIL).await.0, 5);
    assert!(throttle.attempt(limit, "other@example.com").await.is_err());
}

async fn a_single_attempt_may_be_the_last(database: &TestDatabase) {
    let (throttle, hands) = throttle(database).await;
    let once = &Limit { scope: "once", attempts: 1, window: MINUTE, block: 2 * MINUTE };
    assert_eq!(attempt_all(&throttle, once, EMAIL).await, (1, 2 * MINUTE));
    hands.advance(2 * MINUTE);
    assert_eq!(attempt_all(&throttle, once, EMAIL).await, (1, 2 * MINUTE));
}

async fn of_a_hundred_concurrent_attempts_five_pass(database: &TestDatabase) {
    let (here, _hands) = throttle(database).await;
    let (there, _hands) = throttle(database).await;
    let mut racers = JoinSet::new();
    for _ in 0..50 {
        for process in [here.clone(), there.clone()] {
            racers.spawn(async move { process.attempt(&Limit::LOGIN_EMAIL, EMAIL).await });
        }
    }
    let (passed, refused): (Vec<_>, Vec<_>) = racers.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((passed.len(), refused.len()), (5, 95));
    for refusal in refused {
        assert_eq!(wait(&refusal.unwrap_err()), Limit::LOGIN_EMAIL.block);
    }
}

async fn old_attempts_are_swept_in_batches(database: &TestDatabase) {
    let (throttle, hands) = throttle(database).await;
    for subject in ["one", "two", "three"] {
        throttle.attempt(&Limit::FORGOT_EMAIL, subject).await.unwrap();
    }
    hands.advance(MINUTE);
    attempt_all(&throttle, &Limit::FORGOT_EMAIL, EMAIL).await;
    // The longest limit counts for a day and blocks for another.
    hands.advance((48 * 60 - 1) * MINUTE);
    let store = database.open().await;
    let sweep = async || {
        let batch = async |conn: &mut Conn| store::runtime::throttle::sweep(conn, START, 2).await;
        store.write("sweep", batch).await.unwrap()
    };
    assert_eq!([sweep().await, sweep().await, sweep().await], [2, 1, 0]);
    assert_eq!(throttle.sweep().await.unwrap(), 0, "the youngest may still matter");
    hands.advance(MINUTE);
    assert_eq!(throttle.sweep().await.unwrap(), 1);
}

// Nodes.

/// How many nodes have a row, alive or not.
async fn rows(store: &Store) -> i64 {
    let all =
        async |conn: &mut Conn| store::runtime::nodes::seen_after(conn, Timestamp::from_seconds(0)).await;
    store.read::<_, store::Error>("rows", all).await.unwrap()
}

async fn nodes_count_each_other(database: &TestDatabase) {
    let (clock, hands) = Clock::manual(START);
    let store = database.open().await;
    let random = Random::seeded(1);
    let [stays, dies] = [0, 1].map(|_| Nodes::new(store.clone(), clock.clone(), &random));
    assert_eq!(stays.live(), 1, "a node that has not seen another");
    stays.beat().await.unwrap();
    dies.beat().await.unwrap();
    stays.beat().await.unwrap();
    assert_eq!((stays.live(), dies.live()), (2, 2));

    hands.advance(Duration::from_millis(14_999));
    stays.beat().await.unwrap();
    assert_eq!(stays.live(), 2);
    hands.advance(Duration::from_millis(1));
    stays.beat().await.unwrap();
    assert_eq!((stays.live(), rows(&store).await), (1, 2));
    hands.advance(60 * MINUTE);
    stays.beat().await.unwrap();
    assert_eq!((stays.live(), rows(&store).await), (1, 1));
}

async fn a_node_sends_heartbeats_until_it_stops(database: &TestDatabase) {
    let (clock, hands) = Clock::manual(START);
    let store = database.open().await;
    let random = Random::seeded(1);
    let [runs, watches] = [0, 1].map(|_| Nodes::new(store.clone(), clock.clone(), &random));
    let workers = Workers::default();
    workers.start(|stop| runs.clone().run(stop));
    for _ in 0..4 {
        while watches.live() < 2 {
            watches.beat().await.unwrap();
        }
        // Only a new heartbeat of the other makes it two again.
        hands.advance(Duration::from_secs(15));
        watches.beat().await.unwrap();
    }
    workers.drain().await;
    watches.beat().await.unwrap();
    assert_eq!((watches.live(), rows(&store).await), (1, 1));
}

// RateBudget.

async fn bytes_have_a_budget_of_their_own_over_all_nodes(database: &TestDatabase) {
    const LIMIT: i64 = 1_000_000;
    let cluster = Cluster::of(2, database).await;
    let budgets: Vec<RateBudget> = cluster
        .members
        .iter()
        .map(|(store, nodes)| {
            RateBudget::of_bytes(store.clone(), cluster.clock.clone(), nodes.clone(), LIMIT)
        })
        .collect();
    let take = async |bytes: i64| {
        let mut taken = 0;
        // Each node in turn, until none has any left.
        for budget in budgets.iter().cycle().take(100) {
            taken += if budget.take_bytes(FIRST, bytes).await.is_ok() { bytes } else { 0 };
        }
        taken
    };
    let taken = take(70_000).await;
    assert!((LIMIT * 9 / 10 - 140_000..=LIMIT).contains(&taken), "{taken}");
    let refused = budgets[0].take_bytes(FIRST, 70_000).await.unwrap_err();
    assert_eq!(wait(&refused), Duration::from_secs(50), "until the next minute");
    assert_eq!(requests_left(&cluster).await, 19, "requests are counted apart");
    budgets[1].take_bytes(SECOND, 70_000).await.unwrap();
    cluster.hands.advance(Duration::from_secs(50));
    // More than a whole budget takes all of it, instead of never being allowed.
    budgets[0].take_bytes(FIRST, 5 * LIMIT).await.unwrap();
    assert!(budgets[1].take_bytes(FIRST, 1).await.is_err());
}

/// What is left of a budget of 20 requests after one.
async fn requests_left(cluster: &Cluster) -> i64 {
    cluster.budgets(20)[0].take(FIRST).await.unwrap().allowance.remaining
}

/// Nodes on one database that have seen each other's heartbeats.
struct Cluster {
    members: Vec<(Store, Nodes)>,
    clock: Clock,
    hands: ClockHands,
}

impl Cluster {
    async fn of(count: u64, database: &TestDatabase) -> Self {
        let (clock, hands) = Clock::manual(START);
        let mut members = Vec::new();
        for seed in 0..count {
            let store = database.open().await;
            let nodes = Nodes::new(store.clone(), clock.clone(), &Random::seeded(seed));
            nodes.beat().await.unwrap();
            members.push((store, nodes));
        }
        for (_, nodes) in &members {
            nodes.beat().await.unwrap();
            assert_eq!(nodes.live(), members.len());
        }
        Self { members, clock, hands }
    }

    /// The budget of each node.
    fn budgets(&self, limit: u32) -> Vec<RateBudget> {
        let budget = |(store, nodes): &(Store, Nodes)| {
            RateBudget::new(store.clone(), self.clock.clone(), nodes.clone(), limit)
        };
        self.members.iter().map(budget).collect()
    }
}

/// Takes `times` requests, and returns how many were allowed.
async fn take(budget: &RateBudget, tenant: TenantId, times: u32) -> u32 {
    let mut allowed = 0;
    for _ in 0..times {
        allowed += u32::from(budget.take(tenant).await.unwrap().allowed);
    }
    allowed
}

/// Takes requests on three nodes concurrently, and returns how many were allowed in total.
async fn take_on_three(budgets: &[RateBudget], tenant: TenantId, times: [u32; 3]) -> u32 {
    let [one, two, three] = budgets else { panic!("three nodes") };
    let (one, two, three) =
        tokio::join!(take(one, tenant, times[0]), take(two, tenant, times[1]), take(three, tenant, times[2]));
    one + two + three
}

/// Counts leases and refused requests on the current thread.
#[derive(Default)]
struct Meters {
    leases: Arc<AtomicU64>,
    refusals: Arc<AtomicU64>,
}

impl Meters {
    /// Leases and refusals since the last call.
    fn read(&self) -> (u64, u64) {
        (self.leases.swap(0, Ordering::Relaxed), self.refusals.swap(0, Ordering::Relaxed))
    }
}

impl Recorder for Meters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let has = |name, value| key.labels().any(|label| (label.key(), label.value()) == (name, value));
        match key.name() {
            "auspex_rate_limited_total" => {
                assert!(has("scope", "tenant"));
                Counter::from_arc(Arc::clone(&self.refusals))
            }
            "auspex_store_transactions_total" if has("name", "lease_rate_budget") => {
                Counter::from_arc(Arc::clone(&self.leases))
            }
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

async fn three_nodes_share_one_budget(database: &TestDatabase) {
    let cluster = Cluster::of(3, database).await;
    let budgets = cluster.budgets(3_000);
    let meters = Meters::default();
    // The recorder is thread-local, and a test runs on one thread.
    let _listening = metrics::set_default_local_recorder(&meters);
    for window in 0..3 {
        let allowed = take_on_three(&budgets, FIRST, [5_000, 600, 40]).await;
        assert!((2_700..=3_000).contains(&allowed), "{allowed} in window {window}");
        // Now every node finds that nothing is left besides its own block, and uses that up.
        let rest = take_on_three(&budgets, FIRST, [1_000; 3]).await;
        assert_eq!(allowed + rest, 3_000);
        let (leases, refusals) = meters.read();
        assert!((30..=33).contains(&leases), "{leases} round trips in window {window}");
        assert_eq!(refusals, 5_640);

        assert_eq!(take_on_three(&budgets, FIRST, [1_000; 3]).await, 0);
        assert_eq!(meters.read(), (0, 3_000), "a refusal costs no round trip");
        cluster.hands.advance(MINUTE);
    }
}

async fn a_node_with_one_request_wastes_little(database: &TestDatabase) {
    let cluster = Cluster::of(3, database).await;
    let budgets = cluster.budgets(3_000);
    assert_eq!(take(&budgets[1], FIRST, 1).await + take(&budgets[2], FIRST, 1).await, 2);
    assert_eq!(take(&budgets[0], FIRST, 5_000).await, 2_800);
    assert_eq!(take(&budgets[1], FIRST, 5_000).await, 99);
}

async fn small_budgets_are_shared_to_the_last_request(database: &TestDatabase) {
    let cluster = Cluster::of(3, database).await;
    for limit in [0, 1, 2, 7, 29] {
        let tenant = TenantId(Uuid::from_u128(limit.into()));
        let budgets = cluster.budgets(limit);
        for _ in 0..2 {
            assert_eq!(take_on_three(&budgets, tenant, [50, 10, 1]).await, limit);
            cluster.hands.advance(MINUTE);
        }
    }
}

async fn a_budget_counts_down_to_a_refusal(database: &TestDatabase) {
    let cluster = Cluster::of(1, database).await;
    let budget = &cluster.budgets(25)[0];
    for remaining in (0..25).rev() {
        let decision = budget.take(FIRST).await.unwrap();
        assert_eq!(decision.allowance, Allowance { limit: 25, remaining, reset_s: 50 });
        decision.permit().unwrap();
    }
    cluster.hands.advance(Duration::from_millis(49_001));
    let refused = budget.take(FIRST).await.unwrap();
    assert_eq!(refused.allowance, Allowance { limit: 25, remaining: 0, reset_s: 1 });
    assert_eq!(wait(&refused.permit().unwrap_err()), Duration::from_secs(1));
    cluster.hands.advance(Duration::from_millis(999));
    let next = budget.take(FIRST).await.unwrap();
    assert_eq!(next.allowance, Allowance { limit: 25, remaining: 24, reset_s: 60 });
}

async fn tenants_have_a_budget_each(database: &TestDatabase) {
    let cluster = Cluster::of(1, database).await;
    let budget = &cluster.budgets(100)[0];
    let (first, second) = tokio::join!(take(budget, FIRST, 500), take(budget, SECOND, 60));
    assert_eq!((first, second), (100, 60));
    assert_eq!(take(budget, SECOND, 500).await, 40);
}

async fn many_at_once_never_exceed_the_budget(database: &TestDatabase) {
    let cluster = Cluster::of(3, database).await;
    for (limit, nodes) in [(50, 1), (120, 3)] {
        cluster.hands.advance(MINUTE);
        let mut requests = JoinSet::new();
        for budget in &cluster.budgets(limit)[..nodes] {
            for _ in 0..200 {
                let budget = budget.clone();
                requests.spawn(async move { take(&budget, FIRST, 1).await });
            }
        }
        assert_eq!(requests.join_all().await.into_iter().sum::<u32>(), limit);
    }
}

/// A budget of 20 requests on a node whose clock shows `now`.
async fn twenty_at(database: &TestDatabase, now: Timestamp) -> (RateBudget, ClockHands) {
    let (clock, hands) = Clock::manual(now);
    let store = database.open().await;
    let nodes = Nodes::new(store.clone(), clock.clone(), &Random::seeded(1));
    (RateBudget::new(store, clock, nodes, 20), hands)
}

async fn a_slow_clock_does_not_reset_the_budget(database: &TestDatabase) {
    let (right, _hands) = twenty_at(database, START).await;
    let (behind, hands) = twenty_at(database, START - MINUTE / 2).await;
    assert_eq!(take(&right, FIRST, 12).await, 12);
    assert_eq!(take(&behind, FIRST, 4).await, 4, "from the other node's window");
    assert_eq!(take(&right, FIRST, 100).await, 4);
    hands.advance(MINUTE / 2);
    assert_eq!(take(&behind, FIRST, 100).await, 0);
}

async fn a_fast_clock_does_not_starve_other_nodes(database: &TestDatabase) {
    let (ahead, _hands) = twenty_at(database, START + 60 * MINUTE).await;
    let (right, _hands) = twenty_at(database, START).await;
    assert_eq!(take(&ahead, FIRST, 100).await, 20);
    assert_eq!(take(&right, FIRST, 100).await, 20);
}

/// Without this, each of the waiting requests would in turn wait for a database that is down.
#[test]
fn requests_that_wait_for_a_lease_fail_when_it_fails() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let direct: url::Url = database.url().parse().unwrap();
        let target = format!("{}:{}", direct.host_str().unwrap(), direct.port().unwrap()).parse().unwrap();
        let proxy = Proxy::to(target).await;
        let mut through = direct.clone();
        through.set_port(Some(proxy.address().port())).unwrap();
        let (clock, _hands) = Clock::manual(START);
        let store = Store::open(through.as_str()).await.unwrap();
        let nodes = Nodes::new(store.clone(), clock.clone(), &Random::seeded(1));
        let budget = RateBudget::new(store, clock, nodes, 20);
        let meters = Meters::default();
        let _listening = metrics::set_default_local_recorder(&meters);

        // The lease of the first does not fail before all of them wait for it: tasks have their first turns in this order.
        proxy.stall();
        let together = LocalSet::new();
        let requests: Vec<_> = (0..20)
            .map(|_| {
                let budget = budget.clone();
                together.spawn_local(async move { budget.take(FIRST).await })
            })
            .collect();
        let all_wait = async {
            tokio::task::yield_now().await;
            proxy.cut();
        };
        together.run_until(all_wait).await;
        together.await;
        for request in requests {
            assert_eq!(request.await.unwrap().unwrap_err().kind(), Kind::NotReady);
        }
        assert_eq!(meters.read(), (1, 0));
        proxy.mend();
        // Whoever is lent another connection that was cut finds that out.
        let first = loop {
            if let Ok(decision) = budget.take(FIRST).await {
                break decision;
            }
        };
        assert!(first.allowed);
        assert_eq!(take(&budget, FIRST, 100).await, 19);
    });
}
