//! Traces as a collector gets them: one story from a request through its analysis to its webhook, across processes.

pub(crate) mod collector;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage};
use tokio::sync::{RwLock, RwLockReadGuard};

use self::collector::{Collector, Span};
use crate::app::{App, Reply};
use crate::receiver::{Answer, Receiver};
use crate::scripted_analyzer::{ScriptedAnalyzer, Turn, event, with_analyzer};
use crate::signer::Signer;

testkit::on_both!(
    one_trace_leads_from_a_request_to_its_webhook,
    a_trace_goes_on_in_another_process,
    merged_requests_are_linked,
    events_during_an_analysis_belong_to_the_next,
    a_verdict_and_what_follows_are_one_trace,
    what_fails_says_so_and_is_tried_again_in_the_same_trace,
    requests_that_are_not_sampled_leave_no_spans,
    nonsense_begins_a_trace_of_its_own,
    analyses_that_are_asked_for_belong_to_who_asks,
    a_collector_that_is_silent_holds_up_nobody,
    without_a_collector_nothing_is_kept_or_sent,
);

const QUIET: Duration = Duration::from_secs(3);
const EVENTS: &str = "POST /v1/objects/{object_id}/events";
/// What the standard's numbers of kinds are called.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const CONSUMER: i32 = 5;

/// The service beside a collector of its traces.
struct Traced {
    app: RwLock<App>,
    collector: Collector,
    analyzer: ScriptedAnalyzer,
}

impl Stage for Traced {
    async fn set_up(backend: Backend) -> Self {
        let (collector, analyzer) = (Collector::start().await, ScriptedAnalyzer::start().await);
        let app = App::start(backend, &settings(&collector.url(), &analyzer.url())).await;
        Self { app: RwLock::new(app), collector, analyzer }
    }

    async fn tear_down(self) {
        self.app.into_inner().tear_down().await;
    }
}

fn settings<'a>(collector: &'a str, analyzer: &'a str) -> Vec<(&'a str, &'a str)> {
    [&[("AUSPEX_OTLP_ENDPOINT", collector)][..], &with_analyzer(analyzer)].concat()
}

impl Traced {
    async fn app(&self) -> RwLockReadGuard<'_, App> {
        self.app.read().await
    }

    /// A new account's key, and a receiver of its webhooks.
    async fn account(&self) -> (Signer, Receiver) {
        let (app, receiver) = (self.app().await, Receiver::start().await);
        let token = app.register("ann@example.com").await;
        let key = app.api_key(&token).await;
        let made = key.call(&app, Method::POST, "/v1/webhooks", &json!({"url": receiver.url()})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        (key, receiver)
    }

    /// Sends a request that belongs to a trace.
    async fn call(&self, key: &Signer, path: &str, body: &Value, traceparent: &str) -> Reply {
        let app = self.app().await;
        let token = key.sign(app.now(), &Method::POST, path);
        let request = app.request(Method::POST, path).bearer_auth(token).header("traceparent", traceparent);
        app.send(if body.is_null() { request } else { request.json(body) }).await
    }

    async fn send_event(&self, key: &Signer, traceparent: &str) {
        let body = json!({"events": [{"type": "message", "name": "hello", "content": "a private word"}]});
        let reply = self.call(key, "/v1/objects/somebody/events", &body, traceparent).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }

    /// Lets the debounce pass and everything that is due happen.
    async fn quiet(&self) {
        let app = self.app().await;
        app.advance(QUIET);
        app.settle().await;
    }

    /// Stops the service, which sends what it has to tell, and starts it again.
    async fn restart(&self) {
        let (collector, analyzer) = (self.collector.url(), self.analyzer.url());
        self.app.write().await.restart(&settings(&collector, &analyzer)).await;
    }

    /// Everything that has been told of a trace, as it began.
    async fn spans_of(&self, trace: &str) -> Vec<Span> {
        self.restart().await;
        let mut spans = self.collector.spans();
        spans.retain(|span| span.trace == trace);
        spans.sort_by_key(|span| span.begun_ns);
        spans
    }
}

/// A trace of a caller, by its number.
fn caller(number: u32) -> (String, String) {
    let trace = format!("{number:032x}");
    (format!("00-{trace}-00f067aa0ba902b7-01"), trace)
}

/// The one span of this name.
#[track_caller]
fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

async fn one_trace_leads_from_a_request_to_its_webhook(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    let (traceparent, trace) = caller(1);
    let began = stage.app().await.now();
    stage.send_event(&key, &traceparent).await;
    stage.quiet().await;
    let arrived = receiver.got(1).await;
    let spans = stage.spans_of(&trace).await;

    let request = one(&spans, EVENTS);
    assert_eq!((request.parent.as_str(), request.kind), ("00f067aa0ba902b7", SERVER));
    let (record, analyze) = (one(&spans, "record"), one(&spans, "analyze"));
    let (ask, conclude, deliver) = (one(&spans, "ask"), one(&spans, "conclude"), one(&spans, "deliver"));
    for (span, parent, kind) in [
        (record, request, INTERNAL),
        (analyze, request, CONSUMER),
        (ask, analyze, CLIENT),
        (conclude, analyze, INTERNAL),
        (deliver, analyze, CLIENT),
    ] {
        assert_eq!((&span.parent, span.kind), (&parent.id, kind), "{}", span.name);
        assert!(!span.failed && span.links.is_empty(), "{span:?}");
    }
    assert_eq!(spans.len(), 6, "{spans:#?}");
    assert_eq!(arrived.header("traceparent"), format!("00-{trace}-{}-01", deliver.id));

    let micros = |span: &Span| i64::try_from(span.begun_ns / 1_000).unwrap();
    assert_eq!(micros(request), began.micros(), "times are those of the service's clock");
    assert_eq!(micros(analyze), (began + QUIET).micros(), "the debounce lies between the two");
    assert!(spans.iter().all(|span| span.ended_ns >= span.begun_ns));

    for (span, name, value) in [
        (request, "http.request.method", "POST"),
        (request, "http.route", "/v1/objects/{object_id}/events"),
        (request, "http.response.status_code", "202"),
        (analyze, "auspex.outcome", "ok"),
        (analyze, "auspex.attempt", "1"),
        (ask, "gen_ai.request.model", "scripted"),
        (ask, "gen_ai.response.model", "scripted"),
        (ask, "gen_ai.usage.input_tokens", "1000"),
        (ask, "gen_ai.usage.output_tokens", "10"),
        (ask, "auspex.questions", "3"),
        (deliver, "http.request.method", "POST"),
        (deliver, "http.response.status_code", "200"),
        (deliver, "server.address", "127.0.0.1"),
        (deliver, "auspex.delivery.id", arrived.header("x-webhook-delivery")),
    ] {
        assert_eq!(span.says(name), value, "{name} of {}", span.name);
    }
    assert!(spans.iter().all(|span| span.resource["service.name"] == "auspex"), "{:?}", spans[0].resource);
    let everything = format!("{:?}", stage.collector.spans());
    for private in ["private", "hello", "somebody", "ann@", key.key.as_str(), key.secret.as_str(), "whsec_"] {
        assert!(!everything.contains(private), "{private} is nobody's business");
    }
    assert!(!everything.contains("/readyz") && !everything.contains("/healthz"));
}

async fn a_trace_goes_on_in_another_process(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    let (traceparent, trace) = caller(1);
    stage.send_event(&key, &traceparent).await;
    stage.restart().await;
    receiver.always(Answer::Status(503));
    stage.app().await.advance(QUIET);
    receiver.got(1).await;
    stage.restart().await;
    receiver.always(Answer::Status(200));
    // What the receiver refused is tried again within 33 s.
    stage.app().await.advance(Duration::from_secs(33));
    stage.app().await.settle().await;
    receiver.got(2).await;
    let spans = stage.spans_of(&trace).await;
    let (request, analyze) = (one(&spans, EVENTS), one(&spans, "analyze"));
    assert_eq!(analyze.parent, request.id);
    let attempts: Vec<_> = spans.iter().filter(|span| span.name == "deliver").collect();
    let told: Vec<_> = attempts
        .iter()
        .map(|span| {
            (span.says("http.request.resend_count"), span.says("http.response.status_code"), span.failed)
        })
        .collect();
    assert_eq!(told, [("0", "503", true), ("1", "200", false)]);
    assert_eq!(attempts[0].says("error.type"), "503");
    assert!(attempts.iter().all(|span| span.parent == analyze.id));
}

async fn merged_requests_are_linked(stage: &Traced) {
    let (key, _receiver) = stage.account().await;
    for number in 1..=10 {
        stage.send_event(&key, &caller(number).0).await;
    }
    stage.quiet().await;
    let spans = stage.spans_of(&caller(10).1).await;
    let analyze = one(&spans, "analyze");
    assert_eq!(analyze.parent, one(&spans, EVENTS).id, "it goes on after the newest");
    let others: Vec<String> = (3..=9).rev().map(|number| caller(number).1).collect();
    assert_eq!(analyze.links, others, "as many of the others as a job remembers");
}

async fn events_during_an_analysis_belong_to_the_next(stage: &Traced) {
    let (key, _receiver) = stage.account().await;
    let gate = stage.analyzer.hold(0.5);
    stage.send_event(&key, &caller(1).0).await;
    stage.app().await.advance(QUIET);
    stage.analyzer.asked(1).await;
    stage.send_event(&key, &caller(2).0).await;
    stage.send_event(&key, &caller(3).0).await;
    gate.open();
    stage.quiet().await;
    let first = stage.spans_of(&caller(1).1).await;
    assert!(one(&first, "analyze").links.is_empty());
    let second = stage.spans_of(&caller(3).1).await;
    assert_eq!(one(&second, "analyze").links, [caller(2).1]);
}

async fn a_verdict_and_what_follows_are_one_trace(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    let listed = key.call(&*stage.app().await, Method::GET, "/v1/webhooks", &Value::Null).await.json();
    let rule = json!({"when": "is_scammer > 0.4", "action_type": "webhook",
        "action_config": {"endpoint_id": listed["webhooks"][0]["id"]}});
    let made = key.call(&*stage.app().await, Method::POST, "/v1/rules", &rule).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let (traceparent, trace) = caller(1);
    let body = json!({"wait": true, "events": [event("seen")]});
    let reply = stage.call(&key, "/v1/objects/somebody/events", &body, &traceparent).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let arrived = receiver.got(1).await;
    assert_eq!(arrived.header("x-webhook-event"), "rule.triggered");
    stage.app().await.settle().await;
    let spans = stage.spans_of(&trace).await;
    let request = one(&spans, EVENTS);
    for name in ["record", "ask", "conclude", "deliver"] {
        assert_eq!(one(&spans, name).parent, request.id, "{name}");
    }
    assert!(arrived.header("traceparent").contains(&trace));
}

async fn what_fails_says_so_and_is_tried_again_in_the_same_trace(stage: &Traced) {
    let (key, _receiver) = stage.account().await;
    let (traceparent, trace) = caller(1);
    stage.analyzer.then(Turn::Refuse(500, None));
    stage.send_event(&key, &traceparent).await;
    stage.app().await.advance(QUIET);
    stage.analyzer.asked(1).await;
    let until_put_back = async || {
        let spans = stage.spans_of(&trace).await;
        spans.into_iter().filter(|span| span.name == "analyze").collect::<Vec<_>>()
    };
    let failed = until_put_back().await;
    assert_eq!((failed.len(), failed[0].says("auspex.outcome"), failed[0].failed), (1, "failed", true));
    stage.app().await.advance(Duration::from_secs(10));
    stage.app().await.settle().await;
    let spans = stage.spans_of(&trace).await;
    let told = |name: &str| -> Vec<(String, bool)> {
        let spans = spans.iter().filter(|span| span.name == name);
        spans.map(|span| (span.says("error.type").to_owned(), span.failed)).collect()
    };
    let once_in_vain = [("failed".to_owned(), true), (String::new(), false)];
    assert_eq!((told("analyze"), told("ask")), (once_in_vain.to_vec(), once_in_vain.to_vec()));
}

async fn requests_that_are_not_sampled_leave_no_spans(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    let (traceparent, trace) = caller(1);
    stage.send_event(&key, &traceparent.replace("-01", "-00")).await;
    stage.quiet().await;
    let arrived = receiver.got(1).await;
    let passed_on = arrived.header("traceparent");
    assert!(passed_on.starts_with(&format!("00-{trace}-")) && passed_on.ends_with("-00"), "{passed_on}");
    assert!(stage.spans_of(&trace).await.is_empty());
}

async fn nonsense_begins_a_trace_of_its_own(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    let (_, trace) = caller(1);
    stage.send_event(&key, &format!("00-{trace}-00f067aa0ba902b7-01-and-more")).await;
    stage.quiet().await;
    let arrived = receiver.got(1).await;
    let ours = arrived.header("traceparent").split('-').nth(1).unwrap().to_owned();
    assert_ne!(ours, trace);
    let spans = stage.spans_of(&ours).await;
    assert_eq!(one(&spans, EVENTS).parent, "", "it is the first");
    assert_eq!(spans.len(), 6, "{spans:#?}");
}

async fn analyses_that_are_asked_for_belong_to_who_asks(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    stage.send_event(&key, &caller(1).0).await;
    stage.quiet().await;
    receiver.got(1).await;
    let reply = stage.call(&key, "/v1/objects/somebody/analyze", &Value::Null, &caller(2).0).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let second = receiver.got(2).await;
    stage.app().await.settle().await;
    // Sent again, it still belongs to the analysis that it tells of.
    let path = format!("/v1/webhook_deliveries/{}/replay", second.header("x-webhook-delivery"));
    let reply = stage.call(&key, &path, &Value::Null, &caller(3).0).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let third = receiver.got(3).await;
    stage.app().await.settle().await;
    for arrived in [second, third] {
        assert!(arrived.header("traceparent").contains(&caller(2).1), "{:?}", arrived.headers);
    }
    let spans = stage.spans_of(&caller(2).1).await;
    assert_eq!(one(&spans, "analyze").parent, one(&spans, "POST /v1/objects/{object_id}/analyze").id);
    assert_eq!(spans.iter().filter(|span| span.name == "deliver").count(), 2);
}

async fn a_collector_that_is_silent_holds_up_nobody(stage: &Traced) {
    let (key, receiver) = stage.account().await;
    stage.collector.fall_silent();
    stage.send_event(&key, &caller(1).0).await;
    stage.quiet().await;
    receiver.got(1).await;
    // The stage is struck within the limit of any other.
}

async fn without_a_collector_nothing_is_kept_or_sent(stage: &crate::scripted_analyzer::Scripted) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let made = key.call(stage, Method::POST, "/v1/webhooks", &json!({"url": receiver.url()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = "/v1/objects/somebody/events";
    let request = stage.request(Method::POST, path).header("traceparent", caller(1).0);
    let request = request.bearer_auth(key.sign(stage.now(), &Method::POST, path));
    assert_eq!(stage.send(request.json(&json!({"events": [event("seen")]}))).await.status, 202);
    assert_eq!(stage.number("SELECT count(*) FROM jobs WHERE traceparents IS NOT NULL").await, 0);
    stage.advance(QUIET);
    stage.settle().await;
    assert_eq!(receiver.got(1).await.header("traceparent"), "");
    assert_eq!(
        stage.number("SELECT count(*) FROM webhook_deliveries WHERE traceparent IS NOT NULL").await,
        0
    );
}
