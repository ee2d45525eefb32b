//! Every promise in the table of `docs/security.md` names the tests that hold it; they exist, and they are run.

use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The rows of the table: what is promised, and what holds it.
fn promises() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(repository("docs/security.md")).unwrap();
    let (_, section) = text.split_once("\n## What is promised\n").expect("the section is there");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.skip(2).map(|(promise, tests)| (promise.to_owned(), tests.to_owned())).collect()
}

/// The files that a test named `crate::file::test` may be in.
fn candidates(krate: &str, file: &str) -> Vec<PathBuf> {
    let file = file.replace("::", "/");
    let base = if krate == "bench" { "bench".to_owned() } else { format!("crates/{krate}") };
    [format!("tests/suite/{file}.rs"), format!("src/{file}.rs"), format!("src/{file}/tests.rs")]
        .iter()
        .map(|path| repository(&format!("{base}/{path}")))
        .collect()
}

/// Whether a source file runs a function of this name as a test.
fn runs(source: &str, name: &str) -> bool {
    let Some(at) = source.find(&format!("fn {name}(")) else { return false };
    let above = source[..at].lines().rev().map(str::trim).skip_while(|line| matches!(*line, "" | "async"));
    let is_marked = above
        .take_while(|line| line.starts_with("#[") || line.starts_with("///"))
        .any(|line| line == "#[test]" || line.starts_with("#[tokio::test"));
    let listed = source.split("on_both!(").skip(1).filter_map(|rest| rest.split_once(')'));
    is_marked || listed.flat_map(|(names, _)| names.split(',')).any(|listed| listed.trim() == name)
}

#[test]
fn every_promise_names_tests_that_exist() {
    let promises = promises();
    assert!(promises.len() >= 27, "{}", promises.len());
    let mut missing = Vec::new();
    for (promise, tests) in &promises {
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            missing.push(format!("nothing holds: {promise}"));
        }
        for test in named.iter().filter(|test| !test.starts_with("make ")) {
            let found = test.split_once("::").and_then(|(krate, rest)| {
                let (file, name) = rest.rsplit_once("::")?;
                let sources =
                    candidates(krate, file).into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
                sources.map(|source| runs(&source, name)).find(|runs| *runs)
            });
            if found.is_none() {
                missing.push(format!("there is no test {test}, for: {promise}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_function_that_nobody_runs_is_no_test() {
    let source = "#[test]\nfn a() {}\nfn b() {}\ntestkit::on_both!(\n    c,\n    d\n);\nasync fn c(app: &App) {}\nasync fn e(app: &App) {}";
    let is_test = |name| runs(source, name);
    assert_eq!(["a", "b", "c", "d", "e"].map(is_test), [true, false, true, false, false]);
}
