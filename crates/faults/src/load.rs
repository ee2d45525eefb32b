//! The load: requests to every node, of which the journal knows what was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::analyzer::call_of;
use crate::http::Response;
use crate::journal::{Fate, Journal, Marker, Sent};
use crate::random::Random;
use crate::system::{Backend, System};

/// The objects that are used again and again.
const OLD_OBJECTS: u64 = 24;
/// How often a request with an idempotency key is sent until somebody says what became of it.
const TRIES: usize = 6;

/// Everybody who sends.
pub(crate) struct Load {
    stop: CancellationToken,
    senders: TaskTracker,
}

impl Load {
    /// Starts the senders of a round.
    pub(crate) fn start(system: &Arc<System>, journal: &Arc<Journal>, seed: u64, round: usize) -> Self {
        let (stop, senders) = (CancellationToken::new(), TaskTracker::new());
        let name = system.backend.name();
        for number in 0..if system.backend == Backend::Sqlite { 4 } else { 6 } {
            let random = Random::new(seed, &format!("{name} round {round} sender {number}"));
            let home = number % system.nodes.len();
            let sender =
                Sender { system: Arc::clone(system), journal: Arc::clone(journal), random, home, round };
            senders.spawn(sender.run(stop.clone()));
        }
        Self { stop, senders }
    }

    /// Waits until everybody knows what became of the last request.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.senders.close();
        self.senders.wait().await;
    }
}

/// One of those who send.
struct Sender {
    system: Arc<System>,
    journal: Arc<Journal>,
    random: Random,
    /// The node that it prefers, so that each node is always asked.
    home: usize,
    round: usize,
}

/// A request with events, before it is sent.
struct Draft {
    tenant: usize,
    object_id: String,
    markers: Vec<Marker>,
    wait: bool,
    key: Option<String>,
}

impl Sender {
    /// Sends until it is told to stop.
    async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.random.below(100) {
                0..88 => self.send().await,
                88..92 => self.read().await,
                92..96 => self.change_retention().await,
                _ => self.edit_endpoint().await,
            }
            tokio::time::sleep(Duration::from_millis(self.random.between(20, 140))).await;
        }
    }

    async fn send(&mut self) {
        let draft = self.draft();
        let (mut fate, mut verdict) = (Fate::Refused, None);
        if draft.key.is_some() && self.random.chance(25) {
            // Racers with the same key, at two nodes.
            let (one, other) = (self.home, self.random.index(self.system.nodes.len()));
            let (one, other) = tokio::join!(self.attempt(&draft, one), self.attempt(&draft, other));
            (fate, verdict) = (merge(one.0, other.0), one.1.or(other.1));
        } else {
            (fate, verdict) = merge_attempt((fate, verdict), self.attempt(&draft, self.home).await);
        }
        if draft.key.is_some() {
            for _ in 0..TRIES {
                if fate != Fate::Unknown {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(self.random.between(100, 600))).await;
                let node = self.random.index(self.system.nodes.len());
                (fate, verdict) = merge_attempt((fate, verdict), self.attempt(&draft, node).await);
            }
        }
        let Draft { tenant, object_id, markers, .. } = draft;
        self.journal.add(Sent { tenant, object_id, markers, fate, verdict });
    }

    fn draft(&mut self) -> Draft {
        let random = &mut self.random;
        let tenant = random.pick(&[0, 0, 1, 1, 2]);
        let wait = random.chance(15);
        let objects = if random.chance(70) { OLD_OBJECTS } else { 1_000_000 };
        let number = random.below(objects);
        // Objects with verdicts are others: of those without, each analysis must have been announced.
        let object_id = format!("{}{number}", if wait { "verdict" } else { "queued" });
        let count = random.between(1, 5);
        let markers = (0..count).map(|_| self.journal.marker(random.chance(50))).collect();
        let key = random.chance(50).then(|| format!("key-{}-{}", self.round, random.next()));
        Draft { tenant, object_id, markers, wait, key }
    }

    /// Sends a draft once.
    async fn attempt(&self, draft: &Draft, node: usize) -> (Fate, Option<u64>) {
        let events: Vec<Value> = draft
            .markers
            .iter()
            .map(|marker| match marker.number % 3 {
                0 => json!({"type": "message", "content": marker.to_string()}),
                _ => json!({"type": "event", "name": marker.to_string()}),
            })
            .collect();
        let body = json!({"object_type": "user", "events": events, "wait": draft.wait});
        let path = format!("/v1/objects/{}/events", draft.object_id);
        let Some(response) = self.call(node, draft.tenant, "POST", &path, draft.key.as_deref(), &body).await
        else {
            return (Fate::Unknown, None);
        };
        let fate = match response.status {
            200 | 202 => Fate::Recorded,
            _ if response.events_recorded => Fate::Recorded,
            409 if draft.wait && draft.key.is_some() => Fate::Recorded,
            status if status < 500 => Fate::Refused,
            _ => Fate::Unknown,
        };
        if fate == Fate::Recorded {
            self.journal.acknowledge(node);
        }
        let noul = response.body["answers"][0]["noul"].as_f64().filter(|_| response.status == 200);
        (fate, noul.map(call_of))
    }

    /// Reads an object, so that nodes cache some.
    async fn read(&mut self) {
        let (tenant, node) = (self.random.index(3), self.random.index(self.system.nodes.len()));
        let path = format!("/v1/objects/queued{}", self.random.below(OLD_OBJECTS));
        self.call(node, tenant, "GET", &path, None, &Value::Null).await;
    }

    /// Wakes the sweeper; nothing is old enough to be deleted.
    async fn change_retention(&mut self) {
        let (tenant, keep) = (self.random.index(3), self.random.chance(50));
        let body = if keep {
            json!({"event_retention": "forever", "event_retention_days": null})
        } else {
            json!({"event_retention": "days", "event_retention_days": 30})
        };
        self.call(self.home, tenant, "PATCH", "/v1/settings", None, &body).await;
    }

    /// Edits an endpoint at some node.
    async fn edit_endpoint(&mut self) {
        let (tenant, node) = (self.random.index(3), self.random.index(self.system.nodes.len()));
        let path = format!("/v1/webhooks/{}", self.system.tenants[tenant].endpoints[1].id);
        let body = json!({"description": format!("edit {}", self.random.next())});
        self.call(node, tenant, "PATCH", &path, None, &body).await;
    }

    /// Makes a request, and notes a response that must not be.
    async fn call(
        &self,
        node: usize,
        tenant: usize,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: &Value,
    ) -> Option<Response> {
        let (url, tenant) = (&self.system.nodes[node].url, &self.system.tenants[tenant]);
        let Ok(response) = self.system.http.call(url, tenant, method, path, key, body).await else {
            self.journal.count(0);
            return None;
        };
        self.journal.count(response.status);
        // 401 is for the node whose clock is off, 402 for the tenant without money, 404 for an object that is not there yet.
        let is_unknown = method == "GET" && response.status == 404;
        if !matches!(response.status, 200 | 202 | 401 | 402 | 409 | 429 | 502 | 503) && !is_unknown {
            self.journal
                .note(format!("{method} {path} at node {node}: {} {}", response.status, response.body));
        }
        Some(response)
    }
}

/// What is known of a request after two attempts: a refusal says nothing about an earlier attempt.
fn merge(one: Fate, other: Fate) -> Fate {
    match (one, other) {
        (Fate::Recorded, _) | (_, Fate::Recorded) => Fate::Recorded,
        (Fate::Unknown, _) | (_, Fate::Unknown) => Fate::Unknown,
        (Fate::Refused, Fate::Refused) => Fate::Refused,
    }
}

fn merge_attempt(before: (Fate, Option<u64>), attempt: (Fate, Option<u64>)) -> (Fate, Option<u64>) {
    (merge(before.0, attempt.0), before.1.or(attempt.1))
}
