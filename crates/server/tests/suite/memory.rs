//! How much memory a real process takes, whatever is sent to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::Running;

/// Together far more than the process may hold of bodies, which would take a gigabyte.
const REQUESTS: usize = 100;
const BODY_BYTES: usize = 3_800 * 1024;
/// What the process takes without requests, the bodies that it may hold for one account twice, and room for the rest.
const MAX_MEMORY: usize = 600 << 20;

/// Sends a request and returns the response, or what came of it.
fn send(address: &str, path: &str, token: Option<&str>, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{token}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(body);
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    response
}

#[test]
fn a_flood_of_large_requests_takes_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("AUSPEX_ANALYZER", "words"), ("AUSPEX_INGEST_MIB_PER_MINUTE", "0")];
    let service = Running::start(&directory, &settings);
    let account = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": "correct horse battery staple"});
    let registered = send(&service.address, "/auth/console/register", None, account.to_string().as_bytes());
    let (_, body) = registered.split_once("\r\n\r\n").unwrap();
    let token = serde_json::from_str::<Value>(body).unwrap()["token"].as_str().unwrap().to_owned();
    let event = json!({"type": "message", "content": "x".repeat(30 * 1024)});
    let events: Vec<&Value> = std::iter::repeat_n(&event, BODY_BYTES / (30 * 1024)).collect();
    let body = json!({"events": events}).to_string().into_bytes();
    let statuses: Vec<String> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..REQUESTS)
            .map(|number| {
                let (address, token, body) = (&service.address, &token, &body);
                let path = format!("/v1/objects/user_{number}/events");
                scope.spawn(move || send(address, &path, Some(token), body))
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap().chars().skip(9).take(3).collect()).collect()
    });
    assert!(statuses.iter().any(|status| status == "202"), "{statuses:?}");
    let expected = ["202", "503", "408", ""];
    assert!(statuses.iter().all(|status| expected.contains(&status.as_str())), "{statuses:?}");
    let peak = service.peak_memory();
    assert!(peak < MAX_MEMORY, "{} MiB", peak >> 20);
}
