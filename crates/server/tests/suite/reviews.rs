//! Reviews: opened by rules, by callers and by chance; claimed by one, resolved with labels, and taken back.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, PASSWORD, Reply};
use crate::labels::answer;
use crate::receiver::Receiver;
use crate::scripted_analyzer::{Scripted, Turn, get, ingest_and_wait, until};
use crate::signer::Signer;

testkit::on_both!(
    a_rule_opens_one_review_and_firing_again_raises_its_priority,
    a_review_is_opened_on_request_once,
    of_fifty_callers_each_gets_another_review,
    a_claim_runs_out_and_is_renewed_by_its_claimer,
    resolving_gives_labels_and_reopening_takes_them_back,
    what_waits_longer_than_a_day_comes_first,
    reviews_are_listed_in_pages_and_counted,
    drawn_objects_are_audited_once_a_month,
    a_share_of_the_objects_is_drawn_however_often_they_are_analyzed,
    an_open_review_of_a_drawn_object_is_an_audit_too,
    labels_of_drawn_objects_are_audits_however_they_are_given,
    a_rule_asks_about_the_signals_in_its_condition,
    audits_are_set_within_bounds,
    endpoints_are_told_if_they_ask,
    reviews_are_one_account_s_and_go_with_their_object,
    what_a_caller_says_is_checked,
);

const REVIEWS: &str = "/v1/reviews";

async fn post(app: &App, key: &Signer, path: &str, body: &Value) -> Reply {
    key.call(app, Method::POST, path, body).await
}

async fn read(app: &App, key: &Signer, path: &str) -> Value {
    let reply = get(app, key, path).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// Opens a review on request.
async fn open(app: &App, key: &Signer, object: &str, queue: &str) -> Value {
    let reply = post(app, key, REVIEWS, &json!({"object_id": object, "queue": queue})).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

fn path(review: &Value, what: &str) -> String {
    format!("{REVIEWS}/{}{what}", review["id"].as_str().unwrap())
}

fn ids(list: &Value) -> Vec<&str> {
    list["reviews"].as_array().unwrap().iter().map(|review| review["id"].as_str().unwrap()).collect()
}

async fn a_rule_opens_one_review_and_firing_again_raises_its_priority(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = json!({"when": "is_scammer > 0.8", "action_type": "review", "cooldown_seconds": 1,
        "action_config": {"queue": "scams"}});
    let rule = post(stage, &key, "/v1/rules", &rule).await;
    assert_eq!(rule.status, 201, "{}", rule.text);
    let rule = rule.json();
    assert_eq!(rule["action_config"], json!({"queue": "scams"}));
    answer(stage, &key, "user_1", 0.9).await;
    let list = read(stage, &key, REVIEWS).await;
    let review = list["reviews"][0].clone();
    // 0.1 from the threshold of 0.8 is a fifth of the half scale; nobody has labelled; there is one version.
    let expected = json!({"id": review["id"], "object_id": "user_1", "queue": "scams", "rule_id": rule["id"], "reason": "rule",
        "status": "open", "signals": ["is_scammer"], "priority": 0.6, "created_at": review["created_at"]});
    assert_eq!(list, json!({"reviews": [expected]}));
    let firing = read(stage, &key, "/v1/rule_firings").await["firings"][0].clone();
    assert_eq!((&firing["status"], &firing["action_type"]), (&json!("dispatched"), &json!("review")));
    assert_eq!(firing["detail"], format!("opened review {}", review["id"].as_str().unwrap()));
    let timeline = read(stage, &key, "/v1/objects/user_1/timeline?kinds=review,firing").await;
    let kinds: Vec<&str> =
        timeline["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["review", "firing"]);
    assert_eq!(timeline["items"][0]["review"], expected);

    stage.advance(Duration::from_secs(2));
    answer(stage, &key, "user_1", 0.95).await;
    let raised = read(stage, &key, &path(&review, "")).await;
    assert_eq!(raised["priority"], 1.567, "closeness 0.7, and a firing more");
    assert_eq!(ids(&read(stage, &key, REVIEWS).await).len(), 1);
    let firing = read(stage, &key, "/v1/rule_firings").await["firings"][0].clone();
    assert_eq!(firing["detail"], format!("raised the priority of review {}", review["id"].as_str().unwrap()));

    // Another rule that fires for the same queue asks about its signals too.
    let other = json!({"when": "trust_score < 2", "action_type": "review",
        "action_config": {"queue": "scams", "signals": ["buyer_intent", "trust_score"]}});
    assert_eq!(post(stage, &key, "/v1/rules", &other).await.status, 201);
    answer(stage, &key, "user_1", 0.95).await;
    let raised = read(stage, &key, &path(&review, "")).await;
    assert_eq!(raised["signals"], json!(["is_scammer", "buyer_intent", "trust_score"]));
    // A rule in shadow opens nothing.
    let shadow = json!({"when": "is_scammer > 0.1", "action_type": "review", "mode": "shadow", "action_config": {"queue": "other"}});
    assert_eq!(post(stage, &key, "/v1/rules", &shadow).await.status, 201);
    answer(stage, &key, "user_2", 0.5).await;
    assert_eq!(ids(&read(stage, &key, "/v1/reviews?queue=other").await), Vec::<&str>::new());
    // Once it is resolved, the next firing opens another one.
    let resolved = post(stage, &key, &path(&review, "/resolve"), &json!({"decision": "fine"})).await;
    assert_eq!(resolved.status, 200, "{}", resolved.text);
    stage.advance(Duration::from_secs(2));
    answer(stage, &key, "user_1", 0.9).await;
    let open = read(stage, &key, "/v1/reviews?status=open&queue=scams").await;
    let of_user: Vec<&Value> =
        open["reviews"].as_array().unwrap().iter().filter(|review| review["object_id"] == "user_1").collect();
    assert!(of_user.len() == 1 && of_user[0]["id"] != review["id"], "{open}");
    stage.settle().await;
}

async fn a_review_is_opened_on_request_once(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer(stage, &key, "user_1", 0.5).await;
    let review = open(stage, &key, "user_1", "odd ones").await;
    assert_eq!((&review["reason"], &review["status"]), (&json!("person"), &json!("open")));
    let signals = read(stage, &key, "/v1/signals").await;
    let keys: Vec<&Value> =
        signals["signals"].as_array().unwrap().iter().map(|signal| &signal["key"]).collect();
    assert_eq!(review["signals"].as_array().unwrap().iter().collect::<Vec<_>>(), keys);
    let again = post(
        stage,
        &key,
        REVIEWS,
        &json!({"object_id": "user_1", "queue": "odd ones", "signals": ["is_scammer"]}),
    )
    .await;
    assert_eq!((again.status.as_u16(), again.json()), (200, review.clone()), "as it was");
    let elsewhere = post(
        stage,
        &key,
        REVIEWS,
        &json!({"object_id": "user_1", "queue": "b", "signals": ["is_scammer", "is_scammer"]}),
    )
    .await;
    assert_eq!((elsewhere.status.as_u16(), &elsewhere.json()["signals"]), (201, &json!(["is_scammer"])));
    post(stage, &key, REVIEWS, &json!({"object_id": "nobody", "queue": "b"})).await.refused(404, "not_found");
    get(stage, &key, "/v1/reviews/01a1e3fc-5a11-7c3d-9e21-00000000000c").await.refused(404, "not_found");
    get(stage, &key, "/v1/reviews/x").await.refused(400, "bad_request");
}

/// Opens reviews of many objects, which nobody analyzes.
async fn crowd(stage: &Scripted, key: &Signer, count: usize) {
    for number in 0..count {
        answer(stage, key, &format!("user_{number}"), 0.5).await;
        open(stage, key, &format!("user_{number}"), "all").await;
    }
}

async fn of_fifty_callers_each_gets_another_review(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    crowd(stage, &key, 50).await;
    let next = json!({"queue": "all"});
    let replies = join_all((0..50).map(|_| post(stage, &key, "/v1/reviews/next", &next))).await;
    let mut claimed = HashSet::new();
    for reply in replies {
        assert_eq!(reply.status, 200, "{}", reply.text);
        let review = reply.json();
        assert_eq!(review["status"], "claimed");
        claimed.insert(review["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(claimed.len(), 50);
    assert_eq!(post(stage, &key, "/v1/reviews/next", &next).await.status, 204);
    assert_eq!(post(stage, &key, "/v1/reviews/next", &json!({"queue": "empty"})).await.status, 204);
}

async fn a_claim_runs_out_and_is_renewed_by_its_claimer(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let (ann, bob) = (stage.api_key(&token).await, stage.api_key(&token).await);
    answer(stage, &ann, "user_1", 0.5).await;
    let review = open(stage, &ann, "user_1", "q").await;
    let claimed = post(stage, &ann, &path(&review, "/claim"), &Value::Null).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    let claimed = claimed.json();
    assert_eq!((&claimed["status"], &claimed["claimed_by"]["kind"]), (&json!("claimed"), &json!("key")));
    for what in ["/claim", "/release", "/resolve"] {
        let body = json!({"decision": "mine"});
        let refused = post(stage, &bob, &path(&review, what), &body).await;
        assert!(refused.text.contains("the review is claimed by"), "{}", refused.text);
        refused.refused(409, "conflict");
    }
    assert_eq!(post(stage, &bob, "/v1/reviews/next", &json!({"queue": "q"})).await.status, 204);
    // Reading it renews the claim for its claimer, and for nobody else.
    stage.advance(Duration::from_mins(6));
    assert_eq!(read(stage, &bob, &path(&review, "")).await["claimed_until"], claimed["claimed_until"]);
    let renewed = read(stage, &ann, &path(&review, "")).await;
    assert!(renewed["claimed_until"].as_str() > claimed["claimed_until"].as_str());
    stage.advance(Duration::from_mins(9));
    assert_eq!(read(stage, &bob, &path(&review, "")).await["status"], "claimed");
    stage.advance(Duration::from_mins(1));
    // At the end of ten minutes it goes to the next.
    let next = post(stage, &bob, "/v1/reviews/next", &json!({"queue": "q"})).await;
    assert_eq!(next.json()["id"], review["id"]);
    post(stage, &ann, &path(&review, "/claim"), &Value::Null).await.refused(409, "conflict");
    // Released, it is open; a person is another claimer than any key.
    let released = post(stage, &bob, &path(&review, "/release"), &Value::Null).await.json();
    assert_eq!((&released["status"], released.get("claimed_by")), (&json!("open"), None));
    let again = post(stage, &bob, &path(&review, "/release"), &Value::Null).await;
    assert_eq!(again.status, 200, "nothing happens");
    let by_person = stage.call(&token, Method::POST, &path(&review, "/claim"), &Value::Null).await.json();
    assert_eq!(by_person["claimed_by"]["name"], "ann@example.com");
    post(stage, &ann, &path(&review, "/claim"), &Value::Null).await.refused(409, "conflict");
}

async fn resolving_gives_labels_and_reopening_takes_them_back(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer(stage, &key, "user_1", 0.5).await;
    let before = json!({"value": false, "note": "before"});
    let before = key.call(stage, Method::PUT, "/v1/objects/user_1/labels/is_scammer", &before).await.json();
    let review = open(stage, &key, "user_1", "q").await;
    // Decision and labels are stored together or not at all.
    for (labels, message) in [
        (json!({"is_scammer": true, "none": true}), "labels.none: there is no such signal"),
        (json!({"is_scammer": "x"}), "labels.is_scammer: `is_scammer` is a yes/no signal: true or false"),
    ] {
        let refused =
            post(stage, &key, &path(&review, "/resolve"), &json!({"decision": "ban", "labels": labels}))
                .await;
        assert_eq!(refused.json()["error"]["message"], message);
        assert_eq!(refused.status, 400);
    }
    assert_eq!(read(stage, &key, "/v1/labels").await, json!({"labels": [before]}));
    assert_eq!(read(stage, &key, &path(&review, "")).await, review);
    stage.advance(Duration::from_secs(1));
    let decision =
        json!({"decision": " ban ", "note": "seen it", "labels": {"is_scammer": true, "trust_score": 0}});
    let resolved = post(stage, &key, &path(&review, "/resolve"), &decision).await;
    assert_eq!(resolved.status, 200, "{}", resolved.text);
    let resolved = resolved.json();
    assert_eq!((&resolved["status"], &resolved["decision"]), (&json!("resolved"), &json!("ban")));
    assert_eq!((&resolved["note"], &resolved["resolved_by"]["kind"]), (&json!("seen it"), &json!("key")));
    let labels = read(stage, &key, "/v1/labels").await;
    let labels = labels["labels"].as_array().unwrap();
    assert_eq!(labels.len(), 2, "the label from before is replaced");
    for label in labels {
        assert_eq!(
            (&label["source"], &label["audit"], &label["note"]),
            (&json!("review"), &json!(false), &json!("seen it"))
        );
    }
    for what in ["/claim", "/release", "/resolve"] {
        post(stage, &key, &path(&review, what), &json!({"decision": "x"})).await.refused(409, "conflict");
    }
    let reopened = post(stage, &key, &path(&review, "/reopen"), &Value::Null).await;
    assert_eq!((reopened.status.as_u16(), reopened.json()), (200, review.clone()), "as it was before");
    assert_eq!(read(stage, &key, "/v1/labels").await, json!({"labels": [before]}));
    post(stage, &key, &path(&review, "/reopen"), &Value::Null).await.refused(409, "conflict");
    // Beside another open one there is no way back, and none after a day.
    post(stage, &key, &path(&review, "/resolve"), &decision).await;
    let other = open(stage, &key, "user_1", "q").await;
    let refused = post(stage, &key, &path(&review, "/reopen"), &Value::Null).await;
    assert!(refused.text.contains("another open review"), "{}", refused.text);
    post(stage, &key, &path(&other, "/resolve"), &json!({"decision": "fine"})).await;
    stage.advance(Duration::from_hours(24) + Duration::from_secs(1));
    let refused = post(stage, &key, &path(&review, "/reopen"), &Value::Null).await;
    assert!(refused.text.contains("more than 24 hours ago"), "{}", refused.text);
    until("what cannot be taken back is forgotten", async || {
        stage.app.sweeper_has_swept().await;
        stage.number("SELECT count(*) FROM reviews WHERE undo IS NOT NULL").await == 0
    })
    .await;
}

async fn what_waits_longer_than_a_day_comes_first(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer(stage, &key, "dull", 1.0).await;
    let dull = open(stage, &key, "dull", "q").await;
    stage.advance(Duration::from_hours(1));
    answer(stage, &key, "close", 0.5).await;
    let close = open(stage, &key, "close", "q").await;
    assert!(close["priority"].as_f64() > dull["priority"].as_f64());
    let by_value = read(stage, &key, REVIEWS).await;
    assert_eq!(ids(&by_value), [close["id"].as_str().unwrap(), dull["id"].as_str().unwrap()]);
    let oldest = read(stage, &key, "/v1/reviews?order=oldest").await;
    assert_eq!(ids(&oldest), [dull["id"].as_str().unwrap(), close["id"].as_str().unwrap()]);
    let next = json!({"queue": "q"});
    let first = post(stage, &key, "/v1/reviews/next", &next).await.json();
    assert_eq!(first["id"], close["id"], "worth most");
    post(stage, &key, &path(&close, "/release"), &Value::Null).await;
    stage.advance(Duration::from_hours(23) + Duration::from_secs(1));
    let first = post(stage, &key, "/v1/reviews/next", &next).await.json();
    assert_eq!(first["id"], dull["id"], "it has waited for a day");
    assert_eq!(post(stage, &key, "/v1/reviews/next", &next).await.json()["id"], close["id"]);
}

async fn reviews_are_listed_in_pages_and_counted(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    crowd(stage, &key, 5).await;
    let first = open(stage, &key, "user_0", "other").await;
    let all = read(stage, &key, "/v1/reviews?order=oldest").await;
    assert_eq!(ids(&all).len(), 6);
    for (path, count) in [
        ("/v1/reviews?", 6),
        ("/v1/reviews?order=oldest&", 6),
        ("/v1/reviews?queue=all&", 5),
        ("/v1/reviews?queue=all&status=open&", 3),
        ("/v1/reviews?status=claimed&order=oldest&", 1),
        ("/v1/reviews?status=resolved&", 1),
        ("/v1/reviews?queue=none&", 0),
    ] {
        if count < 6 && read(stage, &key, "/v1/reviews?status=resolved").await["reviews"] == json!([]) {
            let next = json!({"queue": "all"});
            let claimed = post(stage, &key, "/v1/reviews/next", &next).await.json();
            post(stage, &key, &self::path(&claimed, "/resolve"), &json!({"decision": "fine"})).await;
            assert_eq!(post(stage, &key, "/v1/reviews/next", &next).await.status, 200);
        }
        let whole = read(stage, &key, path).await;
        assert_eq!(ids(&whole).len(), count, "{path}");
        for limit in [1, 2, 4] {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = read(stage, &key, &format!("{path}limit={limit}{cursor}")).await;
                found.extend(page["reviews"].as_array().unwrap().iter().cloned());
                let Some(next) = page["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(json!(found), whole["reviews"], "{path} in pages of {limit}");
        }
    }
    let queues = read(stage, &key, "/v1/reviews/queues").await;
    let oldest = |index: usize| all["reviews"][index]["created_at"].clone();
    let expected = json!({"queues": [
        {"queue": "all", "open": 3, "claimed": 1, "oldest_at": queues["queues"][0]["oldest_at"], "resolved_a_day": 0.14},
        {"queue": "other", "open": 1, "claimed": 0, "oldest_at": first["created_at"], "resolved_a_day": 0.0},
    ]});
    assert_eq!(queues, expected);
    assert!((0..5).map(oldest).any(|at| at == queues["queues"][0]["oldest_at"]));
    let cursor = read(stage, &key, "/v1/reviews?limit=1").await["next_cursor"].as_str().unwrap().to_owned();
    for wrong in [
        format!("/v1/reviews?order=oldest&cursor={cursor}"),
        "/v1/reviews?limit=0".to_owned(),
        "/v1/reviews?status=new".to_owned(),
        "/v1/reviews?order=best".to_owned(),
    ] {
        get(stage, &key, &wrong).await.refused(400, "bad_request");
    }
}

async fn drawn_objects_are_audited_once_a_month(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    let settings = json!({"audit_rate_pct": 10, "audit_queue": "sample"});
    let changed = stage.call(&token, Method::PATCH, "/v1/settings", &settings).await.json();
    assert_eq!((&changed["audit_rate_pct"], &changed["audit_queue"]), (&json!(10.0), &json!("sample")));
    // A share of a tenth cannot be waited for; the database draws everything.
    stage.execute("UPDATE tenants SET audit_rate_pct = 100").await;
    answer(stage, &key, "user_1", 0.5).await;
    let drawn = read(stage, &key, "/v1/reviews?queue=sample").await["reviews"][0].clone();
    assert_eq!((&drawn["reason"], &drawn["object_id"]), (&json!("audit"), &json!("user_1")));
    assert_eq!(drawn["signals"].as_array().unwrap().len(), 3);
    let resolve = json!({"decision": "checked", "labels": {"is_scammer": false}});
    assert_eq!(post(stage, &key, &path(&drawn, "/resolve"), &resolve).await.status, 200);
    let label = read(stage, &key, "/v1/labels").await["labels"][0].clone();
    assert_eq!((&label["audit"], &label["source"]), (&json!(true), &json!("review")));
    stage.advance(Duration::from_hours(29 * 24));
    answer(stage, &key, "user_1", 0.5).await;
    assert_eq!(
        read(stage, &key, "/v1/reviews?status=open").await["reviews"],
        json!([]),
        "at most once in 30 days"
    );
    stage.advance(Duration::from_hours(24) + Duration::from_secs(1));
    answer(stage, &key, "user_1", 0.5).await;
    assert_eq!(ids(&read(stage, &key, "/v1/reviews?status=open").await).len(), 1);
    stage.execute("UPDATE tenants SET audit_rate_pct = 0").await;
    answer(stage, &key, "user_2", 0.5).await;
    assert_eq!(ids(&read(stage, &key, "/v1/reviews?status=open").await).len(), 1, "nothing is drawn at 0");
}

async fn a_share_of_the_objects_is_drawn_however_often_they_are_analyzed(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    stage.execute("UPDATE tenants SET audit_rate_pct = 10").await;
    for number in 0..150 {
        answer(stage, &key, &format!("quiet_{number}"), 0.5).await;
        for _ in 0..3 {
            answer(stage, &key, &format!("busy_{number}"), 0.5).await;
        }
        if number % 25 == 0 {
            // Within the account's requests a minute.
            stage.advance(Duration::from_mins(1));
        }
    }
    // Four standard deviations of a binomial share around 15 of 150, and 30 of 300.
    let quiet = "SELECT count(*) FROM reviews WHERE reason = 'audit' AND object_id LIKE 'quiet_%'";
    let busy = "SELECT count(*) FROM reviews WHERE reason = 'audit' AND object_id LIKE 'busy_%'";
    let (quiet, busy) = (stage.number(quiet).await, stage.number(busy).await);
    assert!((1..=29).contains(&quiet) && (1..=29).contains(&busy), "{quiet} and {busy}");
    assert!((10..=50).contains(&(quiet + busy)), "{quiet} and {busy}");
}

async fn an_open_review_of_a_drawn_object_is_an_audit_too(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule =
        json!({"when": "is_scammer > 0.8", "action_type": "review", "action_config": {"queue": "audit"}});
    assert_eq!(post(stage, &key, "/v1/rules", &rule).await.status, 201);
    stage.execute("UPDATE tenants SET audit_rate_pct = 100").await;
    answer(stage, &key, "user_1", 0.9).await;
    let reviews = read(stage, &key, REVIEWS).await;
    assert_eq!(ids(&reviews).len(), 1);
    let review = &reviews["reviews"][0];
    assert_eq!(review["reason"], "rule", "that is why it was opened");
    assert_eq!(review["signals"].as_array().unwrap().len(), 3, "an audit asks about all signals");
    let resolve = json!({"decision": "checked", "labels": {"is_scammer": true}});
    assert_eq!(post(stage, &key, &path(review, "/resolve"), &resolve).await.status, 200);
    assert_eq!(read(stage, &key, "/v1/labels").await["labels"][0]["audit"], true);
    // It is drawn once in 30 days.
    answer(stage, &key, "user_1", 0.5).await;
    assert_eq!(ids(&read(stage, &key, "/v1/reviews?status=open").await).len(), 0);
}

async fn labels_of_drawn_objects_are_audits_however_they_are_given(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    let put =
        async |object: &str| crate::labels::put(stage, &key, object, "is_scammer", &json!(true)).await.json();
    answer(stage, &key, "undrawn", 0.5).await;
    stage.execute("UPDATE tenants SET audit_rate_pct = 100").await;
    answer(stage, &key, "user_1", 0.5).await;
    answer(stage, &key, "user_2", 0.5).await;
    assert_eq!(
        (&put("undrawn").await["audit"], &put("user_1").await["audit"]),
        (&json!(false), &json!(true))
    );
    let many = json!({"labels": [{"object_id": "user_2", "signal": "is_scammer", "value": true}]});
    assert_eq!(post(stage, &key, "/v1/labels", &many).await.json()["accepted"], 1);
    let of_user_2 = read(stage, &key, "/v1/labels?object_id=user_2").await;
    assert_eq!(of_user_2["labels"][0]["audit"], true);
    for review in read(stage, &key, REVIEWS).await["reviews"].as_array().unwrap() {
        assert_eq!(
            post(stage, &key, &path(review, "/resolve"), &json!({"decision": "done"})).await.status,
            200
        );
    }
    // Later, a label about the object is one of the audit only if it corrects one that was.
    stage.advance(Duration::from_hours(31 * 24));
    let signed_in = crate::login::login(stage, "ann@example.com", PASSWORD).await.json();
    let token = signed_in["token"].as_str().unwrap();
    let correct = async |object: &str| {
        let path = format!("/v1/objects/{object}/labels/is_scammer");
        stage.call(token, Method::PUT, &path, &json!({"value": false})).await.json()
    };
    assert_eq!(
        (&correct("user_1").await["audit"], &correct("undrawn").await["audit"]),
        (&json!(true), &json!(false))
    );
    let other = crate::labels::put(stage, &key, "user_1", "trust_score", &json!(2)).await.json();
    assert_eq!(other["audit"], false, "{other}");
}

async fn a_rule_asks_about_the_signals_in_its_condition(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let rule = json!({"when": "is_scammer > 0.3 or trust_score < 1", "action_type": "review",
        "action_config": {"queue": "scams"}});
    assert_eq!(post(stage, &key, "/v1/rules", &rule).await.status, 201);
    stage.analyzer.then(Turn::Only("noul"));
    let verdict = ingest_and_wait(stage, &key, "user_1", "seen").await;
    assert_eq!(verdict.status, 200, "{}", verdict.text);
    let unanswered = read(stage, &key, "/v1/objects/user_1").await;
    assert!(!unanswered["analysis"].to_string().contains("trust_score"), "{unanswered}");
    stage.analyzer.always(Turn::Only("noul"));
    assert_eq!(
        read(stage, &key, REVIEWS).await["reviews"][0]["signals"],
        json!(["is_scammer", "trust_score"])
    );
}

async fn audits_are_set_within_bounds(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let usual = stage.call(&token, Method::GET, "/v1/settings", &Value::Null).await.json();
    assert_eq!((&usual["audit_rate_pct"], &usual["audit_queue"]), (&json!(0.0), &json!("audit")));
    for (wrong, field) in [
        (json!({"audit_rate_pct": 10.1}), "audit_rate_pct"),
        (json!({"audit_rate_pct": -1}), "audit_rate_pct"),
        (json!({"audit_queue": ""}), "audit_queue"),
    ] {
        let refused = stage.call(&token, Method::PATCH, "/v1/settings", &wrong).await;
        assert!(refused.text.contains(&format!("{field}: ")), "{}", refused.text);
        refused.refused(400, "bad_request");
    }
}

async fn endpoints_are_told_if_they_ask(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    let events = json!(["review.opened", "review.resolved"]);
    let made = post(stage, &key, "/v1/webhooks", &json!({"url": receiver.url(), "events": events})).await;
    assert_eq!(made.json()["endpoint"]["events"], events);
    let usual = post(stage, &key, "/v1/webhooks", &json!({"url": other.url()})).await.json();
    assert_eq!(usual["endpoint"]["events"], json!(["analysis.completed", "rule.triggered"]), "as before");
    answer(stage, &key, "user_1", 0.5).await;
    let review = open(stage, &key, "user_1", "q").await;
    let opened = receiver.got(1).await;
    assert_eq!(opened.header("x-webhook-event"), "review.opened");
    let payload = opened.json();
    assert_eq!((&payload["event"], &payload["review"]), (&json!("review.opened"), &review));
    assert_eq!(payload["occurred_at"], review["created_at"]);
    assert!(payload["tenant_id"].is_string());
    let resolved = post(stage, &key, &path(&review, "/resolve"), &json!({"decision": "fine"})).await.json();
    let told = receiver.got(2).await;
    assert_eq!((&told.json()["event"], &told.json()["review"]), (&json!("review.resolved"), &resolved));
    // Deliveries of the same millisecond have no order.
    stage.advance(Duration::from_millis(1));
    post(stage, &key, &path(&review, "/reopen"), &Value::Null).await;
    assert_eq!(receiver.got(3).await.json()["event"], "review.opened", "it is open again");
    stage.settle().await;
    assert_eq!(other.count(), 0);
    let deliveries = read(stage, &key, "/v1/webhook_deliveries").await;
    assert_eq!(deliveries["deliveries"][0]["event_type"], "review.opened");
}

async fn reviews_are_one_account_s_and_go_with_their_object(stage: &Scripted) {
    let (ann, bob) = (stage.account("ann@example.com").await, stage.account("bob@example.com").await);
    answer(stage, &ann, "user_1", 0.5).await;
    let review = open(stage, &ann, "user_1", "q").await;
    get(stage, &bob, &path(&review, "")).await.refused(404, "not_found");
    for what in ["/claim", "/release", "/resolve", "/reopen"] {
        post(stage, &bob, &path(&review, what), &json!({"decision": "x"})).await.refused(404, "not_found");
    }
    assert_eq!(post(stage, &bob, "/v1/reviews/next", &json!({"queue": "q"})).await.status, 204);
    assert_eq!(read(stage, &bob, REVIEWS).await, json!({"reviews": []}));
    assert_eq!(read(stage, &bob, "/v1/reviews/queues").await, json!({"queues": []}));
    assert_eq!(ann.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    get(stage, &ann, &path(&review, "")).await.refused(404, "not_found");
    assert_eq!(stage.number("SELECT count(*) FROM reviews").await, 0);
}

async fn what_a_caller_says_is_checked(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer(stage, &key, "user_1", 0.5).await;
    let long = "x".repeat(65);
    for (body, field) in [
        (json!({"object_id": "user_1", "queue": ""}), "queue"),
        (json!({"object_id": "user_1", "queue": long}), "queue"),
        (json!({"object_id": "user_1", "queue": " q"}), "queue"),
        (json!({"object_id": "user_1", "queue": "a\u{7}"}), "queue"),
        (json!({"object_id": "user_1", "queue": "q", "signals": []}), "signals"),
        (json!({"object_id": "user_1", "queue": "q", "signals": ["none"]}), "signals[0]"),
    ] {
        let refused = post(stage, &key, REVIEWS, &body).await;
        assert!(refused.text.contains(&format!("\"{field}: ")), "{body}: {}", refused.text);
        refused.refused(400, "bad_request");
    }
    let review = open(stage, &key, "user_1", "q").await;
    for (body, field) in [
        (json!({"decision": " "}), "decision"),
        (json!({"decision": long}), "decision"),
        (json!({"decision": "x", "note": "x".repeat(2_001)}), "note"),
        (json!({"note": "x"}), "decision"),
    ] {
        let refused = post(stage, &key, &path(&review, "/resolve"), &body).await;
        assert!(refused.text.contains(field), "{body}: {}", refused.text);
        assert_eq!(refused.status, 400, "{body}");
    }
    for (config, field) in [
        (json!({}), "action_config.queue"),
        (json!({"queue": ""}), "action_config.queue"),
        (json!({"queue": 1}), "action_config.queue"),
        (json!({"queue": "q", "signals": "is_scammer"}), "action_config.signals"),
        (json!({"queue": "q", "signals": []}), "action_config.signals"),
        (json!({"queue": "q", "signals": ["none"]}), "action_config.signals[0]"),
    ] {
        let rule = json!({"when": "is_scammer > 0.5", "action_type": "review", "action_config": config});
        let refused = post(stage, &key, "/v1/rules", &rule).await;
        assert!(refused.text.contains(&format!("\"{field}: ")), "{config}: {}", refused.text);
        assert_eq!(refused.status, 400);
    }
}
