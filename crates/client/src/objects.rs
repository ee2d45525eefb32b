//! Objects and their events: sending, verdicts, reading.

use http::Method;
use model::api::{
    AnalyzeAllScheduled, AnalyzeScheduled, Event, EventInput, EventList, IngestAccepted, IngestRequest,
    ModerationVerdict, ObjectAnalysis, ObjectList, ObjectState, Overview,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Events to be sent, and how.
///
/// ```
/// use auspex_client::{Ingest, api::EventInput};
///
/// let events = [EventInput::event("order_shipped"), EventInput::message("It is on its way")];
/// let ingest = Ingest::new(events).object_type("seller").idempotency_key("order-17-shipped");
/// ```
#[derive(Clone, Debug)]
pub struct Ingest {
    request: IngestRequest,
    key: Option<String>,
}

impl Ingest {
    /// These events, 1 to 500 of them.
    pub fn new(events: impl IntoIterator<Item = EventInput>) -> Self {
        let events = events.into_iter().collect();
        let request =
            IngestRequest { object_type: None, events, wait: false, signals: None, include_history: None };
        Self { request, key: None }
    }

    /// Says what the object is, for example `user` or `listing`.
    #[must_use]
    pub fn object_type(mut self, kind: impl Into<String>) -> Self {
        self.request.object_type = Some(kind.into());
        self
    }

    /// Names the request, so that the service records it once however often it comes within a day. Without one the client
    /// makes one, which covers its own repetitions; with one of yours, those of your program are covered too.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// For a verdict: asks only these signals.
    #[must_use]
    pub fn signals(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.request.signals = Some(keys.into_iter().map(Into::into).collect());
        self
    }

    /// For a verdict: whether the object's history counts, as it does unless told, or these events alone.
    #[must_use]
    pub fn include_history(mut self, include: bool) -> Self {
        self.request.include_history = Some(include);
        self
    }

    fn call(mut self, object_id: &str, wait: bool) -> Result<Call, Error> {
        self.request.wait = wait;
        let key = self.key.unwrap_or_else(|| Uuid::new_v4().to_string());
        let call = Call::new(Method::POST, &["v1", "objects", object_id, "events"])?;
        Ok(call.json(&self.request)?.idempotency_key(key))
    }
}

/// What became of events that were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// The service's answer.
    pub accepted: IngestAccepted,
    /// Whether the service had them already, by their idempotency key, and recorded nothing again.
    pub replayed: bool,
}

/// In which order objects are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectSort {
    /// Last seen first.
    #[default]
    Recent,
    /// Highest yes/no probability first.
    Flagged,
    /// Highest score first.
    Trust,
}

/// Which objects are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsQuery {
    /// A part of id or display name, or a condition such as `is_scammer > 0.8 and buyer_intent = browsing`.
    pub q: Option<String>,
    /// In which order.
    pub sort: ObjectSort,
    /// The page size, 1 to 200; 100 when left out.
    pub limit: Option<u32>,
    /// How many to skip.
    pub offset: Option<u64>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// Records events about an object; an analysis follows once the object is quiet.
    ///
    /// ```no_run
    /// # async fn example(client: auspex_client::Client) -> Result<(), auspex_client::Error> {
    /// use auspex_client::{Ingest, api::EventInput};
    ///
    /// let sent = client.send("user/1", Ingest::new([EventInput::event("signed_up")])).await?;
    /// assert_eq!(sent.accepted.accepted, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(&self, object_id: &str, events: Ingest) -> Result<Ingested, Error> {
        // With its key a repetition records nothing again.
        let answer = self.answer(events.call(object_id, false)?.repeatable()).await?;
        let replayed = answer.header("idempotent-replayed") == Some("true");
        Ok(Ingested { accepted: answer.read()?, replayed })
    }

    /// Records events about an object and waits for what the signals say about it.
    ///
    /// A refusal with `events_recorded` is not tried again: the events are there. Ask for an analysis with
    /// [`Client::analyze_object`] later, and read the answers with [`Client::object`].
    pub async fn verdict(&self, object_id: &str, events: Ingest) -> Result<ModerationVerdict, Error> {
        self.call(events.call(object_id, true)?).await
    }

    /// The most recent events of an object, newest first, up to 200.
    pub async fn events(&self, object_id: &str) -> Result<Vec<Event>, Error> {
        let list: EventList =
            self.call(Call::new(Method::GET, &["v1", "objects", object_id, "events"])?).await?;
        Ok(list.events)
    }

    /// A page of objects with their answers.
    ///
    /// ```no_run
    /// # async fn example(client: auspex_client::Client) -> Result<(), auspex_client::Error> {
    /// use auspex_client::{ObjectSort, ObjectsQuery};
    ///
    /// let q = Some("is_scammer > 0.8".to_owned());
    /// let page = client.objects(&ObjectsQuery { q, sort: ObjectSort::Flagged, ..Default::default() }).await?;
    /// for object in page.objects {
    ///     println!("{}", object.object_id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn objects(&self, query: &ObjectsQuery) -> Result<ObjectList, Error> {
        let sort = match query.sort {
            ObjectSort::Recent => None,
            ObjectSort::Flagged => Some("flagged"),
            ObjectSort::Trust => Some("trust"),
        };
        let call = Call::new(Method::GET, &["v1", "objects"])?
            .query("q", query.q.as_ref())
            .query("sort", sort)
            .query("limit", query.limit)
            .query("offset", query.offset)
            .query("cursor", query.cursor.as_ref());
        self.call(call).await
    }

    /// An object's latest answers.
    pub async fn object(&self, object_id: &str) -> Result<ObjectAnalysis, Error> {
        self.call(Call::new(Method::GET, &["v1", "objects", object_id])?).await
    }

    /// What is known of an object beside its answers.
    pub async fn object_state(&self, object_id: &str) -> Result<ObjectState, Error> {
        self.call(Call::new(Method::GET, &["v1", "objects", object_id, "state"])?).await
    }

    /// Deletes an object and everything about it but its lines in the ledger.
    pub async fn delete_object(&self, object_id: &str) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "objects", object_id])?).await
    }

    /// Analyzes an object anew, soon.
    pub async fn analyze_object(&self, object_id: &str) -> Result<AnalyzeScheduled, Error> {
        // An object has one place in the queue, however often it is asked for.
        self.call(Call::new(Method::POST, &["v1", "objects", object_id, "analyze"])?.repeatable()).await
    }

    /// Analyzes every object anew, behind all other work. Each analysis is billed.
    pub async fn analyze_all(&self) -> Result<AnalyzeAllScheduled, Error> {
        self.call(Call::new(Method::POST, &["v1", "analyze"])?).await
    }

    /// The account at a glance.
    pub async fn overview(&self) -> Result<Overview, Error> {
        self.call(Call::new(Method::GET, &["v1", "overview"])?).await
    }
}
