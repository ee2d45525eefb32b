//! The books: whatever is charged, credited, cut short or sent twice, ledger, balance and usage say the same.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use model::{TenantId, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::{Value, json};
use service::{Random, Service};
use store::billing::balance::AnalysisCharge;
use store::billing::usage::UsageSource;
use store::billing::{balance, checkouts};
use store::{Conn, Store};
use testkit::{Backend, PATIENCE, Stage};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use uuid::Uuid;

use crate::admin::{admin, auspex, finish, tenant_of};
use crate::app::App;
use crate::payments::{SECRET, signed};
use crate::registration::rows;
use crate::signer::Signer;

testkit::on_both!(
    any_sequence_leaves_the_books_in_order,
    concurrent_charges_and_duplicate_payments_all_count_once,
    the_audit_finds_what_does_not_agree,
);

/// A service that is told of payments, and has nobody to ask about them.
struct Books(App);

impl Stage for Books {
    async fn set_up(backend: Backend) -> Self {
        let settings = [
            ("AUSPEX_STRIPE_SECRET_KEY", "sk_test_0123456789abcdef"),
            ("AUSPEX_STRIPE_WEBHOOK_SECRET", SECRET),
            ("AUSPEX_STRIPE_API_URL", "http://127.0.0.1:9"),
            ("AUSPEX_SYNC_LIMIT", "32"),
        ];
        Self(App::start(backend, &settings).await)
    }

    async fn tear_down(self) {
        self.0.tear_down().await;
    }
}

/// One thing that happens to an account.
#[derive(Clone, Debug)]
enum Step {
    /// An analysis is charged.
    Charge { input_tokens: u32, model: u8, batch: Option<u8>, is_sync: bool, metered: bool },
    /// The same, and the process dies before it is committed.
    LostCharge { input_tokens: u32 },
    /// An operator gives or takes.
    Adjust { cents: i64 },
    /// Somebody begins to pay.
    Checkout { cents: i64 },
    /// The provider tells of a payment; again, where it did before.
    Paid { checkout: usize },
    /// The provider tells of it, and the process dies after so many microseconds.
    CutShort { checkout: usize, after_us: u64 },
    /// Time goes by.
    Wait { hours: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let charge = (0..2_000_000_u32, 0..3_u8, proptest::option::of(0..2_u8), any::<bool>(), 0..10_u8)
        .prop_map(|(input_tokens, model, batch, is_sync, dice)| Step::Charge {
            input_tokens,
            model,
            batch: batch.filter(|_| !is_sync),
            is_sync,
            metered: dice > 0,
        });
    let step = prop_oneof![
        6 => charge,
        2 => (0..2_000_000_u32).prop_map(|input_tokens| Step::LostCharge { input_tokens }),
        2 => (-2_000..2_000_i64).prop_map(|cents| Step::Adjust { cents }),
        2 => (500..5_000_i64).prop_map(|cents| Step::Checkout { cents }),
        4 => any::<usize>().prop_map(|checkout| Step::Paid { checkout }),
        2 => (any::<usize>(), 0..4_000_u64).prop_map(|(checkout, after_us)| Step::CutShort { checkout, after_us }),
        1 => (1..30_u8).prop_map(|hours| Step::Wait { hours }),
    ];
    vec(step, 1..40)
}

/// An account that steps happen to.
struct Account<'a> {
    app: &'a App,
    service: Arc<Service>,
    random: Random,
    tenant: TenantId,
    checkouts: Vec<(Uuid, i64)>,
    expected: Expected,
}

/// What the books must come to, worked out from the steps alone.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    balance_micros: i64,
    spent_micros: i64,
    analyses: i64,
}

impl Expected {
    /// An analysis with seven tokens out, at the prices of [`charge`]: rounded half up to a micro-dollar.
    fn analysis(&mut self, input_tokens: u32, metered: bool) {
        self.analyses += 1;
        if metered {
            let millionths = i128::from(input_tokens) * 123_457 + 7 * 400_000;
            let micros = (millionths * 1_250_000 + 500_000_000_000) / 1_000_000_000_000;
            let micros = i64::try_from(micros).unwrap();
            self.balance_micros -= micros;
            self.spent_micros += micros;
        }
    }

    fn credit(&mut self, cents: i64) {
        self.balance_micros += cents * 10_000;
    }
}

impl<'a> Account<'a> {
    async fn open(app: &'a App) -> Self {
        let service = app.service();
        let tenant = service.accounts.operators.create_tenant("Acme").await.unwrap().tenant_id;
        let expected = Expected { balance_micros: 5_000_000, ..Expected::default() };
        Self { app, service, random: Random::system().unwrap(), tenant, checkouts: Vec::new(), expected }
    }

    async fn happens(&mut self, step: Step) {
        let now = self.app.now();
        match step {
            Step::Charge { input_tokens, model, batch, is_sync, metered } => {
                let model = ["small", "large", "a model"][usize::from(model)];
                let batch = batch.map(|number| Uuid::from_u128(u128::from(number)));
                let line = charge((&self.random, self.tenant), now, input_tokens, model, batch, is_sync);
                self.charge(&line, metered, true).await;
                self.expected.analysis(input_tokens, metered);
            }
            Step::LostCharge { input_tokens } => {
                let line = charge((&self.random, self.tenant), now, input_tokens, "small", None, false);
                self.charge(&line, true, false).await;
            }
            Step::Adjust { cents: 0 } => {}
            Step::Adjust { cents } => {
                self.service.billing.balances.adjust(self.tenant, cents, None).await.unwrap();
                self.expected.credit(cents);
            }
            Step::Checkout { cents } => {
                let (id, tenant) = (self.random.id(now), self.tenant);
                let written = self.service.store().write("checkout", async |conn: &mut Conn| {
                    checkouts::insert(conn, tenant, id, cents, "usd", now).await
                });
                written.await.unwrap();
                self.checkouts.push((id, cents));
            }
            Step::Paid { checkout } => {
                if let Some((body, signature)) = self.payment(checkout) {
                    self.service
                        .billing
                        .checkouts
                        .take_payment_event(Some(&signature), body.as_bytes())
                        .await
                        .unwrap();
                }
            }
            Step::CutShort { checkout, after_us } => {
                if let Some((body, signature)) = self.payment(checkout) {
                    let taken =
                        self.service.billing.checkouts.take_payment_event(Some(&signature), body.as_bytes());
                    // Whether it was in time or not: both are fine, and nothing in between may be.
                    let _ = tokio::time::timeout(Duration::from_micros(after_us), taken).await;
                }
            }
            Step::Wait { hours } => self.app.advance(Duration::from_hours(hours.into())),
        }
    }

    async fn charge(&self, line: &AnalysisCharge<'_>, metered: bool, commit: bool) {
        let now = self.app.now();
        let written = self.service.store().write("charge", async |conn: &mut Conn| {
            let lines = std::slice::from_ref(line);
            let mut batch = conn.batch();
            balance::count_usage(&mut batch, lines, metered, now.date(), 0);
            batch.run(conn).await?;
            if metered {
                balance::charge(conn, lines, now).await?;
            }
            if commit { Ok(()) } else { Err(store::Error::Address("the process dies here".to_owned())) }
        });
        assert_eq!(written.await.is_ok(), commit);
    }

    /// What the books come to.
    async fn found(&self) -> Expected {
        let read = self.service.store().read("books", async |conn: &mut Conn| {
            let balance_micros = balance::balance(conn, self.tenant).await?;
            let (spent_micros, analyses) = balance::spent(conn, self.tenant).await?;
            Ok::<_, store::Error>(Expected { balance_micros, spent_micros, analyses })
        });
        read.await.unwrap()
    }

    /// The event that a checkout was paid, and its signature.
    fn payment(&self, checkout: usize) -> Option<(String, String)> {
        let (id, cents) = self.checkouts.get(checkout % self.checkouts.len().max(1))?;
        Some(payment(*id, *cents, self.app.now()))
    }
}

fn charge<'a>(
    (random, tenant): (&Random, TenantId),
    now: Timestamp,
    input_tokens: u32,
    model: &'a str,
    batch_id: Option<Uuid>,
    is_sync: bool,
) -> AnalysisCharge<'a> {
    let tariff = model::Tariff { input_per_mtok: 123_457, output_per_mtok: 400_000, margin: 1_250_000 };
    let price = tariff.charge(input_tokens.into(), 7);
    AnalysisCharge {
        tenant,
        entry_id: random.id(now),
        micros: price.micros,
        cost_usd: price.cost_usd(),
        cost_margin: price.cost_margin(),
        model,
        object_id: Some("user_1"),
        input_tokens: input_tokens.into(),
        output_tokens: 7,
        batch_id,
        source: if is_sync { UsageSource::Sync } else { UsageSource::Async },
        is_second_stage: false,
        signal_keys: vec!["is_scammer", "trust_score"],
    }
}

/// An event of Stripe's that a checkout was paid, signed by hand.
fn payment(checkout: Uuid, cents: i64, now: Timestamp) -> (String, String) {
    let session = json!({"id": format!("cs_{}", checkout.simple()), "client_reference_id": checkout,
                         "payment_status": "paid", "amount_total": cents, "currency": "usd"});
    let event = json!({"type": "checkout.session.completed", "data": {"object": session}});
    signed(event.to_string(), now)
}

async fn any_sequence_leaves_the_books_in_order(stage: &Books) {
    let app = &stage.0;
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let outcome = block_in_place(|| {
        runner.run(&steps(), |steps| {
            Handle::current().block_on(async {
                let mut account = Account::open(app).await;
                for step in steps {
                    account.happens(step).await;
                }
                // What was cut short may still be on its way back; what is told again is credited once in any case.
                for (id, cents) in account.checkouts.clone() {
                    account.expected.credit(cents);
                    for _ in 0..2 {
                        let (body, signature) = payment(id, cents, app.now());
                        account
                            .service
                            .billing
                            .checkouts
                            .take_payment_event(Some(&signature), body.as_bytes())
                            .await
                            .unwrap();
                    }
                }
                let audit = account.service.billing.audit.run().await.unwrap();
                prop_assert!(audit.drifts.is_empty(), "{:#?}", audit.drifts);
                let paid =
                    account.service.billing.ledger.page(account.tenant, &topups()).await.unwrap().entries;
                let credited = paid.iter().filter(|line| line.reason == "topup").count();
                prop_assert_eq!(credited, account.checkouts.len(), "each was credited, and none twice");
                prop_assert_eq!(account.found().await, account.expected);
                Ok(())
            })
        })
    });
    outcome.unwrap();
    // Mails of balances that fell are on their way.
    app.advance(Duration::from_secs(3));
}

fn topups() -> service::LedgerQuery<'static> {
    service::LedgerQuery {
        kind: Some(service::LedgerKind::Credit),
        grouped: false,
        batch_id: None,
        limit: 200,
        cursor: None,
    }
}

async fn concurrent_charges_and_duplicate_payments_all_count_once(stage: &Books) {
    const CALLERS: usize = 32;
    let app = &stage.0;
    let token = app.register("ann@example.com").await;
    let tenant = TenantId(tenant_of(app, &token).await.parse().unwrap());
    let key = app.api_key(&token).await;
    let (now, checkout) = (app.now(), Uuid::from_u128(7));
    let written = app.service();
    let written = written.store().write("checkout", async |conn: &mut Conn| {
        checkouts::insert(conn, tenant, checkout, 2_000, "usd", now).await
    });
    written.await.unwrap();
    let (body, signature) = payment(checkout, 2_000, now);
    let asked = json!({"events": [{"type": "event", "name": "signup"}]});
    let charges = (0..CALLERS).map(|_| key.call(app, Method::POST, "/v1/playground", &asked));
    let payments = (0..CALLERS).map(|_| {
        let request = app.request(Method::POST, "/webhooks/stripe");
        app.send(request.header("Stripe-Signature", &signature).body(body.clone()))
    });
    let (charged, paid) = futures_util::future::join(join_all(charges), join_all(payments)).await;
    let mut cost = 0;
    for reply in charged {
        assert_eq!(reply.status, 200, "{}", reply.text);
        cost += reply.json()["cost_micros"].as_i64().unwrap();
    }
    for reply in paid {
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let ledger = key.call(app, Method::GET, "/v1/billing/ledger?limit=200", &Value::Null).await.json();
    let lines = ledger["entries"].as_array().unwrap();
    assert_eq!(lines.len(), 1 + CALLERS + 1);
    assert_eq!(lines[0]["balance_after_micros"], 5_000_000 + 20_000_000 - cost);
    let usage = key.call(app, Method::GET, "/v1/usage", &Value::Null).await.json();
    assert_eq!(
        (&usage["totals"]["analyses"], &usage["totals"]["spend_micros"]),
        (&json!(CALLERS), &json!(cost))
    );
}

/// Books that were tampered with, one way after the other: the command names what does not agree, and fails.
async fn the_audit_finds_what_does_not_agree(app: &App) {
    let token = app.register("ann@example.com").await;
    let tenant = tenant_of(app, &token).await;
    let key = app.api_key(&token).await;
    let asked = json!({"events": [{"type": "event", "name": "signup"}], "wait": true});
    for object in ["user_1", "user_2"] {
        let path = format!("/v1/objects/{object}/events");
        assert_eq!(key.call(app, Method::POST, &path, &asked).await.status, 200);
    }
    let reply = key.call(app, Method::POST, "/v1/analyze", &Value::Null).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    app.settle().await;
    crate::scripted_analyzer::until("the run has ended", async || {
        rows(app, "SELECT CAST(count(*) AS text) FROM ledger_entries").await == ["5"]
    })
    .await;
    let sound = "The ledgers of 1 accounts with 5 entries are consistent.\nThe audit logs with 2 lines are unaltered.";
    assert_eq!(admin(app, &["audit"], ""), sound);
    let store = Store::open(app.database_url()).await.unwrap();
    for (tamper, mend, word) in [
        (
            "UPDATE balances SET balance_micros = balance_micros + 1",
            "UPDATE balances SET balance_micros = balance_micros - 1",
            "balance, micro-dollars",
        ),
        (
            "UPDATE balances SET ledger_seq = ledger_seq + 1",
            "UPDATE balances SET ledger_seq = ledger_seq - 1",
            "number of the last line",
        ),
        (
            "UPDATE ledger_entries SET seq = 99 WHERE seq = 5",
            "UPDATE ledger_entries SET seq = 5 WHERE seq = 99",
            "lines of the ledger",
        ),
        (
            "UPDATE ledger_entries SET balance_after_micros = balance_after_micros + 1 WHERE seq = 2",
            "UPDATE ledger_entries SET balance_after_micros = balance_after_micros - 1 WHERE seq = 2",
            "balance before line",
        ),
        (
            "UPDATE ledger_entries SET kind = 'credit' WHERE seq = 2",
            "UPDATE ledger_entries SET kind = 'charge' WHERE seq = 2",
            "kind of line 2",
        ),
        (
            "UPDATE ledger_batches SET entries = entries + 1",
            "UPDATE ledger_batches SET entries = entries - 1",
            "bulk run",
        ),
        (
            "UPDATE usage_days SET spend_micros = spend_micros + 1 WHERE source = 'sync'",
            "UPDATE usage_days SET spend_micros = spend_micros - 1 WHERE source = 'sync'",
            "spend of 2026-01-01",
        ),
        (
            "UPDATE usage_days SET analyses = analyses - 1 WHERE source = 'sync'",
            "UPDATE usage_days SET analyses = analyses + 1 WHERE source = 'sync'",
            "analyses of 2026-01-01",
        ),
        (
            "UPDATE usage_days SET analyses = analyses + 1 WHERE source = 'sync'",
            "UPDATE usage_days SET analyses = analyses - 1 WHERE source = 'sync'",
            "analyses of 2026-01-01",
        ),
        (
            "UPDATE usage_signal_days SET analyses = analyses + 9 WHERE signal_key = 'is_scammer'",
            "UPDATE usage_signal_days SET analyses = analyses - 9 WHERE signal_key = 'is_scammer'",
            "answers to is_scammer",
        ),
        (
            "UPDATE ledger_entries SET reason = 'topup' WHERE seq = 1",
            "UPDATE ledger_entries SET reason = 'signup_credit' WHERE seq = 1",
            "credited checkouts",
        ),
    ] {
        execute(&store, tamper).await;
        let directory = app.data_directory();
        let output =
            finish(auspex(directory.parent().unwrap(), app.database_url(), &["admin", "audit"]), b"");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success(), "{tamper}: {told}");
        assert!(
            told.contains(word) && told.contains(&tenant) && told.contains("expected"),
            "{tamper}: {told}"
        );
        execute(&store, mend).await;
    }
    store.close().await;
}

/// Changes the database beside the service.
pub(crate) async fn execute(store: &Store, statement: &'static str) {
    let done = store.write("execute", async |conn: &mut Conn| {
        match conn {
            Conn::Sqlite(held) => sqlx::query(statement).execute(held.native()).await.map(drop)?,
            Conn::Postgres(held) => sqlx::query(statement).execute(held.native()).await.map(drop)?,
        }
        Ok::<_, store::Error>(())
    });
    done.await.unwrap();
}

/// While somebody holds the balance of a hot account, analyses of others are written beside it. Accounts are spread over
/// a few writers by chance, and those that share the hot one's wait for it; the rest is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_hot_account_does_not_hold_up_the_others() {
    const OTHERS: usize = 12;
    let app = App::start(Backend::Postgres, &[]).await;
    let hot = app.register("hot@example.com").await;
    let tenant = TenantId(tenant_of(&app, &hot).await.parse().unwrap());
    let hot = app.api_key(&hot).await;
    let mut others = Vec::new();
    for number in 0..OTHERS {
        let token = app.register(&format!("calm{number}@example.com")).await;
        others.push(app.api_key(&token).await);
    }
    let asked = json!({"events": [{"type": "event", "name": "signup"}], "wait": true});
    let ingest_and_wait = async |key: &Signer, object: usize| {
        let path = format!("/v1/objects/user_{object}/events");
        let reply = key.call(&app, Method::POST, &path, &asked).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    };
    let store = Store::open(app.database_url()).await.unwrap();
    let (freed, held) = tokio::sync::oneshot::channel::<()>();
    let (taken, is_taken) = tokio::sync::oneshot::channel::<()>();
    let hold = async {
        let (taken, held) = (Mutex::new(Some(taken)), Mutex::new(Some(held)));
        let (taken, held) = (&taken, &held);
        let locked = store.write("hold", async move |conn: &mut Conn| {
            balance::lock_balance(conn, tenant).await?;
            let _ = taken.lock().unwrap().take().unwrap().send(());
            let held = held.lock().unwrap().take().unwrap();
            let _ = held.await;
            Ok::<_, store::Error>(())
        });
        locked.await.unwrap();
    };
    let story = async {
        is_taken.await.unwrap();
        let hot_ones = join_all((0..8).map(|object| ingest_and_wait(&hot, object)));
        let calm_ones = async {
            let mut waiting: FuturesUnordered<_> = others.iter().map(|key| ingest_and_wait(key, 0)).collect();
            // A quarter of them shares the hot one's writer, on average: the chance of less than three is one in 20,000.
            for _ in 0..3 {
                let answered = tokio::time::timeout(PATIENCE, waiting.next()).await;
                answered.expect("others are answered while the hot one waits");
            }
            freed.send(()).unwrap();
            while waiting.next().await.is_some() {}
        };
        futures_util::future::join(hot_ones, calm_ones).await;
    };
    futures_util::future::join(hold, story).await;
    store.close().await;
    app.tear_down().await;
}
