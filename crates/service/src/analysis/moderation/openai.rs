//! `/v1/moderations`: the request and the answer of OpenAI's moderation endpoint.

use indexmap::IndexMap;
use model::TenantId;
use model::api::{self, CreateModeration, ModerationResult};
use serde_json::Value;

use super::Moderation;
use super::questions::{BuiltIn, BuiltInQuestion};
use crate::runtime::{Error, Result, Waiting};

/// The maximum number of texts in a request.
const MAX_TEXTS: usize = 32;
/// The maximum size of a text in bytes: that of a message.
const MAX_TEXT_BYTES: usize = 32 * 1024;
/// A category applies from here.
const FLAGGED: f64 = 0.5;

impl Moderation {
    /// Classifies texts by the 13 categories.
    pub async fn moderate(
        &self,
        tenant: TenantId,
        request: &CreateModeration,
        caller: &Waiting,
    ) -> Result<api::Moderation> {
        let texts = texts(&request.input).map_err(Error::bad_request)?;
        let categories: Vec<&BuiltInQuestion> = BuiltIn::get()?.categories.iter().collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let scored = self.score(tenant, &texts, &categories, caller).await?;
        Ok(api::Moderation {
            id: format!("modr-{}", self.random.id(self.clock.now()).simple()),
            model: scored.model,
            results: scored.texts.into_iter().map(|scores| result(&categories, &scores)).collect(),
        })
    }
}

fn result(categories: &[&BuiltInQuestion], scores: &[f64]) -> ModerationResult {
    let by_name = || categories.iter().map(|category| category.name.clone()).zip(scores.iter().copied());
    let applies = |(name, score): (String, f64)| (name, score >= FLAGGED);
    ModerationResult {
        flagged: scores.iter().any(|score| *score >= FLAGGED),
        categories: by_name().map(applies).collect(),
        category_applied_input_types: by_name().map(|(name, _)| (name, vec!["text".to_owned()])).collect(),
        category_scores: by_name().collect::<IndexMap<_, _>>(),
    }
}

/// The texts of a request; those of several parts are one text.
fn texts(input: &Value) -> std::result::Result<Vec<String>, String> {
    let texts = match input {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) if items.is_empty() => return Err("input: it must not be empty".to_owned()),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            let parts = items.iter().enumerate().map(part).collect::<std::result::Result<Vec<_>, _>>()?;
            vec![parts.join("\n")]
        }
        _ => return Err("input: it must be a text, an array of texts, or an array of parts".to_owned()),
    };
    if texts.len() > MAX_TEXTS {
        return Err(format!("input: there must be at most {MAX_TEXTS} texts"));
    }
    match texts.iter().position(|text| text.len() > MAX_TEXT_BYTES) {
        Some(index) => Err(format!("input: text {index} must have at most {MAX_TEXT_BYTES} bytes")),
        None => Ok(texts),
    }
}

/// The text of a part.
fn part((index, part): (usize, &Value)) -> std::result::Result<String, String> {
    match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        (Some("image_url"), _) => Err(format!("input[{index}]: images are not read, only texts")),
        _ => Err(format!("input[{index}]: it must be {{\"type\": \"text\", \"text\": …}}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_array_of_texts_has_a_result_each_and_an_array_of_parts_has_one() {
        assert_eq!(texts(&json!("a")).unwrap(), ["a"]);
        assert_eq!(texts(&json!(["a", "b"])).unwrap(), ["a", "b"]);
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(texts(&parts).unwrap(), ["a\nb"]);
    }

    #[test]
    fn what_is_no_text_is_named() {
        for (input, named) in [
            (json!([]), "input: it must not be empty"),
            (json!(1), "input: it must be"),
            (json!(["a", 1]), "input: it must be"),
            (
                json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]),
                "input[1]: images",
            ),
            (json!([{"type": "text"}]), "input[0]: it must be"),
            (json!(vec!["a"; 33]), "at most 32"),
            (json!(["a", "b".repeat(MAX_TEXT_BYTES + 1)]), "text 1 must have at most"),
        ] {
            let refused = texts(&input).unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
