//! What the label of a review is worth, which decides the order in which reviews are worked through.

use crate::condition::{Accepts, BoundCondition};
use crate::{AnswerValue, SignalType};

/// The number of labels at which one more is worth half as much as the first.
const HALF_RARE: f64 = 50.0;

/// What is known about one of the signals that a review asks about.
#[derive(Clone, Debug)]
pub struct SignalEvidence {
    /// The key of the signal.
    pub key: String,
    /// The number of its levels or options; 2 for yes and no.
    pub candidates: usize,
    /// The present answer.
    pub answer: Option<AnswerValue>,
    /// The last answer of an earlier version of the signal.
    pub earlier: Option<AnswerValue>,
    /// The labels about the signal, over all objects.
    pub labels: i64,
}

impl SignalEvidence {
    /// From 0 to 1: the mean of how close the answer is to where a rule would decide otherwise, how rarely the signal was
    /// labelled, and how much the answer differs from that of an earlier version.
    fn worth(&self, rules: &[BoundCondition]) -> f64 {
        (self.closeness(rules) + self.rarity() + self.difference()) / 3.0
    }

    /// How close the answer is to a threshold of a rule: 1 at the threshold, 0 from half of the scale away. Without an answer
    /// nothing is known, which is 1.
    fn closeness(&self, rules: &[BoundCondition]) -> f64 {
        let Some(answer) = &self.answer else { return 1.0 };
        let Some(value) = answer.number() else { return 1.0 - margin(answer) };
        let thresholds = self.thresholds(rules);
        let distances = thresholds.iter().map(|threshold| (value - threshold).abs() / (self.scale() / 2.0));
        (1.0 - distances.fold(f64::INFINITY, f64::min)).max(0.0)
    }

    /// Where rules decide otherwise; the middle of the scale if none compares this signal.
    fn thresholds(&self, rules: &[BoundCondition]) -> Vec<f64> {
        let comparisons = rules.iter().flat_map(BoundCondition::comparisons);
        let ends = comparisons.filter(|comparison| comparison.key == self.key).flat_map(|comparison| {
            match &comparison.accepts {
                Accepts::Within(range) | Accepts::Outside(range) => {
                    let (from, to) = range.bounds();
                    vec![from, to]
                }
                Accepts::Option(_) | Accepts::OtherOption(_) => Vec::new(),
            }
        });
        let thresholds: Vec<f64> = ends.filter(|end| *end > 0.0 && *end < self.scale()).collect();
        if thresholds.is_empty() { vec![self.scale() / 2.0] } else { thresholds }
    }

    fn rarity(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let labels = self.labels.max(0) as f64;
        HALF_RARE / (HALF_RARE + labels)
    }

    /// How much the answer differs from that of an earlier version, as a part of the scale; another option is all of it.
    fn difference(&self) -> f64 {
        let (Some(now), Some(earlier)) = (&self.answer, &self.earlier) else { return 0.0 };
        match (now.number(), earlier.number()) {
            (Some(now), Some(earlier)) => ((now - earlier).abs() / self.scale()).min(1.0),
            (None, None) if now.kind == SignalType::Choice && now.choice == earlier.choice => 0.0,
            _ => 1.0,
        }
    }

    /// The length of the scale: 1 for a probability, the last level of a score.
    fn scale(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "at most 26 candidates")]
        let last = self.candidates.saturating_sub(1).max(1) as f64;
        last
    }
}

/// By how much the likeliest option leads.
fn margin(answer: &AnswerValue) -> f64 {
    let mut shares: Vec<f64> =
        answer.probabilities.iter().flat_map(|shares| shares.values().copied()).collect();
    shares.sort_by(|one, other| other.total_cmp(one));
    let share = |rank: usize| shares.get(rank).copied().unwrap_or(0.0);
    share(0) - share(1)
}

/// The priority of a review, in thousandths: what its label is worth, and one more for each time that a rule fired again.
pub fn priority_millis(refirings: i64, signals: &[SignalEvidence], rules: &[BoundCondition]) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "at most as many signals as a rule can name")]
    let count = signals.len().max(1) as f64;
    let worth = signals.iter().map(|signal| signal.worth(rules)).sum::<f64>() / count;
    #[expect(clippy::cast_possible_truncation, reason = "at most a thousand")]
    let millis = (worth * 1_000.0).round() as i64;
    refirings.saturating_mul(1_000).saturating_add(millis.min(999))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Condition, SignalShape};

    fn noul(value: f64) -> AnswerValue {
        AnswerValue {
            kind: SignalType::Noul,
            noul: Some(value),
            choice: None,
            score: None,
            probabilities: None,
            confidence: None,
        }
    }

    fn choice(shares: &[(&str, f64)]) -> AnswerValue {
        let best = shares.iter().max_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, _)| *name);
        AnswerValue {
            kind: SignalType::Choice,
            noul: None,
            choice: best.map(str::to_owned),
            probabilities: Some(shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect()),
            ..noul(0.0)
        }
    }

    fn evidence(answer: Option<AnswerValue>) -> SignalEvidence {
        SignalEvidence { key: "risk".to_owned(), candidates: 2, answer, earlier: None, labels: 0 }
    }

    fn rule(when: &str) -> BoundCondition {
        Condition::parse(when).unwrap().bind(|_| Some(SignalShape::Noul)).unwrap()
    }

    #[track_caller]
    fn assert_near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-5, "{one} and {other}");
    }

    #[test]
    fn what_is_near_a_threshold_is_worth_more() {
        let rules = [rule("risk > 0.9 and other < 0.2"), rule("risk < 0.1")];
        assert_near(evidence(Some(noul(0.9))).closeness(&rules), 1.0);
        assert_near(evidence(Some(noul(0.8))).closeness(&rules), 0.8);
        assert_near(evidence(Some(noul(0.5))).closeness(&rules), 0.2);
        assert_near(evidence(Some(noul(0.15))).closeness(&rules), 0.9);
        assert_near(evidence(Some(noul(0.5))).closeness(&[]), 1.0);
        assert_near(evidence(Some(noul(1.0))).closeness(&[]), 0.0);
        assert_near(evidence(None).closeness(&rules), 1.0);
        let split = choice(&[("a", 0.45), ("b", 0.4), ("c", 0.15)]);
        assert_near(evidence(Some(split)).closeness(&rules), 0.95);
        let score = AnswerValue { kind: SignalType::Score, score: Some(2.0), ..noul(0.0) };
        let score = AnswerValue { noul: None, ..score };
        assert_near(SignalEvidence { candidates: 5, ..evidence(Some(score)) }.closeness(&[]), 1.0);
    }

    #[test]
    fn rarely_labelled_signals_and_changed_answers_are_worth_more() {
        assert_near(evidence(None).rarity(), 1.0);
        assert_near(SignalEvidence { labels: 50, ..evidence(None) }.rarity(), 0.5);
        let changed = |now: AnswerValue, earlier: AnswerValue| {
            SignalEvidence { earlier: Some(earlier), ..evidence(Some(now)) }.difference()
        };
        assert_near(changed(noul(0.9), noul(0.2)), 0.7);
        assert_near(evidence(Some(noul(0.9))).difference(), 0.0);
        let (a, b) = (choice(&[("a", 0.6), ("b", 0.4)]), choice(&[("a", 0.4), ("b", 0.6)]));
        assert_near(changed(a.clone(), b), 1.0);
        assert_near(changed(a.clone(), a.clone()), 0.0);
        assert_near(changed(a, noul(0.5)), 1.0);
    }

    #[test]
    fn a_rule_that_fires_again_outweighs_everything_else() {
        let certain = [evidence(Some(noul(0.5)))];
        let priority = priority_millis(0, &certain, &[]);
        assert_eq!(priority, 667);
        assert_eq!(
            priority_millis(1, &[SignalEvidence { labels: 1_000_000, ..evidence(Some(noul(1.0))) }], &[]),
            1_000
        );
        assert_eq!(priority_millis(0, &[], &[]), 0);
        assert_eq!(priority_millis(i64::MAX, &certain, &[]), i64::MAX);
    }
}
