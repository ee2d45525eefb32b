//! The model answers as the framework that it was trained with, whatever else is asked, and about the texts that it is for.

use std::path::Path;

use model::{Dossier, DossierEvent};

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

/// Whether it is a scammer, how far to trust it, how close to buying it is.
fn default_signals() -> [Question; 3] {
    let text =
        std::fs::read_to_string(Path::new(FIXTURES).join("../../crates/service/src/default_signals.json"))
            .unwrap();
    let signals: Value = serde_json::from_str(&text).unwrap();
    ["is_scammer", "trust_score", "buyer_intent"].map(|key| {
        let signal = &signals[key];
        question(
            signal["type"].as_str().unwrap().parse().unwrap(),
            &signal["instructions"],
            &signal["criteria"],
        )
    })
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
    assert_parity(25);
}

#[test]
#[ignore = "takes minutes: the 500 of which the test above takes a few"]
fn all_answers_are_those_of_the_training_framework() {
    assert_parity(1);
}

/// Every so-manieth of the examples comes out as it did there, as calibrated: what a caller sees.
fn assert_parity(every: usize) {
    let judge = judge();
    let rows = fixtures("parity.jsonl");
    assert_eq!(rows.len(), 500);
    let mut furthest = Vec::new();
    for row in rows.iter().step_by(every) {
        let question =
            question(row["type"].as_str().unwrap().parse().unwrap(), &row["ask"], &row["criteria"]);
        let chunks = reading::chunks(&judge.words, row["state"].as_str().unwrap());
        let logits = judge.network.logits(&chunks, &reading::options(&judge.words, &question));
        let ours: Vec<f64> = logits.into_iter().map(f64::from).collect();
        let theirs: Vec<f64> =
            row["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap()).collect();
        let calibration = judge.calibration(question.kind);
        let [ours, theirs] = [ours, theirs].map(|logits| calibration.distribution(&logits).unwrap());
        let apart = ours.probabilities().iter().zip(theirs.probabilities()).map(|(a, b)| (a - b).abs());
        furthest.push(apart.fold(0.0, f64::max));
    }
    furthest.sort_by(f64::total_cmp);
    let (median, worst) = (furthest[furthest.len() / 2], furthest[furthest.len() - 1]);
    println!("{median:.5} apart at the median, {worst:.5} at most, of {}", furthest.len());
    assert!(median < 1e-4 && worst < 1e-3, "{median} at the median, {worst} at most");
}

#[test]
fn dossiers_read_as_they_did_in_training() {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let event = |event: &Value| DossierEvent {
        seq: 0,
        kind: serde_json::from_value(event["type"].clone()).unwrap(),
        name: text(&event["name"]),
        content: text(&event["content"]),
        metadata: event.get("metadata").map(Value::to_string),
        occurred_at: event["at"].as_str().unwrap().parse().unwrap(),
        received_at: event["at"].as_str().unwrap().parse().unwrap(),
    };
    let rows = fixtures("dossiers.jsonl");
    assert!(rows.len() >= 20);
    for row in rows {
        let dossier = Dossier {
            object_type: text(&row["object_type"]).unwrap(),
            display_name: text(&row["called"]),
            summary: None,
            recent: row["events"].as_array().unwrap().iter().map(event).collect(),
        };
        assert_eq!(dossier.render(), row["text"].as_str().unwrap());
    }
}

#[test]
fn the_scammer_is_flagged_and_the_honest_seller_is_not() {
    let scammer = "Object of type user.\nEvents, oldest first:\n\
        2026-03-02T09:15:00.000000Z event account_created {\"country\":\"BE\"}\n\
        2026-03-02T09:30:00.000000Z event listing_created {\"title\":\"iPhone 15 Pro, new\",\"price\":\"250 EUR\"}\n\
        2026-03-02T09:41:00.000000Z message I only take gift cards or crypto. Pay today, others are waiting. Write me on Telegram, not here.\n\
        2026-03-03T10:00:00.000000Z event user_reported {\"reason\":\"paid, nothing arrived\",\"reporters\":3}\n";
    let honest = "Object of type user.\nEvents, oldest first:\n\
        2025-03-02T09:15:00.000000Z event account_created {\"country\":\"BE\"}\n\
        2025-03-05T10:00:00.000000Z event identity_verified {}\n\
        2025-04-02T09:30:00.000000Z event sale_completed {\"rating\":5}\n\
        2025-06-02T09:30:00.000000Z event sale_completed {\"rating\":5}\n\
        2025-06-09T09:41:00.000000Z message Posted it this morning, tracking is in the order. Pay through the site as usual.\n\
        2025-06-12T09:30:00.000000Z event review_received {\"stars\":5,\"text\":\"exactly as described\"}\n";
    let [scam, trust, _] = default_signals();
    let (flagged, passed) = (shares(scammer, &scam)[0], shares(honest, &scam)[0]);
    assert!(flagged > 0.55 && passed < 0.35, "{flagged} and {passed}");
    let level = |state| {
        shares(state, &trust).iter().zip(0..).map(|(share, level)| share * f64::from(level)).sum::<f64>()
    };
    assert!(level(honest) > level(scammer) + 0.3, "{} and {}", level(honest), level(scammer));
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
    let levels: Vec<String> = (0..3).map(|level| format!("{level} {}", "very ".repeat(200))).collect();
    let many = question(SignalType::Score, &serde_json::json!("How?"), &serde_json::json!(levels));
    for state in ["", "\n", "\u{0}", &"x".repeat(40_000), &"é \n".repeat(500)] {
        let findings = judge().findings(state, &[nothing.clone(), long.clone(), many.clone()]);
        assert!(findings.answers.iter().all(Result::is_ok), "{state:.60}");
    }
    assert_eq!(reading::options(&judge().words, &long)[0].len(), 256 + 2, "a long question is cut");
    assert_eq!(reading::options(&judge().words, &many)[0].len(), 4 + 128, "and so is a long option");
}

#[test]
fn of_a_long_history_the_heading_and_the_newest_are_read() {
    let line = "2026-01-01T00:00:01.000000Z message the word is";
    let events: Vec<String> =
        (0..2000).map(|number| format!("{line} {}", if number < 1000 { "old" } else { "new" })).collect();
    let state = format!("Object of type user.\nEvents, oldest first:\n{}\n", events.join("\n"));
    let words = &judge().words;
    let chunks = reading::chunks(words, &state);
    assert!(chunks.iter().all(|chunk| (3..=480).contains(&chunk.len())));
    let tokens = chunks.concat();
    assert!((4000..4096 + 2 * chunks.len()).contains(&tokens.len()), "{}", tokens.len());
    let heading = words.tokens("Object of type user.");
    assert_eq!(tokens[1..=heading.len()], heading);
    assert!(!tokens.contains(&words.tokens("old")[0]) && tokens.contains(&words.tokens("new")[0]));
    let short = words.tokens("2026-01-01 00:00 message the word is new");
    assert_eq!(tokens[tokens.len() - 1 - short.len()..tokens.len() - 1], short, "seconds are left out");
}

/// Prints what an inquiry costs: `cargo test --release -p auspex-analyzer cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn cost() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let started = std::time::Instant::now();
    let judge = judge();
    println!("loaded in {:?}", started.elapsed());
    let long = default_signals();
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
    for lines in [2, 10, 150] {
        let state = format!("Object of type user.\nEvents, oldest first:\n{}", line.repeat(lines));
        for questions in [&short[..], &long] {
            let tokens = reading::chunks(&judge.words, &state).concat().len();
            let tries = if tokens > 1000 { 1 } else { 9 };
            // The best of several: what others do on the machine only adds.
            let tried = (0..tries).map(|_| {
                let started = std::time::Instant::now();
                let findings = pool.install(|| judge.findings(&state, questions));
                (started.elapsed(), findings.input_tokens)
            });
            let (best, all) = tried.min().unwrap();
            println!("{tokens} of {all} tokens are state: {best:?} on one core");
        }
    }
}

#[tokio::test]
async fn answers_under_its_name() {
    let embedded = Embedded::new().unwrap();
    let questions = [question(SignalType::Noul, &serde_json::json!("Is it?"), &Value::Null)];
    let findings =
        embedded.analyze(Inquiry { is_urgent: false, state: "It is.", questions: &questions }).await.unwrap();
    assert_eq!((findings.model.as_str(), embedded.model()), ("auspex-1.0", "auspex-1.0"));
    assert!(findings.input_tokens > 4 && findings.output_tokens == 0);
    assert!(
        embedded
            .analyze(Inquiry { is_urgent: false, state: "", questions: &[] })
            .await
            .unwrap()
            .answers
            .is_empty()
    );
}
