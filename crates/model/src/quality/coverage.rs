//! What intervals cover, by simulation: of many sets of 10, 20, 50 and 100 labels, in how many does the interval of each figure hold
//! what the figure is over very many labels?

use std::collections::BTreeMap;

use super::bootstrap::{Draws, once};
use super::*;
use crate::SignalType;
use crate::api::Figure;

const COUNTS: [usize; 4] = [10, 20, 50, 100];
/// Sets of labels for figures whose intervals are a formula, and for those that need a bootstrap.
const SETS: usize = 1_000;
const BOOTSTRAPPED: usize = 100;
/// How wide the intervals of so many labels may be on average: one that says nothing, from 0 to 1, covers everything. The widest are
/// those of macro-F1, with 0.75, 0.61, 0.44 and 0.33.
const WIDEST: [f64; 4] = [0.8, 0.65, 0.47, 0.35];
/// The labels that what is true is computed from.
const MANY: usize = 100_000;

/// The distance that counts as 1: half of the most that five levels can be apart.
const DISTANCE: f64 = 2.0;
/// The figure that is a share.
const SHARE: &str = "share of right answers";

/// How many intervals cover, by figure.
#[derive(Default)]
struct Coverage(BTreeMap<(&'static str, usize), (usize, usize, f64)>);

impl Coverage {
    fn add(&mut self, name: &'static str, count: usize, figure: Option<Figure>, truth: f64) {
        // A figure that labels do not define, such as the AUC of one side, has no interval.
        let Some(figure) = figure else { return };
        let counted = self.0.entry((name, count)).or_default();
        counted.0 += usize::from((figure.low..=figure.high).contains(&truth));
        counted.1 += 1;
        counted.2 += figure.high - figure.low;
    }

    /// Of 1,000 intervals that cover in 95 of 100, fewer than 930 cover in one of 500 runs; of 100, fewer than 88. Wilson's
    /// interval of a share covers a little less at some shares of few trials. Widths are in units of `scale`.
    fn check(&self, what: &str, scale: f64) {
        for ((name, count), (covered, of, width)) in &self.0 {
            let (share, width) = (float(*covered) / float(*of), width / float(*of));
            println!("{what}: {name} of {count} labels: {share:.3} of {of} cover, {width:.3} wide");
            let least = match (*of > BOOTSTRAPPED, *name) {
                (true, SHARE) => 0.91,
                (true, _) => 0.93,
                (false, _) => 0.87,
            };
            assert!(share >= least, "{what}: {name} of {count} labels: {share:.3} of {of} cover");
            let index = COUNTS.iter().position(|known| known == count).unwrap();
            assert!(width <= WIDEST[index] * scale, "{what}: {name} of {count} labels: {width:.3} wide");
        }
    }
}

fn sigmoid(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

/// A number around 0, between -1.5 and 1.5 times the scale.
fn around(draws: &mut Draws, scale: f64) -> f64 {
    (draws.fraction() + draws.fraction() + draws.fraction() - 1.5) * scale
}

/// An analyzer whose answers are too sure of themselves by a factor, about objects of which more or fewer are yes.
#[derive(Clone, Copy)]
struct Analyzer {
    overconfidence: f64,
    centre: f64,
    scale: f64,
}

impl Analyzer {
    fn label(self, draws: &mut Draws) -> YesNoAnswer {
        let log_odds = around(draws, self.scale) + self.centre;
        let is_yes = draws.fraction() < sigmoid(log_odds / self.overconfidence);
        YesNoAnswer { answer: sigmoid(log_odds), is_yes }
    }

    fn labels(self, draws: &mut Draws, count: usize) -> Vec<YesNoAnswer> {
        (0..count).map(|_| self.label(draws)).collect()
    }
}

const ANALYZERS: [(&str, Analyzer); 4] = [
    ("calibrated", Analyzer { overconfidence: 1.0, centre: -0.5, scale: 4.0 }),
    ("too sure", Analyzer { overconfidence: 2.0, centre: -0.5, scale: 4.0 }),
    ("about what is rare", Analyzer { overconfidence: 1.0, centre: -2.0, scale: 4.0 }),
    ("nearly always right", Analyzer { overconfidence: 0.3, centre: 0.0, scale: 6.0 }),
];

#[test]
fn intervals_of_yes_no_figures_cover_what_they_say() {
    for (what, analyzer) in ANALYZERS {
        let (mut draws, mut coverage) = (Draws::new(7), Coverage::default());
        let mean = |labels: &[YesNoAnswer], value: fn(YesNoAnswer) -> f64| {
            labels.iter().map(|label| value(*label)).sum::<f64>() / float(labels.len())
        };
        let right = |label: YesNoAnswer| f64::from(u8::from(label.is_right()));
        let all = analyzer.labels(&mut draws, MANY);
        let auc = yes_no::Ranking::of(&all).auc(&once(MANY)).unwrap();
        let (accuracy, brier) = (mean(&all, right), mean(&all, YesNoAnswer::brier));
        for count in COUNTS {
            for _ in 0..SETS {
                let labels = analyzer.labels(&mut draws, count);
                let yes = labels.iter().filter(|label| label.is_yes).count();
                let ours = yes_no::Ranking::of(&labels).auc(&once(count));
                let ours = ours.map(|auc| small_samples::auc(auc, yes, count - yes));
                let squares: Vec<f64> = labels.iter().map(|label| label.brier()).collect();
                let rights = labels.iter().filter(|label| label.is_right()).count();
                coverage.add(SHARE, count, wilson(rights, count), accuracy);
                coverage.add("auc", count, ours, auc);
                coverage.add("brier", count, small_samples::bounded_mean(&squares, 0.0, 1.0), brier);
            }
        }
        coverage.check(what, 1.0);
    }
}

/// The calibration error over very many labels. Of answers that are calibrated exactly it is 0; many labels leave a trace of one.
fn calibration_error(deviations: impl Iterator<Item = (f64, f64)>) -> f64 {
    let error = yes_no::CalibrationError::of(deviations).figure().value;
    if error < 0.01 { 0.0 } else { error }
}

#[test]
fn intervals_of_calibration_errors_cover_what_they_say() {
    for (what, analyzer) in &ANALYZERS[..3] {
        let (mut draws, mut coverage) = (Draws::new(8), Coverage::default());
        let all = analyzer.labels(&mut draws, MANY);
        let error = calibration_error(all.iter().map(|label| (label.answer, label.excess())));
        for count in COUNTS {
            for _ in 0..BOOTSTRAPPED {
                let figures = yes_no::figures(&analyzer.labels(&mut draws, count));
                coverage.add("calibration_error", count, figures.calibration_error, error);
            }
        }
        coverage.check(what, 1.0);
    }
}

/// Answers about options or levels: each has a weight, which the true one tends to have more of.
#[derive(Clone, Copy)]
struct Chooser {
    prior: &'static [f64],
    knowledge: f64,
    overconfidence: f64,
}

impl Chooser {
    fn label(self, draws: &mut Draws) -> ClassAnswer {
        let truth = drawn(draws, self.prior.iter().copied());
        // What is known points to the truth; the answer is the posterior, too sure of itself by a factor.
        let evidence = |class: usize, draws: &mut Draws| {
            let mean = if class == truth { self.knowledge } else { 0.0 };
            self.knowledge * (mean + around(draws, 2.0)) + self.prior[class].ln()
        };
        let logits: Vec<f64> = (0..self.prior.len()).map(|class| evidence(class, draws)).collect();
        let weights: Vec<f64> = logits.iter().map(|logit| (logit * self.overconfidence).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let shares = weights.iter().map(|weight| weight / sum);
        let probabilities: Vec<(usize, f64)> = shares.enumerate().collect();
        let top = probabilities.iter().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap().0;
        ClassAnswer { truth, answered: top, probabilities }
    }

    fn labels(self, draws: &mut Draws, count: usize) -> Vec<ClassAnswer> {
        (0..count).map(|_| self.label(draws)).collect()
    }
}

/// An index, with these probabilities.
fn drawn(draws: &mut Draws, shares: impl Iterator<Item = f64>) -> usize {
    let mut left = draws.fraction();
    for (index, share) in shares.enumerate() {
        left -= share;
        if left < 0.0 {
            return index;
        }
    }
    0
}

const CHOOSERS: [(&str, Chooser); 4] = [
    ("three options", Chooser { prior: &[0.34, 0.33, 0.33], knowledge: 1.5, overconfidence: 1.0 }),
    ("one rare of three", Chooser { prior: &[0.6, 0.3, 0.1], knowledge: 1.2, overconfidence: 2.0 }),
    ("five levels", Chooser { prior: &[0.3, 0.25, 0.2, 0.15, 0.1], knowledge: 1.5, overconfidence: 1.5 }),
    ("nearly always right", Chooser { prior: &[0.5, 0.3, 0.2], knowledge: 2.5, overconfidence: 1.0 }),
];

fn classes_of(chooser: Chooser) -> Classes {
    Classes::new((0..chooser.prior.len()).map(|level| level.to_string()))
}

#[test]
fn intervals_of_class_figures_cover_what_they_say() {
    for (what, chooser) in CHOOSERS {
        let (mut draws, mut coverage) = (Draws::new(9), Coverage::default());
        let classes = classes_of(chooser);
        let all = chooser.labels(&mut draws, MANY);
        let macro_f1 = classes.macro_f1(&all, &once(MANY));
        let error = calibration_error(all.iter().map(ClassAnswer::top_deviation));
        let accuracy = float(all.iter().filter(|label| label.is_right()).count()) / float(MANY);
        for count in COUNTS {
            for _ in 0..BOOTSTRAPPED {
                let figures = classes.figures(SignalType::Choice, &chooser.labels(&mut draws, count));
                coverage.add("macro_f1", count, figures.macro_f1, macro_f1);
                coverage.add("calibration_error", count, figures.calibration_error, error);
                coverage.add(SHARE, count, figures.accuracy, accuracy);
            }
        }
        coverage.check(what, 1.0);
    }
}

#[test]
fn intervals_of_mean_distances_cover_what_they_say() {
    for (what, shares) in [
        ("nearly always right", [0.97, 0.01, 0.01, 0.0, 0.01]),
        ("mostly right", [0.9, 0.08, 0.02, 0.0, 0.0]),
        ("sometimes right", [0.7, 0.2, 0.07, 0.02, 0.01]),
        ("seldom right", [0.3, 0.3, 0.2, 0.1, 0.1]),
    ] {
        let (mut draws, mut coverage) = (Draws::new(10), Coverage::default());
        let truth = shares.iter().enumerate().map(|(distance, share)| float(distance) * share).sum();
        for count in COUNTS {
            for _ in 0..SETS {
                let distances: Vec<f64> =
                    (0..count).map(|_| float(drawn(&mut draws, shares.into_iter()))).collect();
                coverage.add(
                    "mean_distance",
                    count,
                    small_samples::bounded_mean(&distances, 0.0, 4.0),
                    truth,
                );
            }
        }
        coverage.check(what, DISTANCE);
    }
}

/// Two wordings of a question about the same objects, each of which misreads them by so much.
#[derive(Clone, Copy)]
struct Wordings {
    present: f64,
    proposed: f64,
}

impl Wordings {
    fn pair(self, draws: &mut Draws) -> PairedAnswer {
        let log_odds = around(draws, 6.0) - 0.5;
        let is_yes = draws.fraction() < sigmoid(log_odds);
        let answer = |noise: f64, draws: &mut Draws| sigmoid(log_odds + around(draws, noise));
        let present = YesNoAnswer { answer: answer(self.present, draws), is_yes };
        let proposed = YesNoAnswer { answer: answer(self.proposed, draws), is_yes };
        PairedAnswer { present: present.into(), proposed: proposed.into(), is_yes: Some(is_yes) }
    }

    fn pairs(self, draws: &mut Draws, count: usize) -> Vec<PairedAnswer> {
        (0..count).map(|_| self.pair(draws)).collect()
    }
}

#[test]
fn intervals_of_differences_cover_what_they_say() {
    for (what, wordings) in [
        ("hardly another wording", Wordings { present: 0.3, proposed: 0.3 }),
        ("a better wording", Wordings { present: 5.0, proposed: 1.0 }),
        ("another wording", Wordings { present: 4.0, proposed: 4.0 }),
    ] {
        let (mut draws, mut coverage) = (Draws::new(11), Coverage::default());
        let all = wordings.pairs(&mut draws, MANY);
        let mean = |value: fn(&Graded) -> f64| {
            all.iter().map(|pair| value(&pair.proposed) - value(&pair.present)).sum::<f64>() / float(MANY)
        };
        let auc_of = |graded: fn(&PairedAnswer) -> Graded| {
            let answer = |pair: &PairedAnswer| YesNoAnswer {
                answer: graded(pair).probability,
                is_yes: pair.is_yes.unwrap(),
            };
            let answers: Vec<YesNoAnswer> = all.iter().map(answer).collect();
            yes_no::Ranking::of(&answers).auc(&once(MANY)).unwrap()
        };
        let accuracy = mean(|graded| f64::from(u8::from(graded.is_right)));
        let (brier, auc) =
            (mean(|graded| graded.brier), auc_of(|pair| pair.proposed) - auc_of(|pair| pair.present));
        for count in COUNTS {
            for _ in 0..BOOTSTRAPPED {
                let difference = difference(&wordings.pairs(&mut draws, count)).unwrap();
                coverage.add("accuracy", count, Some(difference.accuracy), accuracy);
                coverage.add("auc", count, difference.auc, auc);
                coverage.add("brier", count, Some(difference.brier), brier);
            }
        }
        coverage.check(what, 1.0);
    }
}

/// The share of objects about which only one of two wordings is right: by design, 12 of 100.
#[test]
fn intervals_of_paired_shares_cover_what_they_say() {
    for (what, shares) in [
        ("12 % differ", [0.74, 0.04, 0.08, 0.14]),
        ("12 % are mended", [0.74, 0.0, 0.12, 0.14]),
        ("4 % differ", [0.9, 0.01, 0.03, 0.06]),
        ("30 % differ", [0.5, 0.1, 0.2, 0.2]),
    ] {
        let (mut draws, mut coverage) = (Draws::new(12), Coverage::default());
        for count in COUNTS {
            for _ in 0..SETS {
                let mut counts = [0; 4];
                for _ in 0..count {
                    counts[drawn(&mut draws, shares.into_iter())] += 1;
                }
                let [both, first, second, neither] = counts;
                let figure = small_samples::paired_shares(both, first, second, neither);
                coverage.add("accuracy", count, figure, shares[2] - shares[1]);
            }
        }
        coverage.check(what, 1.0);
    }
}

#[test]
#[should_panic(expected = "1.000 wide")]
fn an_interval_that_says_nothing_fails() {
    let mut coverage = Coverage::default();
    coverage.add(SHARE, COUNTS[0], Some(Figure { value: 0.5, low: 0.0, high: 1.0 }), 0.5);
    coverage.check("everything", 1.0);
}
