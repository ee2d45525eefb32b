//! The Messages API, with replies of the shapes that it sends.

use analyzer::Anthropic;
use serde_json::{Value, json};

use super::scripted::{Reply, Scripted};
use super::{API_KEY, MODEL, STATE, ask, cause_of, endpoint, probabilities, questions};

fn used(input: Value) -> Value {
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "a-model-20260101",
        "content": [
            {"type": "text", "text": "I have read the history."},
            {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": input},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 30, "output_tokens": 40},
    })
}

fn answers() -> Value {
    json!({"0": {"A": 80, "B": 20}, "1": {"A": 0, "B": 30, "C": 10}, "2": {"A": 0, "B": 0, "C": 100}})
}

#[tokio::test]
async fn all_questions_are_answered_by_one_tool_use() {
    let server = Scripted::start(|_| Reply::Json(200, used(answers()))).await;
    let findings = ask(&Anthropic::new(endpoint(&server.url)).unwrap(), &questions()).await.unwrap();
    assert_eq!(
        probabilities(&findings),
        [Ok(vec![0.8, 0.2]), Ok(vec![0.25, 0.75, 0.0]), Ok(vec![0.0, 0.0, 1.0])]
    );
    assert_eq!(findings.model, "a-model-20260101", "as the response names it");
    assert_eq!((findings.input_tokens, findings.output_tokens), (240, 40), "cached tokens were read too");

    let [request] = &server.requests()[..] else { panic!("one request") };
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.headers["x-api-key"], API_KEY);
    assert_eq!(request.headers["anthropic-version"], "2023-06-01");
    assert!(request.headers.get("authorization").is_none());
    let body = &request.body;
    assert_eq!((&body["model"], &body["temperature"]), (&json!(MODEL), &json!(0)));
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "answer"}));
    assert_eq!(body["tools"][0]["name"], "answer");
    assert_eq!(body["tools"][0]["input_schema"]["required"], json!(["0", "1", "2"]));
    let [history, questions] = &body["messages"][0]["content"].as_array().unwrap()[..] else {
        panic!("two blocks")
    };
    assert!(history["text"].as_str().unwrap().contains(STATE));
    assert_eq!(history["cache_control"], json!({"type": "ephemeral"}));
    assert!(questions["text"].as_str().unwrap().contains("Question 1:\nWhat is it about?"));
    assert!(questions.get("cache_control").is_none());
    assert!(!body.to_string().contains("is_secret"), "the keys of signals are not sent");
}

#[tokio::test]
async fn the_other_questions_keep_their_answers_when_one_is_omitted() {
    let server = Scripted::start(|_| Reply::Json(200, used(json!({"1": {"A": 1, "B": 1, "C": 2}})))).await;
    let findings = ask(&Anthropic::new(endpoint(&server.url)).unwrap(), &questions()).await.unwrap();
    let which: Vec<bool> = findings.answers.iter().map(Result::is_ok).collect();
    assert_eq!(which, [false, true, false]);
}

#[tokio::test]
async fn prose_and_other_tools_are_not_an_answer() {
    for content in [
        json!([{"type": "text", "text": "I cannot help with that."}]),
        json!([{"type": "tool_use", "name": "search", "input": answers()}]),
        json!([]),
        json!(null),
    ] {
        let server =
            Scripted::start(move |_| Reply::Json(200, json!({"type": "message", "content": content}))).await;
        let cause = cause_of(ask(&Anthropic::new(endpoint(&server.url)).unwrap(), &questions()).await);
        assert_eq!(cause, "the analyzer failed: the response does not use the tool");
    }
}

#[tokio::test]
async fn a_model_that_rejects_a_temperature_gets_none() {
    let server = Scripted::start(|body| {
        if body.get("temperature").is_some() {
            let error = json!({"type": "invalid_request_error", "message": "`temperature` is deprecated for this model."});
            Reply::Json(400, json!({"type": "error", "error": error}))
        } else {
            Reply::Json(200, used(answers()))
        }
    })
    .await;
    let anthropic = Anthropic::new(endpoint(&server.url)).unwrap();
    ask(&anthropic, &questions()).await.unwrap();
    ask(&anthropic, &questions()).await.unwrap();
    assert_eq!(server.count(), 3, "rejected once, and remembered");
}
