//! Analyses that nobody waits for: when they run, in which order, and what becomes of those that fail.

use std::time::Duration;

use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use service::Random;
use store::analysis::jobs;
use store::analysis::jobs::Priority;
use store::{Conn, Lease, Store};
use testkit::{Backend, Stage as _, TestDatabase};

use crate::app::App;
use crate::process::Running;
use crate::scripted_analyzer::{
    OneWorker, Scripted, ScriptedAnalyzer, Turn, get, ingest_and_wait, number, risk, send_event, until,
    with_analyzer,
};
use crate::webhooks::processes::Client;

testkit::on_both!(
    a_burst_is_one_request_and_never_waits_for_ever,
    an_object_is_analyzed_once_at_a_time_and_again_when_more_came,
    older_answers_never_overwrite_newer_ones,
    a_failing_analysis_is_tried_five_times_and_ever_more_rarely,
    events_do_not_cut_the_wait_after_a_failure_short,
    throttling_uses_up_no_try_and_is_waited_out,
    an_analyzer_that_is_down_uses_up_no_try,
    answers_that_came_are_kept_and_the_rest_stays_pending,
    an_analyzer_that_answers_nothing_has_failed,
    tenants_are_served_in_turn,
    a_tenant_whose_turn_has_not_come_holds_up_nobody,
    an_empty_balance_pauses_analyses_until_there_is_money,
    an_analysis_whose_object_is_deleted_meanwhile_is_paid,
    an_abandoned_lease_expires,
    a_job_that_ends_its_processes_is_given_up_and_others_are_not,
);

const SECOND: Duration = Duration::from_secs(1);
/// How long an object must be quiet.
const QUIET: Duration = Duration::from_secs(3);
/// How long a worker holds a job: the analyzer's deadline and five seconds.
const LEASE: Duration = Duration::from_secs(35);

async fn a_burst_is_one_request_and_never_waits_for_ever(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for name in ["first", "second"] {
        send_event(stage, &key, "user_1", name).await;
        stage.advance(2 * SECOND);
        stage.workers_have_polled().await;
        stage.analyzer.asked(0).await;
    }
    stage.advance(SECOND);
    stage.analyzer.asked(1).await;
    stage.settle().await;
    let history = stage.analyzer.seen().remove(0);
    assert!(history.contains("first") && history.contains("second"), "{history}");

    // An event every two seconds never leaves three quiet ones.
    for number in 0..15 {
        stage.workers_have_polled().await;
        stage.analyzer.asked(1).await;
        send_event(stage, &key, "busy", &format!("click_{number}")).await;
        stage.advance(2 * SECOND);
    }
    stage.analyzer.asked(2).await;
    stage.settle().await;
    let history = stage.analyzer.seen().remove(1);
    assert!(history.contains("click_0") && history.contains("click_14"), "{history}");
    assert_eq!(stage.charges().await, 2);
}

async fn an_object_is_analyzed_once_at_a_time_and_again_when_more_came(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let gate = stage.analyzer.hold(0.1);
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    for name in ["late", "later"] {
        send_event(stage, &key, "user_1", name).await;
        let asked = key.call(stage, Method::POST, "/v1/objects/user_1/analyze", &Value::Null).await;
        assert_eq!(asked.status, 202, "{}", asked.text);
        stage.advance(15 * SECOND);
        stage.workers_have_polled().await;
        stage.analyzer.asked(1).await;
    }
    gate.open();
    stage.analyzer.asked(2).await;
    stage.settle().await;
    let histories = stage.analyzer.seen();
    assert!(!histories[0].contains("late") && histories[1].contains("later"), "{histories:?}");
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.5));
    assert_eq!(stage.charges().await, 2);
}

async fn older_answers_never_overwrite_newer_ones(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let gate = stage.analyzer.hold(0.1);
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    stage.analyzer.always(Turn::Answer(0.9));
    let verdict = ingest_and_wait(stage, &key, "user_1", "late").await;
    assert_eq!(verdict.status, 200, "a running analysis does not hold up a verdict: {}", verdict.text);
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.9));
    gate.open();
    stage.settle().await;
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.9));
    let overview = get(stage, &key, "/v1/overview").await.json();
    assert_eq!(overview["flagged"], 1, "nor do the counts go back");
    assert_eq!(stage.charges().await, 2, "both were asked, and both are paid");
    stage.analyzer.asked(2).await;
}

async fn a_failing_analysis_is_tried_five_times_and_ever_more_rarely(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.always(Turn::Refuse(500, None));
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    for (tries, wait_s) in (1..).zip([5, 10, 20, 40]) {
        stage.at_rest().await;
        stage.advance(Duration::from_secs(wait_s) - SECOND);
        stage.workers_have_polled().await;
        stage.analyzer.asked(tries).await;
        stage.advance(SECOND);
        stage.analyzer.asked(tries + 1).await;
    }
    stage.settle().await;
    stage.advance(Duration::from_hours(1));
    stage.workers_have_polled().await;
    stage.analyzer.asked(5).await;
    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    assert_eq!((&object["event_count"], &object["analysis"]), (&json!(1), &json!([])));
    assert_eq!(stage.charges().await, 0);

    stage.analyzer.always(Turn::Answer(0.5));
    send_event(stage, &key, "user_1", "late").await;
    stage.advance(QUIET);
    stage.analyzer.asked(6).await;
    stage.settle().await;
    let history = stage.analyzer.seen().remove(5);
    assert!(history.contains("early") && history.contains("late"), "its events stayed: {history}");
    assert_eq!(stage.charges().await, 1);
}

async fn events_do_not_cut_the_wait_after_a_failure_short(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.then(Turn::Refuse(500, None));
    stage.analyzer.then(Turn::Refuse(500, None));
    let gate = stage.analyzer.hold(0.5);
    gate.open();
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    stage.at_rest().await;
    stage.advance(5 * SECOND);
    stage.analyzer.asked(2).await;
    stage.at_rest().await;
    for name in ["one", "two", "three"] {
        send_event(stage, &key, "user_1", name).await;
        stage.advance(QUIET);
        stage.workers_have_polled().await;
        stage.analyzer.asked(2).await;
    }
    stage.advance(SECOND);
    stage.analyzer.asked(3).await;
    stage.settle().await;
    assert_eq!(stage.charges().await, 1, "they are in it");
}

async fn throttling_uses_up_no_try_and_is_waited_out(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.always(Turn::Refuse(429, Some("7")));
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    for tries in 1..20 {
        stage.at_rest().await;
        // Not even events hurry it.
        send_event(stage, &key, "user_1", "more").await;
        stage.advance(6 * SECOND);
        stage.workers_have_polled().await;
        stage.analyzer.asked(tries).await;
        stage.advance(SECOND);
        stage.analyzer.asked(tries + 1).await;
    }
    stage.at_rest().await;
    stage.analyzer.always(Turn::Refuse(503, Some("60")));
    stage.advance(7 * SECOND);
    stage.analyzer.asked(21).await;
    stage.at_rest().await;
    stage.analyzer.always(Turn::Answer(0.5));
    stage.advance(59 * SECOND);
    stage.workers_have_polled().await;
    stage.analyzer.asked(21).await;
    stage.advance(SECOND);
    stage.analyzer.asked(22).await;
    stage.settle().await;
    assert_eq!(stage.charges().await, 1);
}

async fn an_analyzer_that_is_down_uses_up_no_try(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.stop().await;
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    for _ in 0..20 {
        stage.at_rest().await;
        assert_eq!(stage.number("SELECT count(*) FROM jobs").await, 1);
        stage.advance(5 * SECOND);
    }
    stage.at_rest().await;
    stage.analyzer.resume().await;
    stage.advance(5 * SECOND);
    stage.analyzer.asked(1).await;
    stage.settle().await;
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.5));
}

async fn answers_that_came_are_kept_and_the_rest_stays_pending(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.then(Turn::Only("noul"));
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.settle().await;
    let object = get(stage, &key, "/v1/objects/user_1").await.json();
    assert_eq!(object["pending"], json!(["buyer_intent", "trust_score"]));
    assert_eq!(object["analysis"][0]["key"], "is_scammer");
    stage.analyzer.asked(1).await;
    assert_eq!(stage.charges().await, 1);
    let counted = stage.number("SELECT count(*) FROM usage_signal_days").await;
    assert_eq!(counted, 1, "what was not answered was not used");
}

async fn an_analyzer_that_answers_nothing_has_failed(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET - SECOND);
    let useless = [
        "no JSON",
        "[]",
        r#"{"answers": {}}"#,
        r#"{"answers": {"0": {"noul": 7}, "1": {"probabilities": {}}, "2": {"noul": "yes"}}}"#,
    ];
    for (tries, (said, wait_s)) in (1..).zip(useless.into_iter().zip([1, 5, 10, 20])) {
        stage.analyzer.then(Turn::Say(said));
        stage.advance(Duration::from_secs(wait_s));
        stage.analyzer.asked(tries).await;
        stage.at_rest().await;
        assert_eq!(stage.number("SELECT count(*) FROM jobs").await, 1, "{said} is tried again");
    }
    stage.advance(40 * SECOND);
    stage.settle().await;
    assert_eq!(stage.charges().await, 1);
    assert_eq!(get(stage, &key, "/v1/objects/user_1").await.json()["pending"], json!([]));
}

async fn tenants_are_served_in_turn(stage: &Scripted<OneWorker>) {
    let (busy, small) = (stage.account("ann@example.com").await, stage.account("bob@example.com").await);
    let gate = stage.analyzer.hold(0.5);
    let objects: Vec<String> = (0..60).map(|number| format!("user_{number}")).collect();
    let sent = objects.iter().map(|object| send_event(stage, &busy, object, "of_the_busy_one"));
    futures_util::future::join_all(sent).await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    send_event(stage, &small, "user_1", "of_the_small_one").await;
    stage.advance(QUIET);
    gate.open();
    stage.settle().await;
    let histories = stage.analyzer.seen();
    let place = histories.iter().position(|history| history.contains("of_the_small_one")).unwrap();
    assert!(place <= 2, "it came as number {place} of {}", histories.len());
    assert_eq!(histories.len(), 61);
}

async fn a_tenant_whose_turn_has_not_come_holds_up_nobody(stage: &Scripted<OneWorker>) {
    let accounts = [stage.account("ann@example.com").await, stage.account("bob@example.com").await];
    for (times, (first, second)) in (0..).zip([(0, 1), (1, 0), (0, 1), (1, 0)]) {
        send_event(stage, &accounts[first], "user_1", &format!("due_{times}")).await;
        stage.advance(2 * SECOND);
        send_event(stage, &accounts[second], "user_1", "not_due").await;
        stage.advance(SECOND);
        stage.analyzer.asked(2 * times + 1).await;
        let histories = stage.analyzer.seen();
        assert!(histories.last().unwrap().contains(&format!("due_{times}")), "{histories:?}");
        stage.advance(2 * SECOND);
        stage.settle().await;
        stage.analyzer.asked(2 * times + 2).await;
    }
}

async fn an_empty_balance_pauses_analyses_until_there_is_money(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for object in ["user_1", "user_2", "user_3"] {
        send_event(stage, &key, object, "early").await;
    }
    stage.empty_balances().await;
    stage.advance(QUIET);
    until("all of them are set aside", async || {
        stage.number("SELECT count(*) FROM jobs WHERE unpaid").await == 3
    })
    .await;
    for _ in 0..5 {
        stage.at_rest().await;
        stage.advance(Duration::from_mins(5));
        stage.workers_have_polled().await;
        assert_eq!(stage.number("SELECT count(*) FROM jobs WHERE unpaid").await, 3, "still without money");
    }
    stage.analyzer.asked(0).await;
    assert_eq!(stage.charges().await, 0);
    let touched =
        "SELECT count(*) FROM jobs WHERE claimed_version = 0 OR attempts <> 0 OR lease_token IS NOT NULL";
    let before = stage.number(touched).await;
    stage.workers_have_polled().await;
    assert_eq!(stage.number(touched).await, before, "nobody tries them in a loop");
    // No clock moves: the credit wakes them.
    stage.credit_everybody(1_000).await;
    stage.analyzer.asked(3).await;
    stage.settle().await;
    assert_eq!(stage.charges().await, 3);
}

async fn an_analysis_whose_object_is_deleted_meanwhile_is_paid(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let gate = stage.analyzer.hold(0.9);
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    let deleted = key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    gate.open();
    until("the analysis is paid", async || stage.charges().await == 1).await;
    get(stage, &key, "/v1/objects/user_1").await.refused(404, "not_found");
    let overview = get(stage, &key, "/v1/overview").await.json();
    assert_eq!((&overview["objects"], &overview["flagged"]), (&json!(0), &json!(0)));
}

/// Takes all jobs as a process would that then dies.
async fn claim_all_and_die(store: &Store, now: Timestamp, until: Timestamp) {
    let taken = store.write("claim", async |conn: &mut Conn| {
        let tenant = store::accounts::tenants::all(conn).await?.remove(0).tenant_id;
        let lease = Lease { token: Random::seeded(9).id(now), until };
        jobs::claim(conn, tenant, Priority::Live, now + QUIET, lease, 10).await
    });
    assert_eq!(taken.await.unwrap().len(), 1);
}

async fn an_abandoned_lease_expires(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "early").await;
    claim_all_and_die(&stage.store, stage.now(), stage.now() + LEASE).await;
    stage.advance(LEASE - SECOND);
    stage.workers_have_polled().await;
    stage.analyzer.asked(0).await;
    stage.advance(SECOND);
    stage.analyzer.asked(1).await;
    stage.settle().await;
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.5));
}

async fn a_job_that_ends_its_processes_is_given_up_and_others_are_not(stage: &Scripted) {
    const DEATHS: usize = 5;
    let key = stage.account("ann@example.com").await;
    for object in ["user_1", "user_2", "user_3"] {
        send_event(stage, &key, object, "early").await;
    }
    let mut at = stage.now() + QUIET;
    let token = Random::seeded(9).id(at);
    let mut taken = Vec::new();
    for _ in 0..DEATHS {
        taken = stage
            .store
            .write("claim", async |conn: &mut Conn| {
                let tenant = store::accounts::tenants::all(conn).await?.remove(0).tenant_id;
                jobs::claim(conn, tenant, Priority::Live, at, Lease { token, until: at + LEASE }, 10).await
            })
            .await
            .unwrap();
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().all(|job| job.attempts == 1), "no attempt has ended: {taken:?}");
        at = at + LEASE;
    }
    // Two of them are lucky: the last process that had claimed them was stopped in good order.
    taken.retain(|job| job.object_id != "user_1");
    stage
        .store
        .write("put_off", async |conn: &mut Conn| jobs::put_off(conn, &taken, token, at).await)
        .await
        .unwrap();
    let gate = stage.analyzer.hold(0.5);
    stage.advance(at.since(stage.now()));
    stage.analyzer.asked(1).await;
    stage.workers_have_polled().await;
    stage.analyzer.asked(1).await;
    gate.open();
    stage.at_rest().await;
    stage.advance(SECOND);
    stage.analyzer.asked(2).await;
    stage.settle().await;
    for (object, answer) in [("user_1", None), ("user_2", Some(0.5)), ("user_3", Some(0.5))] {
        assert_eq!(risk(stage, &key, object).await, answer, "{object}");
    }
    // The next event is a new beginning.
    send_event(stage, &key, "user_1", "late").await;
    stage.advance(QUIET);
    stage.analyzer.asked(3).await;
    stage.settle().await;
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.5));
}

/// The real binary, killed in the middle of one analysis again and again.
async fn an_analysis_that_ends_its_process_is_given_up(database: &TestDatabase) {
    let analyzer = ScriptedAnalyzer::start().await;
    analyzer.always(Turn::Silence);
    let (directory, url, at) = (tempfile::tempdir().unwrap(), database.url(), analyzer.url());
    let settings = [
        &with_analyzer(&at)[..],
        &[
            ("AUSPEX_DEBOUNCE_MS", "1"),
            ("AUSPEX_DATABASE_URL", url),
            ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ],
    ]
    .concat();
    let mut service = Running::start(&directory, &settings);
    let client = Client::register(&service).await;
    let events = json!({"events": [{"type": "event", "name": "deadly"}]});
    client.post(&service, "/v1/objects/user_1/events", &events).await;
    for kills in 1..=5 {
        until("the analyzer is asked", async || analyzer.count() == kills).await;
        service.signal("-KILL");
        drop(service);
        expire_leases(url).await;
        service = Running::start(&directory, &settings);
    }
    let given_up = "auspex_analyses_total{source=\"async\",outcome=\"abandoned\"} 1";
    until("it is given up", async || client.text(&service, "/metrics").await.contains(given_up)).await;
    analyzer.asked(5).await;
    assert!(service.stop().0);
    let store = Store::open(url).await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM jobs").await, 0);
    assert_eq!(number(&store, "SELECT count(*) FROM events").await, 1, "its event stays");
    store.close().await;
}

testkit::on_both!(an_analysis_that_ends_its_process_is_given_up);

/// Expires the leases of a process that is dead. On SQLite the next process does so by itself.
async fn expire_leases(url: &str) {
    let store = Store::open(url).await.unwrap();
    if store.backend() == Backend::Postgres {
        let text = "UPDATE jobs SET lease_until = run_at WHERE lease_token IS NOT NULL";
        crate::books::execute(&store, text).await;
    }
    store.close().await;
}

/// The ledger's charges, through a way into the database that is opened for this.
async fn charges(app: &App) -> i64 {
    let store = Store::open(app.database_url()).await.unwrap();
    let charges = number(&store, "SELECT count(*) FROM ledger_entries WHERE kind = 'charge'").await;
    store.close().await;
    charges
}

#[test]
fn a_worker_that_is_stuck_is_replaced_by_another_node_and_refused_when_it_is_late() {
    testkit::in_runtime(async {
        let analyzer = ScriptedAnalyzer::start().await;
        let url = analyzer.url();
        // With one place each, the first node has none to take its own job again.
        let settings =
            |role| [&with_analyzer(&url)[..], &[("AUSPEX_WORKERS", "1"), ("AUSPEX_ROLE", role)]].concat();
        let app = App::start(Backend::Postgres, &settings("all")).await;
        let token = app.register("ann@example.com").await;
        let key = app.api_key(&token).await;
        let gate = analyzer.hold(0.1);
        send_event(&app, &key, "user_1", "early").await;
        app.advance(QUIET);
        analyzer.asked(1).await;

        let second = app.second_node(&settings("worker")).await;
        analyzer.always(Turn::Answer(0.9));
        app.advance(LEASE - SECOND);
        second.workers_have_polled().await;
        analyzer.asked(1).await;
        app.advance(SECOND);
        analyzer.asked(2).await;
        app.settle().await;
        assert_eq!(charges(&app).await, 1);
        second.stop().await;

        // The first node has one place: when it does something else, it is through with what it was late with.
        gate.open();
        send_event(&app, &key, "user_2", "other").await;
        app.advance(QUIET);
        analyzer.asked(3).await;
        app.settle().await;
        assert_eq!(risk(&app, &key, "user_1").await, Some(0.9));
        assert_eq!(charges(&app).await, 2, "the late answer is not paid");
        app.tear_down().await;
    });
}

#[test]
fn a_stop_in_the_middle_of_an_analysis_ends_and_the_job_is_done_after_the_start() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        testkit::in_runtime(async {
            let analyzer = ScriptedAnalyzer::start().await;
            let url = analyzer.url();
            let settings = [&with_analyzer(&url)[..], &[("AUSPEX_ANALYZER_TIMEOUT_MS", "300")]].concat();
            let mut app = App::start(backend, &settings).await;
            let token = app.register("ann@example.com").await;
            let key = app.api_key(&token).await;
            analyzer.then(Turn::Silence);
            send_event(&app, &key, "user_1", "early").await;
            app.advance(QUIET);
            analyzer.asked(1).await;
            app.restart(&settings).await;
            app.advance(5 * SECOND);
            analyzer.asked(2).await;
            app.settle().await;
            assert_eq!(risk(&app, &key, "user_1").await, Some(0.5));
            app.tear_down().await;
        });
    }
}

#[test]
fn a_new_process_on_a_sqlite_file_takes_over_at_once() {
    testkit::in_runtime(async {
        let analyzer = ScriptedAnalyzer::start().await;
        let url = analyzer.url();
        let mut app = App::start(Backend::Sqlite, &with_analyzer(&url)).await;
        let token = app.register("ann@example.com").await;
        let key = app.api_key(&token).await;
        send_event(&app, &key, "user_1", "early").await;
        let store = Store::open(app.database_url()).await.unwrap();
        claim_all_and_die(&store, app.now(), app.now() + Duration::from_hours(1)).await;
        store.close().await;
        app.advance(Duration::from_mins(1));
        app.restart(&with_analyzer(&url)).await;
        analyzer.asked(1).await;
        app.settle().await;
        assert_eq!(charges(&app).await, 1);
        app.tear_down().await;
    });
}
