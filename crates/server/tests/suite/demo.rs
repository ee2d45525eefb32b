//! `auspex demo`, as a stranger runs it.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn demo(variables: &[(&str, &str)]) -> (Output, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_auspex"));
    command.arg("demo").env_clear().current_dir(&directory).env("TMPDIR", directory.path());
    if cfg!(not(feature = "embedded")) {
        command.env("AUSPEX_ANALYZER", "words");
    }
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let left: Vec<_> = std::fs::read_dir(&directory).unwrap().collect();
    assert!(left.is_empty(), "it leaves nothing behind: {left:?}");
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    (output, told)
}

#[test]
fn it_tells_the_whole_story_in_under_a_minute() {
    let started = Instant::now();
    let (output, told) = demo(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(started.elapsed() < Duration::from_mins(1));
    let mut rest = told.as_str();
    for part in [
        "Open an account",
        "Signals are questions",
        "is_scammer",
        "A rule acts on answers",
        "Send what happens",
        "seller-quick-phones",
        "Read the answers",
        "What the rule did",
        "signature fits",
        "Or ask before you publish",
        "you would",
        "Find objects by their answers",
        "What it cost",
        "balance",
        "Your turn",
    ] {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("no {part:?} in its place: {told}"));
        rest = after;
    }
    assert!(told.contains("fired  seller-") || told.contains("the rule did not fire"), "{told}");
    assert!(!told.contains('✗') && !told.contains("no answers yet"), "{told}");
    assert!(!told.contains('\u{1b}'), "a pipe gets plain text");
}

#[test]
fn a_terminal_gets_colour_unless_it_does_not_want_any() {
    assert!(demo(&[("CLICOLOR_FORCE", "1")]).1.contains('\u{1b}'));
    assert!(!demo(&[("NO_COLOR", "1")]).1.contains('\u{1b}'));
}
