//! Where the first analyzer is unsure, so that a second one is asked.

use serde::{Deserialize, Serialize};

use crate::{AnswerValue, SignalType};

/// The answers of a signal that go to the second analyzer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalation {
    /// Yes/no answers from one probability to another, both included.
    Band([f64; 2]),
    /// Choices and scores of less than this confidence.
    Below(f64),
}

impl Escalation {
    /// Whether it can be set for signals of this type.
    pub fn is_of(self, kind: SignalType) -> bool {
        matches!(self, Self::Band(_)) == (kind == SignalType::Noul)
    }

    /// Whether an answer is unsure.
    pub fn covers(self, answer: &AnswerValue) -> bool {
        match self {
            Self::Band([low, high]) => answer.noul.is_some_and(|noul| (low..=high).contains(&noul)),
            Self::Below(below) => answer.confidence.is_some_and(|confidence| confidence < below),
        }
    }
}

impl AnswerValue {
    /// How sure the answer is, from 0 to 1, to compare answers of all types by: the confidence, or how far a probability of yes
    /// is from one half.
    pub fn certainty(&self) -> f64 {
        match (self.noul, self.confidence) {
            (Some(noul), _) => (2.0 * noul - 1.0).abs(),
            (None, confidence) => confidence.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawAnswer;

    fn value(kind: SignalType, noul: Option<f64>, confidence: Option<f64>) -> AnswerValue {
        RawAnswer { noul, choice: None, score: None, probabilities: None, confidence }.of_kind(kind)
    }

    #[test]
    fn a_band_includes_both_ends_and_a_confidence_is_below() {
        let band = Escalation::Band([0.3, 0.7]);
        for (noul, is_unsure) in
            [(0.299_999, false), (0.3, true), (0.5, true), (0.7, true), (0.700_001, false)]
        {
            assert_eq!(band.covers(&value(SignalType::Noul, Some(noul), None)), is_unsure, "{noul}");
        }
        let below = Escalation::Below(0.4);
        for (confidence, is_unsure) in [(0.0, true), (0.399_999, true), (0.4, false), (1.0, false)] {
            assert_eq!(
                below.covers(&value(SignalType::Choice, None, Some(confidence))),
                is_unsure,
                "{confidence}"
            );
        }
        assert!(!below.covers(&value(SignalType::Noul, Some(0.5), None)), "another type");
        assert!(!band.covers(&value(SignalType::Score, None, Some(0.0))), "another type");
        assert!(band.is_of(SignalType::Noul) && !band.is_of(SignalType::Score));
        assert!(below.is_of(SignalType::Choice) && !below.is_of(SignalType::Noul));
    }

    #[test]
    fn it_is_kept_as_the_api_names_it() {
        let written = serde_json::to_string(&Escalation::Band([0.25, 0.75])).unwrap();
        assert_eq!(written, r#"{"band":[0.25,0.75]}"#);
        let read: Escalation = serde_json::from_str(r#"{"below":0.5}"#).unwrap();
        assert_eq!(read, Escalation::Below(0.5));
    }

    #[test]
    fn answers_of_all_types_are_compared_by_how_sure_they_are() {
        let certainty = |noul| value(SignalType::Noul, Some(noul), None).certainty();
        for (noul, expected) in [(0.5, 0.0), (0.0, 1.0), (1.0, 1.0), (0.25, 0.5)] {
            assert!((certainty(noul) - expected).abs() < 1e-12, "{noul}");
        }
        assert!((value(SignalType::Score, None, Some(0.3)).certainty() - 0.3).abs() < 1e-12);
    }
}
