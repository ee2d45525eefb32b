//! Caps of a tenant on what the second analyzer answers in a day.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;

use super::*;
use crate::scripted_analyzer::with_analyzer;

testkit::on_both!(
    a_cap_on_answers_holds_until_the_next_day,
    a_cap_on_costs_holds,
    the_least_certain_go_first,
    what_failed_is_given_back,
);

struct TwoADay;
struct SomeMicros;

impl Settings for TwoADay {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ESCALATE_PER_DAY", "2")];
}

impl Settings for SomeMicros {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ESCALATE_MICROS_PER_DAY", "200")];
}

async fn a_cap_on_answers_holds_until_the_next_day(stage: &Staged<TwoADay>) {
    let key = unsure(stage).await;
    for (day, expected) in [(0, [true, true, false]), (1, [true, true, false])] {
        for is_escalated in expected {
            let answer = verdict(stage, &key, "user_1", "is_scammer").await;
            assert_eq!(answer["escalated"], json!(is_escalated), "on day {day}: {answer}");
        }
        assert_eq!(today(stage, &key).await, (2, 2 * PRICE_MICROS));
        // Another account has its own.
        let bob = stage.account(&format!("bob{day}@example.com")).await;
        escalate_band(stage, &bob).await;
        assert_eq!(verdict(stage, &bob, "user_1", "is_scammer").await["escalated"], json!(true));
        stage.advance(Duration::from_hours(24));
        assert_eq!(today(stage, &key).await, (0, 0));
    }
}

async fn a_cap_on_costs_holds(stage: &Staged<SomeMicros>) {
    let key = unsure(stage).await;
    let mut escalated = Vec::new();
    for _ in 0..4 {
        let answer = verdict(stage, &key, "user_1", "is_scammer").await;
        escalated.push(answer["escalated"].as_bool().unwrap());
    }
    // The first two cost more than was estimated; then nothing fits any more.
    assert_eq!(escalated, [true, true, false, false]);
    assert_eq!(today(stage, &key).await, (2, 2 * PRICE_MICROS));
}

async fn the_least_certain_go_first(stage: &Staged<TwoADay>) {
    let key = unsure(stage).await;
    for signal in ["trust_score", "buyer_intent"] {
        assert_eq!(set(stage, &key, signal, &json!({"below": 0.99})).await.status, 200);
    }
    // 0.5 is the least certain of all yes/no answers; half of the first of several candidates is not even.
    let reply = ingest_and_wait(stage, &key, "user_1", "seen").await.json();
    let answers = reply["answers"].as_array().unwrap();
    let escalated: Vec<bool> = answers.iter().map(|answer| answer["escalated"].as_bool().unwrap()).collect();
    assert_eq!(escalated.iter().filter(|escalated| **escalated).count(), 2, "{reply}");
    assert_eq!(answer_to(&reply["answers"], "is_scammer")["escalated"], true);
    assert_eq!(stage.second.kinds()[0][0], "noul", "the least certain first");
}

async fn what_failed_is_given_back(stage: &Staged<TwoADay>) {
    let key = unsure(stage).await;
    for _ in 0..5 {
        stage.second.then(Turn::Refuse(500, None));
        assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await["escalated"], false);
        stage.advance(Duration::from_secs(2));
    }
    assert_eq!(
        stage.number("SELECT CAST(sum(answers) + sum(micros) AS bigint) FROM escalation_days").await,
        0
    );
    assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await["escalated"], true);
}

/// Eight verdicts at once on two nodes, while the second analyzer holds its answers back. Returns how many were escalated, and
/// the micro-dollars that were counted for them meanwhile.
async fn at_once_on_two_nodes(cap: (&str, &str)) -> (usize, i64) {
    let analyzer = ScriptedAnalyzer::start().await;
    let second = ScriptedAnalyzer::start_as("second").await;
    let (url, second_url) = (analyzer.url(), second.url());
    let settings = [&with_analyzer(&url)[..], &with_second(&second_url), &[cap]].concat();
    let app = App::start(Backend::Postgres, &settings).await;
    let node = app.second_node(&settings).await;
    let store = store::Store::open(app.database_url()).await.unwrap();
    let key = app.api_key(&app.register("ann@example.com").await).await;
    escalate_band(&app, &key).await;
    let gates: Vec<_> = (0..8).map(|_| second.hold(0.95)).collect();
    let done = AtomicUsize::new(0);
    let verdicts = (0..8).map(|number| {
        let (at, key, done) = (if number % 2 == 0 { &app } else { &node }, &key, &done);
        async move {
            let reply = ingest_and_wait(at, key, &format!("user_{number}"), "seen").await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            done.fetch_add(1, Ordering::SeqCst);
            answer_to(&reply.json()["answers"], "is_scammer")["escalated"] == json!(true)
        }
    });
    let counting = async {
        until("all are escalated or refused", async || second.waiting() + done.load(Ordering::SeqCst) == 8)
            .await;
        let micros = crate::scripted_analyzer::number(&store, "SELECT micros FROM escalation_days").await;
        gates.iter().for_each(crate::scripted_analyzer::Gate::open);
        micros
    };
    let (escalated, micros) = tokio::join!(join_all(verdicts), counting);
    let escalated = escalated.into_iter().filter(|escalated| *escalated).count();
    assert_eq!(second.count(), escalated);
    assert_eq!(
        today(&app, &key).await,
        (escalated.try_into().unwrap(), PRICE_MICROS * i64::try_from(escalated).unwrap())
    );
    store.close().await;
    node.settle().await;
    node.stop().await;
    app.tear_down().await;
    (escalated, micros)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_on_answers_is_exact_over_all_nodes() {
    let (escalated, _) = at_once_on_two_nodes(("AUSPEX_ESCALATE_PER_DAY", "3")).await;
    assert_eq!(escalated, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_on_costs_is_exact_over_all_nodes() {
    let (escalated, micros) = at_once_on_two_nodes(("AUSPEX_ESCALATE_MICROS_PER_DAY", "120")).await;
    let each = micros / i64::try_from(escalated).unwrap();
    assert!((1..8).contains(&escalated), "{escalated} of {micros}");
    assert!(micros <= 120 && micros + each > 120, "{micros} for {escalated}: as many as fit, and no more");
}
