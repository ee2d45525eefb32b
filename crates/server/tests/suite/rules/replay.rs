//! Replays: what a rule would have done is what a live rule has done.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use analyzer::{Analyzer, AnswerError, BoxFuture, Failure, Inquiry, InquiryAnswers};
use futures_util::future::join_all;
use model::api::IngestRequest;
use model::{Distribution, TenantId, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use store::actions::firings;
use store::actions::firings::FiringFilter;
use store::{Backend, Conn, Store};
use testkit::Stage;

use super::{id, ingest_answered, mailing, make};
use crate::admin::tenant_of;
use crate::app::{App, Reply};
use crate::labels;
use crate::scripted_analyzer::{Scripted, Settings, get, until};
use crate::signer::Signer;

testkit::on_both!(
    live_firings_are_replayed_firings,
    a_replay_says_when_where_and_what_else,
    the_state_at_the_start_comes_from_before,
    labels_say_how_right_a_rule_would_have_been,
    labels_count_where_the_object_was_analyzed_in_the_time,
    a_long_history_is_replayed_in_the_background,
    a_history_that_is_not_kept_is_incomplete,
    what_was_not_kept_stays_unknown,
    a_refusal_says_why,
);

/// Answers by chance, but the same history always alike; one answer in eight is missing.
struct ByChance;

impl Analyzer for ByChance {
    fn model(&self) -> &'static str {
        "by-chance"
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        let answer = |(number, candidates): (usize, usize)| {
            let mut hasher = DefaultHasher::new();
            (inquiry.state, number).hash(&mut hasher);
            let chance = hasher.finish();
            if chance.is_multiple_of(8) && number > 0 {
                return Err(AnswerError::Incomplete);
            }
            let weight =
                |index: usize| f64::from(u16::try_from(chance >> (8 * (index % 7)) & 0xff).unwrap()) + 1.0;
            let weights: Vec<f64> = (0..candidates).map(weight).collect();
            Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
        };
        let asked = inquiry.questions.iter().map(|question| question.candidates.len()).enumerate();
        let reply = InquiryAnswers {
            model: self.model().to_owned(),
            answers: asked.map(answer).collect(),
            input_tokens: 100,
            output_tokens: 3,
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

struct ByChanceStage {
    app: App,
    store: Store,
}

impl Stage for ByChanceStage {
    async fn set_up(backend: Backend) -> Self {
        let app = App::start_with_analyzer(backend, Arc::new(ByChance)).await;
        let store = Store::open(app.database_url()).await.unwrap();
        Self { app, store }
    }

    async fn tear_down(self) {
        self.store.close().await;
        self.app.tear_down().await;
    }
}

async fn replay(app: &App, key: &Signer, body: &Value) -> Reply {
    key.call(app, Method::POST, "/v1/rules/replay", body).await
}

async fn replayed(app: &App, key: &Signer, body: &Value) -> Value {
    let reply = replay(app, key, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn shadow(when: &str, cooldown: i64) -> Value {
    let mut rule = mailing(when);
    (rule["mode"], rule["cooldown_seconds"]) = (json!("shadow"), json!(cooldown));
    rule
}

const OBJECTS: usize = 200;
const ROUNDS: u64 = 50;
/// A round is as long as the debounce.
const ROUND: Duration = Duration::from_secs(3);
/// Rounds in which some objects are asked about by callers who wait, at the time at which the round begins.
const VERDICT_ROUNDS: [u64; 5] = [3, 13, 14, 36, 44];
/// Every so many objects have such a caller: fewer at once than an account may have.
const OBJECTS_PER_VERDICT: usize = 40;
/// Rounds after which everything is analyzed again, at the time at which the next one begins.
const BULK_ROUNDS: [u64; 2] = [20, 37];

/// Events of a round: now and up to two days late, with names.
fn request(round: u64, object: usize, now: Timestamp) -> IngestRequest {
    let event = |number: u64| {
        let chance = round * 7 + number * 13 + u64::try_from(object).unwrap() * 5;
        let late = if chance.is_multiple_of(3) { chance * 977 % 172_800 } else { 0 };
        let name = if chance.is_multiple_of(2) { "reported" } else { "seen" };
        let at = now - Duration::from_secs(late);
        json!({"type": "event", "name": name, "occurred_at": at.to_string()})
    };
    let events: Vec<Value> = (0..=round % 2).map(event).collect();
    serde_json::from_value(json!({"events": events})).unwrap()
}

async fn live_firings_are_replayed_firings(stage: &ByChanceStage) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let tenant = TenantId(tenant_of(app, &token).await.parse().unwrap());
    let mut rules = Vec::new();
    for (when, cooldown) in [
        ("is_scammer > 0.7", 0),
        ("is_scammer > 0.6 or not (trust_score >= 1, buyer_intent = browsing)", 20),
        ("events(reported, 1h) >= 3 and not is_scammer > 0.9", 0),
        ("events(seen, 26h) > 12 or age > 1m, buyer_intent != browsing", 45),
    ] {
        rules.push((make(app, &key, &shadow(when, cooldown)).await, when, cooldown));
    }
    let start = app.now();
    let service = app.service();
    for round in 0..ROUNDS {
        let now = app.now();
        let waits =
            |object: usize| VERDICT_ROUNDS.contains(&round) && object.is_multiple_of(OBJECTS_PER_VERDICT);
        let sent = (0..OBJECTS).map(|object| {
            let request = request(round, object, now);
            let (service, key) = (Arc::clone(&service), &key);
            async move {
                let object_id = format!("object-{object}");
                if waits(object) {
                    let body = json!({"events": request.events, "wait": true});
                    let path = format!("/v1/objects/{object_id}/events");
                    key.call(app, Method::POST, &path, &body).await.status == 200
                } else {
                    service.objects.ingest.accept(tenant, &object_id, request, None).await.is_ok()
                }
            }
        });
        assert!(join_all(sent).await.into_iter().all(|was_taken| was_taken));
        app.advance(ROUND);
        app.settle().await;
        if BULK_ROUNDS.contains(&round) {
            let started = key.call(app, Method::POST, "/v1/analyze", &json!({})).await;
            assert_eq!(started.status, 202, "{}", started.text);
            app.settle().await;
        }
    }
    let verdicts = VERDICT_ROUNDS.len() * OBJECTS / OBJECTS_PER_VERDICT;
    for (count, expected) in [
        (
            "SELECT count(*) FROM answer_history WHERE source = 'async'",
            OBJECTS * usize::try_from(ROUNDS).unwrap() - verdicts,
        ),
        ("SELECT count(*) FROM answer_history WHERE source = 'sync'", verdicts),
        ("SELECT count(*) FROM answer_history WHERE source = 'bulk'", BULK_ROUNDS.len() * OBJECTS),
    ] {
        let analyses = crate::scripted_analyzer::number(&stage.store, count).await;
        assert_eq!(usize::try_from(analyses).unwrap(), expected, "{count}");
    }
    for (rule, when, cooldown) in rules {
        let rule_id = id(&rule).parse().unwrap();
        let filter = FiringFilter { rule: Some(rule_id), ..FiringFilter::default() };
        let list = async |conn: &mut Conn| firings::newest(conn, tenant, filter, 100_000).await;
        let live = stage.store.read("firings", list).await.unwrap();
        assert!(live.len() > 50, "{when}: {}", live.len());
        for (first, last) in [(0, ROUNDS), (13, 37), (44, 44)] {
            let (from, to) =
                (start + ROUND * u32::try_from(first).unwrap(), start + ROUND * u32::try_from(last).unwrap());
            let inside: Vec<_> =
                live.iter().filter(|firing| from <= firing.fired_at && firing.fired_at <= to).collect();
            let mut by_object: BTreeMap<&str, usize> = BTreeMap::new();
            for firing in &inside {
                *by_object.entry(&firing.object_id).or_default() += 1;
            }
            let body = json!({"when": when, "cooldown_seconds": cooldown, "from": from.to_string(), "to": to.to_string()});
            let replayed = replayed(app, &key, &body).await;
            assert_eq!(replayed["firings"], inside.len(), "{when} from round {first} to {last}");
            assert_eq!(replayed["objects"], by_object.len(), "{when} from round {first} to {last}");
            let mut newest: Vec<(Timestamp, &str)> =
                inside.iter().map(|firing| (firing.fired_at, firing.object_id.as_str())).collect();
            newest.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
            newest.truncate(50);
            let examples: Vec<(Timestamp, &str)> = replayed["examples"]
                .as_array()
                .unwrap()
                .iter()
                .map(|example| {
                    (example["at"].as_str().unwrap().parse().unwrap(), example["object_id"].as_str().unwrap())
                })
                .collect();
            assert_eq!(examples, newest, "{when} from round {first} to {last}");
            let own =
                replayed["overlap"].as_array().unwrap().iter().find(|other| other["rule_id"] == *id(&rule));
            let own = own.unwrap();
            assert_eq!(
                (&own["both"], &own["only_this"], &own["only_that"]),
                (&replayed["objects"], &json!(0), &json!(0))
            );
        }
    }
}

async fn a_replay_says_when_where_and_what_else(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let other = stage.account("bob@example.com").await;
    let similar = make(stage, &key, &shadow("is_scammer > 0.5", 0)).await;
    // Rules that are alike in all else are listed in the order of their creation.
    stage.advance(Duration::from_secs(1));
    let unlike = make(stage, &key, &shadow("is_scammer < 0.2", 0)).await;
    let disabled = json!({"enabled": false, "when": "is_scammer >= 0", "action_type": "email", "action_config": {"to": "a@b.c"}});
    make(stage, &key, &disabled).await;
    let start = stage.now();
    for (object, probability) in [("a", 0.1), ("b", 0.95), ("c", 0.6), ("b", 0.1), ("b", 0.97)] {
        ingest_answered(stage, &key, object, probability).await;
        stage.advance(Duration::from_hours(12));
    }
    let found = replayed(stage, &key, &json!({"when": "is_scammer > 0.9"})).await;
    let hours = |hours: u64| (start + Duration::from_hours(hours)).to_string();
    let expected = json!({
        "firings": 2,
        "objects": 1,
        "by_day": [{"day": "2026-01-01", "firings": 1}, {"day": "2026-01-03", "firings": 1}],
        "examples": [
            {"object_id": "b", "at": hours(48), "signal_values": {"is_scammer": 0.97}},
            {"object_id": "b", "at": hours(12), "signal_values": {"is_scammer": 0.95}},
        ],
        "labelled": {},
        "overlap": [
            {"rule_id": id(&similar), "name": "is_scammer > 0.5", "both": 1, "only_this": 0, "only_that": 1},
            {"rule_id": id(&unlike), "name": "is_scammer < 0.2", "both": 1, "only_this": 0, "only_that": 1},
        ],
        "from": hours(0),
        "to": hours(60),
        "complete": true,
    });
    assert_eq!(found, expected);
    let nothing = replayed(stage, &other, &json!({"when": "is_scammer > 0.9"})).await;
    assert_eq!((&nothing["firings"], &nothing["complete"]), (&json!(0), &json!(false)), "none are kept");
    let usage = get(stage, &key, "/v1/usage").await.json();
    assert_eq!(usage["totals"]["analyses"], 5, "no model has run");
}

async fn the_state_at_the_start_comes_from_before(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let start = stage.now();
    for probability in [0.95, 0.96, 0.97] {
        ingest_answered(stage, &key, "user_1", probability).await;
        stage.advance(Duration::from_hours(1));
    }
    let from = (start + Duration::from_hours(1)).to_string();
    let found = replayed(stage, &key, &json!({"when": "is_scammer > 0.9", "from": from})).await;
    assert_eq!(found["firings"], 0, "it was already true");
    let with_cooldown = json!({"when": "is_scammer > 0.9", "cooldown_seconds": 7_200, "from": from});
    assert_eq!(replayed(stage, &key, &with_cooldown).await["firings"], 1, "two hours after the first");
    let until = json!({"when": "is_scammer > 0.9", "to": start.to_string()});
    assert_eq!(replayed(stage, &key, &until).await["firings"], 1);
}

/// Four analyses are a long history.
struct Short;

impl Settings for Short {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_REPLAY_INLINE", "3")];
}

async fn labels_say_how_right_a_rule_would_have_been(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let stories = [
        ("a", 0.95, Some(true)),
        ("b", 0.9, Some(false)),
        ("c", 0.85, Some(true)),
        ("d", 0.3, Some(true)),
        ("e", 0.1, Some(false)),
        ("f", 0.99, None),
    ];
    for (object, probability, label) in stories {
        labels::answer(stage, &key, object, probability).await;
        if let Some(label) = label {
            assert_eq!(labels::put(stage, &key, object, "is_scammer", &json!(label)).await.status, 200);
        }
    }
    let labelled = async |when: &str| replayed(stage, &key, &json!({"when": when})).await["labelled"].clone();
    // It would have fired for a, b, c and f.
    let share = 2.0 / 3.0;
    let expected = json!({"is_scammer": {"precision": share, "recall": share}});
    assert_eq!(
        labelled("is_scammer > 0.8 and trust_score >= 0").await,
        expected,
        "signals without labels are left out"
    );
    // What is looked for here are those that are none: it would have fired for e, and missed b.
    assert_eq!(labelled("is_scammer < 0.2").await, json!({"is_scammer": {"precision": 1.0, "recall": 0.5}}));
    assert_eq!(labelled("is_scammer > 0.999").await, json!({"is_scammer": {"recall": 0.0}}));
    assert_eq!(labelled("trust_score >= 0").await, json!({}));
}

async fn labels_count_where_the_object_was_analyzed_in_the_time(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let start = stage.now();
    // By object: the answers of the first, second and third day, and the label.
    let stories = [
        ("only_before", [Some(0.95), None, None], true),
        ("only_before_and_low", [Some(0.2), None, None], true),
        ("only_after", [None, None, Some(0.95)], true),
        ("true_all_along", [Some(0.95), Some(0.96), None], true),
        ("true_until_then", [Some(0.95), Some(0.1), None], false),
        ("true_once_more", [Some(0.95), None, Some(0.95)], false),
        ("found", [Some(0.1), Some(0.95), None], true),
        ("found_at_once", [None, Some(0.95), None], false),
        ("missed", [Some(0.1), Some(0.2), None], true),
        ("rightly_left_alone", [None, Some(0.3), None], false),
    ];
    for day in 0..3 {
        for (object, answers, _) in stories {
            if let Some(answer) = answers[day] {
                labels::answer(stage, &key, object, answer).await;
            }
        }
        stage.advance(Duration::from_hours(24));
    }
    for (object, _, label) in stories {
        assert_eq!(labels::put(stage, &key, object, "is_scammer", &json!(label)).await.status, 200);
    }
    let hour = |hours: u64| (start + Duration::from_hours(hours)).to_string();
    let labelled = async |body: Value| replayed(stage, &key, &body).await["labelled"]["is_scammer"].clone();
    // Of those that were analyzed on the second day, four were not found before.
    let second = json!({"when": "is_scammer > 0.9", "from": hour(24), "to": hour(47)});
    assert_eq!(labelled(second).await, json!({"precision": 0.5, "recall": 0.5}));
    // After a cooldown, one fires again that was true all along.
    let again =
        json!({"when": "is_scammer > 0.9", "cooldown_seconds": 3_600, "from": hour(24), "to": hour(47)});
    assert_eq!(labelled(again).await, json!({"precision": 2.0 / 3.0, "recall": 2.0 / 3.0}));
    // Four of the six scammers were found at some time, and three others.
    let ever = json!({"when": "is_scammer > 0.9"});
    assert_eq!(labelled(ever).await, json!({"precision": 4.0 / 7.0, "recall": 4.0 / 6.0}));
}

async fn a_long_history_is_replayed_in_the_background(stage: &Scripted<Short>) {
    let key = stage.account("ann@example.com").await;
    let other = stage.account("bob@example.com").await;
    for object in ["a", "b", "c"] {
        ingest_answered(stage, &key, object, 0.95).await;
    }
    let body = json!({"when": "is_scammer > 0.9"});
    assert_eq!(replay(stage, &key, &body).await.status, 200, "it is as long as a caller waits for");
    ingest_answered(stage, &key, "d", 0.95).await;
    let started = replay(stage, &key, &body).await;
    assert_eq!(started.status, 202, "{}", started.text);
    let path = format!("/v1/rules/replays/{}", id(&started.json()));
    until("it is done", async || get(stage, &key, &path).await.json()["status"] == "done").await;
    let done = get(stage, &key, &path).await.json();
    assert_eq!((&done["firings"], &done["objects"], &done["analyses"]), (&json!(4), &json!(4), &json!(4)));
    assert_eq!(done["examples"].as_array().unwrap().len(), 4);
    get(stage, &other, &path).await.refused(404, "not_found");
    get(stage, &key, "/v1/rules/replays/01a1e41b-843b-7bb9-ab02-864f5f0f6b38")
        .await
        .refused(404, "not_found");
    let deleted = key.call(stage, Method::DELETE, "/v1/objects/d", &Value::Null).await;
    assert_eq!(deleted.status, 204);
    let done = get(stage, &key, &path).await.json();
    assert!(!done["examples"].to_string().contains("\"d\""), "an example goes with its object: {done}");
    stage.advance(Duration::from_hours(24 * 8));
    until("it is swept", async || get(stage, &key, &path).await.status == 404).await;
}

/// Nothing is kept.
struct Forgetful;

impl Settings for Forgetful {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ANSWER_HISTORY_DAYS", "0")];
}

async fn a_history_that_is_not_kept_is_incomplete(stage: &Scripted<Forgetful>) {
    let key = stage.account("ann@example.com").await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    let found = replayed(stage, &key, &json!({"when": "is_scammer > 0.9"})).await;
    assert_eq!((&found["firings"], &found["complete"]), (&json!(0), &json!(false)));
}

async fn what_was_not_kept_stays_unknown(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let opened = stage.now();
    stage.advance(Duration::from_secs(30));
    ingest_answered(stage, &key, "user_1", 0.95).await;
    stage.advance(Duration::from_hours(48));
    ingest_answered(stage, &key, "user_1", 0.95).await;
    let is_complete_from = async |from: Timestamp| {
        let from = from.to_string();
        let found = replayed(stage, &key, &json!({"when": "is_scammer > 0.9", "from": from})).await;
        found["complete"].clone()
    };
    let is_complete =
        async |hours_ago: u64| is_complete_from(stage.now() - Duration::from_hours(hours_ago)).await;
    assert_eq!(is_complete_from(opened).await, true, "nothing was analyzed before the first analysis");
    assert_eq!((is_complete(1).await, is_complete(47).await), (json!(true), json!(true)));
    // The account is older than what is kept: the history begins with an upgrade, or was kept for a day until now.
    let since_the_second_day =
        "INSERT INTO deployment (name, value) VALUES ('answer_history_since', '1767312000000000')
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    stage.execute(since_the_second_day).await;
    assert_eq!((is_complete(1).await, is_complete(47).await), (json!(true), json!(false)));
    assert_eq!(is_complete(100).await, false, "also of a time before the account");
    // While nothing is kept, nothing is known.
    stage.execute("UPDATE deployment SET value = 'never' WHERE name = 'answer_history_since'").await;
    assert_eq!(is_complete(1).await, false);
}

async fn a_refusal_says_why(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for (body, message) in [
        (json!({"when": "nobody > 1"}), "when: column 1: unknown signal `nobody`"),
        (
            json!({"when": "is_scammer > 1", "cooldown_seconds": -1}),
            "cooldown_seconds: it must be 0 to 31536000",
        ),
        (
            json!({"when": "is_scammer > 1", "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}),
            "from: it must not be after to",
        ),
        (json!({"when": "a".repeat(4_001)}), "when: it must have at most 4000 characters"),
    ] {
        assert_eq!(replay(stage, &key, &body).await.refused(400, "bad_request"), message);
    }
    for body in [json!({}), json!({"when": "is_scammer > 1", "from": "yesterday"}), json!({"when": null})] {
        replay(stage, &key, &body).await.refused(400, "bad_request");
    }
    get(stage, &key, "/v1/rules/replays/none").await.refused(400, "bad_request");
}
