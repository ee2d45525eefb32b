//! The operator's commands on the database, beside a running service and without one.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use service::Clock;
use testkit::TestDatabase;
use uuid::Uuid;

use crate::app::{App, PASSWORD};
use crate::signer::Signer;

/// The key that every service of the suite runs with.
pub(crate) const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Another one, as good as it.
pub(crate) const OTHER_MASTER_KEY: &str = "//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA=";

testkit::on_both!(
    an_account_is_opened_and_listed,
    a_person_of_an_opened_account_signs_in,
    people_who_cannot_be_added_are_refused_with_a_reason,
    a_key_made_by_the_operator_signs_and_people_are_notified,
    keys_that_cannot_be_made_are_refused_with_a_reason,
    nonsense_is_refused_before_anything_is_written,
    a_wrong_master_key_is_refused,
);

/// The command with an empty environment, on this database.
pub(crate) fn auspex(directory: &Path, database_url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_auspex"));
    command.args(arguments).env_clear().current_dir(directory);
    command.env("AUSPEX_LISTEN", "127.0.0.1:0").env("AUSPEX_DATA_DIR", directory.join("data"));
    command.env("AUSPEX_DATABASE_URL", database_url).env("AUSPEX_MASTER_KEY", MASTER_KEY);
    if cfg!(not(feature = "embedded")) {
        command.env("AUSPEX_ANALYZER", "words");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end with this on its standard input.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments ends before it reads, and then nobody takes the input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// `auspex admin …` on the service's database; it must succeed, and what it prints is returned.
pub(crate) fn admin(app: &App, arguments: &[&str], input: &str) -> String {
    let output = attempt(app, arguments, input.as_bytes());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn attempt(app: &App, arguments: &[&str], input: &[u8]) -> Output {
    let directory = app.data_directory();
    let all: Vec<&str> = ["admin"].iter().chain(arguments).copied().collect();
    finish(auspex(directory.parent().unwrap(), app.database_url(), &all), input)
}

/// Asserts that a command fails, prints nothing to be taken for a result, and says why in plain words.
#[track_caller]
pub(crate) fn refused(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!output.status.success(), "succeeded: {}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!said.contains("panicked"), "{said}");
    let line = said.lines().find(|line| line.starts_with("auspex: ") || line.starts_with("error: "));
    line.unwrap_or_else(|| panic!("no clear line in {said:?}")).to_owned()
}

/// The account of a console token.
pub(crate) async fn tenant_of(app: &App, token: &str) -> String {
    let reply = app.call(token, Method::GET, "/v1/me", &Value::Null).await;
    reply.json()["tenant_id"].as_str().unwrap().to_owned()
}

async fn sign_in(app: &App, email: &str) -> String {
    let reply = app.post("/auth/console/login", &json!({"email": email, "password": PASSWORD})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["token"].as_str().unwrap().to_owned()
}

/// The key id and the secret that `key create` printed.
fn printed_signer(printed: &str) -> Signer {
    let value = |name: &str| {
        let mut words = printed.lines().filter_map(|line| line.split_once(char::is_whitespace));
        words.find(|(word, _)| *word == name).map(|(_, rest)| rest.trim()).unwrap_or_default()
    };
    Signer::new(value("key"), value("secret"))
}

async fn an_account_is_opened_and_listed(app: &App) {
    assert_eq!(admin(app, &["tenant", "list"], ""), "");
    let first = admin(app, &["tenant", "create", "Acme & Söhne"], "");
    let second = admin(app, &["tenant", "create", "Zenith"], "");
    let listed = admin(app, &["tenant", "list"], "");
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    for (line, id, name) in [(lines[0], first, "Acme & Söhne"), (lines[1], second, "Zenith")] {
        assert_eq!(id.parse::<Uuid>().unwrap().get_version_num(), 7);
        assert!(line.starts_with(&id) && line.ends_with(name), "{line}");
        assert!(line.contains("Z  "), "a time in between: {line}");
    }
    // An account that someone registered is listed beside them.
    app.register("ada@acme.example").await;
    assert_eq!(admin(app, &["tenant", "list"], "").lines().count(), 3);
}

async fn a_person_of_an_opened_account_signs_in(app: &App) {
    let tenant = admin(app, &["tenant", "create", "Acme"], "");
    // A line from `echo`, from a Windows pipe, and from `printf`: the line's end is not part of the password.
    for (email, end) in [("ada@acme.example", "\n"), ("bob@acme.example", "\r\n"), ("cleo@acme.example", "")]
    {
        let input = format!("{PASSWORD}{end}");
        let user = admin(app, &["user", "create", "--tenant", &tenant, email], &input);
        let token = sign_in(app, email).await;
        let me = app.call(&token, Method::GET, "/v1/me", &Value::Null).await.json();
        assert_eq!(me["tenant_id"], tenant);
        assert_eq!(me["tenant_name"], "Acme");
        assert_eq!(me["user_id"], user);
        assert_eq!(me["role"], "admin");
    }
    // The account got what a registration would have given it: its people share what it has.
    let ada = sign_in(app, "ada@acme.example").await;
    let bob = sign_in(app, "bob@acme.example").await;
    app.api_key(&ada).await;
    let keys = app.call(&bob, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    assert_eq!(keys["api_keys"].as_array().unwrap().len(), 1);
}

async fn people_who_cannot_be_added_are_refused_with_a_reason(app: &App) {
    let tenant = admin(app, &["tenant", "create", "Acme"], "");
    admin(app, &["user", "create", "--tenant", &tenant, "ada@acme.example"], PASSWORD);
    let nobody = Uuid::from_u128(7).to_string();
    for (account, email, password, reason) in [
        (tenant.as_str(), "ada@acme.example", PASSWORD, "email"),
        (&tenant, "ADA@acme.EXAMPLE", PASSWORD, "email"),
        (&tenant, "not an address", PASSWORD, "email"),
        (&tenant, "", PASSWORD, "email"),
        (&tenant, "bob@acme.example", "", "password"),
        (&tenant, "bob@acme.example", "\n", "password"),
        (&tenant, "bob@acme.example", "short", "password"),
        (&tenant, "bob@acme.example", "password1", "password"),
        (&tenant, "bob@acme.example", &"long ".repeat(60), "password"),
        (&nobody, "bob@acme.example", PASSWORD, "tenant"),
        ("Acme", "bob@acme.example", PASSWORD, "tenant"),
    ] {
        let output = attempt(app, &["user", "create", "--tenant", account, email], password.as_bytes());
        let line = refused(&output).to_lowercase();
        assert!(line.contains(reason), "{reason} in {line}");
        assert!(password.trim().is_empty() || !line.contains(password.trim()), "{line}");
    }
    let binary = attempt(app, &["user", "create", "--tenant", &tenant, "bob@acme.example"], &[0xff; 20]);
    refused(&binary);
    // None of them left a half-made person behind.
    admin(app, &["user", "create", "--tenant", &tenant, "bob@acme.example"], PASSWORD);
}

async fn a_key_made_by_the_operator_signs_and_people_are_notified(app: &App) {
    let token = app.register("ada@acme.example").await;
    let tenant = tenant_of(app, &token).await;
    let signer = printed_signer(&admin(app, &["key", "create", "--tenant", &tenant], ""));
    let named = admin(app, &["key", "create", "--tenant", &tenant, "--name", "batch import"], "");
    assert!(signer.key.starts_with("ak_") && signer.secret.starts_with("sk_"), "{signer:?}");
    for signer in [&signer, &printed_signer(&named)] {
        let me = signer.call(app, Method::GET, "/v1/me", &Value::Null).await.json();
        assert_eq!(me, json!({"auth_type": "tenant", "tenant_id": tenant, "tenant_name": "Acme"}));
    }
    let keys = app.call(&token, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    let names: Vec<&Value> = keys["api_keys"].as_array().unwrap().iter().map(|key| &key["name"]).collect();
    assert_eq!(names, ["API key", "batch import"]);
    // The command goes by the machine's clock, and the service sends mails when its own gets there.
    app.advance(Clock::system().now().since(app.now()));
    assert_eq!(app.subjects_to("ada@acme.example").await.len(), 2, "one mail for each key");
}

async fn keys_that_cannot_be_made_are_refused_with_a_reason(app: &App) {
    let tenant = admin(app, &["tenant", "create", "Acme"], "");
    let nobody = Uuid::from_u128(7).to_string();
    let long = "n".repeat(101);
    for (arguments, input, reason) in [
        (vec!["key", "create", "--tenant", &nobody], "", "tenant"),
        (vec!["key", "create", "--tenant", "Acme"], "", "tenant"),
        (vec!["key", "create", "--tenant", &tenant, "--name", &long], "", "name"),
        (vec!["key", "import-legacy", "--tenant", &nobody], "an-old-long-key-0123456789", "tenant"),
        (
            vec!["key", "import-legacy", "--tenant", &tenant, "--name", &long],
            "an-old-long-key-0123456789",
            "name",
        ),
        (vec!["key", "import-legacy", "--tenant", &tenant], "", "key"),
        (vec!["key", "import-legacy", "--tenant", &tenant], "\n", "key"),
        // What could be guessed, what no header carries, and what would be taken for another kind of credential.
        (vec!["key", "import-legacy", "--tenant", &tenant], "short", "key"),
        (vec!["key", "import-legacy", "--tenant", &tenant], "two words that are long", "key"),
        (vec!["key", "import-legacy", "--tenant", &tenant], "schl\u{fc}ssel-0123456789", "key"),
        (vec!["key", "import-legacy", "--tenant", &tenant], "eyJhbGciOiJI.eyJpYXQiOjE3.c2lnbmF0dXJl", "key"),
    ] {
        let line = refused(&attempt(app, &arguments, input.as_bytes())).to_lowercase();
        assert!(line.contains(reason), "{reason} in {line}");
    }
    // One old key authenticates one account, or nobody could say whose request it is.
    admin(app, &["key", "import-legacy", "--tenant", &tenant], "an-old-long-key-0123456789");
    let other = admin(app, &["tenant", "create", "Zenith"], "");
    for account in [&tenant, &other] {
        let again =
            attempt(app, &["key", "import-legacy", "--tenant", account], b"an-old-long-key-0123456789");
        assert!(!refused(&again).contains("an-old-long-key"));
    }
}

async fn nonsense_is_refused_before_anything_is_written(app: &App) {
    let long = "n".repeat(10_000);
    for arguments in [
        vec![],
        vec!["tenant"],
        vec!["tenant", "create"],
        vec!["tenant", "create", ""],
        vec!["tenant", "create", "  "],
        vec!["tenant", "create", &long],
        vec!["tenant", "create", "two", "names"],
        vec!["tenant", "drop", "Acme"],
        vec!["user", "create", "ada@acme.example"],
        vec!["key", "create"],
        vec!["key", "make", "--tenant", "x"],
        vec!["tenant", "create", "Acme", "--currency", "usd"],
    ] {
        let output = attempt(app, &arguments, b"");
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{arguments:?}");
    }
    assert_eq!(admin(app, &["tenant", "list"], ""), "");
}

/// Secrets sealed with one key are lost to another, so a mix-up must stop the start, not garble the database.
async fn a_wrong_master_key_is_refused(database: &TestDatabase) {
    let run = |arguments: &[&str], key: &str| {
        let mut command = auspex(database.directory(), database.url(), arguments);
        command.env("AUSPEX_MASTER_KEY", key);
        finish(command, b"")
    };
    assert!(run(&["migrate"], MASTER_KEY).status.success());
    assert!(run(&["admin", "tenant", "create", "Acme"], MASTER_KEY).status.success());
    let commands: [&[&str]; 3] =
        [&["serve"], &["admin", "tenant", "list"], &["admin", "tenant", "create", "Zenith"]];
    for arguments in commands {
        for key in [OTHER_MASTER_KEY, "dG9vIHNob3J0", "not base64!", ""] {
            let output = run(arguments, key);
            let line = refused(&output);
            assert!(line.to_lowercase().contains("master"), "{line}");
            assert!(key.is_empty() || !line.contains(key), "the key is a secret: {line}");
        }
    }
    assert!(run(&["admin", "tenant", "list"], MASTER_KEY).status.success());
}
