//! Figures of yes/no answers.

use crate::api::{Figure, Figures, ReliabilityBin, ThresholdQuality};
use crate::quality::{BINS, MIN_LABELS, bootstrap, float, integer, small_samples, wilson};

/// From this probability on, an answer counts as yes.
const YES: f64 = 0.5;
/// Thresholds are this many twentieths.
const TWENTIETHS: std::ops::RangeInclusive<u8> = 1..=19;

/// An answer, and what is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YesNoAnswer {
    /// The probability of yes, 0 to 1.
    pub answer: f64,
    /// What the label says.
    pub is_yes: bool,
}

/// What wrong answers cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The cost of flagging an object that is labelled no.
    pub false_yes: f64,
    /// The cost of not flagging one that is labelled yes.
    pub false_no: f64,
}

impl YesNoAnswer {
    /// Whether the likelier side is the true one.
    pub fn is_right(self) -> bool {
        (self.answer >= YES) == self.is_yes
    }

    /// The squared distance from the label.
    pub fn brier(self) -> f64 {
        self.excess() * self.excess()
    }

    /// The answer minus the label.
    pub(super) fn excess(self) -> f64 {
        self.answer - if self.is_yes { 1.0 } else { 0.0 }
    }
}

/// The figures of answers; none below [`MIN_LABELS`].
pub(super) fn figures(answers: &[YesNoAnswer]) -> Figures {
    if answers.len() < MIN_LABELS {
        return Figures::default();
    }
    let squares: Vec<f64> = answers.iter().map(|answer| answer.brier()).collect();
    let mut error = CalibrationError::of(answers.iter().map(|answer| (answer.answer, answer.excess())));
    bootstrap::resample(answers.len(), |weights| error.add(weights));
    let right = answers.iter().filter(|answer| answer.is_right()).count();
    let yes = answers.iter().filter(|answer| answer.is_yes).count();
    let auc = Ranking::of(answers).auc(&bootstrap::once(answers.len()));
    Figures {
        yes: Some(integer(yes)),
        accuracy: wilson(right, answers.len()),
        auc: auc.map(|auc| small_samples::auc(auc, yes, answers.len() - yes)),
        brier: small_samples::bounded_mean(&squares, 0.0, 1.0),
        calibration_error: Some(error.figure()),
        ..Figures::default()
    }
}

/// Answers in order, for computing the AUC of any resample in one pass.
pub(super) struct Ranking {
    /// Indexes of labels in order of their answers.
    order: Vec<usize>,
    /// Whether the label at each rank is yes.
    is_yes: Vec<bool>,
    /// Whether the answer at each rank is the same as the one before.
    is_tied: Vec<bool>,
}

impl Ranking {
    pub(super) fn of(answers: &[YesNoAnswer]) -> Self {
        let mut order: Vec<usize> = (0..answers.len()).collect();
        order.sort_by(|a, b| answers[*a].answer.total_cmp(&answers[*b].answer));
        let mut before = None;
        let is_tied = order.iter().map(|index| {
            let answer = answers[*index].answer;
            before.replace(answer).is_some_and(|before: f64| before.total_cmp(&answer).is_eq())
        });
        let is_tied = is_tied.collect();
        Self { is_yes: order.iter().map(|index| answers[*index].is_yes).collect(), is_tied, order }
    }

    /// The share of pairs of a yes and a no in which the yes has the higher answer; a tie counts half. None without both.
    pub(super) fn auc(&self, weights: &[u32]) -> Option<f64> {
        let (mut pairs, mut no_below, mut yes) = (0.0, 0.0, 0.0);
        let (mut tied_yes, mut tied_no) = (0.0, 0.0);
        for (rank, index) in self.order.iter().enumerate() {
            if !self.is_tied[rank] {
                pairs += tied_yes * (no_below + tied_no / 2.0);
                (no_below, yes) = (no_below + tied_no, yes + tied_yes);
                (tied_yes, tied_no) = (0.0, 0.0);
            }
            let weight = f64::from(weights[*index]);
            if self.is_yes[rank] {
                tied_yes += weight;
            } else {
                tied_no += weight;
            }
        }
        pairs += tied_yes * (no_below + tied_no / 2.0);
        let all = (yes + tied_yes) * (no_below + tied_no);
        (all > 0.0).then(|| pairs / all)
    }
}

/// The calibration error of probabilities: the sum over ten equal bins of the absolute mean deviation from what is true,
/// each bin weighted by its share of the labels.
///
/// Chance alone makes it positive, and resamples vary around the estimate rather than around the truth, so their
/// percentiles would miss the truth. The lower end instead takes away as much as resamples differ from the labels
/// themselves, bin by bin. The interval covers at least what it says, and more where answers are clearly off.
pub(super) struct CalibrationError {
    /// The bin of each label, and how far its probability is from what is true.
    labels: Vec<(usize, f64)>,
    observed: [f64; BINS],
    /// The error of each resample.
    resampled: Vec<f64>,
    /// How much the bins of each resample differ from the observed ones.
    noise: Vec<f64>,
}

impl CalibrationError {
    /// Of probabilities, each with its deviation from what is true.
    pub(super) fn of(labels: impl Iterator<Item = (f64, f64)>) -> Self {
        let labels: Vec<(usize, f64)> =
            labels.map(|(probability, deviation)| (bin_of(probability), deviation)).collect();
        let observed = means(&labels, &bootstrap::once(labels.len()));
        Self { labels, observed, resampled: Vec::new(), noise: Vec::new() }
    }

    /// Takes in a resample.
    pub(super) fn add(&mut self, weights: &[u32]) {
        let means = means(&self.labels, weights);
        self.resampled.push(sum_of_absolutes(&means));
        let mut differences = means;
        for (difference, observed) in differences.iter_mut().zip(self.observed) {
            *difference -= observed;
        }
        self.noise.push(sum_of_absolutes(&differences));
    }

    /// The error, with an interval by the resamples.
    pub(super) fn figure(mut self) -> Figure {
        let value = sum_of_absolutes(&self.observed);
        let above = bootstrap::interval(&mut self.resampled).map_or(value, |(_, high)| high);
        let below = bootstrap::interval(&mut self.noise).map_or(0.0, |(_, high)| high);
        Figure { value, low: value - below, high: above }.clamped(0.0, 1.0)
    }
}

fn means(labels: &[(usize, f64)], weights: &[u32]) -> [f64; BINS] {
    let mut sums = [0.0; BINS];
    for ((bin, deviation), weight) in labels.iter().zip(weights) {
        sums[*bin] += deviation * f64::from(*weight);
    }
    let count = float(labels.len());
    sums.map(|sum| sum / count)
}

fn sum_of_absolutes(values: &[f64; BINS]) -> f64 {
    values.iter().map(|value| value.abs()).sum()
}

/// The bin of a probability; the last one includes 1.
fn bin_of(probability: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let bin = (probability * float(BINS)) as usize;
    bin.min(BINS - 1)
}

/// How often answers of each range of probability were right.
pub(super) fn reliability(answers: &[YesNoAnswer]) -> Vec<ReliabilityBin> {
    let edge = |index: usize| float(index) / float(BINS);
    let bin = |index: usize| {
        let inside: Vec<&YesNoAnswer> =
            answers.iter().filter(|answer| bin_of(answer.answer) == index).collect();
        let yes = inside.iter().filter(|answer| answer.is_yes).count();
        let sum: f64 = inside.iter().map(|answer| answer.answer).sum();
        ReliabilityBin {
            from: edge(index),
            to: edge(index + 1),
            mean_answer: (!inside.is_empty()).then(|| sum / float(inside.len())),
            share_yes: wilson(yes, inside.len()),
            count: integer(inside.len()),
        }
    };
    (0..BINS).map(bin).collect()
}

/// What is flagged at a threshold.
struct Flagged {
    threshold: f64,
    yes: usize,
    all: usize,
}

fn flagged(answers: &[YesNoAnswer]) -> impl Iterator<Item = Flagged> {
    TWENTIETHS.map(|twentieths| {
        let threshold = f64::from(twentieths) / 20.0;
        let flagged = answers.iter().filter(|answer| answer.answer >= threshold);
        let (yes, all) =
            flagged.fold((0, 0), |(yes, all), answer| (yes + usize::from(answer.is_yes), all + 1));
        Flagged { threshold, yes, all }
    })
}

/// What would be flagged at each threshold from 0.05 to 0.95; nothing for no answers.
pub(super) fn thresholds(answers: &[YesNoAnswer]) -> Vec<ThresholdQuality> {
    let all_yes = answers.iter().filter(|answer| answer.is_yes).count();
    let quality = |Flagged { threshold, yes, all }| {
        Some(ThresholdQuality {
            threshold,
            precision: wilson(yes, all),
            recall: wilson(yes, all_yes),
            flagged: wilson(all, answers.len())?,
        })
    };
    flagged(answers).filter_map(quality).collect()
}

/// The threshold at which wrong answers cost least; of several the one nearest to 0.5, then the lower one.
pub(super) fn best_threshold(answers: &[YesNoAnswer], costs: Costs) -> f64 {
    let all_yes = answers.iter().filter(|answer| answer.is_yes).count();
    let cost = |flagged: &Flagged| {
        costs.false_yes * float(flagged.all - flagged.yes) + costs.false_no * float(all_yes - flagged.yes)
    };
    let distance = |flagged: &Flagged| (flagged.threshold - YES).abs();
    let best = flagged(answers)
        .min_by(|a, b| cost(a).total_cmp(&cost(b)).then_with(|| distance(a).total_cmp(&distance(b))));
    best.map_or(YES, |flagged| flagged.threshold)
}
