//! Top-ups by card, beside a stand-in for Stripe: paid once, credited once, whatever gets lost or comes twice.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use service::STRIPE_API_VERSION;
use sha2::Sha256;
use testkit::{Backend, Stage, StripePeer};

use crate::app::{App, PASSWORD, Reply};
use crate::log_watch;
use crate::registration::rows;

const KEY: &str = "sk_test_0123456789abcdef";
pub(crate) const SECRET: &str = "whsec_0123456789abcdef";
const PUBLIC_URL: &str = "https://example.test/auspex";
const COMPLETED: &str = "checkout.session.completed";
const SUCCEEDED: &str = "checkout.session.async_payment_succeeded";

testkit::on_both!(
    a_top_up_is_paid_and_credited,
    a_delayed_payment_is_credited_when_the_money_is_there,
    duplicates_of_a_payment_credit_it_once,
    a_lost_event_loses_no_money,
    checkouts_that_nobody_pays_end_and_paid_ones_are_found,
    a_crash_before_the_session_was_kept_loses_no_payment,
    a_session_that_is_not_what_was_asked_for_is_not_credited,
    events_that_are_not_stripe_s_are_refused,
    events_about_other_things_are_taken_and_left_at_that,
    amounts_out_of_bounds_are_refused,
    a_failure_of_the_provider_is_reported_as_such,
    a_network_failure_is_asked_again_by_the_same_key,
    a_checkout_of_another_account_is_none,
    the_official_library_sends_and_understands_the_same,
);

/// The service, and the Stripe that it is configured with.
pub(crate) struct Payments {
    app: App,
    stripe: StripePeer,
}

impl Stage for Payments {
    async fn set_up(backend: Backend) -> Self {
        log_watch::remember(KEY);
        log_watch::remember(SECRET);
        let stripe = StripePeer::start(KEY);
        let app = App::start(backend, &settings(stripe.url().as_str())).await;
        Self { app, stripe }
    }

    async fn tear_down(self) {
        self.app.tear_down().await;
    }
}

/// A body of an event with the header that signs it, made by hand.
pub(crate) fn signed(body: String, now: Timestamp) -> (String, String) {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{}.{body}", now.seconds()).as_bytes());
    let signature = format!("t={},v1={}", now.seconds(), hex::encode(mac.finalize().into_bytes()));
    (body, signature)
}

fn settings(url: &str) -> [(&str, &str); 4] {
    [
        ("AUSPEX_STRIPE_SECRET_KEY", KEY),
        ("AUSPEX_STRIPE_WEBHOOK_SECRET", SECRET),
        ("AUSPEX_STRIPE_API_URL", url),
        ("AUSPEX_PUBLIC_URL", PUBLIC_URL),
    ]
}

impl Payments {
    async fn get(&self, token: &str, path: &str) -> Value {
        let reply = self.app.call(token, Method::GET, path, &Value::Null).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    async fn ask(&self, token: &str, amount_cents: &Value) -> Reply {
        let body = json!({"amount_cents": amount_cents});
        self.app.call(token, Method::POST, "/v1/billing/checkout", &body).await
    }

    /// Opens a checkout; the session's id.
    async fn open(&self, token: &str, amount_cents: i64) -> String {
        let reply = self.ask(token, &json!(amount_cents)).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// The customer pays.
    async fn pay(&self, session: &str) {
        let paid = json!({"payment_status": "paid", "status": "complete"});
        self.stripe.change(session, &paid).await;
    }

    /// An event of this type about a session, with some fields of the session as given.
    async fn event(&self, kind: &str, session: &str, with: &Value) -> (String, String) {
        let now = self.app.now().seconds();
        let event =
            json!({"type": kind, "session": session, "timestamp": now, "secret": SECRET, "with": with});
        self.stripe.event(&event).await
    }

    async fn deliver(&self, (body, signature): &(String, String)) -> Reply {
        let request = self.app.request(Method::POST, "/webhooks/stripe");
        self.app.send(request.header("Stripe-Signature", signature).body(body.clone())).await
    }

    /// Delivers an event that is taken.
    async fn send_payment_event(&self, kind: &str, session: &str, with: &Value) {
        let reply = self.deliver(&self.event(kind, session, with).await).await;
        assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"received": true})), "{}", reply.text);
    }

    async fn balance(&self, token: &str) -> i64 {
        self.get(token, "/v1/billing").await["balance_cents"].as_i64().unwrap()
    }

    async fn status(&self, token: &str, session: &str) -> Value {
        self.get(token, &format!("/v1/billing/checkout/{session}")).await
    }
}

async fn a_top_up_is_paid_and_credited(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let balance = stage.get(&ann, "/v1/billing").await;
    assert_eq!(
        balance,
        json!({"balance_cents": 500, "currency": "usd", "metering_enabled": true, "enforcement": "block",
               "self_serve_topup": true, "low_balance_threshold_cents": 100, "topup_min_cents": 500,
               "topup_max_cents": 100_000})
    );
    let reply = stage.ask(&ann, &json!(2_000)).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let opened = reply.json();
    let session = opened["id"].as_str().unwrap();
    assert!(session.starts_with("cs_test_"), "{session}");
    assert_eq!(opened["url"], format!("https://checkout.stripe.com/c/pay/{session}"));
    let pending = json!({"id": session, "status": "pending", "amount_cents": 2_000});
    assert_eq!(stage.status(&ann, session).await, pending);

    stage.pay(session).await;
    stage.send_payment_event(COMPLETED, session, &json!({})).await;
    let credited =
        json!({"id": session, "status": "credited", "amount_cents": 2_000, "balance_after_cents": 2_500});
    assert_eq!(stage.status(&ann, session).await, credited);
    assert_eq!(stage.balance(&ann).await, 2_500);
    let ledger = stage.get(&ann, "/v1/billing/ledger").await;
    let line = &ledger["entries"][0];
    assert_eq!((&line["reason"], &line["payment_ref"]), (&json!("topup"), &json!(session)));
    assert_eq!((&line["delta_cents"], &line["delta_micros"]), (&json!(2_000), &json!(20_000_000)));
    let mails = stage.app.mails().await;
    let mail = mails.iter().find(|mail| mail.subject.contains("credited")).expect("a mail tells of it");
    assert!(mail.text.contains("$20.00") && mail.text.contains("$25.00"), "{}", mail.text);
    assert_eq!(mail.to, "ann@example.com");
}

async fn a_delayed_payment_is_credited_when_the_money_is_there(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 500).await;
    // The customer is done, the bank is not.
    stage.stripe.change(&session, &json!({"status": "complete"})).await;
    stage.send_payment_event(COMPLETED, &session, &json!({})).await;
    stage.send_payment_event("checkout.session.async_payment_failed", &session, &json!({})).await;
    stage.send_payment_event("checkout.session.expired", &session, &json!({"status": "expired"})).await;
    assert_eq!(stage.balance(&ann).await, 500);
    assert_eq!(stage.status(&ann, &session).await["status"], "pending");
    stage.pay(&session).await;
    stage.send_payment_event(SUCCEEDED, &session, &json!({})).await;
    stage.send_payment_event(COMPLETED, &session, &json!({})).await;
    assert_eq!(stage.balance(&ann).await, 1_000);
}

async fn duplicates_of_a_payment_credit_it_once(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 1_000).await;
    stage.pay(&session).await;
    let completed = stage.event(COMPLETED, &session, &json!({})).await;
    let succeeded = stage.event(SUCCEEDED, &session, &json!({})).await;
    let deliveries = (0..64).map(|turn| stage.deliver(if turn % 2 == 0 { &completed } else { &succeeded }));
    let asking = (0..8).map(|_| stage.status(&ann, &session));
    let (replies, _) = futures_util::future::join(
        futures_util::future::join_all(deliveries),
        futures_util::future::join_all(asking),
    )
    .await;
    for reply in replies {
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    assert_eq!(stage.balance(&ann).await, 1_500);
    let credits = stage.get(&ann, "/v1/billing/ledger?type=credit").await;
    assert_eq!(credits["entries"].as_array().unwrap().len(), 2, "the signup credit and the top-up");
    let subjects = stage.app.subjects_to("ann@example.com").await;
    assert_eq!(subjects.iter().filter(|subject| subject.contains("credited")).count(), 1, "{subjects:?}");
}

async fn a_lost_event_loses_no_money(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 1_000).await;
    assert_eq!(stage.status(&ann, &session).await["status"], "pending");
    stage.pay(&session).await;
    // The provider was asked a moment ago, and is not asked for each of ours.
    let asked = stage.stripe.requests().await.len();
    assert_eq!(stage.status(&ann, &session).await["status"], "pending");
    assert_eq!(stage.stripe.requests().await.len(), asked);
    stage.app.advance(Duration::from_secs(2));
    assert_eq!(stage.status(&ann, &session).await["status"], "credited");
    assert_eq!(stage.balance(&ann).await, 1_500);
    // The event comes after all.
    stage.send_payment_event(COMPLETED, &session, &json!({})).await;
    assert_eq!(stage.balance(&ann).await, 1_500);
    let asked = stage.stripe.requests().await.len();
    stage.app.advance(Duration::from_secs(2));
    assert_eq!(stage.status(&ann, &session).await["status"], "credited");
    assert_eq!(stage.stripe.requests().await.len(), asked, "what is credited is not asked about");
    // A provider that is down takes nothing away from what is known.
    let second = stage.open(&ann, 1_000).await;
    stage.stripe.next(&["fail"]).await;
    assert_eq!(stage.status(&ann, &second).await["status"], "pending");
    stage.app.advance(Duration::from_secs(2));
    stage.stripe.stop();
    assert_eq!(stage.status(&ann, &second).await["status"], "pending");
}

/// The customer leaves; or pays, and nobody hears of it.
async fn checkouts_that_nobody_pays_end_and_paid_ones_are_found(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let (left, paid) = (stage.open(&ann, 500).await, stage.open(&ann, 1_000).await);
    stage.pay(&paid).await;
    let status = async |session: &str| {
        // A session of the console does not last that long.
        let credentials = json!({"email": "ann@example.com", "password": PASSWORD});
        let token = stage.app.post("/auth/console/login", &credentials).await.json()["token"].clone();
        let path = format!("/v1/billing/checkout/{session}");
        stage.app.call(token.as_str().unwrap(), Method::GET, &path, &Value::Null).await
    };
    let day = Duration::from_hours(24);
    stage.app.advance(29 * day);
    stage.app.sweeper_has_swept().await;
    assert_eq!(status(&left).await.json()["status"], "pending");
    // Without the provider nobody can say whether it was paid. It is down before the clock moves: the
    // sweeper may wake as soon as it does.
    stage.stripe.next(&["fail"; 20]).await;
    stage.app.advance(day + Duration::from_secs(1));
    stage.app.sweeper_has_swept().await;
    assert_eq!(status(&left).await.json()["status"], "pending");
    crate::scripted_analyzer::until("it is gone", async || {
        stage.app.sweeper_has_swept().await;
        status(&left).await.status == 404
    })
    .await;
    stage.app.settle().await;
    let credited = status(&paid).await.json();
    assert_eq!((&credited["status"], &credited["balance_after_cents"]), (&json!("credited"), &json!(1_500)));
    let subjects = stage.app.subjects_to("ann@example.com").await;
    assert_eq!(subjects.iter().filter(|subject| subject.contains("credited")).count(), 1, "{subjects:?}");
    // Its event comes after all, and credits nothing.
    stage.send_payment_event(COMPLETED, &paid, &json!({})).await;
    stage.app.advance(365 * day);
    stage.app.sweeper_has_swept().await;
    assert_eq!(status(&paid).await.json()["status"], "credited", "it is kept like the ledger");
}

async fn a_crash_before_the_session_was_kept_loses_no_payment(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    // Both answers get lost: the session is there, and this service does not know it.
    stage.stripe.next(&["lose", "lose"]).await;
    stage.ask(&ann, &json!(700)).await.refused(502, "payment_provider_error");
    let kept =
        "SELECT CAST(amount_cents AS text) || ' ' || status || ' ' || coalesce(provider_session_id, '-')
        || ' ' || CAST(checkout_id AS text) FROM checkouts";
    let kept_row = if stage.app.database_url().starts_with("sqlite") {
        "SELECT CAST(amount_cents AS text) || ' ' || status || ' ' || coalesce(provider_session_id, '-')
             || ' ' || lower(hex(checkout_id)) FROM checkouts"
    } else {
        kept
    };
    let row = rows(&stage.app, kept_row).await.remove(0);
    assert!(row.starts_with("700 pending - "), "{row}");
    // Opened by the same key and parameters, which only Stripe's own memory can do: the session comes back.
    let requests = stage.stripe.requests().await;
    let sent = requests.last().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let form: Vec<(String, String)> = serde_json::from_value(sent["form"].clone()).unwrap();
    let again = client
        .post(stage.stripe.url().join("/v1/checkout/sessions").unwrap())
        .bearer_auth(KEY)
        .header("Stripe-Version", STRIPE_API_VERSION)
        .header("Idempotency-Key", sent["headers"]["Idempotency-Key"].as_str().unwrap())
        .form(&form);
    let session: Value = again.send().await.unwrap().json().await.unwrap();
    let session = session["id"].as_str().unwrap();
    stage.pay(session).await;
    // Once by the client reference, once more by the metadata, which is what is left where somebody drops the first.
    stage.send_payment_event(COMPLETED, session, &json!({})).await;
    stage.send_payment_event(SUCCEEDED, session, &json!({"client_reference_id": null})).await;
    assert_eq!(stage.balance(&ann).await, 1_200);
    assert_eq!(stage.status(&ann, session).await["status"], "credited");
}

async fn a_session_that_is_not_what_was_asked_for_is_not_credited(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 1_000).await;
    stage.pay(&session).await;
    for with in [
        json!({"amount_total": 999}),
        json!({"amount_total": 1_001}),
        json!({"amount_total": null}),
        json!({"currency": "eur"}),
        json!({"currency": null}),
        json!({"payment_status": "unpaid"}),
        json!({"payment_status": "no_payment_required"}),
        // Of our checkout, and yet another session than the one that was opened for it.
        json!({"id": "cs_test_another"}),
    ] {
        stage.send_payment_event(COMPLETED, &session, &with).await;
        assert_eq!(stage.balance(&ann).await, 500, "{with}");
    }
    stage.send_payment_event(COMPLETED, &session, &json!({"currency": "USD"})).await;
    assert_eq!(stage.balance(&ann).await, 1_500);
    stage.send_payment_event(COMPLETED, &session, &json!({"id": "cs_test_another"})).await;
    assert_eq!(stage.balance(&ann).await, 1_500);
}

async fn events_that_are_not_stripe_s_are_refused(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 1_000).await;
    stage.pay(&session).await;
    let (body, signature) = stage.event(COMPLETED, &session, &json!({})).await;
    let post = || stage.app.request(Method::POST, "/webhooks/stripe");
    let refused = async |request: reqwest::RequestBuilder| {
        stage.app.send(request).await.refused(400, "bad_request");
        assert_eq!(stage.balance(&ann).await, 500);
    };
    refused(post().body(body.clone())).await;
    let wrong = signature.replace("v1=", "v1=00");
    for header in ["", "t=1", &wrong, &signature.replace("v1=", "v0=")] {
        refused(post().header("Stripe-Signature", header).body(body.clone())).await;
    }
    let twice = post().header("Stripe-Signature", &signature).header("Stripe-Signature", &signature);
    refused(twice.body(body.clone())).await;
    refused(post().header("Stripe-Signature", &signature).body(format!("{body} "))).await;
    refused(post().header("Stripe-Signature", &signature).body(body.replace('\n', ""))).await;
    // Of five minutes and a second ago.
    stage.app.advance(Duration::from_secs(301));
    refused(post().header("Stripe-Signature", &signature).body(body.clone())).await;
    // One secret is being rolled: the old one's signature comes first.
    let fresh = stage.event(COMPLETED, &session, &json!({})).await;
    let (time, fitting) = fresh.1.split_once(',').unwrap();
    let rolled = format!("{time},v1={},{fitting}", "ab".repeat(32));
    let large = post().header("Stripe-Signature", &rolled).body("x".repeat(300 * 1024));
    stage.app.send(large).await.refused(413, "payload_too_large");
    let reply = stage.deliver(&(fresh.0, rolled)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(stage.balance(&ann).await, 1_500);
}

async fn events_about_other_things_are_taken_and_left_at_that(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 1_000).await;
    stage.pay(&session).await;
    for kind in ["payment_intent.succeeded", "customer.created", "a.kind.that.nobody.knows"] {
        stage.send_payment_event(kind, &session, &json!({})).await;
    }
    // Other sellers share the account at Stripe.
    for reference in [json!(null), json!("order-7"), json!("01890a5d-ac96-774b-bcce-b302099a8057")] {
        let of_others = json!({"id": "cs_test_of_others", "client_reference_id": reference, "metadata": {}});
        stage.send_payment_event(COMPLETED, &session, &of_others).await;
    }
    assert_eq!(stage.balance(&ann).await, 500);
    // Signed, and yet no event: it is sent again, and somebody sees it.
    let nul = format!(
        r#"{{"type": "{COMPLETED}", "data": {{"object": {{"id": "cs\u0000", "payment_status": "paid"}}}}}}"#
    );
    let without_session = format!(r#"{{"type": "{COMPLETED}", "data": {{"object": {{}}}}}}"#);
    for body in ["", "{", "[]", "{}", r#"{"type": 7}"#, &without_session, &nul] {
        let event = signed(body.to_owned(), stage.app.now());
        stage.deliver(&event).await.refused(400, "bad_request");
    }
}

async fn amounts_out_of_bounds_are_refused(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    for amount in [json!(499), json!(100_001), json!(0), json!(-500), json!(i64::MIN), json!(i64::MAX)] {
        let message = stage.ask(&ann, &amount).await.refused(400, "bad_request");
        assert!(message.contains("amount_cents") && message.contains("500"), "{message}");
    }
    for amount in [json!(null), json!("500"), json!(500.5), json!(1e30), json!([])] {
        stage.ask(&ann, &amount).await.refused(400, "bad_request");
    }
    for amount in [500, 100_000] {
        stage.open(&ann, amount).await;
    }
    assert_eq!(stage.stripe.requests().await.len(), 2, "Stripe is not asked in vain");
}

async fn a_failure_of_the_provider_is_reported_as_such(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    for behaviour in ["fail", "refuse", "garbage"] {
        stage.stripe.next(&[behaviour]).await;
        let message = stage.ask(&ann, &json!(500)).await.refused(502, "payment_provider_error");
        assert!(!message.contains("stand-in") && !message.contains("declined"), "{message}");
    }
    assert_eq!(stage.stripe.requests().await.len(), 3, "an answer is an answer: nobody asks twice");
    stage.stripe.stop();
    stage.ask(&ann, &json!(500)).await.refused(502, "payment_provider_error");
    assert_eq!(stage.balance(&ann).await, 500);
}

async fn a_network_failure_is_asked_again_by_the_same_key(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    for lost in ["drop", "lose"] {
        let before = stage.stripe.requests().await.len();
        stage.stripe.next(&[lost]).await;
        let session = stage.open(&ann, 500).await;
        let requests = stage.stripe.requests().await;
        assert_eq!(requests.len(), before + 2, "{lost}");
        assert_eq!(requests[before], requests[before + 1], "{lost}: the same, key and all");
        stage.pay(&session).await;
        stage.send_payment_event(COMPLETED, &session, &json!({})).await;
    }
    assert_eq!(stage.balance(&ann).await, 1_500);
    // Twice is enough: a person is waiting.
    stage.stripe.next(&["drop", "drop", "drop"]).await;
    stage.ask(&ann, &json!(500)).await.refused(502, "payment_provider_error");
}

async fn a_checkout_of_another_account_is_none(stage: &Payments) {
    let ann = stage.app.register("ann@example.com").await;
    let bob = stage.app.register("bob@example.com").await;
    let session = stage.open(&ann, 500).await;
    let read = async |token: &str, session: &str| {
        let path = format!("/v1/billing/checkout/{session}");
        stage.app.call(token, Method::GET, &path, &Value::Null).await
    };
    read(&bob, &session).await.refused(404, "not_found");
    for unknown in
        ["cs_test_unknown", "..", "%2e%2e%2f", "01890a5d-ac96-774b-bcce-b302099a8057", "'", "%F0%9F%98%80"]
    {
        read(&ann, unknown).await.refused(404, "not_found");
    }
    read(&ann, "%00").await.refused(400, "bad_request");
    assert_eq!(read(&ann, &session).await.status, 200);
}

/// Our requests beside those of Stripe's own library, and the stand-in's answers and our signatures in its hands.
async fn the_official_library_sends_and_understands_the_same(stage: &Payments) {
    let version = stage.stripe.official("version", &[], &Value::Null);
    assert_eq!(version["api_version"], STRIPE_API_VERSION);
    let ann = stage.app.register("ann@example.com").await;
    let session = stage.open(&ann, 2_000).await;
    let ours = stage.stripe.requests().await.remove(0);
    let form: Vec<(String, String)> = serde_json::from_value(ours["form"].clone()).unwrap();
    let sent = |name: &str| form.iter().find(|(key, _)| key == name).unwrap().1.clone();
    let checkout = sent("client_reference_id");
    assert_eq!(ours["headers"]["Idempotency-Key"], checkout);
    assert_eq!(sent("success_url"), format!("{PUBLIC_URL}/console/billing?checkout={{CHECKOUT_SESSION_ID}}"));
    assert_eq!(sent("cancel_url"), format!("{PUBLIC_URL}/console/billing?checkout=cancelled"));

    let metadata = json!({"checkout_id": checkout, "tenant_id": sent("metadata[tenant_id]")});
    let parameters = json!({
        "mode": "payment",
        "client_reference_id": checkout,
        "metadata": metadata,
        "payment_intent_data": {"metadata": metadata},
        "line_items": [{"quantity": 1, "price_data": {
            "currency": "usd", "unit_amount": 2_000, "product_data": {"name": "Prepaid balance"}}}],
        "success_url": sent("success_url"),
        "cancel_url": sent("cancel_url"),
        "idempotency_key": "another",
    });
    let opened = stage.stripe.official("open", &[], &parameters);
    assert_ne!(opened["id"], session, "another key is another session");
    let theirs = stage.stripe.requests().await.remove(1);
    let mut their_form: Vec<(String, String)> = serde_json::from_value(theirs["form"].clone()).unwrap();
    let mut our_form = form.clone();
    our_form.sort();
    their_form.sort();
    assert_eq!(our_form, their_form);
    for header in ["Authorization", "Content-Type", "Stripe-Version"] {
        assert_eq!(ours["headers"][header], theirs["headers"][header], "{header}");
    }
    assert_eq!((&ours["method"], &ours["path"]), (&theirs["method"], &theirs["path"]));

    stage.pay(&session).await;
    stage.status(&ann, &session).await;
    let read = stage.stripe.official("read", &["--session", &session], &Value::Null);
    assert_eq!(
        read,
        json!({"id": session, "url": format!("https://checkout.stripe.com/c/pay/{session}"),
               "client_reference_id": checkout, "payment_status": "paid", "status": "complete",
               "amount_total": 2_000, "currency": "usd", "mode": "payment", "metadata": metadata})
    );
    let requests = stage.stripe.requests().await;
    let [ours, theirs] = &requests[2..] else { panic!("{requests:#?}") };
    assert_eq!((&ours["method"], &ours["path"]), (&theirs["method"], &theirs["path"]));

    let (body, signature) = stage.event(COMPLETED, &session, &json!({})).await;
    let event = json!({"body": body, "signature": signature});
    let verified = stage.stripe.official("verify", &["--secret", SECRET], &event);
    assert_eq!(verified, json!({"verified": true, "type": COMPLETED, "session": session}));
    let refused = stage.stripe.official("verify", &["--secret", "whsec_another"], &event);
    assert_eq!(refused, json!({"verified": false}));
    assert_eq!(stage.balance(&ann).await, 2_500, "asking was enough");
}

/// Without Stripe nobody can top up, and nobody who calls is believed.
#[test]
fn without_a_provider_there_are_no_payments() {
    testkit::run_on(Backend::Sqlite, async |app: &App| {
        let ann = app.register("ann@example.com").await;
        let balance = app.call(&ann, Method::GET, "/v1/billing", &Value::Null).await.json();
        assert_eq!(balance["self_serve_topup"], false);
        let body = json!({"amount_cents": 500});
        let reply = app.call(&ann, Method::POST, "/v1/billing/checkout", &body).await;
        reply.refused(503, "payments_not_configured");
        let reply = app.post("/webhooks/stripe", &json!({})).await;
        reply.refused(503, "payments_not_configured");
        let reply = app.call(&ann, Method::GET, "/v1/billing/checkout/cs_1", &Value::Null).await;
        reply.refused(404, "not_found");
    });
}
