//! Figures of choices and scores: one of several classes is true, and one was answered.

use std::collections::HashSet;

use indexmap::{IndexMap, IndexSet};

use crate::api::Figures;
use crate::quality::yes_no::CalibrationError;
use crate::quality::{MIN_LABELS, bootstrap, float, integer, small_samples, wilson};
use crate::{AnswerValue, SignalType};

/// The options or levels that labels and answers name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(IndexSet<String>);

/// An answer, and what is true. Classes are numbered as in [`Classes`].
#[derive(Clone, Debug, PartialEq)]
pub struct ClassAnswer {
    /// The class that the label names.
    pub truth: usize,
    /// The option that was answered, or the level nearest to the score.
    pub answered: usize,
    /// The probability of each class; of a class that the answer does not name, none.
    pub probabilities: Vec<(usize, f64)>,
}

impl Classes {
    /// The classes of a question, in its order. Others are added as labels and answers name them: criteria change.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Compares an answer with the class that its label names; none if the answer has no value.
    pub fn compare(&mut self, truth: &str, answer: &AnswerValue) -> Option<ClassAnswer> {
        let answered = match answer.kind {
            SignalType::Choice => answer.choice.clone()?,
            // Half up, like comparisons with a level.
            SignalType::Score => (answer.score?.max(0.0) + 0.5).floor().to_string(),
            SignalType::Noul => return None,
        };
        let probabilities = answer.probabilities.as_ref()?;
        let probabilities = probabilities.iter().map(|(name, share)| (self.index(name), *share)).collect();
        Some(ClassAnswer { truth: self.index(truth), answered: self.index(&answered), probabilities })
    }

    fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.0.get_index_of(name) {
            return index;
        }
        self.0.insert_full(name.to_owned()).0
    }

    /// The number of labels by what is true and what was answered; classes that nobody names are left out.
    pub fn confusion(&self, answers: &[ClassAnswer]) -> IndexMap<String, IndexMap<String, i64>> {
        let counts = self.counts(answers);
        let row = |(truth, counts): (usize, Vec<usize>)| {
            let row: IndexMap<String, i64> = counts
                .into_iter()
                .enumerate()
                .filter(|(_, count)| *count > 0)
                .map(|(answered, count)| (self.0[answered].clone(), integer(count)))
                .collect();
            (!row.is_empty()).then(|| (self.0[truth].clone(), row))
        };
        counts.into_iter().enumerate().filter_map(row).collect()
    }

    fn counts(&self, answers: &[ClassAnswer]) -> Vec<Vec<usize>> {
        let mut counts = vec![vec![0; self.0.len()]; self.0.len()];
        for answer in answers {
            counts[answer.truth][answer.answered] += 1;
        }
        counts
    }

    /// The figures of answers; none below [`MIN_LABELS`].
    pub fn figures(&self, kind: SignalType, answers: &[ClassAnswer]) -> Figures {
        if answers.len() < MIN_LABELS {
            return Figures::default();
        }
        let distances: Vec<f64> = answers.iter().map(|answer| self.distance(answer)).collect();
        let mut error = CalibrationError::of(answers.iter().map(ClassAnswer::top_deviation));
        let [macro_f1] = bootstrap::percentiles_beside(
            answers.len(),
            |weights| [Some(self.macro_f1(answers, weights))],
            |weights| error.add(weights),
        );
        let named: HashSet<usize> =
            answers.iter().flat_map(|answer| [answer.truth, answer.answered]).collect();
        let mean_distance = small_samples::bounded_mean(&distances, 0.0, self.largest_distance());
        let right = answers.iter().filter(|answer| answer.is_right()).count();
        Figures {
            accuracy: wilson(right, answers.len()),
            calibration_error: Some(error.figure()),
            macro_f1: macro_f1.map(|figure| small_samples::macro_f1(figure, answers.len(), named.len())),
            mean_distance: mean_distance.filter(|_| kind == SignalType::Score),
            ..Figures::default()
        }
    }

    /// The number of levels between the true one and the one that was answered.
    pub(super) fn distance(&self, answer: &ClassAnswer) -> f64 {
        (level(&self.0[answer.truth]) - level(&self.0[answer.answered])).abs()
    }

    /// The number of levels between the lowest and the highest one.
    pub(super) fn largest_distance(&self) -> f64 {
        let levels = || self.0.iter().map(|name| level(name));
        (levels().fold(f64::NEG_INFINITY, f64::max) - levels().fold(f64::INFINITY, f64::min)).max(0.0)
    }

    /// The mean F1 of the classes that are true or answered somewhere.
    pub(super) fn macro_f1(&self, answers: &[ClassAnswer], weights: &[u32]) -> f64 {
        let mut counts = vec![(0.0, 0.0); self.0.len()];
        for (answer, weight) in answers.iter().zip(weights) {
            let weight = f64::from(*weight);
            if answer.is_right() {
                counts[answer.truth].0 += weight;
            } else {
                counts[answer.truth].1 += weight;
                counts[answer.answered].1 += weight;
            }
        }
        let named = counts.iter().filter(|(right, wrong)| right + wrong > 0.0);
        let scores: Vec<f64> = named.map(|(right, wrong)| 2.0 * right / (2.0 * right + wrong)).collect();
        scores.iter().sum::<f64>() / float(scores.len())
    }
}

/// The level that a class is; 0 of an option.
fn level(name: &str) -> f64 {
    name.parse().unwrap_or(0.0)
}

impl ClassAnswer {
    /// Whether the true class was answered.
    pub fn is_right(&self) -> bool {
        self.answered == self.truth
    }

    /// The squared distance of the probabilities from the label, summed over the classes.
    pub fn brier(&self) -> f64 {
        let named = self.probabilities.iter().map(|(class, share)| {
            let truth = if *class == self.truth { 1.0 } else { 0.0 };
            (share - truth) * (share - truth)
        });
        let is_named = self.probabilities.iter().any(|(class, _)| *class == self.truth);
        named.sum::<f64>() + if is_named { 0.0 } else { 1.0 }
    }

    /// The likeliest probability, and how far it is from whether its class is true.
    pub(crate) fn top_deviation(&self) -> (f64, f64) {
        let mut top = (usize::MAX, 0.0);
        for (class, share) in &self.probabilities {
            if *share > top.1 {
                top = (*class, *share);
            }
        }
        (top.1, top.1 - if top.0 == self.truth { 1.0 } else { 0.0 })
    }
}
