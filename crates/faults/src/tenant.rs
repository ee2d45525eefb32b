//! The tenants of a deployment, with their rules and receivers.

use std::sync::Arc;

use uuid::Uuid;

use crate::receiver::Receiver;

/// A tenant.
pub(crate) struct Tenant {
    pub(crate) id: Uuid,
    pub(crate) key: String,
    pub(crate) secret: String,
    /// Whether it runs out of money.
    pub(crate) is_poor: bool,
    /// The rules that fire when the answer becomes yes, and when it becomes no.
    pub(crate) rules: [Uuid; 2],
    pub(crate) endpoints: Vec<Endpoint>,
}

/// A webhook endpoint with the receiver behind it.
pub(crate) struct Endpoint {
    pub(crate) id: Uuid,
    pub(crate) receiver: Arc<Receiver>,
}
