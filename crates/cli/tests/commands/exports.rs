//! `auspex export`: into a file or a pipe, resumed after a break, and never over anything else.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};

use client::api::{EventInput, LabelInput};
use client::{Client, Ingest};
use serde_json::{Value, json};

use crate::world::{Person, World};

testkit::on_both!(
    a_broken_connection_costs_no_row,
    an_export_goes_on_after_the_last_whole_row_of_its_file,
    other_files_are_never_written_over,
    an_export_goes_to_a_pipe_in_either_format,
    what_may_not_be_exported_is_refused,
);

/// An account with events of 10 objects, 100 each, of this many bytes.
async fn filled(world: &World, bytes: usize) -> (Person, Client) {
    let (client, key, secret) = world.client().await;
    let content = "x\n\"".repeat(bytes / 3);
    for object in 0..10 {
        let event = |number: i32| EventInput::event(number.to_string()).with_content(&content);
        client.send(&format!("seller/{object}"), Ingest::new((0..100).map(event))).await.unwrap();
    }
    let mut person = world.stranger();
    person.variables = vec![("AUSPEX_KEY".to_owned(), key), ("AUSPEX_SECRET".to_owned(), secret)];
    (person, client)
}

/// What the rows of a file say they are, without their cursors.
fn rows(person: &Person, name: &str) -> Vec<(String, i64)> {
    let text = std::fs::read_to_string(person.home.path().join(name)).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        (row["object_id"].as_str().unwrap().to_owned(), row["seq"].as_i64().unwrap())
    };
    text.lines().map(row).collect()
}

fn is_each_once(mut rows: Vec<(String, i64)>, count: usize) -> bool {
    let all = rows.len();
    rows.sort();
    rows.dedup();
    rows.len() == count && all == count
}

/// Leads to a service, and breaks the first connections off after so many bytes of what it answers. Ends with the test.
fn breaking_proxy(target: String, after: Vec<usize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, inbound) in listener.incoming().enumerate() {
            let (inbound, limit) = (inbound.unwrap(), after.get(number).copied().unwrap_or(usize::MAX));
            let outbound = TcpStream::connect(target.trim_start_matches("http://")).unwrap();
            let (from, to) = (inbound.try_clone().unwrap(), outbound.try_clone().unwrap());
            std::thread::spawn(move || pass(from, to, usize::MAX));
            std::thread::spawn(move || pass(outbound, inbound, limit));
        }
    });
    format!("http://{address}")
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut limit: usize) {
    let mut buffer = [0; 16 * 1024];
    while limit > 0 {
        let Ok(read @ 1..) = from.read(&mut buffer) else { break };
        let taken = read.min(limit);
        if to.write_all(&buffer[..taken]).is_err() {
            break;
        }
        limit -= taken;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

async fn a_broken_connection_costs_no_row(world: &World) {
    let (mut person, _) = filled(world, 3_000).await;
    person.url = breaking_proxy(world.url.clone(), vec![100_000, 500_000, 10, 1_000_000]);
    let ran = person.run(&["export", "events", "--output", "events.ndjson"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1,000 rows written to events.ndjson.\n"), "{ran:?}");
    assert!(is_each_once(rows(&person, "events.ndjson"), 1_000));
    let watched = person.in_terminal(80, &["export", "events", "-o", "watched.ndjson"], "");
    assert!(watched.code == 0 && watched.out.contains(" rows, "), "{watched:?}");
}

async fn an_export_goes_on_after_the_last_whole_row_of_its_file(world: &World) {
    let (person, client) = filled(world, 300).await;
    for format in ["ndjson", "csv"] {
        let name = format!("events.{format}");
        let path = person.home.path().join(&name);
        let export = ["export", "events", "--format", format, "--output", &name];
        person.says(&export);
        let whole = std::fs::read(&path).unwrap();
        // Cut anywhere, also in the header and in the middle of a quoted cell.
        for at in [whole.len() / 2, whole.len() - 1, whole.len(), 70_001] {
            std::fs::write(&path, &whole[..at]).unwrap();
            person.says(&[&export[..], &["--resume"]].concat());
            assert!(std::fs::read(&path).unwrap() == whole, "{format} cut at {at}");
        }
    }
    // What has come in since is added.
    client.send("seller/new", Ingest::new([EventInput::event("late")])).await.unwrap();
    let added = person.says(&["export", "events", "--output", "events.ndjson", "--resume"]);
    assert_eq!(added, "1 rows added to events.ndjson.\n");
    assert!(is_each_once(rows(&person, "events.ndjson"), 1_001));
    // A file that is not there yet is begun.
    person.says(&["export", "events", "--output", "fresh.ndjson", "--resume"]);
    assert_eq!(rows(&person, "fresh.ndjson"), rows(&person, "events.ndjson"));
}

async fn other_files_are_never_written_over(world: &World) {
    let (person, _) = filled(world, 30).await;
    let path = person.home.path().join("notes.txt");
    for text in ["dear diary\n", "{\"a\": 1}\n", "a,b\r\n1,2\r\n", "half"] {
        std::fs::write(&path, text).unwrap();
        for more in [&[][..], &["--resume"], &["--resume", "--format", "csv"]] {
            let ran = person.run(&[&["export", "events", "--output", "notes.txt"], more].concat());
            assert_eq!(ran.code, 2, "{text:?} {more:?}: {ran:?}");
            assert!(ran.err.contains("notes.txt"), "{ran:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{more:?}");
        }
    }
    // The rows of another kind are not continued.
    person.says(&["export", "events", "--output", "events.ndjson"]);
    let before = rows(&person, "events.ndjson");
    let ran = person.run(&["export", "objects", "--output", "events.ndjson", "--resume"]);
    assert!(ran.code == 5 && ran.err.contains("cursor: does not belong to this list"), "{ran:?}");
    assert_eq!(rows(&person, "events.ndjson"), before);
}

async fn an_export_goes_to_a_pipe_in_either_format(world: &World) {
    let (person, client) = filled(world, 30).await;
    let label = LabelInput { value: json!(true), note: Some("=1+1".to_owned()) };
    client.put_label("seller/1", "is_scammer", &label).await.unwrap();
    let labels = person.says(&["export", "labels"]);
    let row: Value = serde_json::from_str(&labels).unwrap();
    assert_eq!((&row["object_id"], &row["note"]), (&json!("seller/1"), &json!("=1+1")));
    let csv = person.says(&["export", "labels", "--format", "csv"]);
    assert!(csv.starts_with("id,object_id,signal,version,value,note,") && csv.contains(",'=1+1,"), "{csv}");
    assert_eq!(person.says(&["export", "objects"]).lines().count(), 10);
    assert_eq!(person.says(&["export", "objects", "--to", "2020-01-01"]), "");
    let ran = person.shell("auspex export events | head -n 2 | wc -l");
    assert_eq!(ran.out.trim(), "2", "{ran:?}");
}

async fn what_may_not_be_exported_is_refused(world: &World) {
    let (person, _) = filled(world, 30).await;
    let ran = person.run(&["export", "audit"]);
    assert!(ran.code == 3 && ran.err.contains("only a signed-in user may do this"), "{ran:?}");
    assert_eq!(person.run(&["export", "secrets"]).code, 2);
    assert_eq!(person.run(&["export", "events", "--resume"]).code, 2, "--resume needs --output");
    let ran = person.run(&["export", "events", "--from", "yesterday"]);
    assert!(ran.code == 5 && ran.err.contains("from: it must be a date"), "{ran:?}");
}
