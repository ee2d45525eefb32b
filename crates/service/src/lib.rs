//! The use cases of the service, in rooms, and their clients for external systems. Independent of the HTTP server.
//!
//! Rooms depend on each other in one direction only:
//!
//! ```text
//! upkeep, exports -> accounts -> analysis -> actions -> quality -> objects
//!                     analysis -> billing -> outbox -> runtime
//! ```
//!
//! [`Service`] builds the rooms, starts their workers, and has no logic of its own.

pub mod accounts;
pub mod actions;
pub mod analysis;
pub mod billing;
mod exports;
pub mod objects;
mod options;
pub mod outbox;
pub mod quality;
pub mod runtime;
mod service;
pub mod upkeep;
mod wiring;

pub use self::accounts::{
    Accounts, AuditQuery, GithubOptions, GoogleOptions, OidcOptions, Presented, ProvenIdentity, Providers,
    RefusedFrom, RequestLine,
};
pub use self::actions::{Actions, DeliveryQuery, FiringQuery, ReviewQuery, Reviews, seal_plain_urls};
pub use self::analysis::{Analysis, StartedTrial, TimelineQuery};
pub use self::billing::{
    Audit, Auditor, Billing, Drift, LedgerKind, LedgerQuery, STRIPE_API_VERSION, Stripe, StripeOptions,
};
pub use self::exports::{Export, ExportQuery, Exports};
pub use self::objects::{AnswerQuery, Ingested, ObjectQuery, Objects, Sort};
pub use self::options::{EscalationOptions, Options};
pub use self::outbox::mail;
pub use self::quality::{LabelQuery, Quality, QualityQuery};
#[cfg(feature = "test-util")]
pub use self::runtime::ClockHands;
pub use self::runtime::{
    AddressBudget, Allowance, Caller, CannotUnseal, Carrier, ClientInfo, Clock, Credential, Decision, Error,
    HEARTBEAT_LIFETIME, Health, InvalidMasterKey, KeyRights, Kind, Limit, MasterKey, Nodes, PageQuery,
    Random, RateBudget, Result, Sealer, SessionId, Supervision, Throttle, Traces, Waiting, Workers, audit,
    client_network, clock_offset_s, start_clock, traces,
};
pub use self::service::{Dependencies, Service};
pub use self::upkeep::{
    Checkup, Gauges, MASTER_KEY_FACT, QueueGauges, QueueReport, Queues, Readiness, RekeyError, WorkKind,
    is_rekeying, rekey,
};
