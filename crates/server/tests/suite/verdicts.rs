//! Answers while the caller waits: verdicts, the playground and the wire format of decision models; what each refuses,
//! records and costs.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use service::Random;
use store::analysis::verdict_slots;
use store::analysis::verdict_slots::VerdictSlot;
use store::{Backend, Conn};
use testkit::Stage as _;

use crate::app::{App, Reply};
use crate::scripted_analyzer::{
    OneWorker, PRICE_MICROS, Scripted, ScriptedAnalyzer, Settings, TOKENS, Turn, event, get, ingest,
    ingest_and_wait, risk, send_event, until, with_analyzer,
};
use crate::signer::Signer;

testkit::on_both!(
    a_verdict_is_not_held_up_by_a_running_analysis,
    a_verdict_over_everything_does_the_queued_analysis_and_a_partial_one_does_not,
    a_verdict_does_not_undo_what_was_asked_for_since,
    a_verdict_is_given_once_for_an_idempotency_key,
    a_verdict_reads_the_history_unless_it_is_told_not_to,
    a_verdict_on_no_signal_is_recorded_and_free,
    an_empty_list_of_signals_asks_all_of_them,
    a_verdict_on_a_deleted_object_does_not_haunt_its_successor,
    too_many_at_once_are_refused_and_their_events_recorded,
    a_caller_who_goes_away_leaves_neither_slot_nor_bill_open,
    slots_of_a_crashed_node_are_free_after_a_while,
    an_analyzer_that_throttles_is_a_refusal_to_try_later,
    an_analyzer_that_fails_is_a_refusal,
    an_analyzer_that_never_answers_is_a_refusal,
    a_request_over_the_rate_limit_records_nothing,
    each_analysis_is_one_line_of_the_ledger,
    where_nothing_is_billed_nothing_is_charged,
    the_playground_records_nothing,
    questions_are_answered_in_the_wire_format_of_decision_models,
    questions_that_cannot_be_asked_are_refused_by_name,
);

/// Two synchronous analyses at a time.
struct TwoAtOnce;
/// An analyzer that must answer fast.
struct Impatient;
/// Five requests a minute.
struct FewRequests;
/// A deployment that bills nobody.
struct Free;

impl Settings for TwoAtOnce {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_SYNC_LIMIT", "2")];
}

impl Settings for Impatient {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ANALYZER_TIMEOUT_MS", "200")];
}

impl Settings for FewRequests {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_RATE_LIMIT_PER_MINUTE", "5")];
}

impl Settings for Free {
    const SETTINGS: &'static [(&'static str, &'static str)] =
        &[("AUSPEX_METERING", "false"), ("AUSPEX_SIGNUP_CREDIT_CENTS", "0")];
}

const SECOND: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(3);

async fn queued(stage: &Scripted<impl Settings>) -> i64 {
    stage.number("SELECT count(*) FROM jobs").await
}

async fn ask_playground(app: &App, key: &Signer, body: &Value) -> Reply {
    key.call(app, Method::POST, "/v1/playground", body).await
}

async fn ask(app: &App, key: &Signer, body: &Value) -> Reply {
    key.call(app, Method::POST, "/v1/systemone", body).await
}

/// Asserts that the events of a refused request are there, that no analysis is scheduled, and that one can be asked for.
async fn recorded_and_analyzed_on_request(stage: &Scripted<impl Settings>, key: &Signer, object: &str) {
    let events = get(stage, key, &format!("/v1/objects/{object}/events")).await.json();
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
    assert_eq!(queued(stage).await, 0, "recorded, not scheduled");
    assert_eq!(risk(stage, key, object).await, None);
    let asked = key.call(stage, Method::POST, &format!("/v1/objects/{object}/analyze"), &Value::Null).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    // As long as the refusal asked for.
    stage.advance(7 * SECOND);
    stage.settle().await;
    assert!(risk(stage, key, object).await.is_some());
}

async fn a_verdict_is_not_held_up_by_a_running_analysis(stage: &Scripted<OneWorker>) {
    let key = stage.account("ann@example.com").await;
    let gate = stage.analyzer.hold(0.1);
    send_event(stage, &key, "user_1", "early").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    for object in ["user_1", "user_2"] {
        let verdict = tokio::time::timeout(5 * SECOND, ingest_and_wait(stage, &key, object, "late")).await;
        assert_eq!(verdict.expect("a verdict is not held up").status, 200);
    }
    gate.open();
    stage.settle().await;
}

async fn a_verdict_over_everything_does_the_queued_analysis_and_a_partial_one_does_not(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "early").await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "late").await.status, 200);
    assert_eq!(queued(stage).await, 0);
    let partial = [
        json!({"events": [event("x")], "wait": true, "include_history": false}),
        json!({"events": [event("x")], "wait": true, "signals": ["is_scammer"]}),
        json!({"events": [event("x")], "wait": true, "signals": ["unknown"]}),
    ];
    for body in partial {
        send_event(stage, &key, "user_1", "more").await;
        assert_eq!(ingest(stage, &key, "user_1", &body).await.status, 200);
        assert_eq!(queued(stage).await, 1, "{body}");
        let before = stage.analyzer.count();
        stage.advance(QUIET);
        stage.analyzer.asked(before + 1).await;
        stage.settle().await;
    }
}

async fn a_verdict_does_not_undo_what_was_asked_for_since(stage: &Scripted<OneWorker>) {
    let key = stage.account("ann@example.com").await;
    let busy = stage.analyzer.hold(0.5);
    send_event(stage, &key, "user_2", "x").await;
    stage.advance(QUIET);
    stage.analyzer.asked(1).await;
    let gate = stage.analyzer.hold(0.5);
    let ask_for_more = async {
        stage.analyzer.asked(2).await;
        let signal = json!({"type": "noul", "instructions": "Is it new?"});
        assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_new", &signal).await.status, 200);
        let filled = key.call(stage, Method::POST, "/v1/signals/is_new/backfill", &Value::Null).await;
        assert_eq!(filled.status, 202, "{}", filled.text);
        until("the backfill waits behind the analysis", async || queued(stage).await == 2).await;
        gate.open();
    };
    let (verdict, ()) = tokio::join!(ingest_and_wait(stage, &key, "user_1", "x"), ask_for_more);
    assert_eq!(verdict.json()["answers"].as_array().unwrap().len(), 3, "it was asked before");
    busy.open();
    stage.settle().await;
    assert_eq!(get(stage, &key, "/v1/objects/user_1").await.json()["pending"], json!([]));
}

async fn a_verdict_is_given_once_for_an_idempotency_key(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let path = "/v1/objects/user_1/events";
    let send = async |wait: bool| {
        let request = stage.request(Method::POST, path).header("idempotency-key", "once");
        let request = request.bearer_auth(key.sign(stage.now(), &Method::POST, path));
        stage.send(request.json(&json!({"events": [event("x")], "wait": wait}))).await
    };
    let gate = stage.analyzer.hold(0.5);
    let repeat = async {
        stage.analyzer.asked(1).await;
        send(true).await.refused(409, "conflict");
        send(false).await.refused(409, "conflict");
        gate.open();
    };
    let (verdict, ()) = tokio::join!(send(true), repeat);
    assert_eq!(verdict.status, 200, "{}", verdict.text);
    send(true).await.refused(409, "conflict");
    stage.analyzer.asked(1).await;
    assert_eq!(stage.number("SELECT count(*) FROM events").await, 1);
    assert_eq!((queued(stage).await, stage.charges().await), (0, 1));
}

async fn a_verdict_reads_the_history_unless_it_is_told_not_to(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    ingest_and_wait(stage, &key, "user_1", "early").await;
    for (history, included) in [(json!(true), true), (json!(false), false), (Value::Null, true)] {
        let mut body = json!({"events": [event("late")], "wait": true});
        if !history.is_null() {
            body["include_history"] = history;
        }
        let verdict = ingest(stage, &key, "user_1", &body).await.json();
        assert_eq!(verdict["history_included"], included);
        assert_eq!((&verdict["analyzed"], &verdict["model"]), (&json!(true), &json!("scripted")));
        let history = stage.analyzer.seen().pop().unwrap();
        assert_eq!(history.contains("early"), included, "{history}");
        assert!(history.contains("late"), "{history}");
    }
}

async fn a_verdict_on_no_signal_is_recorded_and_free(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let off = json!({"type": "noul", "instructions": "Is it?", "enabled": false});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_odd", &off).await.status, 200);
    for signals in [json!(["unknown", "is_odd"]), json!(["unknown"])] {
        let body = json!({"events": [event("x")], "wait": true, "signals": signals});
        let reply = ingest(stage, &key, "user_1", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let verdict = reply.json();
        assert_eq!((&verdict["analyzed"], &verdict["accepted"]), (&json!(false), &json!(1)));
        assert_eq!((&verdict["model"], &verdict["answers"]), (&json!("scripted"), &json!([])));
        assert!(verdict["reason"].is_string());
    }
    let some = json!({"events": [event("x")], "wait": true, "signals": ["unknown", "is_odd", "trust_score"]});
    let verdict = ingest(stage, &key, "user_1", &some).await.json();
    assert_eq!(verdict["answers"].as_array().unwrap().len(), 1);
    assert_eq!(verdict["answers"][0]["signal"], "trust_score");
    assert_eq!(get(stage, &key, "/v1/objects/user_1").await.json()["event_count"], 3);
    assert_eq!((queued(stage).await, stage.charges().await), (0, 1));
}

async fn an_empty_list_of_signals_asks_all_of_them(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "early").await;
    let all = json!({"events": [event("x")], "wait": true, "signals": [], "include_history": null, "object_type": null});
    let verdict = ingest(stage, &key, "user_1", &all).await.json();
    assert_eq!((&verdict["analyzed"], verdict["answers"].as_array().map(Vec::len)), (&json!(true), Some(3)));
    assert_eq!(queued(stage).await, 0, "a verdict over all signals covers the queued analysis");

    let tried = ask_playground(stage, &key, &json!({"events": [event("x")], "signals": []})).await.json();
    assert_eq!(tried["answers"].as_array().map(Vec::len), Some(3));

    let null = json!({"events": [{"type": "event", "name": "x", "content": null, "metadata": null, "occurred_at": null}],
        "wait": null, "signals": null});
    assert_eq!(ingest(stage, &key, "user_1", &null).await.status, 202);
    stage.advance(QUIET);
    stage.settle().await;
}

async fn a_verdict_on_a_deleted_object_does_not_haunt_its_successor(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let many: Vec<Value> = (0..9).map(|_| event("old")).collect();
    ingest(stage, &key, "user_1", &json!({"events": many, "wait": true})).await;
    let gate = stage.analyzer.hold(0.1);
    let begin_anew = async {
        stage.analyzer.asked(2).await;
        let deleted = key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await;
        assert_eq!(deleted.status, 204);
        stage.analyzer.always(Turn::Answer(0.9));
        assert_eq!(ingest_and_wait(stage, &key, "user_1", "new").await.status, 200);
        gate.open();
    };
    let (verdict, ()) = tokio::join!(ingest_and_wait(stage, &key, "user_1", "old"), begin_anew);
    assert_eq!(verdict.status, 200, "{}", verdict.text);
    assert_eq!(risk(stage, &key, "user_1").await, Some(0.9));
    assert_eq!(stage.charges().await, 3, "what was asked is paid");
}

async fn too_many_at_once_are_refused_and_their_events_recorded(stage: &Scripted<TwoAtOnce>) {
    let key = stage.account("ann@example.com").await;
    let gates = [stage.analyzer.hold(0.1), stage.analyzer.hold(0.1)];
    let one_more = async {
        stage.analyzer.asked(2).await;
        let reply = ingest_and_wait(stage, &key, "user_3", "x").await;
        reply.refused(429, "rate_limited");
        assert_eq!(reply.header("events-recorded"), "true");
        assert!(reply.header("retry-after").parse::<u32>().unwrap() >= 1);
        let questions = json!({"state": "x", "questions": {"a": {"type": "noul"}}});
        for reply in [
            ask_playground(stage, &key, &json!({"events": [event("x")]})).await,
            ask(stage, &key, &questions).await,
        ] {
            reply.refused(429, "rate_limited");
            assert_eq!(reply.header("events-recorded"), "", "there is nothing to record");
            assert!(reply.header("retry-after").parse::<u32>().unwrap() >= 1);
        }
        let other = stage.account("bob@example.com").await;
        assert_eq!(
            ingest_and_wait(stage, &other, "user_1", "x").await.status,
            200,
            "others have their own places"
        );
        stage.analyzer.asked(3).await;
        gates.iter().for_each(crate::scripted_analyzer::Gate::open);
    };
    let (first, second, ()) = tokio::join!(
        ingest_and_wait(stage, &key, "user_1", "x"),
        ingest_and_wait(stage, &key, "user_2", "x"),
        one_more
    );
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200));
    recorded_and_analyzed_on_request(stage, &key, "user_3").await;
    assert_eq!(ingest_and_wait(stage, &key, "user_4", "x").await.status, 200, "the places are free again");
}

async fn a_caller_who_goes_away_leaves_neither_slot_nor_bill_open(stage: &Scripted<TwoAtOnce>) {
    let key = stage.account("ann@example.com").await;
    let gate = stage.analyzer.hold(0.7);
    tokio::select! {
        reply = ingest_and_wait(stage, &key, "user_1", "x") => panic!("nobody has answered yet: {reply:?}"),
        () = stage.analyzer.asked(1) => {}
    }
    gate.open();
    until("the verdict is kept", async || risk(stage, &key, "user_1").await == Some(0.7)).await;
    assert_eq!(stage.charges().await, 1, "what was asked is paid");
    until("the place is free", async || stage.number("SELECT count(*) FROM sync_leases").await == 0).await;
}

async fn slots_of_a_crashed_node_are_free_after_a_while(stage: &Scripted<TwoAtOnce>) {
    let key = stage.account("ann@example.com").await;
    // As a node takes them that then dies: the analyzer's deadline and five seconds.
    let (now, until) = (stage.now(), stage.now() + 35 * SECOND);
    let taken = stage.store.write("take", async |conn: &mut Conn| {
        let tenant = store::accounts::tenants::all(conn).await?.remove(0).tenant_id;
        let random = Random::seeded(9);
        for _ in 0..2 {
            let slot = VerdictSlot { tenant, slot_id: random.id(now), now, until, limit: 2 };
            assert!(verdict_slots::take_one(conn, &slot).await?);
        }
        Ok::<_, store::Error>(())
    });
    taken.await.unwrap();
    ingest_and_wait(stage, &key, "user_1", "x").await.refused(429, "rate_limited");
    stage.advance(34 * SECOND);
    ingest_and_wait(stage, &key, "user_1", "x").await.refused(429, "rate_limited");
    stage.advance(SECOND);
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    assert_eq!(stage.number("SELECT count(*) FROM sync_leases").await, 2, "they count no more");
    // And the next sweep takes them away, which every story waits for at its end.
    stage.advance(600 * SECOND);
}

async fn an_analyzer_that_throttles_is_a_refusal_to_try_later(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for (object, status) in [("user_1", 429), ("user_2", 503)] {
        stage.analyzer.then(Turn::Refuse(status, Some("7")));
        let reply = ingest_and_wait(stage, &key, object, "x").await;
        reply.refused(503, "analyzer_busy");
        assert_eq!((reply.header("events-recorded"), reply.header("retry-after")), ("true", "7"));
        recorded_and_analyzed_on_request(stage, &key, object).await;
    }
    stage.analyzer.then(Turn::Refuse(429, None));
    let reply = ask_playground(stage, &key, &json!({"events": [event("x")]})).await;
    reply.refused(503, "analyzer_busy");
    assert_eq!(reply.header("events-recorded"), "");
    assert!(reply.header("retry-after").parse::<u32>().unwrap() >= 1, "also when the analyzer does not say");
    assert_eq!(stage.charges().await, 2, "refusals are free");
}

async fn an_analyzer_that_fails_is_a_refusal(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let failures = [Turn::Refuse(500, None), Turn::Refuse(404, None), Turn::Say("no JSON"), Turn::Say("{}")];
    for (number, failure) in failures.into_iter().enumerate() {
        let object = format!("user_{number}");
        stage.analyzer.then(failure);
        let reply = ingest_and_wait(stage, &key, &object, "x").await;
        reply.refused(502, "analyzer_error");
        assert_eq!(reply.header("events-recorded"), "true");
        recorded_and_analyzed_on_request(stage, &key, &object).await;
    }
    stage.analyzer.stop().await;
    let reply = ingest_and_wait(stage, &key, "user_9", "x").await;
    reply.refused(502, "analyzer_error");
    assert_eq!(reply.header("events-recorded"), "true");
    ask_playground(stage, &key, &json!({"events": [event("x")]})).await.refused(502, "analyzer_error");
    ask(stage, &key, &json!({"state": "x", "questions": {"a": {"type": "noul"}}}))
        .await
        .refused(502, "analyzer_error");
    stage.analyzer.resume().await;
    recorded_and_analyzed_on_request(stage, &key, "user_9").await;
    assert_eq!(stage.charges().await, 5);
}

async fn an_analyzer_that_never_answers_is_a_refusal(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.then(Turn::Silence);
    let reply = ingest_and_wait(stage, &key, "user_1", "x").await;
    reply.refused(502, "analyzer_error");
    assert_eq!(reply.header("events-recorded"), "true");
    recorded_and_analyzed_on_request(stage, &key, "user_1").await;
}

async fn a_request_over_the_rate_limit_records_nothing(stage: &Scripted<FewRequests>) {
    let key = stage.account("ann@example.com").await;
    let mut recorded = 0;
    let refused = loop {
        let reply = ingest_and_wait(stage, &key, "user_1", "x").await;
        if reply.status != 200 {
            break reply;
        }
        recorded += 1;
    };
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("events-recorded"), "");
    assert!(refused.header("retry-after").parse::<u32>().unwrap() >= 1);
    assert!(recorded <= 5);
    assert_eq!(stage.number("SELECT count(*) FROM events").await, recorded);
}

async fn each_analysis_is_one_line_of_the_ledger(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "x").await;
    stage.advance(QUIET);
    stage.settle().await;
    ingest_and_wait(stage, &key, "user_1", "x").await;
    ask_playground(stage, &key, &json!({"events": [event("x")]})).await;
    ask(stage, &key, &json!({"state": "x", "questions": {"a": {"type": "noul"}}})).await;
    assert_eq!(stage.charges().await, 4);
    let cheapest = stage.number("SELECT min(-delta_micros) FROM ledger_entries WHERE kind = 'charge'").await;
    let dearest = stage.number("SELECT max(-delta_micros) FROM ledger_entries WHERE kind = 'charge'").await;
    assert_eq!((cheapest, dearest), (PRICE_MICROS, PRICE_MICROS));
    let of_objects = stage.number("SELECT count(*) FROM ledger_entries WHERE object_id = 'user_1'").await;
    assert_eq!(of_objects, 2);
    let balance = stage.number("SELECT balance_micros FROM balances").await;
    assert_eq!(balance, 5_000_000 - 4 * PRICE_MICROS);
    let waited =
        stage.number("SELECT CAST(sum(analyses) AS bigint) FROM usage_days WHERE source = 'sync'").await;
    let not =
        stage.number("SELECT CAST(sum(analyses) AS bigint) FROM usage_days WHERE source = 'async'").await;
    assert_eq!((waited, not), (3, 1));
    let tokens = stage.number("SELECT CAST(sum(input_tokens) AS bigint) FROM usage_days").await;
    assert_eq!(tokens, 4 * i64::try_from(TOKENS.0).unwrap());
}

async fn where_nothing_is_billed_nothing_is_charged(stage: &Scripted<Free>) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "user_1", "x").await;
    stage.advance(QUIET);
    stage.settle().await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    let played = ask_playground(stage, &key, &json!({"events": [event("x")]})).await.json();
    assert_eq!((&played["analyzed"], &played["cost_micros"]), (&json!(true), &json!(0)));
    assert_eq!(stage.charges().await, 0);
    assert_eq!(stage.number("SELECT balance_micros FROM balances").await, 0);
    let used = stage.number("SELECT CAST(sum(analyses) AS bigint) FROM usage_days").await;
    assert_eq!(used, 3, "and is counted all the same");
}

async fn the_playground_records_nothing(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let events: Vec<Value> = (0..50).map(|number| event(&format!("step_{number}"))).collect();
    let reply = ask_playground(stage, &key, &json!({"events": events, "object_type": "order"})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let played = reply.json();
    assert_eq!((&played["analyzed"], &played["model"]), (&json!(true), &json!("scripted")));
    assert_eq!((&played["cost_micros"], &played["events_count"]), (&json!(PRICE_MICROS), &json!(50)));
    assert_eq!(played["answers"].as_array().unwrap().len(), 3);
    assert!(played["latency_ms"].is_u64() && played.get("reason").is_none());
    let history = stage.analyzer.seen().remove(0);
    assert!(history.contains("order") && history.contains("step_49"), "{history}");

    let too_many: Vec<Value> = (0..51).map(|_| event("x")).collect();
    for body in [json!({"events": too_many}), json!({"events": []}), json!({}), json!({"events": [{}]})] {
        ask_playground(stage, &key, &body).await.refused(400, "bad_request");
    }
    let none =
        ask_playground(stage, &key, &json!({"events": [event("x")], "signals": ["unknown"]})).await.json();
    assert_eq!((&none["analyzed"], &none["cost_micros"]), (&json!(false), &json!(0)));
    assert!(none["reason"].is_string());
    stage.analyzer.asked(1).await;
    assert_eq!(stage.charges().await, 1);
    for table in
        ["SELECT count(*) FROM objects", "SELECT count(*) FROM events", "SELECT count(*) FROM answers"]
    {
        assert_eq!(stage.number(table).await, 0, "{table}");
    }
}

async fn questions_are_answered_in_the_wire_format_of_decision_models(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.analyzer.always(Turn::Answer(0.75));
    let body = json!({
        "model": "another",
        "state": {"note": "a state may be JSON"},
        "questions": {
            "is it?": {"type": "noul", "instructions": "Is it?"},
            "and": {"type": "choice", "instructions": {"ask": ["Which?"]}, "criteria": {"b": null, "a": "the first"}},
            "how": {"type": "score", "criteria": ["low", "high"]},
        },
    });
    let reply = ask(stage, &key, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let expected = json!({
        "model": "scripted",
        "answers": {
            "is it?": {"type": "noul", "noul": 0.75},
            "and": {"type": "choice", "choice": "a", "probabilities": {"a": 0.75, "b": 0.25}, "confidence": 0.188_722},
            "how": {"type": "score", "score": 0.25, "probabilities": {"0": 0.75, "1": 0.25},
                    "confidence": 0.188_722, "legend": {"0": "low", "1": "high"}},
        },
        "usage": {"input_tokens": TOKENS.0, "output_tokens": TOKENS.1},
    });
    assert_eq!(reply.json(), expected);
    assert!(stage.analyzer.seen()[0].contains("a state may be JSON"));
    assert_eq!(stage.number("SELECT count(*) FROM objects").await, 0);
    assert_eq!(stage.charges().await, 1);
}

async fn questions_that_cannot_be_asked_are_refused_by_name(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let many = |number: usize| {
        let questions =
            (0..number).map(|id| (id.to_string(), json!({"type": "noul", "instructions": "Is it?"})));
        json!({"state": "x", "questions": questions.collect::<serde_json::Map<_, _>>()})
    };
    assert_eq!(ask(stage, &key, &many(100)).await.status, 200);
    for number in [0, 101] {
        assert!(ask(stage, &key, &many(number)).await.refused(400, "bad_request").contains("questions"));
    }
    let good = json!({"type": "noul", "instructions": "Is it?"});
    let wrong = [
        json!({"type": "score", "criteria": ["only one"]}),
        json!({"type": "choice", "criteria": {"only": null}}),
        json!({"type": "choice"}),
        json!({"type": "noul", "criteria": {"maybe": "x"}}),
        json!({"type": "noul", "instructions": ""}),
        json!({"type": "unknown"}),
    ];
    for question in wrong {
        let body = json!({"state": "x", "questions": {"fine": good, "the_odd_one": question}});
        let message = ask(stage, &key, &body).await.refused(400, "bad_request");
        assert!(message.contains("the_odd_one"), "{message}");
    }
    for body in
        [json!({"questions": {"a": good}}), json!({"state": "x"}), json!({"state": "x", "questions": []})]
    {
        ask(stage, &key, &body).await.refused(400, "bad_request");
    }
    stage.analyzer.asked(1).await;
    assert_eq!(stage.charges().await, 1);
}

#[test]
fn slots_are_counted_over_all_nodes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let analyzer = ScriptedAnalyzer::start().await;
        let url = analyzer.url();
        let settings = [&with_analyzer(&url)[..], &[("AUSPEX_SYNC_LIMIT", "1")]].concat();
        let app = App::start(Backend::Postgres, &settings).await;
        let second = app.second_node(&settings).await;
        let token = app.register("ann@example.com").await;
        let key = app.api_key(&token).await;
        let gate = analyzer.hold(0.5);
        let elsewhere = async {
            analyzer.asked(1).await;
            ingest_and_wait(&second, &key, "user_2", "x").await.refused(429, "rate_limited");
            gate.open();
        };
        let (verdict, ()) = tokio::join!(ingest_and_wait(&app, &key, "user_1", "x"), elsewhere);
        assert_eq!(verdict.status, 200, "{}", verdict.text);
        assert_eq!(ingest_and_wait(&second, &key, "user_2", "x").await.status, 200);
        second.stop().await;
        app.tear_down().await;
    });
}
