//! How requests fail, which is the same for every analyzer behind HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use analyzer::{
    Analyzer, Anthropic, Endpoint, Failure, Inquiry, InquiryAnswers, InvalidEndpoint, OpenAi, SystemOne,
    WordCounter,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::json;
use tokio::net::TcpListener;

use super::openai::completion;
use super::scripted::{Reply, Scripted};
use super::{API_KEY, MODEL, STATE, ask, cause_of, endpoint, questions};

/// Each analyzer behind HTTP.
fn analyzers(endpoint: &Endpoint) -> Vec<Box<dyn Analyzer>> {
    vec![
        Box::new(OpenAi::new(endpoint.clone()).unwrap()),
        Box::new(SystemOne::new(endpoint.clone()).unwrap()),
        Box::new(Anthropic::new(endpoint.clone()).unwrap()),
    ]
}

async fn outcomes(endpoint: &Endpoint) -> Vec<Result<InquiryAnswers, Failure>> {
    let mut outcomes = Vec::new();
    for analyzer in analyzers(endpoint) {
        let inquiry = Inquiry { is_urgent: false, tenant: None, state: STATE, questions: &questions() };
        outcomes.push(analyzer.analyze(inquiry).await);
    }
    outcomes
}

#[tokio::test]
async fn rate_limiting_is_distinguished_from_failure() {
    for (status, header, wait_s) in [
        (429, ("retry-after", "20"), Some(20)),
        (503, ("retry-after", "3"), Some(3)),
        (529, ("x-other", ""), None),
        (429, ("x-other", ""), None),
        // The server's own date is today, and the wait is at most an hour.
        (503, ("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"), Some(3600)),
        (503, ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(0)),
    ] {
        let server = Scripted::start(move |_| Reply::Text(status, header, "slow down".to_owned())).await;
        for outcome in outcomes(&endpoint(&server.url)).await {
            let Err(Failure::Throttled { retry_after }) = outcome else { panic!("{outcome:?}") };
            assert_eq!(retry_after, wait_s.map(Duration::from_secs), "{status} {header:?}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let unknown = "http://analyzer.invalid".parse().unwrap();
    for url in [refusing, unknown] {
        for outcome in outcomes(&endpoint(&url)).await {
            assert!(matches!(outcome, Err(Failure::Down(_))), "{outcome:?}");
            let cause = cause_of(outcome);
            assert!(!cause.contains("http://"), "a URL may contain secrets: {cause}");
        }
    }
}

#[tokio::test]
async fn a_timeout_is_a_failure() {
    let server = Scripted::start(|_| Reply::Silence).await;
    let mut hasty = endpoint(&server.url);
    hasty.timeout = Duration::from_millis(50);
    for outcome in outcomes(&hasty).await {
        assert_eq!(cause_of(outcome), "the analyzer failed: the request timed out after 50ms");
    }
    // The wait for a slot counts too.
    hasty.max_concurrency = 1;
    let openai = OpenAi::new(hasty).unwrap();
    assert!(cause_of(ask(&openai, &questions()).await).contains("the request timed out after 50ms"));
}

#[tokio::test]
async fn answers_in_time_count_although_others_time_out() {
    let server = Scripted::start(|body| {
        if super::user_message(body).contains("scam") {
            Reply::Json(200, completion(&[("A", 1.0)]))
        } else {
            Reply::Silence
        }
    })
    .await;
    let mut hasty = endpoint(&server.url);
    hasty.timeout = Duration::from_secs(1);
    let reply = ask(&OpenAi::new(hasty).unwrap(), &questions()).await.unwrap();
    let which: Vec<bool> = reply.answers.iter().map(Result::is_ok).collect();
    assert_eq!(which, [true, false, false]);
}

#[tokio::test]
async fn rejections_are_quoted_in_short_and_without_the_key() {
    let body = format!("{{\"error\": \"Incorrect API key provided: {API_KEY}\\n{}\"}}", "x".repeat(5000));
    for status in [401, 404, 418, 500, 502, 504] {
        let body = body.clone();
        let server = Scripted::start(move |_| Reply::Text(status, ("x-other", ""), body.clone())).await;
        for outcome in outcomes(&endpoint(&server.url)).await {
            let cause = cause_of(outcome);
            assert!(cause.contains(&format!("the response is {status}")), "{cause}");
            assert!(cause.contains("Incorrect API key provided: ***"), "{cause}");
            assert!(cause.len() < 600, "{cause}");
        }
    }
}

#[tokio::test]
async fn an_unusable_response_is_a_failure() {
    let text = |status, text: &str| (status, ("content-type", "text/html"), text.to_owned());
    for (reply, cause) in [
        (text(200, ""), "not JSON, at line 1"),
        (text(200, "<html>\nAnn's data</html>"), "not JSON, at line 1, column 1"),
        (text(200, "{\"choices\": [NaN]}"), "not JSON"),
        (text(302, ""), "302"),
        ((307, ("location", "/elsewhere"), String::new()), "307"),
        (text(200, &" ".repeat(4 * 1024 * 1024 + 1)), "larger than 4194304 bytes"),
        (
            text(500, &"x".repeat(4 * 1024 * 1024 + 1)),
            "500 Internal Server Error and larger than 4194304 bytes",
        ),
    ] {
        let server = Scripted::start(move |_| Reply::Text(reply.0, reply.1, reply.2.clone())).await;
        for outcome in outcomes(&endpoint(&server.url)).await {
            let text = cause_of(outcome);
            assert!(text.contains(cause), "expected {cause:?} in {text:?}");
            assert!(!text.contains("Ann"), "{text}");
        }
        assert!(
            server.requests().iter().all(|request| request.path != "/elsewhere"),
            "redirects are not followed"
        );
    }
}

#[test]
fn an_invalid_endpoint_is_rejected() {
    let good = endpoint(&"http://127.0.0.1:1/".parse().unwrap());
    let bad_key = Endpoint { api_key: Some("a\nb".to_owned()), ..good.clone() };
    assert!(matches!(OpenAi::new(bad_key), Err(InvalidEndpoint::ApiKey)));
    let bad_url = Endpoint { url: "mailto:ann@example.com".parse().unwrap(), ..good };
    assert!(matches!(SystemOne::new(bad_url), Err(InvalidEndpoint::Url)));
}

#[tokio::test]
async fn the_path_and_the_query_of_the_url_are_kept() {
    let server = Scripted::start(|_| Reply::Json(200, completion(&[("A", 1.0)]))).await;
    for base in ["/openai/v1?api-version=1", "/openai/v1/?api-version=1"] {
        let url = server.url.join(base).unwrap();
        let openai = OpenAi::new(Endpoint { url, api_key: None, ..endpoint(&server.url) }).unwrap();
        ask(&openai, &questions()[..1]).await.unwrap();
        let request = server.requests().pop().unwrap();
        assert_eq!(request.path, "/openai/v1/chat/completions");
        assert!(request.headers.get("authorization").is_none(), "no key, no header");
    }
}

#[tokio::test]
async fn without_questions_nothing_is_sent() {
    let server = Scripted::start(|_| Reply::Silence).await;
    for analyzer in analyzers(&endpoint(&server.url)) {
        let reply = analyzer
            .analyze(Inquiry { is_urgent: false, tenant: None, state: STATE, questions: &[] })
            .await
            .unwrap();
        assert_eq!((reply.answers.len(), reply.input_tokens, reply.model.as_str()), (0, 0, MODEL));
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn inquiries_are_counted_and_timed() {
    let recorder = DebuggingRecorder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            ask(&WordCounter, &questions()).await.unwrap();
            let server = Scripted::start(|body| {
                if super::user_message(body).contains("scam") {
                    Reply::Json(200, completion(&[("A", 1.0)]))
                } else {
                    Reply::Json(500, json!({}))
                }
            })
            .await;
            let openai = OpenAi::new(endpoint(&server.url)).unwrap();
            ask(&openai, &questions()).await.unwrap();
            ask(&openai, &questions()[1..]).await.unwrap_err();
            let busy = Scripted::start(|_| Reply::Text(429, ("retry-after", "1"), String::new())).await;
            ask(&SystemOne::new(endpoint(&busy.url)).unwrap(), &questions()).await.unwrap_err();
        });
    });
    let mut readings = BTreeMap::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let key = key.key();
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let count = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => continue,
        };
        readings.insert(format!("{}{{{}}}", key.name(), labels.join(",")), count);
    }
    let expected = [
        ("auspex_analyzer_answers_total{outcome=answered}", 4),
        ("auspex_analyzer_answers_total{outcome=failed}", 4),
        ("auspex_analyzer_seconds{analyzer=openai,outcome=answered}", 1),
        ("auspex_analyzer_seconds{analyzer=openai,outcome=failed}", 1),
        ("auspex_analyzer_seconds{analyzer=words,outcome=answered}", 1),
        ("auspex_analyzer_seconds{analyzer=systemone,outcome=throttled}", 1),
        ("auspex_analyzer_throttled_total{}", 1),
    ];
    assert_eq!(readings, BTreeMap::from(expected.map(|(name, count)| (name.to_owned(), count))));
}
