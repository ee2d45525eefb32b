//! The client crate against the real service: every area of the interface, as a program would use it.

use std::time::Duration;

use client::api::{
    APIKeyActivity, APIKeyUpdate, ActionType, DeliveryStatus, EventInput, EventRetention, LoginRequest,
    PlaygroundRequest, ReauthenticateRequest, RegisterRequest, ReplayStatus, RuleCreate, RuleReplayRequest,
    RuleReplayResponse, RuleTestOutcome, RuleTestRequest, RuleUpdate, SettingsUpdate, SignalInput,
    SystemOneRequest, TrialCreate, VerifyRequest, WebhookEndpointCreate, WebhookEndpointUpdate,
};
use client::{
    Client, ClientBuilder, DeliveriesQuery, Error, FiringsQuery, Ingest, LedgerQuery, ObjectSort,
    ObjectsQuery, SignalType, webhook,
};
use http::{HeaderMap, HeaderName};
use serde_json::json;

use crate::app::{App, PASSWORD};
use crate::receiver::Receiver;
use crate::scripted_analyzer::{Scripted, Settings, until};

testkit::on_both!(
    a_person_signs_up_and_a_program_takes_over,
    a_person_looks_after_their_sessions,
    events_become_answers,
    questions_are_asked_and_changed,
    a_rule_fires_and_its_webhook_verifies,
    a_trial_is_estimated_and_a_long_replay_is_read_again,
    money_and_settings_are_read,
);

/// An id in which everything needs escaping.
const OBJECT: &str = "käufer/1 %2F?#&+ü😀";

/// A replay of more than three analyses runs in the background.
struct ShortReplays;

impl Settings for ShortReplays {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_REPLAY_INLINE", "3")];
}

fn builder(app: &App) -> ClientBuilder {
    let clock = app.clock();
    Client::builder(app.url("")).clock(move || clock.now())
}

async fn signed_up(app: &App) -> Client {
    let token = app.register("ann@example.com").await;
    let made = builder(app).token(token).build().unwrap().create_key(Some("program")).await.unwrap();
    builder(app).key(made.key, made.secret).build().unwrap()
}

fn events(number: usize) -> Vec<EventInput> {
    (0..number).map(|number| EventInput::event("sale").with_metadata(&json!({"number": number}))).collect()
}

/// Lets everything that was scheduled be analyzed.
async fn analyzed(app: &App) {
    app.advance(Duration::from_secs(3));
    app.settle().await;
}

fn status<T: std::fmt::Debug>(outcome: Result<T, Error>) -> (u16, String) {
    let error = outcome.unwrap_err();
    let refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
    (refusal.status, refusal.code.clone())
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

async fn a_person_signs_up_and_a_program_takes_over(app: &App) {
    let nobody = builder(app).max_retries(0).build().unwrap();
    let register = RegisterRequest {
        tenant_name: "Acme".to_owned(),
        email: "ann@example.com".to_owned(),
        password: PASSWORD.to_owned(),
    };
    nobody.register(&register).await.unwrap();
    assert_eq!(status(nobody.register(&register).await), code(409, "conflict"));
    let login =
        LoginRequest { email: register.email, password: register.password, code: None, passkey: None };
    let token = nobody.log_in(&login).await.unwrap();
    assert_eq!(status(nobody.me().await), code(401, "unauthorized"));

    let person = builder(app).token(token.token).build().unwrap();
    assert_eq!(person.me().await.unwrap().email.as_deref(), Some("ann@example.com"));
    let made = person.create_key(None).await.unwrap();
    let program = builder(app).key(&made.key, &made.secret).build().unwrap();
    let me = program.me().await.unwrap();
    assert_eq!((me.tenant_name.as_str(), me.user_id), ("Acme", None));

    let id = made.api_key.id;
    let renamed = APIKeyUpdate { name: Some("nightly".to_owned()), status: None };
    assert_eq!(program.update_key(id, &renamed).await.unwrap().name, "nightly");
    assert_eq!(program.keys().await.unwrap().len(), 1);
    let rotated = program.rotate_key(id).await.unwrap();
    assert_eq!(status(program.me().await), code(401, "unauthorized"), "the old secret stops at once");
    let program = builder(app).key(rotated.key, rotated.secret).build().unwrap();
    program.me().await.unwrap();
    let stopped = APIKeyUpdate { name: None, status: Some(APIKeyActivity::Inactive) };
    person.update_key(id, &stopped).await.unwrap();
    assert_eq!(status(program.me().await), code(401, "unauthorized"));
    person.revoke_key(id).await.unwrap();
    assert!(person.keys().await.unwrap().is_empty());
}

async fn a_person_looks_after_their_sessions(app: &App) {
    let first = app.register("ann@example.com").await;
    let nobody = builder(app).max_retries(0).build().unwrap();
    let login = LoginRequest {
        email: "ann@example.com".to_owned(),
        password: PASSWORD.to_owned(),
        code: None,
        passkey: None,
    };
    let person = builder(app).token(nobody.log_in(&login).await.unwrap().token).build().unwrap();
    assert_eq!(person.me().await.unwrap().email_verified, Some(false));
    let link = VerifyRequest { token: app.verification("ann@example.com").await, keep: None };
    person.verify_email(&link).await.unwrap();
    assert_eq!(person.me().await.unwrap().email_verified, Some(true));
    let password = ReauthenticateRequest { password: Some(PASSWORD.to_owned()), ..Default::default() };
    person.reauthenticate(&password).await.unwrap();

    let sessions = person.sessions().await.unwrap();
    assert_eq!(sessions.len(), 2);
    let other = sessions.iter().find(|session| !session.current).unwrap();
    person.end_session(other.id).await.unwrap();
    assert_eq!(app.call(&first, reqwest::Method::GET, "/v1/me", &json!(null)).await.status, 401);
    nobody.log_in(&login).await.unwrap();
    person.end_other_sessions().await.unwrap();
    assert_eq!(person.sessions().await.unwrap().len(), 1);
    person.log_out().await.unwrap();
    assert_eq!(status(person.me().await), code(401, "unauthorized"));
}

async fn events_become_answers(app: &App) {
    let client = signed_up(app).await;
    let sent =
        client.send(OBJECT, Ingest::new(events(3)).object_type("buyer").idempotency_key("k")).await.unwrap();
    assert_eq!((sent.accepted.object_id.as_str(), sent.accepted.accepted, sent.replayed), (OBJECT, 3, false));
    let again = client.send(OBJECT, Ingest::new(events(3)).idempotency_key("k")).await.unwrap();
    assert!(again.replayed);
    assert_eq!(
        status(client.send("another", Ingest::new(events(1)).idempotency_key("k")).await),
        code(422, "idempotency_key_reused")
    );
    assert_eq!(client.events(OBJECT).await.unwrap().len(), 3);
    analyzed(app).await;
    let object = client.object(OBJECT).await.unwrap();
    assert_eq!((object.event_count, object.analysis.len(), object.pending.len()), (3, 3, 0));

    let verdict =
        client.verdict(OBJECT, Ingest::new(events(1)).signals(["is_scammer"]).include_history(false));
    let verdict = verdict.await.unwrap();
    assert!(verdict.analyzed && !verdict.history_included);
    assert_eq!((verdict.answers.len(), verdict.answers[0].value.kind), (1, SignalType::Noul));
    assert_eq!(client.object_state(OBJECT).await.unwrap().object_id, OBJECT);
    client.analyze_object(OBJECT).await.unwrap();
    assert_eq!(client.analyze_all().await.unwrap().scheduled, 1);
    analyzed(app).await;

    let query = ObjectsQuery {
        q: Some("is_scammer >= 0".to_owned()),
        sort: ObjectSort::Flagged,
        ..Default::default()
    };
    assert_eq!(client.objects(&query).await.unwrap().objects[0].object_type, "buyer");
    let query =
        ObjectsQuery { q: Some("käufer/1 %2F?#&+".to_owned()), limit: Some(1), ..Default::default() };
    assert_eq!(client.objects(&query).await.unwrap().objects.len(), 1);
    assert_eq!(client.overview().await.unwrap().objects, 1);
    client.delete_object(OBJECT).await.unwrap();
    assert_eq!(status(client.object(OBJECT).await), code(404, "not_found"));
    assert_eq!(status(client.delete_object(OBJECT).await), code(404, "not_found"));
    assert_eq!(status(client.send("a", Ingest::new([])).await), code(400, "bad_request"));
}

async fn questions_are_asked_and_changed(app: &App) {
    let client = signed_up(app).await;
    client.send("a", Ingest::new(events(1))).await.unwrap();
    analyzed(app).await;
    let question: SignalInput = serde_json::from_value(
        json!({"type": "score", "instructions": "How kind?", "criteria": ["not", "very"]}),
    )
    .unwrap();
    assert_eq!(client.put_signal("kindness", &question).await.unwrap().kind, SignalType::Score);
    assert_eq!(client.signals().await.unwrap().len(), 4);
    assert_eq!(client.backfill("kindness").await.unwrap().estimate.objects, 1);
    assert_eq!(client.start_backfill("kindness").await.unwrap().total, 1);
    analyzed(app).await;
    assert_eq!(client.backfill("kindness").await.unwrap().backfill.unwrap().completed, 1);
    let request = PlaygroundRequest {
        events: events(2),
        object_type: None,
        signals: Some(vec!["kindness".to_owned()]),
    };
    assert_eq!(client.playground(&request).await.unwrap().events_count, 2);
    let request: SystemOneRequest =
        serde_json::from_value(json!({"state": "late again", "questions": {"late": {"type": "noul"}}}))
            .unwrap();
    assert!(client.system_one(&request).await.unwrap().answers["late"].value.noul.is_some());
    client.delete_signal("kindness").await.unwrap();
    assert_eq!(status(client.delete_signal("kindness").await), code(404, "not_found"));
    analyzed(app).await;
}

async fn a_rule_fires_and_its_webhook_verifies(app: &App) {
    let (client, receiver) = (signed_up(app).await, Receiver::start().await);
    let create = WebhookEndpointCreate {
        url: receiver.url(),
        description: None,
        signal_keys: None,
        events: Some(vec!["rule.triggered".to_owned()]),
        enabled: None,
    };
    let made = client.create_webhook(&create).await.unwrap();
    let id = made.endpoint.id;
    let change = WebhookEndpointUpdate { description: Some("desk".to_owned()), ..Default::default() };
    assert_eq!(client.update_webhook(id, &change).await.unwrap().description, "desk");
    assert_eq!(client.webhook(id).await.unwrap(), client.webhooks().await.unwrap()[0]);

    let serde_json::Value::Object(action_config) = json!({"endpoint_id": id}) else { panic!("no object") };
    let rule = RuleCreate {
        name: Some("Any".to_owned()),
        when: "is_scammer >= 0".to_owned(),
        action_type: ActionType::Webhook,
        action_config,
        enabled: None,
        mode: None,
        cooldown_seconds: None,
    };
    let rule = client.create_rule(&rule).await.unwrap();
    client.verdict(OBJECT, Ingest::new(events(1))).await.unwrap();
    let arrived = receiver.got(1).await;
    app.settle().await;

    let mut headers = HeaderMap::new();
    for (name, value) in &arrived.headers {
        headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let body = arrived.body.as_bytes();
    webhook::verify(&made.secret, &headers, body, app.now(), webhook::TOLERANCE).unwrap();
    let later = app.now() + Duration::from_mins(6);
    assert!(webhook::verify(&made.secret, &headers, body, later, webhook::TOLERANCE).is_err());
    let webhook::Payload::RuleTriggered(told) = webhook::parse(body).unwrap() else {
        panic!("{}", arrived.body)
    };
    assert_eq!((told.rule_id, told.object_id.as_str()), (rule.id, OBJECT));

    let query = FiringsQuery { object_id: Some(OBJECT.to_owned()), ..Default::default() };
    assert_eq!(client.firings(&query).await.unwrap()[0].rule_id, rule.id);
    let query =
        DeliveriesQuery { status: Some(DeliveryStatus::Delivered), endpoint_id: Some(id), limit: Some(5) };
    let delivered = client.deliveries(&query).await.unwrap();
    client.replay_delivery(delivered[0].id).await.unwrap();
    receiver.got(2).await;
    app.settle().await;

    let action: RuleTestRequest =
        serde_json::from_value(json!({"action_type": "webhook", "action_config": {"endpoint_id": id}}))
            .unwrap();
    let tested = client.test_rule(&action).await.unwrap();
    assert_eq!((tested.outcome, tested.status_code), (RuleTestOutcome::Sent, Some(200)));
    receiver.got(3).await;

    let change = RuleUpdate { enabled: Some(false), ..Default::default() };
    assert!(!client.update_rule(rule.id, &change).await.unwrap().enabled);
    assert!(!client.rule(rule.id).await.unwrap().enabled);
    assert_eq!(client.rules().await.unwrap().len(), 1);
    client.delete_rule(rule.id).await.unwrap();
    client.delete_webhook(id).await.unwrap();
    assert_eq!(status(client.webhook(id).await), code(404, "not_found"));
}

async fn a_trial_is_estimated_and_a_long_replay_is_read_again(stage: &Scripted<ShortReplays>) {
    let client = signed_up(stage).await;
    for object in ["a", "b", "c", "d"] {
        client.verdict(object, Ingest::new(events(1))).await.unwrap();
    }
    let trial: TrialCreate =
        serde_json::from_value(json!({"instructions": "Is it fraud?", "over": "recent"})).unwrap();
    let estimate = client.estimate_trial("is_scammer", &trial).await.unwrap();
    assert!(estimate.objects == 4 && estimate.estimated_cost_micros > 0, "{estimate:?}");
    assert!(client.trials("is_scammer", None).await.unwrap().trials.is_empty(), "nothing was started");
    let refused = client.estimate_trial("none", &trial).await;
    assert_eq!(status(refused), code(404, "not_found"));

    let request = RuleReplayRequest {
        when: "is_scammer >= 0".to_owned(),
        cooldown_seconds: None,
        from: None,
        to: None,
    };
    let RuleReplayResponse::Started(started) = client.replay_rule(&request).await.unwrap() else {
        panic!("it is longer than a caller waits for")
    };
    until("it is done", async || client.rule_replay(started.id).await.unwrap().status == ReplayStatus::Done)
        .await;
    let done = client.rule_replay(started.id).await.unwrap();
    assert_eq!((done.analyses, done.firings, done.objects), (4, Some(4), Some(4)));
    assert_eq!(status(client.rule_replay(uuid::Uuid::nil()).await), code(404, "not_found"));
}

async fn money_and_settings_are_read(app: &App) {
    let client = signed_up(app).await;
    client.verdict("a", Ingest::new(events(1))).await.unwrap();
    assert_eq!(client.balance().await.unwrap().currency, "usd");
    let charges =
        LedgerQuery { kind: Some("charge".to_owned()), grouped: true, limit: Some(1), ..Default::default() };
    let page = client.ledger(&charges).await.unwrap();
    assert_eq!(page.entries[0].object_id.as_deref(), Some("a"));
    let usage = client.usage(Some(app.now().date()), None).await.unwrap();
    assert_eq!((usage.totals.analyses, usage.series.len()), (1, 1));
    assert_eq!(status(client.open_checkout(2_000).await), code(503, "payments_not_configured"));
    assert_eq!(status(client.checkout("cs_none").await), code(404, "not_found"));
    let change = SettingsUpdate {
        event_retention: Some(EventRetention::Days),
        event_retention_days: Some(Some(30)),
        ..Default::default()
    };
    assert_eq!(client.update_settings(&change).await.unwrap().event_retention_days, Some(30));
    assert!(!client.settings().await.unwrap().auto_backfill_signals);
    app.empty_balances().await;
    assert_eq!(status(client.send("a", Ingest::new(events(1))).await), code(402, "payment_required"));
    app.credit_everybody(1).await;
}
