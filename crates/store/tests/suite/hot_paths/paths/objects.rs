//! Hot paths of recording events, and of reading and exporting objects.

use model::Timestamp;
use store::Conn;
use store::accounts::audit_log;
use store::actions::webhooks::deliveries;
use store::analysis::{answer_history, verdict_slots};
use store::billing::ledger;
use store::objects::reads::{Cursor, Sort};
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::IngestKind;
use store::objects::search::TextSearch;
use store::objects::{deletion, exports, overview, reads, recorder};
use store::quality::labels;
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures::{MINUTE, NOW, SIGNALS, TENANT, ids, requests};

/// Everything is checked.
const ADMISSION: Admission = Admission { enforcement: Enforcement::Block, storage_quota: Some(1 << 40) };

pub(crate) async fn recording(capture: &mut Capture<'_>, sizes: &[usize]) {
    for &count in sizes {
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

pub(crate) async fn reading_objects(capture: &mut Capture<'_>) {
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
            overview::events_since(conn, TENANT, NOW).await?;
            overview::days(conn, TENANT, NOW.date()).await
        })
        .await;
    capture
        .write("delete an object", async |conn: &mut Conn| {
            deletion::delete(conn, TENANT, "object-00002", 0).await
        })
        .await;
}

pub(crate) async fn exporting(capture: &mut Capture<'_>) {
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
