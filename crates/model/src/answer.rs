//! Answers, derived from a probability distribution over the candidates of a question.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Question, SignalType};

/// Probabilities are rounded to whole millionths, so that those of an answer sum to exactly one.
const MILLION: u32 = 1_000_000;

/// The probability of each candidate of a question: finite, not negative, and one in sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Vec<f64>);

/// Numbers that are not a distribution over the candidates of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDistribution;

impl Distribution {
    /// Normalises weights, one for each candidate.
    pub fn from_weights(weights: &[f64]) -> Result<Self, InvalidDistribution> {
        let sum: f64 = weights.iter().sum();
        let is_valid =
            weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0) && sum.is_finite() && sum > 0.0;
        if is_valid {
            Ok(Self(weights.iter().map(|weight| weight / sum).collect()))
        } else {
            Err(InvalidDistribution)
        }
    }

    /// The probabilities, one for each candidate.
    pub fn probabilities(&self) -> &[f64] {
        &self.0
    }

    /// The probabilities in whole millionths, with a sum of exactly a million: what rounding down leaves over goes to
    /// those that lost most by it.
    fn millionths(&self) -> Vec<u32> {
        let exact: Vec<f64> = self.0.iter().map(|probability| probability * f64::from(MILLION)).collect();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a million"
        )]
        let mut whole: Vec<u32> = exact.iter().map(|value| value.floor() as u32).collect();
        let mut order: Vec<usize> = (0..whole.len()).collect();
        order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
        let missing = MILLION.saturating_sub(whole.iter().sum());
        for index in order.into_iter().cycle().take(missing as usize) {
            whole[index] += 1;
        }
        whole
    }

    /// 1 minus the entropy divided by its maximum: 0 if all candidates are equally likely, 1 if one is certain.
    fn confidence(&self) -> f64 {
        let entropy: f64 = self.0.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        #[expect(clippy::cast_precision_loss, reason = "at most 26 candidates")]
        let max_entropy = (self.0.len() as f64).ln();
        if max_entropy > 0.0 { rounded((1.0 - entropy / max_entropy).clamp(0.0, 1.0)) } else { 1.0 }
    }
}

/// The value of an answer. Only the fields of its type are set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnswerValue {
    /// The type of answer.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// The probability of yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub noul: Option<f64>,
    /// The most likely option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub choice: Option<String>,
    /// The expected level, from 0 to the number of levels minus one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score: Option<f64>,
    /// The probability of each option, or of each level by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub probabilities: Option<IndexMap<String, f64>>,
    /// 1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub confidence: Option<f64>,
}

/// An answer, as in verdicts and webhook payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    /// The key of the signal.
    #[schema(example = "is_scammer")]
    pub signal: String,
    /// Its type and value.
    #[serde(flatten)]
    pub value: AnswerValue,
    /// The analyzer's own answer, where a calibration is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub raw: Option<RawAnswer>,
    /// Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or failed, so that
    /// the first answer stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub escalated: Option<bool>,
    /// The second analyzer's model, where that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
}

/// What the first analyzer said where the second one answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FirstAnswer {
    /// Its value, calibrated where a calibration was on.
    #[serde(flatten)]
    pub value: RawAnswer,
    /// Its own answer, where a calibration was on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub raw: Option<RawAnswer>,
    /// Its model.
    pub model: String,
}

/// What the analyzer said before calibration. Only the fields of its type are set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RawAnswer {
    /// The probability of yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub noul: Option<f64>,
    /// The most likely option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub choice: Option<String>,
    /// The expected level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score: Option<f64>,
    /// The probability of each option, or of each level by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub probabilities: Option<IndexMap<String, f64>>,
    /// 1 minus the entropy divided by its maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub confidence: Option<f64>,
}

impl Answer {
    /// Derives the answer from a distribution over the question's candidates.
    pub fn new(question: &Question, distribution: &Distribution) -> Result<Self, InvalidDistribution> {
        let value = AnswerValue::new(question, distribution)?;
        Ok(Self::of(question.key.clone(), value))
    }

    /// The answer with a calibrated value; its own value becomes the raw one.
    #[must_use]
    pub fn calibrated(self, value: AnswerValue) -> Self {
        Self { raw: Some(self.value.into()), value, ..self }
    }

    /// An answer as an analyzer gives it.
    pub fn of(signal: String, value: AnswerValue) -> Self {
        Self { signal, value, raw: None, escalated: None, model: None }
    }

    /// The second analyzer's answer in place of this one, and what this one was.
    #[must_use]
    pub fn escalated(self, second: AnswerValue, model: &str, first_model: &str) -> (Self, FirstAnswer) {
        let Self { signal, value, raw, .. } = self;
        let first = FirstAnswer { value: value.into(), raw, model: first_model.to_owned() };
        let answer =
            Self { escalated: Some(true), model: Some(model.to_owned()), ..Self::of(signal, second) };
        (answer, first)
    }

    /// The answer, which stands although the first analyzer was unsure.
    #[must_use]
    pub fn unescalated(self) -> Self {
        Self { escalated: Some(false), ..self }
    }
}

impl FirstAnswer {
    /// What the first analyzer itself said, before any calibration.
    pub fn own(&self, kind: SignalType) -> AnswerValue {
        self.raw.as_ref().unwrap_or(&self.value).of_kind(kind)
    }
}

impl From<AnswerValue> for RawAnswer {
    fn from(value: AnswerValue) -> Self {
        let AnswerValue { kind: _, noul, choice, score, probabilities, confidence } = value;
        Self { noul, choice, score, probabilities, confidence }
    }
}

impl RawAnswer {
    /// The value, with its type.
    pub fn of_kind(&self, kind: SignalType) -> AnswerValue {
        let Self { noul, choice, score, probabilities, confidence } = self.clone();
        AnswerValue { kind, noul, choice, score, probabilities, confidence }
    }
}

impl AnswerValue {
    fn new(question: &Question, distribution: &Distribution) -> Result<Self, InvalidDistribution> {
        let millionths = distribution.millionths();
        if millionths.len() != question.candidates.len() {
            return Err(InvalidDistribution);
        }
        let shares: Vec<f64> =
            millionths.iter().map(|share| f64::from(*share) / f64::from(MILLION)).collect();
        let mut answer = Self {
            kind: question.kind,
            noul: None,
            choice: None,
            score: None,
            probabilities: None,
            confidence: None,
        };
        if question.kind == SignalType::Noul {
            answer.noul = Some(shares[0]);
            return Ok(answer);
        }
        let names = question.candidates.iter().map(|candidate| candidate.name.clone());
        answer.probabilities = Some(names.zip(shares.iter().copied()).collect());
        answer.confidence = Some(distribution.confidence());
        if question.kind == SignalType::Choice {
            // The first of several that are equally likely, so that answers are deterministic.
            let best = (0..shares.len()).rev().max_by(|a, b| shares[*a].total_cmp(&shares[*b])).unwrap_or(0);
            answer.choice = Some(question.candidates[best].name.clone());
        } else {
            let levels = distribution.probabilities().iter().zip(0_u32..);
            answer.score = Some(rounded(levels.map(|(share, level)| share * f64::from(level)).sum()));
        }
        Ok(answer)
    }

    /// How far this answer is from another one to the same question: the difference of the probabilities of yes, of the
    /// scores, or of the probabilities of the option that is chosen here.
    pub fn moved_from(&self, other: &Self) -> f64 {
        let value = |of: &Self| match &self.choice {
            Some(option) => of.probabilities.as_ref().and_then(|shares| shares.get(option).copied()),
            None => of.number(),
        };
        rounded(value(self).unwrap_or_default() - value(other).unwrap_or_default())
    }

    /// The number to sort and compare by: a probability or a position; `None` for a choice.
    pub fn number(&self) -> Option<f64> {
        self.noul.or(self.score)
    }
}

fn rounded(value: f64) -> f64 {
    (value * f64::from(MILLION)).round() / f64::from(MILLION)
}

impl std::fmt::Display for InvalidDistribution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("not a distribution over the candidates of the question")
    }
}

impl std::error::Error for InvalidDistribution {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(kind: SignalType, criteria: Option<&str>) -> Question {
        Question::parse("key", kind, "\"Which?\"", criteria).unwrap()
    }

    fn answer(question: &Question, weights: &[f64]) -> Answer {
        Answer::new(question, &Distribution::from_weights(weights).unwrap()).unwrap()
    }

    #[test]
    fn each_type_sets_its_own_fields() {
        let noul = answer(&question(SignalType::Noul, None), &[3.0, 1.0]);
        assert_eq!(serde_json::to_string(&noul).unwrap(), r#"{"signal":"key","type":"noul","noul":0.75}"#);
        let choice = answer(&question(SignalType::Choice, Some(r#"{"b": null, "a": null}"#)), &[0.5, 0.5]);
        assert_eq!(
            serde_json::to_string(&choice).unwrap(),
            r#"{"signal":"key","type":"choice","choice":"b","probabilities":{"b":0.5,"a":0.5},"confidence":0.0}"#
        );
        let score = answer(&question(SignalType::Score, Some(r#"["x", "y", "z"]"#)), &[0.0, 0.0, 1.0]);
        assert_eq!(
            serde_json::to_string(&score).unwrap(),
            r#"{"signal":"key","type":"score","score":2.0,"probabilities":{"0":0.0,"1":0.0,"2":1.0},"confidence":1.0}"#
        );
        let even = answer(&question(SignalType::Score, Some(r#"["x", "y", "z"]"#)), &[1.0, 1.0, 1.0]);
        assert_eq!(even.value.score, Some(1.0), "from the probabilities before they are rounded");
    }

    #[test]
    fn invalid_weights_are_refused() {
        for weights in [
            &[][..],
            &[0.0, 0.0],
            &[-1.0, 2.0],
            &[f64::NAN, 1.0],
            &[f64::INFINITY, 1.0],
            &[f64::MAX, f64::MAX],
        ] {
            assert_eq!(Distribution::from_weights(weights), Err(InvalidDistribution), "{weights:?}");
        }
        let three = Distribution::from_weights(&[1.0, 1.0, 1.0]).unwrap();
        assert_eq!(Answer::new(&question(SignalType::Noul, None), &three), Err(InvalidDistribution));
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_exactly_one(weights in prop::collection::vec(0.0_f64..1e6, 2..=26)) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let levels: Vec<String> = (0..weights.len()).map(|level| format!("\"level {level}\"")).collect();
            let question = question(SignalType::Score, Some(&format!("[{}]", levels.join(","))));
            let answer = answer(&question, &weights);
            let shares: Vec<f64> = answer.value.probabilities.unwrap().into_values().collect();
            #[expect(clippy::cast_possible_truncation, reason = "whole millionths")]
            let millionths: i64 = shares.iter().map(|share| (share * 1e6).round() as i64).sum();
            prop_assert_eq!(millionths, 1_000_000);
            let top = f64::from(u32::try_from(weights.len()).unwrap() - 1);
            let score = answer.value.score.unwrap();
            prop_assert!((0.0..=top).contains(&score));
            prop_assert!((score * 1e6 - (score * 1e6).round()).abs() < 1e-3, "six decimals");
            prop_assert!((0.0..=1.0).contains(&answer.value.confidence.unwrap()));
            let sum: f64 = weights.iter().sum();
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!((share - weight / sum).abs() <= 1e-6);
            }
        }
    }
}
