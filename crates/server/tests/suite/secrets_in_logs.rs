//! The real binary at its most talkative: whatever it is told, no secret reaches its log, nor its database as it is.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use aho_corasick::AhoCorasick;
use model::totp;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use service::Clock;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use testkit::{Backend, PATIENCE, Stage as _, TestDatabase};

use crate::admin::{MASTER_KEY, auspex, finish};
use crate::app::Reply;
use crate::receiver::Receiver;
use crate::signer::Signer;
use crate::traces::collector::Collector;

/// Passwords that nobody guesses and nothing else in a log looks like.
const FIRST_PASSWORD: &str = "first-violet-Kestrel-41-harbour";
const SECOND_PASSWORD: &str = "second-amber-Heron-52-orchard";
const THIRD_PASSWORD: &str = "third-umber-Plover-63-meadow";
const WRONG_PASSWORD: &str = "wrong-ochre-Dunlin-74-quarry";
const MISPLACED_PASSWORD: &str = "misplaced-teal-Avocet-85-cellar";
const OLD_KEY: &str = "live_4be0d9c8a7f6e5d4c3b2a1908f7e6d5c4b3a2918";
const WRONG_OLD_KEY: &str = "live_77777777777777777777777777777777777777";
const WRONG_BEARER_KEY: &str = "bk_9d2e7c4b1f8a6053wrongwrongwrong";
const QUERY_TOKEN: &str = "query-token-2f7c1d9e8b6a5043";
const URL_TOKEN: &str = "url-token-3b8e6d1f9a7c2054";
const DATABASE_PASSWORD: &str = "database-sorrel-Curlew-96-lantern";
const SETTINGS: &[(&str, &str)] = &[
    ("AUSPEX_METRICS_TOKEN", "metrics-token-8a7b6c5d4e3f2a1b"),
    ("AUSPEX_GOOGLE_CLIENT_ID", "google-client"),
    ("AUSPEX_GOOGLE_CLIENT_SECRET", "google-secret-1a2b3c4d5e6f7a8b"),
    ("AUSPEX_STRIPE_SECRET_KEY", "sk_test_stripe9c8b7a6f5e4d3c2b"),
    ("AUSPEX_STRIPE_WEBHOOK_SECRET", "whsec_stripe0f1e2d3c4b5a6978"),
    ("AUSPEX_ANALYZER_API_KEY", "analyzer-key-5d4c3b2a1f0e9d8c"),
];

/// The service in a process of its own, with its log in a file, however much it writes.
pub(crate) struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    printed: String,
    log: PathBuf,
    base: String,
    client: Client,
}

impl Process {
    pub(crate) fn start(directory: &Path, database_url: &str, variables: &[(&str, &str)]) -> Self {
        let log = directory.join("auspex.log");
        let mut command = auspex(directory, database_url, &["serve"]);
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        let mut child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut printed = String::new();
        stdout.read_line(&mut printed).unwrap();
        let Some((_, base)) = printed.trim_end().split_once(" listens on ") else {
            panic!("the service did not start: {printed:?} {}", std::fs::read_to_string(&log).unwrap());
        };
        let base = base.to_owned();
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
        Self { child, stdout, printed, log, base, client }
    }

    /// The same service, spoken to in HTTP/2.
    fn speak_http2(&mut self) {
        let builder = Client::builder().timeout(PATIENCE).no_proxy();
        self.client = builder.http2_prior_knowledge().build().unwrap();
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Reply {
        let response = request.send().await.expect("the service answers");
        let (status, headers) = (response.status(), response.headers().clone());
        Reply { status, headers, text: response.text().await.expect("the answer is text") }
    }

    async fn post(&self, token: &str, path: &str, body: &Value, expected: u16) -> Value {
        let request = self.request(Method::POST, path);
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        let reply = self.send(if body.is_null() { request } else { request.json(body) }).await;
        assert_eq!(reply.status, expected, "{path}: {}", reply.text);
        if reply.text.is_empty() { Value::Null } else { reply.json() }
    }

    /// Tells it to stop, and returns all that it said.
    pub(crate) fn stop(mut self) -> String {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.stdout.read_to_string(&mut self.printed).unwrap();
        assert!(self.child.wait().unwrap().success());
        std::mem::take(&mut self.printed) + &std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    /// A story that fails leaves no service behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All that must stay secret, each with what it is.
#[derive(Default)]
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn add(&mut self, what: &'static str, secret: &str) {
        assert!(secret.len() >= 6, "{what}: too short to search for: {secret}");
        self.0.push((what, secret.to_owned()));
    }

    /// Keeps a secret of an answer, and hands it on.
    fn keep(&mut self, what: &'static str, value: &Value) -> String {
        let secret = value.as_str().unwrap_or_else(|| panic!("{what} in {value}")).to_owned();
        self.add(what, &secret);
        secret
    }

    #[track_caller]
    fn are_not_in(&self, log: &str) {
        for (what, secret) in &self.0 {
            if let Some(line) = log.lines().find(|line| shows(line, secret)) {
                panic!("the log shows the {what} {secret}: {line}");
            }
        }
    }
}

/// Whether a line shows a secret. Six digits also come up by chance in times and ids: a code stands by itself.
fn shows(line: &str, secret: &str) -> bool {
    let is_code = secret.len() <= 6;
    let part_of_another =
        |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '.');
    line.match_indices(secret).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + secret.len()..]);
        !is_code || !(part_of_another(before.chars().next_back()) || part_of_another(after.chars().next()))
    })
}

fn now() -> model::Timestamp {
    Clock::system().now()
}

fn from_base32(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0_u32);
    for letter in text.bytes() {
        let value = alphabet.iter().position(|known| *known == letter).unwrap();
        bits = bits << 5 | u32::try_from(value).unwrap();
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap());
        }
    }
    bytes
}

/// What follows `mark` in the first mail that has it, up to the end of the word.
async fn word_in_mail(directory: &Path, mark: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mails = std::fs::read_dir(directory.join("data/mail")).into_iter().flatten();
        for path in mails.map(|entry| entry.unwrap().path()) {
            // A mail is written under another name first, which may be gone by now.
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let Ok(mail) = mailparse::parse_mail(&bytes) else { continue };
            for part in mail.parts().filter(|part| part.ctype.mimetype == "text/plain") {
                if let Some((_, rest)) = part.get_body().unwrap().split_once(mark) {
                    return rest.split_whitespace().next().unwrap().to_owned();
                }
            }
        }
        assert!(Instant::now() < deadline, "no mail with {mark}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Registration, sign-in right and wrong, and two changes of password.
async fn sign_in_story(process: &Process, directory: &Path, secrets: &mut Secrets) -> String {
    let account = json!({"tenant_name": "Acme", "email": "ada@acme.example", "password": FIRST_PASSWORD});
    let token = process.post("", "/auth/console/register", &account, 201).await;
    secrets.keep("console token", &token["token"]);
    let login = |email: &str, password: &str| json!({"email": email, "password": password});
    let path = "/auth/console/login";
    process.post("", path, &login("ada@acme.example", WRONG_PASSWORD), 401).await;
    process.post("", path, &login("eve@acme.example", WRONG_PASSWORD), 401).await;
    process.post("", path, &login(MISPLACED_PASSWORD, WRONG_PASSWORD), 401).await;
    process.post("", path, &login(&format!("{MISPLACED_PASSWORD}@acme.example"), "x"), 401).await;
    process.post("", "/auth/console/password/forgot", &json!({"email": MISPLACED_PASSWORD}), 400).await;
    let signed_in = process.post("", path, &login("ada@acme.example", FIRST_PASSWORD), 200).await;
    let token = secrets.keep("console token", &signed_in["token"]);
    let change = json!({"current_password": WRONG_PASSWORD, "new_password": SECOND_PASSWORD});
    process.post(&token, "/v1/me/password", &change, 400).await;
    let change = json!({"current_password": FIRST_PASSWORD, "new_password": SECOND_PASSWORD});
    secrets.keep("console token", &process.post(&token, "/v1/me/password", &change, 200).await["token"]);
    process.post("", "/auth/console/password/forgot", &json!({"email": "ada@acme.example"}), 202).await;
    let reset = word_in_mail(directory, "/console/reset?token=").await;
    secrets.add("reset token", &reset);
    let path = "/auth/console/password/reset";
    process.post("", path, &json!({"token": QUERY_TOKEN, "password": THIRD_PASSWORD}), 400).await;
    process.post("", path, &json!({"token": reset, "password": "password"}), 400).await;
    process.post("", path, &json!({"token": reset, "password": THIRD_PASSWORD}), 204).await;
    process.post("", path, &json!({"token": reset, "password": THIRD_PASSWORD}), 400).await;
    let login = login("ada@acme.example", THIRD_PASSWORD);
    let signed_in = process.post("", "/auth/console/login", &login, 200).await;
    secrets.keep("console token", &signed_in["token"])
}

/// Two-factor on, used with both kinds of code, and off.
async fn two_factor_story(process: &Process, token: &str, secrets: &mut Secrets) {
    let setup = process.post(token, "/v1/me/mfa/setup", &Value::Null, 200).await;
    let seed = from_base32(&secrets.keep("authenticator secret", &setup["secret"]));
    let step = totp::step_at(now());
    process.post(token, "/v1/me/mfa/enable", &json!({"code": "not-a-code-7f3a"}), 400).await;
    let code = totp::code(&seed, step);
    let enabled = process.post(token, "/v1/me/mfa/enable", &json!({"code": code}), 200).await;
    let recovery: Vec<String> = enabled["recovery_codes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| secrets.keep("recovery code", code))
        .collect();
    let login = |code: &str| json!({"email": "ada@acme.example", "password": THIRD_PASSWORD, "code": code});
    // The step after the one that was used up; the service takes it early.
    let next = totp::code(&seed, step + 1);
    for code in [recovery[0].as_str(), &next] {
        let signed_in = process.post("", "/auth/console/login", &login(code), 200).await;
        secrets.keep("console token", &signed_in["token"]);
    }
    process.post("", "/auth/console/login", &login(&recovery[0]), 401).await;
    process.post("", "/auth/console/login", &login("misplaced-code-6b1e"), 401).await;
    let disable = json!({"password": THIRD_PASSWORD, "code": recovery[1]});
    process.post(token, "/v1/me/mfa/disable", &disable, 204).await;
    for (what, code) in [
        ("authenticator code", code.as_str()),
        ("authenticator code", &next),
        ("wrong code", "not-a-code-7f3a"),
        ("wrong code", "misplaced-code-6b1e"),
    ] {
        secrets.add(what, code);
    }
}

/// A key made, used, rotated and used again, with secrets in places where they do not belong.
async fn key_story(process: &Process, token: &str, legacy: &str, secrets: &mut Secrets) {
    let made = process.post(token, "/v1/api_keys", &json!({"name": "production"}), 201).await;
    let path = format!("/v1/api_keys/{}", made["api_key"]["id"].as_str().unwrap());
    let old = secrets.keep("signing secret", &made["secret"]);
    let rotated = process.post(token, &format!("{path}/rotate"), &Value::Null, 200).await;
    let new = secrets.keep("signing secret", &rotated["secret"]);
    let key = made["key"].as_str().unwrap();
    for (secret, status) in [(&old, 401), (&new, 200)] {
        let signed = Signer::new(key, secret).sign(now(), &Method::GET, "/v1/me");
        secrets.add("signed token", &signed);
        secrets.add("signature", signed.rsplit('.').next().unwrap());
        let request = process.request(Method::GET, "/v1/me").bearer_auth(&signed);
        assert_eq!(process.send(request).await.status, status);
        let request = process.request(Method::GET, &format!("/v1/me?jwt={signed}"));
        assert_eq!(process.send(request).await.status, 401);
    }
    for way in ["access_token", "token", "jwt", "api_key", "password"] {
        let request = process.request(Method::GET, &format!("/v1/me?{way}={QUERY_TOKEN}"));
        assert_eq!(process.send(request.bearer_auth(WRONG_OLD_KEY)).await.status, 401);
    }
    process.post(token, "/v1/api_keys", &json!({"name": [new]}), 400).await;
    for (credential, status) in [(OLD_KEY, 200), (WRONG_OLD_KEY, 401), (&*new, 401)] {
        let request = process.request(Method::GET, "/v1/me").header("X-API-Key", credential);
        assert_eq!(process.send(request).await.status, status);
        let request = process.request(Method::GET, "/v1/me").bearer_auth(credential);
        assert_eq!(process.send(request).await.status, status);
        let exchange = json!({"api_key": legacy, "secret": credential});
        let exchanged = process.post("", "/auth/token", &exchange, status).await;
        if status == 200 {
            secrets.keep("tenant token", &exchanged["token"]);
        }
    }
    let broken = format!("{{\"password\": \"{MISPLACED_PASSWORD}\", ");
    let request = process.request(Method::POST, "/auth/console/login").body(broken);
    assert_eq!(process.send(request).await.status, 400);
}

/// Bearer keys in the query, where clients of Perspective put theirs: on their own routes, and where they do not belong.
async fn bearer_story(process: &Process, token: &str, secrets: &mut Secrets) {
    let mut keys = Vec::new();
    for scope in ["moderate", "mcp"] {
        let request = json!({"name": scope, "kind": "bearer", "scopes": [scope]});
        let made = process.post(token, "/v1/api_keys", &request, 201).await;
        keys.push(secrets.keep("bearer key", &made["secret"]));
    }
    let (moderate, mcp) = (keys[0].as_str(), keys[1].as_str());
    let comment = json!({"comment": {"text": "what a day"}, "requestedAttributes": {"TOXICITY": {}}});
    let analyze = "/v1alpha1/comments:analyze";
    for (path, key, status) in [
        (analyze, moderate, 200),
        (analyze, mcp, 403),
        (analyze, WRONG_BEARER_KEY, 400),
        ("/v1/moderations", moderate, 401),
        ("/mcp", mcp, 401),
        ("/v1alpha1/comments:forget", moderate, 404),
        ("/v1/moderations", WRONG_BEARER_KEY, 401),
    ] {
        let request = process.request(Method::POST, path).query(&[("key", key)]).json(&comment);
        let reply = process.send(request).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        let request = process.request(Method::POST, path).bearer_auth(key).json(&comment);
        process.send(request).await;
    }
}

/// Deliveries to a receiver that is there, and to one that is not, both with tokens in their addresses.
async fn webhook_story(process: &Process, token: &str) {
    let receiver = Receiver::start().await;
    for base in [receiver.url(), "http://127.0.0.1:1/hook".to_owned()] {
        let url = format!("{base}/{URL_TOKEN}?key={URL_TOKEN}");
        process.post(token, "/v1/webhooks", &json!({"url": url}), 201).await;
    }
    let events = json!({"events": [{"type": "event", "name": "seen"}]});
    process.post(token, "/v1/objects/user_1/events", &events, 202).await;
    assert!(receiver.got(1).await.path.contains(URL_TOKEN));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = process.request(Method::GET, "/v1/webhook_deliveries").bearer_auth(token);
        let shown = process.send(request).await.json();
        if shown["deliveries"].as_array().unwrap().iter().all(|one| one["attempts"] == 1) {
            break;
        }
        assert!(Instant::now() < deadline, "not every delivery was attempted: {shown}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The database's address with a password in it; the test cluster asks for none and takes any.
fn with_password(url: &str) -> String {
    match url.strip_prefix("postgres://").and_then(|rest| rest.split_once('@')) {
        Some((user, rest)) => format!("postgres://{user}:{DATABASE_PASSWORD}@{rest}"),
        None => url.to_owned(),
    }
}

/// A process that has been given secrets of every kind.
struct EntrustedProcess {
    process: Process,
    secrets: Secrets,
    /// What a command beside it wrote to standard error.
    command_output: String,
}

impl EntrustedProcess {
    /// Starts a process with these settings beside those that are secret, and tells it everything.
    async fn start(database: &TestDatabase, settings: &[(&str, &str)]) -> Self {
        let (directory, url) = (database.directory(), with_password(database.url()));
        let mut secrets = Secrets::default();
        for (what, secret) in [
            ("password", FIRST_PASSWORD),
            ("password", SECOND_PASSWORD),
            ("password", THIRD_PASSWORD),
            ("wrong password", WRONG_PASSWORD),
            ("misplaced password", MISPLACED_PASSWORD),
            ("old key", OLD_KEY),
            ("wrong old key", WRONG_OLD_KEY),
            ("wrong bearer key", WRONG_BEARER_KEY),
            ("token in a query", QUERY_TOKEN),
            ("token in a webhook's URL", URL_TOKEN),
            ("master key", MASTER_KEY),
            ("database password", DATABASE_PASSWORD),
        ] {
            secrets.add(what, secret);
        }
        for (name, value) in SETTINGS.iter().filter(|(name, _)| !name.ends_with("CLIENT_ID")) {
            secrets.add(name, value);
        }
        let variables: Vec<_> =
            SETTINGS.iter().chain(settings).chain(&[("AUSPEX_ANALYZER", "words")]).copied().collect();
        let mut process = Process::start(directory, &url, &variables);
        let token = sign_in_story(&process, directory, &mut secrets).await;
        two_factor_story(&process, &token, &mut secrets).await;
        let request = process.request(Method::GET, "/v1/me").bearer_auth(&token);
        let tenant = process.send(request).await.json()["tenant_id"].as_str().unwrap().to_owned();
        let mut import = auspex(directory, &url, &["admin", "key", "import-legacy", "--tenant", &tenant]);
        import.envs(variables.iter().copied());
        let imported = finish(import, OLD_KEY.as_bytes());
        let command_output = String::from_utf8_lossy(&imported.stderr).into_owned();
        assert!(imported.status.success(), "{command_output}");
        let printed = String::from_utf8(imported.stdout).unwrap();
        let legacy = printed.split_whitespace().last().unwrap();
        key_story(&process, &token, legacy, &mut secrets).await;
        bearer_story(&process, &token, &mut secrets).await;
        process.speak_http2();
        key_story(&process, &token, legacy, &mut secrets).await;
        bearer_story(&process, &token, &mut secrets).await;
        webhook_story(&process, &token).await;
        Self { process, secrets, command_output }
    }
}

async fn nothing_secret_is_logged(database: &TestDatabase, format: &str) {
    let collector = Collector::start().await;
    let url = collector.url();
    let settings =
        [("AUSPEX_LOG", "trace"), ("AUSPEX_LOG_FORMAT", format), ("AUSPEX_OTLP_ENDPOINT", url.as_str())];
    let entrusted = EntrustedProcess::start(database, &settings).await;
    // What it has to tell of traces is sent before it ends.
    let log = tokio::task::spawn_blocking(|| entrusted.process.stop()).await.unwrap();
    assert!(log.lines().count() > 100, "trace is on: {log}");
    entrusted.secrets.are_not_in(&log);
    entrusted.secrets.are_not_in(&entrusted.command_output);
    let traces = format!("{:?}", collector.spans());
    assert!(traces.contains("comments:analyze"), "{traces}");
    entrusted.secrets.are_not_in(&traces);
}

/// Everything in the database: SQLite's files, or the rows of PostgreSQL's tables, in which bytes are hexadecimal.
async fn dump(database: &TestDatabase) -> Vec<u8> {
    if !database.url().starts_with("postgres") {
        let files = std::fs::read_dir(database.directory()).unwrap().map(|entry| entry.unwrap().path());
        return files.filter(|path| path.is_file()).flat_map(|path| std::fs::read(path).unwrap()).collect();
    }
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'";
    let tables: Vec<(String,)> = sqlx::query_as(tables).fetch_all(&mut connection).await.unwrap();
    let mut dump = Vec::new();
    for (table,) in tables {
        let rows = AssertSqlSafe(format!("SELECT t::text FROM {table} AS t"));
        let rows: Vec<(String,)> = sqlx::query_as(rows).fetch_all(&mut connection).await.unwrap();
        dump.extend(rows.into_iter().flat_map(|(row,)| row.into_bytes()));
    }
    dump
}

async fn no_secret_is_in_a_dump_of_the_database(database: &TestDatabase) {
    let entrusted = EntrustedProcess::start(database, &[]).await;
    let dump = dump(database).await;
    assert!(AhoCorasick::new(["ada@acme.example"]).unwrap().is_match(&dump), "it has what is no secret");
    // A code of six digits comes up by chance.
    let long = entrusted.secrets.0.iter().filter(|(_, secret)| secret.len() > 6);
    let forms: Vec<(&str, String)> =
        long.flat_map(|(what, secret)| [(*what, secret.clone()), (*what, hex::encode(secret))]).collect();
    let searched = AhoCorasick::new(forms.iter().map(|(_, form)| form)).unwrap();
    if let Some(found) = searched.find(&dump) {
        panic!("the dump has a secret: {:?}", forms[found.pattern().as_usize()]);
    }
    entrusted.process.stop();
}

async fn nothing_secret_is_logged_as_text(database: &TestDatabase) {
    nothing_secret_is_logged(database, "text").await;
}

async fn nothing_secret_is_logged_as_json(database: &TestDatabase) {
    nothing_secret_is_logged(database, "json").await;
}

testkit::on_both!(
    nothing_secret_is_logged_as_text,
    nothing_secret_is_logged_as_json,
    no_secret_is_in_a_dump_of_the_database,
);

/// A start that fails says why, and its reason often quotes the address.
#[tokio::test]
async fn a_start_that_fails_shows_no_password() {
    let directory = tempfile::tempdir().unwrap();
    let mut under_way = Vec::new();
    for url in [
        format!("postgres://auspex:{DATABASE_PASSWORD}@127.0.0.1:1/none"),
        format!("postgres://auspex:{DATABASE_PASSWORD}@no host/none"),
        format!("postgres://auspex:{DATABASE_PASSWORD}"),
        format!("mysql://auspex:{DATABASE_PASSWORD}@127.0.0.1/none"),
    ] {
        for arguments in [&["serve"][..], &["migrate"], &["admin", "tenant", "list"], &["config"]] {
            let mut command = auspex(directory.path(), &url, arguments);
            // All at once: each may wait a while for a database that is not there.
            under_way.push((arguments, command.env("AUSPEX_LOG", "trace").spawn().unwrap()));
        }
    }
    for (arguments, child) in under_way {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains(DATABASE_PASSWORD) && !said.contains(MASTER_KEY), "{arguments:?}: {said}");
        assert!(!said.is_empty(), "{arguments:?}");
    }
    // The cluster of the suite is there, so that the address with a password is one that works.
    let database = TestDatabase::create(Backend::Postgres).await;
    let output = finish(auspex(database.directory(), &with_password(database.url()), &["migrate"]), b"");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    database.tear_down().await;
}
