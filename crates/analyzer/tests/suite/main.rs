//! What the analyzers promise. Hosted services cannot run on a test machine, so a scripted server sends replies of the same
//! shape. A real server that can run there, llama.cpp's, is tested too.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

// The name that the other crates of the workspace use.
extern crate auspex_analyzer as analyzer;

mod anthropic;
mod failures;
mod llama;
mod openai;
mod openai_json;
mod scripted;
mod systemone;

use std::error::Error as _;
use std::time::Duration;

use analyzer::{Analyzer, AnswerError, Endpoint, Failure, Inquiry, InquiryAnswers};
use model::{Question, SignalType};
use serde_json::Value;
use url::Url;

const API_KEY: &str = "sk-hush-1234";
const MODEL: &str = "a-model";
const STATE: &str = "Ann, seller since May. Two messages: \"pay me outside\", \"now!\"";

fn endpoint(url: &Url) -> Endpoint {
    // Another test in this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Endpoint {
        url: url.join("/v1").unwrap(),
        api_key: Some(API_KEY.to_owned()),
        model: MODEL.to_owned(),
        timeout: Duration::from_secs(30),
        max_concurrency: 4,
    }
}

fn question(kind: SignalType, instructions: &str, criteria: Option<&str>) -> Question {
    let instructions = serde_json::to_string(instructions).unwrap();
    Question::parse("is_secret", kind, &instructions, criteria).unwrap()
}

/// A question of each type.
fn questions() -> Vec<Question> {
    vec![
        question(SignalType::Noul, "Is it a scam?", Some(r#"{"true": "asks for payment elsewhere"}"#)),
        question(
            SignalType::Choice,
            "What is it about?",
            Some(r#"{"wares": "goods", "pay": "money", "odd": null}"#),
        ),
        question(SignalType::Score, "How rude is it?", Some(r#"["polite", "curt", "rude"]"#)),
    ]
}

async fn ask(analyzer: &impl Analyzer, questions: &[Question]) -> Result<InquiryAnswers, Failure> {
    analyzer.analyze(Inquiry { is_urgent: false, tenant: None, state: STATE, questions }).await
}

/// The probabilities of every answer, rounded so that they can be compared.
fn probabilities(reply: &InquiryAnswers) -> Vec<Result<Vec<f64>, AnswerError>> {
    let rounded = |value: &f64| (value * 1e9).round() / 1e9;
    let answers = reply.answers.iter().cloned();
    answers.map(|answer| answer.map(|one| one.probabilities().iter().map(rounded).collect())).collect()
}

/// The cause of a failure in one line, which must not contain a secret.
#[track_caller]
fn cause_of(outcome: Result<InquiryAnswers, Failure>) -> String {
    let failure = outcome.unwrap_err();
    let mut text = failure.to_string();
    let mut next = failure.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    assert!(!text.contains(API_KEY) && !format!("{failure:?}").contains(API_KEY), "{text}");
    assert!(!matches!(failure, Failure::Throttled { .. }), "{text}");
    text
}

/// The user message of a chat request.
fn user_message(body: &Value) -> &str {
    assert_eq!(body["messages"][1]["role"], "user");
    body["messages"][1]["content"].as_str().unwrap()
}
