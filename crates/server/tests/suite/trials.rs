//! Trials: another wording is put to objects that are there, compared with labels, paid for once, and changes nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use analyzer::{Analyzer, BoxFuture, Failure, Inquiry, InquiryAnswers};
use model::{Distribution, SignalType};
use reqwest::Method;
use serde_json::{Value, json};
use store::{Backend, Store};
use testkit::{Stage, TestDatabase};
use tokio::sync::watch;

use crate::app::{App, Reply};
use crate::process::Running;
use crate::receiver::Receiver;
use crate::scripted_analyzer::{
    PRICE_MICROS, ScriptedAnalyzer, Turn, execute, get, number, until, with_analyzer,
};
use crate::signer::Signer;
use crate::webhooks::processes::Client;

testkit::on_both!(
    a_trial_shows_on_labelled_objects_which_wording_is_right,
    labelled_objects_are_read_as_they_were_when_they_were_labelled,
    an_estimate_is_what_a_trial_costs,
    an_estimate_holds_for_uneven_histories,
    a_trial_of_recent_objects_shows_what_changes_side,
    a_cancelled_trial_stops_and_cannot_be_adopted,
    what_comes_back_after_a_trial_was_cancelled_is_neither_kept_nor_charged,
    a_trial_changes_nothing_else,
    trials_go_with_their_signal_and_objects,
    what_is_asked_is_checked,
    a_trial_goes_on_after_its_process_was_killed,
    an_object_that_ends_its_process_is_left_without_an_answer,
    trials_without_money_hold_up_nobody,
    trials_of_a_suspended_account_wait,
);

/// Answers by the wording: one that says "exact" is right about every text, any other says 0.6 or the middle.
struct Worded {
    is_stopped: Arc<AtomicBool>,
    calls: Arc<Calls>,
}

/// The calls so far, and what holds them back.
struct Calls {
    count: AtomicUsize,
    is_held: watch::Sender<bool>,
}

/// Words, whatever their length.
fn tokens(inquiry: &Inquiry<'_>) -> u64 {
    let asked: usize = inquiry.questions.iter().map(model::Question::length).sum();
    (inquiry.state.split_whitespace().count() + asked / 6) as u64
}

impl Analyzer for Worded {
    fn model(&self) -> &'static str {
        "worded"
    }

    fn count_tokens<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Option<u64>> {
        Box::pin(std::future::ready(Some(tokens(&inquiry))))
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        let answer = |question: &model::Question| {
            let is_exact = question.instructions.to_string().contains("exact");
            let weights: Vec<f64> = match (question.kind, is_exact, inquiry.state.contains("fraud")) {
                (SignalType::Noul, true, true) => vec![0.9, 0.1],
                (SignalType::Noul, true, false) => vec![0.1, 0.9],
                (SignalType::Noul, false, _) => vec![0.6, 0.4],
                _ => vec![1.0; question.candidates.len()],
            };
            Distribution::from_weights(&weights).map_err(|_| analyzer::AnswerError::Incomplete)
        };
        let reply = InquiryAnswers {
            model: self.model().to_owned(),
            answers: inquiry.questions.iter().map(answer).collect(),
            input_tokens: tokens(&inquiry),
            output_tokens: 0,
        };
        let busy = self.is_stopped.load(Ordering::SeqCst);
        self.calls.count.fetch_add(1, Ordering::SeqCst);
        let mut is_held = self.calls.is_held.subscribe();
        Box::pin(async move {
            let _ = is_held.wait_for(|is_held| !is_held).await;
            if busy { Err(Failure::Busy) } else { Ok(reply) }
        })
    }
}

struct WordedStage {
    app: App,
    store: Store,
    is_stopped: Arc<AtomicBool>,
    calls: Arc<Calls>,
}

impl Stage for WordedStage {
    async fn set_up(backend: Backend) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let calls = Arc::new(Calls { count: AtomicUsize::new(0), is_held: watch::channel(false).0 });
        let worded = Worded { is_stopped: Arc::clone(&is_stopped), calls: Arc::clone(&calls) };
        let app = App::start_with_analyzer(backend, Arc::new(worded)).await;
        let store = Store::open(app.database_url()).await.unwrap();
        Self { app, store, is_stopped, calls }
    }

    async fn tear_down(self) {
        self.store.close().await;
        self.app.tear_down().await;
    }
}

const TRIALS: &str = "/v1/signals/is_scammer/trials";
const OBJECTS: usize = 12;

async fn post(stage: &WordedStage, key: &Signer, path: &str, body: &Value) -> Reply {
    key.call(&stage.app, Method::POST, path, body).await
}

async fn read(stage: &WordedStage, key: &Signer, path: &str) -> Value {
    let reply = get(&stage.app, key, path).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// An account with objects, every second of which is a fraud and labelled so.
async fn marketplace(stage: &WordedStage) -> Signer {
    let key = stage.app.api_key(&stage.app.register("ann@example.com").await).await;
    for number in 0..OBJECTS {
        let is_fraud = number.is_multiple_of(2);
        let text = if is_fraud { "a fraud, and more of it" } else { "a good deal" };
        let events = json!({"wait": true, "events": [{"type": "message", "content": text}]});
        let object = format!("user_{number:02}");
        let verdict = post(stage, &key, &format!("/v1/objects/{object}/events"), &events).await;
        assert_eq!(verdict.status, 200, "{}", verdict.text);
        let label = crate::labels::put(&stage.app, &key, &object, "is_scammer", &json!(is_fraud)).await;
        assert_eq!(label.status, 200, "{}", label.text);
    }
    key
}

/// Starts a trial and waits for its end.
async fn tried(stage: &WordedStage, key: &Signer, request: &Value) -> Value {
    let started = post(stage, key, TRIALS, request).await;
    assert_eq!(started.status, 202, "{}", started.text);
    let path = format!("{TRIALS}/{}", started.json()["trial"]["id"].as_str().unwrap());
    until("the trial is done", async || read(stage, key, &path).await["status"] == "done").await;
    read(stage, key, &path).await
}

async fn a_trial_shows_on_labelled_objects_which_wording_is_right(stage: &WordedStage) {
    let key = marketplace(stage).await;
    let charges = "SELECT count(*) FROM ledger_entries WHERE batch_id IS NOT NULL";
    let trial = tried(stage, &key, &json!({"instructions": "exact", "over": "labelled"})).await;
    assert_eq!((&trial["total"], &trial["completed"]), (&json!(OBJECTS), &json!(OBJECTS)));
    assert_eq!((&trial["signal"], &trial["version"]), (&json!("is_scammer"), &json!(1)));
    assert_eq!((&trial["instructions"], &trial["over"]), (&json!("exact"), &json!("labelled")));
    assert_eq!(trial["agreement"]["value"], 0.5, "the present wording says yes to all");
    assert_eq!(trial["present"]["accuracy"]["value"], 0.5);
    assert_eq!(trial["proposed"]["accuracy"]["value"], 1.0);
    let difference = &trial["difference"];
    assert_eq!((&difference["accuracy"]["value"], &difference["auc"]["value"]), (&json!(0.5), &json!(0.5)));
    assert!(difference["accuracy"]["low"].as_f64().unwrap() > 0.0, "{difference}");
    assert!(difference["brier"]["high"].as_f64().unwrap() < 0.0, "{difference}");
    let flips = trial["flips"].as_array().unwrap();
    assert_eq!(flips.len(), OBJECTS / 2);
    assert_eq!((&flips[0]["present"]["noul"], &flips[0]["proposed"]["noul"]), (&json!(0.6), &json!(0.1)));
    // Paid once for each object, under the trial's id.
    assert_eq!(number(&stage.store, charges).await, i64::try_from(OBJECTS).unwrap());
    let ledger =
        read(stage, &key, &format!("/v1/billing/ledger?batch_id={}", trial["id"].as_str().unwrap())).await;
    let paid: i64 = ledger["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| -entry["delta_micros"].as_i64().unwrap())
        .sum();
    assert_eq!(trial["cost_micros"], paid);
    let listed = read(stage, &key, TRIALS).await["trials"].clone();
    assert_eq!(listed[0]["id"], trial["id"]);
    assert_eq!(listed[0].get("flips"), None, "figures are those of a single trial");
    // Adopted, it is the next version.
    let adopt = format!("{TRIALS}/{}/adopt", trial["id"].as_str().unwrap());
    let adopted = post(stage, &key, &adopt, &Value::Null).await;
    assert_eq!(adopted.status, 200, "{}", adopted.text);
    assert_eq!(adopted.json()["instructions"], "exact");
    let versions = read(stage, &key, "/v1/signals/is_scammer/versions").await;
    assert_eq!(
        (&versions["versions"][0]["version"], &versions["versions"][0]["instructions"]),
        (&json!(2), &json!("exact"))
    );
}

async fn labelled_objects_are_read_as_they_were_when_they_were_labelled(stage: &WordedStage) {
    let key = marketplace(stage).await;
    // Much happens to two honest objects after they were labelled, fraud too: the summary goes on past the label.
    let much = |text: &str| -> Vec<Value> {
        let text = format!("{text} {}", "and so on ".repeat(50));
        (0..100).map(|_| json!({"type": "message", "content": text})).collect()
    };
    for object in ["user_01", "user_03"] {
        for text in ["a fraud", "a fraud", "something else"] {
            let events = json!({"wait": true, "events": much(text)});
            let verdict = post(stage, &key, &format!("/v1/objects/{object}/events"), &events).await;
            assert_eq!(verdict.status, 200, "{}", verdict.text);
        }
    }
    assert_eq!(number(&stage.store, "SELECT count(*) FROM summaries WHERE through_seq > 1").await, 2);
    let request = json!({"instructions": "exact", "over": "labelled"});
    let trial = tried(stage, &key, &request).await;
    assert_eq!((&trial["total"], &trial["left_out"]), (&json!(OBJECTS), &json!(0)));
    assert_eq!(trial["proposed"]["accuracy"]["value"], 1.0, "{trial}");
    // Without its events, nobody can say any more what stood when it was labelled.
    execute(&stage.store, "DELETE FROM events WHERE object_id = 'user_03' AND seq = 1").await;
    let bytes = "UPDATE storage_tallies SET bytes = bytes - 11 WHERE shard = (SELECT min(shard) FROM storage_tallies)";
    execute(&stage.store, bytes).await;
    let trial = tried(stage, &key, &request).await;
    assert_eq!((&trial["total"], &trial["left_out"]), (&json!(OBJECTS - 1), &json!(1)));
    assert_eq!(trial["proposed"]["accuracy"]["value"], 1.0, "{trial}");
}

async fn an_estimate_is_what_a_trial_costs(stage: &WordedStage) {
    let key = marketplace(stage).await;
    let mut request = json!({"instructions": "exact", "over": "labelled", "limit": 10, "dry_run": true});
    let estimate = post(stage, &key, TRIALS, &request).await;
    assert_eq!(estimate.status, 200, "{}", estimate.text);
    let estimate = estimate.json();
    assert_eq!(estimate["objects"], 10);
    assert_eq!(read(stage, &key, TRIALS).await["trials"], json!([]), "nothing was started");
    request["dry_run"] = json!(false);
    let cost = tried(stage, &key, &request).await["cost_micros"].as_f64().unwrap();
    let estimated = estimate["estimated_cost_micros"].as_f64().unwrap();
    assert!(cost > 0.0 && (estimated / cost - 1.0).abs() < 0.2, "{estimated} and {cost}");
}

/// A few objects have most of the text, in longer words.
async fn an_estimate_holds_for_uneven_histories(stage: &WordedStage) {
    const MANY: usize = 150;
    let key = stage.app.api_key(&stage.app.register("ann@example.com").await).await;
    for number in 0..MANY {
        let text = if number % 25 == 1 {
            "misrepresentation ".repeat(440)
        } else {
            "a deal ".repeat(1 + number * number % 31)
        };
        let events = json!({"wait": true, "events": [{"type": "message", "content": text}]});
        let verdict = post(stage, &key, &format!("/v1/objects/user_{number:03}/events"), &events).await;
        assert_eq!(verdict.status, 200, "{}", verdict.text);
    }
    let mut request = json!({"instructions": "exact", "over": "recent", "limit": MANY, "dry_run": true});
    let estimate = post(stage, &key, TRIALS, &request).await.json();
    assert_eq!(estimate["objects"], MANY);
    request["dry_run"] = json!(false);
    let cost = tried(stage, &key, &request).await["cost_micros"].as_f64().unwrap();
    let estimated = estimate["estimated_cost_micros"].as_f64().unwrap();
    assert!(cost > 0.0 && (estimated / cost - 1.0).abs() < 0.1, "{estimated} and {cost}");
}

async fn a_trial_of_recent_objects_shows_what_changes_side(stage: &WordedStage) {
    let key = marketplace(stage).await;
    let recent = tried(stage, &key, &json!({"instructions": "exact", "over": "recent", "limit": 4})).await;
    assert_eq!((&recent["total"], recent.get("present"), recent.get("difference")), (&json!(4), None, None));
    assert_eq!(recent["agreement"]["value"], 0.5);
    let found = tried(stage, &key, &json!({"instructions": "exact", "over": {"q": "user_0"}})).await;
    assert_eq!((&found["total"], &found["over"]), (&json!(10), &json!({"q": "user_0"})));
    let none = post(stage, &key, TRIALS, &json!({"instructions": "exact", "over": {"q": "nobody"}})).await;
    none.refused(409, "conflict");
    // The other types.
    let intent = "/v1/signals/buyer_intent/trials";
    let criteria = json!({"browsing": null, "buying": null});
    let started = post(stage, &key, intent, &json!({"criteria": criteria, "over": "recent"})).await.json();
    let path = format!("{intent}/{}", started["trial"]["id"].as_str().unwrap());
    until("it is done", async || read(stage, &key, &path).await["status"] == "done").await;
    assert_eq!(read(stage, &key, &path).await["agreement"]["value"], 1.0);
}

async fn a_cancelled_trial_stops_and_cannot_be_adopted(stage: &WordedStage) {
    let key = marketplace(stage).await;
    stage.is_stopped.store(true, Ordering::SeqCst);
    let started =
        post(stage, &key, TRIALS, &json!({"instructions": "exact", "over": "labelled"})).await.json();
    let path = format!("{TRIALS}/{}", started["trial"]["id"].as_str().unwrap());
    post(stage, &key, &format!("{path}/adopt"), &Value::Null).await.refused(409, "conflict");
    for _ in 0..2 {
        let cancelled = key.call(&stage.app, Method::DELETE, &path, &Value::Null).await;
        assert_eq!(cancelled.status, 204, "{}", cancelled.text);
    }
    stage.is_stopped.store(false, Ordering::SeqCst);
    stage.app.advance(std::time::Duration::from_secs(5));
    let trial = read(stage, &key, &path).await;
    assert_eq!((&trial["status"], &trial["completed"]), (&json!("cancelled"), &json!(0)));
    post(stage, &key, &format!("{path}/adopt"), &Value::Null).await.refused(409, "conflict");
    // Another one is not in its way, and goes on where the analyzer was busy.
    stage.is_stopped.store(true, Ordering::SeqCst);
    let started =
        post(stage, &key, TRIALS, &json!({"instructions": "exact", "over": "labelled"})).await.json();
    let path = format!("{TRIALS}/{}", started["trial"]["id"].as_str().unwrap());
    stage.is_stopped.store(false, Ordering::SeqCst);
    until("it is done", async || {
        stage.app.advance(std::time::Duration::from_secs(1));
        read(stage, &key, &path).await["status"] == "done"
    })
    .await;
    assert_eq!(read(stage, &key, &path).await["completed"], OBJECTS);
}

async fn what_comes_back_after_a_trial_was_cancelled_is_neither_kept_nor_charged(stage: &WordedStage) {
    let key = marketplace(stage).await;
    let calls = || stage.calls.count.load(Ordering::SeqCst);
    let before = calls();
    stage.calls.is_held.send_replace(true);
    let request = json!({"instructions": "exact", "over": "labelled"});
    let path = format!(
        "{TRIALS}/{}",
        post(stage, &key, TRIALS, &request).await.json()["trial"]["id"].as_str().unwrap()
    );
    until("the first object is asked about", async || calls() == before + 1).await;
    assert_eq!(key.call(&stage.app, Method::DELETE, &path, &Value::Null).await.status, 204);
    stage.calls.is_held.send_replace(false);
    // The runner takes up the next trial once it has left this one.
    let next = tried(stage, &key, &request).await;
    assert_eq!(next["completed"], OBJECTS);
    assert_eq!(calls(), before + 1 + OBJECTS, "of a cancelled trial no other object is asked about");
    let cancelled = read(stage, &key, &path).await;
    assert_eq!(
        (&cancelled["status"], &cancelled["completed"], &cancelled["cost_micros"]),
        (&json!("cancelled"), &json!(0), &json!(0))
    );
    let ledger = |id: &Value| format!("/v1/billing/ledger?batch_id={}", id.as_str().unwrap());
    assert_eq!(read(stage, &key, &ledger(&cancelled["id"])).await["entries"], json!([]));
    assert_eq!(read(stage, &key, &ledger(&next["id"])).await["entries"].as_array().unwrap().len(), OBJECTS);
}

async fn a_trial_changes_nothing_else(stage: &WordedStage) {
    let key = marketplace(stage).await;
    let receiver = Receiver::start().await;
    assert_eq!(post(stage, &key, "/v1/webhooks", &json!({"url": receiver.url()})).await.status, 201);
    let rule = json!({"when": "is_scammer > 0.8", "action_type": "review", "action_config": {"queue": "q"}});
    assert_eq!(post(stage, &key, "/v1/rules", &rule).await.status, 201);
    let paths =
        ["/v1/objects", "/v1/signals", "/v1/rule_firings", "/v1/reviews", "/v1/objects/user_00/answers"];
    let mut before = Vec::new();
    for path in paths {
        before.push(read(stage, &key, path).await);
    }
    tried(stage, &key, &json!({"instructions": "exact", "over": "labelled"})).await;
    for (path, before) in paths.into_iter().zip(before) {
        assert_eq!(read(stage, &key, path).await, before, "{path}");
    }
    assert_eq!(receiver.count(), 0);
}

async fn trials_go_with_their_signal_and_objects(stage: &WordedStage) {
    let key = marketplace(stage).await;
    tried(stage, &key, &json!({"instructions": "exact", "over": "labelled"})).await;
    let gone = key.call(&stage.app, Method::DELETE, "/v1/objects/user_00", &Value::Null).await;
    assert_eq!(gone.status, 204);
    let rows = "SELECT count(*) FROM trial_objects";
    assert_eq!(number(&stage.store, rows).await, i64::try_from(OBJECTS).unwrap() - 1);
    let gone = key.call(&stage.app, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await;
    assert_eq!(gone.status, 204);
    get(&stage.app, &key, TRIALS).await.refused(404, "not_found");
    until("they are swept", async || {
        stage.app.advance(std::time::Duration::from_mins(11));
        stage.app.sweeper_has_swept().await;
        number(&stage.store, "SELECT count(*) FROM trials").await == 0
    })
    .await;
    assert_eq!(number(&stage.store, rows).await, 0);
}

async fn what_is_asked_is_checked(stage: &WordedStage) {
    let key = marketplace(stage).await;
    for (body, field) in [
        (json!({"over": "labelled"}), "instructions"),
        (json!({"instructions": "exact"}), "over"),
        (json!({"instructions": "exact", "over": "all"}), "over"),
        (json!({"instructions": "exact", "over": {"query": "x"}}), "over"),
        (json!({"instructions": "", "over": "labelled"}), "instructions"),
        (json!({"criteria": [], "over": "labelled"}), "criteria"),
        (json!({"instructions": "exact", "over": "labelled", "limit": 0}), "limit"),
        (json!({"instructions": "exact", "over": "labelled", "limit": 1001}), "limit"),
        (json!({"instructions": "exact", "over": {"q": "x".repeat(1_001)}}), "q"),
    ] {
        let refused = post(stage, &key, TRIALS, &body).await;
        assert!(refused.text.contains(field), "{body}: {}", refused.text);
        assert_eq!(refused.status, 400, "{body}: {}", refused.text);
    }
    let request = json!({"instructions": "exact", "over": "recent"});
    post(stage, &key, "/v1/signals/none/trials", &request).await.refused(404, "not_found");
    let none = format!("{TRIALS}/01a1e3fc-5a11-7c3d-9e21-00000000000c");
    get(&stage.app, &key, &none).await.refused(404, "not_found");
    post(stage, &key, &format!("{none}/adopt"), &Value::Null).await.refused(404, "not_found");
    let other = stage.app.api_key(&stage.app.register("bob@example.com").await).await;
    let trial = tried(stage, &key, &request).await;
    let path = format!("{TRIALS}/{}", trial["id"].as_str().unwrap());
    get(&stage.app, &other, &path).await.refused(404, "not_found");
    other.call(&stage.app, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
}

/// The real binary, killed while the analyzer thinks: what was answered stays, and each object is paid for once.
async fn a_trial_goes_on_after_its_process_was_killed(database: &TestDatabase) {
    const ANSWERED: usize = 5;
    let analyzer = ScriptedAnalyzer::start().await;
    let (directory, url, at) = (tempfile::tempdir().unwrap(), database.url(), analyzer.url());
    let settings = [
        &with_analyzer(&at)[..],
        &[
            ("AUSPEX_DATABASE_URL", url),
            ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ],
    ]
    .concat();
    let service = Running::start(&directory, &settings);
    let client = Client::register(&service).await;
    for number in 0..OBJECTS {
        let events = json!({"wait": true, "events": [{"type": "message", "content": "Is it still there?"}]});
        client.post(&service, &format!("/v1/objects/user_{number:02}/events"), &events).await;
    }
    (0..ANSWERED).for_each(|_| analyzer.then(Turn::Answer(0.9)));
    analyzer.always(Turn::Silence);
    client.post(&service, TRIALS, &json!({"instructions": "exact", "over": "recent"})).await;
    let trial = async |service: &Running| {
        let listed: Value = serde_json::from_str(&client.text(service, TRIALS).await).unwrap();
        listed["trials"][0].clone()
    };
    until("some are answered", async || trial(&service).await["completed"] == ANSWERED).await;
    until("the next is asked about", async || analyzer.count() > OBJECTS + ANSWERED).await;
    service.signal("-KILL");
    drop(service);
    let store = Store::open(url).await.unwrap();
    crate::books::execute(&store, "UPDATE trials SET lease_until = created_at").await;
    analyzer.always(Turn::Answer(0.9));
    let service = Running::start(&directory, &settings);
    until("the trial is done", async || trial(&service).await["status"] == "done").await;
    let trial = trial(&service).await;
    let objects = i64::try_from(OBJECTS).unwrap();
    assert_eq!(
        (&trial["completed"], &trial["cost_micros"]),
        (&json!(OBJECTS), &json!(objects * PRICE_MICROS))
    );
    let charges = "SELECT count(*) FROM ledger_entries WHERE batch_id IS NOT NULL";
    assert_eq!(number(&store, charges).await, objects, "each object is paid for once");
    assert!(service.stop().0);
    store.close().await;
}

/// The real binary, killed in the middle of the same object again and again.
async fn an_object_that_ends_its_process_is_left_without_an_answer(database: &TestDatabase) {
    let analyzer = ScriptedAnalyzer::start().await;
    let (directory, url, at) = (tempfile::tempdir().unwrap(), database.url(), analyzer.url());
    let settings = [
        &with_analyzer(&at)[..],
        &[
            ("AUSPEX_DATABASE_URL", url),
            ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ],
    ]
    .concat();
    let mut service = Running::start(&directory, &settings);
    let client = Client::register(&service).await;
    for object in ["user_a", "user_b", "user_c"] {
        let events = json!({"wait": true, "events": [{"type": "message", "content": object}]});
        client.post(&service, &format!("/v1/objects/{object}/events"), &events).await;
    }
    analyzer.then(Turn::Answer(0.9));
    analyzer.always(Turn::Silence);
    client.post(&service, TRIALS, &json!({"instructions": "exact", "over": "recent"})).await;
    let store = Store::open(url).await.unwrap();
    for kills in 1..=5 {
        until("the second object is asked about", async || analyzer.count() == 4 + kills).await;
        assert!(analyzer.seen()[3 + kills].contains("user_b"), "{:?}", analyzer.seen());
        service.signal("-KILL");
        drop(service);
        crate::books::execute(&store, "UPDATE trials SET lease_until = created_at").await;
        if kills == 5 {
            analyzer.always(Turn::Answer(0.9));
        }
        service = Running::start(&directory, &settings);
    }
    let trial = async || {
        let listed: Value = serde_json::from_str(&client.text(&service, TRIALS).await).unwrap();
        listed["trials"][0].clone()
    };
    until("the trial is done", async || trial().await["status"] == "done").await;
    assert_eq!(
        (&trial().await["completed"], &trial().await["cost_micros"]),
        (&json!(3), &json!(2 * PRICE_MICROS))
    );
    let unanswered = "SELECT count(*) FROM trial_objects WHERE object_id = 'user_b' AND present IS NULL";
    assert_eq!(number(&store, unanswered).await, 1);
    analyzer.asked(4 + 5 + 1).await;
    assert!(service.stop().0);
    store.close().await;
}

/// More trials than are looked at in a round wait for money; those of another account go on, and a credit wakes them.
async fn trials_without_money_hold_up_nobody(stage: &WordedStage) {
    let request = json!({"instructions": "exact", "over": "recent"});
    let account = async |name: &str| {
        let token = stage.app.register(&format!("{name}@example.com")).await;
        let key = stage.app.api_key(&token).await;
        let events = json!({"wait": true, "events": [{"type": "message", "content": "a good deal"}]});
        let verdict = post(stage, &key, "/v1/objects/user_1/events", &events).await;
        assert_eq!(verdict.status, 200, "{}", verdict.text);
        (key, token)
    };
    let start = async |key: &Signer| {
        let started = post(stage, key, TRIALS, &request).await;
        assert_eq!(started.status, 202, "{}", started.text);
    };
    let (rich, token) = account("rich").await;
    let mut poor = Vec::new();
    for name in ["ann", "bob", "cyd", "dan"] {
        poor.push(account(name).await.0);
    }
    stage.is_stopped.store(true, Ordering::SeqCst);
    stage.app.empty_balances().await;
    for key in &poor {
        for _ in 0..5 {
            start(key).await;
        }
    }
    stage.is_stopped.store(false, Ordering::SeqCst);
    stage.app.advance(std::time::Duration::from_secs(1));
    let tenant = model::TenantId(crate::admin::tenant_of(&stage.app, &token).await.parse().unwrap());
    stage.app.service().billing.balances.adjust(tenant, 100, None).await.unwrap();
    start(&rich).await;
    let is_done =
        async |key: &Signer| read(stage, key, TRIALS).await["trials"].to_string().contains("\"done\"");
    until("the trial with money is done", async || {
        stage.app.advance(std::time::Duration::from_millis(200));
        is_done(&rich).await
    })
    .await;
    let waiting = "SELECT count(*) FROM trials WHERE status = 'running'";
    assert_eq!(number(&stage.store, waiting).await, 20);
    // Nobody waits for the clock: the credit itself lets them go on.
    stage.app.credit_everybody(100).await;
    until("all are done", async || number(&stage.store, waiting).await == 0).await;
}

/// Nothing is asked or charged for an account that is shut out; its trial goes on afterwards.
async fn trials_of_a_suspended_account_wait(stage: &WordedStage) {
    let token = stage.app.register("ann@example.com").await;
    let key = stage.app.api_key(&token).await;
    let other = stage.app.api_key(&stage.app.register("bob@example.com").await).await;
    for key in [&key, &other] {
        let events = json!({"wait": true, "events": [{"type": "message", "content": "a good deal"}]});
        let verdict = post(stage, key, "/v1/objects/user_1/events", &events).await;
        assert_eq!(verdict.status, 200, "{}", verdict.text);
    }
    stage.is_stopped.store(true, Ordering::SeqCst);
    for key in [&key, &other] {
        let started = post(stage, key, TRIALS, &json!({"instructions": "exact", "over": "recent"})).await;
        assert_eq!(started.status, 202, "{}", started.text);
    }
    let tenant = model::TenantId(crate::admin::tenant_of(&stage.app, &token).await.parse().unwrap());
    stage.app.service().accounts.closure.suspend(tenant).await.unwrap();
    stage.is_stopped.store(false, Ordering::SeqCst);
    until("the other account's trial is done", async || {
        stage.app.advance(std::time::Duration::from_millis(200));
        read(stage, &other, TRIALS).await["trials"][0]["status"] == "done"
    })
    .await;
    assert_eq!(number(&stage.store, "SELECT count(*) FROM trials WHERE status = 'running'").await, 1);
    stage.app.service().accounts.closure.resume(tenant).await.unwrap();
    until("the trial goes on", async || {
        stage.app.advance(std::time::Duration::from_secs(2));
        number(&stage.store, "SELECT count(*) FROM trials WHERE status = 'running'").await == 0
    })
    .await;
}
