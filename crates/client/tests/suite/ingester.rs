//! The ingester against a scripted server: what is sent again, what is not, and what cannot be delivered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auspex_client::api::EventInput;
use auspex_client::{Client, Error, FailedBatch, IngesterOptions};
use serde_json::Value;

use super::{ACCEPTED, BUSY, ScriptedServer};

const INVALID: &str = r#"{"error":{"code":"bad_request","message":"events[0].name: wrong"}}"#;

fn quick() -> IngesterOptions {
    IngesterOptions { max_delay: Duration::from_millis(20), max_in_flight: 2, ..IngesterOptions::default() }
}

/// The names of the events of each request, in order of arrival.
fn names(server: &ScriptedServer) -> Vec<String> {
    let names = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        let events = body["events"].as_array().unwrap().iter();
        events.map(|event| event["name"].as_str().unwrap().to_owned()).collect::<String>()
    };
    server.received().iter().map(|request| names(&request.body)).collect()
}

#[tokio::test]
async fn events_of_an_object_travel_together_and_in_order() {
    let server = ScriptedServer::start((0..4).map(|_| (202, vec![], ACCEPTED))).await;
    let options = IngesterOptions { max_batch_events: 3, max_delay: Duration::from_mins(1), ..quick() };
    let ingester = server.client().ingester(options).unwrap();
    for name in ["1", "2", "3", "4"] {
        ingester.send("a", Some("user"), EventInput::event(name)).await.unwrap();
        ingester.send("b", None, EventInput::event(name)).await.unwrap();
    }
    assert!(ingester.pending_events() <= 8);
    ingester.close().await.unwrap();
    let of = |path: &str| -> Vec<String> {
        let received = server.received();
        let requests = received.iter().zip(names(&server)).filter(|(request, _)| request.path.contains(path));
        requests.map(|(_, names)| names).collect()
    };
    assert_eq!(
        (of("/a/"), of("/b/")),
        (vec!["123".to_owned(), "4".to_owned()], vec!["123".to_owned(), "4".to_owned()])
    );
    let received = server.received();
    let keys: BTreeSet<&str> =
        received.iter().map(|request| request.headers["idempotency-key"].to_str().unwrap()).collect();
    assert_eq!(keys.len(), 4, "each request has a key of its own");
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(
        body["object_type"],
        if received[0].path.contains("/a/") { "user".into() } else { Value::Null }
    );
}

#[tokio::test]
async fn flush_delivers_what_waits_and_the_ingester_goes_on() {
    let server = ScriptedServer::start((0..2).map(|_| (202, vec![], ACCEPTED))).await;
    let ingester =
        server.client().ingester(IngesterOptions { max_delay: Duration::from_mins(1), ..quick() }).unwrap();
    ingester.send("a", None, EventInput::event("1")).await.unwrap();
    ingester.flush().await;
    assert_eq!((names(&server), ingester.pending_events()), (vec!["1".to_owned()], 0));
    ingester.send("a", None, EventInput::event("2")).await.unwrap();
    // Not closed: what waits is delivered all the same.
    drop(ingester);
    let delivered = tokio::time::timeout(Duration::from_secs(20), async {
        while names(&server).len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    delivered.await.expect("the second event arrives");
}

#[tokio::test]
async fn an_outage_is_waited_out_with_the_same_key() {
    let unavailable = || (503, vec![("retry-after", "0")], BUSY);
    // Five attempts of one call, then another call.
    let server = ScriptedServer::start((0..5).map(|_| unavailable()).chain([(202, vec![], ACCEPTED)])).await;
    let ingester = server.client().ingester(quick()).unwrap();
    ingester.send("a", None, EventInput::event("1")).await.unwrap();
    ingester.close().await.unwrap();
    let received = server.received();
    assert_eq!(received.len(), 6);
    assert!(
        received
            .iter()
            .all(|request| request.headers["idempotency-key"] == received[0].headers["idempotency-key"])
    );
}

#[tokio::test]
async fn an_invalid_event_does_not_take_others_with_it() {
    let refused = || (400, vec![], INVALID);
    let accepted = || (202, vec![], ACCEPTED);
    // 123: 1 is taken; 23 is refused; 2 is refused; 3 is taken.
    let server = ScriptedServer::start([refused(), accepted(), refused(), refused(), accepted()]).await;
    let failures: Arc<Mutex<Vec<FailedBatch>>> = Arc::default();
    let seen = Arc::clone(&failures);
    let on_error = Arc::new(move |failure| {
        seen.lock().unwrap().push(failure);
        panic!("a program's own mistake");
    });
    let ingester = server.client().ingester(IngesterOptions { on_error: Some(on_error), ..quick() }).unwrap();
    for name in ["1", "2", "3"] {
        ingester.send("a", None, EventInput::event(name)).await.unwrap();
    }
    ingester.close().await.unwrap();
    assert_eq!(names(&server), ["123", "1", "23", "2", "3"]);
    let failures = failures.lock().unwrap();
    let failed: Vec<&str> =
        failures.iter().map(|failure| failure.events[0].name.as_deref().unwrap()).collect();
    assert_eq!((failed, failures[0].object_id.as_str()), (vec!["2"], "a"));
    assert_eq!(failures[0].error.status(), Some(400));
}

#[tokio::test]
async fn what_cannot_be_delivered_is_an_error_at_the_end() {
    let server =
        ScriptedServer::start([(402, vec![], BUSY), (409, vec![("events-recorded", "true")], BUSY)]).await;
    let options = IngesterOptions { max_in_flight: 1, ..quick() };
    let ingester = server.client().ingester(options).unwrap();
    ingester.send("a", None, EventInput::event("1")).await.unwrap();
    ingester.flush().await;
    // Recorded, whatever else went wrong: not sent again, and no failure.
    ingester.send("b", None, EventInput::event("2")).await.unwrap();
    let failed = ingester.close().await.unwrap_err();
    assert_eq!((failed.events, failed.last.status()), (1, Some(402)));
    assert_eq!(
        failed.to_string(),
        "1 events were not delivered; the last error: come back later (402, analyzer_busy)"
    );
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn senders_wait_while_too_much_waits() {
    let server = ScriptedServer::start((0..10).map(|_| (202, vec![], ACCEPTED))).await;
    let options = IngesterOptions { max_pending_events: 2, max_delay: Duration::from_mins(1), ..quick() };
    let ingester = server.client().ingester(options).unwrap();
    for number in 0..10 {
        ingester.send(&format!("object {number}"), None, EventInput::event("1")).await.unwrap();
        assert!(ingester.pending_events() <= 2);
    }
    ingester.close().await.unwrap();
    assert_eq!(server.received().len(), 10);
}

#[tokio::test]
async fn wrong_options_and_ids_are_refused() {
    let server = ScriptedServer::start([]).await;
    for options in [
        IngesterOptions { max_batch_events: 501, ..quick() },
        IngesterOptions { max_batch_events: 0, ..quick() },
        IngesterOptions { max_batch_bytes: 5 << 20, ..quick() },
        IngesterOptions { max_pending_events: 0, ..quick() },
        IngesterOptions { max_in_flight: 0, ..quick() },
    ] {
        assert!(matches!(server.client().ingester(options), Err(Error::Setup(_))));
    }
    let ingester = server.client().ingester(quick()).unwrap();
    for id in ["", ".", ".."] {
        assert!(matches!(ingester.send(id, None, EventInput::event("1")).await, Err(Error::Setup(_))));
    }
    ingester.close().await.unwrap();
}

#[tokio::test]
async fn closing_ends_in_time_while_the_service_is_down_and_returns_what_was_not_sent() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let client = Client::builder(url).key("ak_1", "sk_1").max_retries(0).build().unwrap();
    let options = IngesterOptions { close_timeout: Duration::from_millis(300), ..quick() };
    let ingester = client.ingester(options).unwrap();
    let objects = ["a", "b", "c", "d"];
    for object in objects {
        ingester.send(object, Some("user"), EventInput::event("1")).await.unwrap();
        ingester.send(object, None, EventInput::event("2")).await.unwrap();
    }
    let closed = tokio::time::timeout(Duration::from_secs(20), ingester.close()).await;
    let failed = closed.expect("closing ends").unwrap_err();
    assert!(matches!(&*failed.last, Error::GivenUp(_)), "{failed}");
    assert_eq!(failed.events, 8);
    let mut returned: Vec<(&str, Option<&str>, Vec<&str>)> = failed
        .batches
        .iter()
        .map(|batch| {
            let names = batch.events.iter().map(|event| event.name.as_deref().unwrap());
            (batch.object_id.as_str(), batch.object_type.as_deref(), names.collect())
        })
        .collect();
    returned.sort_unstable();
    assert_eq!(returned, objects.map(|object| (object, Some("user"), vec!["1", "2"])));
}

#[tokio::test]
async fn durations_may_be_longer_than_time() {
    let unavailable = || (503, vec![("retry-after", "0")], BUSY);
    // Five attempts of one call, then another call.
    let server = ScriptedServer::start((0..5).map(|_| unavailable()).chain([(202, vec![], ACCEPTED)])).await;
    let (max_delay, retry_for, close_timeout) = (Duration::MAX, Duration::MAX, Duration::MAX);
    let options = IngesterOptions { max_delay, retry_for, close_timeout, ..quick() };
    let ingester = server.client().ingester(options).unwrap();
    ingester.send("a", None, EventInput::event("1")).await.unwrap();
    ingester.close().await.unwrap();
    assert_eq!(server.received().len(), 6);
}

#[tokio::test]
async fn what_is_left_at_close_is_returned_however_much_failed_before() {
    let server = ScriptedServer::start((0..3).map(|_| (402, vec![], BUSY))).await;
    let options = IngesterOptions { max_pending_events: 1, max_delay: Duration::from_mins(1), ..quick() };
    let ingester = server.client().ingester(options).unwrap();
    for object in ["a", "b"] {
        ingester.send(object, None, EventInput::event("1")).await.unwrap();
        ingester.flush().await;
    }
    ingester.send("left", None, EventInput::event("1")).await.unwrap();
    let failed = ingester.close().await.unwrap_err();
    let returned: Vec<&str> = failed.batches.iter().map(|batch| batch.object_id.as_str()).collect();
    assert_eq!((failed.events, returned), (3, vec!["a", "left"]));
}
