//! What an answer would be if a part of the history were not read.

use std::fmt::Write as _;
use std::ops::Range;

use model::SignalType;
use serde_json::{Value, json};

use super::fixtures::{default_signals, question};
use super::{decider, probabilities};
use crate::{Evaluation, Progress};

/// What people say to each other on a marketplace on a good day.
const HARMLESS: [&str; 20] = [
    "message Hello, is the lamp still there?",
    "message Yes, it is. You can come and look at it on Saturday.",
    "event listing_viewed {\"count\":12}",
    "message What size is the shade?",
    "message Forty centimetres, and the bulb is included.",
    "event listing_updated {\"field\":\"photos\"}",
    "message Could you send it by post?",
    "message Of course, the parcel costs six euros.",
    "event offer_made {\"amount\":35}",
    "event offer_accepted {\"amount\":35}",
    "message Great, I have paid through the site.",
    "event payment_received {\"amount\":41}",
    "message Thank you, I shall pack it tonight.",
    "event parcel_sent {\"carrier\":\"post\"}",
    "message Here is the tracking number, have a nice evening.",
    "event parcel_delivered {}",
    "message It arrived and looks lovely, thank you.",
    "message Glad to hear that.",
    "event review_received {\"stars\":5}",
    "event listing_closed {}",
];

/// A history, and the lines of its events.
fn story(events: &[String]) -> (String, Vec<Range<usize>>) {
    let mut state = "Object of type user.\nEvents, oldest first:\n".to_owned();
    let mut lines = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let start = state.len();
        write!(state, "2026-03-{:02}T09:15:00.000000Z {event}", number + 1).unwrap();
        lines.push(start..state.len());
        state.push('\n');
    }
    (state, lines)
}

fn harmless() -> Vec<String> {
    HARMLESS.map(str::to_owned).to_vec()
}

fn answers(mut evaluation: Evaluation) -> Vec<Vec<f64>> {
    loop {
        match decider().advance(evaluation) {
            Progress::More(more) => evaluation = more,
            Progress::Done(decision) => {
                let answers = decision.answers.into_iter();
                return answers.map(|answer| answer.unwrap().probabilities().to_vec()).collect();
            }
        }
    }
}

/// The cost of an evaluation in tokens that one layer reads, and the number of steps.
fn cost(mut evaluation: Evaluation) -> (usize, usize) {
    let (mut sum, mut steps) = (0, 0);
    loop {
        let cost = evaluation.passes.step(&decider().network);
        if cost == 0 {
            return (sum, steps);
        }
        (sum, steps) = (sum + cost, steps + 1);
    }
}

#[test]
fn the_whole_is_answered_as_ever_and_only_what_is_hidden_makes_a_difference() {
    let (state, lines) = story(&harmless());
    let [scam, trust, intent] = default_signals();
    for question in [scam, trust, intent] {
        let nothing = state.len()..state.len() + 5;
        let parts = [lines[3].clone(), nothing, lines[11].clone()];
        let found = answers(decider().begin_unread(&state, &question, &parts));
        assert_eq!(found.len(), 4);
        assert_eq!(found[0], probabilities(&state, &question), "the whole");
        assert_eq!(found[2], found[0], "a part that nobody reads");
        assert!(found[1] != found[0] && found[3] != found[0], "a part that is read");
    }
}

#[test]
fn a_part_is_all_lines_that_start_in_it_and_a_long_line_is_hidden_whole() {
    let mut events = harmless();
    events[4] = format!("message {}", "very long ".repeat(600));
    let (state, lines) = story(&events);
    let question = question(SignalType::Noul, &json!("Is the buyer content?"), &Value::Null);
    let read = crate::State::read(&decider().tokenizer, &state);
    let rows = read.rows_of(&lines[4]);
    assert!(rows.len() > 1, "it is in several chunks");
    let tokens: usize = rows.iter().map(Range::len).sum();
    assert!(tokens > 1_200, "{tokens}");
    let two = lines[2].start..lines[3].end;
    assert_eq!(read.rows_of(&two).len(), 2);
    let both = answers(decider().begin_unread(&state, &question, &[two, lines[4].clone()]));
    assert!(both[1] != both[0] && both[2] != both[0]);
}

/// Twenty events and a short question: the state is read once, and all of it costs at most three verdicts.
#[test]
fn the_state_is_read_once_for_all_parts() {
    let (state, lines) = story(&harmless());
    let question = question(SignalType::Noul, &json!("Is this user a scammer?"), &Value::Null);
    let (verdict, _) = cost(decider().begin(&state, vec![question.clone()]));
    let evaluation = decider().begin_unread(&state, &question, &lines);
    let of_state = crate::State::read(&decider().tokenizer, &state).row_count();
    let of_question: usize =
        crate::model_input::question_tokens(&decider().tokenizer, &question).iter().map(Vec::len).sum();
    assert_eq!(evaluation.input_tokens(), u64::try_from(of_state + 21 * of_question).unwrap());
    let (explanation, steps) = cost(evaluation);
    assert_eq!(steps, decider().network.layers() * 2, "one step a layer is for the state");
    assert!(explanation <= 3 * verdict, "{explanation} and {verdict}");
}

#[test]
fn what_a_long_question_may_cost_is_bounded() {
    let long: Vec<String> = (0..180).map(|number| format!("message I said it {number} times")).collect();
    let (state, lines) = story(&long);
    let option = |number: usize| (format!("option_{number}"), json!("very ".repeat(100)));
    let criteria = Value::Object((0..26).map(option).collect());
    let costly = question(SignalType::Choice, &json!("why ".repeat(200)), &criteria);
    assert_eq!(decider().begin_unread(&state, &costly, &lines).questions.len(), 1 + crate::MIN_UNREAD_PARTS);
    let short = question(SignalType::Noul, &json!("Is it?"), &Value::Null);
    let tried = decider().begin_unread(&state, &short, &lines);
    assert!((1 + 30..1 + 180).contains(&tried.questions.len()), "{}", tried.questions.len());
    let (all, _) = cost(tried);
    let (verdict, _) = cost(decider().begin(&state, vec![short]));
    assert!(all <= crate::UNREAD_COST + verdict, "{all} and {verdict}");
}

#[test]
fn a_planted_sentence_moves_the_answer_most() {
    let planted = [
        (
            "Is this user a scammer?",
            "message Do not pay on the site. Send gift cards to me instead, and hurry.",
        ),
        ("Does the user threaten somebody?", "message I know where you live and I will hurt you."),
        ("Is the user angry?", "message This is an outrage, you useless thieves, I am furious!"),
        ("Does the user want a refund?", "message I want all of my money back at once."),
        ("Does the user ask to talk on another platform?", "message Write to me on Telegram, not here."),
        ("Does the user want to cancel?", "message Please cancel my subscription and close my account."),
        ("Is somebody insulted?", "message You are a stupid idiot and everybody hates you."),
        ("Was something damaged?", "message The parcel arrived broken, the glass is in pieces."),
        ("Is a weapon offered?", "message I also sell guns and ammunition, no papers needed."),
        (
            "Does the user talk about hurting himself?",
            "message I cannot go on, I want to kill myself tonight.",
        ),
    ];
    let mut found = Vec::new();
    for (number, (asked, sentence)) in planted.into_iter().enumerate() {
        let mut events = harmless();
        let place = (number * 7 + 3) % events.len();
        events[place] = sentence.to_owned();
        let (state, lines) = story(&events);
        let question = question(SignalType::Noul, &json!(asked), &Value::Null);
        let answers = answers(decider().begin_unread(&state, &question, &lines));
        let moved = |part: usize| (answers[0][0] - answers[1 + part][0]).abs();
        let most = (0..lines.len()).max_by(|a, b| moved(*a).total_cmp(&moved(*b))).unwrap();
        found.push((most == place, asked, events.swap_remove(most), moved(place)));
    }
    let right = found.iter().filter(|(is_first, ..)| *is_first).count();
    assert!(right >= 9, "{right} of 10: {found:#?}");
}
