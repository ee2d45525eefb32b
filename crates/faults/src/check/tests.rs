use super::*;
use crate::analyzer::value;
use crate::database::{Charge, Firing};

const YES: Uuid = Uuid::from_u128(1);
const NO: Uuid = Uuid::from_u128(2);
const ENDPOINT: Uuid = Uuid::from_u128(3);

fn marker(number: u64, is_hot: bool) -> Marker {
    Marker { number, is_hot }
}

fn delivery(number: u128, event_type: &str, call: u64, is_hot: bool) -> Delivery {
    let answer = serde_json::json!({"answers": [{"signal": "hot", "noul": value(call, is_hot)}]});
    Delivery {
        id: Uuid::from_u128(number),
        endpoint_id: ENDPOINT,
        event_type: event_type.to_owned(),
        payload: answer.to_string(),
        outcome: Some("delivered".to_owned()),
        queued: None,
    }
}

fn firing(rule_id: Uuid, call: u64, is_hot: bool) -> Firing {
    let signal_values = serde_json::json!({"hot": value(call, is_hot)}).to_string();
    Firing { rule_id, object_id: "queued1".to_owned(), signal_values, status: "dispatched".to_owned() }
}

fn charge(call: i64) -> Charge {
    Charge {
        object_id: Some("queued1".to_owned()),
        delta_micros: -PRICE_MICROS,
        input_tokens: Some(INPUT_TOKENS),
        output_tokens: Some(call),
    }
}

fn sent(fate: Fate, markers: &[Marker]) -> Sent {
    Sent { tenant: 0, object_id: "queued1".to_owned(), markers: markers.to_vec(), fate, verdict: None }
}

/// A world in which everything holds: three requests with four events, of which the last was refused, and two analyses.
fn requests() -> Vec<Sent> {
    vec![
        sent(Fate::Recorded, &[marker(1, true), marker(2, true)]),
        sent(Fate::Unknown, &[marker(3, false)]),
        sent(Fate::Refused, &[marker(4, true)]),
    ]
}

fn rows() -> Rows {
    let event = |seq, text: &str| ("queued1".to_owned(), seq, text.to_owned());
    Rows {
        events: vec![event(1, "m1h"), event(2, "m2h"), event(3, "m3c")],
        objects: vec![("queued1".to_owned(), 3)],
        charges: vec![charge(1), charge(3)],
        answers: vec![("queued1".to_owned(), value(3, false), 3)],
        firings: vec![firing(YES, 1, true), firing(NO, 3, false)],
        deliveries: vec![
            delivery(10, "analysis.completed", 1, true),
            delivery(11, "analysis.completed", 3, false),
            delivery(12, "rule.triggered", 1, true),
            delivery(13, "rule.triggered", 3, false),
        ],
        balance_micros: 1,
    }
}

fn failures(sent: &[Sent], rows: &Rows, accepted: &[u128]) -> Vec<String> {
    let call = |newest, is_honest| Call { newest, is_honest };
    let calls = [call(marker(2, true), true), call(marker(3, false), false), call(marker(3, false), true)];
    let accepted = accepted.iter().map(|id| Uuid::from_u128(*id)).collect();
    let known = Known {
        sent: sent.iter().collect(),
        calls: &calls,
        is_poor: true,
        rules: [YES, NO],
        endpoints: vec![KnownEndpoint { id: ENDPOINT, role: Role::Steady, accepted }],
        nodes: 1,
    };
    check(&known, rows).1
}

const ALL: [u128; 4] = [10, 11, 12, 13];

/// The failures after a change of the rows.
fn after(change: impl FnOnce(&mut Rows)) -> String {
    let mut rows = rows();
    change(&mut rows);
    failures(&requests(), &rows, &ALL).join("\n")
}

#[test]
fn a_sound_world_passes() {
    assert_eq!(failures(&requests(), &rows(), &ALL), Vec::<String>::new());
}

#[test]
fn lost_doubled_and_foreign_events_are_found() {
    let lost = after(|rows| {
        rows.events.remove(1);
    });
    assert!(lost.contains("event 2 has the sequence number 3"), "{lost}");
    assert!(lost.contains("Recorded events of queued1: 1 of 2 are there"), "{lost}");
    assert!(lost.contains("counts 3 events and has 2"), "{lost}");
    let doubled = after(|rows| rows.events.push(("queued1".to_owned(), 4, "m1h".to_owned())));
    assert!(doubled.contains("m1h is there twice"), "{doubled}");
    let refused = after(|rows| rows.events.push(("queued1".to_owned(), 4, "m4h".to_owned())));
    assert!(refused.contains("Refused events of queued1: 1 of 1"), "{refused}");
    let foreign = after(|rows| rows.events.push(("queued1".to_owned(), 4, "m99h".to_owned())));
    assert!(foreign.contains("nobody sent the event m99h"), "{foreign}");
    let mut torn = requests();
    torn[1].markers.push(marker(5, true));
    let torn = failures(&torn, &rows(), &ALL).join("\n");
    assert!(torn.contains("Unknown events of queued1: 1 of 2"), "{torn}");
}

#[test]
fn wrong_charges_are_found() {
    let twice = after(|rows| rows.charges.push(charge(3)));
    assert!(twice.contains("call 3 about queued1 is charged twice"), "{twice}");
    let lied = after(|rows| rows.charges[0] = charge(2));
    assert!(lied.contains("without an answer: call 2"), "{lied}");
    let missing = after(|rows| {
        rows.charges.remove(1);
    });
    assert!(missing.contains("call 3 is announced 1 times and not charged"), "{missing}");
    let dear = after(|rows| rows.charges[0].delta_micros = -1);
    assert!(dear.contains("costs 1 micro-dollars"), "{dear}");
    let overspent = after(|rows| rows.balance_micros = -1_000_000);
    assert!(overspent.contains("the balance of a tenant without money is -1000000"), "{overspent}");
}

#[test]
fn wrong_answers_and_firings_are_found() {
    let stale = after(|rows| rows.answers[0] = ("queued1".to_owned(), value(1, true), 2));
    assert!(stale.contains("has the answer Some((1, 2)), not Some((3, 3))"), "{stale}");
    let silent = after(|rows| {
        rows.firings.remove(0);
    });
    assert!(silent.contains("the rule for yes did not fire for queued1 with call 1"), "{silent}");
    let eager = after(|rows| rows.firings.push(firing(YES, 3, false)));
    assert!(eager.contains("the rule for yes fired too often"), "{eager}");
}

#[test]
fn an_answer_that_misses_events_is_found() {
    let mut rows = rows();
    rows.events.push(("queued1".to_owned(), 4, "m4h".to_owned()));
    rows.objects[0].1 = 4;
    let mut sent = requests();
    sent[2].fate = Fate::Recorded;
    let calls = [Call { newest: marker(2, true), is_honest: true }];
    let known = Known {
        sent: sent.iter().collect(),
        calls: &calls,
        is_poor: false,
        rules: [YES, NO],
        endpoints: Vec::new(),
        nodes: 1,
    };
    let found = check(&known, &rows).1.join("\n");
    assert!(found.contains("queued1 has 4 events and its answer is Some((3, 3))"), "{found}");
}

#[test]
fn deliveries_that_do_not_arrive_are_found() {
    let waiting = after(|rows| {
        rows.deliveries[0].outcome = None;
        rows.deliveries[0].queued = Some("pending".to_owned());
    });
    assert!(waiting.contains("queued Some(\"pending\"), arrived true"), "{waiting}");
    let unseen = failures(&requests(), &rows(), &[10, 11, 12]).join("\n");
    assert!(unseen.contains("outcome Some(\"delivered\"), queued None, arrived false"), "{unseen}");
    let ghost = failures(&requests(), &rows(), &[10, 11, 12, 13, 14]).join("\n");
    assert!(ghost.contains("arrived and is not known"), "{ghost}");
    let unannounced = after(|rows| {
        rows.deliveries.remove(0);
    });
    assert!(unannounced.contains("call 1 about queued1 is announced 0 times"), "{unannounced}");
    let twice = after(|rows| rows.deliveries.push(delivery(15, "analysis.completed", 1, true)));
    assert!(twice.contains("call 1 about queued1 is announced 2 times"), "{twice}");
}

#[test]
fn a_verdict_that_is_not_charged_is_found() {
    let mut sent = requests();
    sent[0].verdict = Some(2);
    let found = failures(&sent, &rows(), &ALL).join("\n");
    assert!(found.contains("the verdict of call 2 about queued1 is not charged"), "{found}");
}
