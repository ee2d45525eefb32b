//! Hot paths of claiming jobs, reading histories, concluding and bulk runs.

use model::CompactedState;
use model::api::EventType;
use model::compaction::Folded;
use store::analysis::bulk_runs::{BulkRunKind, NewBulkRun};
use store::analysis::concluder::LockedObjects;
use store::analysis::escalations::Escalated;
use store::analysis::history::{EventRange, HistoryRequest, Summary};
use store::analysis::jobs::{CoveredJob, JobLease, NewBulkJob, Priority};
use store::analysis::{
    answer_history, bulk_runs, concluder, escalations, history, jobs, signals, storage, verdict_slots,
};
use store::billing::{balance, unpaid};
use store::objects::events;
use store::upkeep::gauges;
use store::{Conn, Error};
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures;
use super::super::fixtures::{BULK_RUN, NOW, SIGNALS, TENANT, answers, charges, ids, own};
use super::{CLAIMED_AT, LEASE, TOKEN};

pub(crate) async fn claiming_and_reading_jobs(capture: &mut Capture<'_>, sizes: &[usize]) {
    capture
        .write("claim jobs", async |conn: &mut Conn| {
            jobs::schedule_now(conn, TENANT, "object-00000", NOW, None).await?;
            assert_eq!(jobs::next_tenant(conn, Priority::Live, None, CLAIMED_AT).await?, Some(TENANT));
            assert_eq!(jobs::claim(conn, TENANT, Priority::Live, CLAIMED_AT, LEASE, 300).await?.len(), 300);
            jobs::next_due(conn).await?;
            jobs::count_bulk(conn, TENANT, 10).await?;
            gauges::backlog(conn, Priority::Live, NOW).await?;
            Ok(())
        })
        .await;
    for &count in sizes {
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

pub(crate) async fn escalating(capture: &mut Capture<'_>) {
    let one = Escalated { answers: 1, micros: 20 };
    let day = NOW.date();
    capture
        .write("reserve and settle an escalation", async |conn: &mut Conn| {
            escalations::lock_day(conn, TENANT, day).await?;
            let questions: Vec<(Uuid, Escalated)> = SIGNALS.iter().map(|signal| (signal.2, one)).collect();
            escalations::add(conn, TENANT, day, &questions).await?;
            escalations::add(conn, TENANT, day, &questions[..1]).await?;
            let of_signal = escalations::of_signal(conn, TENANT, day, SIGNALS[0].2).await?;
            assert_eq!(of_signal, Escalated { answers: 2, micros: 40 });
            Ok(())
        })
        .await;
    capture
        .write("sweep old escalations", async |conn: &mut Conn| {
            escalations::drop_before(conn, TENANT, day).await
        })
        .await;
}

pub(crate) async fn concluding(capture: &mut Capture<'_>, sizes: &[usize]) {
    for (turn, count) in sizes.iter().enumerate() {
        let ids = ids(*count);
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
            let dropped = events::drop_through(conn, TENANT, "object-00000", 1).await?;
            storage::remove(conn, TENANT, dropped, 0).await?;
            balance::mark_low(conn, TENANT, 1).await?;
            balance::lock_balance(conn, TENANT).await?;
            Ok(())
        })
        .await;
    capture
        .write("retry and set aside jobs", async |conn: &mut Conn| {
            jobs::schedule_now(conn, TENANT, "object-00000", NOW, None).await?;
            let job = jobs::claim(conn, TENANT, Priority::Live, CLAIMED_AT, LEASE, 1).await?.remove(0);
            assert!(jobs::retry(conn, &job, TOKEN, NOW, true).await?);
            let job = jobs::claim(conn, TENANT, Priority::Live, CLAIMED_AT, LEASE, 1).await?.remove(0);
            assert!(unpaid::park(conn, &job, TOKEN).await?);
            unpaid::has_due(conn, TENANT, NOW).await?;
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

pub(crate) async fn bulk_runs(capture: &mut Capture<'_>) {
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
