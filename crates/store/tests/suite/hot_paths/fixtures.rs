//! What the hot paths work on: two tenants with signals, a rule, endpoints and requests of any number.

use std::time::Duration;

use model::api::{APIKeyStatus, ActionType, AnalysisSource, EventType, RuleMode};
use model::{KeyId, KeyKind, MemberRole, NewEvent, Provider, SignalType, TenantId, Timestamp, UserId};
use sqlx::types::Json;
use store::accounts::identities::Identity;
use store::accounts::keys::Key;
use store::accounts::passkeys::Passkey;
use store::accounts::sessions::{Holder, NewSession};
use store::accounts::users::NewUser;
use store::accounts::{identities, keys, passkeys, sessions, tenants, users};
use store::actions::rules;
use store::actions::rules::Rule;
use store::actions::webhooks::deliveries::NewDelivery;
use store::actions::webhooks::endpoints;
use store::actions::webhooks::endpoints::Endpoint;
use store::analysis::answer_history::NewAnalysis;
use store::analysis::concluder::{NewAnswer, NewAnswers};
use store::analysis::jobs::Schedule;
use store::analysis::signals;
use store::analysis::signals::Signal;
use store::analysis::verdict_slots::VerdictSlot;
use store::billing::balance;
use store::billing::balance::{AnalysisCharge, Credit};
use store::billing::ledger::LedgerReason;
use store::billing::usage::UsageSource;
use store::objects::request::{IdempotencyKey, IngestKind, IngestRequest};
use store::runtime::created_by::CreatedBy;
use store::{Conn, Result};
use uuid::Uuid;

pub(crate) const TENANT: TenantId = TenantId(Uuid::from_u128(1));
pub(crate) const NEIGHBOUR: TenantId = TenantId(Uuid::from_u128(2));
pub(crate) const USER: UserId = UserId(Uuid::from_u128(3));
pub(crate) const KEY: KeyId = KeyId(Uuid::from_u128(4));
pub(crate) const BULK_RUN: Uuid = Uuid::from_u128(5);
pub(crate) const ENDPOINTS: [Uuid; 2] = [Uuid::from_u128(21), Uuid::from_u128(22)];
pub(crate) const RULE: Uuid = Uuid::from_u128(31);
pub(crate) const CONDITION: Uuid = Uuid::from_u128(32);
pub(crate) const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
/// Numbers of rows: one, a shared text on SQLite, several chunks, and the largest chunk.
pub(crate) const SIZES: [usize; 4] = [1, 5, 40, 600];

pub(crate) const SIGNALS: [(&str, SignalType, Uuid); 3] = [
    ("risk", SignalType::Noul, Uuid::from_u128(11)),
    ("quality", SignalType::Score, Uuid::from_u128(12)),
    ("intent", SignalType::Choice, Uuid::from_u128(13)),
];

/// Makes the accounts.
pub(crate) async fn accounts(conn: &mut Conn) -> Result<()> {
    for tenant in [TENANT, NEIGHBOUR] {
        tenants::insert(conn, tenant, "Test", NOW).await?;
        balance::open(conn, tenant).await?;
        let credit = Credit {
            entry_id: tenant.0,
            micros: 1_000_000,
            reason: LedgerReason::Adjustment,
            payment_ref: None,
            note: None,
        };
        balance::credit(conn, tenant, &credit, NOW).await?;
        for (key, kind, signal_id) in SIGNALS {
            let signal = Signal {
                key: key.to_owned(),
                signal_id,
                kind,
                instructions: "\"?\"".to_owned(),
                criteria: None,
                version: 1,
                calibration_id: None,
                escalation: None,
                enabled: true,
                created_at: NOW,
                updated_at: NOW,
            };
            signals::put(conn, tenant, &signal).await?;
        }
        rules::insert(conn, &rule(tenant), &CreatedBy::OPERATOR).await?;
    }
    for endpoint_id in ENDPOINTS {
        endpoints::insert(conn, &endpoint(endpoint_id), b"sealed", &CreatedBy::OPERATOR).await?;
    }
    people(conn).await
}

async fn people(conn: &mut Conn) -> Result<()> {
    let user = NewUser {
        user_id: USER,
        tenant_id: TENANT,
        email: "ann@example.com",
        email_key: "ann@example.com",
        email_verified_at: None,
        password_hash: None,
        role: MemberRole::Owner,
    };
    users::insert(conn, &user, NOW).await?;
    let identity = Identity {
        provider: Provider::Google,
        tenant_id: TENANT,
        user_id: USER,
        email: "ann@example.com".to_owned(),
        created_at: NOW,
    };
    identities::insert(conn, &identity, "subject").await?;
    let passkey = Passkey {
        credential_id: "credential".to_owned(),
        passkey_id: KEY.0,
        tenant_id: TENANT,
        user_id: USER,
        user_handle: USER.0,
        credential: "{}".to_owned(),
        name: "Phone".to_owned(),
        created_at: NOW,
        last_used_at: None,
    };
    passkeys::insert(conn, &passkey).await?;
    let key = Key {
        key_id: KEY,
        public_id: "ak_1".to_owned(),
        tenant_id: TENANT,
        name: "key".to_owned(),
        status: APIKeyStatus::Active,
        secret: None,
        kind: KeyKind::Signed,
        scopes: None,
        bearer_hash: Some(vec![3; 32]),
        legacy_hash: Some(vec![1; 32]),
        legacy_preview: None,
        created_at: NOW,
        last_used_at: None,
        legacy_used_at: None,
    };
    keys::insert(conn, &key, &CreatedBy::OPERATOR).await?;
    let session = NewSession {
        tenant_id: TENANT,
        holder: Holder::User(USER),
        token_hash: &[2; 32],
        address: None,
        agent: None,
        created_at: NOW,
        expires_at: NOW + MINUTE,
    };
    sessions::insert(conn, &session).await
}

fn rule(tenant: TenantId) -> Rule {
    Rule {
        tenant_id: tenant,
        rule_id: RULE,
        condition_id: CONDITION,
        name: "rule".to_owned(),
        condition: "risk > 0.9".to_owned(),
        action_type: ActionType::Webhook,
        action_config: Vec::new(),
        enabled: true,
        disabled_reason: None,
        mode: RuleMode::Live,
        cooldown_seconds: 0,
        created_at: NOW,
        updated_at: NOW,
    }
}

fn endpoint(endpoint_id: Uuid) -> Endpoint {
    Endpoint {
        tenant_id: TENANT,
        endpoint_id,
        sealed_url: b"https://example.com/".to_vec(),
        description: String::new(),
        enabled: true,
        disabled_reason: None,
        signal_keys: Json(Vec::new()),
        events: Json(Vec::new()),
        created_at: NOW,
        updated_at: NOW,
        version: 1,
        disabled_us: 0,
        disabled_at: None,
        is_ready: true,
    }
}

pub(crate) fn object_id(number: usize) -> String {
    format!("object-{number:05}")
}

/// Requests about the first objects, of both tenants in turn: those that wait for a verdict, or those that do not.
pub(crate) fn requests(count: usize, kind: IngestKind) -> Vec<IngestRequest> {
    let request = |number: usize| {
        let tenant = if number.is_multiple_of(2) { TENANT } else { NEIGHBOUR };
        let key = format!("{count}-{number}-{}", kind.as_str());
        let is_sync = kind == IngestKind::Sync;
        let slot_id = Uuid::from_u128((count * 1_000 + number + 1_000_000) as u128);
        let slot = VerdictSlot { tenant, slot_id, now: NOW, until: NOW + MINUTE, limit: 10_000 };
        IngestRequest {
            tenant,
            object_id: object_id(number),
            object_type: Some(if count == 5 { "listing" } else { "person" }.to_owned()),
            display_name: Some(format!("Name {number} {count}")),
            events: vec![event(EventType::Event), event(EventType::Message)],
            idempotency: Some(IdempotencyKey { key, kind, expires_at: NOW + MINUTE }),
            schedule: (!is_sync).then_some(Schedule { run_at: NOW, deadline_at: NOW }),
            verdict_slot: is_sync.then_some(slot),
            received_at: NOW,
            traceparent: None,
        }
    };
    (0..count).map(request).collect()
}

fn event(kind: EventType) -> NewEvent {
    NewEvent { kind, name: None, content: Some("text".to_owned()), metadata: None, occurred_at: NOW }
}

/// Objects of one tenant, by their ids.
pub(crate) fn own(ids: &[String]) -> Vec<(TenantId, &str)> {
    ids.iter().map(|id| (TENANT, id.as_str())).collect()
}

/// The ids of the first objects of the tenant.
pub(crate) fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| object_id(number * 2)).collect()
}

pub(crate) fn answers(object_id: &str) -> NewAnswers<'_> {
    let answer = |(index, (_, kind, signal_id)): (usize, &(&str, SignalType, Uuid))| NewAnswer {
        signal_id: *signal_id,
        version: 1,
        is_noul: *kind == SignalType::Noul,
        value: (*kind != SignalType::Choice).then_some(0.9),
        choice: (*kind == SignalType::Choice).then(|| format!("option {}", index % 2)),
        probabilities: None,
        confidence: Some(0.5),
        raw: None,
        escalated: None,
        model: None,
        first: None,
    };
    NewAnswers {
        tenant: TENANT,
        object_id,
        answers: SIGNALS.iter().enumerate().map(answer).collect(),
        model: "model",
        read_seq: 1,
        now: NOW,
    }
}

/// What analyses of objects leave in the history; `first` is the number of the first.
pub(crate) fn history(ids: &[String], first: u128) -> Vec<NewAnalysis<'_>> {
    let analyses = (first..).zip(ids).map(|(number, object_id)| NewAnalysis {
        tenant: TENANT,
        object_id,
        analysis_id: Uuid::from_u128(number),
        at: NOW,
        source: AnalysisSource::Async,
        model: "model",
        read_seq: 1,
        answers: "[]".to_owned(),
    });
    analyses.collect()
}

/// Charges for analyses of objects, some of them of a bulk run; `first` is the number of their first entry.
pub(crate) fn charges(ids: &[String], first: u128) -> Vec<AnalysisCharge<'_>> {
    let charge = |(number, id): (usize, &'_ String)| AnalysisCharge {
        tenant: if number.is_multiple_of(7) { NEIGHBOUR } else { TENANT },
        entry_id: Uuid::from_u128(first + number as u128),
        micros: 1,
        cost_usd: "0".to_owned(),
        cost_margin: "1".to_owned(),
        model: "model",
        object_id: None,
        input_tokens: i64::try_from(id.len()).unwrap(),
        output_tokens: 1,
        batch_id: number.is_multiple_of(3).then_some(BULK_RUN),
        source: UsageSource::Async,
        is_second_stage: false,
        signal_keys: vec!["risk"],
    };
    ids.iter().enumerate().map(charge).collect()
}

/// Deliveries to an endpoint; `first` is the number of the first.
pub(crate) fn deliveries(endpoint_id: Uuid, count: usize, first: u128) -> Vec<NewDelivery> {
    let delivery = |number: usize| NewDelivery {
        tenant: TENANT,
        delivery_id: Uuid::from_u128(first + number as u128),
        endpoint_id,
        event_type: "analysis.completed",
        object_id: Some(object_id(number * 2)),
        payload: "{}".to_owned(),
        max_attempts: 6,
        run_after: NOW,
        created_at: NOW,
        active_since: NOW,
        traceparent: None,
        lease: None,
    };
    (0..count).map(delivery).collect()
}

/// Gives every table of PostgreSQL a size that it would have in use, and tells the planner.
pub(crate) async fn fill(pool: &sqlx::PgPool) {
    for statement in FILL {
        sqlx::query(statement).execute(pool).await.unwrap();
    }
    sqlx::query("ANALYZE").execute(pool).await.unwrap();
}

/// Rows of many other tenants, and deliveries of the one that the hot paths are about.
const FILL: [&str; 25] = [
    "CREATE FUNCTION id(number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
         $$ SELECT ('11111111-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$",
    "INSERT INTO tenants (tenant_id, name, created_at) SELECT id(n), '', now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO balances (tenant_id, balance_micros, ledger_seq) SELECT id(n), 0, 0 FROM generate_series(1, 2000) AS n",
    "INSERT INTO users (user_id, tenant_id, email, email_key, role, created_at)
     SELECT id(n), id(n), '', n::text, '', now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO identities (provider, subject, tenant_id, user_id, email, created_at)
     SELECT 'google', n::text, id(n), id(n), '', now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO passkeys (credential_id, passkey_id, tenant_id, user_id, user_handle, credential, name, created_at)
     SELECT n::text, id(n), id(n), id(n), id(n), '{}', '', now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO passkey_challenges (challenge_hash, state, expires_at)
     SELECT sha256(n::text::bytea), '{}', now() + n * interval '1 second' FROM generate_series(1, 2000) AS n",
    "INSERT INTO api_keys (key_id, public_id, tenant_id, name, status, legacy_hash, created_at)
     SELECT id(n), n::text, id(n), '', 'active', sha256(n::text::bytea), now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO sessions (token_hash, tenant_id, kind, user_id, created_at, expires_at)
     SELECT sha256(n::text::bytea), id(n), 'console', id(n), now(), now() + n * interval '1 minute'
     FROM generate_series(1, 2000) AS n",
    "INSERT INTO throttles (scope, subject, attempts, window_start)
     SELECT 'sign-in', n::text, 1, now() + n * interval '1 second' FROM generate_series(1, 2000) AS n",
    "INSERT INTO checkouts (checkout_id, provider_session_id, tenant_id, amount_cents, currency, status, created_at)
     SELECT id(n), n::text, id(n), 1, 'usd', 'pending', now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO signals (tenant_id, key, signal_id, type, instructions, enabled, created_at, updated_at)
     SELECT id(n), 'risk', id(n), 'noul', '', TRUE, now(), now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO rules (tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled,
                        cooldown_seconds, created_at, updated_at)
     SELECT id(n), id(n), id(n), '', '', 'email', '', TRUE, 0, now(), now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO webhook_endpoints (tenant_id, endpoint_id, url, sealed_url, description, enabled, signal_keys, events,
                                    secret, created_at, updated_at)
     SELECT id(n), id(n), '', '', '', TRUE, '[]', '[]', '', now(), now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, run_after)
     SELECT id(n % 50 + 1), id(n % 50 + 1), 'pending', id(n), 1, now() + n * interval '1 second'
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at)
     SELECT id(n % 50 + 1), id(n % 50 + 1), 'delivered', id(n), 1, now() FROM generate_series(1, 20000) AS n",
    "INSERT INTO webhook_deliveries (tenant_id, delivery_id, endpoint_id, event_type, object_id, payload, max_attempts,
                                     created_at)
     SELECT '00000000-0000-0000-0000-000000000001', id(n), '00000000-0000-0000-0000-000000000015', '', n::text, '{}', 6,
            now()
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at)
     SELECT '00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000015', 'delivered', id(n), 1, now()
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO bulk_runs (tenant_id, bulk_run_id, kind, signal_key, status, object_cursor, total, started_at)
     SELECT id(n % 50 + 1), id(n), 'backfill', 'risk', 'done', '', 0, now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO ledger_batches (tenant_id, batch_id, last_seq, entries, delta_micros, input_tokens, output_tokens,
                                 models, first_at)
     SELECT id(n % 50 + 1), id(n), n, 1, 1, 1, 1, '[]', now() FROM generate_series(1, 2000) AS n",
    "INSERT INTO summaries (tenant_id, object_id, through_seq, through_time, folded_events, state)
     SELECT id(n % 50 + 1), n::text, 1, now(), 1, '{}' FROM generate_series(1, 20000) AS n",
    "INSERT INTO answer_history (tenant_id, object_id, analysis_id, at, source, model, read_seq, answers)
     SELECT id(n % 50 + 1), (n % 900)::text, id(n), now(), 'async', '', 1, '[]' FROM generate_series(1, 20000) AS n",
    "INSERT INTO outbox (tenant_id, message_id, channel, message, run_after, created_at)
     SELECT id(n % 50 + 1), id(n), 'mail', '', now() + n * interval '1 second', now() FROM generate_series(1, 5000) AS n",
    "INSERT INTO rule_firings (tenant_id, firing_id, rule_id, object_id, matched_when, signal_values, action_type, status,
                               fired_at)
     SELECT id(n % 50 + 1), id(n), id(n % 50 + 1), n::text, '', '{}', 'email', 'error', now() + n * interval '1 second'
     FROM generate_series(1, 5000) AS n",
    "INSERT INTO sync_leases (tenant_id, lease_id, expires_at) SELECT id(n % 50 + 1), id(n), now() FROM generate_series(1, 500) AS n",
];
