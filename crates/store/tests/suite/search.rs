//! A part of an id or a name finds the objects that contain it, by either way, whatever became of them before.

use std::collections::BTreeMap;

use model::api::EventType;
use model::{NewEvent, TenantId, Timestamp};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use store::objects::deletion;
use store::objects::grams::fold_case;
use store::objects::reads::{Cursor, Sort};
use store::objects::recorder;
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::IngestRequest;
use store::objects::search::{Page, Strategy as SearchStrategy, TextSearch};
use store::{Conn, Result, Store};
use testkit::{Backend, TestDatabase, on_both};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use uuid::Uuid;

on_both!(
    the_lists_find_what_a_comparison_of_every_text_finds,
    a_text_is_looked_up_or_walked_to_by_how_common_it_is,
    pages_follow_each_other_by_either_way,
    nothing_is_left_of_an_object_that_is_deleted,
);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
const NEIGHBOUR: TenantId = TenantId(Uuid::from_u128(2));
const SORTS: [Sort; 3] = [Sort::Recent, Sort::Flagged, Sort::Trust];

fn entry(tenant: TenantId, object_id: &str, display_name: Option<&str>, seen: i64) -> IngestRequest {
    let received_at = Timestamp::from_seconds(seen);
    let event = NewEvent {
        kind: EventType::Event,
        name: None,
        content: None,
        metadata: None,
        occurred_at: received_at,
    };
    IngestRequest {
        tenant,
        object_id: object_id.to_owned(),
        object_type: None,
        display_name: display_name.map(str::to_owned),
        events: vec![event],
        idempotency: None,
        schedule: None,
        verdict_slot: None,
        received_at,
        traceparent: None,
    }
}

async fn record(store: &Store, entries: &[IngestRequest]) {
    for chunk in entries.chunks(1_000) {
        let recorded = store
            .write("record", async |conn: &mut Conn| {
                recorder::record(conn, chunk, Admission::by_balance(Enforcement::Grace), 0).await
            })
            .await;
        recorded.unwrap();
    }
}

async fn delete(store: &Store, object_id: &str) {
    let deleted = store
        .write("delete", async |conn: &mut Conn| deletion::delete(conn, TENANT, object_id, 0).await)
        .await;
    deleted.unwrap();
}

fn search(text: &str) -> TextSearch<'_> {
    TextSearch { tenant: TENANT, text, sort: Sort::Recent, limit: 100, offset: 0, after: None }
}

async fn found_by(store: &Store, search: TextSearch<'_>, strategy: SearchStrategy) -> Option<Page> {
    store.read("search", async |conn: &mut Conn| search.run_by(conn, strategy).await).await.unwrap()
}

async fn found(store: &Store, search: TextSearch<'_>) -> (Page, SearchStrategy) {
    store.read("search", async |conn: &mut Conn| search.run_with_strategy(conn).await).await.unwrap()
}

fn ids(page: Page) -> Vec<String> {
    page.objects.into_iter().map(|object| object.object_id).collect()
}

/// What happens to an object.
#[derive(Clone, Debug)]
enum Deed {
    Record { object_id: String, display_name: Option<String> },
    Delete { object_id: String },
}

/// Few letters, so that texts overlap; with two forms, with more than one byte, with a meaning to SQL or to the index.
const LETTERS: [&str; 18] =
    ["a", "A", "b", "ß", "SS", "ä", "Ä", "Σ", "ς", "日", "本", "🙂", "%", "_", "\\", "\"", "*", " "];

fn any_text(longest: usize) -> impl Strategy<Value = String> {
    vec(select(LETTERS.to_vec()), 1..=longest).prop_map(|letters| letters.concat())
}

fn any_deed() -> impl Strategy<Value = Deed> {
    // Few ids, so that objects are renamed, deleted and made again.
    let object_id =
        || prop_oneof![select(vec!["aaa", "Aaä", "bäß", "日本a"]).prop_map(str::to_owned), any_text(6)];
    prop_oneof![
        5 => (object_id(), weighted(0.6, any_text(8)))
            .prop_map(|(object_id, display_name)| Deed::Record { object_id, display_name }),
        1 => object_id().prop_map(|object_id| Deed::Delete { object_id }),
    ]
}

async fn the_lists_find_what_a_comparison_of_every_text_finds(database: &TestDatabase) {
    let store = database.open().await;
    let mut runner = TestRunner::new(Config { cases: 30, failure_persistence: None, ..Config::default() });
    let trial = async |batches: Vec<Vec<Deed>>, texts: Vec<String>| {
        let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
        for deeds in &batches {
            let mut entries = Vec::new();
            for deed in deeds {
                match deed {
                    Deed::Record { object_id, display_name } => {
                        entries.push(entry(TENANT, object_id, display_name.as_deref(), 1));
                        entries.push(entry(
                            NEIGHBOUR,
                            &format!("{object_id} too"),
                            display_name.as_deref(),
                            1,
                        ));
                        let name = known.entry(object_id.clone()).or_default();
                        *name = display_name.clone().or_else(|| name.take());
                    }
                    Deed::Delete { object_id } => {
                        record(&store, &std::mem::take(&mut entries)).await;
                        delete(&store, object_id).await;
                        known.remove(object_id);
                    }
                }
            }
            record(&store, &entries).await;
        }
        // Parts of what is there, beside texts by chance.
        let names = known.values().flatten().cloned();
        for text in texts.into_iter().chain(names).chain(known.keys().cloned()).take(40) {
            let needle = fold_case(&text);
            let expected: Vec<&String> = known
                .iter()
                .filter(|(id, name)| {
                    fold_case(id).contains(&needle)
                        || name.as_deref().is_some_and(|name| fold_case(name).contains(&needle))
                })
                .map(|(id, _)| id)
                .collect();
            let walked = found_by(&store, search(&text), SearchStrategy::ScanObjects).await.unwrap();
            assert_eq!(ids(walked).iter().collect::<Vec<_>>(), expected, "{text:?} by a walk");
            let listed = found_by(&store, search(&text), SearchStrategy::Grams).await;
            assert_eq!(listed.is_some(), needle.chars().count() >= 3, "{text:?}");
            if let Some(listed) = listed {
                assert_eq!(ids(listed).iter().collect::<Vec<_>>(), expected, "{text:?} by the lists");
            }
        }
        for object_id in known.keys() {
            delete(&store, object_id).await;
        }
    };
    let cases = (vec(vec(any_deed(), 1..6), 1..6), vec(any_text(4), 5));
    let outcome = runner.run(&cases, |(batches, texts)| {
        block_in_place(|| Handle::current().block_on(trial(batches, texts)));
        Ok(())
    });
    outcome.unwrap();
}

/// 3,000 objects; the text `even` is in every second one, `rare` in three.
async fn many_objects(store: &Store) -> Vec<String> {
    let id = |n: u32| match n {
        7 | 1_700 | 2_999 => format!("object-{n:04}-rare"),
        n if n.is_multiple_of(2) => format!("object-{n:04}-even"),
        n => format!("object-{n:04}"),
    };
    let entries: Vec<IngestRequest> =
        (0..3_000).map(|n| entry(TENANT, &id(n), None, i64::from(n / 4))).collect();
    record(store, &entries).await;
    (0..3_000).map(id).collect()
}

async fn a_text_is_looked_up_or_walked_to_by_how_common_it_is(database: &TestDatabase) {
    let store = database.open().await;
    many_objects(&store).await;
    for (text, way, first) in [
        ("RARE", SearchStrategy::Grams, Some("object-2999-rare")),
        ("object-1700", SearchStrategy::Grams, Some("object-1700-rare")),
        ("object-17%", SearchStrategy::Grams, None),
        ("even", SearchStrategy::ScanObjects, Some("object-2996-even")),
        ("object", SearchStrategy::ScanObjects, Some("object-2996-even")),
        ("99", SearchStrategy::ScanObjects, Some("object-2996-even")),
        ("ve", SearchStrategy::ScanObjects, Some("object-2996-even")),
    ] {
        let (page, taken) = found(&store, TextSearch { limit: 1, ..search(text) }).await;
        assert_eq!((ids(page).first().map(String::as_str), taken), (first, way), "{text}");
    }
}

async fn pages_follow_each_other_by_either_way(database: &TestDatabase) {
    let store = database.open().await;
    let mut containing = many_objects(&store).await;
    containing.retain(|id| id.contains("-11"));
    assert_eq!(containing.len(), 100);
    for sort in SORTS {
        for way in [SearchStrategy::ScanObjects, SearchStrategy::Grams] {
            let (mut listed, mut place): (Vec<String>, Option<Cursor>) = (Vec::new(), None);
            loop {
                let after = place.as_ref();
                let asked = TextSearch { sort, limit: 7, after, offset: 3, ..search("-11") };
                let page = found_by(&store, asked, way).await.unwrap();
                place.clone_from(&page.next);
                listed.extend(ids(page));
                if place.is_none() {
                    break;
                }
            }
            assert_eq!(listed.len(), 97, "{sort:?} by {way:?}: all but the three that were skipped");
            let skipped =
                found_by(&store, TextSearch { sort, limit: 3, ..search("-11") }, way).await.unwrap();
            let mut all = ids(skipped);
            all.extend(listed);
            // Seen later first, then by id: four objects were seen at a time.
            let number = |id: &String| id[7..11].parse::<u32>().unwrap();
            let mut expected = containing.clone();
            expected.sort_by_key(|id| (u32::MAX - number(id) / 4, id.clone()));
            assert_eq!(all, expected, "{sort:?} by {way:?}");
        }
    }
    // A page that ends with the last object says so.
    for way in [SearchStrategy::ScanObjects, SearchStrategy::Grams] {
        let page = found_by(&store, search("-11"), way).await.unwrap();
        assert_eq!((page.objects.len(), page.next), (100, None), "{way:?}");
    }
}

async fn nothing_is_left_of_an_object_that_is_deleted(database: &TestDatabase) {
    let store = database.open().await;
    record(&store, &[entry(TENANT, "abcdef", Some("Ann"), 1)]).await;
    record(&store, &[entry(TENANT, "abcdef", Some("Anna"), 2)]).await;
    delete(&store, "abcdef").await;
    let tables = match database.backend() {
        Backend::Sqlite => vec!["object_grams", "gram_lists", "gram_lists_docsize"],
        Backend::Postgres => vec!["object_grams"],
    };
    for table in tables {
        let rows: Result<Vec<(i64,)>> = store
            .read("count", async |conn: &mut Conn| {
                fetch_all!(conn, sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            })
            .await;
        assert_eq!(rows.unwrap(), [(0,)], "{table}");
    }
}
