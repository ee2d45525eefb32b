//! Parses an answer from the log probabilities of one token: how likely the model was to write each letter.

use model::{Distribution, Question};
use serde_json::Value;

use crate::AnswerError;
use crate::prompt::labelled;

/// Servers that cannot write minus infinity write a number below this one.
const IMPOSSIBLE: f64 = -9000.0;

/// The answer in a completion, or none if the server gives no probabilities at all, whatever the question.
pub(super) fn parse(completion: &Value, question: &Question) -> Option<Result<Distribution, AnswerError>> {
    let choice = &completion["choices"][0];
    if !choice["message"].is_object() {
        return Some(Err(AnswerError::Missing));
    }
    let content = choice["logprobs"].get("content")?;
    let Some(token) = content.get(0) else {
        // The model may write nothing, or refuse to answer.
        return Some(Err(AnswerError::NoCandidate));
    };
    let likeliest = token["top_logprobs"].as_array().filter(|tokens| !tokens.is_empty())?;
    // The token that was written counts too: the list may be shorter than requested and omit it.
    Some(distribution(likeliest.iter().chain([token]), question))
}

/// Probabilities from a list in any order. A letter may be in it in several spellings; the likeliest one counts.
fn distribution<'a>(
    tokens: impl Iterator<Item = &'a Value>,
    question: &Question,
) -> Result<Distribution, AnswerError> {
    let mut logprobs = vec![f64::NEG_INFINITY; question.candidates.len()];
    for token in tokens {
        let Some(letter) = token["token"].as_str().and_then(letter) else { continue };
        let Some(logprob) =
            token["logprob"].as_f64().filter(|value| value.is_finite() && *value > IMPOSSIBLE)
        else {
            continue;
        };
        if let Some((_, index)) = labelled(question).find(|(label, _)| *label == letter) {
            logprobs[index] = logprobs[index].max(logprob);
        }
    }
    let highest = logprobs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if highest == f64::NEG_INFINITY {
        return Err(AnswerError::NoCandidate);
    }
    // Relative to the highest, so that letters that are all unlikely do not underflow.
    let weights: Vec<f64> = logprobs.iter().map(|logprob| (logprob - highest).exp()).collect();
    Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
}

/// The letter that a token stands for. Some servers show the space before a word as their tokenizer encodes it.
fn letter(token: &str) -> Option<char> {
    let is_blank = |character: char| character.is_whitespace() || matches!(character, '▁' | 'Ġ' | 'Ċ');
    let word = token.trim_matches(is_blank);
    let word = word.strip_suffix([')', '.']).unwrap_or(word);
    let mut characters = word.chars();
    let letter = characters.next().filter(char::is_ascii_alphabetic)?;
    characters.next().is_none().then_some(letter.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use model::SignalType;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn noul() -> Question {
        Question::parse("key", SignalType::Noul, "\"Is it?\"", None).unwrap()
    }

    fn completion(listed: &[(&str, Value)]) -> Value {
        let listed: Vec<Value> =
            listed.iter().map(|(token, logprob)| json!({"token": token, "logprob": logprob})).collect();
        let content = json!([{"token": "The", "logprob": -0.1, "top_logprobs": listed}]);
        json!({"choices": [{"message": {"content": "The"}, "logprobs": {"content": content}}]})
    }

    fn yes(listed: &[(&str, Value)]) -> Result<f64, AnswerError> {
        parse(&completion(listed), &noul()).unwrap().map(|answer| answer.probabilities()[0])
    }

    fn close(value: Result<f64, AnswerError>, expected: f64) -> bool {
        value.is_ok_and(|value| (value - expected).abs() < 1e-12)
    }

    #[test]
    fn letters_are_normalized_among_themselves() {
        // 0.6 and 0.2, in any order, with other tokens between them.
        let listed = [
            ("B", json!(0.2_f64.ln())),
            ("The", json!(-0.1)),
            ("A", json!(0.6_f64.ln())),
            ("C", json!(-0.1)),
        ];
        assert!(close(yes(&listed), 0.75));
        assert!(
            close(yes(&[("A", json!(-5000)), ("B", json!(-5000))]), 0.5),
            "unlikely, but distinguishable"
        );
        assert!(close(yes(&[("B", json!(-0.5))]), 0.0), "the other letter is not among the likeliest");
    }

    #[test]
    fn the_likeliest_spelling_of_a_letter_counts() {
        let spellings = ["A", "a", " A", "A ", "\nA", "▁A", "ĠA", "A)", " A.", "a)"];
        for spelling in spellings {
            assert!(
                close(yes(&[(spelling, json!(-1)), ("B", json!(-1)), ("A", json!(-3))]), 0.5),
                "{spelling:?}"
            );
        }
        for other in ["AB", "A))", "(A", "À", "", " ", ")", "１", "Answer"] {
            assert!(close(yes(&[(other, json!(-1)), ("B", json!(-1))]), 0.0), "{other:?}");
        }
    }

    #[test]
    fn the_token_that_was_written_counts_too() {
        let mut completion = completion(&[("B", json!(-1.5))]);
        completion["choices"][0]["logprobs"]["content"][0]["token"] = json!(" A");
        completion["choices"][0]["logprobs"]["content"][0]["logprob"] = json!(-1.5);
        assert!(close(parse(&completion, &noul()).unwrap().map(|answer| answer.probabilities()[0]), 0.5));
    }

    #[test]
    fn no_letter_means_no_answer() {
        for listed in [
            vec![("The", json!(-0.1))],
            vec![("C", json!(-0.1)), ("Z", json!(-0.2))],
            vec![("A", json!(null)), ("B", json!("-1"))],
            vec![("A", json!(-9999.0)), ("B", json!(-1e300))],
        ] {
            assert_eq!(yes(&listed), Err(AnswerError::NoCandidate), "{listed:?}");
        }
        let silent = json!({"choices": [{"message": {}, "logprobs": {"content": []}}]});
        assert_eq!(parse(&silent, &noul()), Some(Err(AnswerError::NoCandidate)));
        let refused = json!({"choices": [{"message": {}, "logprobs": {"content": null, "refusal": []}}]});
        assert_eq!(parse(&refused, &noul()), Some(Err(AnswerError::NoCandidate)));
    }

    #[test]
    fn a_server_without_probabilities_is_distinguished_from_one_without_an_answer() {
        for logprobs in [
            json!(null),
            json!({}),
            json!({"tokens": ["A"], "token_logprobs": [-0.1]}),
            json!({"content": [{"token": "A", "logprob": -0.1}]}),
            json!({"content": [{"token": "A", "logprob": -0.1, "top_logprobs": []}]}),
        ] {
            let completion = json!({"choices": [{"message": {"content": "A"}, "logprobs": logprobs}]});
            assert_eq!(parse(&completion, &noul()), None, "{logprobs}");
        }
        for other in
            [json!({}), json!({"choices": []}), json!({"error": {"message": "overloaded"}}), json!([1])]
        {
            assert_eq!(parse(&other, &noul()), Some(Err(AnswerError::Missing)), "{other}");
        }
    }

    /// Any JSON, with the member names that are looked for.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[AaBb ▁).]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(8, 64, 4, |inner| {
            let key = prop_oneof![
                Just("choices"),
                Just("message"),
                Just("logprobs"),
                Just("content"),
                Just("top_logprobs"),
                Just("token"),
                Just("logprob"),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.prop_map(str::to_owned), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_completion_is_parsed_without_a_panic(whole in any_json(), listed in any_json(), token in any_json()) {
            let content = json!([{"token": token, "top_logprobs": listed}]);
            let shaped = json!({"choices": [{"message": {}, "logprobs": {"content": content}}]});
            for completion in [whole, shaped] {
                if let Some(Ok(answer)) = parse(&completion, &noul()) {
                    prop_assert!((answer.probabilities().iter().sum::<f64>() - 1.0).abs() < 1e-9);
                }
            }
        }

        #[test]
        fn the_order_of_the_list_does_not_matter(
            mut listed in prop::collection::vec(("[ ▁]?[A-Da-d][).]?", -30.0_f64..0.0), 1..20)
        ) {
            let parse_all = |listed: &[(String, f64)]| {
                let listed: Vec<_> = listed.iter().map(|(token, value)| (token.as_str(), json!(value))).collect();
                yes(&listed)
            };
            let before = parse_all(&listed);
            listed.reverse();
            prop_assert_eq!(before, parse_all(&listed));
        }
    }
}
