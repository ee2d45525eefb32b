//! The model is shared: by tenants, in turns, and for a limited time.

use std::pin::pin;

use futures_util::FutureExt as _;
use model::{Question, SignalType, TenantId};
use serde_json::json;

use super::*;

/// How long a test waits for what must happen: much longer than it takes.
const PATIENCE: Duration = Duration::from_mins(3);

fn short() -> Vec<Question> {
    vec![Question::parse("key", SignalType::Noul, "\"Is it?\"", None).unwrap()]
}

/// A question that takes many passes, each of them long.
fn long() -> Vec<Question> {
    let option = |number: usize| (format!("option_{number}"), json!("very ".repeat(200)));
    let criteria = serde_json::Value::Object((0..26).map(option).collect()).to_string();
    let instructions = json!("why ".repeat(300)).to_string();
    vec![Question::parse("key", SignalType::Choice, &instructions, Some(&criteria)).unwrap()]
}

fn inquiry(questions: &[Question], tenant: u128) -> Inquiry<'_> {
    let tenant = Some(TenantId(uuid::Uuid::from_u128(tenant)));
    Inquiry { is_urgent: false, tenant, state: "It is.", questions }
}

/// Waits until no pass is being made, and nobody has a place.
async fn is_free(embedded: &Embedded) {
    let threads = embedded.pool.threads();
    let free = async {
        while (embedded.turns.free(), embedded.slots.free()) != (threads, threads * INQUIRIES_PER_THREAD) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, free).await.expect("the model is occupied by nobody");
}

#[tokio::test]
async fn answers_are_recorded_under_the_name_of_the_model() {
    let embedded = Embedded::new(PATIENCE).unwrap();
    let questions = short();
    let findings = embedded.analyze(inquiry(&questions, 1)).await.unwrap();
    assert_eq!((findings.model.as_str(), embedded.model()), ("auspex-1.0", "auspex-1.0"));
    assert!(findings.answers[0].is_ok());
    assert!(findings.input_tokens > 4 && findings.output_tokens == 0);
    assert!(embedded.analyze(inquiry(&[], 1)).await.unwrap().answers.is_empty());
}

#[tokio::test]
async fn a_tenant_with_many_long_inquiries_does_not_make_another_wait_for_them() {
    let embedded = Embedded::new(PATIENCE).unwrap();
    let (long, short) = (long(), short());
    // More than there are places for this tenant, so that some of them wait.
    let many = (0..2 * embedded.pool.threads()).map(|_| embedded.analyze(inquiry(&long, 1)));
    let mut many = pin!(futures_util::future::select_all(many));
    assert!(many.as_mut().now_or_never().is_none());
    let one = embedded.analyze(inquiry(&short, 2));
    tokio::select! {
        biased;
        found = one => { found.unwrap(); }
        _ = &mut many => panic!("the long ones came first"),
    }
}

#[tokio::test]
async fn the_work_ends_when_its_caller_leaves() {
    let embedded = Embedded::new(PATIENCE).unwrap();
    let long = long();
    let mut asking = embedded.analyze(inquiry(&long, 1));
    assert!((&mut asking).now_or_never().is_none());
    assert!(embedded.turns.free() < embedded.pool.threads(), "it has begun");
    drop(asking);
    is_free(&embedded).await;
    embedded.analyze(inquiry(&short(), 1)).await.unwrap();
}

#[tokio::test]
async fn an_inquiry_that_takes_too_long_is_given_up() {
    let loaded = Embedded::new(PATIENCE).unwrap();
    loaded.analyze(inquiry(&short(), 1)).await.unwrap();
    let embedded = Embedded { limit: Duration::from_millis(1), ..loaded };
    let outcome = embedded.analyze(inquiry(&long(), 1)).await;
    assert!(matches!(outcome, Err(Failure::OutOfTime)), "{outcome:?}");
    is_free(&embedded).await;
}

#[tokio::test]
async fn an_inquiry_that_had_no_turn_in_its_time_has_not_failed() {
    let embedded = Embedded::new(PATIENCE).unwrap();
    let threads = embedded.pool.threads();
    let mut taken = Vec::new();
    for _ in 0..threads {
        taken.push(embedded.turns.take(None, true).await);
    }
    let hurried = Embedded { limit: Duration::from_millis(1), ..embedded.clone() };
    let outcome = hurried.analyze(inquiry(&short(), 1)).await;
    assert!(matches!(outcome, Err(Failure::Busy)), "{outcome:?}");
    drop(taken);
    is_free(&embedded).await;
}
