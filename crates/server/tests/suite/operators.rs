//! The operator's commands beside a running service: queues, doctor, second factors, suspension and deletion of accounts.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use service::Clock;
use store::accounts::closure;
use store::{Conn, Store};
use testkit::{Backend, Stage as _, TestDatabase};

use crate::admin::{OTHER_MASTER_KEY, admin, auspex, finish, tenant_of};
use crate::app::{App, PASSWORD};
use crate::receiver::{Answer, Receiver};
use crate::scripted_analyzer::until;
use crate::signer::Signer;
use crate::two_factor::Phone;

testkit::on_both!(
    dead_letters_are_shown_queued_again_and_dropped,
    deliveries_that_wait_are_sent_now_or_given_up,
    analyses_that_fail_are_tried_now_or_dropped,
    mails_that_cannot_be_sent_are_shown_and_dropped,
    the_doctor_finds_nothing_where_nothing_is_wrong,
    the_doctor_names_what_is_wrong_and_what_to_do,
    a_second_factor_is_reset_by_the_operator,
    a_suspended_account_gets_in_nowhere_and_its_work_waits,
    deliveries_of_a_suspended_account_do_not_expire,
    a_deleted_account_leaves_only_its_sums,
    an_account_that_is_not_there_is_refused,
);

/// How long an object must be quiet before it is analyzed.
const QUIET: Duration = Duration::from_secs(3);

/// A service by the real time, which is also that of the commands.
async fn start(database: &TestDatabase, settings: &[(&str, &str)]) -> App {
    App::start_at(database.backend(), settings, Clock::system().now()).await
}

/// `auspex admin …` beside the service, with these settings besides.
fn run(app: &App, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let directory = app.data_directory();
    let all: Vec<&str> = ["admin"].iter().chain(arguments).copied().collect();
    let mut command = auspex(directory.parent().unwrap(), app.database_url(), &all);
    command.env("AUSPEX_ANALYZER", "words").envs(variables.iter().copied());
    finish(command, b"")
}

fn report(app: &App) -> Value {
    serde_json::from_str(&admin(app, &["queues", "--json"], "")).unwrap()
}

fn queue(app: &App, name: &str) -> Value {
    let report = report(app);
    let found = report["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("{name} in {report}"))
}

/// An account with a key and an endpoint.
async fn subscriber(app: &App, receiver: &Receiver) -> (String, Signer) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let made = key.call(app, Method::POST, "/v1/webhooks", &json!({"url": receiver.url()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    (tenant_of(app, &token).await, key)
}

async fn send(app: &App, key: &Signer, object: &str) {
    let body = json!({"events": [{"type": "message", "content": "hello"}]});
    let path = format!("/v1/objects/{object}/events");
    let sent = key.call(app, Method::POST, &path, &body).await;
    assert_eq!(sent.status, 202, "{}", sent.text);
}

/// Deliveries with a status, as their owner sees them.
async fn deliveries(app: &App, key: &Signer, status: &str) -> Vec<Value> {
    let path = format!("/v1/webhook_deliveries?status={status}");
    let listed = key.call(app, Method::GET, &path, &Value::Null).await.json();
    listed["deliveries"].as_array().unwrap().clone()
}

async fn dead_letters_are_shown_queued_again_and_dropped(database: &TestDatabase) {
    let app = start(database, &[("AUSPEX_WEBHOOK_MAX_ATTEMPTS", "1")]).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    let (tenant, key) = subscriber(&app, &receiver).await;
    for object in ["user_1", "user_2", "user_3"] {
        send(&app, &key, object).await;
    }
    app.advance(QUIET);
    until("three are dead", async || deliveries(&app, &key, "dead").await.len() == 3).await;
    assert_eq!(report(&app)["dead_letters"], 3);
    assert!(admin(&app, &["queues"], "").contains("3 dead letters"));
    assert_eq!(report(&app)["failing_endpoints"][0]["dead"], 3);

    receiver.always(Answer::Status(200));
    let one = deliveries(&app, &key, "dead").await[0]["id"].as_str().unwrap().to_owned();
    let by_id = ["queues", "requeue", "dead-letters", "--tenant", &tenant, "--id", &one];
    assert_eq!(admin(&app, &by_id, ""), "1 queued again.");
    app.advance(Duration::from_mins(30));
    until("it is delivered", async || deliveries(&app, &key, "delivered").await.len() == 1).await;
    assert_eq!(deliveries(&app, &key, "delivered").await[0]["id"], one);

    // Another account's work is not meant, and nothing is meant by accident.
    let other = uuid::Uuid::from_u128(7).to_string();
    assert_eq!(admin(&app, &["queues", "drop", "dead-letters", "--tenant", &other], ""), "0 dropped.");
    let vague = run(&app, &["queues", "drop", "dead-letters"], &[]);
    assert!(!vague.status.success(), "nothing is dropped without saying whose");
    assert_eq!(admin(&app, &["queues", "drop", "dead-letters", "--all"], ""), "2 dropped.");
    assert!(deliveries(&app, &key, "dead").await.is_empty());
    app.tear_down().await;
}

async fn deliveries_that_wait_are_sent_now_or_given_up(database: &TestDatabase) {
    let app = start(database, &[]).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    let (tenant, key) = subscriber(&app, &receiver).await;
    send(&app, &key, "user_1").await;
    send(&app, &key, "user_2").await;
    app.advance(QUIET);
    until("both wait for another attempt", async || queue(&app, "deliveries")["retried"] == 2).await;
    app.workers_have_polled().await;

    let pending = deliveries(&app, &key, "pending").await;
    let dropped = pending[0]["id"].as_str().unwrap();
    let nonsense = run(&app, &["queues", "drop", "deliveries", "--tenant", &tenant, "--id", "one"], &[]);
    assert!(String::from_utf8_lossy(&nonsense.stderr).contains("--id"));
    let by_id = ["queues", "drop", "deliveries", "--tenant", &tenant, "--id", dropped];
    assert_eq!(admin(&app, &by_id, ""), "1 dropped.");
    let dead = deliveries(&app, &key, "dead").await;
    assert_eq!((dead.len(), &dead[0]["id"]), (1, &json!(dropped)));
    assert_eq!(dead[0]["last_error"], "dropped by the operator");

    receiver.always(Answer::Status(200));
    admin(&app, &["queues", "requeue", "deliveries", "--tenant", &tenant], "");
    // Not an hour: the time that the command took, and the backstop's look at the queue.
    app.advance(Clock::system().now().since(app.now()) + Duration::from_secs(2));
    until("the other is delivered", async || deliveries(&app, &key, "delivered").await.len() == 1).await;
    app.tear_down().await;
}

async fn mails_that_cannot_be_sent_are_shown_and_dropped(database: &TestDatabase) {
    let app = start(database, &[("AUSPEX_SMTP_URL", "smtp://127.0.0.1:1?tls=none")]).await;
    let token = app.register("ann@example.com").await;
    app.api_key(&token).await;
    until("the mail about the key waits", async || queue(&app, "mails")["retried"].as_i64().unwrap() > 0)
        .await;
    app.workers_have_polled().await;
    let waiting = queue(&app, "mails")["waiting"].as_i64().unwrap();
    assert_eq!(admin(&app, &["queues", "drop", "mails", "--all"], ""), format!("{waiting} dropped."));
    assert_eq!(queue(&app, "mails")["waiting"], 0);
    app.tear_down().await;
}

async fn analyses_that_fail_are_tried_now_or_dropped(database: &TestDatabase) {
    let broken = Receiver::start().await;
    broken.always(Answer::Status(400));
    let url = broken.url();
    let app = start(database, &[("AUSPEX_ANALYZER", "systemone"), ("AUSPEX_ANALYZER_URL", &url)]).await;
    let token = app.register("ann@example.com").await;
    let (tenant, key) = (tenant_of(&app, &token).await, app.api_key(&token).await);
    send(&app, &key, "user_1").await;
    send(&app, &key, "user_2").await;
    app.advance(QUIET);
    until("both wait for another attempt", async || queue(&app, "analyses")["retried"] == 2).await;
    // The time of the command is not behind that of the service.
    until("time passes", async || Clock::system().now() > app.now()).await;

    let of_another = uuid::Uuid::from_u128(7).to_string();
    assert_eq!(admin(&app, &["queues", "drop", "analyses", "--tenant", &of_another], ""), "0 dropped.");
    let one = ["queues", "drop", "analyses", "--tenant", &tenant, "--id", "user_1"];
    assert_eq!(admin(&app, &one, ""), "1 dropped.");
    assert_eq!(queue(&app, "analyses")["waiting"], 1);
    let again = ["queues", "requeue", "analyses", "--tenant", &tenant];
    assert_eq!(admin(&app, &again, ""), "1 queued again.");
    assert_eq!(queue(&app, "analyses")["retried"], 0, "it has all of its attempts again");
    app.advance(Clock::system().now().since(app.now()) + Duration::from_secs(2));
    until("it is tried", async || queue(&app, "analyses")["retried"] == 1).await;
    assert_eq!(admin(&app, &["queues", "drop", "analyses", "--all"], ""), "1 dropped.");
    app.tear_down().await;
}

/// What the doctor said, and whether it is content.
fn examine(app: &App, variables: &[(&str, &str)]) -> (bool, Vec<Value>) {
    let output = run(app, &["doctor", "--json"], variables);
    let found = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.success(), found)
}

fn found<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("{check} in {findings:?}"))
}

async fn the_doctor_finds_nothing_where_nothing_is_wrong(database: &TestDatabase) {
    let app = start(database, &[]).await;
    let (is_content, findings) = examine(&app, &[]);
    assert!(is_content, "{findings:?}");
    for check in ["configuration", "files", "disk", "database", "schema", "master key", "nodes"] {
        assert_ne!(found(&findings, check)["state"], "bad", "{findings:?}");
    }
    let (version, more) = match database.backend() {
        Backend::Sqlite => ("SQLite 3", vec![]),
        Backend::Postgres => ("PostgreSQL ", vec!["clock", "connections", "backup"]),
    };
    assert!(found(&findings, "database")["found"].as_str().unwrap().starts_with(version), "{findings:?}");
    for check in more {
        assert_eq!(found(&findings, check)["state"], "good", "{findings:?}");
    }
    assert_eq!(found(&findings, "nodes")["found"], "1 running");
    let table = run(&app, &["doctor"], &[]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("master key") && table.contains("fingerprint"), "{table}");
    app.tear_down().await;
}

async fn the_doctor_names_what_is_wrong_and_what_to_do(database: &TestDatabase) {
    let app = start(database, &[]).await;
    std::fs::set_permissions(app.data_directory(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let nowhere = "postgres://auspex@127.0.0.1:1/nowhere";
    for (variable, value, check, advice) in [
        ("AUSPEX_MASTER_KEY", OTHER_MASTER_KEY, "master key", "AUSPEX_MASTER_KEY"),
        ("AUSPEX_SMTP_URL", "smtp://127.0.0.1:1?tls=none", "mail", "AUSPEX_SMTP_URL"),
        ("AUSPEX_DATABASE_URL", nowhere, "database", "AUSPEX_DATABASE_URL"),
        ("AUSPEX_LOG", "error", "files", "chmod 700"),
    ] {
        let (is_content, findings) = examine(&app, &[(variable, value)]);
        assert!(!is_content, "{variable}: {findings:?}");
        let finding = found(&findings, check);
        assert_eq!(finding["state"], "bad", "{findings:?}");
        assert!(finding["advice"].as_str().unwrap().contains(advice), "{finding}");
    }
    let analyzer = [
        ("AUSPEX_ANALYZER", "openai"),
        ("AUSPEX_ANALYZER_URL", "http://127.0.0.1:1/v1"),
        ("AUSPEX_ANALYZER_MODEL", "any"),
    ];
    let (is_content, findings) = examine(&app, &analyzer);
    assert!(!is_content);
    assert_eq!(found(&findings, "analyzer")["state"], "bad", "{findings:?}");
    app.tear_down().await;
}

async fn a_second_factor_is_reset_by_the_operator(app: &App) {
    let token = app.register("ann@example.com").await;
    Phone::switched_on(app, &token).await;
    let login = json!({"email": "ann@example.com", "password": PASSWORD});
    app.post("/auth/console/login", &login).await.refused(401, "mfa_required");
    let said = admin(app, &["user", "reset-mfa", "Ann@Example.com"], "");
    assert!(said.contains("two-factor is off"), "{said}");
    assert_eq!(app.post("/auth/console/login", &login).await.status, 200);
    until("the sessions from before have ended", async || {
        app.call(&token, Method::GET, "/v1/me", &Value::Null).await.status == 401
    })
    .await;
    app.advance(Clock::system().now().since(app.now()));
    let subjects = app.subjects_to("ann@example.com").await;
    assert!(subjects.last().unwrap().to_lowercase().contains("two-factor"), "{subjects:?}");
    for (email, reason) in [("ann@example.com", "off"), ("bob@example.com", "no user"), ("bob", "email")] {
        let output = run(app, &["user", "reset-mfa", email], &[]);
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && line.contains(reason), "{reason} in {line}");
    }
}

async fn a_suspended_account_gets_in_nowhere_and_its_work_waits(app: &App) {
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    let (tenant, key) = subscriber(app, &receiver).await;
    let bystander = app.api_key(&app.register("bob@example.com").await).await;
    let token =
        app.post("/auth/console/login", &json!({"email": "ann@example.com", "password": PASSWORD})).await;
    let token = token.json()["token"].as_str().unwrap().to_owned();
    send(app, &key, "user_1").await;
    app.advance(QUIET);
    until("a delivery waits for its next attempt", async || receiver.count() == 1).await;
    app.workers_have_polled().await;
    send(app, &key, "user_2").await;

    admin(app, &["tenant", "suspend", &tenant], "");
    until("the key is refused", async || {
        key.call(app, Method::GET, "/v1/me", &Value::Null).await.status == 403
    })
    .await;
    for path in ["/v1/me", "/v1/objects", "/v1/billing"] {
        key.call(app, Method::GET, path, &Value::Null).await.refused(403, "suspended");
        app.call(&token, Method::GET, path, &Value::Null).await.refused(403, "suspended");
    }
    let login = json!({"email": "ann@example.com", "password": PASSWORD});
    app.post("/auth/console/login", &login).await.refused(403, "suspended");
    let wrong = json!({"email": "ann@example.com", "password": "wrong"});
    app.post("/auth/console/login", &wrong).await.refused(401, "unauthorized");
    assert!(admin(app, &["tenant", "list"], "").contains("suspended"));

    // Its work waits, and that of others does not.
    receiver.always(Answer::Status(200));
    send(app, &bystander, "user_3").await;
    app.advance(Duration::from_mins(30));
    until("the bystander's analysis is done", async || {
        let object = bystander.call(app, Method::GET, "/v1/objects/user_3", &Value::Null).await;
        object.json()["pending"] == json!([])
    })
    .await;
    app.workers_have_polled().await;
    assert_eq!(receiver.count(), 1, "nothing is sent for a suspended account");
    assert_eq!(app.service().store().pending().await.unwrap().jobs, 1);

    admin(app, &["tenant", "resume", &tenant], "");
    until("the key works again", async || {
        key.call(app, Method::GET, "/v1/me", &Value::Null).await.status == 200
    })
    .await;
    app.advance(Duration::from_mins(30));
    until("both are delivered", async || deliveries(app, &key, "delivered").await.len() == 2).await;
    for (action, reason) in [("resume", "not suspended"), ("suspend", "")] {
        let output = run(app, &["tenant", action, &tenant], &[]);
        assert_eq!(output.status.success(), reason.is_empty());
        assert!(String::from_utf8_lossy(&output.stderr).contains(reason));
    }
    admin(app, &["tenant", "resume", &tenant], "");
}

async fn deliveries_of_a_suspended_account_do_not_expire(app: &App) {
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    let (tenant, key) = subscriber(app, &receiver).await;
    send(app, &key, "user_1").await;
    app.advance(QUIET);
    until("a delivery waits for its next attempt", async || receiver.count() == 1).await;
    app.workers_have_polled().await;
    let accounts = &app.service().accounts.closure;
    let tenant = model::TenantId(tenant.parse().unwrap());
    accounts.suspend(tenant).await.unwrap();
    // Longer than a delivery may wait otherwise.
    app.advance(Duration::from_hours(100));
    app.sweeper_has_swept().await;
    receiver.always(Answer::Status(200));
    accounts.resume(tenant).await.unwrap();
    app.sweeper_has_swept().await;
    app.advance(Duration::from_secs(10));
    until("it is delivered", async || receiver.count() == 2).await;
}

/// Rows that a tenant has, by table.
async fn rows_of(store: &Store, tenant: &str) -> Vec<(String, i64)> {
    let tenant = model::TenantId(tenant.parse().unwrap());
    let mut rows = Vec::new();
    let tables =
        store.read("tables", async |conn: &mut Conn| closure::owned_tables(conn).await).await.unwrap();
    let names = tables.iter().map(|table| table.name.clone());
    for table in names.chain(["balances", "ledger_entries", "tenants"].map(str::to_owned)) {
        let counted = store.read("count", async |conn: &mut Conn| {
            let text = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table} WHERE tenant_id = $1"));
            Ok::<i64, store::Error>(match conn {
                Conn::Sqlite(lent) => sqlx::query_scalar(text).bind(tenant).fetch_one(lent.native()).await?,
                Conn::Postgres(lent) => {
                    sqlx::query_scalar(text).bind(tenant).fetch_one(lent.native()).await?
                }
            })
        });
        let counted = counted.await.unwrap();
        rows.push((table, counted));
    }
    rows.retain(|(_, count)| *count > 0);
    rows
}

async fn a_deleted_account_leaves_only_its_sums(app: &App) {
    let receiver = Receiver::start().await;
    let (tenant, key) = subscriber(app, &receiver).await;
    let other = app.register("bob@example.com").await;
    let (bystander, other) = (app.api_key(&other).await, tenant_of(app, &other).await);
    for number in 0..60 {
        let event = json!({"type": "message", "content": format!("message {number}")});
        let body = json!({"events": vec![event; 12]});
        let path = format!("/v1/objects/user_{number}/events");
        assert_eq!(key.call(app, Method::POST, &path, &body).await.status, 202);
    }
    send(app, &bystander, "user_of_bob").await;
    app.advance(Duration::from_mins(1));
    app.settle().await;
    let store = app.service().store().clone();
    let before = rows_of(&store, &other).await;
    assert!(rows_of(&store, &tenant).await.iter().any(|(table, rows)| table == "events" && *rows == 720));

    let unsure = run(app, &["tenant", "delete", &tenant], &[]);
    assert!(!unsure.status.success() && String::from_utf8_lossy(&unsure.stderr).contains("--yes"));
    let said = admin(app, &["tenant", "delete", &tenant, "--yes"], "");
    assert!(said.contains("is deleted") && said.contains("sums"), "{said}");
    assert_eq!(rows_of(&store, &tenant).await, []);
    assert_eq!(rows_of(&store, &other).await, before, "nobody else lost a row");
    let sums = store.read("sums", async |conn: &mut Conn| closure::ledger_sums(conn).await).await.unwrap();
    assert_eq!(sums.len(), 1);
    assert_eq!(sums[0].credit_micros + sums[0].charge_micros, sums[0].balance_micros);
    assert!(sums[0].entries > 50 && sums[0].credit_micros == 5_000_000, "{sums:?}");
    if let Some(path) = store::sqlite_path(app.database_url()) {
        let listed = format!("sqlite:{}", path.display());
        let listed = Store::attach(&listed).await.unwrap();
        let grams =
            crate::scripted_analyzer::number(&listed, "SELECT count(*) FROM gram_lists_docsize").await;
        assert_eq!(grams, 1, "the full-text index has Bob's object only");
        listed.close().await;
    }
    until("the key is unknown", async || {
        key.call(app, Method::GET, "/v1/me", &Value::Null).await.status == 401
    })
    .await;
    assert!(admin(app, &["audit"], "").contains("are consistent"));
    // The address is free, and the other account goes on.
    app.register("ann@example.com").await;
    send(app, &bystander, "user_of_bob").await;
    app.advance(Duration::from_mins(1));
}

async fn an_account_that_is_not_there_is_refused(app: &App) {
    let nobody = uuid::Uuid::from_u128(7).to_string();
    for arguments in [
        vec!["tenant", "suspend", &nobody],
        vec!["tenant", "resume", &nobody],
        vec!["tenant", "delete", &nobody, "--yes"],
    ] {
        let output = run(app, &arguments, &[]);
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && line.contains("no such tenant"), "{arguments:?}: {line}");
    }
}
