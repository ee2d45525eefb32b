//! A backlog of jobs, and an analyzer that begins to rate-limit in the middle of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use analyzer::{Analyzer, AnswerError, BoxFuture, Failure, Inquiry, InquiryAnswers};
use auspex_server::{Server, assemble};
use model::api::EventType;
use model::{Distribution, NewEvent, TenantId, Timestamp};
use service::{Clock, Random};
use store::analysis::jobs::Schedule;
use store::objects::recorder;
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::IngestRequest;
use store::{Conn, Store};
use testkit::TestDatabase;

use crate::app::{self, START};
use crate::scripted_analyzer::{number, until};

testkit::on_both!(a_rate_limit_holds_for_what_was_claimed_before_it);

const OBJECTS: usize = 400;
/// Inquiries that are answered before it rate-limits.
const ANSWERED: usize = 200;
const WORKERS: usize = 4;
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Answers at once, so many times, and then rate-limits until it is told to stop that.
#[derive(Default)]
struct RateLimiting {
    asked: AtomicUsize,
    answers_again: AtomicBool,
}

impl Analyzer for RateLimiting {
    fn model(&self) -> &'static str {
        "rate_limiting"
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        if asked >= ANSWERED && !self.answers_again.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Failure::Throttled { retry_after: Some(RETRY_AFTER) })));
        }
        let even = |candidates: usize| {
            Distribution::from_weights(&vec![1.0; candidates]).map_err(|_| AnswerError::Incomplete)
        };
        let reply = InquiryAnswers {
            model: self.model().to_owned(),
            answers: inquiry.questions.iter().map(|question| even(question.candidates.len())).collect(),
            input_tokens: 100,
            output_tokens: 3,
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

async fn a_rate_limit_holds_for_what_was_claimed_before_it(database: &TestDatabase) {
    let settings = [("AUSPEX_ENFORCEMENT", "grace"), ("AUSPEX_WORKERS", &WORKERS.to_string())];
    let config = app::config(database, database.url(), &settings);
    let (clock, hands) = Clock::manual(START);
    let random = Random::system().unwrap();
    let service = assemble(&config, clock.clone(), random.clone()).await.unwrap();
    let tenant = service.accounts.operators.create_tenant("RateLimiting").await.unwrap().tenant_id;
    let store = service.store();
    queue(store, tenant, START).await;
    let analyzer = Arc::new(RateLimiting::default());
    let server =
        Server::start_with(config, clock, random, Arc::<RateLimiting>::clone(&analyzer)).await.unwrap();

    let leased = "SELECT count(*) FROM jobs WHERE lease_token IS NOT NULL";
    until("all that was leased is put back", async || {
        analyzer.asked.load(Ordering::SeqCst) > ANSWERED && number(store, leased).await == 0
    })
    .await;
    let asked = analyzer.asked.load(Ordering::SeqCst);
    assert!(asked <= ANSWERED + WORKERS, "it was asked {asked} times");

    analyzer.answers_again.store(true, Ordering::SeqCst);
    hands.advance(RETRY_AFTER);
    until("all are analyzed", async || number(store, "SELECT count(*) FROM jobs").await == 0).await;
    let charges = number(store, "SELECT count(*) FROM ledger_entries WHERE reason = 'analysis'").await;
    assert_eq!(usize::try_from(charges).unwrap(), OBJECTS, "each once");
    let again = analyzer.asked.load(Ordering::SeqCst);
    assert_eq!(again - asked, OBJECTS - ANSWERED, "none is asked in vain");
    assert!(server.stop().await);
}

/// Objects with an event each, whose analyses are due.
async fn queue(store: &Store, tenant: TenantId, now: Timestamp) {
    let request = |number: usize| IngestRequest {
        tenant,
        object_id: format!("user_{number}"),
        object_type: None,
        display_name: None,
        events: vec![NewEvent {
            kind: EventType::Message,
            name: None,
            content: Some("Is it still for sale?".to_owned()),
            metadata: None,
            occurred_at: now,
        }],
        idempotency: None,
        schedule: Some(Schedule { run_at: now, deadline_at: now }),
        verdict_slot: None,
        received_at: now,
        traceparent: None,
    };
    let requests: Vec<IngestRequest> = (0..OBJECTS).map(request).collect();
    store
        .write("queue", async |conn: &mut Conn| {
            recorder::record(conn, &requests, Admission::by_balance(Enforcement::Grace), 0).await
        })
        .await
        .unwrap();
}
