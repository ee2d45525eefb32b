//! An analyzer that panics: neither the scheduler nor the service ends, and the panic is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use analyzer::{Analyzer, AnswerError, BoxFuture, Failure, Inquiry, InquiryAnswers};
use model::Distribution;
use testkit::{Backend, Stage};

use crate::app::App;
use crate::metrics::{scrape, value};
use crate::scripted_analyzer::{get, ingest_and_wait, risk, send_event, until};

testkit::on_both!(
    an_analysis_that_panics_is_counted_and_retried_and_others_go_on,
    a_verdict_that_panics_is_an_internal_error_and_the_next_one_works,
);

/// How long an object must be quiet before it is analyzed.
const QUIET: Duration = Duration::from_secs(3);
/// The wait after the first failure of an analysis.
const RETRY: Duration = Duration::from_secs(5);

/// Panics the first time that it is asked about an object whose history contains "panics"; else every answer is as likely
/// as any other.
#[derive(Default)]
struct Panicking {
    panics: AtomicUsize,
}

impl Analyzer for Panicking {
    fn model(&self) -> &'static str {
        "panicking"
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        let panics = inquiry.state.contains("panics") && self.panics.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!panics, "an analyzer that panics");
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

/// The service with that analyzer.
struct PanickingStage {
    app: App,
    analyzer: Arc<Panicking>,
}

impl Stage for PanickingStage {
    async fn set_up(backend: Backend) -> Self {
        let analyzer = Arc::new(Panicking::default());
        let app = App::start_with_analyzer(backend, Arc::<Panicking>::clone(&analyzer)).await;
        Self { app, analyzer }
    }

    async fn tear_down(self) {
        self.app.tear_down().await;
    }
}

async fn an_analysis_that_panics_is_counted_and_retried_and_others_go_on(stage: &PanickingStage) {
    let (app, counted) = (&stage.app, r#"auspex_worker_panics_total{worker="scheduler"}"#);
    let key = {
        let token = app.register("ann@example.com").await;
        app.api_key(&token).await
    };
    let before = value(&scrape(app).await, counted);
    send_event(app, &key, "user_1", "panics").await;
    send_event(app, &key, "user_2", "fine").await;
    app.advance(QUIET);
    until("the other object is analyzed", async || risk(app, &key, "user_2").await.is_some()).await;
    until("the panic is counted", async || value(&scrape(app).await, counted) > before).await;
    app.workers_have_polled().await;
    assert_eq!(risk(app, &key, "user_1").await, None);
    assert_eq!(stage.analyzer.panics.load(Ordering::SeqCst), 1, "it waits before it is tried again");

    app.advance(RETRY);
    app.settle().await;
    assert_eq!(stage.analyzer.panics.load(Ordering::SeqCst), 2);
    assert_eq!(risk(app, &key, "user_1").await, Some(0.5));
}

async fn a_verdict_that_panics_is_an_internal_error_and_the_next_one_works(stage: &PanickingStage) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    ingest_and_wait(app, &key, "user_1", "panics").await.refused(500, "internal_error");
    assert_eq!(get(app, &key, "/v1/objects/user_1").await.json()["event_count"], 1, "its event is recorded");
    let verdict = ingest_and_wait(app, &key, "user_1", "fine").await;
    assert_eq!(verdict.status, 200, "{}", verdict.text);
    // The event without an answer is analyzed once the object is quiet.
    app.advance(QUIET);
}
