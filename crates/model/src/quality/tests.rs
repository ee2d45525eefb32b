//! Figures by hand, and their bounds for any labels. What their intervals cover is simulated in `coverage.rs`.

use proptest::prelude::*;

use super::bootstrap::Draws;
use super::*;
use crate::api::Figures;
use crate::{AnswerValue, SignalType};

fn labelled(answers: &[(f64, bool)]) -> Vec<YesNoAnswer> {
    answers.iter().map(|(answer, is_yes)| YesNoAnswer { answer: *answer, is_yes: *is_yes }).collect()
}

/// Twelve labels: the answers rank most of them rightly.
fn twelve() -> Vec<YesNoAnswer> {
    labelled(&[
        (0.05, false),
        (0.05, false),
        (0.15, false),
        (0.25, true),
        (0.35, false),
        (0.45, false),
        (0.5, true),
        (0.5, false),
        (0.75, true),
        (0.85, true),
        (0.95, true),
        (1.0, true),
    ])
}

#[test]
fn figures_are_what_they_are_by_hand() {
    let answers = twelve();
    let figures = yes_no::figures(&answers);
    assert_eq!(figures.yes, Some(6));
    let accuracy = figures.accuracy.unwrap();
    assert!((accuracy.value - 10.0 / 12.0).abs() < 1e-12, "0.25 should be yes, and 0.5 no");
    assert!(
        (accuracy.low - 0.551_969).abs() < 1e-6 && (accuracy.high - 0.953_035).abs() < 1e-6,
        "{accuracy:?}"
    );
    // Of 36 pairs the yes at 0.25 is below the no at 0.35, 0.45 and 0.5, and the two at 0.5 are tied.
    assert!((figures.auc.unwrap().value - (36.0 - 3.0 - 0.5) / 36.0).abs() < 1e-12);
    let squares: f64 = answers.iter().map(|answer| answer.brier()).sum();
    assert!((figures.brier.unwrap().value - squares / 12.0).abs() < 1e-12);
    // Bins from 0: 0.1, 0.15, -0.75, 0.35, 0.45, 0 (one of two), -0.25, -0.15, -0.05.
    let deviations = 0.1 + 0.15 + 0.75 + 0.35 + 0.45 + 0.25 + 0.15 + 0.05;
    assert!((figures.calibration_error.unwrap().value - deviations / 12.0).abs() < 1e-12);
}

#[test]
fn thresholds_flag_at_or_above() {
    let answers = twelve();
    let thresholds = yes_no::thresholds(&answers);
    assert_eq!(thresholds.len(), 19);
    assert!((thresholds[18].threshold - 0.95).abs() < f64::EPSILON);
    let half = thresholds[9];
    assert!((half.threshold - 0.5).abs() < f64::EPSILON);
    assert!((half.precision.unwrap().value - 5.0 / 6.0).abs() < 1e-12);
    assert!((half.recall.unwrap().value - 5.0 / 6.0).abs() < 1e-12);
    assert!((half.flagged.value - 0.5).abs() < 1e-12);
    let low = labelled(&[(0.01, false); 12]);
    let nothing = yes_no::thresholds(&low)[0];
    assert_eq!((nothing.precision, nothing.recall), (None, None), "shares of nothing are left out");
    assert!(nothing.flagged.value.abs() < f64::EPSILON && nothing.flagged.high > 0.1);
}

#[test]
fn the_best_threshold_follows_the_costs() {
    let answers = twelve();
    let best = |false_yes, false_no| yes_no::best_threshold(&answers, Costs { false_yes, false_no });
    // 0.55 to 0.75 cost two misses, 0.5 one of each.
    assert!((best(1.0, 1.0) - 0.5).abs() < f64::EPSILON, "of equal ones the nearest to 0.5");
    assert!((best(10.0, 1.0) - 0.55).abs() < f64::EPSILON, "false alarms are dear");
    assert!((best(1.0, 10.0) - 0.25).abs() < f64::EPSILON, "misses are dear");
}

#[test]
fn reliability_has_ten_bins() {
    let bins = yes_no::reliability(&twelve());
    assert_eq!(bins.len(), 10);
    assert_eq!(bins.iter().map(|bin| bin.count).sum::<i64>(), 12);
    let last = bins[9];
    assert_eq!((last.from, last.to, last.count), (0.9, 1.0, 2), "the last includes 1");
    assert!((last.mean_answer.unwrap() - 0.975).abs() < 1e-12);
    assert!((last.share_yes.unwrap().value - 1.0).abs() < 1e-12);
    assert_eq!((bins[6].count, bins[6].mean_answer, bins[6].share_yes), (0, None, None));
}

#[test]
fn few_labels_have_no_figures_and_one_side_has_no_auc() {
    assert_eq!(yes_no::figures(&twelve()[..9]), Figures::default());
    let one_side = yes_no::figures(&labelled(&[(0.4, false); 10]));
    assert!(one_side.auc.is_none() && one_side.brier.is_some());
}

#[test]
fn perfectly_separated_answers_still_have_an_interval() {
    let apart: Vec<YesNoAnswer> =
        (0..20_u32).map(|n| YesNoAnswer { answer: f64::from(n) / 20.0, is_yes: n >= 10 }).collect();
    let auc = yes_no::figures(&apart).auc.unwrap();
    assert!((auc.value - 1.0).abs() < f64::EPSILON && auc.low < 0.9 && auc.low > 0.6, "{auc:?}");
}

fn value(kind: SignalType, shares: &[(&str, f64)]) -> AnswerValue {
    let top = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let score = shares.iter().map(|(name, share)| name.parse().unwrap_or(0.0) * share).sum();
    AnswerValue {
        kind,
        noul: None,
        choice: (kind == SignalType::Choice).then(|| top.0.to_owned()),
        score: (kind == SignalType::Score).then_some(score),
        probabilities: Some(shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect()),
        confidence: Some(0.5),
    }
}

#[test]
fn classes_are_compared_by_name() {
    let mut classes = Classes::new(["red".to_owned(), "blue".to_owned()]);
    let red = value(SignalType::Choice, &[("red", 0.75), ("blue", 0.25)]);
    let blue = value(SignalType::Choice, &[("red", 0.25), ("blue", 0.75)]);
    let mut answers = Vec::new();
    for (truth, answer, count) in
        [("red", &red, 5), ("red", &blue, 1), ("blue", &blue, 3), ("green", &red, 1)]
    {
        answers.extend(std::iter::repeat_n(classes.compare(truth, answer).unwrap(), count));
    }
    let figures = classes.figures(SignalType::Choice, &answers);
    assert!((figures.accuracy.unwrap().value - 0.8).abs() < 1e-12);
    // F1 of red 10/12, of blue 6/7, of green, which is never answered, 0.
    assert!((figures.macro_f1.unwrap().value - (10.0 / 12.0 + 6.0 / 7.0) / 3.0).abs() < 1e-12);
    assert!((figures.calibration_error.unwrap().value - 0.05).abs() < 1e-12, "75 % sure, 80 % right");
    assert!(figures.mean_distance.is_none());
    let confusion = serde_json::to_string(&classes.confusion(&answers)).unwrap();
    assert_eq!(confusion, r#"{"red":{"red":5,"blue":1},"blue":{"blue":3},"green":{"red":1}}"#);
}

#[test]
fn the_level_answered_is_the_nearest() {
    let mut classes = Classes::new(["0".to_owned(), "1".to_owned(), "2".to_owned()]);
    // The likeliest level is 0, the expected one 0.9.
    let torn = value(SignalType::Score, &[("0", 0.5), ("1", 0.1), ("2", 0.4)]);
    let half = value(SignalType::Score, &[("0", 0.5), ("1", 0.5), ("2", 0.0)]);
    let compared = classes.compare("2", &torn).unwrap();
    assert_eq!((compared.truth, compared.answered), (2, 1));
    assert_eq!(compared.top_deviation(), (0.5, 0.5), "the likeliest level is not the true one");
    assert_eq!(classes.compare("0", &half).unwrap().answered, 1, "half up");
    let figures = classes.figures(SignalType::Score, &vec![compared; 10]);
    assert!((figures.mean_distance.unwrap().value - 1.0).abs() < 1e-12);
}

#[test]
fn a_difference_is_judged_on_the_same_objects() {
    let mut draws = Draws::new(3);
    let pairs: Vec<PairedAnswer> = (0..200)
        .map(|_| {
            let is_yes = draws.fraction() < 0.4;
            let lean = if is_yes { 0.1 } else { -0.1 };
            let present = draws.fraction();
            let graded = |answer| Graded::from(YesNoAnswer { answer, is_yes });
            PairedAnswer {
                present: graded(present),
                proposed: graded((present + lean).clamp(0.0, 1.0)),
                is_yes: Some(is_yes),
            }
        })
        .collect();
    let difference = difference(&pairs).unwrap();
    assert!(difference.brier.high < 0.0, "all proposed answers are nearer to the label: {difference:?}");
    assert!(difference.auc.unwrap().low > 0.0 && difference.accuracy.low >= 0.0);
    let same: Vec<PairedAnswer> =
        pairs.iter().map(|pair| PairedAnswer { proposed: pair.present, ..*pair }).collect();
    let none = super::difference(&same).unwrap();
    assert!(none.brier.value.abs() < f64::EPSILON && none.brier.low < 0.0 && none.brier.high > 0.0);
    assert!(none.brier.high < 0.02, "200 labels without a difference leave little doubt: {none:?}");
    assert!(super::difference(&pairs[..9]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn figures_lie_in_their_intervals(
        labels in prop::collection::vec((0.0_f64..=1.0, any::<bool>()), 10..40),
    ) {
        let answers = labelled(&labels);
        let figures = yes_no::figures(&answers);
        let thresholds = yes_no::thresholds(&answers);
        let shares = thresholds.iter().flat_map(|row| [row.precision, row.recall, Some(row.flagged)]);
        let all = [figures.accuracy, figures.auc, figures.brier, figures.calibration_error];
        for figure in all.into_iter().chain(shares).flatten() {
            prop_assert!(0.0 <= figure.low && figure.low <= figure.value, "{figure:?}");
            prop_assert!(figure.value <= figure.high && figure.high <= 1.0, "{figure:?}");
        }
        prop_assert_eq!(yes_no::figures(&answers), figures, "the bootstrap is seeded");
    }
}
