//! Hot paths of rules, firings and reviews.

use model::api::{ActionType, Author, AuthorKind, FiringStatus, ReviewOrder, ReviewReason, ReviewStatus};
use model::condition::EventWindow;
use model::rule::RuleState;
use store::Conn;
use store::actions::firings::{Firing, FiringFilter, MessageCounts};
use store::actions::reviews::{NewReview, Resolution, ReviewFilter};
use store::actions::rules::ConditionState;
use store::actions::{firings, recipients, reviews, rules};
use store::objects::event_counters;
use store::objects::event_counters::FactRequest;
use store::quality::labels;
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures::{CONDITION, KEY, MINUTE, NOW, RULE, SIGNALS, SIZES, TENANT, ids};

pub(crate) async fn rules_and_firings(capture: &mut Capture<'_>, sizes: &[usize]) {
    for &count in sizes {
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
                let fired: Vec<Firing> = ids.iter().zip(0..).map(firing).collect();
                firings::insert(conn, &fired).await?;
                firings::count_by_day(conn, &fired, 0).await?;
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
}

pub(crate) async fn listing_firings(capture: &mut Capture<'_>) {
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

pub(crate) async fn reviewing(capture: &mut Capture<'_>) {
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
                        audited_at: (number % 2 == 0).then_some(NOW),
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
