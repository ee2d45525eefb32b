//! `/v1alpha1/comments:…`: requests and answers of the Perspective API.

use model::TenantId;
use model::api::{
    AnalyzeComment, AttributeScore, AttributeScores, CommentScores, LabelInput, SpanScore,
    SuggestCommentScore, SuggestionReceived,
};
use serde_json::json;

use super::questions::{BuiltIn, BuiltInQuestion};
use super::sentences::{Sentence, sentences, utf16_length};
use super::{Moderation, languages};
use crate::runtime::{Caller, Error, Kind, Result, Waiting};

/// The maximum size of a comment in bytes.
const MAX_COMMENT_BYTES: usize = 20_480;
/// The maximum number of attributes in a request: more than there are.
const MAX_ATTRIBUTES: usize = 64;
/// A suggested score from here is a yes.
const YES: f64 = 0.5;

impl Moderation {
    /// Scores a comment by attributes, and its sentences if they are asked for.
    pub async fn analyze_comment(
        &self,
        tenant: TenantId,
        request: AnalyzeComment,
        caller: &Waiting,
    ) -> Result<CommentScores> {
        let text = request.comment.text.as_str();
        let (questions, question_of) = distinct(attributes(&request).map_err(Error::bad_request)?);
        let spans = match request.span_annotations {
            Some(true) => sentences(text),
            _ => Vec::new(),
        };
        // A comment of one sentence is not read twice.
        let spans = if spans.len() == 1 { Vec::new() } else { spans };
        let texts: Vec<&str> = std::iter::once(text).chain(spans.iter().map(|span| span.text)).collect();
        let scored = self.score(tenant, &texts, &questions, caller).await?;
        let mut scores = scored.texts.into_iter();
        let whole = scores.next().unwrap_or_default();
        let of_spans: Vec<Vec<f64>> = scores.collect();
        let names = request.requested_attributes.iter();
        let attribute_scores = names.zip(question_of).filter_map(|((name, options), index)| {
            let summary = *whole.get(index)?;
            let threshold = options.as_ref().and_then(|options| options.score_threshold).unwrap_or(0.0);
            let span_scores = span_scores(text, &spans, &of_spans, index, summary);
            let scores = AttributeScores { span_scores, summary_score: AttributeScore::of(summary) };
            (summary >= threshold).then(|| (name.clone(), scores))
        });
        let detected = languages::detect(text);
        let effective = || vec![detected.unwrap_or(languages::UNDETERMINED).to_owned()];
        Ok(CommentScores {
            attribute_scores: attribute_scores.collect(),
            languages: request.languages.filter(|given| !given.is_empty()).unwrap_or_else(effective),
            detected_languages: detected.into_iter().map(str::to_owned).collect(),
            client_token: request.client_token,
        })
    }

    /// Labels the object that `sessionId` names, for each attribute of which the tenant has a signal. What there is no object
    /// or signal for is dropped, as the other service would keep it to itself.
    pub async fn suggest_score(
        &self,
        caller: Caller,
        request: SuggestCommentScore,
    ) -> Result<SuggestionReceived> {
        check_comment(&request.comment.text).map_err(Error::bad_request)?;
        if request.attribute_scores.len() > MAX_ATTRIBUTES {
            return Err(Error::bad_request(format!(
                "attributeScores: there must be at most {MAX_ATTRIBUTES}"
            )));
        }
        let built_in = BuiltIn::get()?;
        let known = |name: &String| {
            let unknown = || Error::bad_request(unknown("attributeScores", name));
            built_in.attribute(name).ok_or_else(unknown)
        };
        let attributes = request.attribute_scores.keys().map(known).collect::<Result<Vec<_>>>()?;
        for (attribute, suggested) in attributes.into_iter().zip(request.attribute_scores.values()) {
            let (Some(object_id), Some(score)) = (&request.session_id, &suggested.summary_score) else {
                continue;
            };
            let label = LabelInput { value: json!(score.value >= YES), note: None };
            match self.labels.put(caller, object_id, &attribute.question.key, &label).await {
                Err(error) if !matches!(error.kind(), Kind::NotFound | Kind::BadRequest) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(SuggestionReceived { client_token: request.client_token })
    }
}

/// The scores of the sentences, or of the whole text where there are none.
fn span_scores(
    text: &str,
    spans: &[Sentence<'_>],
    of_spans: &[Vec<f64>],
    index: usize,
    summary: f64,
) -> Vec<SpanScore> {
    let scored = spans.iter().zip(of_spans).filter_map(|(span, scores)| {
        let score = AttributeScore::of(*scores.get(index)?);
        Some(SpanScore { begin: span.begin, end: span.end, score })
    });
    let scored: Vec<SpanScore> = scored.collect();
    if scored.is_empty() {
        return vec![SpanScore { begin: 0, end: utf16_length(text), score: AttributeScore::of(summary) }];
    }
    scored
}

/// The questions of a request, in its order.
fn attributes(request: &AnalyzeComment) -> std::result::Result<Vec<&'static BuiltInQuestion>, String> {
    check_comment(&request.comment.text)?;
    let requested = &request.requested_attributes;
    if requested.is_empty() || requested.len() > MAX_ATTRIBUTES {
        return Err(format!("requestedAttributes: there must be 1 to {MAX_ATTRIBUTES}"));
    }
    for (name, options) in requested {
        let kind = options.as_ref().and_then(|options| options.score_type.as_deref());
        if kind.is_some_and(|kind| kind != "PROBABILITY" && kind != "SCORE_TYPE_UNSPECIFIED") {
            return Err(format!("requestedAttributes.{name}.scoreType: it must be PROBABILITY"));
        }
    }
    let built_in = BuiltIn::get().map_err(|error| error.to_string())?;
    requested
        .keys()
        .map(|name| built_in.attribute(name).ok_or_else(|| unknown("requestedAttributes", name)))
        .collect()
}

/// Each question once, and the place of each attribute's question among them: an attribute and its experimental version ask the
/// same, and nobody pays for that twice.
fn distinct(attributes: Vec<&'static BuiltInQuestion>) -> (Vec<&'static BuiltInQuestion>, Vec<usize>) {
    let mut questions: Vec<&BuiltInQuestion> = Vec::new();
    let question_of = attributes.into_iter().map(|attribute| {
        let known = questions.iter().position(|question| question.name == attribute.name);
        known.unwrap_or_else(|| {
            questions.push(attribute);
            questions.len() - 1
        })
    });
    let question_of = question_of.collect();
    (questions, question_of)
}

fn check_comment(text: &str) -> std::result::Result<(), String> {
    if text.trim().is_empty() {
        return Err("comment.text: it must not be empty".to_owned());
    }
    if text.len() > MAX_COMMENT_BYTES {
        return Err(format!("comment.text: it must have at most {MAX_COMMENT_BYTES} bytes"));
    }
    Ok(())
}

fn unknown(field: &str, name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    let known: Vec<&str> = BuiltIn::get().map(|all| all.attribute_names().collect()).unwrap_or_default();
    format!("{field}: there is no attribute {shown}; there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_and_its_experimental_version_are_asked_once() {
        let built_in = BuiltIn::get().unwrap();
        let requested = ["TOXICITY", "INSULT", "TOXICITY_EXPERIMENTAL", "REASONING_EXPERIMENTAL", "TOXICITY"];
        let (questions, question_of) =
            distinct(requested.iter().map(|name| built_in.attribute(name).unwrap()).collect());
        let names: Vec<&str> = questions.iter().map(|question| question.name.as_str()).collect();
        assert_eq!(names, ["TOXICITY", "INSULT", "REASONING_EXPERIMENTAL"]);
        assert_eq!(question_of, [0, 1, 0, 2, 0]);
    }
}
