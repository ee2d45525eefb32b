//! Hot paths of labels.

use model::api::{AuthorKind, LabelSource};
use store::Conn;
use store::quality::labels;
use store::quality::labels::{Label, LabelFilter};
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures::{KEY, NOW, SIGNALS, SIZES, TENANT, ids};

pub(crate) async fn labelling(capture: &mut Capture<'_>) {
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
                    labels::audited(conn, TENANT, &asked).await?;
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
