//! Labels that replace each other, are withdrawn and are put back.

use model::api::{AuthorKind, LabelSource};
use model::{SignalType, TenantId, Timestamp};
use store::analysis::signals::{self, Signal};
use store::quality::labels::{self, Label, LabelFilter};
use store::{Conn, Result};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(what_a_label_replaced_can_be_put_back);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
const SIGNAL: Uuid = Uuid::from_u128(2);

fn label(number: u128, author: u128, value: &str) -> Label {
    Label {
        label_id: Uuid::from_u128(number),
        object_id: "user_1".to_owned(),
        signal_id: SIGNAL,
        version: 1,
        value: value.to_owned(),
        note: None,
        source: LabelSource::Person,
        author_kind: AuthorKind::User,
        author_id: Uuid::from_u128(author),
        author_name: "ann@example.com".to_owned(),
        audit: false,
        answer: Some("{}".to_owned()),
        created_at: Timestamp::from_seconds(1_800_000_000),
    }
}

/// All labels, newest first, and the values of those that count.
async fn all(conn: &mut Conn) -> Result<(Vec<u128>, Vec<String>)> {
    let filter = LabelFilter { signal: None, object_id: None, source: None, before: None, limit: 10 };
    let listed = labels::newest(conn, TENANT, filter).await?;
    let counting = labels::answered(conn, TENANT, SIGNAL, 10).await?;
    Ok((
        listed.iter().map(|label| label.label_id.as_u128()).collect(),
        counting.into_iter().map(|label| label.value).collect(),
    ))
}

/// What a review does when it is resolved and reopened.
async fn what_a_label_replaced_can_be_put_back(database: &TestDatabase) {
    let store = database.open().await;
    let done: Result<()> = store
        .write("labels", async |conn: &mut Conn| {
            let at = Timestamp::from_seconds(1_800_000_000);
            let signal = Signal {
                key: "is_scammer".to_owned(),
                signal_id: SIGNAL,
                kind: SignalType::Noul,
                instructions: "\"?\"".to_owned(),
                criteria: None,
                version: 1,
                calibration_id: None,
                escalation: None,
                enabled: true,
                created_at: at,
                updated_at: at,
            };
            signals::put(conn, TENANT, &signal).await?;
            let (first, other, second) = (label(1, 7, "true"), label(2, 8, "false"), label(3, 7, "\"x\""));
            assert_eq!(labels::put(conn, TENANT, std::slice::from_ref(&first)).await?, []);
            assert_eq!(labels::put(conn, TENANT, &[other]).await?, []);
            assert_eq!(all(conn).await?, (vec![2, 1], vec!["false".to_owned()]));
            let replaced = labels::put(conn, TENANT, &[second]).await?;
            assert_eq!(replaced, [first], "with everything that it said");
            assert_eq!(all(conn).await?, (vec![3, 2], vec!["\"x\"".to_owned()]));

            assert!(labels::withdraw(conn, TENANT, Uuid::from_u128(3)).await?.is_some());
            labels::reinstate(conn, TENANT, &replaced).await?;
            assert_eq!(all(conn).await?, (vec![2, 1], vec!["false".to_owned()]), "as it was before");
            labels::withdraw(conn, TENANT, Uuid::from_u128(2)).await?;
            assert_eq!(all(conn).await?, (vec![1], vec!["true".to_owned()]));

            // Whoever has labelled again meanwhile is not overruled.
            let replaced = labels::put(conn, TENANT, &[label(4, 7, "false")]).await?;
            labels::reinstate(conn, TENANT, &replaced).await?;
            assert_eq!(all(conn).await?, (vec![4], vec!["false".to_owned()]));
            assert_eq!(labels::withdraw(conn, TENANT, Uuid::from_u128(9)).await?, None);
            Ok(())
        })
        .await;
    done.unwrap();
    store.close().await;
}
