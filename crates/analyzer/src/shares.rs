//! Answers as JSON, for models that give no probabilities of their own: a share for every candidate, in percent.

use model::{Distribution, Question};
use serde_json::{Map, Value, json};

use crate::AnswerError;
use crate::prompt::labelled;

/// A bound and not an expectation: room to think, for models that cannot be told not to.
const THINKING_TOKENS: usize = 2048;
/// A letter, a number and what stands between them.
const TOKENS_PER_CANDIDATE: usize = 16;

/// How many tokens an answer to these questions may take.
pub(crate) fn max_tokens(questions: &[Question]) -> usize {
    let candidates: usize = questions.iter().map(|question| question.candidates.len()).sum();
    THINKING_TOKENS + TOKENS_PER_CANDIDATE * candidates
}

/// The JSON schema of the answers. Whole percents, because decoders that follow a schema can bound them.
pub(crate) fn schema(questions: &[Question]) -> Value {
    let share = json!({"type": "integer", "minimum": 0, "maximum": 100});
    let answer = |question| object(labelled(question).map(|(label, _)| (label.to_string(), share.clone())));
    object(questions.iter().enumerate().map(|(number, question)| (number.to_string(), answer(question))))
}

/// All members are required and no others are allowed: strict decoders ask for both.
fn object(members: impl Iterator<Item = (String, Value)>) -> Value {
    let properties: Map<String, Value> = members.collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

/// Finds the JSON object in what a model wrote, which may have thoughts before it and a fence around it.
pub(crate) fn find(text: &str) -> Option<Value> {
    let text = text.rsplit_once("</think>").map_or(text, |(_, answer)| answer);
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    serde_json::from_str(text.get(start..=end)?).ok()
}

/// Reads the answers, one for each question.
pub(crate) fn read(answers: &Value, questions: &[Question]) -> Vec<Result<Distribution, AnswerError>> {
    let answer = |(number, question): (usize, &Question)| {
        let answer = answers.get(number.to_string()).ok_or(AnswerError::Missing)?;
        let mut weights = vec![0.0; question.candidates.len()];
        for (label, index) in labelled(question) {
            weights[index] = answer.get(label.to_string()).and_then(share).ok_or(AnswerError::Incomplete)?;
        }
        Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
    };
    questions.iter().enumerate().map(answer).collect()
}

/// A number, also as a text and with its percent sign: without a schema that is what some models write.
fn share(value: &Value) -> Option<f64> {
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

    fn read_text(text: &str) -> Vec<Result<Vec<f64>, AnswerError>> {
        let answers = read(&find(text).unwrap_or_default(), &questions());
        answers.into_iter().map(|answer| answer.map(|shares| shares.probabilities().to_vec())).collect()
    }

    #[test]
    fn shares_are_normalised_and_go_to_their_candidates() {
        let answers = read_text(r#"{"0": {"A": 30, "B": 10}, "1": {"A": 100, "B": 0}}"#);
        assert_eq!(
            answers,
            [Ok(vec![0.75, 0.25]), Ok(vec![0.0, 1.0])],
            "A is the option a, which was sent second"
        );
    }

    #[test]
    fn what_stands_around_the_answer_does_not_matter() {
        let wrapped = "<think>{\"0\": {}}</think>Sure:\n```json\n{\"0\": {\"A\": \"30 %\", \"B\": \" 10\", \"C\": null}, \
                       \"why\": \"…\", \"1\": {\"A\": 0.5, \"B\": 0.5}}\n```\n";
        assert_eq!(read_text(wrapped), [Ok(vec![0.75, 0.25]), Ok(vec![0.5, 0.5])]);
    }

    #[test]
    fn what_does_not_cover_the_candidates_is_refused() {
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
            let answers = read_text(&format!(r#"{{"0": {answer}, "1": {{"A": 1, "B": 1}}}}"#));
            assert_eq!(answers, [Err(AnswerError::Incomplete), Ok(vec![0.5, 0.5])], "{answer}");
        }
        for text in ["", "}{", "A", "{\"0\": {\"A\": 1e999, \"B\": 1}}", "{\"0\": "] {
            assert_eq!(read_text(text), [Err(AnswerError::Missing), Err(AnswerError::Missing)], "{text}");
        }
    }

    #[test]
    fn the_schema_names_every_question_and_candidate() {
        let schema = schema(&questions());
        assert_eq!(schema["required"], json!(["0", "1"]));
        assert_eq!(schema["properties"]["1"]["required"], json!(["A", "B"]));
        assert_eq!(schema["properties"]["1"]["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["1"]["properties"]["B"]["maximum"], json!(100));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in r#"(\{|\}|"[01AB]"|:|,|[0-9.e-]{1,4}|</think>|\PC){0,30}"#) {
            prop_assert_eq!(read_text(&text).len(), 2);
        }
    }
}
