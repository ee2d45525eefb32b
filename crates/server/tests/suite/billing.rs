//! Balance, ledger and usage as an account reads them, and what follows when money runs out and comes back.

use std::time::Duration;

use model::{TenantId, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use store::{Conn, Store};
use testkit::{Backend, Stage};
use uuid::Uuid;

use crate::admin::{admin, tenant_of};
use crate::app::{App, PASSWORD};
use crate::books::execute;
use crate::registration::rows;
use crate::scripted_analyzer::{
    PRICE_MICROS, Scripted, ScriptedAnalyzer, Settings, event, get, ingest, ingest_and_wait, send_event,
    until, with_analyzer,
};
use crate::signer::Signer;

const QUIET: Duration = Duration::from_secs(3);
const DAY: Duration = Duration::from_hours(24);
const SIGNUP_MICROS: i64 = 5_000_000;

testkit::on_both!(
    the_ledger_shows_each_charge_exactly,
    the_ledger_is_read_page_by_page,
    a_bulk_run_can_be_one_line,
    ledger_parameters_that_make_no_sense_are_refused,
    usage_is_reported_by_day_model_source_and_signal,
    usage_ranges_that_make_no_sense_are_refused,
    an_operator_adjusts_a_balance,
    grace_lets_the_balance_go_negative,
    without_metering_nothing_is_charged,
    a_low_balance_is_announced_once_each_time_it_falls,
    many_unpaid_analyses_all_go_on,
    an_unpaid_analysis_keeps_its_due_time,
    prices_go_by_model,
);

/// The balance may go negative.
struct Grace;
/// Nothing is billed.
struct Unmetered;

impl Settings for Grace {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ENFORCEMENT", "grace")];
}

impl Settings for Unmetered {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_METERING", "false")];
}

async fn read(app: &App, key: &Signer, path: &str) -> Value {
    let reply = get(app, key, path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    reply.json()
}

async fn balance_micros(app: &App, key: &Signer) -> i64 {
    let ledger = read(app, key, "/v1/billing/ledger?limit=1").await;
    ledger["entries"][0]["balance_after_micros"].as_i64().unwrap()
}

/// All lines of a list, page by page.
async fn walk(app: &App, key: &Signer, query: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = read(app, key, &format!("/v1/billing/ledger?{query}&cursor={cursor}")).await;
        lines.extend(page["entries"].as_array().unwrap().clone());
        page["next_cursor"].as_str().unwrap().clone_into(&mut cursor);
        if cursor.is_empty() {
            return lines;
        }
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{cursor}");
    }
}

async fn the_ledger_shows_each_charge_exactly(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    let mut ledger = read(stage, &key, "/v1/billing/ledger").await;
    for entry in ledger["entries"].as_array_mut().unwrap() {
        let id = entry["id"].take();
        assert_eq!(id.as_str().unwrap().parse::<Uuid>().unwrap().get_version_num(), 7);
    }
    assert_eq!(
        ledger,
        json!({"entries": [
            {"id": null, "delta_cents": 0, "balance_after_cents": 499, "delta_micros": -104,
             "balance_after_micros": 4_999_896, "reason": "analysis", "model": "scripted", "object_id": "user_1",
             "cost_usd": 0.000_104, "cost_margin": 1.0, "input_tokens": 1_000, "output_tokens": 10,
             "created_at": "2026-01-01T00:00:00.000000Z"},
            {"id": null, "delta_cents": 500, "balance_after_cents": 500, "delta_micros": SIGNUP_MICROS,
             "balance_after_micros": SIGNUP_MICROS, "reason": "signup_credit",
             "created_at": "2026-01-01T00:00:00.000000Z"},
        ], "next_cursor": ""})
    );
    // Another account sees nothing of it.
    let other = stage.account("bob@example.com").await;
    assert_eq!(walk(stage, &other, "").await.len(), 1);
}

async fn the_ledger_is_read_page_by_page(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for turn in 0..7 {
        ingest_and_wait(stage, &key, &format!("user_{turn}"), "x").await;
    }
    stage.credit_everybody(5).await;
    let all = walk(stage, &key, "").await;
    assert_eq!(all.len(), 9);
    for limit in [1, 2, 4, 8, 9, 200] {
        assert_eq!(walk(stage, &key, &format!("limit={limit}")).await, all, "{limit}");
    }
    // Newest first, and each line follows from the one below.
    for pair in all.windows(2) {
        let number = |line: &Value, name: &str| line[name].as_i64().unwrap();
        let below = number(&pair[1], "balance_after_micros");
        assert_eq!(number(&pair[0], "balance_after_micros"), below + number(&pair[0], "delta_micros"));
    }
    let charges = walk(stage, &key, "type=charge&limit=3").await;
    assert_eq!(charges, all[1..8]);
    let credits = walk(stage, &key, "type=credit&limit=1").await;
    assert_eq!(credits, [all[0].clone(), all[8].clone()]);
    // Lines that come between two pages are newer than both: nothing is shown twice or left out.
    let first = read(stage, &key, "/v1/billing/ledger?limit=2").await;
    ingest_and_wait(stage, &key, "user_9", "x").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = read(stage, &key, &format!("/v1/billing/ledger?limit=2&cursor={cursor}")).await;
    assert_eq!(second["entries"], json!(all[2..4]));
}

async fn a_bulk_run_can_be_one_line(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    for turn in 0..5 {
        ingest_and_wait(stage, &key, &format!("user_{turn}"), "x").await;
    }
    for round in 1..=2 {
        stage.advance(Duration::from_secs(1));
        let reply = key.call(stage, Method::POST, "/v1/analyze", &Value::Null).await;
        assert_eq!(reply.json()["scheduled"], 5, "{}", reply.text);
        stage.settle().await;
        until("the run is charged", async || stage.charges().await == 5 + 5 * round).await;
    }
    ingest_and_wait(stage, &key, "user_0", "x").await;
    let all = walk(stage, &key, "").await;
    assert_eq!(all.len(), 17);
    let grouped = walk(stage, &key, "group=batch&limit=3").await;
    // The verdict, two bulk runs, five verdicts and the signup credit.
    assert_eq!(grouped.len(), 9);
    assert_eq!(grouped, walk(stage, &key, "group=batch&limit=200").await);
    assert_eq!(grouped[0], all[0]);
    assert_eq!(grouped[3..], all[11..]);
    for (place, newest) in [(1, &all[1]), (2, &all[6])] {
        let line = &grouped[place];
        for field in ["id", "created_at", "balance_after_micros", "batch_id", "reason"] {
            assert_eq!(line[field], newest[field], "{field}");
        }
        let first_at = &all[if place == 1 { 5 } else { 10 }]["created_at"];
        assert_eq!(
            line["batch"],
            json!({"count": 5, "delta_micros": -5 * PRICE_MICROS, "input_tokens": 5_000, "output_tokens": 50,
                   "models": 1, "model": "scripted", "first_at": first_at})
        );
        assert_eq!(line["delta_micros"], -5 * PRICE_MICROS);
        let batch = line["batch_id"].as_str().unwrap();
        let entries = walk(stage, &key, &format!("batch_id={batch}&limit=2")).await;
        assert_eq!(entries, all[5 * place - 4..=5 * place]);
        assert_eq!(walk(stage, &key, &format!("batch_id={batch}&type=credit")).await, [] as [Value; 0]);
    }
    assert_eq!(walk(stage, &key, "group=batch&type=credit").await, [all[16].clone()]);
    assert_eq!(walk(stage, &key, "group=batch&type=charge&limit=1").await, grouped[..8]);
    let nobody_s = format!("batch_id={}", Uuid::from_u128(7));
    assert_eq!(walk(stage, &key, &nobody_s).await, [] as [Value; 0]);
    let sum: i64 = grouped.iter().map(|line| line["delta_micros"].as_i64().unwrap()).sum();
    assert_eq!(sum, balance_micros(stage, &key).await, "grouped or not, the sum is the balance");
}

async fn ledger_parameters_that_make_no_sense_are_refused(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    ingest_and_wait(stage, &key, "user_1", "x").await;
    let page = read(stage, &key, "/v1/billing/ledger?limit=1").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    for query in [
        "type=debit",
        "type=",
        "type=Credit",
        "group=day",
        "group=",
        "batch_id=7",
        "batch_id=",
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=ten",
        "limit=",
        "limit=1.5",
        "limit=99999999999999999999",
        "cursor=7",
        "cursor=%00",
        "cursor=e30",
        "cursor=W10",
        &format!("type=charge&cursor={cursor}"),
        &format!("group=batch&cursor={cursor}"),
        &format!("batch_id={}&cursor={cursor}", Uuid::from_u128(7)),
    ] {
        let message =
            get(stage, &key, &format!("/v1/billing/ledger?{query}")).await.refused(400, "bad_request");
        assert!(!message.is_empty(), "{query}");
    }
}

async fn usage_is_reported_by_day_model_source_and_signal(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let empty = read(stage, &key, "/v1/usage").await;
    assert_eq!((&empty["from"], &empty["to"]), (&json!("2025-12-03"), &json!("2026-01-01")));
    assert_eq!(empty["series"].as_array().unwrap().len(), 30);
    assert_eq!(
        empty["totals"],
        json!({"analyses": 0, "spend_micros": 0, "input_tokens": 0, "output_tokens": 0})
    );
    assert_eq!((&empty["burn_rate_micros_per_day"], empty.get("runway_days")), (&json!(0), None));
    for list in ["by_model", "by_source", "by_signal"] {
        assert_eq!(empty[list], json!([]));
    }
    for _ in 0..3 {
        ingest_and_wait(stage, &key, "user_1", "x").await;
    }
    stage.advance(2 * DAY);
    let key = &key;
    send_event(stage, key, "user_1", "x").await;
    stage.advance(QUIET);
    stage.settle().await;
    let one_signal = json!({"events": [event("x")], "wait": true, "signals": ["is_scammer"]});
    assert_eq!(ingest(stage, key, "user_1", &one_signal).await.status, 200);

    let usage = read(stage, key, "/v1/usage?from=2026-01-01&to=2026-01-04").await;
    let breakdown = |name: &str, analyses: i64| {
        json!({"key": name, "analyses": analyses, "spend_micros": analyses * PRICE_MICROS,
               "input_tokens": analyses * 1_000, "output_tokens": analyses * 10})
    };
    let day = |date: &str, waited: i64, not: i64| {
        json!({"date": date, "analyses": waited + not, "async": not, "sync": waited,
               "spend_micros": (waited + not) * PRICE_MICROS})
    };
    // Five analyses on the three days of the range that have begun: 520 / 3.
    let rate = 173;
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let runway =
        usage["runway_days"].as_f64().unwrap() - (SIGNUP_MICROS - 5 * PRICE_MICROS) as f64 / f64::from(rate);
    assert!(runway.abs() < 1e-6, "{runway}");
    let mut told = usage.clone();
    told.as_object_mut().unwrap().remove("runway_days");
    told.as_object_mut().unwrap().remove("storage_bytes");
    assert_eq!(
        told,
        json!({
            "from": "2026-01-01", "to": "2026-01-04", "currency": "usd", "metering_enabled": true,
            "balance_cents": 499, "burn_rate_micros_per_day": rate,
            "totals": {"analyses": 5, "spend_micros": 520, "input_tokens": 5_000, "output_tokens": 50},
            "series": [day("2026-01-01", 3, 0), day("2026-01-02", 0, 0), day("2026-01-03", 1, 1), day("2026-01-04", 0, 0)],
            "by_model": [breakdown("scripted", 5)],
            "by_source": [breakdown("sync", 4), breakdown("async", 1)],
            "by_signal": [{"signal": "is_scammer", "analyses": 5}, {"signal": "buyer_intent", "analyses": 4},
                          {"signal": "trust_score", "analyses": 4}],
        })
    );
    // A range of the past has no day that has not begun, one of the future has none that has.
    let past = read(stage, key, "/v1/usage?from=2026-01-02&to=2026-01-02").await;
    assert_eq!((&past["totals"]["analyses"], &past["burn_rate_micros_per_day"]), (&json!(0), &json!(0)));
    let future = read(stage, key, "/v1/usage?from=2027-01-01&to=2027-01-02").await;
    assert_eq!(future["series"].as_array().unwrap().len(), 2);
    let longest = read(stage, key, "/v1/usage?from=2025-01-03&to=2026-01-03").await;
    assert_eq!(longest["series"].as_array().unwrap().len(), 366);
    assert_eq!(longest["totals"]["spend_micros"], 520);
    assert_eq!(longest["burn_rate_micros_per_day"], 1, "520 / 366, rounded");
    // Without a balance there is no runway.
    stage.empty_balances().await;
    assert_eq!(read(stage, key, "/v1/usage").await.get("runway_days"), None);
}

async fn usage_ranges_that_make_no_sense_are_refused(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    for (query, word) in [
        ("from=2026-01-02&to=2026-01-01", "from"),
        ("from=2026-01-02", "from"),
        ("from=2025-01-01&to=2026-01-02", "366"),
        ("from=0000-01-01", "366"),
        ("from=yesterday", "from"),
        ("from=", "from"),
        ("to=2026-02-30", "to"),
        ("to=2026-1-1", "to"),
        ("to=20260101", "to"),
        ("to=2026-01-01T00:00:00Z", "to"),
        ("to=%00", "U+0000"),
    ] {
        let message = get(app, &key, &format!("/v1/usage?{query}")).await.refused(400, "bad_request");
        assert!(message.contains(word), "{query}: {message}");
    }
    for (query, from) in [
        ("to=0000-01-05", "0000-01-01"),
        ("to=9999-12-31", "9999-12-02"),
        ("to=2026-01-01&from=2026-01-01", "2026-01-01"),
    ] {
        assert_eq!(read(app, &key, &format!("/v1/usage?{query}")).await["from"], from);
    }
}

async fn an_operator_adjusts_a_balance(app: &App) {
    let token = app.register("ann@example.com").await;
    let tenant = tenant_of(app, &token).await;
    assert_eq!(admin(app, &["credit", &tenant, "250", "--note", "for the outage"], ""), "750");
    assert_eq!(admin(app, &["credit", &tenant, "-700"], ""), "50");
    let key = app.api_key(&token).await;
    let lines = walk(app, &key, "").await;
    let told = |line: &Value| (line["reason"].clone(), line["delta_cents"].clone(), line["note"].clone());
    assert_eq!(told(&lines[0]), (json!("adjustment"), json!(-700), Value::Null));
    assert_eq!(told(&lines[1]), (json!("adjustment"), json!(250), json!("for the outage")));
    assert_eq!(walk(app, &key, "type=charge").await, lines[..1], "what is taken away is a charge");
    assert_eq!(read(app, &key, "/v1/billing").await["balance_cents"], 50);
    let usage = read(app, &key, "/v1/usage").await;
    assert_eq!(usage["totals"]["spend_micros"], 0, "an adjustment is not use");
    let sound = "The ledgers of 1 accounts with 3 entries are consistent.\nThe audit logs with 2 lines are unaltered.";
    assert_eq!(admin(app, &["audit"], ""), sound);
    // The balance fell below the mark; the command goes by the machine's clock, and mails when the service gets there.
    app.advance(service::Clock::system().now().since(app.now()) + Duration::from_secs(1));
    let subjects = app.subjects_to("ann@example.com").await;
    assert_eq!(subjects.iter().filter(|subject| subject.contains("low")).count(), 1, "{subjects:?}");
}

async fn grace_lets_the_balance_go_negative(stage: &Scripted<Grace>) {
    let key = stage.account("ann@example.com").await;
    stage.empty_balances().await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    send_event(stage, &key, "user_2", "x").await;
    stage.advance(QUIET);
    stage.settle().await;
    let balance = read(stage, &key, "/v1/billing").await;
    assert_eq!((&balance["enforcement"], &balance["balance_cents"]), (&json!("grace"), &json!(0)));
    assert_eq!(balance_micros(stage, &key).await, -2 * PRICE_MICROS);
    assert_eq!(read(stage, &key, "/v1/usage").await.get("runway_days"), None);
}

async fn without_metering_nothing_is_charged(stage: &Scripted<Unmetered>) {
    let key = stage.account("ann@example.com").await;
    stage.empty_balances().await;
    assert_eq!(ingest_and_wait(stage, &key, "user_1", "x").await.status, 200);
    let usage = read(stage, &key, "/v1/usage").await;
    assert_eq!(usage["metering_enabled"], false);
    assert_eq!((&usage["totals"]["analyses"], &usage["totals"]["spend_micros"]), (&json!(1), &json!(0)));
    assert_eq!(read(stage, &key, "/v1/billing").await["metering_enabled"], false);
    assert_eq!(stage.charges().await, 0);
}

async fn a_low_balance_is_announced_once_each_time_it_falls(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let told = async || {
        stage.advance(Duration::from_secs(2));
        let mails = stage.mails().await;
        mails.into_iter().filter(|mail| mail.subject.contains("low")).collect::<Vec<_>>()
    };
    ingest_and_wait(stage, &key, "user_1", "x").await;
    assert_eq!(told().await.len(), 0);
    // To a dollar exactly, less the charge above: the next charge is below the mark already.
    stage.credit_everybody(-399).await;
    assert_eq!(told().await.len(), 0, "$1.01 less a charge is not below $1.00");
    stage.credit_everybody(-1).await;
    let mails = told().await;
    assert_eq!(mails.len(), 1);
    assert!(mails[0].text.contains("$0.99") && mails[0].text.contains("$1.00"), "{}", mails[0].text);
    // Many at once below the mark: all of them charge, none of them tells again.
    let several = (0..8).map(|turn| {
        let key = key.clone();
        async move { ingest_and_wait(stage, &key, &format!("user_{turn}"), "x").await.status }
    });
    for status in futures_util::future::join_all(several).await {
        assert_eq!(status, 200);
    }
    assert_eq!(told().await.len(), 1);
    // Back above the mark, and many at once fall below it.
    stage.credit_everybody(1).await;
    assert_eq!(told().await.len(), 1);
    stage.credit_everybody(-1).await;
    assert_eq!(told().await.len(), 2);
    stage.credit_everybody(-50).await;
    assert_eq!(told().await.len(), 2);
    // Who does not want the mail does not get it.
    let who = json!({"email": "ann@example.com", "password": PASSWORD});
    let token = stage.post("/auth/console/login", &who).await.json()["token"].as_str().unwrap().to_owned();
    let wish = json!({"low_balance": false});
    assert_eq!(stage.call(&token, Method::PUT, "/v1/me/notifications", &wish).await.status, 200);
    stage.credit_everybody(100).await;
    stage.credit_everybody(-100).await;
    assert_eq!(told().await.len(), 2);
}

/// More than one step of each kind.
async fn many_unpaid_analyses_all_go_on(stage: &Scripted) {
    const MANY: i64 = 4_500;
    stage.account("ann@example.com").await;
    stage.empty_balances().await;
    let tenant = stage
        .store
        .read("tenant", async |conn: &mut Conn| store::accounts::tenants::all(conn).await)
        .await
        .unwrap()
        .remove(0)
        .tenant_id;
    queue(&stage.store, tenant, MANY, stage.now()).await;
    // Nobody has announced them: the backstop finds them.
    stage.advance(Duration::from_secs(2));
    until("all are set aside", async || stage.number("SELECT count(*) FROM jobs WHERE unpaid").await == MANY)
        .await;
    let looked_at = stage.number("SELECT count(*) FROM jobs WHERE claimed_version > 0").await;
    assert!(looked_at < 200, "{looked_at} were looked at to know about all");
    assert_eq!(stage.number("SELECT count(*) FROM jobs WHERE attempts <> 0").await, 0);
    stage.analyzer.asked(0).await;
    stage.credit_everybody(1_000).await;
    assert!(stage.number("SELECT count(*) FROM jobs WHERE unpaid").await < MANY, "the credit itself wakes");
    stage.advance(Duration::from_secs(10));
    until("all are awake", async || stage.number("SELECT count(*) FROM jobs WHERE unpaid").await == 0).await;
    // They are about objects that nobody has, and need not be done one by one.
    execute(&stage.store, "DELETE FROM jobs").await;
    stage.analyzer.asked(0).await;
}

/// Queues analyses of objects that do not exist.
async fn queue(store: &Store, tenant: TenantId, count: i64, now: Timestamp) {
    let statement = "WITH RECURSIVE numbers (number) AS (
             SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < $2)
         INSERT INTO jobs (tenant_id, object_id, priority, run_at, deadline_at, version)
         SELECT $1, 'object_' || CAST(number AS text), number % 2, $3, $3, 1 FROM numbers";
    let queued = store.write("queue", async |conn: &mut Conn| {
        match conn {
            Conn::Sqlite(held) => {
                sqlx::query(statement)
                    .bind(tenant.0)
                    .bind(count)
                    .bind(now.micros())
                    .execute(held.native())
                    .await
                    .map(drop)?;
            }
            Conn::Postgres(held) => {
                let statement = statement
                    .replace("$3", "to_timestamp($3)")
                    .replace("number % 2", "CAST(number % 2 AS bigint)");
                let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(tenant.0).bind(count);
                #[expect(clippy::cast_precision_loss, reason = "seconds of this era")]
                let seconds = now.seconds() as f64;
                query.bind(seconds).execute(held.native()).await.map(drop)?;
            }
        }
        Ok::<_, store::Error>(())
    });
    queued.await.unwrap();
}

/// What waits for another reason than money is not moved by a top-up.
async fn an_unpaid_analysis_keeps_its_due_time(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    send_event(stage, &key, "due", "x").await;
    stage.advance(Duration::from_secs(2));
    send_event(stage, &key, "debounced", "x").await;
    stage.empty_balances().await;
    stage.advance(Duration::from_secs(1));
    until("the due one is set aside", async || {
        stage.number("SELECT count(*) FROM jobs WHERE unpaid").await == 1
    })
    .await;
    stage.credit_everybody(1_000).await;
    stage.analyzer.asked(1).await;
    stage.at_rest().await;
    stage.workers_have_polled().await;
    stage.analyzer.asked(1).await;
    stage.advance(Duration::from_secs(2));
    stage.analyzer.asked(2).await;
    // Asked for by a person while there is no money: it waits as well, and is not lost.
    stage.settle().await;
    stage.empty_balances().await;
    let reply = key.call(stage, Method::POST, "/v1/objects/due/analyze", &Value::Null).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    until("it is set aside", async || stage.number("SELECT count(*) FROM jobs WHERE unpaid").await == 1)
        .await;
    stage.credit_everybody(1_000).await;
    stage.analyzer.asked(3).await;
}

async fn prices_go_by_model(stage: &PricedStage) {
    let key = {
        let token = stage.app.register("ann@example.com").await;
        stage.app.api_key(&token).await
    };
    ingest_and_wait(&stage.app, &key, "user_1", "x").await;
    let line = read(&stage.app, &key, "/v1/billing/ledger").await["entries"][0].clone();
    // 1,000 tokens at $3 and 10 at $15 a million, with 12.5 % on top.
    assert_eq!((&line["cost_usd"], &line["cost_margin"]), (&json!(0.003_15), &json!(1.125)));
    assert_eq!(line["delta_micros"], -3_544, "3,543.75, rounded half up");
    let usage = read(&stage.app, &key, "/v1/usage").await;
    assert_eq!(usage["by_model"][0]["spend_micros"], 3_544);
}

/// A service with a price for the model that answers, and another for all others.
struct PricedStage {
    app: App,
    _analyzer: ScriptedAnalyzer,
    _file: tempfile::NamedTempFile,
}

impl Stage for PricedStage {
    async fn set_up(backend: Backend) -> Self {
        use std::io::Write as _;
        let analyzer = ScriptedAnalyzer::start().await;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "cost_margin = 1.125\n[prices.scripted]\ninput_per_mtok = 3\noutput_per_mtok = \"15.00\"\n\
                    [prices.other]\ninput_per_mtok = 1\noutput_per_mtok = 1\n";
        file.write_all(text.as_bytes()).unwrap();
        let (url, path) = (analyzer.url(), file.path().to_str().unwrap().to_owned());
        let settings = [&[("AUSPEX_CONFIG", path.as_str())], with_analyzer(&url).as_slice()].concat();
        let app = App::start(backend, &settings).await;
        Self { app, _analyzer: analyzer, _file: file }
    }

    async fn tear_down(self) {
        self.app.tear_down().await;
    }
}

/// The worker's clock stands still, so that its poll never comes: only the word of the other process can wake it.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_up_at_one_node_wakes_the_workers_of_another() {
    let settings = [("AUSPEX_ROLE", "api"), ("AUSPEX_DEBOUNCE_MS", "1")];
    let api = App::start(Backend::Postgres, &settings).await;
    let worker = api.second_node(&[("AUSPEX_ROLE", "worker")]).await;
    let token = api.register("ann@example.com").await;
    let key = api.api_key(&token).await;
    send_event(&api, &key, "user_1", "x").await;
    api.empty_balances().await;
    api.advance(Duration::from_secs(1));
    let unpaid = "SELECT CAST(count(*) AS text) FROM jobs WHERE unpaid";
    until("it is set aside", async || rows(&api, unpaid).await == ["1"]).await;
    api.credit_everybody(1_000).await;
    until("it is analyzed", async || rows(&api, "SELECT CAST(count(*) AS text) FROM jobs").await == ["0"])
        .await;
    api.advance(Duration::from_secs(3));
    api.settle().await;
    worker.stop().await;
    api.tear_down().await;
}

/// A deployment that stops to block lets go on what waited for money.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_goes_on_when_nothing_blocks_any_more() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let mut app = App::start(backend, &[]).await;
        let token = app.register("ann@example.com").await;
        let key = app.api_key(&token).await;
        send_event(&app, &key, "user_1", "x").await;
        app.empty_balances().await;
        app.advance(QUIET);
        let unpaid = "SELECT CAST(count(*) AS text) FROM jobs WHERE unpaid";
        until("it is set aside", async || rows(&app, unpaid).await == ["1"]).await;
        app.restart(&[("AUSPEX_ENFORCEMENT", "grace")]).await;
        until("it is analyzed", async || {
            rows(&app, "SELECT CAST(count(*) AS text) FROM jobs").await == ["0"]
        })
        .await;
        app.advance(Duration::from_secs(3));
        app.tear_down().await;
    }
}
