//! The Rust client of Auspex: typed calls that are signed, retried where that is safe, and fail with a reason.
//!
//! ```no_run
//! use auspex_client::{Client, Ingest, api::EventInput};
//!
//! # async fn example() -> Result<(), auspex_client::Error> {
//! let client = Client::builder("http://127.0.0.1:8080").key("ak_…", "sk_…").build()?;
//!
//! // Recorded at once, analyzed once the object is quiet.
//! let events = [EventInput::message("Pay me by gift card and I ship today")];
//! client.send("seller/42", Ingest::new(events).object_type("seller")).await?;
//!
//! // Or analyzed while you wait.
//! let verdict = client.verdict("seller/42", Ingest::new([EventInput::event("listing_created")])).await?;
//! for answer in &verdict.answers {
//!     println!("{}: {:?}", answer.signal, answer.value.number());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every request has a token of its own, which is valid for its method and path and for a minute. A call that is safe to
//! repeat (reading, replacing, deleting, and sending events, which always has an idempotency key) is retried after a
//! transient failure. Any other call is retried only if the service did not process it.
//!
//! [`webhook::verify`] checks the signatures of webhook deliveries; while a secret is being rotated, [`webhook::verify_any`] does.

mod account;
mod billing;
mod builder;
mod call;
mod error;
mod exports;
mod ingester;
mod objects;
mod quality;
mod retry;
mod reviews;
mod rules;
mod sign;
mod signals;
pub mod webhook;
mod webhooks;

pub use builder::ClientBuilder;
pub use call::{Call, Response, ResponseStream};
pub use error::{Error, Refusal};
pub use exports::{Export, ExportQuery, RowSplitter};
pub use http::Method;
pub use ingester::{FailedBatch, IngestError, Ingester, IngesterOptions, OnError};
pub use model::{Answer, AnswerValue, Date, SignalType, Timestamp, api};
pub use objects::{Ingest, Ingested, ObjectSort, ObjectsQuery, PastQuery};

pub use billing::LedgerQuery;
pub use quality::{LabelsQuery, QualityQuery};
pub use reviews::ReviewsQuery;
pub use rules::FiringsQuery;
pub use webhooks::DeliveriesQuery;

use std::sync::Arc;

/// Calls a service as one account. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    /// The base URL, without a trailing slash.
    base: String,
    credential: Credential,
    retries: retry::Retries,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

/// How calls are authenticated.
enum Credential {
    /// Not at all: for signing in.
    None,
    /// A console token.
    Token(String),
    /// An API key, which signs each request.
    Key { id: String, secret: String },
}

impl Client {
    /// Starts building a client of the service at this URL.
    pub fn builder(base_url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(base_url.into())
    }

    /// The URL of the service, without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.inner.base
    }

    /// The public id of the API key that signs requests, if one does.
    pub fn key_id(&self) -> Option<&str> {
        match &self.inner.credential {
            Credential::Key { id, .. } => Some(id),
            Credential::None | Credential::Token(_) => None,
        }
    }
}

impl std::fmt::Debug for Client {
    /// Shows the URL and the credential, without secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let credential = match &self.inner.credential {
            Credential::None => "none",
            Credential::Token(_) => "a console token",
            Credential::Key { id, .. } => id,
        };
        formatter
            .debug_struct("Client")
            .field("base", &self.inner.base)
            .field("credential", &credential)
            .finish_non_exhaustive()
    }
}
