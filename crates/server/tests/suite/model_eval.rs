//! `auspex model eval`: the figures of the configured analyzer on labelled lines.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::run;
use crate::scripted_analyzer::{ScriptedAnalyzer, Turn, with_analyzer};

const SIGNAL: &str = r#"{"type": "noul", "instructions": "Is it fraud?"}"#;

fn written(directory: &TempDir, name: &str, lines: &[Value]) {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(directory.path().join(name), lines.join("\n")).unwrap();
}

async fn eval(directory: &TempDir, analyzer: &ScriptedAnalyzer, arguments: &[&str]) -> Output {
    let (directory, url) = (directory.path().to_owned(), analyzer.url());
    let arguments: Vec<String> =
        ["model", "eval"].iter().chain(arguments).map(|part| (*part).to_owned()).collect();
    let ran = tokio::task::spawn_blocking(move || {
        let place = tempfile::tempdir_in(&directory).unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for file in std::fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if file.path().is_file() {
                std::fs::copy(file.path(), place.path().join(file.file_name())).unwrap();
            }
        }
        run(&place, &arguments, &with_analyzer(&url))
    });
    ran.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn labelled_lines_are_asked_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let analyzer = ScriptedAnalyzer::start().await;
    analyzer.always(Turn::Answer(0.9));
    let choice =
        json!({"type": "choice", "instructions": "Which?", "criteria": {"first": null, "second": null}});
    let mut lines: Vec<Value> =
        (0..12).map(|number| json!({"text": format!("line {number}"), "value": number < 9})).collect();
    for number in 0..10 {
        let events = json!([{"type": "event", "name": "signup"}, {"type": "message", "content": "hello"}]);
        let truth = if number < 4 { "first" } else { "second" };
        lines.push(json!({"events": events, "object_type": "shop", "signal": choice, "value": truth}));
    }
    written(&directory, "lines.ndjson", &lines);
    std::fs::write(directory.path().join("signal.json"), SIGNAL).unwrap();
    let ran = eval(&directory, &analyzer, &["lines.ndjson", "--signal", "signal.json", "--json"]).await;
    assert!(ran.status.success(), "{ran:?}");
    let reports: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&reports[0]["labels"], &reports[0]["accuracy"]["value"]), (&json!(12), &json!(0.75)));
    assert_eq!((&reports[1]["labels"], &reports[1]["accuracy"]["value"]), (&json!(10), &json!(0.4)));
    assert_eq!(reports[1]["confusion"]["second"]["first"], 6);
    assert_eq!(analyzer.count(), 22);
    assert!(
        analyzer.seen().iter().any(|state| state.contains("Object of type shop") && state.contains("signup"))
    );
    let ran = eval(&directory, &analyzer, &["lines.ndjson", "--signal", "signal.json"]).await;
    let table = String::from_utf8(ran.stdout).unwrap();
    assert!(table.starts_with("Answers of scripted;"), "{table}");
    assert!(table.contains("question_1  noul    12     0.750 (0.468 to 0.911)"), "{table}");
    let arguments = ["lines.ndjson", "--signal", "signal.json", "--second-accuracy", "0.9"];
    let table = String::from_utf8(eval(&directory, &analyzer, &arguments).await.stdout).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in [
        ["question_1", "12", "0.250", "0.242", "0.235", "0.220", "0.205", "0.175", "0.100"],
        ["question_2", "10", "0.600", "0.575", "0.550", "0.500", "0.450", "0.350", "0.100"],
    ] {
        assert!(rows.contains(&expected.to_vec()), "{expected:?} in {table}");
    }
    let wrong = ["lines.ndjson", "--signal", "signal.json", "--second-accuracy", "2"];
    assert!(!eval(&directory, &analyzer, &wrong).await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_line_is_named_before_anything_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let analyzer = ScriptedAnalyzer::start().await;
    std::fs::write(directory.path().join("signal.json"), SIGNAL).unwrap();
    let good = json!({"text": "a", "value": true});
    for (line, reason) in [
        (json!({"text": "a"}), "value: it is required"),
        (json!({"text": "a", "value": "maybe"}), "value: "),
        (json!({"value": true}), "text: give text or events"),
        (json!({"text": "a", "value": true, "extra": 1}), "extra"),
        (json!({"text": "a", "value": true, "signal": {"type": "noul"}}), "signal.instructions"),
        (json!({"events": [], "value": true}), "events: there must be 1 to"),
    ] {
        written(&directory, "lines.ndjson", &[good.clone(), line]);
        let ran = eval(&directory, &analyzer, &["lines.ndjson", "--signal", "signal.json"]).await;
        let told = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success() && told.contains("lines.ndjson, line 2: "), "{told}");
        assert!(told.contains(reason), "{reason}: {told}");
    }
    written(&directory, "lines.ndjson", &[good]);
    let ran = eval(&directory, &analyzer, &["lines.ndjson"]).await;
    assert!(String::from_utf8(ran.stderr).unwrap().contains("signal: it is required without --signal"));
    let ran = eval(&directory, &analyzer, &["nowhere.ndjson"]).await;
    assert!(String::from_utf8(ran.stderr).unwrap().contains("nowhere.ndjson"));
    assert_eq!(analyzer.count(), 0);
}
