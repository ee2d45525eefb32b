//! When rules fire: each way that a condition can turn, with and without a cooldown, whatever happens in between.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use store::actions::firings;
use store::actions::firings::MessageCounts;
use store::actions::rules;
use store::{Backend, Conn};
use testkit::Stage as _;

use super::chat::Chat;
use super::{account, change, firings, id, ingest_answered, mailing, make};
use crate::admin::tenant_of;
use crate::app::App;
use crate::scripted_analyzer::{
    Scripted, ScriptedAnalyzer, Turn, event, ingest, ingest_and_wait, send_event, until, with_analyzer,
};
use crate::signer::Signer;

testkit::on_both!(
    a_firing_tells_what_happened,
    without_a_cooldown_it_fires_when_the_condition_turns_true,
    with_a_cooldown_it_fires_once_in_that_time,
    analyses_fire_as_verdicts_do,
    rules_go_by_what_stands,
    an_older_analysis_changes_nothing,
    each_object_stands_for_itself,
    a_rule_whose_signal_is_off_rests_and_remembers,
    a_rule_whose_signal_is_gone_rests,
    a_rule_whose_option_is_gone_rests,
    another_condition_starts_afresh,
    other_edits_keep_where_it_stands,
    a_disabled_rule_rests,
    a_deleted_object_takes_all_along,
    the_playground_fires_nothing,
    rules_of_others_do_not_fire,
    the_overview_says_what_happened_on_each_day,
    firings_go_after_ninety_days,
    states_of_a_condition_that_is_gone_are_swept,
);

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);
const RISKY: &str = "is_scammer > 0.9";

/// Asserts how often rules have fired so far, after verdicts of these probabilities in turn.
async fn fires(stage: &Scripted, key: &Signer, turns: &[(f64, usize)]) {
    for (turn, (probability, expected)) in turns.iter().enumerate() {
        ingest_answered(stage, key, "user_1", *probability).await;
        let count = firings(stage, key, "").await.len();
        assert_eq!(count, *expected, "turn {turn}, at {probability}");
    }
}

async fn put_signal(app: &App, key: &Signer, name: &str, body: &Value) {
    let reply = key.call(app, Method::PUT, &format!("/v1/signals/{name}"), body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

/// Turns a signal of the account off or on, as it is.
async fn switch(app: &App, key: &Signer, name: &str, enabled: bool) {
    let all = key.call(app, Method::GET, "/v1/signals", &Value::Null).await.json();
    let mut signal =
        all["signals"].as_array().unwrap().iter().find(|one| one["key"] == name).unwrap().clone();
    signal["enabled"] = json!(enabled);
    put_signal(app, key, name, &signal).await;
}

async fn a_firing_tells_what_happened(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let when = "is_scammer >= 95% and buyer_intent = browsing";
    let refused = super::post(stage, &key, &mailing(when)).await;
    assert_eq!(refused.status, 400, "a percent sign is none of the language");
    let when = "is_scammer >= 95 and buyer_intent = browsing, trust_score < 1.5";
    let rule = make(stage, &key, &mailing(when)).await;
    stage.advance(SECOND);
    ingest_answered(stage, &key, "user_1", 0.96).await;
    stage.settle().await;
    let fired = firings(stage, &key, "").await;
    let expected = json!({
        "id": fired[0]["id"],
        "rule_id": id(&rule),
        "object_id": "user_1",
        "matched_when": when,
        "signal_values": {"is_scammer": 0.96, "buyer_intent": "browsing", "trust_score": 0.06},
        "action_type": "email",
        "status": "dispatched",
        "detail": "the mail was sent",
        "fired_at": "2026-01-01T00:00:01.000000Z",
    });
    assert_eq!(fired, [expected]);
}

async fn without_a_cooldown_it_fires_when_the_condition_turns_true(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    let turns =
        [(0.1, 0), (0.2, 0), (0.95, 1), (0.99, 1), (0.91, 1), (0.9, 1), (0.1, 1), (0.95, 2), (0.95, 2)];
    fires(stage, &key, &turns).await;
    stage.advance(30 * DAY);
    fires(stage, &key, &[(0.95, 2), (0.5, 2), (0.95, 3)]).await;
}

async fn with_a_cooldown_it_fires_once_in_that_time(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let mut rule = mailing(RISKY);
    rule["cooldown_seconds"] = json!(60);
    make(stage, &key, &rule).await;
    fires(stage, &key, &[(0.1, 0)]).await;
    stage.advance(SECOND);
    fires(stage, &key, &[(0.95, 1), (0.95, 1)]).await;
    stage.advance(MINUTE - Duration::from_micros(1));
    fires(stage, &key, &[(0.95, 1)]).await;
    stage.advance(Duration::from_micros(1));
    fires(stage, &key, &[(0.95, 2), (0.95, 2)]).await;
    // It turned false and true again within the cooldown: that is no reason to fire earlier.
    stage.advance(30 * SECOND);
    fires(stage, &key, &[(0.1, 2), (0.95, 2)]).await;
    stage.advance(30 * SECOND);
    fires(stage, &key, &[(0.1, 2), (0.95, 3)]).await;
    // False for longer than the cooldown.
    fires(stage, &key, &[(0.1, 3)]).await;
    stage.advance(2 * MINUTE);
    fires(stage, &key, &[(0.1, 3), (0.95, 4), (0.95, 4)]).await;
}

async fn analyses_fire_as_verdicts_do(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    for (probability, expected) in [(0.95, 1), (0.97, 1), (0.1, 1), (0.95, 2)] {
        stage.analyzer.then(Turn::Answer(probability));
        send_event(stage, &key, "user_1", "seen").await;
        stage.advance(3 * SECOND);
        stage.settle().await;
        assert_eq!(firings(stage, &key, "").await.len(), expected);
    }
    // One after the other, of either kind.
    fires(stage, &key, &[(0.95, 2), (0.1, 2)]).await;
    stage.analyzer.then(Turn::Answer(0.95));
    send_event(stage, &key, "user_1", "seen").await;
    stage.advance(3 * SECOND);
    stage.settle().await;
    assert_eq!(firings(stage, &key, "").await.len(), 3);
    fires(stage, &key, &[(0.95, 3)]).await;
}

async fn rules_go_by_what_stands(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing("is_scammer > 0.9 and buyer_intent = browsing")).await;
    let ask = async |signal: &str, probability: f64| {
        stage.analyzer.then(Turn::Answer(probability));
        let body = json!({"events": [event("x")], "wait": true, "signals": [signal]});
        assert_eq!(ingest(stage, &key, "user_1", &body).await.status, 200);
        firings(stage, &key, "").await
    };
    assert_eq!(ask("is_scammer", 0.95).await.len(), 0, "no answer to the other signal yet");
    let fired = ask("buyer_intent", 0.8).await;
    assert_eq!(fired[0]["signal_values"], json!({"is_scammer": 0.95, "buyer_intent": "browsing"}));
    assert_eq!(ask("is_scammer", 0.99).await.len(), 1);
    assert_eq!(ask("buyer_intent", 0.1).await.len(), 1, "another option now");
    assert_eq!(ask("buyer_intent", 0.9).await.len(), 2);
    // A rule over signals that this analysis did not ask stands as it did.
    make(stage, &key, &mailing("is_scammer > 0.9")).await;
    assert_eq!(
        ask("buyer_intent", 0.9).await.len(),
        3,
        "true from the start: it turns true with the first look"
    );
    assert_eq!(ask("buyer_intent", 0.9).await.len(), 3);
}

async fn an_older_analysis_changes_nothing(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    let gate = stage.analyzer.hold(0.1);
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(3 * SECOND);
    stage.analyzer.asked(1).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    assert_eq!(firings(stage, &key, "").await.len(), 1);
    // What the older one found is not kept, so the condition has not turned false.
    gate.open();
    stage.settle().await;
    fires(stage, &key, &[(0.95, 1), (0.1, 1), (0.95, 2)]).await;
}

async fn each_object_stands_for_itself(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    make(stage, &key, &mailing("is_scammer < 0.2")).await;
    for (object, probability) in [("a", 0.95), ("b", 0.95), ("a", 0.96), ("b", 0.1), ("a", 0.97), ("b", 0.95)]
    {
        ingest_answered(stage, &key, object, probability).await;
        stage.advance(SECOND);
    }
    assert_eq!(firings(stage, &key, "?object_id=a").await.len(), 1);
    let of_b = firings(stage, &key, "?object_id=b").await;
    let whens: Vec<&str> = of_b.iter().map(|firing| firing["matched_when"].as_str().unwrap()).collect();
    assert_eq!(whens, [RISKY, "is_scammer < 0.2", RISKY]);
}

async fn a_rule_whose_signal_is_off_rests_and_remembers(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    let mut often = mailing("is_scammer > 0.8");
    often["cooldown_seconds"] = json!(1);
    make(stage, &key, &often).await;
    fires(stage, &key, &[(0.95, 2)]).await;
    switch(stage, &key, "is_scammer", false).await;
    stage.advance(MINUTE);
    fires(stage, &key, &[(0.95, 2), (0.1, 2)]).await;
    switch(stage, &key, "is_scammer", true).await;
    // The condition held before and holds now. Whether something was analyzed in between makes no difference; the
    // rule with a cooldown fires again, as it would have.
    fires(stage, &key, &[(0.95, 3)]).await;
    fires(stage, &key, &[(0.1, 3), (0.95, 4)]).await;
    // A rule may be made while its signal is off.
    switch(stage, &key, "is_scammer", false).await;
    make(stage, &key, &mailing("is_scammer > 0.7")).await;
    fires(stage, &key, &[(0.95, 4)]).await;
    switch(stage, &key, "is_scammer", true).await;
    fires(stage, &key, &[(0.95, 5)]).await;
}

async fn a_rule_whose_signal_is_gone_rests(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    fires(stage, &key, &[(0.95, 1)]).await;
    assert_eq!(key.call(stage, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await.status, 204);
    fires(stage, &key, &[(0.95, 1)]).await;
    put_signal(stage, &key, "is_scammer", &json!({"type": "noul", "instructions": "Is it?"})).await;
    // Back without an answer: an object that has none does not match, so that the next yes is a turn, whether or not
    // something was analyzed in between.
    fires(stage, &key, &[(0.95, 2), (0.95, 2)]).await;
    assert_eq!(key.call(stage, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await.status, 204);
    put_signal(stage, &key, "is_scammer", &json!({"type": "noul", "instructions": "Is it?"})).await;
    fires(stage, &key, &[(0.95, 3), (0.95, 3)]).await;
    // Of another type, the condition has no meaning.
    let scale = json!({"type": "choice", "instructions": "Is it?", "criteria": {"a": null, "b": null}});
    put_signal(stage, &key, "is_scammer", &scale).await;
    fires(stage, &key, &[(0.95, 3)]).await;
    // And of its own type again, it is asked anew.
    put_signal(stage, &key, "is_scammer", &json!({"type": "noul", "instructions": "Is it?"})).await;
    fires(stage, &key, &[(0.95, 4), (0.95, 4)]).await;
}

async fn a_rule_whose_option_is_gone_rests(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let options = |names: &[&str]| {
        let criteria: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
        json!({"type": "choice", "instructions": "Which?", "criteria": criteria})
    };
    put_signal(stage, &key, "mood", &options(&["calm", "wild"])).await;
    make(stage, &key, &mailing("mood = calm")).await;
    fires(stage, &key, &[(0.95, 1)]).await;
    put_signal(stage, &key, "mood", &options(&["glad", "wild"])).await;
    fires(stage, &key, &[(0.95, 1), (0.1, 1)]).await;
    put_signal(stage, &key, "mood", &options(&["calm", "wild"])).await;
    fires(stage, &key, &[(0.95, 1), (0.1, 1), (0.95, 2)]).await;
}

async fn another_condition_starts_afresh(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let mut body = mailing(RISKY);
    body["cooldown_seconds"] = json!(3600);
    let cooled = make(stage, &key, &body).await;
    let rule = make(stage, &key, &mailing(RISKY)).await;
    fires(stage, &key, &[(0.95, 2), (0.95, 2)]).await;
    for rule in [&cooled, &rule] {
        change(stage, &key, rule, &json!({"when": "is_scammer>0.9"})).await;
    }
    fires(stage, &key, &[(0.95, 2)]).await;
    for rule in [&cooled, &rule] {
        change(stage, &key, rule, &json!({"when": "is_scammer > 0.8"})).await;
    }
    fires(stage, &key, &[(0.95, 4), (0.95, 4)]).await;
    for rule in [&cooled, &rule] {
        change(stage, &key, rule, &json!({"when": RISKY})).await;
    }
    fires(stage, &key, &[(0.95, 6), (0.95, 6)]).await;
}

async fn other_edits_keep_where_it_stands(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = make(stage, &key, &mailing(RISKY)).await;
    fires(stage, &key, &[(0.95, 1)]).await;
    for edit in [
        json!({"name": "Another name"}),
        json!({"action_config": {"to": "others@example.com"}}),
        json!({"enabled": false}),
        json!({"enabled": true}),
        json!({"when": RISKY}),
    ] {
        change(stage, &key, &rule, &edit).await;
        fires(stage, &key, &[(0.95, 1)]).await;
    }
    // With a cooldown from now on: the last firing counts.
    change(stage, &key, &rule, &json!({"cooldown_seconds": 60})).await;
    stage.advance(59 * SECOND);
    fires(stage, &key, &[(0.95, 1)]).await;
    stage.advance(SECOND);
    fires(stage, &key, &[(0.95, 2)]).await;
    change(stage, &key, &rule, &json!({"cooldown_seconds": 0})).await;
    stage.advance(MINUTE);
    fires(stage, &key, &[(0.95, 2), (0.1, 2), (0.95, 3)]).await;
}

async fn a_disabled_rule_rests(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let mut body = mailing(RISKY);
    body["enabled"] = json!(false);
    let rule = make(stage, &key, &body).await;
    fires(stage, &key, &[(0.95, 0)]).await;
    change(stage, &key, &rule, &json!({"enabled": true})).await;
    fires(stage, &key, &[(0.95, 1)]).await;
    assert_eq!(stage.number("SELECT count(*) FROM rule_states").await, 1);
}

async fn a_deleted_object_takes_all_along(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    ingest_answered(stage, &key, "user_2", 0.95).await;
    assert_eq!(key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    let left = firings(stage, &key, "").await;
    assert_eq!((left.len(), &left[0]["object_id"]), (1, &json!("user_2")));
    assert_eq!(stage.number("SELECT count(*) FROM rule_states").await, 1);
    ingest_answered(stage, &key, "user_1", 0.95).await;
    assert_eq!(firings(stage, &key, "?object_id=user_1").await.len(), 1, "another of the same name");
}

async fn the_playground_fires_nothing(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    stage.analyzer.always(Turn::Answer(0.95));
    let body = json!({"events": [event("x")]});
    assert_eq!(key.call(stage, Method::POST, "/v1/playground", &body).await.status, 200);
    assert!(firings(stage, &key, "").await.is_empty());
    assert_eq!(stage.number("SELECT count(*) FROM rule_states").await, 0);
}

async fn rules_of_others_do_not_fire(stage: &Scripted) {
    let ann = stage.account("ann@example.com").await;
    let bob = stage.account("bob@example.com").await;
    make(stage, &ann, &mailing(RISKY)).await;
    ingest_answered(stage, &bob, "user_1", 0.95).await;
    for key in [&ann, &bob] {
        assert!(firings(stage, key, "").await.is_empty());
    }
    ingest_answered(stage, &ann, "user_1", 0.95).await;
    assert_eq!(firings(stage, &ann, "").await.len(), 1);
    assert!(firings(stage, &bob, "").await.is_empty());
    // Deleting what bob calls so leaves ann's alone.
    assert_eq!(bob.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    assert_eq!(firings(stage, &ann, "").await.len(), 1);
}

async fn firings_go_after_ninety_days(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    make(stage, &key, &mailing(RISKY)).await;
    fires(stage, &key, &[(0.95, 1), (0.1, 1)]).await;
    stage.advance(DAY);
    fires(stage, &key, &[(0.95, 2)]).await;
    stage.settle().await;
    stage.advance(88 * DAY);
    until("the older firing goes", async || {
        stage.advance(Duration::from_hours(1));
        stage.number("SELECT count(*) FROM rule_firings").await == 1
    })
    .await;
    assert!(stage.now().since(crate::app::START) >= 90 * DAY, "not before its time");
    assert_eq!(stage.number("SELECT count(*) FROM rule_mail_tallies").await, 0);
    fires(stage, &key, &[(0.95, 1)]).await;
}

async fn states_of_a_condition_that_is_gone_are_swept(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let tenant = tenant_of(stage, &token).await.parse().map(model::TenantId).unwrap();
    let key = stage.api_key(&token).await;
    let rule = make(stage, &key, &mailing(RISKY)).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    // More than one step of the sweep.
    stage
        .store
        .write("many states", async |conn: &mut Conn| {
            let known = rules::of_tenant(conn, tenant).await?.remove(0);
            let state = |number: u32| rules::ConditionState {
                tenant,
                object_id: format!("object_{number}"),
                condition_id: known.condition_id,
                rule_state: model::rule::RuleState { matched: true, fired_at: None },
            };
            rules::put_states(conn, &(0..1_200).map(state).collect::<Vec<_>>()).await
        })
        .await
        .unwrap();
    change(stage, &key, &rule, &json!({"when": "is_scammer > 0.5"})).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    until("old states go", async || {
        stage.advance(Duration::from_mins(10));
        stage.number("SELECT count(*) FROM rule_states").await == 1
    })
    .await;
    until("and their condition", async || stage.number("SELECT count(*) FROM retired_conditions").await == 0)
        .await;
    fires(stage, &key, &[(0.95, 2)]).await;
}

#[test]
fn a_restart_forgets_nothing() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        testkit::in_runtime(async {
            let analyzer = ScriptedAnalyzer::start().await;
            let url = analyzer.url();
            let mut app = App::start(backend, &with_analyzer(&url)).await;
            let key = account(&app, "ann@example.com").await;
            make(&app, &key, &mailing(RISKY)).await;
            let mut cooled = mailing(RISKY);
            cooled["cooldown_seconds"] = json!(60);
            make(&app, &key, &cooled).await;
            // (probability, wait before it, firings of both rules by then)
            for (probability, wait, expected) in
                [(0.95, 0, 2), (0.95, 59, 2), (0.95, 1, 3), (0.1, 0, 3), (0.95, 0, 4), (0.95, 60, 5)]
            {
                app.settle().await;
                app.restart(&with_analyzer(&url)).await;
                app.advance(Duration::from_secs(wait));
                analyzer.then(Turn::Answer(probability));
                assert_eq!(ingest_and_wait(&app, &key, "user_1", "x").await.status, 200);
                assert_eq!(firings(&app, &key, "").await.len(), expected);
            }
            app.tear_down().await;
        });
    }
}

/// Verdicts and analyses of one object are written one after the other, on whatever node: one turn is one firing.
#[test]
fn racing_nodes_fire_once() {
    testkit::in_runtime(async {
        let analyzer = ScriptedAnalyzer::start().await;
        let url = analyzer.url();
        let app = App::start(Backend::Postgres, &with_analyzer(&url)).await;
        let second = app.second_node(&with_analyzer(&url)).await;
        let key = account(&app, "ann@example.com").await;
        make(&app, &key, &mailing(RISKY)).await;
        let mut cooled = mailing(RISKY);
        cooled["cooldown_seconds"] = json!(60);
        make(&app, &key, &cooled).await;
        analyzer.always(Turn::Answer(0.95));
        for round in 0..5 {
            let object = format!("user_{round}");
            send_event(&app, &key, &object, "x").await;
            let on = |app| ingest_and_wait(app, &key, &object, "x");
            app.advance(3 * SECOND);
            let verdicts = tokio::join!(on(&app), on(&second), on(&app), on(&second), on(&app), on(&second));
            for verdict in [verdicts.0, verdicts.1, verdicts.2, verdicts.3, verdicts.4, verdicts.5] {
                assert_eq!(verdict.status, 200, "{}", verdict.text);
            }
            app.settle().await;
            assert_eq!(
                firings(&app, &key, &format!("?object_id={object}")).await.len(),
                2,
                "one for each rule"
            );
        }
        second.stop().await;
        app.tear_down().await;
    });
}

#[test]
fn a_day_s_mails_are_counted_over_all_nodes() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        testkit::in_runtime(async {
            let analyzer = ScriptedAnalyzer::start().await;
            let url = analyzer.url();
            let app = App::start(backend, &with_analyzer(&url)).await;
            let token = app.register("ann@example.com").await;
            let tenant = tenant_of(&app, &token).await.parse().map(model::TenantId).unwrap();
            let key = app.api_key(&token).await;
            make(&app, &key, &mailing(RISKY)).await;
            make(&app, &key, &mailing("is_scammer > 0.8")).await;
            make(&app, &key, &mailing("is_scammer > 0.7")).await;
            let store = store::Store::open(app.database_url()).await.unwrap();
            let today = app.now().date();
            let counted = store.write("count_messages", async |conn: &mut Conn| {
                firings::count_messages(conn, tenant, today, MessageCounts { mails: 998, chats: 0 }).await
            });
            assert_eq!(counted.await.unwrap(), MessageCounts::default());
            analyzer.always(Turn::Answer(0.95));
            assert_eq!(ingest_and_wait(&app, &key, "user_1", "x").await.status, 200);
            let mails = app.mails().await.into_iter().filter(|mail| mail.to == "alerts@example.com").count();
            assert_eq!(mails, 2);
            let fired = firings(&app, &key, "").await;
            let details: Vec<_> = fired.iter().filter(|firing| firing["status"] == "error").collect();
            assert_eq!(details.len(), 1);
            assert_eq!(details[0]["detail"], "the account's limit of 1000 rule mails a day is reached");
            assert_eq!(ingest_and_wait(&app, &key, "user_2", "x").await.status, 200);
            let fired = firings(&app, &key, "?object_id=user_2").await;
            assert!(fired.iter().all(|firing| firing["status"] == "error") && fired.len() == 3);
            // Somebody else is not held up, and tomorrow is another day.
            let other = account(&app, "bob@example.com").await;
            make(&app, &other, &mailing(RISKY)).await;
            assert_eq!(ingest_and_wait(&app, &other, "user_1", "x").await.status, 200);
            assert_eq!(firings(&app, &other, "").await[0]["status"], "dispatched");
            app.advance(DAY);
            assert_eq!(ingest_and_wait(&app, &key, "user_3", "x").await.status, 200);
            let fired = firings(&app, &key, "?object_id=user_3").await;
            assert!(fired.iter().all(|firing| firing["status"] == "dispatched") && fired.len() == 3);
            store.close().await;
            app.tear_down().await;
        });
    }
}

#[test]
fn a_day_s_chat_messages_are_counted_beside_its_mails() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        testkit::in_runtime(async {
            let analyzer = ScriptedAnalyzer::start().await;
            let url = analyzer.url();
            let app = App::start(backend, &with_analyzer(&url)).await;
            let chat = Chat::start().await;
            let token = app.register("ann@example.com").await;
            let tenant = tenant_of(&app, &token).await.parse().map(model::TenantId).unwrap();
            let key = app.api_key(&token).await;
            for when in [RISKY, "is_scammer > 0.8", "is_scammer > 0.7"] {
                let config = json!({"webhook_url": chat.url("x")});
                make(&app, &key, &json!({"when": when, "action_type": "slack", "action_config": config}))
                    .await;
            }
            make(&app, &key, &mailing(RISKY)).await;
            let store = store::Store::open(app.database_url()).await.unwrap();
            let today = app.now().date();
            let counted = store.write("count_messages", async |conn: &mut Conn| {
                firings::count_messages(conn, tenant, today, MessageCounts { mails: 0, chats: 998 }).await
            });
            assert_eq!(counted.await.unwrap(), MessageCounts::default());
            analyzer.always(Turn::Answer(0.95));
            assert_eq!(ingest_and_wait(&app, &key, "user_1", "x").await.status, 200);
            app.settle().await;
            chat.posted(2).await;
            let fired = firings(&app, &key, "").await;
            let failed: Vec<_> = fired.iter().filter(|firing| firing["status"] == "error").collect();
            assert_eq!((fired.len(), failed.len()), (4, 1), "the mail has a count of its own");
            assert_eq!(failed[0]["detail"], "the account's limit of 1000 chat messages a day is reached");
            app.advance(DAY);
            assert_eq!(ingest_and_wait(&app, &key, "user_2", "x").await.status, 200);
            let fired = firings(&app, &key, "?object_id=user_2").await;
            assert!(fired.iter().all(|firing| firing["status"] == "dispatched") && fired.len() == 4);
            app.settle().await;
            chat.posted(5).await;
            store.close().await;
            app.tear_down().await;
        });
    }
}

async fn the_overview_says_what_happened_on_each_day(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let mut rule = mailing(RISKY);
    rule["mode"] = json!("shadow");
    make(stage, &key, &rule).await;
    let days = async || {
        let overview = key.call(stage, Method::GET, "/v1/overview", &Value::Null).await.json();
        overview["days"].as_array().unwrap().clone()
    };
    let day = |date: &str, objects: i64, flagged: i64, firings: i64| json!({"date": date, "objects": objects, "flagged": flagged, "firings": firings});
    assert_eq!(days().await, [day("2026-01-01", 0, 0, 0)], "nothing yet");
    for (object, probability) in [("user_1", 0.95), ("user_2", 0.95), ("user_3", 0.1), ("user_1", 0.99)] {
        ingest_answered(stage, &key, object, probability).await;
    }
    assert_eq!(days().await, [day("2026-01-01", 3, 2, 2)]);
    stage.advance(2 * DAY);
    for (object, probability) in [("user_1", 0.1), ("user_1", 0.95), ("user_3", 0.95)] {
        ingest_answered(stage, &key, object, probability).await;
        stage.advance(SECOND);
    }
    let expected = [day("2026-01-01", 3, 2, 2), day("2026-01-02", 0, 0, 0), day("2026-01-03", 0, 2, 2)];
    assert_eq!(days().await, expected);
    let path = "/v1/objects/user_1";
    assert_eq!(key.call(stage, Method::DELETE, path, &Value::Null).await.status, 204);
    assert_eq!(days().await, expected, "what happened has happened");
    stage.advance(12 * DAY);
    let shown = days().await;
    assert_eq!(
        (shown.len(), &shown[0]),
        (13, &day("2026-01-03", 0, 2, 2)),
        "14 days, from the first of them"
    );
    stage.advance(4 * DAY);
    stage.sweeper_has_swept().await;
    assert_eq!(stage.number("SELECT count(*) FROM object_days").await, 0);
    assert_eq!(stage.number("SELECT count(*) FROM firing_days").await, 0);
    assert_eq!(days().await, [day("2026-01-19", 0, 0, 0)]);
}
