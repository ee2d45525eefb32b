//! How much memory a real process takes, whatever is sent to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::Running;

/// Together far more than the process may hold of bodies, which would take a gigabyte.
const REQUESTS: usize = 100;
const BODY_BYTES: usize = 3_800 * 1024;
/// What the process takes without requests, the bodies that it may hold for one account twice, and room for the rest.
const MAX_MEMORY: usize = 600 << 20;

/// Registrations whose passwords would together take five gigabytes to hash, and how long their clients wait for them.
const REGISTRATIONS: usize = 280;
const PATIENCE: Duration = Duration::from_millis(20);
/// What the process takes without requests, the few passwords that it hashes at a time, and room for the rest.
const MAX_MEMORY_OF_HASHES: usize = 400 << 20;

/// Sends a request.
fn begin(address: &str, path: &str, token: Option<&str>, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{token}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(body);
    stream
}

/// Sends a request and returns the response, or what came of it.
fn send(address: &str, path: &str, token: Option<&str>, body: &[u8]) -> String {
    let mut stream = begin(address, path, token, body);
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    response
}

const REGISTER: &str = "/auth/console/register";

fn account(email: &str) -> Vec<u8> {
    json!({"tenant_name": "Acme", "email": email, "password": "correct horse battery staple"})
        .to_string()
        .into_bytes()
}

#[test]
fn registrations_that_nobody_waits_for_take_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let service = Running::start(&directory, &[("AUSPEX_ANALYZER", "words")]);
    std::thread::scope(|scope| {
        for number in 0..REGISTRATIONS {
            let address = &service.address;
            scope.spawn(move || {
                let stream = begin(address, REGISTER, None, &account(&format!("{number}@example.com")));
                std::thread::sleep(PATIENCE);
                drop(stream);
            });
        }
    });
    // Hashed after all the others that have begun.
    let last = send(&service.address, REGISTER, None, &account("last@example.com"));
    assert!(last.starts_with("HTTP/1.1 201 "), "{last}");
    let peak = service.peak_memory();
    assert!(peak < MAX_MEMORY_OF_HASHES, "{} MiB", peak >> 20);
}

#[test]
fn a_flood_of_large_requests_takes_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("AUSPEX_ANALYZER", "words"), ("AUSPEX_INGEST_MIB_PER_MINUTE", "0")];
    let service = Running::start(&directory, &settings);
    let registered = send(&service.address, REGISTER, None, &account("ann@example.com"));
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

/// Events that together are several times what an export may take.
const EXPORTED_REQUESTS: usize = 60;
/// SQLite's caches, 16 MiB for each of four readers that take turns, and three pages of 8 MiB: one that is read, one that is
/// written, and what the connection buffers; and room for the rest.
const MAX_MEMORY_OF_EXPORT: usize = (4 * 16 + 3 * 8 + 8) << 20;

#[test]
fn an_export_takes_little_memory_however_slowly_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [
        ("AUSPEX_ANALYZER", "words"),
        ("AUSPEX_INGEST_MIB_PER_MINUTE", "0"),
        ("AUSPEX_DEBOUNCE_MS", "86400000"),
        ("AUSPEX_DEBOUNCE_MAX_MS", "86400000"),
    ];
    let service = Running::start(&directory, &settings);
    let registered = send(&service.address, REGISTER, None, &account("ann@example.com"));
    let (_, body) = registered.split_once("\r\n\r\n").unwrap();
    let token = serde_json::from_str::<Value>(body).unwrap()["token"].as_str().unwrap().to_owned();
    let event = json!({"type": "message", "content": "x".repeat(30 * 1024)});
    let events: Vec<&Value> = std::iter::repeat_n(&event, 100).collect();
    let body = json!({"events": events}).to_string().into_bytes();
    for number in 0..EXPORTED_REQUESTS {
        let response =
            send(&service.address, &format!("/v1/objects/user_{number}/events"), Some(&token), &body);
        assert!(response.starts_with("HTTP/1.1 202 "), "{response}");
    }
    let before = service.peak_memory();
    let mut stream = TcpStream::connect(&service.address).unwrap();
    let head = format!(
        "GET /v1/export?what=events HTTP/1.1\r\nhost: test\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The client takes a little, pauses, and then takes the rest: 180 MiB, of which nothing waits in the service.
    let mut first = vec![0; 64 * 1024];
    stream.read_exact(&mut first).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let paused = service.peak_memory();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let rows = rest.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"object_id\"")).count();
    assert!(rows >= EXPORTED_REQUESTS * 100 - 3, "{rows} rows");
    assert!(rest.ends_with(b"0\r\n\r\n"), "the stream ends properly");
    let (paused, after) = (paused.saturating_sub(before), service.peak_memory().saturating_sub(before));
    assert!(
        paused < MAX_MEMORY_OF_EXPORT && after < MAX_MEMORY_OF_EXPORT,
        "{} and {} MiB",
        paused >> 20,
        after >> 20
    );
}
