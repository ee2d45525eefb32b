//! Receivers of webhooks, which remember what they have accepted.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use client::webhook;
use uuid::Uuid;

use crate::peer::{self, Manner, Request};
use crate::{Result, lock, now};

/// The clock of a node may be off by as much; what counts here is the signature.
const TOLERANCE: Duration = Duration::from_hours(100 * 24);

/// The kinds of receivers that a tenant has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Accepts everything.
    Steady,
    /// Accepts everything, unless a fault makes it misbehave.
    Moody,
    /// Refuses everything for good.
    Gone,
    /// Never responds.
    Silent,
}

/// A receiver.
pub(crate) struct Receiver {
    pub(crate) role: Role,
    manner: Mutex<Manner>,
    /// The endpoint's secret, once it is registered.
    pub(crate) secret: OnceLock<String>,
    accepted: Mutex<HashSet<Uuid>>,
    forged: Mutex<Vec<String>>,
}

impl Receiver {
    /// Starts one.
    pub(crate) async fn start(role: Role) -> Result<(SocketAddr, Arc<Self>)> {
        let manner = match role {
            Role::Steady | Role::Moody => Manner::Honest,
            Role::Gone => Manner::Gone,
            Role::Silent => Manner::Hang,
        };
        let receiver = Arc::new(Self {
            role,
            manner: Mutex::new(manner),
            secret: OnceLock::new(),
            accepted: Mutex::default(),
            forged: Mutex::default(),
        });
        let asked = Arc::clone(&receiver);
        let address = peer::serve(Arc::new(move |request: &Request| asked.receive(request))).await?;
        Ok((address, receiver))
    }

    pub(crate) fn set(&self, manner: Manner) {
        *lock(&self.manner) = manner;
    }

    /// The deliveries that it has answered with 200.
    pub(crate) fn accepted(&self) -> HashSet<Uuid> {
        lock(&self.accepted).clone()
    }

    /// Requests that were not signed as they should be.
    pub(crate) fn forged(&self) -> Vec<String> {
        lock(&self.forged).clone()
    }

    fn receive(&self, request: &Request) -> (Manner, String) {
        let manner = *lock(&self.manner);
        let id = request.headers.get("webhook-id").and_then(|id| id.to_str().ok()?.parse::<Uuid>().ok());
        let secret = self.secret.get().map_or("", String::as_str);
        let verified = webhook::verify(secret, &request.headers, &request.body, now(), TOLERANCE);
        match (id, verified) {
            (Some(id), Ok(())) if manner == Manner::Honest => {
                lock(&self.accepted).insert(id);
            }
            (Some(_), Ok(())) => {}
            (id, outcome) => lock(&self.forged).push(format!("delivery {id:?}: {outcome:?}")),
        }
        (manner, String::new())
    }
}
