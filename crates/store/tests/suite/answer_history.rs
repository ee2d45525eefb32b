//! The history of answers: pages in the order of the key and of time, and its removal by age.

use std::time::Duration;

use model::api::AnalysisSource;
use model::recorded_answer::analysis_id;
use model::{TenantId, Timestamp};
use store::analysis::answer_history::{self, Analysis, NewAnalysis};
use store::upkeep::{deployment, kept_history};
use store::{Conn, Error, Store};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(
    pages_follow_the_key_and_the_time_without_a_gap,
    the_old_go_in_steps_and_nobody_else_s,
    what_was_not_kept_stays_unknown,
);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
const NEIGHBOUR: TenantId = TenantId(Uuid::from_u128(2));

/// Twelve analyses of each of three objects, a microsecond apart and in turns, of both tenants.
async fn fill(store: &Store) {
    let written = store.write("fill", async |conn: &mut Conn| {
        for tenant in [TENANT, NEIGHBOUR] {
            let analyses: Vec<NewAnalysis<'_>> = (0..36).map(|number| analysis(tenant, number)).collect();
            let mut batch = conn.batch();
            answer_history::insert(&mut batch, &analyses);
            batch.run(conn).await?;
        }
        Ok::<_, Error>(())
    });
    written.await.unwrap();
}

fn at(number: i64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000 + number)
}

fn analysis(tenant: TenantId, number: i64) -> NewAnalysis<'static> {
    let entropy = u64::try_from(number).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    NewAnalysis {
        tenant,
        object_id: ["a", "a\u{7f}b", "ü"][usize::try_from(number % 3).unwrap()],
        analysis_id: analysis_id(at(number), entropy),
        at: at(number),
        source: AnalysisSource::ALL[usize::try_from(number % 3).unwrap()],
        model: "model",
        read_seq: number,
        answers: format!(r#"[{{"s":"risk","v":{number},"n":0.5}}]"#),
    }
}

fn numbers(analyses: &[Analysis]) -> Vec<i64> {
    analyses.iter().map(|analysis| analysis.read_seq).collect()
}

async fn pages_follow_the_key_and_the_time_without_a_gap(database: &TestDatabase) {
    let store = database.open().await;
    fill(&store).await;
    let read = store.read("pages", async |conn: &mut Conn| {
        // One object, newest first.
        let first = answer_history::of_object(conn, TENANT, "ü", None, 5).await?;
        assert_eq!(numbers(&first), [35, 32, 29, 26, 23]);
        assert_eq!((first[0].at, first[0].source), (at(35), AnalysisSource::Bulk));
        let rest = answer_history::of_object(conn, TENANT, "ü", Some(first[4].analysis_id), 50).await?;
        assert_eq!(numbers(&rest), [20, 17, 14, 11, 8, 5, 2]);
        // All objects, one after the other, oldest first.
        let mut streamed: Vec<Analysis> = Vec::new();
        loop {
            let after = streamed.last().map(|last| (last.object_id.clone(), last.analysis_id));
            let after = after.as_ref().map(|(object, id)| (object.as_str(), *id));
            let page = answer_history::page(conn, TENANT, after, 5).await?;
            if page.is_empty() {
                break;
            }
            streamed.extend(page);
        }
        let expected: Vec<i64> =
            (0..3).flat_map(|object| (0..12).map(move |turn| turn * 3 + object)).collect();
        assert_eq!(numbers(&streamed), expected);
        // A time range over all objects, its end excluded.
        let range = at(3)..at(20);
        let first = answer_history::page_between(conn, TENANT, range.clone(), None, 10).await?;
        assert_eq!(numbers(&first), (3..13).collect::<Vec<_>>());
        let after = Some((first[9].analysis_id, first[9].object_id.as_str()));
        let rest = answer_history::page_between(conn, TENANT, range, after, 10).await?;
        assert_eq!(numbers(&rest), (13..20).collect::<Vec<_>>());
        assert_eq!(answer_history::oldest(conn, TENANT).await?, Some(at(0)));
        Ok::<_, Error>(())
    });
    read.await.unwrap();
    store.close().await;
}

async fn the_old_go_in_steps_and_nobody_else_s(database: &TestDatabase) {
    let store = database.open().await;
    fill(&store).await;
    let swept = store.write("sweep", async |conn: &mut Conn| {
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(answer_history::drop_before(conn, TENANT, at(25), 10).await?);
        }
        assert_eq!(steps, [10, 10, 5, 0]);
        assert_eq!(answer_history::oldest(conn, TENANT).await?, Some(at(25)));
        assert_eq!(answer_history::oldest(conn, NEIGHBOUR).await?, Some(at(0)));
        answer_history::drop_before(conn, TENANT, at(0) + Duration::from_hours(1), 100).await?;
        assert_eq!(answer_history::oldest(conn, TENANT).await?, None);
        Ok::<_, Error>(())
    });
    swept.await.unwrap();
    store.close().await;
}

async fn what_was_not_kept_stays_unknown(database: &TestDatabase) {
    let store = database.open().await;
    let days = |days: i64| Timestamp::from_seconds(1_800_000_000 + days * 24 * 3_600);
    let noted = async |kept: u32, now: Timestamp| {
        let note = async |conn: &mut Conn| kept_history::note(conn, kept, now).await;
        store.write("note", note).await.unwrap();
        store.read("since", async |conn: &mut Conn| kept_history::since(conn).await).await.unwrap()
    };
    let since =
        async || store.read("since", async |conn: &mut Conn| kept_history::since(conn).await).await.unwrap();
    assert_eq!(since().await, None, "nobody has noted it");
    assert_eq!(noted(90, days(0)).await, Some(days(-90)), "a new deployment has swept nothing");
    assert_eq!(noted(10, days(1)).await, Some(days(-9)));
    assert_eq!(noted(90, days(2)).await, Some(days(-9)), "what was swept does not come back");
    assert_eq!(noted(90, days(90)).await, Some(days(0)));
    assert_eq!(noted(0, days(91)).await, Some(Timestamp::MAX));
    assert_eq!(noted(90, days(92)).await, Some(days(92)), "kept from now on");
    // A deployment from before it was noted: since its oldest row, or from now on if there are answers and no history.
    let forget = async |conn: &mut Conn| deployment::forget(conn, "answer_history_since").await;
    store.write("forget", forget).await.unwrap();
    let tenant = async |conn: &mut Conn| {
        execute!(
            conn,
            "INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, '', $2)",
            TENANT,
            days(0)
        )
    };
    store.write("tenant", tenant).await.unwrap();
    fill(&store).await;
    assert_eq!(noted(90, days(5)).await, Some(at(0)));
}
