//! Hot paths of mails and chat messages.

use store::Conn;
use store::outbox::messages;
use store::outbox::messages::{Channel, NewMessage};
use store::upkeep::gauges;
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures;
use super::super::fixtures::{NOW, TENANT};
use super::{CLAIMED_AT, LEASE, TOKEN};

pub(crate) async fn outbox(capture: &mut Capture<'_>, sizes: &[usize]) {
    for &count in sizes {
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
                messages::next_tenant(conn, Channel::Mail, fixtures::NEIGHBOUR, CLAIMED_AT).await?;
                assert_eq!(messages::lanes(conn, Channel::Mail, TENANT, CLAIMED_AT).await?, [""]);
                let claimed =
                    messages::claim(conn, Channel::Mail, (TENANT, ""), CLAIMED_AT, LEASE, 2).await?;
                messages::retry(conn, TENANT, claimed[0].message_id, TOKEN, NOW).await?;
                messages::finish(conn, TENANT, claimed[0].message_id, TOKEN).await?;
                messages::next_due(conn, Channel::Mail).await?;
                gauges::messages(conn, Channel::Mail).await
            })
            .await;
    }
}
