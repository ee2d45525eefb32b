//! Exit codes and messages.

use serde_json::{Value, json};

use crate::world::World;

testkit::on_both!(
    every_failure_has_its_exit_code,
    what_cannot_be_undone_needs_yes,
    bad_input_is_named,
    messages_are_harmless,
);

async fn every_failure_has_its_exit_code(world: &World) {
    let mut person = world.person();
    for (arguments, code) in [
        (&["whoami", "--nonsense"] as &[&str], 2),
        (&["api", "GET", "v1/me"], 2),
        (&["objects", "get", "nobody"], 4),
        (&["signals", "get", "nothing"], 4),
        (&["api", "GET", "/v1/nothing"], 4),
        (&["signals", "set", "x", "--type", "score", "--instructions", "How?"], 5),
        (&["api", "GET", "/v1/members"], 3),
    ] {
        let ran = person.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert_eq!(ran.out, "", "{arguments:?}");
        assert!(!ran.err.is_empty(), "{arguments:?}");
    }
    let ran = person.run(&["objects", "get", "nobody"]);
    assert!(ran.err.contains("request id "), "{ran:?}");
    let ran = person.run(&["events", "send", "a", "--event", &"x".repeat(256)]);
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("events[0].name"), "{ran:?}");
    "http://127.0.0.1:9".clone_into(&mut person.url);
    let ran = person.run(&["whoami"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert_eq!(world.stranger().run(&["whoami"]).code, 3);
}

async fn what_cannot_be_undone_needs_yes(world: &World) {
    let person = world.person();
    person.says(&["events", "send", "a", "--message", "hello"]);
    for arguments in [&["objects", "delete", "a"] as &[&str], &["signals", "delete", "is_scammer"]] {
        let ran = person.run(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("--yes"), "{ran:?}");
    }
    assert_eq!(person.json(&["objects", "get", "a"])["event_count"], 1);
    person.says(&["objects", "delete", "a", "--yes"]);
    assert_eq!(person.run(&["objects", "get", "a"]).code, 4);
    person.says(&["signals", "delete", "is_scammer", "--yes"]);
    let left: Vec<Value> = person.json(&["signals", "list"])["signals"].as_array().unwrap().clone();
    assert_eq!(left.len(), 2);
}

async fn bad_input_is_named(world: &World) {
    let person = world.person();
    for (arguments, input, reason) in [
        (&["api", "POST", "/v1/rules", "-d", "{nonsense"] as &[&str], "", "not JSON"),
        (&["api", "POST", "/v1/rules", "-d", "@missing.json"], "", "missing.json"),
        (&["api", "POST", "/v1/rules", "-d", "-"], "[1,", "not JSON"),
        (&["objects", "get", "a", "--wait", "soon"], "", "30s"),
        (&["events", "send", "a"], "", "--message"),
        (&["rules", "create", "is_scammer > 0.5"], "", "--email"),
        (&["reviews", "resolve", "x", "ban", "--label", "is_scammer"], "", "SIGNAL=VALUE"),
        (&["login"], "", "--email"),
    ] {
        let ran = person.run_with(arguments, input);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(reason), "{arguments:?}: {ran:?}");
    }
    let ran = person.run(&["objects", "list", "-q", "is_scammer > many", "--strict"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    let ran = person.run(&["rules", "check", "is_scammer >", "--json"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    let check: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(check["valid"], json!(false));
    let message = check["error"]["message"].as_str().unwrap();
    assert!(ran.err.contains("the condition is not valid") && ran.err.contains(message), "{ran:?}");
    assert_eq!(person.run(&["rules", "check", "is_scammer > 0.5"]).code, 0);
    let ran = person.run(&["objects", "explain", "a", "is_scammer"]);
    assert_eq!(ran.code, 2, "what costs money is asked first: {ran:?}");
    assert!(ran.err.contains("charged") && ran.err.contains("--yes"), "{ran:?}");
}

async fn messages_are_harmless(world: &World) {
    let person = world.person();
    let odd = "odd\u{1b}[31m\u{202e} > 1";
    let warned = person.run(&["objects", "list", "-q", &format!("{odd} and is_scammer > 0")]);
    let refused = person.run(&["objects", "list", "-q", odd, "--strict"]);
    let missing = person.run(&["signals", "get", odd]);
    for (ran, code) in [(warned, 0), (refused, 5), (missing, 4)] {
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("odd\u{fffd}[31m\u{fffd}"), "what others wrote is harmless: {ran:?}");
        assert!(!ran.err.contains(['\u{1b}', '\u{202e}']), "{ran:?}");
    }
    let ran = person.run(&["events", "send", "a\u{202e}b", "--event", "sale"]);
    assert!(ran.code == 0 && ran.out.contains("a\u{fffd}b"), "{ran:?}");
}
