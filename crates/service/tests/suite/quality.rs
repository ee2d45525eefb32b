//! Figures of quality agree with scikit-learn.

use model::api::{Figure, SignalQuality};
use model::quality::calibration::fit_yes_no;
use model::quality::{Classes, Costs, Labelled, Scope, YesNoAnswer};
use model::{AnswerValue, SignalType, Timestamp};
use serde_json::{Value, json};
use service::Random;

const SETS: usize = 1_000;
const COSTS: Costs = Costs { false_yes: 1.0, false_no: 1.0 };

fn scope(kind: SignalType) -> Scope {
    Scope { signal: "is_scammer".to_owned(), kind, version: None }
}

fn labelled<T>(answers: impl IntoIterator<Item = T>) -> Vec<Labelled<T>> {
    let at = Timestamp::from_seconds(1_767_225_600);
    answers.into_iter().map(|answer| Labelled { answer, at, audit: false }).collect()
}

/// A number below `bound`.
fn below(random: &Random, bound: u32) -> u32 {
    u32::from_be_bytes(random.bytes()) % bound
}

/// Answers and labels that depend on them. Every second set has few distinct answers, and so many ties; none is at the
/// edge of a bin, where scikit-learn's bins end differently.
fn random_set(random: &Random, number: usize, count: u32) -> Vec<YesNoAnswer> {
    let label = |_| {
        let answer = if number.is_multiple_of(2) {
            f64::from(2 * below(random, 10) + 1) / 20.0
        } else {
            f64::from(below(random, 10) * 100_000 + 1 + below(random, 99_999)) / 1e6
        };
        YesNoAnswer { answer, is_yes: random.fraction() < (answer + 0.3) / 1.6 }
    };
    (0..count).map(label).collect()
}

fn same(ours: Option<f64>, theirs: &Value, what: &str) {
    match (ours, theirs.as_f64()) {
        (Some(ours), Some(theirs)) => assert!((ours - theirs).abs() < 1e-9, "{what}: {ours} is not {theirs}"),
        (None, None) => {}
        (ours, theirs) => panic!("{what}: {ours:?} is not {theirs:?}"),
    }
}

fn value(figure: Option<Figure>) -> Option<f64> {
    figure.map(|figure| figure.value)
}

fn compare(report: &SignalQuality, theirs: &Value) {
    let figures = &report.figures;
    same(value(figures.accuracy), &theirs["accuracy"], "accuracy");
    same(value(figures.auc), &theirs["auc"], "auc");
    same(value(figures.brier), &theirs["brier"], "brier");
    same(value(figures.calibration_error), &theirs["calibration_error"], "calibration_error");
    // scikit-learn leaves empty bins out.
    let bins = report.reliability.as_ref().unwrap().iter().filter(|bin| bin.count > 0);
    for (index, bin) in bins.enumerate() {
        same(value(bin.share_yes), &theirs["share_yes"][index], "share_yes");
        same(bin.mean_answer, &theirs["mean_answer"][index], "mean_answer");
    }
    for (index, row) in report.thresholds.as_ref().unwrap().iter().enumerate() {
        same(value(row.precision), &theirs["precision"][index], "precision");
        same(value(row.recall), &theirs["recall"][index], "recall");
        same(Some(row.flagged.value), &theirs["flagged"][index], "flagged");
    }
}

#[test]
fn yes_no_figures_agree_with_scikit_learn_on_a_thousand_sets() {
    let random = Random::seeded(21);
    let sets: Vec<Vec<YesNoAnswer>> =
        (0..SETS).map(|number| random_set(&random, number, 10 + below(&random, 30))).collect();
    let questions: Vec<Value> = sets
        .iter()
        .map(|set| {
            let answers: Vec<f64> = set.iter().map(|label| label.answer).collect();
            let labels: Vec<u8> = set.iter().map(|label| u8::from(label.is_yes)).collect();
            json!({"answers": answers, "labels": labels})
        })
        .collect();
    for (set, theirs) in sets.iter().zip(testkit::scikit_learn_figures(questions)) {
        let report = scope(SignalType::Noul).yes_no(&labelled(set.iter().copied()), COSTS);
        compare(&report, &theirs);
    }
}

/// The probabilities of so many classes, in thousandths and none of them at the edge of a bin, and the class that is true.
fn random_answer(random: &Random, classes: u32) -> (Vec<f64>, u32) {
    loop {
        let weights: Vec<u32> = (0..classes).map(|_| 1 + below(random, 1_000)).collect();
        let sum: u32 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| f64::from(*weight) / f64::from(sum)).collect();
        let is_at_edge = shares.iter().any(|share| (share * 10.0 - (share * 10.0).round()).abs() < 1e-6);
        let score: f64 = (0..).zip(&shares).map(|(level, share)| f64::from(level) * share).sum();
        let is_torn = (score - score.floor() - 0.5).abs() < 1e-6;
        if !is_at_edge && !is_torn {
            return (shares, below(random, classes));
        }
    }
}

fn answer_value(kind: SignalType, shares: &[f64]) -> AnswerValue {
    // The first of several that are equally likely, as the service answers.
    let likeliest = (0..shares.len()).rev().max_by(|one, other| shares[*one].total_cmp(&shares[*other]));
    let score: f64 = (0..).zip(shares).map(|(level, share)| f64::from(level) * share).sum();
    AnswerValue {
        kind,
        noul: None,
        choice: likeliest.filter(|_| kind == SignalType::Choice).map(|class| class.to_string()),
        score: (kind == SignalType::Score).then_some(score),
        probabilities: Some((0..).zip(shares).map(|(class, share)| (class.to_string(), *share)).collect()),
        confidence: Some(1.0),
    }
}

/// How many classes there are, and answers: how likely each class is, and which it was.
type RandomSet = (u32, Vec<(Vec<f64>, u32)>);

/// Compares the figures of a thousand random sets with those of scikit-learn.
fn compare_classes(kind: SignalType, seed: u64) {
    let random = Random::seeded(seed);
    let sets: Vec<RandomSet> = (0..SETS)
        .map(|_| {
            let (classes, count) = (2 + below(&random, 4), 10 + below(&random, 30));
            (classes, (0..count).map(|_| random_answer(&random, classes)).collect())
        })
        .collect();
    let name = if kind == SignalType::Score { "score" } else { "choice" };
    let question = |(_, set): &RandomSet| {
        let (probabilities, truth): (Vec<&Vec<f64>>, Vec<u32>) =
            set.iter().map(|(shares, truth)| (shares, *truth)).unzip();
        json!({"kind": name, "probabilities": probabilities, "truth": truth})
    };
    let questions = sets.iter().map(question).collect();
    for ((count, set), theirs) in sets.iter().zip(testkit::scikit_learn_figures(questions)) {
        let mut classes = Classes::new((0..*count).map(|class| class.to_string()));
        let answers: Vec<_> = set
            .iter()
            .map(|(shares, truth)| classes.compare(&truth.to_string(), &answer_value(kind, shares)).unwrap())
            .collect();
        let report = scope(kind).classes(&classes, &labelled(answers));
        let figures = &report.figures;
        same(value(figures.accuracy), &theirs["accuracy"], "accuracy");
        same(value(figures.macro_f1), &theirs["macro_f1"], "macro_f1");
        same(value(figures.calibration_error), &theirs["calibration_error"], "calibration_error");
        match kind {
            SignalType::Score => {
                same(value(figures.mean_distance), &theirs["mean_distance"], "mean_distance");
            }
            _ => assert!(figures.mean_distance.is_none()),
        }
        let confusion = report.confusion.unwrap();
        let names: Vec<String> = theirs["names"].as_array().unwrap().iter().map(Value::to_string).collect();
        for (row, truth) in names.iter().enumerate() {
            for (column, answered) in names.iter().enumerate() {
                let counted = confusion.get(truth).and_then(|row| row.get(answered));
                assert_eq!(json!(counted.unwrap_or(&0)), theirs["confusion"][row][column]);
            }
        }
    }
}

#[test]
fn figures_of_scores_agree_with_scikit_learn_on_a_thousand_sets() {
    compare_classes(SignalType::Score, 22);
}

#[test]
fn figures_of_choices_agree_with_scikit_learn_on_a_thousand_sets() {
    compare_classes(SignalType::Choice, 24);
}

#[test]
fn an_isotonic_calibration_agrees_with_scikit_learn() {
    let random = Random::seeded(23);
    let set = random_set(&random, 1, 1_000);
    let answers: Vec<f64> = set.iter().map(|label| label.answer).collect();
    let labels: Vec<u8> = set.iter().map(|label| u8::from(label.is_yes)).collect();
    let theirs =
        testkit::scikit_learn_figures(vec![json!({"answers": answers, "labels": labels, "isotonic": true})]);
    let calibrator = fit_yes_no(&set).unwrap().calibrator;
    for probe in 0..25_u32 {
        let raw = 0.01 + 0.98 * f64::from(probe) / 24.0;
        same(Some(calibrator.probability(raw)), &theirs[0]["isotonic"][probe as usize], "isotonic");
    }
}
