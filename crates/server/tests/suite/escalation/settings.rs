//! How a signal's escalation is set, read, fitted and kept.

use super::*;
use crate::members::join;

testkit::on_both!(
    an_escalation_is_set_read_and_ended,
    what_is_wrong_is_named,
    without_a_second_analyzer_there_is_nothing_to_set,
    rewording_keeps_it_and_another_type_ends_it,
    it_is_one_account_s_and_for_those_who_see_money,
    it_is_fitted_to_the_first_analyzer_s_answers,
);

async fn an_escalation_is_set_read_and_ended(stage: &Staged) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    let none = json!({"model": "second", "escalated_today": 0, "cost_micros_today": 0});
    assert_eq!(read(stage, &key, "is_scammer").await, none);
    let set_to = async |signal: &str, body: Value| set(stage, &key, signal, &body).await.json();
    let band = json!({"band": [0.25, 0.75], "model": "second", "escalated_today": 0, "cost_micros_today": 0});
    assert_eq!(set_to("is_scammer", json!({"band": [0.25, 0.75]})).await, band);
    assert_eq!(read(stage, &key, "is_scammer").await, band);
    assert_eq!(set_to("buyer_intent", json!({"below": 0.5})).await["below"], 0.5);
    let versions = get(stage, &key, "/v1/signals/is_scammer/versions").await.json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 1, "no new version");
    let log = stage.call(&token, Method::GET, "/v1/audit_log?action=escalation.updated", &Value::Null).await;
    let log = log.json();
    let line = &log["entries"][1];
    assert_eq!(
        (&line["target"]["kind"], &line["target"]["id"]),
        (&json!("escalation"), &json!("is_scammer"))
    );
    assert_eq!(line["after"], json!({"escalation": {"band": [0.25, 0.75]}}));
    for signal in ["is_scammer", "buyer_intent"] {
        assert_eq!(set_to(signal, json!({"band": null})).await, none, "{signal}");
    }
    assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await.get("escalated"), None);
}

async fn what_is_wrong_is_named(stage: &Staged) {
    let key = stage.account("ann@example.com").await;
    for (signal, body, field) in [
        ("is_scammer", json!({}), "band"),
        ("is_scammer", json!({"band": [0.7, 0.3]}), "band"),
        ("is_scammer", json!({"band": [-0.1, 0.3]}), "band"),
        ("is_scammer", json!({"band": [0.1, 1.1]}), "band"),
        ("is_scammer", json!({"band": [0.1]}), "band"),
        ("is_scammer", json!({"band": "all"}), "band"),
        ("is_scammer", json!({"band": [0.1, 0.2], "below": 0.5}), "band"),
        ("is_scammer", json!({"band": null, "target_error": 0.5}), "band"),
        ("is_scammer", json!({"below": 0.5}), "below"),
        ("buyer_intent", json!({"band": [0.1, 0.2]}), "band"),
        ("buyer_intent", json!({"below": 1.5}), "below"),
        ("buyer_intent", json!({"below": 0.5, "target_error": 0.1}), "below"),
        ("trust_score", json!({"target_error": -0.1}), "target_error"),
    ] {
        let message = set(stage, &key, signal, &body).await.refused(400, "bad_request");
        assert!(message.starts_with(field), "{body}: {message}");
    }
    set(stage, &key, "nothing", &json!({"band": null})).await.refused(404, "not_found");
    get(stage, &key, &path("nothing")).await.refused(404, "not_found");
    let message = set(stage, &key, "is_scammer", &json!({"target_error": 0.1})).await;
    let message = message.refused(409, "not_enough_labels");
    assert!(message.contains("at least 50 labels") && message.contains("there are 0"), "{message}");
}

async fn without_a_second_analyzer_there_is_nothing_to_set(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let message = set(stage, &key, "is_scammer", &json!({"band": [0.3, 0.7]})).await.refused(409, "conflict");
    assert!(message.contains("AUSPEX_ESCALATE_ANALYZER"), "{message}");
    set(stage, &key, "is_scammer", &json!({"target_error": 0.1})).await.refused(409, "conflict");
    assert_eq!(set(stage, &key, "is_scammer", &json!({"band": null})).await.status, 200);
    assert_eq!(read(stage, &key, "is_scammer").await, json!({"escalated_today": 0, "cost_micros_today": 0}));
    // One that was set before the operator took the second analyzer away.
    stage.execute("UPDATE signals SET escalation = '{\"band\":[0.0,1.0]}'").await;
    let reply = ingest_and_wait(stage, &key, "user_1", "seen").await.json();
    assert_eq!(answer_to(&reply["answers"], "is_scammer").get("escalated"), None);
}

async fn rewording_keeps_it_and_another_type_ends_it(stage: &Staged) {
    let key = unsure(stage).await;
    let put = async |body: Value| {
        let reply = key.call(stage, Method::PUT, "/v1/signals/is_scammer", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    };
    put(json!({"type": "noul", "instructions": "Is it a scam?"})).await;
    assert_eq!(read(stage, &key, "is_scammer").await["band"], json!([0.3, 0.7]));
    let restore = "/v1/signals/is_scammer/versions/1/restore";
    assert_eq!(key.call(stage, Method::POST, restore, &Value::Null).await.status, 200);
    assert_eq!(read(stage, &key, "is_scammer").await["band"], json!([0.3, 0.7]));
    assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await["escalated"], true);
    put(json!({"type": "score", "instructions": "How bad is it?", "criteria": ["fine", "bad"]})).await;
    assert_eq!(read(stage, &key, "is_scammer").await.get("band"), None);
    assert_eq!(verdict(stage, &key, "user_1", "is_scammer").await.get("escalated"), None);
    put(json!({"type": "noul", "instructions": "Is it a scam?"})).await;
    assert_eq!(read(stage, &key, "is_scammer").await.get("band"), None);
    assert_eq!(key.call(stage, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await.status, 204);
    get(stage, &key, &path("is_scammer")).await.refused(404, "not_found");
}

async fn it_is_one_account_s_and_for_those_who_see_money(stage: &Staged) {
    let token = stage.register("ann@example.com").await;
    let key = stage.api_key(&token).await;
    escalate_band(stage, &key).await;
    let bob = stage.account("bob@example.com").await;
    assert_eq!(read(stage, &bob, "is_scammer").await.get("band"), None);
    verdict(stage, &key, "user_1", "is_scammer").await;
    assert_eq!(today(stage, &bob).await, (0, 0));
    for role in ["viewer", "analyst", "admin"] {
        let member = join(stage, &token, &format!("{role}@example.com"), role).await;
        let reading = stage.call(&member, Method::GET, &path("is_scammer"), &Value::Null).await;
        let setting =
            stage.call(&member, Method::PUT, &path("is_scammer"), &json!({"band": [0.4, 0.6]})).await;
        if role == "admin" {
            assert_eq!((reading.status.as_u16(), setting.status.as_u16()), (200, 200));
        } else {
            reading.refused(403, "forbidden");
            setting.refused(403, "forbidden");
        }
    }
    let reader = json!({"scopes": ["read"]});
    let made = stage.call(&token, Method::POST, "/v1/api_keys", &reader).await.json();
    let reader = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(get(stage, &reader, &path("is_scammer")).await.status, 200);
    set(stage, &reader, "is_scammer", &json!({"band": null})).await.refused(403, "forbidden");
}

async fn it_is_fitted_to_the_first_analyzer_s_answers(stage: &Staged) {
    let key = stage.account("ann@example.com").await;
    assert_eq!(set(stage, &key, "is_scammer", &json!({"band": [0.0, 1.0]})).await.status, 200);
    // Fifty answers of the first analyzer, wrong from 0.40 to 0.60; the second one is always right about yes.
    let mut labels = Vec::new();
    for number in 0..50_u32 {
        let probability = f64::from(number) / 50.0 + 0.01;
        stage.analyzer.always(Turn::Answer(probability));
        let object = format!("user_{number}");
        assert_eq!(verdict(stage, &key, &object, "is_scammer").await["noul"], 0.95);
        let is_yes = (probability >= 0.5) != (0.4..0.6).contains(&probability);
        labels.push(json!({"object_id": object, "signal": "is_scammer", "value": is_yes}));
    }
    let given = key.call(stage, Method::POST, "/v1/labels", &json!({"labels": labels[..49]})).await;
    assert_eq!(given.json()["accepted"], 49);
    let target = json!({"target_error": 0.0});
    let message = set(stage, &key, "is_scammer", &target).await.refused(409, "not_enough_labels");
    assert!(message.contains("there are 49"), "{message}");
    key.call(stage, Method::POST, "/v1/labels", &json!({"labels": labels})).await;
    let fitted = set(stage, &key, "is_scammer", &target).await.json();
    assert_eq!((&fitted["labels"], &fitted["share"]["value"]), (&json!(50), &json!(0.2)));
    assert_eq!(fitted["error"]["value"], 0.0);
    let band = [fitted["band"][0].as_f64().unwrap(), fitted["band"][1].as_f64().unwrap()];
    assert!((band[0] - 0.41).abs() < 1e-6 && (band[1] - 0.59).abs() < 1e-6, "{fitted}");
    let shown = read(stage, &key, "is_scammer").await;
    assert_eq!((shown.get("labels"), &shown["band"]), (None, &fitted["band"]), "figures are of the fit");
    // An error that the first analyzer keeps by itself needs no escalation.
    let easy = set(stage, &key, "is_scammer", &json!({"target_error": 0.5})).await.json();
    assert_eq!(
        (easy.get("band"), &easy["share"]["value"], &easy["error"]["value"]),
        (None, &json!(0.0), &json!(0.2))
    );
    // Calibrations too are fitted to the first analyzer: the second one says 0.95 of all.
    let path = "/v1/signals/is_scammer/calibrations";
    let fitted = key.call(stage, Method::POST, path, &Value::Null).await.json();
    let brier = fitted["before"]["brier"]["value"].as_f64().unwrap();
    let expected: f64 = labels
        .iter()
        .zip(0_u32..)
        .map(|(label, number)| {
            let truth = f64::from(u8::from(label["value"] == true));
            (f64::from(number) / 50.0 + 0.01 - truth).powi(2)
        })
        .sum();
    assert!((brier - expected / 50.0).abs() < 1e-9, "{fitted}");
}
