//! What finished analyses lead to: rules are applied and webhooks are queued, in the transaction that writes the answers.

use store::Conn;

use crate::actions::consequences::{ConcludedAnalysis, Consequences};
use crate::actions::firings::Firings;
use crate::actions::webhooks::{CourierHandle, Deliveries};
use crate::outbox::ChatOutbox;
use crate::outbox::mail::Mailer;
use crate::runtime::Result;

/// Applies rules and queues webhooks for finished analyses. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Announcements {
    pub(crate) firings: Firings,
    pub(crate) deliveries: Deliveries,
    pub(crate) mailer: Mailer,
    pub(crate) chat: ChatOutbox,
    pub(crate) courier: CourierHandle,
}

impl Announcements {
    /// Queues what webhooks and rules have to tell about analyses, in the transaction that writes them. Rules are applied to
    /// `with_rules`, the analyses whose tenants have some.
    pub(crate) async fn announce(
        &self,
        conn: &mut Conn,
        concluded: &[ConcludedAnalysis<'_>],
        with_rules: &[ConcludedAnalysis<'_>],
        consequences: &mut Consequences,
    ) -> Result<()> {
        self.deliveries.announce_analyses(conn, concluded, consequences).await?;
        self.firings.apply_rules(conn, with_rules, consequences).await
    }

    /// Wakes workers and counts firings, after the commit: a worker that looks earlier would find nothing.
    pub(crate) fn follow_up(&self, consequences: &Consequences) {
        if consequences.mails {
            self.mailer.wake();
        }
        if consequences.chats {
            self.chat.wake();
        }
        if consequences.deliveries {
            self.courier.wake();
        }
        for (action, status) in &consequences.firings {
            metrics::counter!("auspex_rule_firings_total", "action" => action.as_str(), "status" => status.as_str())
                .increment(1);
        }
    }
}
