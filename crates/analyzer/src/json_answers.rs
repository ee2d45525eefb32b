//! Answers as JSON, for models that give no probabilities of tokens: a percentage for every candidate.

use model::{Distribution, Question};
use serde_json::{Map, Value, json};

use crate::AnswerError;
use crate::prompt::labelled;

/// An upper bound for models that think before they answer and cannot be kept from it.
const THINKING_TOKENS: usize = 2048;
/// A letter, a number and the punctuation around them.
const TOKENS_PER_CANDIDATE: usize = 16;

/// How many tokens the answers to these questions may take.
pub(crate) fn max_tokens(questions: &[Question]) -> usize {
    let candidates: usize = questions.iter().map(|question| question.candidates.len()).sum();
    THINKING_TOKENS + TOKENS_PER_CANDIDATE * candidates
}

/// The JSON schema of the answers. Percentages are integers, because constrained decoders can bound those.
pub(crate) fn schema(questions: &[Question]) -> Value {
    let percentage = json!({"type": "integer", "minimum": 0, "maximum": 100});
    let answer =
        |question| object(labelled(question).map(|(label, _)| (label.to_string(), percentage.clone())));
    object(questions.iter().enumerate().map(|(number, question)| (number.to_string(), answer(question))))
}

/// The schema of an object. All members are required and no others are allowed, as strict decoders demand.
fn object(members: impl Iterator<Item = (String, Value)>) -> Value {
    let properties: Map<String, Value> = members.collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

/// Finds the JSON object in a model's output, which may have reasoning before it and a code fence around it.
pub(crate) fn find_object(text: &str) -> Option<Value> {
    let text = text.rsplit_once("</think>").map_or(text, |(_, answer)| answer);
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    serde_json::from_str(text.get(start..=end)?).ok()
}

/// Parses the answers, one for each question.
pub(crate) fn parse(answers: &Value, questions: &[Question]) -> Vec<Result<Distribution, AnswerError>> {
    let answer = |(number, question): (usize, &Question)| {
        let answer = answers.get(number.to_string()).ok_or(AnswerError::Missing)?;
        let mut weights = vec![0.0; question.candidates.len()];
        for (label, index) in labelled(question) {
            weights[index] =
                answer.get(label.to_string()).and_then(percentage).ok_or(AnswerError::Incomplete)?;
        }
        Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
    };
    questions.iter().enumerate().map(answer).collect()
}

/// A number, or a string with a number and a percent sign, which some models write when no schema constrains them.
fn percentage(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.trim().trim_end_matches('%').trim_end().parse().ok(),
        value => value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use model::SignalType;
    use proptest::prelude::*;

    use super::*;

    fn questions() -> Vec<Question> {
        let parse = |kind, criteria| Question::parse("key", kind, "\"Which?\"", criteria).unwrap();
        vec![parse(SignalType::Noul, None), parse(SignalType::Choice, Some(r#"{"b": null, "a": null}"#))]
    }

    fn parse_text(text: &str) -> Vec<Result<Vec<f64>, AnswerError>> {
        let answers = parse(&find_object(text).unwrap_or_default(), &questions());
        let probabilities = |answer: Distribution| answer.probabilities().to_vec();
        answers.into_iter().map(|answer| answer.map(probabilities)).collect()
    }

    #[test]
    fn percentages_are_normalized_and_assigned_to_their_candidates() {
        let answers = parse_text(r#"{"0": {"A": 30, "B": 10}, "1": {"A": 100, "B": 0}}"#);
        assert_eq!(
            answers,
            [Ok(vec![0.75, 0.25]), Ok(vec![0.0, 1.0])],
            "A is the option a, which was sent second"
        );
    }

    #[test]
    fn text_around_the_object_is_ignored() {
        let wrapped = "<think>{\"0\": {}}</think>Sure:\n```json\n{\"0\": {\"A\": \"30 %\", \"B\": \" 10\", \"C\": null}, \
                       \"why\": \"…\", \"1\": {\"A\": 0.5, \"B\": 0.5}}\n```\n";
        assert_eq!(parse_text(wrapped), [Ok(vec![0.75, 0.25]), Ok(vec![0.5, 0.5])]);
    }

    #[test]
    fn incomplete_answers_are_rejected() {
        for answer in [
            r#"{"A": 30}"#,
            r#"{"A": -1, "B": 2}"#,
            r#"{"A": 0, "B": 0}"#,
            r#"{"A": "NaN", "B": 1}"#,
            r#"{"A": "inf", "B": 1}"#,
            r#"{"A": null, "B": 1}"#,
            "[]",
            "7",
        ] {
            let answers = parse_text(&format!(r#"{{"0": {answer}, "1": {{"A": 1, "B": 1}}}}"#));
            assert_eq!(answers, [Err(AnswerError::Incomplete), Ok(vec![0.5, 0.5])], "{answer}");
        }
        for text in ["", "}{", "A", "{\"0\": {\"A\": 1e999, \"B\": 1}}", "{\"0\": "] {
            assert_eq!(parse_text(text), [Err(AnswerError::Missing), Err(AnswerError::Missing)], "{text}");
        }
    }

    #[test]
    fn the_schema_has_every_question_and_candidate() {
        let schema = schema(&questions());
        assert_eq!(schema["required"], json!(["0", "1"]));
        assert_eq!(schema["properties"]["1"]["required"], json!(["A", "B"]));
        assert_eq!(schema["properties"]["1"]["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["1"]["properties"]["B"]["maximum"], json!(100));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in r#"(\{|\}|"[01AB]"|:|,|[0-9.e-]{1,4}|</think>|\PC){0,30}"#) {
            prop_assert_eq!(parse_text(&text).len(), 2);
        }
    }
}
