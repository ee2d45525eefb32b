//! A condition finds the objects that it accepts, the same in SQL as in Rust, in order, and by an index.

use model::condition::{BoundCondition, ComparedValue, Query, SignalShape};
use model::{TenantId, Timestamp};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use sqlx::QueryBuilder;
use store::objects::conditions::{
    AnswerFilter, ConditionSearch, LONGEST_SCAN, MANY_ANSWERS, Strategy as SearchStrategy,
};
use store::objects::reads::Sort;
use store::{Backend, Conn, Result, Store};
use testkit::{TestDatabase, on_both};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use uuid::Uuid;

on_both!(
    rust_and_sql_accept_the_same_objects,
    pages_follow_each_other_in_every_order,
    few_answers_lead_to_their_objects,
    objects_are_walked_where_many_match,
    many_answers_are_followed_where_many_meet_each_and_few_meet_all,
);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
const NEIGHBOUR: TenantId = TenantId(Uuid::from_u128(2));
const SORTS: [Sort; 3] = [Sort::Recent, Sort::Flagged, Sort::Trust];
const OPTIONS: [&str; 4] = ["Car", "car", "real estate", "é"];

/// What is known of the three signals that every test asks about.
fn shape(key: &str) -> Option<SignalShape> {
    match key {
        "is_scammer" => Some(SignalShape::Noul),
        "quality" => Some(SignalShape::Score { levels: 5 }),
        "category" => Some(SignalShape::Choice { options: OPTIONS.map(str::to_owned).to_vec() }),
        _ => None,
    }
}

fn signal_id(key: &str) -> Uuid {
    match key {
        "is_scammer" => Uuid::from_u128(11),
        "quality" => Uuid::from_u128(12),
        _ => Uuid::from_u128(13),
    }
}

fn bound(text: &str) -> BoundCondition {
    match Query::parse(text, shape) {
        Query::Signals(condition) => condition,
        Query::Text(_) => panic!("no condition: {text}"),
    }
}

fn filter(condition: &BoundCondition) -> AnswerFilter<'_> {
    AnswerFilter::new(condition, |key| Some(signal_id(key))).unwrap()
}

/// An object and its latest answers, the numbers in millionths.
#[derive(Clone, Debug)]
struct Object {
    id: String,
    seen: i64,
    noul: Option<u32>,
    score: Option<u32>,
    choice: Option<&'static str>,
}

impl Object {
    fn risk(&self) -> f64 {
        self.noul.map_or(-1.0, number)
    }

    fn trust(&self) -> f64 {
        self.score.map_or(-1.0, number)
    }

    fn answer(&self, key: &str) -> Option<ComparedValue<'static>> {
        match key {
            "is_scammer" => self.noul.map(number).map(ComparedValue::Number),
            "quality" => self.score.map(number).map(ComparedValue::Number),
            _ => self.choice.map(ComparedValue::Choice),
        }
    }
}

fn number(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

/// The ids of the objects that a condition accepts, in order.
fn expected(objects: &[Object], condition: &BoundCondition, sort: Sort) -> Vec<String> {
    let mut accepted: Vec<&Object> =
        objects.iter().filter(|object| condition.matches(|key| object.answer(key))).collect();
    accepted.sort_by(|a, b| {
        let by_value = match sort {
            Sort::Recent => std::cmp::Ordering::Equal,
            Sort::Flagged => b.risk().total_cmp(&a.risk()),
            Sort::Trust => b.trust().total_cmp(&a.trust()),
        };
        by_value.then(b.seen.cmp(&a.seen)).then(a.id.cmp(&b.id))
    });
    accepted.into_iter().map(|object| object.id.clone()).collect()
}

/// Rows of one statement: far below the number of values that SQLite takes.
const CHUNK: usize = 1_000;

async fn insert(conn: &mut Conn, tenant: TenantId, objects: &[Object]) -> Result<()> {
    for chunk in objects.chunks(CHUNK) {
        let columns = "tenant_id, object_id, object_type, counted_type, event_count, first_seen, last_seen, risk, trust";
        on_either!(&mut *conn, |native| {
            let mut insert = QueryBuilder::new(format!("INSERT INTO objects ({columns}) "));
            insert.push_values(chunk, |mut row, object| {
                let seen = Timestamp::from_seconds(object.seen);
                row.push_bind(tenant)
                    .push_bind(&object.id)
                    .push_bind("user")
                    .push_bind("user")
                    .push_bind(1_i64);
                row.push_bind(seen).push_bind(seen).push_bind(object.risk()).push_bind(object.trust());
            });
            insert.build().execute(native).await?;
        });
        let of_signal = |key| {
            move |object: &Object| {
                object.answer(key).map(|answer| (object.id.clone(), signal_id(key), answer))
            }
        };
        let answers: Vec<_> = ["is_scammer", "quality", "category"]
            .into_iter()
            .flat_map(|key| chunk.iter().filter_map(of_signal(key)))
            .collect();
        insert_answers(conn, tenant, &answers).await?;
    }
    Ok(())
}

async fn insert_answers(
    conn: &mut Conn,
    tenant: TenantId,
    answers: &[(String, Uuid, ComparedValue<'static>)],
) -> Result<()> {
    let columns = "tenant_id, object_id, signal_id, value, choice, model, read_seq, computed_at";
    for chunk in answers.chunks(CHUNK) {
        on_either!(&mut *conn, |native| {
            let mut insert = QueryBuilder::new(format!("INSERT INTO answers ({columns}) "));
            insert.push_values(chunk, |mut row, (object, signal, answer)| {
                let (value, choice) = match *answer {
                    ComparedValue::Number(value) => (Some(value), None),
                    ComparedValue::Choice(choice) => (None, Some(choice)),
                };
                row.push_bind(tenant).push_bind(object).push_bind(*signal).push_bind(value).push_bind(choice);
                row.push_bind("test").push_bind(1_i64).push_bind(Timestamp::from_seconds(0));
            });
            insert.build().execute(native).await?;
        });
    }
    Ok(())
}

/// A store with these objects, and a neighbour's.
async fn replace(store: &Store, ours: &[Object], neighbours: &[Object]) {
    let written: Result<()> = store
        .write("objects", async |conn: &mut Conn| {
            execute!(conn, "DELETE FROM objects")?;
            execute!(conn, "DELETE FROM answers")?;
            insert(conn, TENANT, ours).await?;
            insert(conn, NEIGHBOUR, neighbours).await
        })
        .await;
    written.unwrap();
}

/// The ids of a page, by the given way or by the one that the search would take.
async fn page(store: &Store, search: ConditionSearch<'_>, way: Option<SearchStrategy>) -> Vec<String> {
    let rows = store
        .read("search", async |conn: &mut Conn| match way {
            Some(way) => search.run_by(conn, &way).await,
            None => search.run(conn).await,
        })
        .await;
    rows.unwrap().into_iter().map(|object| object.object_id).collect()
}

/// Answers around whole and half percents and levels, where rounding could go wrong, and any others.
fn any_answer(edges: &[u32], most: u32) -> impl Strategy<Value = u32> + use<> {
    prop_oneof![3 => near(edges, most), 1 => 0..=most]
}

fn near(edges: &[u32], most: u32) -> impl Strategy<Value = u32> + use<> {
    (select(edges.to_vec()), -1_i32..=1)
        .prop_map(move |(edge, distance)| edge.saturating_add_signed(distance).min(most))
}

const PROBABILITIES: [u32; 8] = [0, 5_000, 10_000, 895_000, 900_000, 905_000, 995_000, 1_000_000];
const POSITIONS: [u32; 7] = [0, 500_000, 1_500_000, 2_000_000, 2_250_000, 2_500_000, 4_000_000];

fn any_objects() -> impl Strategy<Value = Vec<Object>> {
    let answers = (
        of(any_answer(&PROBABILITIES, 1_000_000)),
        of(any_answer(&POSITIONS, 4_000_000)),
        of(select(OPTIONS.to_vec())),
    );
    vec((0_i64..3, answers), 0..16).prop_map(|objects| {
        let object = |(index, (seen, (noul, score, choice)))| Object {
            id: format!("object-{index}"),
            seen,
            noul,
            score,
            choice,
        };
        objects.into_iter().enumerate().map(object).collect()
    })
}

fn any_comparison() -> impl Strategy<Value = String> {
    let operator = || select(vec![">", ">=", "<", "<=", "=", "!="]);
    let probability = prop_oneof![
        any_answer(&PROBABILITIES, 1_000_000).prop_map(|millionths| format!("{:.6}", number(millionths))),
        (2_u32..=100).prop_map(|percents| percents.to_string()),
        any_answer(&PROBABILITIES, 1_000_000).prop_map(|millionths| format!("{:.6}5", number(millionths))),
    ];
    let position = prop_oneof![
        any_answer(&POSITIONS, 4_000_000).prop_map(|millionths| format!("{:.6}", number(millionths))),
        (0_u32..=5).prop_map(|level| level.to_string()),
        any_answer(&POSITIONS, 4_000_000).prop_map(|millionths| format!("{:.6}5", number(millionths))),
    ];
    // The last is in the middle of the options and none of them.
    let option = select(vec!["Car", "car", "real estate", "é", "dog"]);
    prop_oneof![
        (operator(), probability).prop_map(|(operator, value)| format!("is_scammer {operator} {value}")),
        (operator(), position).prop_map(|(operator, value)| format!("quality {operator} {value}")),
        (select(vec!["=", "!="]), option)
            .prop_map(|(operator, value)| format!("category {operator} '{value}'")),
    ]
}

/// Comparisons joined in every way.
fn any_tree() -> impl Strategy<Value = String> {
    any_comparison().prop_recursive(4, 10, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            vec(inner.clone(), 2..=3).prop_map(|parts| format!("({})", parts.join(" and "))),
            vec(inner, 2..=3).prop_map(|parts| format!("({})", parts.join(" or "))),
        ]
    })
}

async fn rust_and_sql_accept_the_same_objects(database: &TestDatabase) {
    let store = database.open().await;
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let trial = async |ours: Vec<Object>,
                       neighbours: Vec<Object>,
                       conditions: Vec<Vec<String>>,
                       trees: Vec<String>| {
        replace(&store, &ours, &neighbours).await;
        for text in conditions.iter().map(|parts| parts.join(" and ")).chain(trees) {
            let condition = bound(&text);
            let filter = filter(&condition);
            let sort = SORTS[text.len() % SORTS.len()];
            let search = ConditionSearch { tenant: TENANT, filter: &filter, sort, limit: 100, offset: 0 };
            let expected = expected(&ours, &condition, sort);
            let counted = async |most| {
                let count = async |conn: &mut Conn| filter.count(conn, TENANT, most).await;
                usize::try_from(store.read("count", count).await.unwrap()).unwrap()
            };
            assert_eq!(
                (counted(100).await, counted(3).await),
                (expected.len(), expected.len().min(3)),
                "{text}"
            );
            // Where all must hold each leads to the objects; otherwise all of them together do.
            let all: Vec<usize> = (0..filter.len()).collect();
            let each = all.iter().filter(|_| !text.contains(['(', ')']) && !text.contains(" or "));
            let ways = each.map(|index| SearchStrategy::FollowAnswers(vec![*index]));
            let ways = ways.chain([SearchStrategy::ScanObjects(LONGEST_SCAN)]);
            let ways = ways.chain([SearchStrategy::FollowAnswers(all.clone())]).map(Some);
            for way in ways.chain([None]) {
                assert_eq!(page(&store, search, way.clone()).await, expected, "{text} by {way:?}");
            }
        }
    };
    let cases =
        (any_objects(), any_objects(), vec(vec(any_comparison(), 1..=3), 1..=5), vec(any_tree(), 1..=3));
    let outcome = runner.run(&cases, |(ours, neighbours, conditions, trees)| {
        block_in_place(|| Handle::current().block_on(trial(ours, neighbours, conditions, trees)));
        Ok(())
    });
    outcome.unwrap();
}

async fn pages_follow_each_other_in_every_order(database: &TestDatabase) {
    let store = database.open().await;
    // Many ties, and objects without a value.
    let object = |index: u32| Object {
        id: format!("object-{index:02}"),
        seen: i64::from(index % 4),
        noul: (!index.is_multiple_of(3)).then_some(index % 5 * 200_000),
        score: (!index.is_multiple_of(7)).then_some(index % 2 * 1_000_000),
        choice: Some(OPTIONS[index as usize % 2]),
    };
    let objects: Vec<Object> = (0..60).map(object).collect();
    replace(&store, &objects, &[]).await;
    let condition = bound("category = car");
    let filter = filter(&condition);
    for sort in SORTS {
        for way in [SearchStrategy::FollowAnswers(vec![0]), SearchStrategy::ScanObjects(LONGEST_SCAN)] {
            let mut listed = Vec::new();
            for offset in [0, 7, 14, 21, 28, 35] {
                let search = ConditionSearch { tenant: TENANT, filter: &filter, sort, limit: 7, offset };
                listed.extend(page(&store, search, Some(way.clone())).await);
            }
            assert_eq!(listed, expected(&objects, &condition, sort), "{sort:?} by {way:?}");
            assert_eq!(listed.len(), 30);
        }
    }
}

/// A tenant with 20,000 objects that all have three answers: values that rise from object to object, and one option in
/// a thousand that is not the usual one.
async fn many_objects(database: &TestDatabase) -> Store {
    let store = database.open().await;
    let object = |index: u32| Object {
        id: format!("object-{index}"),
        seen: i64::from(index * 7_919 % 20_000),
        noul: Some(index * 50),
        score: Some(index * 200),
        choice: Some(if index.is_multiple_of(1_000) { "é" } else { "car" }),
    };
    let objects: Vec<Object> = (0..20_000).map(object).collect();
    replace(&store, &objects, &objects[..10]).await;
    // SQLite goes without statistics, as it does in use.
    if database.backend() == Backend::Postgres {
        store.write("analyze", async |conn: &mut Conn| execute!(conn, "ANALYZE")).await.unwrap();
    }
    store
}

/// The way that a search takes, and the plan for it.
async fn way_and_plan(store: &Store, text: &str, sort: Sort) -> (SearchStrategy, Vec<String>) {
    let condition = bound(text);
    let filter = filter(&condition);
    let search = ConditionSearch { tenant: TENANT, filter: &filter, sort, limit: 50, offset: 0 };
    let found: Result<_> = store
        .read("explain", async |conn: &mut Conn| {
            let (_, way) = search.run_with_strategy(conn).await?;
            let plan = search.explain(conn, &way).await?;
            Ok((way, plan))
        })
        .await;
    found.unwrap()
}

/// Whether a line of a plan reads more than the rows that an index leads it to.
fn reads_all(line: &str) -> bool {
    let sqlite =
        line.starts_with("SCAN answers") || line.starts_with("SCAN objects") || line.contains("AUTOMATIC");
    // By the tenant alone, or by the tenant and the signal alone.
    let all_of_tenant = line.ends_with("(tenant_id=?)") || line.ends_with("(tenant_id=? AND signal_id=?)");
    let postgres = line.contains("Seq Scan")
        || ["objects_recent", "objects_flagged", "objects_trust"].iter().any(|index| line.contains(index));
    sqlite || all_of_tenant || postgres
}

async fn few_answers_lead_to_their_objects(database: &TestDatabase) {
    let store = many_objects(database).await;
    // A condition, which of its comparisons few answers meet, and the index that finds them.
    for (text, few, index) in [
        ("is_scammer > 99.9", &[0][..], "answers_by_value"),
        ("is_scammer = 3, quality >= 0", &[0], "answers_by_value"),
        ("quality >= 0 and category = é and is_scammer > 0", &[1], "answers_by_choice"),
        ("is_scammer > 50 and is_scammer < 50.1", &[0], "answers_by_value"),
        ("category != car", &[0], "answers_by_choice"),
        ("quality != 4, quality > 3.499", &[1], "answers_by_value"),
        ("category = nothing", &[0], "answers_by_choice"),
        ("is_scammer > 99.9 or category = é", &[0, 1], "answers_by_choice"),
        ("not (is_scammer <= 99.9 and category != é)", &[0, 1], "answers_by_value"),
        ("quality >= 0 and (is_scammer > 99.9 or category = é)", &[1, 2], "answers_by_value"),
        ("category = é and (quality > 1 or is_scammer > 20)", &[0], "answers_by_choice"),
    ] {
        for sort in SORTS {
            let (way, plan) = way_and_plan(&store, text, sort).await;
            assert_eq!(way, SearchStrategy::FollowAnswers(few.to_vec()), "{text}");
            let plan = plan.join("\n");
            assert!(!plan.lines().any(reads_all), "{text}:\n{plan}");
            assert!(plan.contains(index), "{text}:\n{plan}");
        }
    }
}

async fn objects_are_walked_where_many_match(database: &TestDatabase) {
    let store = many_objects(database).await;
    const { assert!(MANY_ANSWERS <= 10_000, "half of the objects are many") };
    for text in ["is_scammer >= 0", "category = car, quality > 1", "is_scammer != 50"] {
        for (sort, index) in SORTS.into_iter().zip(["objects_recent", "objects_flagged", "objects_trust"]) {
            let (way, plan) = way_and_plan(&store, text, sort).await;
            assert_eq!(way, SearchStrategy::ScanObjects(500), "{text}");
            let plan = plan.join("\n");
            assert!(plan.contains(index), "{text}:\n{plan}");
            let lookups =
                if store.backend() == Backend::Sqlite { "CORRELATED SCALAR SUBQUERY" } else { "SubPlan" };
            assert!(plan.contains(lookups) && !plan.contains("Hash"), "{text}:\n{plan}");
        }
    }
}

async fn many_answers_are_followed_where_many_meet_each_and_few_meet_all(database: &TestDatabase) {
    let store = many_objects(database).await;
    // Values rise together: the upper half of the one and the lower half of the other.
    let text = "is_scammer >= 50, quality < 2.0002";
    let condition = bound(text);
    let filter = filter(&condition);
    for sort in SORTS {
        let (way, plan) = way_and_plan(&store, text, sort).await;
        let plan = plan.join("\n");
        assert_eq!(way, SearchStrategy::FollowAnswers(vec![0]), "{text}:\n{plan}");
        assert!(plan.contains("answers_by_value"), "{text}:\n{plan}");
        assert!(
            !plan.lines().any(|line| line.contains("SCAN objects") || line.contains("Seq Scan on objects"))
        );
        let search = ConditionSearch { tenant: TENANT, filter: &filter, sort, limit: 100, offset: 0 };
        assert_eq!(page(&store, search, None).await, ["object-10000"], "{sort:?}");
    }
}

#[test]
fn only_a_scan_that_leaves_objects_out_ends_early() {
    let scan = SearchStrategy::ScanObjects(LONGEST_SCAN);
    assert!(scan.ended_early(99, 100, LONGEST_SCAN + 1));
    assert!(!scan.ended_early(100, 100, LONGEST_SCAN + 1), "the page is full");
    assert!(!scan.ended_early(99, 100, LONGEST_SCAN), "no object is left");
    assert!(!SearchStrategy::FollowAnswers(vec![0]).ended_early(99, 100, LONGEST_SCAN + 1));
}
