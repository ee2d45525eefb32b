use std::io::Write as _;

use super::*;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn open(path: &Path, position: &Position) -> Result<Reader, Box<dyn std::error::Error>> {
    Reader::open(path, position, Syntax::Ndjson, None)
}

fn read(text: &str) -> Window {
    let file = file(text);
    open(file.path(), &Position::default()).unwrap().next_window().unwrap()
}

/// The object, first line, last line and number of events of each part.
fn shape(window: &Window) -> Vec<(String, u64, u64, usize)> {
    let parts = window.objects.iter().flatten();
    parts
        .map(|part| (part.object_id.clone(), part.first_line(), part.last_line(), part.events().count()))
        .collect()
}

#[test]
fn lines_of_an_object_go_together_in_both_forms() {
    let window = read(
        "{\"object_id\":\"a\",\"type\":\"event\",\"name\":\"x\"}\n\
         {\"object_id\":\"b\",\"events\":[{\"type\":\"event\"},{\"type\":\"message\",\"content\":\"hi\"}]}\n\
         \n\
         {\"object_id\":\"a\",\"type\":\"event\"}",
    );
    assert!(window.is_last && window.bad.is_none());
    assert_eq!(shape(&window), [("a".to_owned(), 1, 4, 2), ("b".to_owned(), 2, 2, 2)]);
    assert_eq!(window.end.lines, 4);
}

#[test]
fn a_request_has_at_most_500_events_and_one_type() {
    let mut text = "{\"object_id\":\"a\",\"object_type\":\"user\",\"type\":\"event\"}\n".repeat(501);
    text += "{\"object_id\":\"a\",\"object_type\":\"shop\",\"type\":\"event\"}\n";
    let window = read(&text);
    let a = "a".to_owned();
    assert_eq!(shape(&window), [(a.clone(), 1, 500, 500), (a.clone(), 501, 501, 1), (a, 502, 502, 1)]);
}

#[test]
fn large_events_are_spread_over_requests() {
    let line =
        format!("{{\"object_id\":\"a\",\"type\":\"message\",\"content\":\"{}\"}}\n", "x".repeat(30_000));
    let window = read(&line.repeat(250));
    assert!(window.objects[0].len() > 1);
    for part in &window.objects[0] {
        let bytes: usize = part.events().map(|event| serde_json::to_vec(event).unwrap().len()).sum();
        assert!(bytes <= PART_BYTES, "{bytes}");
    }
}

#[test]
fn windows_are_bounded_and_their_ends_resume() {
    let line =
        format!("{{\"object_id\":\"a\",\"type\":\"message\",\"content\":\"{}\"}}\n", "x".repeat(30_000));
    let file = file(&line.repeat(600));
    let mut reader = open(file.path(), &Position::default()).unwrap();
    let first = reader.next_window().unwrap();
    assert!(!first.is_last && first.end.lines < 600);
    let second = reader.next_window().unwrap();
    let resumed = open(file.path(), &first.end).unwrap().next_window().unwrap();
    assert_eq!(shape(&resumed), shape(&second));
    let keys = |window: &Window| -> Vec<String> { window.objects.iter().flatten().map(Part::key).collect() };
    assert_eq!(keys(&resumed), keys(&second), "the same requests have the same keys");
    assert!(keys(&first).iter().all(|key| !keys(&second).contains(key)), "equal lines elsewhere have others");
}

#[test]
fn a_changed_file_is_refused() {
    let first = "{\"object_id\":\"a\",\"type\":\"event\"}\n";
    let end = read(first).end;
    let longer = file(&format!("{first}{first}"));
    let mut reader = open(longer.path(), &end).unwrap();
    assert_eq!(shape(&reader.next_window().unwrap()), [("a".to_owned(), 2, 2, 1)], "a file may grow");
    for other in ["", "{\"object_id\":\"b\",\"type\":\"event\"}\n"] {
        assert!(open(file(other).path(), &end).is_err(), "{other:?}");
    }
}

#[test]
fn a_window_ends_at_an_invalid_line() {
    let good = "{\"object_id\":\"a\",\"type\":\"event\"}";
    let long = format!("{{\"object_id\":\"a\",\"type\":\"event\",\"name\":\"{}\"}}", "n".repeat(256));
    for (bad, reason) in [
        ("{", "it is not JSON: see column 1"),
        ("[]", "it must be a JSON object"),
        ("{\"type\":\"event\"}", "object_id: it is required"),
        ("{\"object_id\":\"a\"}", "events"),
        ("{\"object_id\":\"a\",\"type\":\"story\"}", "type: it must be one of: event, message"),
        ("{\"object_id\":\"\",\"type\":\"event\"}", "object_id"),
        ("{\"object_id\":\"a\",\"events\":[]}", "events"),
        ("{\"object_id\":\"a\",\"type\":\"event\",\"events\":[]}", "both"),
        (&long, "name"),
    ] {
        let file = file(&format!("{good}\n{bad}\n{good}\n"));
        let mut reader = open(file.path(), &Position::default()).unwrap();
        let window = reader.next_window().unwrap();
        let bad = window.bad.unwrap();
        assert_eq!(bad.line, 2);
        assert!(bad.reason.contains(reason), "{reason} in {}", bad.reason);
        assert_eq!(window.objects[0].len(), 1);
        assert_eq!((window.before_bad.lines, window.end.lines), (1, 2));
        let rest = reader.next_window().unwrap();
        assert_eq!((rest.objects[0][0].first_line(), rest.is_last), (3, true));
    }
}

#[test]
fn a_part_is_halved_down_to_its_lines() {
    let window =
        read(&"{\"object_id\":\"a\",\"events\":[{\"type\":\"event\"},{\"type\":\"event\"}]}\n".repeat(3));
    let part = &window.objects[0][0];
    let (first, second) = part.halves().unwrap();
    assert_eq!((first.first_line(), first.last_line(), second.first_line()), (1, 2, 3));
    assert!(second.halves().is_none());
    let keys = [part.key(), first.key(), second.key()];
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    assert!(keys.iter().all(|key| key.len() <= 255));
}
