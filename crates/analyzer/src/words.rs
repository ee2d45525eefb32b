//! What answers where nobody reads the answers: it looks for the words of the candidates in the dossier and leans a little
//! towards those it finds. It costs next to nothing, so that tests and measurements see the service and not a model.

use std::collections::HashSet;

use model::{Candidate, Distribution, Question, SignalType};
use serde_json::Value;

use crate::measure::measured;
use crate::{Analyzer, AnswerError, BoxFuture, Failure, Findings, Inquiry, Usage};

const MODEL: &str = "auspex-words";
/// How far finding every word of a candidate and none of another tips the scales: a yes stays between 0.35 and 0.65.
const SWAY: f64 = 0.6;
/// Shorter words are in every text.
const MIN_WORD_CHARACTERS: usize = 3;

/// Counts words: deterministic, without a network, and never far from indifference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

impl Analyzer for Words {
    fn model(&self) -> &str {
        MODEL
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>> {
        Box::pin(measured("words", self, inquiry, async move { Ok(findings(inquiry)) }))
    }
}

fn findings(inquiry: Inquiry<'_>) -> Findings {
    let state = inquiry.state.to_lowercase();
    let known: HashSet<&str> = words(&state).collect();
    let texts: Vec<Vec<String>> = inquiry.questions.iter().map(candidate_texts).collect();
    let usage =
        Usage::estimate(inquiry.state.len() + texts.iter().flatten().map(String::len).sum::<usize>(), 0);
    Findings {
        model: MODEL.to_owned(),
        answers: texts.iter().map(|texts| answer(texts, &known)).collect(),
        input_tokens: usage.input,
        output_tokens: 0,
    }
}

fn answer(candidates: &[String], known: &HashSet<&str>) -> Result<Distribution, AnswerError> {
    let weights: Vec<f64> = candidates.iter().map(|text| (SWAY * overlap(text, known)).exp()).collect();
    Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
}

/// The share of the text's words that are known, and a half when it has none.
fn overlap(text: &str, known: &HashSet<&str>) -> f64 {
    let asked: HashSet<&str> = words(text).collect();
    if asked.is_empty() {
        return 0.5;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    let share = asked.intersection(known).count() as f64 / asked.len() as f64;
    share
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.chars().nth(MIN_WORD_CHARACTERS - 1).is_some())
}

/// All that is said of each candidate, in lower case. The instructions speak for a yes.
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

    fn shares(state: &str, question: &Question) -> Vec<f64> {
        let findings =
            findings(Inquiry { is_urgent: false, state, questions: std::slice::from_ref(question) });
        findings.answers[0].as_ref().unwrap().probabilities().to_vec()
    }

    #[test]
    fn leans_towards_the_words_that_it_finds() {
        let route = question(
            SignalType::Choice,
            "Which team?",
            Some(r#"{"billing": "refunds, charges", "shipping": null}"#),
        );
        let told = shares("I was charged twice. Refunds? Billing!", &route);
        assert!(told[0] > told[1], "{told:?}");
        let untold = shares("Hello.", &route);
        assert!((untold[0] - 0.5).abs() < 1e-9, "{untold:?}");
        let scam =
            question(SignalType::Noul, "Is it a scam?", Some(r#"{"true": "wants money", "false": "chats"}"#));
        assert!(shares("Scam! Wants money.", &scam)[0] > shares("Only chats.", &scam)[0]);
    }

    #[test]
    fn the_order_of_options_and_other_questions_do_not_matter() {
        let one =
            question(SignalType::Choice, "Which?", Some(r#"{"red": "a red one", "blue": "a blue one"}"#));
        let other =
            question(SignalType::Choice, "Which?", Some(r#"{"blue": "a blue one", "red": "a red one"}"#));
        let noul = question(SignalType::Noul, "Is it red?", None);
        let state = "It is red.";
        let mut turned = shares(state, &other);
        turned.reverse();
        assert_eq!(shares(state, &one), turned);
        let questions = [noul, one.clone()];
        let together = findings(Inquiry { is_urgent: false, state, questions: &questions });
        assert_eq!(together.answers[1].as_ref().unwrap().probabilities(), shares(state, &one));
        assert!(together.input_tokens > 0);
    }

    #[tokio::test]
    async fn says_what_it_is() {
        let questions = [question(SignalType::Noul, "Is it?", None)];
        let findings =
            Words.analyze(Inquiry { is_urgent: false, state: "", questions: &questions }).await.unwrap();
        assert_eq!((findings.model.as_str(), Words.model()), ("auspex-words", "auspex-words"));
        assert!(
            Words
                .analyze(Inquiry { is_urgent: false, state: "", questions: &[] })
                .await
                .unwrap()
                .answers
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn never_claims_to_know(state in r"\PC{0,60}", instructions in r"[a-z]\PC{0,30}", no in r"\PC{0,20}") {
            let criteria = serde_json::json!({"false": no}).to_string();
            let yes = shares(&state, &question(SignalType::Noul, &instructions, Some(&criteria)))[0];
            prop_assert!((0.35..=0.65).contains(&yes));
        }
    }
}
