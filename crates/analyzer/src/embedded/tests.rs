//! The model answers as the framework that it was trained with, whatever else is asked, and about the texts that it is for.

use std::path::Path;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/fixtures");

fn fixtures(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn judge() -> &'static Judge {
    static JUDGE: OnceLock<Judge> = OnceLock::new();
    JUDGE.get_or_init(|| Judge::load().unwrap())
}

fn question(kind: SignalType, instructions: &Value, criteria: &Value) -> Question {
    let criteria = (!criteria.is_null()).then(|| criteria.to_string());
    Question::parse("key", kind, &instructions.to_string(), criteria.as_deref()).unwrap()
}

fn shares(state: &str, question: &Question) -> Vec<f64> {
    let findings = judge().findings(state, std::slice::from_ref(question));
    findings.answers[0].as_ref().unwrap().probabilities().to_vec()
}

#[test]
fn words_become_the_tokens_that_the_model_was_taught() {
    let words = WordPiece::new();
    let rows = fixtures("tokens.jsonl");
    assert!(rows.len() > 500);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        assert_eq!(serde_json::json!(words.tokens(text)), row["tokens"], "{text:?}");
    }
}

#[test]
fn answers_are_those_of_the_training_framework() {
    let judge = judge();
    let one = Calibration { temperature: 1.0, bias: 0.0 };
    let mut furthest = Vec::new();
    for row in fixtures("parity.jsonl") {
        let question =
            question(row["type"].as_str().unwrap().parse().unwrap(), &row["ask"], &row["criteria"]);
        let chunks = reading::chunks(&judge.words, row["state"].as_str().unwrap());
        let logits = judge.network.logits(&chunks, &reading::options(&judge.words, &question));
        let ours: Vec<f64> = logits.into_iter().map(f64::from).collect();
        let theirs: Vec<f64> =
            row["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap()).collect();
        let (ours, theirs) = (one.distribution(&ours).unwrap(), one.distribution(&theirs).unwrap());
        let apart = ours.probabilities().iter().zip(theirs.probabilities()).map(|(a, b)| (a - b).abs());
        furthest.push(apart.fold(0.0, f64::max));
    }
    let worst = furthest.iter().copied().fold(0.0, f64::max);
    assert!(worst < 1e-2, "{worst} of {furthest:?}");
}

#[test]
fn an_answer_depends_on_nothing_but_its_question_and_the_state() {
    let state = "Object of type user.\nEvents, oldest first:\n\
        2026-01-01T00:00:01.000000Z message I was charged twice, please refund me.\n";
    let route =
        |criteria| question(SignalType::Choice, &serde_json::json!("Which team should answer?"), &criteria);
    let one = route(serde_json::json!({"billing": "charges and refunds", "shipping": "parcels"}));
    let other = route(serde_json::json!({"shipping": "parcels", "billing": "charges and refunds"}));
    let noul = question(SignalType::Noul, &serde_json::json!("Is the user content?"), &Value::Null);
    let mut turned = shares(state, &other);
    turned.reverse();
    let alone = shares(state, &one);
    assert_eq!(alone, turned);
    let together = judge().findings(state, &[noul, one]);
    assert_eq!(together.answers[1].as_ref().unwrap().probabilities(), alone);
    assert!(alone[0] > 0.5, "{alone:?}");
}

#[test]
fn anything_can_be_read() {
    let nothing = question(SignalType::Noul, &serde_json::json!("?"), &Value::Null);
    let long = question(SignalType::Noul, &serde_json::json!("why ".repeat(3000)), &Value::Null);
    let levels: Vec<String> = (0..9).map(|level| format!("{level} {}", "very ".repeat(200))).collect();
    let many = question(SignalType::Score, &serde_json::json!("How?"), &serde_json::json!(levels));
    let event = "2026-01-01T00:00:01.000000Z event seen {\"a\":1} ".to_owned();
    for state in ["", "\n", "\u{0}", &"x".repeat(40_000), &format!("{event}{}\n", "é ".repeat(700)).repeat(8)]
    {
        let findings = judge().findings(state, &[nothing.clone(), long.clone(), many.clone()]);
        assert!(findings.answers.iter().all(Result::is_ok), "{state:.60}");
        let least = u64::try_from(reading::chunks(&judge().words, state).concat().len()).unwrap();
        assert!(findings.input_tokens > least);
    }
}

/// Prints what an inquiry costs: `cargo test --release -p auspex-analyzer cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn cost() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let started = std::time::Instant::now();
    let judge = judge();
    println!("loaded in {:?}", started.elapsed());
    let defaults: Value = serde_json::from_str(
        &std::fs::read_to_string(Path::new(FIXTURES).join("../default_signals.json")).unwrap(),
    )
    .unwrap();
    let long: Vec<Question> = defaults
        .as_object()
        .unwrap()
        .values()
        .map(|signal| {
            question(signal["type"].as_str().unwrap().parse().unwrap(), &signal["ask"], &signal["criteria"])
        })
        .collect();
    let short = [
        question(SignalType::Noul, &serde_json::json!("Is the user about to leave?"), &Value::Null),
        question(
            SignalType::Choice,
            &serde_json::json!("Which team should answer?"),
            &serde_json::json!({"billing": "charges, refunds", "shipping": "parcels", "other": null}),
        ),
        question(
            SignalType::Score,
            &serde_json::json!("How angry are they?"),
            &serde_json::json!(["calm", "annoyed", "furious"]),
        ),
    ];
    let line = "2026-01-01T00:00:01.000000Z message I was charged twice and nobody answers, please refund me today.\n";
    for lines in [2, 11, 200] {
        let state = format!("Object of type user.\nEvents, oldest first:\n{}", line.repeat(lines));
        for questions in [&short[..], &long] {
            let started = std::time::Instant::now();
            let findings = pool.install(|| judge.findings(&state, questions));
            let tokens = reading::chunks(&judge.words, &state).concat().len();
            println!(
                "{tokens} of {} tokens are state: {:?} on one core",
                findings.input_tokens,
                started.elapsed()
            );
        }
    }
}

#[tokio::test]
async fn answers_under_its_name() {
    let embedded = Embedded::new().unwrap();
    let questions = [question(SignalType::Noul, &serde_json::json!("Is it?"), &Value::Null)];
    let findings = embedded.analyze(Inquiry { state: "It is.", questions: &questions }).await.unwrap();
    assert_eq!((findings.model.as_str(), embedded.model()), ("auspex-1.0", "auspex-1.0"));
    assert!(findings.input_tokens > 4 && findings.output_tokens == 0);
    assert!(embedded.analyze(Inquiry { state: "", questions: &[] }).await.unwrap().answers.is_empty());
}
