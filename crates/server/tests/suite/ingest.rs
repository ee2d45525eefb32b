//! From an event to an answer: recording, debounce, verdicts, reads.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, Reply};
use crate::signer::Signer;

testkit::on_both!(
    events_are_recorded_and_analyzed_once_activity_settles,
    a_burst_is_one_analysis_and_never_waits_for_ever,
    a_caller_who_waits_gets_a_verdict,
    a_repeated_request_records_nothing_again,
    bad_events_name_their_place_and_record_nothing,
    objects_are_listed_in_each_sort_by_cursor,
    objects_are_found_by_their_answers,
    object_reads_are_cached_until_something_changes,
    an_object_can_be_deleted_with_all_its_traces,
    an_empty_balance_refuses_before_recording,
    ids_may_need_escaping,
);

async fn stage(app: &App) -> Signer {
    let token = app.register("ann@example.com").await;
    app.api_key(&token).await
}

fn event(name: &str) -> Value {
    json!({"type": "event", "name": name})
}

async fn send(app: &App, key: &Signer, object: &str, body: &Value) -> Reply {
    key.call(app, Method::POST, &format!("/v1/objects/{object}/events"), body).await
}

async fn get(app: &App, key: &Signer, path: &str) -> Reply {
    key.call(app, Method::GET, path, &Value::Null).await
}

/// Analyses charged so far, as the usage would count them: one line of the overview is enough here.
async fn analyzed(app: &App, key: &Signer) -> Value {
    get(app, key, "/v1/overview").await.json()["analyzed_pct"].clone()
}

async fn events_are_recorded_and_analyzed_once_activity_settles(app: &App) {
    let key = stage(app).await;
    let body = json!({"object_type": "user", "events": [
        {"type": "event", "name": "signup", "metadata": {"name": "Bea", "plan": "free"}},
        {"type": "message", "content": "Hello, is this still available?"},
    ]});
    let reply = send(app, &key, "user_1", &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    assert_eq!(
        reply.json(),
        json!({"object_id": "user_1", "accepted": 2, "analysis_status": "scheduled", "analysis_delay_ms": 3000})
    );
    let object = get(app, &key, "/v1/objects/user_1").await.json();
    assert_eq!(object["event_count"], 2);
    assert_eq!(object["analysis"], json!([]));
    assert_eq!(object["pending"], json!(["buyer_intent", "is_scammer", "trust_score"]));

    app.advance(Duration::from_secs(3));
    app.settle().await;
    let object = get(app, &key, "/v1/objects/user_1").await.json();
    assert_eq!(object["pending"], json!([]));
    let kinds: Vec<&str> = object["analysis"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["choice", "noul", "score"]);
    let events = get(app, &key, "/v1/objects/user_1/events").await.json();
    assert_eq!(events["events"].as_array().unwrap().len(), 2);
    assert_eq!(events["events"][1]["metadata"], json!({"name": "Bea", "plan": "free"}));
    let overview = get(app, &key, "/v1/overview").await.json();
    assert_eq!(
        (&overview["objects"], &overview["events_today"], &overview["signals"]),
        (&json!(1), &json!(2), &json!(3))
    );
    assert_eq!(overview["analyzed_pct"], 1.0);
    assert_eq!(overview["categories"], json!([{"name": "user", "count": 1}]));
    let first = json!({"date": "2026-01-01", "objects": 1, "flagged": 0, "firings": 0});
    assert_eq!(overview["days"], json!([first]));
    app.advance(Duration::from_mins(24 * 60 + 1));
    let overview = get(app, &key, "/v1/overview").await.json();
    assert_eq!(
        overview["days"],
        json!([first, {"date": "2026-01-02", "objects": 0, "flagged": 0, "firings": 0}])
    );
    assert_eq!((&overview["events_today"], &overview["events_yesterday"]), (&json!(0), &json!(2)));
    app.advance(Duration::from_hours(24));
    assert_eq!(get(app, &key, "/v1/overview").await.json()["events_yesterday"], 0);
}

async fn a_burst_is_one_analysis_and_never_waits_for_ever(app: &App) {
    let key = stage(app).await;
    // An event every two seconds never leaves three quiet ones: the analysis comes thirty seconds after the first.
    for second in (0..30).step_by(2) {
        assert_eq!(analyzed(app, &key).await, 0.0, "after {second} s");
        assert_eq!(send(app, &key, "busy", &json!({"events": [event("click")]})).await.status, 202);
        app.advance(Duration::from_secs(2));
    }
    app.settle().await;
    assert_eq!(analyzed(app, &key).await, 1.0);
    let state = get(app, &key, "/v1/objects/busy/state").await.json();
    assert_eq!(state["last_analyzed_at"], "2026-01-01T00:00:30.000000Z");
    assert_eq!(state["compacted_events"], 0);
}

async fn a_caller_who_waits_gets_a_verdict(app: &App) {
    let key = stage(app).await;
    let reply = send(app, &key, "user_1", &json!({"events": [event("signup")], "wait": true})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let verdict = reply.json();
    assert_eq!(verdict["accepted"], 1);
    assert_eq!(verdict["analyzed"], true);
    assert_eq!(verdict["history_included"], true);
    assert_eq!(verdict["answers"].as_array().unwrap().len(), 3);
    let object = get(app, &key, "/v1/objects/user_1").await.json();
    assert_eq!(object["pending"], json!([]), "a verdict's answers are the object's latest");

    let only = json!({"events": [event("x")], "wait": true, "signals": ["is_scammer", "unknown"], "include_history": false});
    let verdict = send(app, &key, "user_1", &only).await.json();
    assert_eq!(verdict["answers"].as_array().unwrap().len(), 1);
    assert_eq!(verdict["history_included"], false);
    let none = json!({"events": [event("x")], "wait": true, "signals": ["unknown"]});
    let verdict = send(app, &key, "user_1", &none).await.json();
    assert_eq!((&verdict["analyzed"], &verdict["answers"]), (&json!(false), &json!([])));
    assert!(verdict["reason"].is_string());
}

async fn a_repeated_request_records_nothing_again(app: &App) {
    let key = stage(app).await;
    let with_key = async |object: &str, idempotency: &str, body: &Value| {
        let path = format!("/v1/objects/{object}/events");
        let token = key.sign(app.now(), &Method::POST, &path);
        let request =
            app.request(Method::POST, &path).bearer_auth(token).header("idempotency-key", idempotency);
        app.send(request.json(body)).await
    };
    let body = json!({"events": [event("a"), event("b")]});
    let first = with_key("user_1", "k1", &body).await;
    assert_eq!((first.status.as_u16(), first.header("idempotent-replayed")), (202, ""));
    let again = with_key("user_1", "k1", &json!({"events": [event("other")]})).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (202, "true"));
    assert_eq!(again.json(), first.json(), "answered like the first");
    with_key("user_2", "k1", &body).await.refused(422, "idempotency_key_reused");
    with_key("user_1", "k1", &json!({"events": [event("a")], "wait": true})).await.refused(409, "conflict");
    let waits = json!({"events": [event("a")], "wait": true});
    assert_eq!(with_key("user_1", "k2", &waits).await.status, 200);
    with_key("user_1", "k2", &waits).await.refused(409, "conflict");
    assert_eq!(get(app, &key, "/v1/objects/user_1").await.json()["event_count"], 3);
    with_key("user_1", "", &body).await.refused(400, "bad_request");
    with_key("user_1", &"x".repeat(256), &body).await.refused(400, "bad_request");

    app.advance(Duration::from_hours(24));
    let forgotten = with_key("user_1", "k1", &body).await;
    assert_eq!(forgotten.header("idempotent-replayed"), "", "keys are remembered 24 hours");
    let racing = futures_util::future::join_all((0..20).map(|_| with_key("user_9", "race", &body))).await;
    assert!(racing.iter().all(|reply| reply.status == 202));
    assert_eq!(racing.iter().filter(|reply| reply.header("idempotent-replayed").is_empty()).count(), 1);
    assert_eq!(get(app, &key, "/v1/objects/user_9").await.json()["event_count"], 2);
    app.advance(Duration::from_secs(3));
}

async fn bad_events_name_their_place_and_record_nothing(app: &App) {
    let key = stage(app).await;
    let long = "x".repeat(256);
    for (body, place) in [
        (json!({"events": []}), "events"),
        (json!({"events": vec![event("x"); 501]}), "events"),
        (json!({"events": [event("fine"), {"type": "event", "name": long}]}), "events[1].name"),
        (json!({"events": [{"type": "nothing"}]}), "events[0].type"),
        (json!({"events": [{"type": "event", "occurred_at": "yesterday"}]}), "events[0].occurred_at"),
        (json!({"events": [{"type": "event", "metadata": []}]}), "events[0].metadata"),
        (json!({"events": [event("x")], "object_type": ""}), "object_type"),
        (json!({}), "events"),
    ] {
        let message = send(app, &key, "user_1", &body).await.refused(400, "bad_request");
        assert!(message.contains(place), "{message}");
    }
    get(app, &key, "/v1/objects/user_1").await.refused(404, "not_found");
    assert_eq!(get(app, &key, "/v1/objects/user_1/events").await.json(), json!({"events": []}));
}

async fn objects_are_listed_in_each_sort_by_cursor(app: &App) {
    let key = stage(app).await;
    for number in 0..7 {
        let body = json!({"events": [{"type": "message", "content": format!("scam fraud deceive {number}")}], "wait": number % 2 == 0});
        send(app, &key, &format!("user_{number}"), &body).await;
        app.advance(Duration::from_secs(1));
    }
    app.advance(Duration::from_secs(10));
    app.settle().await;
    for sort in ["recent", "flagged", "trust"] {
        let whole = get(app, &key, &format!("/v1/objects?sort={sort}")).await.json();
        assert_eq!(whole["objects"].as_array().unwrap().len(), 7);
        assert!(whole.get("next_cursor").is_none(), "the last page has none");
        let mut paged = Vec::new();
        let mut path = format!("/v1/objects?sort={sort}&limit=2");
        loop {
            let page = get(app, &key, &path).await.json();
            paged.extend(page["objects"].as_array().unwrap().clone());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/objects?sort={sort}&limit=2&cursor={cursor}");
        }
        assert_eq!(&json!(paged), &whole["objects"], "{sort}");
    }
    let cursor =
        get(app, &key, "/v1/objects?limit=2").await.json()["next_cursor"].as_str().unwrap().to_owned();
    get(app, &key, &format!("/v1/objects?sort=trust&cursor={cursor}")).await.refused(400, "bad_request");
    for query in ["cursor=nonsense", "limit=0", "limit=201", "limit=x", "offset=-1", "sort=best"] {
        get(app, &key, &format!("/v1/objects?{query}")).await.refused(400, "bad_request");
    }
    let found = get(app, &key, "/v1/objects?q=USER_3").await.json();
    assert_eq!(found["objects"][0]["object_id"], "user_3");
    assert_eq!(found["objects"].as_array().unwrap().len(), 1);
}

async fn objects_are_found_by_their_answers(app: &App) {
    let key = stage(app).await;
    for number in 0..4 {
        let only = if number < 2 {
            json!(["is_scammer"])
        } else {
            json!(["is_scammer", "trust_score", "buyer_intent"])
        };
        let body = json!({"events": [event("view")], "wait": true, "signals": only});
        assert_eq!(send(app, &key, &format!("user_{number}"), &body).await.status, 200);
    }
    let found = async |query: &str| {
        let list = get(app, &key, &format!("/v1/objects?{query}")).await.json();
        assert!(list.get("next_cursor").is_none(), "signal queries page by offset");
        let ids = list["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|object| object["object_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(found("q=is_scammer%3E%3D0").await.len(), 4);
    assert_eq!(found("q=is_scammer%3E%3D0%20and%20trust_score%20%3C%3D%202").await, ["user_2", "user_3"]);
    assert_eq!(found("q=is_scammer%3E%3D0&limit=2&offset=2").await, ["user_2", "user_3"]);
    assert_eq!(found("q=buyer_intent!%3Dnothing").await, ["user_2", "user_3"], "no answer never matches");
    assert!(found("q=is_scammer%3E99").await.is_empty());
    assert_eq!(found("q=unknown%3E1%2Cis_scammer%3C1").await.len(), 4, "what names no signal is skipped");
    assert!(found("q=unknown%3E1").await.is_empty(), "and alone it is a text that no id contains");
}

async fn object_reads_are_cached_until_something_changes(app: &App) {
    let key = stage(app).await;
    send(app, &key, "user_1", &json!({"events": [event("a")], "wait": true})).await;
    let read = async || {
        let reply = get(app, &key, "/v1/objects/user_1").await;
        (reply.json()["event_count"].as_i64().unwrap(), reply.header("x-cache").to_owned())
    };
    assert_eq!(read().await, (1, "MISS".to_owned()));
    assert_eq!(read().await, (1, "HIT".to_owned()));
    send(app, &key, "user_1", &json!({"events": [event("b")]})).await;
    assert_eq!(read().await, (2, "MISS".to_owned()), "an ingest is seen at once");
    app.advance(Duration::from_secs(3));
    app.settle().await;
    assert_eq!(read().await, (2, "MISS".to_owned()), "and so is a finished analysis");
    let off = json!({"type": "noul", "instructions": "Is it?", "enabled": false});
    assert_eq!(key.call(app, Method::PUT, "/v1/signals/is_scammer", &off).await.status, 200);
    let object = get(app, &key, "/v1/objects/user_1").await.json();
    assert_eq!(object["analysis"].as_array().unwrap().len(), 2, "answers of disabled signals are hidden");
}

async fn an_object_can_be_deleted_with_all_its_traces(app: &App) {
    let key = stage(app).await;
    send(app, &key, "user_1", &json!({"events": [event("a")], "wait": true})).await;
    send(app, &key, "user_1", &json!({"events": [event("b")]})).await;
    let delete = async || key.call(app, Method::DELETE, "/v1/objects/user_1", &Value::Null).await;
    assert_eq!(delete().await.status, 204);
    delete().await.refused(404, "not_found");
    get(app, &key, "/v1/objects/user_1").await.refused(404, "not_found");
    let overview = get(app, &key, "/v1/overview").await.json();
    assert_eq!(
        (&overview["objects"], &overview["flagged"], &overview["categories"]),
        (&json!(0), &json!(0), &json!([]))
    );
    assert!(overview["signal_summary"].as_array().unwrap().iter().all(|signal| signal["total"] == 0));
    app.advance(Duration::from_mins(1));
    app.settle().await;
    send(app, &key, "user_1", &json!({"events": [event("c")], "wait": true})).await;
    assert_eq!(get(app, &key, "/v1/objects/user_1").await.json()["event_count"], 1, "it begins anew");
}

async fn an_empty_balance_refuses_before_recording(app: &App) {
    let key = stage(app).await;
    app.empty_balances().await;
    for wait in [false, true] {
        let body = json!({"events": [event("a")], "wait": wait});
        let reply = send(app, &key, "user_1", &body).await;
        reply.refused(402, "payment_required");
        assert_eq!(reply.header("events-recorded"), "");
    }
    get(app, &key, "/v1/objects/user_1").await.refused(404, "not_found");
    let play = key.call(app, Method::POST, "/v1/playground", &json!({"events": [event("a")]})).await;
    play.refused(402, "payment_required");
}

async fn ids_may_need_escaping(app: &App) {
    let key = stage(app).await;
    for (escaped, decoded) in
        [("a%2Fb", "a/b"), ("%F0%9F%98%80%20x", "😀 x"), ("..%2f..", "../.."), ("50%25", "50%")]
    {
        let path = format!("/v1/objects/{escaped}/events");
        let token = key.sign(app.now(), &Method::POST, &format!("/v1/objects/{decoded}/events"));
        let reply =
            app.call(&token, Method::POST, &path, &json!({"events": [event("a")], "wait": true})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.json()["object_id"], decoded);
    }
    let token = key.sign(app.now(), &Method::POST, "/v1/objects/\u{1}/events");
    app.call(&token, Method::POST, "/v1/objects/%01/events", &json!({"events": [event("a")]}))
        .await
        .refused(400, "bad_request");
}
