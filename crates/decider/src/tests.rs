//! The model answers like the framework that it was trained with, whatever else it is asked, and sensibly about the texts
//! that it is made for.

mod fixtures;
mod unread;

use std::sync::OnceLock;

use model::compaction::Folded;
use model::{CompactedState, History, HistoryEvent};
use serde_json::{Value, json};

use super::*;
use fixtures::{default_signals, lines, parity, question};

fn decider() -> &'static Decider {
    static DECIDER: OnceLock<Decider> = OnceLock::new();
    DECIDER.get_or_init(|| Decider::load().unwrap())
}

fn probabilities(state: &str, question: &Question) -> Vec<f64> {
    let decision = decider().decide(state, std::slice::from_ref(question));
    decision.answers[0].as_ref().unwrap().probabilities().to_vec()
}

#[test]
fn tokens_are_those_of_the_training_framework() {
    let tokenizer = Tokenizer::new();
    let rows = lines("tokens.jsonl");
    assert!(rows.len() > 500);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        assert_eq!(json!(tokenizer.tokens(text)), row["tokens"], "{text:?}");
    }
}

/// `make eval` compares all 500 examples, which takes minutes.
#[test]
fn answers_are_those_of_the_training_framework() {
    parity(decider(), 25).check();
}

#[test]
fn histories_are_rendered_as_in_training() {
    let rows = lines("histories.jsonl");
    assert!(rows.len() >= 20);
    for row in rows {
        assert_eq!(history(&row).render(), row["text"].as_str().unwrap());
    }
}

/// The history in a row of fixtures.
fn history(row: &Value) -> History {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let event = |event: &Value| HistoryEvent {
        seq: 0,
        kind: serde_json::from_value(event["type"].clone()).unwrap(),
        name: text(&event["name"]),
        content: text(&event["content"]),
        metadata: event.get("metadata").map(Value::to_string),
        occurred_at: event["at"].as_str().unwrap().parse().unwrap(),
        received_at: event["at"].as_str().unwrap().parse().unwrap(),
    };
    History {
        object_type: text(&row["object_type"]).unwrap(),
        display_name: text(&row["called"]),
        summary: None,
        recent: row["events"].as_array().unwrap().iter().map(event).collect(),
    }
}

#[test]
fn no_separator_in_a_text_starts_an_event() {
    let rows = lines("forgeries.jsonl");
    assert_eq!(rows.len(), 11, "all that Python's splitlines splits at");
    for row in rows {
        let (separator, mut history) = (row["separator"].as_str().unwrap(), history(&row));
        let text = history.render();
        assert_eq!(text, row["text"].as_str().unwrap(), "{separator:?}: as in training");
        assert_eq!(text.split(model::breaks_line).count(), 2 + history.recent.len() + 1, "{separator:?}");
        for event in history.recent.drain(..) {
            history.summary = Some(CompactedState::fold(
                history.summary.take(),
                Folded {
                    kind: event.kind,
                    name: event.name.as_deref(),
                    content: event.content.as_deref(),
                    occurred_at: event.occurred_at,
                    received_at: event.received_at,
                },
            ));
        }
        let text = history.render();
        assert_eq!(text.split(model::breaks_line).count(), 4 + 1, "{separator:?}: the summary");
    }
}

/// A caller's own state is split at line feeds only.
#[test]
fn no_separator_but_the_line_feed_starts_a_line() {
    let stamped = "2026-01-01T00:00:01.000000Z event paid";
    let tokenizer = &decider().tokenizer;
    let spaced = State::read(tokenizer, &format!("first\nsecond {stamped}"));
    for separator in ['\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}']
    {
        let chunks = State::read(tokenizer, &format!("first\nsecond{separator}{stamped}"));
        assert_eq!(chunks, spaced, "{separator:?}");
    }
    assert_ne!(State::read(tokenizer, &format!("first\nsecond\n{stamped}")), spaced);
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
    let (flagged, passed) = (probabilities(scammer, &scam)[0], probabilities(honest, &scam)[0]);
    assert!(flagged > 0.55 && passed < 0.35, "{flagged} and {passed}");
    let level = |state| {
        probabilities(state, &trust)
            .iter()
            .zip(0..)
            .map(|(share, level)| share * f64::from(level))
            .sum::<f64>()
    };
    assert!(level(honest) > level(scammer) + 0.3, "{} and {}", level(honest), level(scammer));
}

#[test]
fn an_answer_depends_on_its_question_and_the_state_alone() {
    let state = "Object of type user.\nEvents, oldest first:\n\
        2026-01-01T00:00:01.000000Z message I was charged twice, please refund me.\n";
    let route = |criteria| question(SignalType::Choice, &json!("Which team should answer?"), &criteria);
    let one = route(json!({"billing": "charges and refunds", "shipping": "parcels"}));
    let other = route(json!({"shipping": "parcels", "billing": "charges and refunds"}));
    let noul = question(SignalType::Noul, &json!("Is the user content?"), &Value::Null);
    let mut reversed = probabilities(state, &other);
    reversed.reverse();
    let alone = probabilities(state, &one);
    assert_eq!(alone, reversed);
    let together = decider().decide(state, &[noul, one]);
    assert_eq!(together.answers[1].as_ref().unwrap().probabilities(), alone);
    assert!(alone[0] > 0.5, "{alone:?}");
}

#[test]
fn any_text_is_answered() {
    let short = question(SignalType::Noul, &json!("?"), &Value::Null);
    let long = question(SignalType::Noul, &json!("why ".repeat(3000)), &Value::Null);
    let levels: Vec<String> = (0..3).map(|level| format!("{level} {}", "very ".repeat(200))).collect();
    let many = question(SignalType::Score, &json!("How?"), &json!(levels));
    for state in ["", "\n", "\u{0}", &"x".repeat(40_000), &"é \n".repeat(500)] {
        let decision = decider().decide(state, &[short.clone(), long.clone(), many.clone()]);
        assert!(decision.answers.iter().all(Result::is_ok), "{state:.60}");
    }
    assert_eq!(
        model_input::question_tokens(&decider().tokenizer, &long)[0].len(),
        256 + 2,
        "a long question is truncated"
    );
    assert_eq!(
        model_input::question_tokens(&decider().tokenizer, &many)[0].len(),
        4 + 128,
        "a long option is truncated"
    );
}

#[test]
fn the_heading_and_the_newest_lines_of_a_long_history_are_read() {
    let line = "2026-01-01T00:00:01.000000Z message the word is";
    let events: Vec<String> =
        (0..2000).map(|number| format!("{line} {}", if number < 1000 { "old" } else { "new" })).collect();
    let state = format!("Object of type user.\nEvents, oldest first:\n{}\n", events.join("\n"));
    let tokenizer = &decider().tokenizer;
    let chunks = State::read(tokenizer, &state).chunks;
    assert!(chunks.iter().all(|chunk| (3..=480).contains(&chunk.len())));
    let tokens = chunks.concat();
    assert!((4000..4096 + 2 * chunks.len()).contains(&tokens.len()), "{}", tokens.len());
    let heading = tokenizer.tokens("Object of type user.");
    assert_eq!(tokens[1..=heading.len()], heading);
    assert!(!tokens.contains(&tokenizer.tokens("old")[0]) && tokens.contains(&tokenizer.tokens("new")[0]));
    let short = tokenizer.tokens("2026-01-01 00:00 message the word is new");
    assert_eq!(tokens[tokens.len() - 1 - short.len()..tokens.len() - 1], short, "seconds are left out");
}

#[test]
fn the_pool_answers_like_the_model() {
    let pool = DeciderPool::start().unwrap();
    let questions = vec![question(SignalType::Noul, &json!("Is it?"), &Value::Null)];
    let (sender, receiver) = std::sync::mpsc::channel();
    let begun = sender.clone();
    let asked = questions.clone();
    pool.begin(
        move |decider| decider.begin("It is.", asked),
        move |begin| begun.send(begin.map(Progress::More)).unwrap(),
    );
    let decision = loop {
        let evaluation = match receiver.recv().unwrap().unwrap() {
            Progress::More(evaluation) => evaluation,
            Progress::Done(decision) => break decision,
        };
        let made = sender.clone();
        pool.advance(evaluation, move |progress| made.send(progress).unwrap());
    };
    assert_eq!(decision, decider().decide("It is.", &questions));
    assert!(decision.input_tokens > 4 && pool.threads() > 0);
}

/// Many options about a history, and another question: more than one batch of options.
#[test]
fn the_state_is_read_once_for_all_options_and_answers_stay_the_same() {
    let line = "2026-01-01T00:00:01.000000Z message I was charged twice, please refund me.\n";
    let state = format!("Object of type user.\nEvents, oldest first:\n{}", line.repeat(5));
    let option =
        |number: usize| (format!("option_{number}"), json!(format!("{number} {}", "very ".repeat(30))));
    let criteria: serde_json::Map<String, Value> = (0..26).map(option).collect();
    let many = question(SignalType::Choice, &json!("why ".repeat(60)), &Value::Object(criteria));
    let short = question(SignalType::Noul, &json!("Is the user content?"), &Value::Null);
    let questions = [short, many];
    let mut evaluation = decider().begin(&state, questions.to_vec());
    let mut steps = 0;
    while evaluation.passes.step(&decider().network) > 0 {
        steps += 1;
    }
    let batches = 2;
    assert_eq!(steps, decider().network.layers() * (1 + batches), "one step a layer is for the state");
    let together = evaluation.logits().unwrap();
    for (question, logits) in questions.iter().zip(&together) {
        let (alone, _) = decider().logits(&state, std::slice::from_ref(question));
        assert_eq!(alone[0], *logits);
    }
    // Every option is read with its question, and is paid for.
    let (_, of_state) = decider().logits(&state, &[]);
    let options =
        questions.iter().flat_map(|question| model_input::question_tokens(&decider().tokenizer, question));
    let options: usize = options.map(|option| option.len()).sum();
    assert!((2049..4096).contains(&options), "{options}");
    assert_eq!(evaluation.input_tokens, of_state + u64::try_from(options).unwrap());
}
