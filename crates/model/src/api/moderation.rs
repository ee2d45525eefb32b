//! Records of the routes that clients of other moderation services call, in the shapes of those services.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Texts to be classified, as OpenAI's moderation endpoint takes them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CreateModeration {
    /// A text; an array of at most 32 texts, which gives one result each; or an array of parts `{"type": "text", "text": …}`,
    /// which gives one result for all of them together.
    #[schema(value_type = Value, example = "I will find you.")]
    pub input: Value,
    /// Ignored: the installation's analyzer answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The classification of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moderation {
    /// An id for logs; nothing is kept under it.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// One for each text of an array, otherwise one.
    pub results: Vec<ModerationResult>,
}

/// The classification of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModerationResult {
    /// Whether any category applies.
    pub flagged: bool,
    /// Whether each category applies: its score is at least 0.5.
    pub categories: IndexMap<String, bool>,
    /// The probability of each category.
    pub category_scores: IndexMap<String, f64>,
    /// What each score is about: `text` always.
    pub category_applied_input_types: IndexMap<String, Vec<String>>,
}

/// A comment to be scored, as the Perspective API takes it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalyzeComment {
    /// The comment.
    pub comment: CommentText,
    /// The attributes to be scored, such as `TOXICITY`.
    #[schema(value_type = IndexMap<String, RequestedAttribute>)]
    pub requested_attributes: IndexMap<String, Option<RequestedAttribute>>,
    /// The languages of the comment. They are returned; any is read, and no score depends on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<Vec<String>>,
    /// Whether each sentence is scored too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_annotations: Option<bool>,
    /// Ignored: nothing is ever stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub do_not_store: Option<bool>,
    /// Returned as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community_id: Option<String>,
}

/// The text of a comment.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CommentText {
    /// At most 20,480 bytes.
    #[schema(example = "You are a fool.")]
    pub text: String,
    /// `PLAIN_TEXT` or `HTML`. Both are read as they stand, the tags of HTML included.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// How an attribute is scored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestedAttribute {
    /// `PROBABILITY`, the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_type: Option<String>,
    /// Scores below it are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_threshold: Option<f64>,
}

/// The scores of a comment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentScores {
    /// By attribute.
    pub attribute_scores: IndexMap<String, AttributeScores>,
    /// The languages of the request; without any, the detected one, or `und` where the text does not tell.
    pub languages: Vec<String>,
    /// The language that the text seems to be in; empty where it does not tell, as with most short ones. No score depends on it.
    #[serde(default)]
    #[schema(required = true)]
    pub detected_languages: Vec<String>,
    /// As sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub client_token: Option<String>,
}

/// The scores of one attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttributeScores {
    /// Each sentence, if they were asked for, otherwise the whole comment.
    pub span_scores: Vec<SpanScore>,
    /// The whole comment.
    pub summary_score: AttributeScore,
}

/// The score of a part of a comment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpanScore {
    /// Where it begins, in UTF-16 units.
    pub begin: usize,
    /// Where it ends, in UTF-16 units.
    pub end: usize,
    /// The score.
    pub score: AttributeScore,
}

/// A score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AttributeScore {
    /// The probability that the attribute applies.
    pub value: f64,
    /// `PROBABILITY`.
    #[serde(rename = "type", default = "probability")]
    pub kind: String,
}

fn probability() -> String {
    "PROBABILITY".to_owned()
}

impl AttributeScore {
    /// A probability.
    pub fn of(value: f64) -> Self {
        Self { value, kind: probability() }
    }
}

/// An error of the routes of the Perspective API, in Google's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommentError {
    /// What is wrong.
    pub error: CommentErrorBody,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommentErrorBody {
    /// The HTTP status.
    pub code: u16,
    /// A message for people; its text may change.
    pub message: String,
    /// The name of the status, such as `INVALID_ARGUMENT`.
    pub status: String,
    /// More about it.
    pub details: Vec<CommentErrorDetail>,
}

/// The code that other routes would give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommentErrorDetail {
    /// `type.googleapis.com/google.rpc.ErrorInfo`.
    #[serde(rename = "@type")]
    pub kind: String,
    /// The code in upper case, such as `BAD_REQUEST`.
    pub reason: String,
    /// `auspex`.
    pub domain: String,
}

/// What a person thinks of a comment, as the Perspective API takes it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestCommentScore {
    /// The comment; it is not stored.
    pub comment: CommentText,
    /// The right scores by attribute.
    pub attribute_scores: IndexMap<String, SuggestedScore>,
    /// The object that the comment is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Returned as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
}

/// The right score of an attribute.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestedScore {
    /// Of the whole comment; 0.5 and more is a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_score: Option<AttributeScore>,
}

/// That a suggestion was received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestionReceived {
    /// As sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub client_token: Option<String>,
}
