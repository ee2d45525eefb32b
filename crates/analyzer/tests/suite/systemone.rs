//! The wire format of decision models, with a server written by hand from the contract.

use analyzer::{Analyzer as _, AnswerError, SystemOne};
use serde_json::{Map, Value, json};

use super::scripted::{Reply, Scripted};
use super::{API_KEY, MODEL, STATE, ask, cause_of, endpoint, probabilities, questions};

/// Replies as the contract says, with every field of each type.
fn reference(body: &Value) -> Reply {
    assert!(body["state"].is_string());
    let answer = |question: &Value| match question["type"].as_str().unwrap() {
        "noul" => json!({"type": "noul", "noul": 0.25}),
        "choice" => {
            let names = question["criteria"].as_object().unwrap().keys();
            let probabilities: Map<String, Value> =
                names.map(|name| (name.clone(), json!(name.len()))).collect();
            json!({"type": "choice", "choice": "wares", "probabilities": probabilities, "confidence": 0.1})
        }
        "score" => {
            let levels = question["criteria"].as_array().unwrap();
            let probabilities: Map<String, Value> =
                (0..levels.len()).map(|level| (level.to_string(), json!(level))).collect();
            let legend: Map<String, Value> =
                levels.iter().enumerate().map(|(level, text)| (level.to_string(), text.clone())).collect();
            json!({"type": "score", "score": 1.6, "probabilities": probabilities, "confidence": 0.2, "legend": legend})
        }
        other => panic!("{other}"),
    };
    let questions = body["questions"].as_object().unwrap();
    let answers: Map<String, Value> =
        questions.iter().map(|(id, question)| (id.clone(), answer(question))).collect();
    Reply::Json(
        200,
        json!({"model": "laya", "answers": answers, "usage": {"input_tokens": 55, "output_tokens": 0}}),
    )
}

#[tokio::test]
async fn all_questions_go_in_one_request() {
    let server = Scripted::start(reference).await;
    let systemone = SystemOne::new(endpoint(&server.url)).unwrap();
    let findings = ask(&systemone, &questions()).await.unwrap();
    // The weight of an option is the length of its name: wares 5, pay 3, odd 3.
    let expected = [
        Ok(vec![0.25, 0.75]),
        Ok(vec![0.454_545_455, 0.272_727_273, 0.272_727_273]),
        Ok(vec![0.0, 0.333_333_333, 0.666_666_667]),
    ];
    assert_eq!(probabilities(&findings), expected);
    assert_eq!((findings.model.as_str(), systemone.model()), ("laya", MODEL));
    assert_eq!((findings.input_tokens, findings.output_tokens), (55, 0));
    let [request] = &server.requests()[..] else { panic!("one request") };
    assert_eq!(request.path, "/v1/systemone");
    assert_eq!(request.headers["authorization"], format!("Bearer {API_KEY}"));
    assert_eq!(
        request.body,
        json!({"model": MODEL, "state": STATE, "questions": {
            "0": {"type": "noul", "instructions": "Is it a scam?", "criteria": {"true": "asks for payment elsewhere"}},
            "1": {"type": "choice", "instructions": "What is it about?", "criteria": {"odd": null, "pay": "money", "wares": "goods"}},
            "2": {"type": "score", "instructions": "How rude is it?", "criteria": ["polite", "curt", "rude"]},
        }})
    );
    let options = request.body["questions"]["1"]["criteria"].as_object().unwrap();
    assert_eq!(options.keys().collect::<Vec<_>>(), ["odd", "pay", "wares"], "sorted by name");
}

async fn answers_from(answers: Value) -> Vec<Result<Vec<f64>, AnswerError>> {
    // The last question always has an answer, so that the others can fail.
    let mut answers = answers;
    answers["2"] = json!({"probabilities": {"0": 1, "1": 0, "2": 0}});
    let server = Scripted::start(move |_| Reply::Json(200, json!({"answers": answers}))).await;
    probabilities(&ask(&SystemOne::new(endpoint(&server.url)).unwrap(), &questions()).await.unwrap())
}

#[tokio::test]
async fn other_fields_may_be_missing_or_unknown() {
    let answers = answers_from(json!({
        "0": {"noul": 1, "confidence": 0.9, "why": ["…"]},
        "1": {"probabilities": {"wares": 0.2, "pay": 0.1, "odd": 0.1, "none": 0.6}},
        "9": {"noul": 0.5},
    }))
    .await;
    assert_eq!(
        answers[..2],
        [Ok(vec![1.0, 0.0]), Ok(vec![0.5, 0.25, 0.25])],
        "normalized over the known options"
    );
}

#[tokio::test]
async fn invalid_distributions_are_rejected() {
    for noul in [
        json!({}),
        json!({"noul": null}),
        json!({"noul": "0.5"}),
        json!({"noul": -0.1}),
        json!({"noul": 1.1}),
        json!([]),
    ] {
        let answers = answers_from(json!({"0": noul.clone()})).await;
        assert_eq!(answers[0], Err(AnswerError::Incomplete), "{noul}");
        assert_eq!(answers[1], Err(AnswerError::Missing));
    }
    for probabilities in [
        json!(null),
        json!({"wares": 1}),
        json!({"wares": 1, "pay": 0, "odd": null}),
        json!({"wares": 1, "pay": -0.5, "odd": 0.5}),
        json!({"wares": 0, "pay": 0, "odd": 0}),
        json!({"wares": 1e308, "pay": 1e308, "odd": 1e308}),
        json!([0.2, 0.3, 0.5]),
    ] {
        let answers =
            answers_from(json!({"1": {"choice": "wares", "probabilities": probabilities.clone()}})).await;
        assert_eq!(answers[1], Err(AnswerError::Incomplete), "{probabilities}");
    }
}

#[tokio::test]
async fn an_inquiry_without_any_answer_has_failed() {
    for body in
        [json!({}), json!([]), json!({"answers": []}), json!({"answers": {"is_secret": {"noul": 0.5}}})]
    {
        let server = Scripted::start(move |_| Reply::Json(200, body.clone())).await;
        let cause = cause_of(ask(&SystemOne::new(endpoint(&server.url)).unwrap(), &questions()).await);
        assert_eq!(cause, "the analyzer failed: the question was not answered");
    }
}
