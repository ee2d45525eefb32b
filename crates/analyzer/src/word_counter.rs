//! An analyzer for tests and load measurements: it favours candidates whose words occur in the history, slightly.
//! It takes almost no time, so that what is measured is the service and not a model.

use std::collections::HashSet;

use model::{Candidate, Distribution, Question, SignalType};
use serde_json::Value;

use crate::instrument::instrumented;
use crate::{Analyzer, AnswerError, BoxFuture, Failure, Inquiry, InquiryAnswers, Usage};

const MODEL: &str = "auspex-words";
/// How much a candidate gains if all its words are found: the probability of a yes stays between 0.35 and 0.65.
const GAIN: f64 = 0.6;
/// Shorter words occur in every text.
const MIN_WORD_CHARACTERS: usize = 3;

/// Counts words. It is deterministic, needs no network and is never sure of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordCounter;

impl Analyzer for WordCounter {
    fn model(&self) -> &str {
        MODEL
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        Box::pin(instrumented("words", self, inquiry, async move { Ok(reply(inquiry)) }))
    }
}

fn reply(inquiry: Inquiry<'_>) -> InquiryAnswers {
    let state = inquiry.state.to_lowercase();
    let known: HashSet<&str> = words(&state).collect();
    let texts: Vec<Vec<String>> = inquiry.questions.iter().map(candidate_texts).collect();
    let usage =
        Usage::estimate(inquiry.state.len() + texts.iter().flatten().map(String::len).sum::<usize>(), 0);
    InquiryAnswers {
        model: MODEL.to_owned(),
        answers: texts.iter().map(|texts| answer(texts, &known)).collect(),
        input_tokens: usage.input,
        output_tokens: 0,
    }
}

fn answer(candidates: &[String], known: &HashSet<&str>) -> Result<Distribution, AnswerError> {
    let weights: Vec<f64> = candidates.iter().map(|text| (GAIN * overlap(text, known)).exp()).collect();
    Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
}

/// The fraction of the text's words that are known, or a half if it has none.
fn overlap(text: &str, known: &HashSet<&str>) -> f64 {
    let wanted: HashSet<&str> = words(text).collect();
    if wanted.is_empty() {
        return 0.5;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    let fraction = wanted.intersection(known).count() as f64 / wanted.len() as f64;
    fraction
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.chars().nth(MIN_WORD_CHARACTERS - 1).is_some())
}

/// The text about each candidate, in lower case. The instructions count as text about *yes*.
fn candidate_texts(question: &Question) -> Vec<String> {
    let text = |candidate: &Candidate| {
        let mut text = String::new();
        match question.kind {
            SignalType::Choice => add(&mut text, &candidate.name),
            SignalType::Noul if candidate.name == "yes" => add_all(&mut text, &question.instructions),
            SignalType::Noul | SignalType::Score => {}
        }
        if let Some(description) = &candidate.description {
            add_all(&mut text, description);
        }
        text.to_lowercase()
    };
    question.candidates.iter().map(text).collect()
}

fn add_all(text: &mut String, value: &Value) {
    match value {
        Value::String(part) => add(text, part),
        Value::Array(items) => items.iter().for_each(|item| add_all(text, item)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            add(text, name);
            add_all(text, value);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add(text: &mut String, part: &str) {
    text.push(' ');
    text.push_str(part);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(kind: SignalType, instructions: &str, criteria: Option<&str>) -> Question {
        Question::parse("key", kind, &serde_json::to_string(instructions).unwrap(), criteria).unwrap()
    }

    fn probabilities(state: &str, question: &Question) -> Vec<f64> {
        let reply = reply(Inquiry {
            is_urgent: false,
            tenant: None,
            state,
            questions: std::slice::from_ref(question),
        });
        reply.answers[0].as_ref().unwrap().probabilities().to_vec()
    }

    #[test]
    fn candidates_whose_words_occur_are_favoured() {
        let route = question(
            SignalType::Choice,
            "Which team?",
            Some(r#"{"billing": "refunds, charges", "shipping": null}"#),
        );
        let found = probabilities("I was charged twice. Refunds? Billing!", &route);
        assert!(found[0] > found[1], "{found:?}");
        let missing = probabilities("Hello.", &route);
        assert!((missing[0] - 0.5).abs() < 1e-9, "{missing:?}");
        let scam =
            question(SignalType::Noul, "Is it a scam?", Some(r#"{"true": "wants money", "false": "chats"}"#));
        assert!(probabilities("Scam! Wants money.", &scam)[0] > probabilities("Only chats.", &scam)[0]);
    }

    #[test]
    fn the_order_of_options_and_other_questions_do_not_matter() {
        let one =
            question(SignalType::Choice, "Which?", Some(r#"{"red": "a red one", "blue": "a blue one"}"#));
        let other =
            question(SignalType::Choice, "Which?", Some(r#"{"blue": "a blue one", "red": "a red one"}"#));
        let noul = question(SignalType::Noul, "Is it red?", None);
        let state = "It is red.";
        let mut reversed = probabilities(state, &other);
        reversed.reverse();
        assert_eq!(probabilities(state, &one), reversed);
        let questions = [noul, one.clone()];
        let together = reply(Inquiry { is_urgent: false, tenant: None, state, questions: &questions });
        assert_eq!(together.answers[1].as_ref().unwrap().probabilities(), probabilities(state, &one));
        assert!(together.input_tokens > 0);
    }

    #[tokio::test]
    async fn answers_are_recorded_under_the_name_of_the_model() {
        let questions = [question(SignalType::Noul, "Is it?", None)];
        let reply = WordCounter
            .analyze(Inquiry { is_urgent: false, tenant: None, state: "", questions: &questions })
            .await
            .unwrap();
        assert_eq!((reply.model.as_str(), WordCounter.model()), ("auspex-words", "auspex-words"));
        assert!(
            WordCounter
                .analyze(Inquiry { is_urgent: false, tenant: None, state: "", questions: &[] })
                .await
                .unwrap()
                .answers
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn it_is_never_sure(state in r"\PC{0,60}", instructions in r"[a-z]\PC{0,30}", no in r"\PC{0,20}") {
            let criteria = serde_json::json!({"false": no}).to_string();
            let yes = probabilities(&state, &question(SignalType::Noul, &instructions, Some(&criteria)))[0];
            prop_assert!((0.35..=0.65).contains(&yes));
        }
    }
}
