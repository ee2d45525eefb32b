//! Every hot path of the store, run for real: what runs all the time, or reads tables that grow without end.

use model::api::{
    ActionType, Author, AuthorKind, DeliveryStatus, EventType, FiringStatus, LabelSource, ReviewOrder,
    ReviewReason, ReviewStatus,
};
use model::compaction::Folded;
use model::condition::EventWindow;
use model::rule::RuleState;
use model::{CompactedState, Provider, Timestamp};
use store::accounts::passkeys::Challenge;
use store::accounts::{audit_log, identities, keys, passkeys, sessions, users};
use store::actions::firings::{Firing, FiringFilter, MessageCounts};
use store::actions::reviews::{self, NewReview, Resolution, ReviewFilter};
use store::actions::rules::ConditionState;
use store::actions::webhooks::deliveries::DeliveryFilter;
use store::actions::webhooks::queue::{AttemptResult, DeliveryLease, DeliveryOutcome, LeasedDelivery};
use store::actions::webhooks::{deliveries, endpoints, queue};
use store::actions::{firings, recipients, rules};
use store::analysis::bulk_runs::{BulkRunKind, NewBulkRun};
use store::analysis::concluder::LockedObjects;
use store::analysis::history::{EventRange, HistoryRequest, Summary};
use store::analysis::jobs::{CoveredJob, JobLease, NewBulkJob, Priority};
use store::analysis::{answer_history, bulk_runs, concluder, history, jobs, signals, storage, verdict_slots};
use store::billing::ledger::LedgerKind;
use store::billing::{balance, checkouts, ledger, unpaid, usage};
use store::objects::event_counters::FactRequest;
use store::objects::reads::{Cursor, Sort};
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::IngestKind;
use store::objects::search::TextSearch;
use store::objects::{deletion, event_counters, exports, overview, reads, recorder};
use store::outbox::messages;
use store::outbox::messages::{Channel, NewMessage};
use store::quality::labels::{self, Label, LabelFilter};
use store::runtime::rate::{Budget, Window};
use store::runtime::throttle::Attempt;
use store::runtime::{nodes, rate, throttle};
use store::upkeep::{gauges, sweeper};
use store::{Conn, Error, Lease};
use uuid::Uuid;

use super::capture::Capture;
use super::fixtures;
use super::fixtures::{
    BULK_RUN, CONDITION, ENDPOINTS, KEY, MINUTE, NOW, RULE, SIGNALS, SIZES, TENANT, USER, answers, charges,
    ids, own, requests,
};

const TOKEN: Uuid = Uuid::from_u128(7);
const LEASE: Lease = Lease { token: TOKEN, until: Timestamp::from_seconds(1_800_000_060) };

/// Runs all hot paths; what the first ones write is what the later ones read.
pub(crate) async fn run(capture: &mut Capture) {
    capture.prepare(fixtures::accounts).await;
    authentication(capture).await;
    recording(capture).await;
    claiming_and_reading_jobs(capture).await;
    concluding(capture).await;
    bulk_runs(capture).await;
    rules_and_firings(capture).await;
    labelling(capture).await;
    reviewing(capture).await;
    sending(capture).await;
    listing_deliveries(capture).await;
    outbox(capture).await;
    reading_objects(capture).await;
    exporting(capture).await;
    money(capture).await;
    sweeping(capture).await;
}

async fn authentication(capture: &mut Capture) {
    capture
        .write("authentication", async |conn: &mut Conn| {
            assert!(keys::by_public_id(conn, "ak_1").await?.is_some());
            assert!(keys::by_legacy_hash(conn, &[1; 32]).await?.is_some());
            assert!(keys::by_bearer_hash(conn, &[3; 32]).await?.is_some());
            keys::touch(conn, TENANT, KEY, NOW, false).await?;
            assert!(sessions::find(conn, &[2; 32], NOW).await?.is_some());
            sessions::touch(conn, &[2; 32], NOW, "127.0.0.1", None).await?;
            assert!(users::by_email(conn, "ann@example.com").await?.is_some());
            assert!(users::find(conn, TENANT, USER).await?.is_some());
            assert!(identities::find(conn, Provider::Google, "subject").await?.is_some());
            let challenge = Challenge { user_id: None, user_handle: None, state: "{}".to_owned() };
            passkeys::insert_challenge(conn, &[4; 32], &challenge, NOW + MINUTE).await?;
            assert!(passkeys::take_challenge(conn, &[4; 32], NOW).await?.is_some());
            let found = passkeys::by_credential(conn, "credential").await?;
            let Some(passkey) = found else { panic!("it was added") };
            assert!(passkeys::set_used(conn, &passkey, "{}", NOW).await?);
            assert_eq!(passkeys::of_user(conn, TENANT, USER).await?.len(), 1);
            Ok(())
        })
        .await;
    capture
        .write("rate limits and throttles", async |conn: &mut Conn| {
            for budget in [Budget::Requests, Budget::Bytes] {
                rate::lease(conn, budget, TENANT, Window { start: NOW, ahead: MINUTE }, 10, 100).await?;
            }
            rate::drop_old(conn, TENANT, NOW).await?;
            let attempt = Attempt {
                scope: "sign-in",
                subject: "ann",
                now: NOW,
                limit: 1,
                window_cutoff: NOW - MINUTE,
                block_until: NOW + MINUTE,
            };
            assert_eq!(throttle::attempt(conn, attempt).await?, None);
            assert!(throttle::attempt(conn, attempt).await?.is_some());
            assert_eq!(throttle::blocked(conn, "sign-in", &["ann".to_owned()], NOW).await?, ["ann"]);
            throttle::forgive(conn, "sign-in", "ann").await?;
            throttle::clear(conn, "sign-in", "ann").await?;
            throttle::sweep(conn, NOW, 10).await?;
            nodes::beat(conn, Uuid::nil(), NOW).await
        })
        .await;
}

/// Everything is checked.
const ADMISSION: Admission = Admission { enforcement: Enforcement::Block, storage_quota: Some(1 << 40) };

async fn recording(capture: &mut Capture) {
    for count in SIZES {
        for kind in [IngestKind::Async, IngestKind::Sync] {
            let requests = requests(count, kind);
            capture
                .write("record", async |conn: &mut Conn| {
                    let recorded = recorder::record(conn, &requests, ADMISSION, 0).await?;
                    assert_eq!(recorded.len(), count);
                    // Again: every key was used before.
                    recorder::record(conn, &requests[..1], ADMISSION, 0).await
                })
                .await;
        }
    }
    capture
        .write("verdict slots", async |conn: &mut Conn| {
            let slot = requests(1, IngestKind::Sync)[0].verdict_slot.unwrap();
            let slot = verdict_slots::VerdictSlot { slot_id: Uuid::nil(), ..slot };
            assert!(verdict_slots::take_one(conn, &slot).await?);
            verdict_slots::release(conn, TENANT, slot.slot_id).await
        })
        .await;
}

async fn claiming_and_reading_jobs(capture: &mut Capture) {
    capture
        .write("claim jobs", async |conn: &mut Conn| {
            jobs::schedule_now(conn, TENANT, "object-00000", NOW, None).await?;
            assert_eq!(jobs::next_tenant(conn, Priority::Live, None, NOW).await?, Some(TENANT));
            assert_eq!(jobs::claim(conn, TENANT, Priority::Live, NOW, LEASE, 300).await?.len(), 300);
            jobs::next_due(conn).await?;
            jobs::count_bulk(conn, TENANT, 10).await?;
            gauges::backlog(conn, Priority::Live, NOW).await?;
            Ok(())
        })
        .await;
    for count in [1, 5, 40, 300] {
        let ids = ids(count);
        capture
            .write("read histories", async |conn: &mut Conn| {
                let requests: Vec<HistoryRequest<'_>> = ids
                    .iter()
                    .map(|id| HistoryRequest { tenant: TENANT, object_id: id, through: None })
                    .collect();
                assert_eq!(history::read(conn, &requests, 1_000).await?.len(), count);
                Ok(())
            })
            .await;
    }
    capture
        .write("read a long history", async |conn: &mut Conn| {
            let range = EventRange { tenant: TENANT, object_id: "object-00000", after: 0, through: 2 };
            assert_eq!(history::events_between(conn, range, 10).await?.len(), 2);
            history::summary(conn, TENANT, "object-00000").await?;
            signals::of_tenant(conn, TENANT).await?;
            signals::of_tenants(conn, &[TENANT].into()).await
        })
        .await;
}

async fn concluding(capture: &mut Capture) {
    for (turn, count) in [1, 5, 40, 300].into_iter().enumerate() {
        let ids = ids(count);
        let first = 10_000 * (turn as u128 + 1);
        capture.write("conclude", async |conn: &mut Conn| conclude(conn, &ids, first).await).await;
    }
    capture
        .write("conclude: the rest", async |conn: &mut Conn| {
            let message = Folded {
                kind: EventType::Message,
                name: None,
                content: Some("text"),
                occurred_at: NOW,
                received_at: NOW,
            };
            let state = CompactedState::fold(None, message);
            let summary = Summary { through_seq: 1, through_time: NOW, state };
            concluder::put_summary(conn, TENANT, "object-00000", &summary).await?;
            let dropped = concluder::drop_events(conn, TENANT, "object-00000", 1).await?;
            storage::remove(conn, TENANT, dropped, 0).await?;
            balance::mark_low(conn, TENANT, 1).await?;
            balance::lock_balance(conn, TENANT).await?;
            Ok(())
        })
        .await;
    capture
        .write("retry and set aside jobs", async |conn: &mut Conn| {
            jobs::schedule_now(conn, TENANT, "object-00000", NOW, None).await?;
            let job = jobs::claim(conn, TENANT, Priority::Live, NOW, LEASE, 1).await?.remove(0);
            assert!(jobs::retry(conn, &job, TOKEN, NOW, true).await?);
            let job = jobs::claim(conn, TENANT, Priority::Live, NOW, LEASE, 1).await?.remove(0);
            assert!(unpaid::park(conn, &job, TOKEN).await?);
            unpaid::park_due(conn, TENANT, NOW, 10).await?;
            assert!(!unpaid::tenants(conn).await?.is_empty());
            unpaid::resume(conn, TENANT, 10).await
        })
        .await;
}

/// What the concluder writes for analyses of some objects.
async fn conclude(conn: &mut Conn, ids: &[String], first: u128) -> Result<(), Error> {
    let locked = LockedObjects::lock(conn, &own(ids)).await?;
    let leases: Vec<JobLease<'_>> = ids
        .iter()
        .map(|object_id| JobLease { tenant: TENANT, object_id, token: TOKEN, version: 1 })
        .collect();
    let versions = jobs::lock_leased(conn, &leases).await?;
    // Half of the jobs are done, the others got events meanwhile.
    let finished: Vec<(JobLease<'_>, i64)> = leases
        .iter()
        .zip(versions)
        .zip(0_i64..)
        .filter_map(|((lease, version), number)| {
            Some((JobLease { version: version? - number % 2, ..*lease }, version?))
        })
        .collect();
    let covered: Vec<CoveredJob<'_>> =
        ids.iter().map(|object_id| CoveredJob { tenant: TENANT, object_id, version: 1 }).collect();
    let analyses: Vec<_> = ids.iter().map(|id| answers(id)).collect();
    let slots: Vec<_> = ids.iter().zip(1..).map(|(_, number)| (TENANT, Uuid::from_u128(number))).collect();
    let charges = charges(ids, first);
    let mut batch = conn.batch();
    jobs::remove_covered(&mut batch, &covered);
    jobs::finish(&mut batch, &finished);
    concluder::put_answers(&mut batch, locked, &analyses, 0);
    answer_history::insert(&mut batch, &fixtures::history(ids, first));
    verdict_slots::release_all(&mut batch, &slots);
    balance::count_usage(&mut batch, &charges, true, NOW.date(), 0);
    batch.run(conn).await?;
    balance::charge(conn, &charges, NOW).await?;
    Ok(())
}

async fn bulk_runs(capture: &mut Capture) {
    let signal = (SIGNALS[0].0, SIGNALS[0].2);
    capture
        .write("bulk runs", async |conn: &mut Conn| {
            let new = NewBulkRun {
                id: BULK_RUN,
                kind: BulkRunKind::Backfill,
                signal: Some(signal),
                total: 300,
                now: NOW,
            };
            let run = bulk_runs::start(conn, TENANT, &new).await?;
            bulk_runs::running(conn).await?;
            bulk_runs::running_of(conn, TENANT, BulkRunKind::Backfill).await?;
            bulk_runs::latest_backfill(conn, TENANT, signal.0, signal.1).await?;
            let fed = bulk_runs::objects_after(conn, TENANT, "", 50).await?;
            bulk_runs::answered_between(conn, TENANT, "", "object-00050").await?;
            let new = |object_id: &String| NewBulkJob {
                object_id: object_id.clone(),
                signals: Some(vec![signal.1]),
            };
            let new_jobs: Vec<NewBulkJob> = fed.iter().map(new).collect();
            jobs::schedule_bulk(conn, TENANT, BULK_RUN, &new_jobs, NOW).await?;
            assert!(bulk_runs::advance(conn, &run, "object-00050").await?);
            concluder::rerank(conn, TENANT, "", "object-00050", 0).await
        })
        .await;
}

async fn labelling(capture: &mut Capture) {
    let label = |object: &str, signal: usize, number: usize| Label {
        label_id: Uuid::from_u128((number * SIGNALS.len() + signal) as u128),
        object_id: object.to_owned(),
        signal_id: SIGNALS[signal].2,
        version: 1,
        value: "true".to_owned(),
        note: None,
        source: LabelSource::Api,
        author_kind: AuthorKind::Key,
        author_id: KEY.0,
        author_name: "key".to_owned(),
        audit: false,
        answer: Some("{}".to_owned()),
        created_at: NOW,
    };
    for size in SIZES {
        let objects = ids(size);
        capture
            .write("give labels", async |conn: &mut Conn| {
                let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
                assert!(!labels::lock_objects(conn, TENANT, &objects).await?.is_empty());
                for (signal, (_, _, signal_id)) in SIGNALS.iter().enumerate() {
                    let asked: Vec<(&str, Uuid)> =
                        objects.iter().map(|object| (*object, *signal_id)).collect();
                    labels::present_answers(conn, TENANT, &asked).await?;
                    let given = objects.iter().zip(0..).map(|(object, number)| label(object, signal, number));
                    labels::put(conn, TENANT, &given.collect::<Vec<_>>()).await?;
                }
                Ok(())
            })
            .await;
    }
    let (_, _, signal) = SIGNALS[0];
    capture
        .write("read labels", async |conn: &mut Conn| {
            for (signal, source) in [
                (None, None),
                (Some(signal), None),
                (None, Some(LabelSource::Api)),
                (Some(signal), Some(LabelSource::Api)),
            ] {
                let filter = LabelFilter { signal, object_id: None, source, before: None, limit: 10 };
                assert!(!labels::newest(conn, TENANT, filter).await?.is_empty());
            }
            assert!(!labels::answered(conn, TENANT, signal, 10).await?.is_empty());
            assert!(labels::next_question(conn, TENANT, Uuid::nil()).await?.is_some());
            labels::drop_some(conn, TENANT, signal, 10).await?;
            Ok(())
        })
        .await;
}

async fn reviewing(capture: &mut Capture) {
    let at =
        |number: u128| model::recorded_answer::analysis_id(NOW, u64::try_from(number).unwrap().to_be_bytes());
    let by = Author { kind: AuthorKind::Key, id: KEY.0, name: "key".to_owned() };
    for size in SIZES {
        let objects = ids(size);
        capture
            .write("open reviews", async |conn: &mut Conn| {
                let wanted: Vec<(&str, &str)> = objects.iter().map(|object| (object.as_str(), "q")).collect();
                let known = reviews::open_of(conn, TENANT, &wanted).await?;
                let is_new = |object: &&String| !known.iter().any(|review| review.object_id == **object);
                let new: Vec<NewReview> = objects
                    .iter()
                    .filter(is_new)
                    .zip(0..)
                    .map(|(object, number)| NewReview {
                        review_id: at(size as u128 * 1_000 + number),
                        object_id: object.clone(),
                        queue: "q".to_owned(),
                        rule_id: None,
                        reason: ReviewReason::Person,
                        signals: "[]".to_owned(),
                        refirings: 0,
                        priority: i64::try_from(number).unwrap(),
                        created_at: NOW,
                    })
                    .collect();
                reviews::insert(conn, TENANT, &new).await?;
                let drawn: Vec<&str> = objects.iter().map(String::as_str).collect();
                reviews::audited_since(conn, TENANT, &drawn, NOW - MINUTE).await?;
                let open = reviews::open_of(conn, TENANT, &wanted).await?;
                reviews::raise(conn, TENANT, &open[0]).await
            })
            .await;
    }
    capture
        .write("work through reviews", async |conn: &mut Conn| {
            for since in [NOW - MINUTE, NOW + MINUTE] {
                let next = reviews::next(conn, TENANT, "q", NOW, since).await?.unwrap();
                reviews::set_claim(conn, TENANT, next.review_id, Some((&by, NOW + MINUTE))).await?;
            }
            let next = reviews::next(conn, TENANT, "q", NOW, NOW).await?.unwrap();
            let found = reviews::lock(conn, TENANT, next.review_id).await?.unwrap();
            let resolution = Resolution { decision: "x", note: None, by: &by, at: NOW, undo: "{}" };
            reviews::resolve(conn, TENANT, found.review_id, &resolution).await?;
            for queue in [None, Some("q")] {
                for status in [ReviewStatus::Open, ReviewStatus::Resolved] {
                    for order in [ReviewOrder::Value, ReviewOrder::Oldest] {
                        let filter =
                            ReviewFilter { queue, status, claimed: None, order, after: None, limit: 10 };
                        assert!(!reviews::list(conn, TENANT, filter).await?.is_empty());
                    }
                }
            }
            assert!(!reviews::of_object(conn, TENANT, &found.object_id, None, 10).await?.is_empty());
            labels::count(conn, TENANT, SIGNALS[0].2, 10).await?;
            assert_eq!(reviews::forget_undo(conn, TENANT, NOW + MINUTE, 10).await?, 1);
            reviews::reopen(conn, TENANT, found.review_id).await
        })
        .await;
}

async fn rules_and_firings(capture: &mut Capture) {
    for count in [1, 5, 40] {
        let ids = ids(count);
        capture
            .write("apply rules", async |conn: &mut Conn| {
                rules::enabled_of(conn, &[TENANT]).await?;
                let objects: Vec<&str> = ids.iter().map(String::as_str).collect();
                rules::states_of(conn, TENANT, &objects).await?;
                let state = |object_id: &String| ConditionState {
                    tenant: TENANT,
                    object_id: object_id.clone(),
                    condition_id: CONDITION,
                    rule_state: RuleState { matched: true, fired_at: Some(NOW) },
                };
                let windows =
                    [(Some("reported"), 24), (None, 1), (None, 24 * 7)].map(|(name, hours)| EventWindow {
                        name: name.map(str::to_owned),
                        window: std::time::Duration::from_hours(hours),
                    });
                let windows: Vec<&EventWindow> = windows.iter().collect();
                let facts: Vec<FactRequest<'_>> = objects
                    .iter()
                    .map(|object_id| FactRequest { tenant: TENANT, object_id, read_seq: 1 })
                    .collect();
                let facts = event_counters::facts(conn, &facts, &windows, NOW).await?;
                assert!(facts.iter().all(Option::is_some));
                rules::put_states(conn, &ids.iter().map(state).collect::<Vec<_>>()).await?;
                let firing = |(object_id, number): (&String, u128)| Firing {
                    tenant_id: TENANT,
                    firing_id: Uuid::from_u128(count as u128 * 1_000 + number),
                    rule_id: RULE,
                    object_id: object_id.clone(),
                    matched_when: "risk > 0.9".to_owned(),
                    signal_values: "{}".to_owned(),
                    action_type: ActionType::Webhook,
                    status: FiringStatus::Dispatched,
                    detail: None,
                    fired_at: NOW,
                };
                firings::insert(conn, &ids.iter().zip(0..).map(firing).collect::<Vec<_>>()).await?;
                let counts = MessageCounts { mails: 1, chats: 1 };
                firings::count_messages(conn, TENANT, NOW.date(), counts).await?;
                let asked: Vec<Uuid> = (0..count as u128).map(Uuid::from_u128).collect();
                recipients::known(conn, TENANT, &asked).await?;
                recipients::count_asked(conn, TENANT, NOW).await?;
                recipients::claim_confirmations(conn, TENANT, &asked, NOW, NOW - MINUTE).await?;
                let firing = Uuid::from_u128(count as u128 * 1_000);
                firings::settle(conn, TENANT, firing, FiringStatus::Error, "").await
            })
            .await;
    }
    capture
        .write("list firings", async |conn: &mut Conn| {
            for (rule, object_id) in [
                (None, None),
                (Some(RULE), None),
                (None, Some("object-00000")),
                (Some(RULE), Some("object-00000")),
            ] {
                for before in [None, Some((NOW, Uuid::max()))] {
                    let filter = FiringFilter { rule, object_id, before };
                    assert!(!firings::newest(conn, TENANT, filter, 10).await?.is_empty());
                }
            }
            Ok(())
        })
        .await;
}

async fn sending(capture: &mut Capture) {
    for (turn, count) in SIZES.into_iter().enumerate() {
        let endpoint = ENDPOINTS[turn % 2];
        let limit = i64::try_from(count).unwrap();
        let queued = fixtures::deliveries(endpoint, count, 10_000 * (turn as u128 + 1));
        capture
            .write("queue deliveries", async |conn: &mut Conn| deliveries::queue(conn, &queued).await)
            .await;
        let claimed = capture
            .write("claim deliveries", async |conn: &mut Conn| {
                queue::due_endpoints(conn, Uuid::nil(), NOW, 10).await?;
                queue::next_due(conn).await?;
                gauges::deliveries(conn).await?;
                let claimed = queue::claim(conn, endpoint, NOW, limit, LEASE).await?;
                assert_eq!(claimed.len(), count);
                let keys: Vec<_> = claimed.iter().map(|delivery| (TENANT, delivery.delivery_id)).collect();
                assert_eq!(queue::contents(conn, &keys).await?.len(), count);
                queue::is_current(conn, lease(endpoint, &claimed[0]), 1).await?;
                Ok(claimed)
            })
            .await;
        capture
            .write("release deliveries", async |conn: &mut Conn| {
                let leases = claimed.iter().map(|delivery| lease(endpoint, delivery)).collect();
                queue::release(conn, leases).await?;
                queue::claim(conn, endpoint, NOW, limit, LEASE).await
            })
            .await;
        capture
            .write("settle deliveries", async |conn: &mut Conn| {
                for outcome in [DeliveryOutcome::Retry, DeliveryOutcome::Delivered, DeliveryOutcome::Dead] {
                    let result = |delivery: &LeasedDelivery| AttemptResult {
                        lease: lease(endpoint, delivery),
                        outcome,
                        attempts: 1,
                        at: NOW,
                        status_code: Some(200),
                        error: None,
                        response: None,
                    };
                    let settled = queue::settle(conn, claimed.iter().map(result).collect()).await?;
                    if outcome == DeliveryOutcome::Retry {
                        assert_eq!(settled.len(), count);
                        queue::claim(conn, endpoint, NOW, limit, LEASE).await?;
                    }
                }
                Ok(())
            })
            .await;
    }
    capture
        .write("endpoints", async |conn: &mut Conn| {
            endpoints::of_tenant(conn, TENANT).await?;
            let (circuit, _) = endpoints::circuit(conn, TENANT, ENDPOINTS[0]).await?.unwrap();
            endpoints::set_circuit(conn, TENANT, ENDPOINTS[0], circuit).await?;
            endpoints::claim_probe(conn, TENANT, ENDPOINTS[0], NOW, NOW).await?;
            queue::make_first_due(conn, TENANT, ENDPOINTS[0], NOW).await
        })
        .await;
}

fn lease(endpoint_id: Uuid, delivery: &LeasedDelivery) -> DeliveryLease {
    DeliveryLease { tenant: TENANT, endpoint_id, delivery_id: delivery.delivery_id, token: TOKEN }
}

async fn listing_deliveries(capture: &mut Capture) {
    capture
        .write("list deliveries", async |conn: &mut Conn| {
            for (endpoint, status) in [
                (None, None),
                (Some(ENDPOINTS[0]), None),
                (None, Some(DeliveryStatus::Delivered)),
                (Some(ENDPOINTS[1]), Some(DeliveryStatus::Pending)),
            ] {
                deliveries::list(conn, TENANT, DeliveryFilter { endpoint, status, before: None }, 50).await?;
            }
            let delivery = Uuid::from_u128(10_000);
            assert!(deliveries::find(conn, TENANT, delivery).await?.is_some());
            deliveries::replay(conn, TENANT, delivery, NOW).await
        })
        .await;
    capture
        .write("sweep deliveries", async |conn: &mut Conn| {
            deliveries::orphaned(conn, TENANT).await?;
            let made_before = Uuid::from_u128(20_000);
            let endpoint = (TENANT, ENDPOINTS[1]);
            deliveries::drop_ended(conn, endpoint, DeliveryStatus::Delivered, made_before, NOW + MINUTE, 10)
                .await?;
            deliveries::drop_of_endpoint(conn, TENANT, ENDPOINTS[0], 10).await
        })
        .await;
}

async fn outbox(capture: &mut Capture) {
    for count in [1, 5, 40] {
        capture
            .write("outbox", async |conn: &mut Conn| {
                let message = |number: usize| NewMessage {
                    tenant: TENANT,
                    message_id: Uuid::from_u128((count * 1_000 + number) as u128),
                    channel: Channel::Mail,
                    lane: String::new(),
                    message: Vec::new(),
                    object_id: None,
                    firing_id: None,
                    created_at: NOW,
                };
                let new: Vec<NewMessage> = (0..count).map(message).collect();
                messages::enqueue(conn, &new).await?;
                messages::next_tenant(conn, Channel::Mail, fixtures::NEIGHBOUR, NOW).await?;
                assert_eq!(messages::lanes(conn, Channel::Mail, TENANT, NOW).await?, [""]);
                let claimed = messages::claim(conn, Channel::Mail, (TENANT, ""), NOW, LEASE, 2).await?;
                messages::retry(conn, TENANT, claimed[0].message_id, TOKEN, NOW).await?;
                messages::finish(conn, TENANT, claimed[0].message_id, TOKEN).await?;
                messages::next_due(conn, Channel::Mail).await?;
                gauges::messages(conn, Channel::Mail).await
            })
            .await;
    }
}

async fn reading_objects(capture: &mut Capture) {
    capture
        .write("read objects", async |conn: &mut Conn| {
            let object = reads::find(conn, TENANT, "object-00000").await?.unwrap();
            for sort in [Sort::Recent, Sort::Flagged, Sort::Trust] {
                assert_eq!(reads::page(conn, TENANT, sort, 20, 0).await?.len(), 20);
                reads::page_after(conn, TENANT, sort, &Cursor::of(&object, sort), 20).await?;
            }
            let ids = ids(100);
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            for ids in [&ids[..1], &ids[..5], &ids] {
                assert_eq!(reads::answers_of(conn, TENANT, ids).await?.len(), ids.len());
            }
            reads::events(conn, TENANT, "object-00000", None, 10).await?;
            deliveries::of_object(conn, TENANT, "object-00000", None, 10).await
        })
        .await;
    capture
        .write("read the history of answers", async |conn: &mut Conn| {
            let analyses = answer_history::of_object(conn, TENANT, "object-00000", None, 10).await?;
            assert_eq!(analyses.len(), 4);
            let last = &analyses[3];
            answer_history::of_object(conn, TENANT, "object-00000", Some(last.analysis_id), 10).await?;
            answer_history::page(conn, TENANT, Some((&last.object_id, last.analysis_id)), 10).await?;
            answer_history::page_between(conn, TENANT, NOW - MINUTE..NOW, None, 10).await?;
            answer_history::oldest(conn, TENANT).await
        })
        .await;
    capture
        .write("search by text", async |conn: &mut Conn| {
            // The first fills its page from a scan, the second is found by its grams.
            for text in ["object", "00044"] {
                let search =
                    TextSearch { tenant: TENANT, text, sort: Sort::Recent, limit: 5, offset: 0, after: None };
                assert!(!search.run(conn).await?.objects.is_empty(), "{text}");
            }
            Ok(())
        })
        .await;
    capture
        .write("overview", async |conn: &mut Conn| {
            overview::categories(conn, TENANT).await?;
            overview::unanswered(conn, TENANT, SIGNALS[0].2).await?;
            overview::signal_tallies(conn, TENANT).await?;
            overview::events_since(conn, TENANT, NOW).await
        })
        .await;
    capture
        .write("delete an object", async |conn: &mut Conn| {
            deletion::delete(conn, TENANT, "object-00002", 0).await
        })
        .await;
}

async fn exporting(capture: &mut Capture) {
    capture
        .write("export", async |conn: &mut Conn| {
            assert_eq!(exports::objects_after(conn, TENANT, "object-00010", 10).await?.len(), 10);
            let analyses = answer_history::page_between(conn, TENANT, NOW - MINUTE..NOW, None, 10).await?;
            if let Some(last) = analyses.last() {
                answer_history::find(conn, TENANT, &last.object_id, last.analysis_id).await?;
                let after = Some((last.analysis_id, last.object_id.as_str()));
                answer_history::page_between(conn, TENANT, NOW - MINUTE..NOW, after, 10).await?;
            }
            labels::between(conn, TENANT, (Uuid::nil(), Uuid::max()), 10).await?;
            audit_log::after(conn, TENANT, 0, 10).await?;
            ledger::entries_after(conn, TENANT, 0, 10).await
        })
        .await;
    capture
        .write("export events", async |conn: &mut Conn| {
            let start = (Timestamp::from_seconds(0), "", 0);
            let events = exports::events_after(conn, TENANT, start, Timestamp::MAX, 10).await?;
            assert_eq!(events.len(), 10);
            let last = &events[9];
            let after = (last.received_at, last.object_id.as_str(), last.seq);
            exports::events_after(conn, TENANT, after, Timestamp::MAX, 10).await
        })
        .await;
}

async fn money(capture: &mut Capture) {
    capture
        .write("ledger and usage", async |conn: &mut Conn| {
            balance::balance(conn, TENANT).await?;
            assert!(!ledger::entries(conn, TENANT, i64::MAX, 10).await?.is_empty());
            ledger::entries_of_kind(conn, TENANT, LedgerKind::Charge, i64::MAX, 10).await?;
            assert!(!ledger::entries_of_batch(conn, TENANT, BULK_RUN, i64::MAX, 10).await?.is_empty());
            ledger::single_charges(conn, TENANT, i64::MAX, 10).await?;
            assert!(!ledger::batches(conn, TENANT, i64::MAX, 10).await?.is_empty());
            storage::stored(conn, TENANT).await?;
            usage::by_day(conn, TENANT, NOW.date(), NOW.date()).await?;
            usage::signals_by_day(conn, TENANT, NOW.date(), NOW.date()).await?;
            checkouts::find_by_session(conn, "cs_1").await
        })
        .await;
}

async fn sweeping(capture: &mut Capture) {
    capture
        .write("sweep", async |conn: &mut Conn| {
            sweeper::drop_idempotency_keys(conn, NOW, 10).await?;
            sweeper::drop_samples(conn, TENANT, 10).await?;
            sweeper::outdated(conn, TENANT, NOW, 10).await?;
            sweeper::drop_event_tallies(conn, TENANT, NOW).await?;
            sessions::sweep(conn, NOW).await?;
            answer_history::drop_before(conn, TENANT, NOW, 10).await?;
            firings::drop_before(conn, TENANT, NOW, 10).await?;
            firings::drop_message_counts(conn, TENANT, NOW.date()).await?;
            event_counters::sweep(conn, TENANT, NOW, 10).await?;
            rules::sweep_retired(conn, TENANT, CONDITION, 10).await
        })
        .await;
}
