//! What differs on a terminal: width, colours, questions.

use testkit::{Backend, run_on};

use crate::world::{PASSWORD, World};

#[test]
fn tables_fit_the_terminal_and_have_colours() {
    run_on(Backend::Sqlite, async |world: &World| {
        let person = world.person();
        let long = format!("seller/{}", "x".repeat(120));
        person.says(&["events", "send", &long, "--message", "\u{1b}[31mred\u{202e}", "--wait"]);
        let plain = |text: &str| -> String {
            let mut plain = String::new();
            let mut parts = text.split("\u{1b}[");
            plain.extend(parts.next());
            plain.extend(parts.filter_map(|part| part.split_once('m')).map(|(_, rest)| rest));
            plain
        };
        for columns in [40, 80, 140] {
            for arguments in
                [&["objects", "list"] as &[&str], &["signals", "list"], &["events", "list", &long]]
            {
                let ran = person.in_terminal(columns, arguments, "");
                assert_eq!(ran.code, 0, "{ran:?}");
                assert!(ran.out.contains("\u{1b}[1m"), "headings are bold: {ran:?}");
                assert!(!ran.out.contains("\u{1b}[31m"), "what strangers wrote is harmless: {ran:?}");
                let shown = plain(&ran.out);
                let widest = shown
                    .lines()
                    .filter(|line| !line.starts_with("no room"))
                    .map(|line| line.chars().count());
                assert!(widest.max().unwrap() <= usize::from(columns), "{columns}: {shown}");
            }
        }
        let ran = person.in_terminal(80, &["objects", "list"], "");
        assert!(ran.out.contains('…') && ran.out.contains(" ago"), "{ran:?}");
        for arguments in [&["objects", "list", "--no-color"] as &[&str], &["objects", "list", "--json"]] {
            let ran = person.in_terminal(80, arguments, "");
            assert!(!ran.out.contains('\u{1b}'), "{ran:?}");
        }
        let ran = person.in_terminal(80, &["objects", "list", "--json"], "");
        assert!(ran.out.starts_with("{\n  \"objects\": ["), "indented: {ran:?}");
        let mut colourless = person;
        colourless.variables.push(("NO_COLOR".to_owned(), "1".to_owned()));
        assert!(!colourless.in_terminal(80, &["objects", "list"], "").out.contains('\u{1b}'));
    });
}

#[test]
fn a_terminal_is_asked() {
    run_on(Backend::Sqlite, async |world: &World| {
        let person = world.person();
        person.says(&["events", "send", "a", "--message", "hello"]);
        let ran = person.in_terminal(80, &["objects", "delete", "a"], "n\n");
        assert_eq!(ran.code, 1);
        assert!(ran.out.contains("[y/N]") && ran.out.contains("nothing was changed"), "{ran:?}");
        let ran = person.in_terminal(80, &["objects", "delete", "a"], "y\n");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(person.run(&["objects", "get", "a"]).code, 4);
    });
}

#[test]
fn a_password_is_asked_for_and_never_shown() {
    run_on(Backend::Sqlite, async |world: &World| {
        let person = world.person();
        let typed = format!("{PASSWORD}x\u{7f}\n");
        let ran = person.type_after(&["login", "--email", &person.email], "Password:", &typed);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.out.contains("seven"), "{ran:?}");
        let ran = person.type_after(&["login", "--email", &person.email], "Password:", "\u{3}");
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.contains("interrupted"), "{ran:?}");
    });
}
