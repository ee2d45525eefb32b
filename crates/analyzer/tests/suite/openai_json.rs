//! Percentages in JSON, for servers that give no probabilities of tokens.

use analyzer::OpenAi;
use serde_json::{Value, json};

use super::openai::completion;
use super::scripted::{Reply, Scripted};
use super::{ask, cause_of, endpoint, probabilities, question, questions, user_message};
use model::SignalType;

const PERCENTAGES: &str =
    r#"{"0": {"A": 90, "B": 10}, "1": {"A": 0, "B": 30, "C": 10}, "2": {"A": 50, "B": 25, "C": 25}}"#;

fn completed(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    let usage = json!({"prompt_tokens": 200, "completion_tokens": 40});
    Reply::Json(200, json!({"choices": [{"index": 0, "message": message, "logprobs": null}], "usage": usage}))
}

fn rejected(status: u16, message: &str) -> Reply {
    Reply::Json(status, json!({"error": {"message": message, "type": "invalid_request_error"}}))
}

fn requests_a_letter(body: &Value) -> bool {
    body.get("logprobs").is_some()
}

async fn assert_falls_back(letter: fn() -> Reply) {
    let server =
        Scripted::start(move |body| if requests_a_letter(body) { letter() } else { completed(PERCENTAGES) })
            .await;
    let openai = OpenAi::new(endpoint(&server.url)).unwrap();
    for round in 1..=2 {
        let findings = ask(&openai, &questions()).await.unwrap();
        // The options by name are odd, pay and wares.
        let expected = [Ok(vec![0.9, 0.1]), Ok(vec![0.25, 0.75, 0.0]), Ok(vec![0.5, 0.25, 0.25])];
        assert_eq!(probabilities(&findings), expected);
        assert_eq!((findings.input_tokens, findings.output_tokens), (200, 40));
        let requests = server.requests();
        assert_eq!(
            requests.iter().filter(|one| !requests_a_letter(&one.body)).count(),
            round,
            "all in one request"
        );
    }
    let requests = server.requests();
    assert!(!requests_a_letter(&requests.last().unwrap().body));
    assert!(
        requests.iter().filter(|one| requests_a_letter(&one.body)).count() <= 3,
        "discovered once, and remembered"
    );
}

#[tokio::test]
async fn json_is_requested_from_a_server_without_probabilities() {
    assert_falls_back(|| completed("A")).await;
    assert_falls_back(|| {
        rejected(400, "Unsupported parameter: 'logprobs' is not supported with this model.")
    })
    .await;
    assert_falls_back(|| rejected(403, "You are not allowed to request logprobs from this model")).await;
    assert_falls_back(|| rejected(422, "extra inputs are not permitted: top_logprobs")).await;
}

#[tokio::test]
async fn the_request_has_a_strict_schema_and_the_history_first() {
    let server =
        Scripted::start(|body| if requests_a_letter(body) { completed("A") } else { completed(PERCENTAGES) })
            .await;
    ask(&OpenAi::new(endpoint(&server.url)).unwrap(), &questions()).await.unwrap();
    let body = server.requests().pop().unwrap().body;
    assert_eq!(body["response_format"]["type"], "json_schema");
    let schema = &body["response_format"]["json_schema"];
    assert_eq!((&schema["name"], &schema["strict"]), (&json!("answers"), &json!(true)));
    assert_eq!(schema["schema"]["required"], json!(["0", "1", "2"]));
    assert!(body["max_tokens"].as_u64().unwrap() > 1);
    let text = user_message(&body);
    let (fence, rest) = text.split_once('\n').unwrap();
    let questions = rest.split_once(fence).unwrap().1;
    assert!(
        questions.contains("Question 0:\nIs it a scam?")
            && questions.contains("Question 2:\nHow rude is it?")
    );
}

#[tokio::test]
async fn a_server_without_schemas_gets_instructions_in_words() {
    let server = Scripted::start(|body| {
        if requests_a_letter(body) {
            completed("A")
        } else if body.get("response_format").is_some() {
            rejected(400, "response_format is not available for this model")
        } else {
            completed(&format!("Here you are:\n```json\n{PERCENTAGES}\n```"))
        }
    })
    .await;
    let openai = OpenAi::new(endpoint(&server.url)).unwrap();
    ask(&openai, &questions()[..1]).await.unwrap();
    assert_eq!(server.count(), 3, "a letter, a schema, words");
    let findings = ask(&openai, &questions()[..1]).await.unwrap();
    assert_eq!((server.count(), probabilities(&findings)), (4, vec![Ok(vec![0.9, 0.1])]));
}

#[tokio::test]
async fn incomplete_answers_are_rejected() {
    let server = Scripted::start(|body| {
        if requests_a_letter(body) {
            completed("A")
        } else {
            completed(r#"{"0": {"A": 90}, "1": {"A": 1, "B": 1, "C": 2}, "2": {"A": -1, "B": 1, "C": 1}}"#)
        }
    })
    .await;
    let findings = ask(&OpenAi::new(endpoint(&server.url)).unwrap(), &questions()).await.unwrap();
    let which: Vec<bool> = findings.answers.iter().map(Result::is_ok).collect();
    assert_eq!(which, [false, true, false]);
}

#[tokio::test]
async fn an_answer_in_prose_is_a_failure() {
    let server = Scripted::start(|body| {
        if requests_a_letter(body) { completed("A") } else { completed("It looks fine to me.") }
    })
    .await;
    let cause = cause_of(ask(&OpenAi::new(endpoint(&server.url)).unwrap(), &questions()).await);
    assert_eq!(cause, "the analyzer failed: the response has no JSON object");
}

#[tokio::test]
async fn the_text_of_a_user_does_not_change_how_the_server_is_called() {
    // The server quotes the prompt in an error that has nothing to do with probabilities.
    let server = Scripted::start(|body| {
        if user_message(body).contains("logprobs") {
            rejected(400, &format!("too long: {}", user_message(body)))
        } else {
            Reply::Json(200, completion(&[("A", 1.0)]))
        }
    })
    .await;
    let openai = OpenAi::new(endpoint(&server.url)).unwrap();
    let sly = [question(SignalType::Noul, "Does it mention logprobs?", None)];
    assert!(cause_of(ask(&openai, &sly).await).contains("400"));
    ask(&openai, &questions()[..1]).await.unwrap();
    assert!(server.requests().iter().all(|request| requests_a_letter(&request.body)));
}
