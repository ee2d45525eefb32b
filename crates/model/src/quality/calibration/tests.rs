//! What holds for any labels, and what a fit recovers.

use proptest::prelude::*;

use super::*;
use crate::quality::bootstrap::Draws;

fn labels(draws: &mut Draws, count: usize, slope: f64, intercept: f64) -> Vec<YesNoAnswer> {
    (0..count)
        .map(|_| {
            let answer = draws.fraction();
            let is_yes = draws.fraction() < sigmoid(slope * log_odds(answer) + intercept);
            YesNoAnswer { answer, is_yes }
        })
        .collect()
}

#[test]
fn platt_recovers_the_curve_that_made_the_labels() {
    let labels = labels(&mut Draws::new(1), 20_000, 0.5, -0.7);
    let Calibrator::Platt { slope, intercept } = platt::fit(&labels) else { panic!("another method") };
    assert!((slope - 0.5).abs() < 0.03 && (intercept + 0.7).abs() < 0.05, "{slope} {intercept}");
}

#[test]
fn a_calibration_improves_answers_that_are_too_sure() {
    for count in [999, 1_000, 3_000] {
        let labels = labels(&mut Draws::new(2), count, 0.4, -0.5);
        let fitted = fit_yes_no(&labels).unwrap();
        let method = if count < 1_000 { CalibrationMethod::Platt } else { CalibrationMethod::Isotonic };
        assert_eq!(fitted.calibrator.method(), method, "{count}");
        let (before, after) = (fitted.before, fitted.after);
        assert!(after.brier.value < before.brier.value - 0.01, "{count}: {before:?} {after:?}");
        assert!(after.calibration_error.value < before.calibration_error.value / 2.0, "{before:?} {after:?}");
        assert_eq!(fit_yes_no(&labels), Some(fitted), "folds are drawn with a fixed seed");
    }
}

#[test]
fn too_few_labels_give_none() {
    let with_yes = |yes: usize, count: usize| {
        let label = |index: usize| YesNoAnswer { answer: 0.5, is_yes: index < yes };
        fit_yes_no(&(0..count).map(label).collect::<Vec<_>>()).is_some()
    };
    assert!(!with_yes(20, 49) && with_yes(20, 50));
    assert!(!with_yes(9, 50) && with_yes(10, 50));
    assert!(!with_yes(41, 50) && with_yes(40, 50));
    let class = ClassAnswer { truth: 0, answered: 0, probabilities: vec![(0, 0.9), (1, 0.1)] };
    assert!(fit_classes(&vec![class.clone(); 49]).is_none() && fit_classes(&vec![class; 50]).is_some());
}

#[test]
fn answers_that_point_the_wrong_way_become_flat() {
    let backwards: Vec<YesNoAnswer> =
        (0..100_u32).map(|n| YesNoAnswer { answer: f64::from(n) / 100.0, is_yes: n < 40 }).collect();
    for calibrator in [platt::fit(&backwards), isotonic::fit(&backwards)] {
        let (low, high) = (calibrator.probability(0.01), calibrator.probability(0.99));
        assert!((low - high).abs() < 1e-9 && (low - 0.4).abs() < 0.02, "{calibrator:?}: {low} {high}");
    }
}

#[test]
fn isotonic_pools_neighbours_that_are_out_of_order() {
    let answers = [(0.1, false), (0.2, true), (0.3, false), (0.4, true), (0.5, true)];
    let labels: Vec<YesNoAnswer> =
        answers.iter().map(|(answer, is_yes)| YesNoAnswer { answer: *answer, is_yes: *is_yes }).collect();
    let margin = stored(1.0 / 7.0);
    let points =
        vec![(0.1, margin), (0.2, 0.5), (0.3, 0.5), (0.4, stored(6.0 / 7.0)), (0.5, stored(6.0 / 7.0))];
    assert_eq!(isotonic::fit(&labels), Calibrator::Isotonic { points });
}

#[test]
fn temperature_recovers_the_exponent_that_made_the_labels() {
    let mut draws = Draws::new(4);
    let labels: Vec<ClassAnswer> = (0..20_000)
        .map(|_| {
            let raw: Vec<f64> = (0..4).map(|_| draws.fraction() + 0.01).collect();
            let total: f64 = raw.iter().sum();
            let raw: Vec<f64> = raw.iter().map(|weight| weight / total).collect();
            let true_shares = temperature::apply(2.5, &raw);
            let mut draw = draws.fraction();
            let truth = true_shares.iter().position(|share| {
                draw -= share;
                draw < 0.0
            });
            let probabilities = raw.into_iter().enumerate().collect();
            ClassAnswer { truth: truth.unwrap_or(3), answered: 0, probabilities }
        })
        .collect();
    let Calibrator::Temperature { temperature } = temperature::fit(&labels) else { panic!("another method") };
    assert!((temperature - 2.5).abs() < 0.25, "{temperature}");
    let fitted = fit_classes(&labels[..2_000]).unwrap();
    assert!(fitted.after.brier.value < fitted.before.brier.value);
}

#[test]
fn an_answer_is_calibrated_as_a_whole() {
    let question = |kind, criteria| Question::parse("key", kind, "\"Which?\"", criteria).unwrap();
    let answer = |question: &Question, weights: &[f64]| {
        Answer::new(question, &Distribution::from_weights(weights).unwrap()).unwrap().value
    };
    let flat = Calibrator::Temperature { temperature: 2.0 };
    let score = question(SignalType::Score, Some(r#"["low", "middle", "high"]"#));
    let raw = answer(&score, &[0.04, 0.0, 0.96]);
    let calibrated = flat.calibrate(&score, &raw).unwrap();
    assert!(calibrated.score.unwrap() < raw.score.unwrap() && calibrated.confidence < raw.confidence);
    assert!(calibrated.probabilities.unwrap().values().all(|share| *share > 0.0 && *share < 1.0));
    let choice = question(SignalType::Choice, Some(r#"{"b": null, "a": null}"#));
    assert_eq!(flat.calibrate(&choice, &answer(&choice, &[0.2, 0.8])).unwrap().choice.as_deref(), Some("a"));
    let noul = question(SignalType::Noul, None);
    let raw = answer(&noul, &[1.0, 0.0]);
    assert_eq!(flat.calibrate(&noul, &raw), None, "a temperature is for choices and scores");
    let platt = Calibrator::Platt { slope: 10.0, intercept: 500.0 };
    assert_eq!(platt.calibrate(&noul, &raw).unwrap().noul, Some(0.999_998));
    assert_eq!(platt.calibrate(&score, &answer(&score, &[1.0, 1.0, 1.0])), None);
}

fn hostile() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0_f64..=1.0,
        1 => prop::sample::select(vec![0.0, 1.0, 1e-300, 1.0 - f64::EPSILON, f64::NAN, f64::INFINITY, -1.0, 7.0]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_labels_give_a_monotone_map_that_is_never_0_or_1(
        labels in prop::collection::vec((hostile(), any::<bool>()), 1..120),
        mut probes in prop::collection::vec(0.0_f64..=1.0, 2..40),
    ) {
        let labels: Vec<YesNoAnswer> =
            labels.iter().map(|(answer, is_yes)| YesNoAnswer { answer: *answer, is_yes: *is_yes }).collect();
        probes.extend([0.0, 1.0]);
        probes.sort_by(f64::total_cmp);
        for calibrator in [platt::fit(&labels), isotonic::fit(&labels)] {
            let mapped: Vec<f64> = probes.iter().map(|probe| calibrator.probability(*probe)).collect();
            prop_assert!(mapped.iter().all(|p| *p > 0.0 && *p < 1.0), "{calibrator:?} {mapped:?}");
            prop_assert!(mapped.windows(2).all(|pair| pair[0] <= pair[1]), "{calibrator:?} {mapped:?}");
            let text = serde_json::to_string(&calibrator).unwrap();
            prop_assert_eq!(serde_json::from_str::<Calibrator>(&text).unwrap(), calibrator, "as it is stored");
        }
    }

    #[test]
    fn any_labels_give_a_temperature_that_keeps_the_order(
        shares in prop::collection::vec(prop::collection::vec(hostile(), 3), 1..60),
        truths in prop::collection::vec(0_usize..4, 60),
        raw in prop::collection::vec(0.0_f64..=1.0, 2..=26),
    ) {
        let labels: Vec<ClassAnswer> = shares
            .iter()
            .zip(&truths)
            .map(|(shares, truth)| ClassAnswer {
                truth: *truth,
                answered: 0,
                probabilities: shares.iter().copied().enumerate().collect(),
            })
            .collect();
        let calibrator = temperature::fit(&labels);
        let mapped = calibrator.probabilities(&raw);
        prop_assert!(mapped.iter().all(|p| *p > 0.0 && *p < 1.0), "{calibrator:?} {mapped:?}");
        prop_assert!((mapped.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let pairs: Vec<(f64, f64)> = raw.iter().copied().zip(mapped.iter().copied()).collect();
        for pair in pairs.windows(2) {
            let ((raw_a, a), (raw_b, b)) = (pair[0], pair[1]);
            prop_assert!(raw_a >= raw_b || a <= b, "{calibrator:?} {raw:?} {mapped:?}");
        }
    }
}
