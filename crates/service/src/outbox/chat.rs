//! Chat messages, posted to the incoming webhook of a Slack workspace.

use std::time::Duration;

use model::api::ActionType;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::Store;
use store::outbox::messages::{Channel, LeasedMessage};
use url::Url;

use crate::outbox::worker::{Failure, Outbox, OutboxChannel, Receiver};
use crate::runtime::outbound::{OutboundError, Reply};
use crate::runtime::{Clock, Outbound, Random, Result, Sealer};

/// How much of Slack's response a firing's detail quotes: `invalid_payload`, `no_service` and the like.
const MAX_QUOTE: usize = 100;

/// Queues chat messages and posts them.
pub(crate) type ChatOutbox = Outbox<ChatChannel>;

/// Posts chat messages.
#[derive(Clone)]
pub(crate) struct ChatChannel {
    outbound: Outbound,
}

/// A chat message. Its URL is a credential, so it has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatMessage {
    /// The URL of the incoming webhook.
    pub(crate) url: String,
    /// The JSON payload.
    pub(crate) body: Value,
}

impl ChatOutbox {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        random: Random,
        sealer: Sealer,
        outbound: Outbound,
    ) -> Self {
        Self::with_channel(store, clock, random, sealer, ChatChannel { outbound })
    }
}

impl OutboxChannel for ChatChannel {
    type Message = ChatMessage;

    const CHANNEL: Channel = Channel::Slack;
    const DEADLINE: Duration = Duration::from_secs(10);
    const SENDS_AT_ONCE: usize = 32;
    const LANE_SENDS: usize = 2;
    const ACTION: ActionType = ActionType::Slack;
    const METER: &'static str = "auspex_chat_messages_total";
    const SENT: &'static str = "the message was posted to Slack";
    const WORKER: &'static str = "chat";

    fn label(_: &ChatMessage) -> &'static str {
        "rule_triggered"
    }

    /// Each URL is a lane, named by the URL's digest because the URL itself is a credential.
    fn lane(message: &ChatMessage) -> String {
        hex::encode(&Sha256::digest(message.url.as_bytes())[..16])
    }

    async fn send(&self, message: &ChatMessage, _: &LeasedMessage) -> Result<(), Failure> {
        let url: Url = message.url.parse().map_err(|_| Failure::never("invalid URL"))?;
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        match self.outbound.post(&url, headers, message.body.to_string(), Self::DEADLINE).await {
            Ok(reply) => outcome(&reply),
            Err(OutboundError::Refused(reason)) => Err(Failure::never(reason)),
            Err(error @ OutboundError::Network(_)) => Err(Failure::later(error.to_string())),
            Err(error @ OutboundError::Timeout) => {
                Err(Failure::later(error.to_string()).by(Receiver::TimedOut))
            }
        }
    }
}

/// Maps Slack's response to an outcome. Rate limits and server errors are retried; other errors are permanent.
fn outcome(reply: &Reply) -> Result<(), Failure> {
    if (200..300).contains(&reply.status) {
        return Ok(());
    }
    let excerpt: String = reply.body_start.chars().take(MAX_QUOTE).collect();
    let excerpt = model::single_line(&excerpt);
    let quote = if excerpt.trim().is_empty() { String::new() } else { format!(": {}", excerpt.trim()) };
    let reason = format!("Slack answered {}{quote}", reply.status);
    let retry = matches!(reply.status, 429 | 500..).then(|| reply.retry_after.unwrap_or_default());
    Err(Failure { reason, retry, receiver: Receiver::Answered(reply.status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(status: u16, body: &str, retry_after: Option<Duration>) -> Result<(), Failure> {
        outcome(&Reply { status, body_start: body.to_owned(), retry_after })
    }

    #[test]
    fn each_response_has_an_outcome() {
        assert_eq!(outcome_of(200, "ok", None), Ok(()));
        let failure = |status: u16, retry| {
            let receiver = Receiver::Answered(status);
            Err(Failure { reason: format!("Slack answered {status}"), retry, receiver })
        };
        let wait = Duration::from_secs(90);
        for status in [500, 502, 503, 429] {
            assert_eq!(outcome_of(status, "", None), failure(status, Some(Duration::ZERO)));
            assert_eq!(outcome_of(status, "", Some(wait)), failure(status, Some(wait)));
        }
        for status in [301, 400, 403, 404, 410] {
            assert_eq!(outcome_of(status, " \n", Some(wait)), failure(status, None));
        }
        let quoting = outcome_of(404, "no_service\r\nx", None).unwrap_err();
        assert_eq!(quoting.reason, "Slack answered 404: no_service  x");
    }
}
