//! Mails about an endpoint whose receiver fails, at most one a day.

use std::time::Duration;

use model::{TenantId, Timestamp};
use store::Conn;
use store::actions::webhooks::endpoints;
use uuid::Uuid;

use crate::outbox::mail::{Mail, MailTemplates};
use crate::outbox::{EmailEvent, Notifications};
use crate::runtime::Result;

/// The minimum time between two mails about the same endpoint.
const MAIL_INTERVAL: Duration = Duration::from_hours(24);

/// Queues a mail about an endpoint of a tenant, unless one was sent recently; returns whether it did.
pub(super) async fn mail_about_endpoint(
    notifications: &Notifications,
    conn: &mut Conn,
    (tenant, endpoint): (TenantId, Uuid),
    at: Timestamp,
    write: impl Fn(&MailTemplates, &str) -> Mail,
) -> Result<bool> {
    if !endpoints::claim_dead_mail(conn, tenant, endpoint, at, at - MAIL_INTERVAL).await? {
        return Ok(false);
    }
    notifications.mail_tenant(conn, tenant, EmailEvent::WebhookDead, write).await?;
    Ok(true)
}
