//! Applies rules, draws audits and queues webhooks for finished analyses, in the transaction that writes the answers.

use store::Conn;

use crate::actions::effects::{ConcludedAnalysis, Effects};
use crate::actions::firings::Firings;
use crate::actions::reviews::Audits;
use crate::actions::webhooks::{CourierHandle, Deliveries};
use crate::outbox::ChatOutbox;
use crate::outbox::mail::Mailer;
use crate::runtime::Result;

/// Applies rules and queues webhooks for finished analyses. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Announcements {
    pub(crate) firings: Firings,
    pub(crate) audits: Audits,
    pub(crate) deliveries: Deliveries,
    pub(crate) mailer: Mailer,
    pub(crate) chat: ChatOutbox,
    pub(crate) courier: CourierHandle,
}

impl Announcements {
    /// Queues webhooks and the actions of rules, and opens reviews, in the transaction that writes the analyses. Rules are
    /// applied to `with_rules`, the analyses of tenants with rules; the objects of `drawn` are audited.
    pub(crate) async fn announce(
        &self,
        conn: &mut Conn,
        concluded: &[ConcludedAnalysis<'_>],
        with_rules: &[ConcludedAnalysis<'_>],
        drawn: &[ConcludedAnalysis<'_>],
        effects: &mut Effects,
    ) -> Result<()> {
        self.deliveries.announce_analyses(conn, concluded, effects).await?;
        self.firings.apply_rules(conn, with_rules, effects).await?;
        self.audits.open(conn, drawn, effects).await
    }

    /// Wakes workers and counts firings. To be called after the commit, because a worker would find nothing before.
    pub(crate) fn follow_up(&self, effects: Effects) {
        if effects.mails {
            self.mailer.wake();
        }
        if effects.chats {
            self.chat.wake();
        }
        self.courier.hand_over(effects.handed);
        if effects.deliveries {
            self.courier.wake();
        }
        for (action, status) in &effects.firings {
            metrics::counter!("auspex_rule_firings_total", "action" => action.as_str(), "status" => status.as_str())
                .increment(1);
        }
    }
}
