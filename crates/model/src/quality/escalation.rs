//! Escalation by labels: how few answers go to the second analyzer for an error that the first one may make in the others, and
//! what a second analyzer of known accuracy is worth.

use crate::Escalation;
use crate::api::Figure;
use crate::quality::{ClassAnswer, YesNoAnswer, float, wilson};

/// The fewest labels that an escalation is fitted to.
pub const MIN_LABELS: usize = 50;
/// Cut points between answers that are tried: of more different values, quantiles.
const CUTS: usize = 200;
/// The confidence from which on nothing is unsure.
const CERTAIN: f64 = 1.0;

/// An answer of the first analyzer, compared with its label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The probability of yes, or the confidence.
    pub value: f64,
    /// Whether it is right.
    pub is_right: bool,
}

/// Which answers are escalated, and what that leads to over the labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedEscalation {
    /// What is escalated; none if the error is small enough without.
    pub escalation: Option<Escalation>,
    /// The number of labels.
    pub labels: usize,
    /// How many of their answers are escalated.
    pub escalated: usize,
    /// How many of the others are wrong.
    pub wrong: usize,
}

impl FittedEscalation {
    /// The share that is escalated.
    pub fn share(&self) -> Option<Figure> {
        wilson(self.escalated, self.labels)
    }

    /// The share of wrong answers among those that are kept; none if none is kept.
    pub fn error(&self) -> Option<Figure> {
        wilson(self.wrong, self.labels - self.escalated)
    }
}

impl From<YesNoAnswer> for Compared {
    fn from(answer: YesNoAnswer) -> Self {
        Self { value: answer.answer, is_right: answer.is_right() }
    }
}

impl Compared {
    /// A choice or score by its confidence.
    pub fn of_class(answer: &ClassAnswer, confidence: f64) -> Self {
        Self { value: confidence, is_right: answer.is_right() }
    }
}

/// Answers between two cut points.
struct Group {
    low: f64,
    high: f64,
    answers: usize,
    wrong: usize,
}

/// Puts answers of the same value into one group, and neighbouring values too if there are many.
fn groups(answers: &[Compared]) -> Vec<Group> {
    let mut sorted = answers.to_vec();
    sorted.sort_by(|one, other| one.value.total_cmp(&other.value));
    let same = sorted.chunk_by(|one, other| one.value.total_cmp(&other.value).is_eq());
    let values: Vec<&[Compared]> = same.collect();
    let least = if values.len() > CUTS { answers.len().div_ceil(CUTS) } else { 1 };
    let mut groups: Vec<Group> = Vec::new();
    for same in values {
        let wrong = same.iter().filter(|answer| !answer.is_right).count();
        if let Some(group) = groups.last_mut().filter(|group| group.answers < least) {
            group.high = same[0].value;
            group.answers += same.len();
            group.wrong += wrong;
        } else {
            let (low, high) = (same[0].value, same[0].value);
            groups.push(Group { low, high, answers: same.len(), wrong });
        }
    }
    groups
}

/// What is known of the answers that are kept.
#[derive(Clone, Copy)]
struct Kept {
    answers: usize,
    wrong: usize,
}

impl Kept {
    fn all(groups: &[Group]) -> Self {
        let sum = |count: fn(&Group) -> usize| groups.iter().map(count).sum();
        Self { answers: sum(|group| group.answers), wrong: sum(|group| group.wrong) }
    }

    fn without(self, group: &Group) -> Self {
        Self { answers: self.answers - group.answers, wrong: self.wrong - group.wrong }
    }

    fn error(self) -> f64 {
        if self.answers == 0 { 0.0 } else { float(self.wrong) / float(self.answers) }
    }

    /// Whether this is preferred: first the error allowed, then the most kept, then the fewest wrong. Where no error is small
    /// enough, the smallest.
    fn beats(self, other: Self, target: f64) -> bool {
        match (self.error() <= target, other.error() <= target) {
            (true, true) => (self.answers, other.wrong) > (other.answers, self.wrong),
            (false, false) => self.error() < other.error(),
            (is_enough, _) => is_enough,
        }
    }
}

/// The band of probabilities with the fewest answers such that of the others at most this share is wrong.
pub fn fit_band(answers: &[Compared], target: f64) -> FittedEscalation {
    let groups = groups(answers);
    let all = Kept::all(&groups);
    let mut best: (Kept, Option<(usize, usize)>) = (all, None);
    for low in 0..groups.len() {
        let mut kept = all;
        for (high, group) in groups.iter().enumerate().skip(low) {
            kept = kept.without(group);
            if kept.beats(best.0, target) {
                best = (kept, Some((low, high)));
            }
        }
    }
    // What lies beyond the labels is treated like the outermost of them.
    let band = |(low, high): (usize, usize)| {
        let from = if low == 0 { 0.0 } else { groups[low].low };
        let to = if high + 1 == groups.len() { 1.0 } else { groups[high].high };
        Escalation::Band([from, to])
    };
    fitted(answers, best.0, best.1.map(band))
}

/// The confidence below which the fewest answers are escalated such that of the others at most this share is wrong. Answers that
/// are certain are never escalated: if they are wrong too often, no confidence is enough, and the best one is returned.
pub fn fit_below(answers: &[Compared], target: f64) -> FittedEscalation {
    let (certain, unsure): (Vec<Compared>, Vec<Compared>) =
        answers.iter().copied().partition(|answer| answer.value >= CERTAIN);
    let (groups, certain) = (groups(&unsure), groups(&certain));
    let base = Kept::all(&certain);
    let rest = Kept::all(&groups);
    let mut kept = Kept { answers: base.answers + rest.answers, wrong: base.wrong + rest.wrong };
    let mut best: (Kept, Option<f64>) = (kept, None);
    for (index, group) in groups.iter().enumerate() {
        kept = kept.without(group);
        if kept.beats(best.0, target) {
            best = (kept, Some(groups.get(index + 1).map_or(CERTAIN, |next| next.low)));
        }
    }
    fitted(answers, best.0, best.1.map(Escalation::Below))
}

fn fitted(answers: &[Compared], kept: Kept, escalation: Option<Escalation>) -> FittedEscalation {
    let labels = answers.len();
    FittedEscalation { escalation, labels, escalated: labels - kept.answers, wrong: kept.wrong }
}

/// The error of both analyzers together when the least certain share of answers goes to a second one of this accuracy; `answers`
/// have their certainty ([`crate::AnswerValue::certainty`]) as value. Answers that are equally certain are escalated in part.
pub fn error_at(answers: &[Compared], share: f64, accuracy: f64) -> f64 {
    let mut left = share.clamp(0.0, 1.0) * float(answers.len());
    let mut wrong = 0.0;
    let mut sorted = answers.to_vec();
    sorted.sort_by(|one, other| one.value.total_cmp(&other.value));
    for same in sorted.chunk_by(|one, other| one.value.total_cmp(&other.value).is_eq()) {
        let escalated = left.min(float(same.len()));
        left -= escalated;
        let kept = 1.0 - escalated / float(same.len());
        let wrong_here = float(same.iter().filter(|answer| !answer.is_right).count());
        wrong += kept * wrong_here + escalated * (1.0 - accuracy);
    }
    if answers.is_empty() { 0.0 } else { wrong / float(answers.len()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compared(answers: &[(f64, bool)]) -> Vec<Compared> {
        answers.iter().map(|(value, is_right)| Compared { value: *value, is_right: *is_right }).collect()
    }

    /// How many answers an escalation takes, and how many of the others are wrong.
    fn outcome(answers: &[Compared], escalation: Option<Escalation>) -> (usize, usize) {
        let is_escalated = |answer: &Compared| match escalation {
            None => false,
            Some(Escalation::Band([low, high])) => (low..=high).contains(&answer.value),
            Some(Escalation::Below(below)) => answer.value < below,
        };
        let escalated = answers.iter().filter(|answer| is_escalated(answer)).count();
        let wrong = answers.iter().filter(|answer| !is_escalated(answer) && !answer.is_right).count();
        (escalated, wrong)
    }

    fn error((escalated, wrong): (usize, usize), labels: usize) -> f64 {
        if labels == escalated { 0.0 } else { float(wrong) / float(labels - escalated) }
    }

    #[test]
    fn the_band_is_as_narrow_as_the_error_allows() {
        let answers = compared(&[
            (0.1, true),
            (0.2, true),
            (0.4, false),
            (0.5, true),
            (0.6, false),
            (0.8, true),
            (0.9, true),
        ]);
        let none = fit_band(&answers, 0.5);
        assert_eq!((none.escalation, none.escalated, none.wrong), (None, 0, 2));
        let some = fit_band(&answers, 0.0);
        assert_eq!((some.escalation, some.escalated, some.wrong), (Some(Escalation::Band([0.4, 0.6])), 3, 0));
        let half = fit_band(&answers, 0.17);
        assert_eq!((half.escalated, half.wrong), (1, 1), "one of six is wrong");
        assert!((some.share().unwrap().value - 3.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn a_band_of_all_labels_covers_every_probability() {
        let answers = compared(&[(0.2, false), (0.7, false)]);
        let all = fit_band(&answers, 0.1);
        assert_eq!((all.escalation, all.error()), (Some(Escalation::Band([0.0, 1.0])), None));
        let low = fit_band(&compared(&[(0.2, false), (0.7, true)]), 0.1);
        assert_eq!(low.escalation, Some(Escalation::Band([0.0, 0.2])));
    }

    #[test]
    fn certain_answers_are_never_below() {
        let answers = compared(&[(0.2, false), (0.5, true), (1.0, false), (1.0, true)]);
        let best = fit_below(&answers, 0.1);
        assert_eq!((best.escalation, best.escalated, best.wrong), (Some(Escalation::Below(0.5)), 1, 1));
        let all = fit_below(&compared(&[(0.2, false), (0.5, false)]), 0.1);
        assert_eq!((all.escalation, all.escalated), (Some(Escalation::Below(1.0)), 2));
    }

    #[test]
    fn many_different_values_are_cut_at_quantiles() {
        let answers: Vec<Compared> = (0..50_000_u32)
            .map(|number| Compared {
                value: f64::from(number) / 50_000.0,
                is_right: !(20_000..30_000).contains(&number),
            })
            .collect();
        let fitted = fit_band(&answers, 0.0);
        assert!((10_000..10_600).contains(&fitted.escalated) && fitted.wrong == 0, "{fitted:?}");
        assert_eq!(outcome(&answers, fitted.escalation), (fitted.escalated, fitted.wrong));
    }

    #[test]
    fn a_second_analyzer_is_worth_most_where_the_first_is_unsure() {
        let answers = compared(&[(0.1, false), (0.1, true), (0.5, false), (0.9, true)]);
        for (share, accuracy, expected) in
            [(0.0, 0.9, 0.5), (0.5, 1.0, 0.25), (0.25, 1.0, 0.375), (1.0, 0.9, 0.1), (0.5, 0.5, 0.5)]
        {
            let error = error_at(&answers, share, accuracy);
            assert!((error - expected).abs() < 1e-12, "{share} {accuracy}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_fit_escalates_as_few_as_trying_everything(
            answers in prop::collection::vec((0_u32..=20, any::<bool>()), 1..60),
            target in 0.0_f64..0.6,
        ) {
            let answers: Vec<Compared> = answers
                .into_iter()
                .map(|(value, is_right)| Compared { value: f64::from(value) / 20.0, is_right })
                .collect();
            let labels = answers.len();
            let values = || (0..=20_u32).map(|value| f64::from(value) / 20.0);
            let bands = values().flat_map(|low| values().map(move |high| Some(Escalation::Band([low, high]))));
            let belows = values().map(|below| Some(Escalation::Below(below)));
            let fewest = |tried: &mut dyn Iterator<Item = Option<Escalation>>| {
                let outcomes = std::iter::once(None).chain(tried).map(|escalation| outcome(&answers, escalation));
                outcomes.filter(|outcome| error(*outcome, labels) <= target).min()
            };
            let band = fit_band(&answers, target);
            prop_assert_eq!(outcome(&answers, band.escalation), (band.escalated, band.wrong));
            prop_assert_eq!(Some((band.escalated, band.wrong)), fewest(&mut { bands }));
            let below = fit_below(&answers, target);
            prop_assert_eq!(outcome(&answers, below.escalation), (below.escalated, below.wrong));
            if let Some(fewest) = fewest(&mut { belows }) {
                prop_assert_eq!((below.escalated, below.wrong), fewest);
            } else {
                let least = values()
                    .map(|value| error(outcome(&answers, Some(Escalation::Below(value))), labels))
                    .fold(1.0, f64::min);
                prop_assert!((error((below.escalated, below.wrong), labels) - least).abs() < 1e-12);
            }
        }
    }
}
