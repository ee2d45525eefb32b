//! How good the answers are by their labels, and calibrations that are fitted to them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::App;
use crate::labels::{answer, put};
use crate::scripted_analyzer::{Scripted, Turn, until};
use crate::signer::Signer;

testkit::on_both!(
    few_labels_have_no_figures,
    answers_are_compared_with_the_labels_that_count,
    figures_of_choices_and_scores_are_by_name,
    a_quality_query_is_checked,
    a_calibration_needs_labels,
    a_calibration_applies_to_every_way_of_asking_and_is_taken_back_exactly,
    a_calibration_belongs_to_a_wording,
    a_restored_version_of_an_old_type_claims_no_calibration,
    choices_and_scores_get_a_temperature,
);

const QUALITY: &str = "/v1/signals/is_scammer/quality";

async fn quality(app: &App, key: &Signer, path: &str) -> Value {
    let reply = key.call(app, Method::GET, path, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// Labels objects, many at a time.
async fn label(app: &App, key: &Signer, signal: &str, values: &[Value]) {
    let labels: Vec<Value> = values
        .iter()
        .enumerate()
        .map(|(number, value)| json!({"object_id": format!("user_{number}"), "signal": signal, "value": value}))
        .collect();
    let reply = key.call(app, Method::POST, "/v1/labels", &json!({"labels": labels})).await;
    assert_eq!(reply.json(), json!({"accepted": values.len(), "refused": []}));
}

/// Gives objects answers of these probabilities.
async fn answer_all(stage: &Scripted, key: &Signer, probabilities: &[f64]) {
    for (number, probability) in probabilities.iter().enumerate() {
        answer(stage, key, &format!("user_{number}"), *probability).await;
    }
}

/// Sixty answers from 0.02 to 0.98, and labels that are yes less often than they say.
fn overconfident() -> (Vec<f64>, Vec<Value>) {
    let answers: Vec<f64> = (0..60).map(|n: u32| f64::from(2 + 96 * n / 59) / 100.0).collect();
    // Every second one of the upper half, and every fifth of the lower one.
    let is_yes = |n: usize| if n >= 30 { n.is_multiple_of(2) } else { n.is_multiple_of(5) };
    (answers, (0..60).map(|n| json!(is_yes(n))).collect())
}

async fn few_labels_have_no_figures(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let none = quality(stage, &key, QUALITY).await;
    assert_eq!((&none["labels"], &none["needs"], &none["by_week"]), (&json!(0), &json!(10), &json!([])));
    answer_all(stage, &key, &[0.75; 9]).await;
    label(stage, &key, "is_scammer", &vec![json!(true); 9]).await;
    let few = quality(stage, &key, QUALITY).await;
    let note = few["selected_note"].as_str().unwrap();
    assert!(note.contains("say nothing about what was missed"), "{note}");
    let expected = json!({
        "signal": "is_scammer", "type": "noul", "labels": 9, "needs": 1, "selected": true, "selected_note": note,
        "by_week": [{"week": "2025-12-29", "labels": 9}],
    });
    assert_eq!(few, expected);
}

async fn answers_are_compared_with_the_labels_that_count(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let (key, other) = (stage.api_key(&token).await, stage.api_key(&token).await);
    let answers = [0.9, 0.8, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.2, 0.1, 0.05];
    answer_all(stage, &key, &answers).await;
    label(stage, &key, "is_scammer", &answers.map(|answer| json!(answer > 0.5))).await;
    // Somebody else corrects one of them, and an answer that comes later is not compared.
    stage.advance(Duration::from_hours(24 * 7));
    assert_eq!(put(stage, &other, "user_4", "is_scammer", &json!(false)).await.status, 200);
    answer(stage, &key, "user_0", 0.01).await;
    // Neither is an object without an answer.
    let event = json!({"events": [{"type": "event", "name": "seen"}]});
    key.call(stage, Method::POST, "/v1/objects/unanswered/events", &event).await;
    put(stage, &key, "unanswered", "is_scammer", &json!(true)).await;

    let all = quality(stage, &key, QUALITY).await;
    assert_eq!((&all["labels"], &all["yes"], &all["selected"]), (&json!(11), &json!(4), &json!(true)));
    assert_eq!(all.get("needs"), None);
    let near = |value: &Value, expected: f64| {
        assert!((value.as_f64().unwrap() - expected).abs() < 1e-9, "{value} is not {expected}");
    };
    near(&all["accuracy"]["value"], 10.0 / 11.0);
    near(&all["auc"]["value"], 1.0);
    let squares = 0.01 + 0.04 + 0.04 + 0.09 + 0.36 + 0.16 + 0.09 + 0.04 + 0.04 + 0.01 + 0.0025;
    near(&all["brier"]["value"], squares / 11.0);
    for figure in ["accuracy", "auc", "brier", "calibration_error"] {
        let (value, low, high) = (&all[figure]["value"], &all[figure]["low"], &all[figure]["high"]);
        assert!(low.as_f64() <= value.as_f64() && value.as_f64() <= high.as_f64(), "{figure}: {all}");
    }
    assert_eq!(all["reliability"].as_array().unwrap().len(), 10);
    assert_eq!(all["thresholds"].as_array().unwrap().len(), 19);
    near(&all["thresholds"][13]["threshold"], 0.7);
    near(&all["thresholds"][13]["recall"]["value"], 1.0);
    near(&all["best_threshold"], 0.65);
    let dear = quality(stage, &key, &format!("{QUALITY}?cost_false_yes=0.1&cost_false_no=5")).await;
    near(&dear["best_threshold"], 0.65);
    let weeks = all["by_week"].as_array().unwrap();
    assert_eq!((&weeks[0]["week"], &weeks[0]["labels"]), (&json!("2025-12-29"), &json!(10)));
    near(&weeks[0]["accuracy"]["value"], 1.0);
    assert_eq!(weeks[1], json!({"week": "2026-01-05", "labels": 1}), "too few for figures");

    // By time and by version of the answer.
    let from = quality(stage, &key, &format!("{QUALITY}?from=2026-01-05T00:00:00Z")).await;
    assert_eq!((&from["labels"], &from["needs"]), (&json!(1), &json!(9)));
    let to = quality(stage, &key, &format!("{QUALITY}?to=2026-01-05T00:00:00Z")).await;
    assert_eq!(to["labels"], 10);
    let reworded = json!({"type": "noul", "instructions": "Is it a scam?"});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_scammer", &reworded).await.status, 200);
    put(stage, &key, "user_1", "is_scammer", &json!(true)).await;
    answer(stage, &key, "user_2", 0.8).await;
    put(stage, &key, "user_2", "is_scammer", &json!(true)).await;
    let first = quality(stage, &key, &format!("{QUALITY}?version=1")).await;
    assert_eq!(
        (&first["labels"], &first["version"]),
        (&json!(10), &json!(1)),
        "by the version that answered"
    );
    assert_eq!(quality(stage, &key, &format!("{QUALITY}?version=2")).await["labels"], 1);
    stage.advance(Duration::from_secs(5));
}

async fn figures_of_choices_and_scores_are_by_name(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer_all(stage, &key, &[0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.2, 0.2, 0.2, 0.2]).await;
    let options: Vec<Value> = (0..10).map(|n| json!(if n < 5 { "browsing" } else { "comparing" })).collect();
    label(stage, &key, "buyer_intent", &options).await;
    let levels: Vec<Value> = (0..10).map(|n| json!(if n < 5 { 0 } else { 2 })).collect();
    label(stage, &key, "trust_score", &levels).await;
    let choice = quality(stage, &key, "/v1/signals/buyer_intent/quality").await;
    let confusion = json!({"browsing": {"browsing": 5}, "comparing": {"browsing": 1, "comparing": 4}});
    assert_eq!((&choice["confusion"], &choice["accuracy"]["value"]), (&confusion, &json!(0.9)));
    assert!(choice["macro_f1"]["value"].is_f64() && choice["calibration_error"]["low"].is_f64());
    assert!(
        choice.get("mean_distance").is_none() && choice.get("auc").is_none() && choice.get("yes").is_none()
    );
    let score = quality(stage, &key, "/v1/signals/trust_score/quality").await;
    // 0.8 of the first level is a score of 0.3, and 0.2 of it 1.2.
    assert_eq!(score["confusion"], json!({"0": {"0": 5}, "2": {"0": 1, "1": 4}}));
    assert_eq!(score["mean_distance"]["value"], 0.6);
    assert_eq!(score["by_week"][0]["mean_distance"]["value"], 0.6);
}

async fn a_quality_query_is_checked(app: &App) {
    let key = app.api_key(&app.register("ann@example.com").await).await;
    for (query, expected) in [
        ("version=0", "version: it must be 1 or more"),
        ("version=x", "version: it must be a whole number"),
        ("from=yesterday", "from: it must be a time such as 2026-01-31T12:00:00Z"),
        ("to=2026-01-01", "to: it must be a time such as 2026-01-31T12:00:00Z"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from: it must not be after `to`"),
        ("cost_false_yes=x", "cost_false_yes: it must be a number"),
        ("cost_false_yes=NaN", "cost_false_yes: it must be 0 to 1000000000"),
        ("cost_false_no=-1", "cost_false_no: it must be 0 to 1000000000"),
        ("cost_false_no=inf", "cost_false_no: it must be 0 to 1000000000"),
        ("cost_false_yes=0&cost_false_no=0", "cost_false_yes: it must not be 0 if cost_false_no is"),
    ] {
        let reply = key.call(app, Method::GET, &format!("{QUALITY}?{query}"), &Value::Null).await;
        assert_eq!(reply.refused(400, "bad_request"), expected, "{query}");
    }
    for (method, path) in [
        (Method::GET, "/v1/signals/nothing/quality"),
        (Method::POST, "/v1/signals/nothing/calibrations"),
        (Method::PUT, "/v1/signals/nothing/calibration"),
    ] {
        key.call(app, method, path, &json!({"id": null})).await.refused(404, "not_found");
    }
}

async fn a_calibration_needs_labels(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let path = "/v1/signals/is_scammer/calibrations";
    answer_all(stage, &key, &[0.7; 50]).await;
    let yes = |count: usize| (0..50).map(|n| json!(n < count)).collect::<Vec<_>>();
    label(stage, &key, "is_scammer", &yes(20)[..49]).await;
    let message = key.call(stage, Method::POST, path, &Value::Null).await.refused(409, "not_enough_labels");
    assert!(message.contains("at least 50 labels") && message.contains("there are 49"), "{message}");
    label(stage, &key, "is_scammer", &yes(9)).await;
    key.call(stage, Method::POST, path, &Value::Null).await.refused(409, "not_enough_labels");
    label(stage, &key, "is_scammer", &yes(41)).await;
    key.call(stage, Method::POST, path, &Value::Null).await.refused(409, "not_enough_labels");
    label(stage, &key, "is_scammer", &yes(10)).await;
    let reply = key.call(stage, Method::POST, path, &Value::Null).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let fitted = reply.json();
    assert_eq!((&fitted["method"], &fitted["labels"]), (&json!("platt"), &json!(50)));
    assert!(fitted["after"]["brier"]["value"].as_f64() < fitted["before"]["brier"]["value"].as_f64());
    assert!(fitted["before"]["calibration_error"]["low"].is_f64());
}

/// The answer to a signal in a list of answers.
fn answer_to<'a>(answers: &'a Value, signal: &str) -> &'a Value {
    let of_signal = |answer: &&Value| answer["signal"] == signal || answer["key"] == signal;
    answers.as_array().unwrap().iter().find(of_signal).unwrap_or_else(|| panic!("{signal} in {answers}"))
}

/// Switches a calibration on or off.
async fn switch(app: &App, key: &Signer, signal: &str, id: &Value) -> Value {
    let path = format!("/v1/signals/{signal}/calibration");
    let reply = key.call(app, Method::PUT, &path, &json!({"id": id})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn fit(app: &App, key: &Signer, signal: &str) -> Value {
    let path = format!("/v1/signals/{signal}/calibrations");
    let reply = key.call(app, Method::POST, &path, &Value::Null).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

/// The answers of a verdict, of an asynchronous analysis, and of the playground, at this probability.
async fn ask_every_way(stage: &Scripted, key: &Signer, object: &str, probability: f64) -> [Value; 4] {
    stage.analyzer.always(Turn::Answer(probability));
    let waiting = json!({"events": [{"type": "event", "name": "seen"}], "wait": true});
    let path = format!("/v1/objects/{object}/events");
    let verdict = key.call(stage, Method::POST, &path, &waiting).await.json();
    let later = json!({"events": [{"type": "event", "name": "seen"}]});
    assert_eq!(key.call(stage, Method::POST, &path, &later).await.status, 202);
    stage.advance(Duration::from_secs(5));
    stage.settle().await;
    let stored = key.call(stage, Method::GET, &format!("/v1/objects/{object}"), &Value::Null).await.json();
    let past =
        key.call(stage, Method::GET, &format!("/v1/objects/{object}/answers"), &Value::Null).await.json();
    assert_eq!(past["analyses"][0]["source"], "async");
    let played = json!({"events": [{"type": "event", "name": "seen"}], "signals": ["is_scammer"]});
    let played = key.call(stage, Method::POST, "/v1/playground", &played).await.json();
    let values = |answer: &Value| {
        let fields = ["noul", "choice", "score", "probabilities", "confidence", "raw"];
        let answer = answer.as_object().unwrap().iter().filter(|(name, _)| fields.contains(&name.as_str()));
        Value::Object(answer.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    [
        values(answer_to(&verdict["answers"], "is_scammer")),
        values(answer_to(&stored["analysis"], "is_scammer")),
        values(answer_to(&past["analyses"][0]["answers"], "is_scammer")),
        values(answer_to(&played["answers"], "is_scammer")),
    ]
}

async fn a_calibration_applies_to_every_way_of_asking_and_is_taken_back_exactly(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let (answers, labels) = overconfident();
    answer_all(stage, &key, &answers).await;
    label(stage, &key, "is_scammer", &labels).await;
    let rule = |when: &str, enabled: bool| json!({"when": when, "action_type": "email", "action_config": {"to": "a@b.c"}, "enabled": enabled});
    let mut shadow = rule("is_scammer > 0.9999", true);
    shadow["mode"] = json!("shadow");
    assert_eq!(key.call(stage, Method::POST, "/v1/rules", &shadow).await.status, 201);
    for (when, enabled) in
        [("is_scammer > 0.9999", true), ("is_scammer > 0.9999", false), ("trust_score > 5", true)]
    {
        assert_eq!(key.call(stage, Method::POST, "/v1/rules", &rule(when, enabled)).await.status, 201);
    }
    let before = ask_every_way(stage, &key, "user_a", 0.987_654).await;
    assert_eq!(before, [(); 4].map(|()| json!({"noul": 0.987_654})), "the analyzer's own answer");

    let fitted = fit(stage, &key, "is_scammer").await;
    assert_eq!(ask_every_way(stage, &key, "user_a", 0.987_654).await, before, "never on by itself");
    let switched = switch(stage, &key, "is_scammer", &fitted["id"]).await;
    assert_eq!(switched, json!({"version": 2, "live_rules": 1}));
    assert_eq!(
        switch(stage, &key, "is_scammer", &fitted["id"]).await,
        switched,
        "the same again is no version"
    );
    let after = ask_every_way(stage, &key, "user_a", 0.987_654).await;
    let calibrated = after[0]["noul"].as_f64().unwrap();
    assert!(calibrated < 0.8, "half of such answers are right: {calibrated}");
    assert_eq!(after, [(); 4].map(|()| json!({"noul": calibrated, "raw": {"noul": 0.987_654}})));
    let certain = ask_every_way(stage, &key, "user_b", 1.0).await;
    assert!(certain[0]["noul"].as_f64().unwrap() < 1.0 && certain[0]["raw"]["noul"] == json!(1.0));

    // Labels keep both, and a new calibration is fitted to the raw answers: the same labels give the same figures.
    let kept = put(stage, &key, "user_a", "is_scammer", &json!(true)).await.json();
    assert_eq!((&kept["answer"]["raw"]["noul"], &kept["answer"]["version"]), (&json!(0.987_654), &json!(2)));
    let path = format!("/v1/labels/{}", kept["id"].as_str().unwrap());
    assert_eq!(key.call(stage, Method::DELETE, &path, &Value::Null).await.status, 204);
    answer_all(stage, &key, &answers).await;
    label(stage, &key, "is_scammer", &labels).await;
    let again = fit(stage, &key, "is_scammer").await;
    let before_of = |fitted: &Value| fitted["before"]["brier"]["value"].as_f64().unwrap();
    assert!((before_of(&again) - before_of(&fitted)).abs() < 1e-9, "{again} {fitted}");

    let off = switch(stage, &key, "is_scammer", &Value::Null).await;
    assert_eq!(off, json!({"version": 3, "live_rules": 1}));
    assert_eq!(ask_every_way(stage, &key, "user_a", 0.987_654).await, before, "to the last bit");
    let versions = key.call(stage, Method::GET, "/v1/signals/is_scammer/versions", &Value::Null).await.json();
    assert_eq!(versions["versions"][1]["calibration"], fitted["id"]);
    assert_eq!(versions["versions"][0].get("calibration"), None);
}

async fn a_calibration_belongs_to_a_wording(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let (answers, labels) = overconfident();
    answer_all(stage, &key, &answers).await;
    label(stage, &key, "is_scammer", &labels).await;
    let path = "/v1/signals/is_scammer/calibration";
    for (wrong, status, code) in [
        (json!({}), 400, "bad_request"),
        (json!({"id": "x"}), 400, "bad_request"),
        (json!({"id": Uuid::from_u128(7)}), 404, "not_found"),
    ] {
        key.call(stage, Method::PUT, path, &wrong).await.refused(status, code);
    }
    let fitted = fit(stage, &key, "is_scammer").await;
    let other = json!({"id": fitted["id"]});
    key.call(stage, Method::PUT, "/v1/signals/trust_score/calibration", &other)
        .await
        .refused(404, "not_found");
    let bob = stage.account("bob@example.com").await;
    bob.call(stage, Method::PUT, path, &other).await.refused(404, "not_found");
    switch(stage, &key, "is_scammer", &fitted["id"]).await;

    let reworded = json!({"type": "noul", "instructions": "Is it a scam?"});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_scammer", &reworded).await.status, 200);
    let asked = ask_every_way(stage, &key, "user_a", 0.9).await;
    assert_eq!(asked[0], json!({"noul": 0.9}), "off after a new wording");
    key.call(stage, Method::POST, "/v1/signals/is_scammer/calibrations", &Value::Null)
        .await
        .refused(409, "not_enough_labels");
    let message = key.call(stage, Method::PUT, path, &other).await.refused(409, "conflict");
    assert_eq!(message, "the calibration was fitted to another wording of the signal: fit a new one");

    // With the signal go its calibrations.
    assert_eq!(key.call(stage, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await.status, 204);
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_scammer", &reworded).await.status, 200);
    key.call(stage, Method::PUT, path, &other).await.refused(404, "not_found");
    stage.advance(Duration::from_mins(11));
    until("the calibrations are swept", async || {
        stage.sweeper_has_swept().await;
        stage.number("SELECT count(*) FROM calibrations").await == 0
    })
    .await;
}

async fn a_restored_version_of_an_old_type_claims_no_calibration(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let (answers, labels) = overconfident();
    answer_all(stage, &key, &answers).await;
    label(stage, &key, "is_scammer", &labels).await;
    let fitted = fit(stage, &key, "is_scammer").await;
    switch(stage, &key, "is_scammer", &fitted["id"]).await;
    let calibrations = async || -> Vec<Value> {
        let path = "/v1/signals/is_scammer/versions";
        let versions = key.call(stage, Method::GET, path, &Value::Null).await.json();
        let of = |version: &Value| version.get("calibration").cloned().unwrap_or_default();
        versions["versions"].as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(calibrations().await, [fitted["id"].clone(), Value::Null]);
    let score = json!({"type": "score", "instructions": "Is it a scam?", "criteria": ["no", "yes"]});
    assert_eq!(key.call(stage, Method::PUT, "/v1/signals/is_scammer", &score).await.status, 200);
    assert_eq!(calibrations().await, [Value::Null, Value::Null, Value::Null], "they go with the question");
    let restore = "/v1/signals/is_scammer/versions/2/restore";
    let restored = key.call(stage, Method::POST, restore, &Value::Null).await;
    assert_eq!((restored.status.as_u16(), &restored.json()["type"]), (200, &json!("noul")));
    assert_eq!(calibrations().await[0], Value::Null);
    stage.advance(Duration::from_mins(11));
    until("the calibrations are swept", async || {
        stage.sweeper_has_swept().await;
        stage.number("SELECT count(*) FROM calibrations").await == 0
    })
    .await;
    assert_eq!(ask_every_way(stage, &key, "user_a", 0.9).await[0], json!({"noul": 0.9}));
    assert_eq!(calibrations().await[0], Value::Null, "it answers raw, and says so");
}

async fn choices_and_scores_get_a_temperature(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    answer_all(stage, &key, &[0.9; 50]).await;
    let options: Vec<Value> =
        (0..50).map(|n| json!(["browsing", "comparing", "browsing", "ready_to_buy"][n % 4])).collect();
    label(stage, &key, "buyer_intent", &options).await;
    let levels: Vec<Value> = (0..50).map(|n| json!(n % 3)).collect();
    label(stage, &key, "trust_score", &levels).await;
    for signal in ["buyer_intent", "trust_score"] {
        let fitted = fit(stage, &key, signal).await;
        assert_eq!(fitted["method"], "temperature");
        switch(stage, &key, signal, &fitted["id"]).await;
    }
    stage.analyzer.then(Turn::Answer(0.9));
    let waiting = json!({"events": [{"type": "event", "name": "seen"}], "wait": true});
    let verdict = key.call(stage, Method::POST, "/v1/objects/user_a/events", &waiting).await.json();
    let choice = answer_to(&verdict["answers"], "buyer_intent");
    let share = choice["probabilities"]["browsing"].as_f64().unwrap();
    assert!((share - 0.5).abs() < 0.03, "it is right half of the time: {choice}");
    assert_eq!((&choice["choice"], &choice["raw"]["choice"]), (&json!("browsing"), &json!("browsing")));
    assert_eq!(choice["raw"]["probabilities"]["browsing"], 0.9);
    assert!(choice["confidence"].as_f64() < choice["raw"]["confidence"].as_f64());
    let score = answer_to(&verdict["answers"], "trust_score");
    assert_eq!(score["raw"]["score"], 0.15);
    assert!((score["score"].as_f64().unwrap() - 1.0).abs() < 0.1, "every level is as likely: {score}");
    assert_eq!(answer_to(&verdict["answers"], "is_scammer").get("raw"), None);
}
