//! Reads an answer from the probabilities of one token: which letters the model was about to say, and how likely each was.

use model::{Distribution, Question};
use serde_json::Value;

use crate::AnswerError;
use crate::prompt::labelled;

/// Servers that cannot write minus infinity write some number below this.
const IMPOSSIBLE: f64 = -9000.0;

/// The answer that a completion holds. None when the server gives no probabilities at all, which says nothing about the
/// question.
pub(super) fn read(completion: &Value, question: &Question) -> Option<Result<Distribution, AnswerError>> {
    let choice = &completion["choices"][0];
    if !choice["message"].is_object() {
        return Some(Err(AnswerError::Missing));
    }
    let content = choice["logprobs"].get("content")?;
    let Some(token) = content.get(0) else {
        // The model may say nothing, or refuse to.
        return Some(Err(AnswerError::NoCandidate));
    };
    let likeliest = token["top_logprobs"].as_array().filter(|tokens| !tokens.is_empty())?;
    // The token that was said counts too: the list may be shorter than asked for, and leave it out.
    Some(distribution(likeliest.iter().chain([token]), question))
}

/// Lists come in any order, with several ways to write a letter: the likeliest way counts.
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
    // Relative to the highest, so that letters which are all unlikely do not vanish.
    let weights: Vec<f64> = logprobs.iter().map(|logprob| (logprob - highest).exp()).collect();
    Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
}

/// The letter that a token stands for. Some servers show the blank before a word as their tokenizer writes it.
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
        read(&completion(listed), &noul()).unwrap().map(|shares| shares.probabilities()[0])
    }

    fn close(value: Result<f64, AnswerError>, expected: f64) -> bool {
        value.is_ok_and(|value| (value - expected).abs() < 1e-12)
    }

    #[test]
    fn letters_are_normalised_among_themselves() {
        // 0.6 and 0.2 of all, in any order, with others between them.
        let listed = [
            ("B", json!(0.2_f64.ln())),
            ("The", json!(-0.1)),
            ("A", json!(0.6_f64.ln())),
            ("C", json!(-0.1)),
        ];
        assert!(close(yes(&listed), 0.75));
        assert!(close(yes(&[("A", json!(-5000)), ("B", json!(-5000))]), 0.5), "unlikely, but told apart");
        assert!(close(yes(&[("B", json!(-0.5))]), 0.0), "the other letter is not among the likeliest");
    }

    #[test]
    fn ways_to_write_a_letter_count_once() {
        let ways = ["A", "a", " A", "A ", "\nA", "▁A", "ĠA", "A)", " A.", "a)"];
        for way in ways {
            assert!(close(yes(&[(way, json!(-1)), ("B", json!(-1)), ("A", json!(-3))]), 0.5), "{way:?}");
        }
        for other in ["AB", "A))", "(A", "À", "", " ", ")", "１", "Answer"] {
            assert!(close(yes(&[(other, json!(-1)), ("B", json!(-1))]), 0.0), "{other:?}");
        }
    }

    #[test]
    fn the_token_that_was_said_counts_too() {
        let mut completion = completion(&[("B", json!(-1.5))]);
        completion["choices"][0]["logprobs"]["content"][0]["token"] = json!(" A");
        completion["choices"][0]["logprobs"]["content"][0]["logprob"] = json!(-1.5);
        assert!(close(read(&completion, &noul()).unwrap().map(|shares| shares.probabilities()[0]), 0.5));
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
        assert_eq!(read(&silent, &noul()), Some(Err(AnswerError::NoCandidate)));
        let refused = json!({"choices": [{"message": {}, "logprobs": {"content": null, "refusal": []}}]});
        assert_eq!(read(&refused, &noul()), Some(Err(AnswerError::NoCandidate)));
    }

    #[test]
    fn a_server_without_probabilities_is_told_from_one_without_an_answer() {
        for logprobs in [
            json!(null),
            json!({}),
            json!({"tokens": ["A"], "token_logprobs": [-0.1]}),
            json!({"content": [{"token": "A", "logprob": -0.1}]}),
            json!({"content": [{"token": "A", "logprob": -0.1, "top_logprobs": []}]}),
        ] {
            let completion = json!({"choices": [{"message": {"content": "A"}, "logprobs": logprobs}]});
            assert_eq!(read(&completion, &noul()), None, "{logprobs}");
        }
        for other in
            [json!({}), json!({"choices": []}), json!({"error": {"message": "overloaded"}}), json!([1])]
        {
            assert_eq!(read(&other, &noul()), Some(Err(AnswerError::Missing)), "{other}");
        }
    }

    /// Any JSON, with the words that are looked for in likely places.
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
        fn no_answer_is_too_odd(whole in any_json(), listed in any_json(), token in any_json()) {
            let content = json!([{"token": token, "top_logprobs": listed}]);
            let shaped = json!({"choices": [{"message": {}, "logprobs": {"content": content}}]});
            for completion in [whole, shaped] {
                if let Some(Ok(shares)) = read(&completion, &noul()) {
                    prop_assert!((shares.probabilities().iter().sum::<f64>() - 1.0).abs() < 1e-9);
                }
            }
        }

        #[test]
        fn the_order_of_the_list_does_not_matter(
            mut listed in prop::collection::vec(("[ ▁]?[A-Da-d][).]?", -30.0_f64..0.0), 1..20)
        ) {
            let read_all = |listed: &[(String, f64)]| {
                let listed: Vec<_> = listed.iter().map(|(token, value)| (token.as_str(), json!(value))).collect();
                yes(&listed)
            };
            let before = read_all(&listed);
            listed.reverse();
            prop_assert_eq!(before, read_all(&listed));
        }
    }
}
