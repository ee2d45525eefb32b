//! Objects and their events: ingest, verdicts, reads.

use http::Method;
use model::api::{
    AnalysisList, AnalyzeAllScheduled, AnalyzeScheduled, Event, EventInput, EventList, ExplainRequest,
    Explanation, IngestAccepted, IngestRequest, MatchCount, ModerationVerdict, ObjectAnalysis, ObjectList,
    ObjectState, Overview, Timeline,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Events to be sent, with options.
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

    /// Sets the object's type, for example `user` or `listing`.
    #[must_use]
    pub fn object_type(mut self, kind: impl Into<String>) -> Self {
        self.request.object_type = Some(kind.into());
        self
    }

    /// Sets the idempotency key, so that the service records the request once, however often it is sent within a day. By
    /// default the client generates one, which covers its own retries; a key of yours also covers those of your program.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// For a verdict, asks only these signals.
    #[must_use]
    pub fn signals(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.request.signals = Some(keys.into_iter().map(Into::into).collect());
        self
    }

    /// For a verdict, sets whether to analyze the object's history (the default) or only these events.
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

/// The outcome of sending events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// The service's response.
    pub accepted: IngestAccepted,
    /// Whether the service had already recorded them, by their idempotency key.
    pub replayed: bool,
}

/// The order in which objects are listed.
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

/// Which objects to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsQuery {
    /// A part of an id or display name, or a condition such as `is_scammer > 0.8 and buyer_intent = browsing`.
    pub q: Option<String>,
    /// The order.
    pub sort: ObjectSort,
    /// The page size, 1 to 200; 100 if left out.
    pub limit: Option<u32>,
    /// The number of objects to skip.
    pub offset: Option<u64>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// Which part of an object's past to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastQuery {
    /// Answers: only those to this signal. Timelines: only these kinds, separated by commas.
    pub only: Option<String>,
    /// The page size, 1 to 200; 50 if left out.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
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
        // With its key, a repeated request records nothing.
        let response = self.request(events.call(object_id, false)?.repeatable()).await?;
        let replayed = response.header("idempotent-replayed") == Some("true");
        Ok(Ingested { accepted: response.parse()?, replayed })
    }

    /// Records events about an object and waits for the verdict.
    ///
    /// An error with `events_recorded` is not retried: the events are recorded. Ask for an analysis with
    /// [`Client::analyze_object`] later, and read the answers with [`Client::object`].
    pub async fn verdict(&self, object_id: &str, events: Ingest) -> Result<ModerationVerdict, Error> {
        self.call(events.call(object_id, true)?).await
    }

    /// Lists the most recent events of an object, newest first, up to 200.
    pub async fn events(&self, object_id: &str) -> Result<Vec<Event>, Error> {
        let list: EventList =
            self.call(Call::new(Method::GET, &["v1", "objects", object_id, "events"])?).await?;
        Ok(list.events)
    }

    /// Lists a page of objects with their answers.
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

    /// Returns an object's latest answers.
    pub async fn object(&self, object_id: &str) -> Result<ObjectAnalysis, Error> {
        self.call(Call::new(Method::GET, &["v1", "objects", object_id])?).await
    }

    /// Lists a page of what every analysis of an object said, newest first.
    pub async fn answers(&self, object_id: &str, query: &PastQuery) -> Result<AnalysisList, Error> {
        self.past(object_id, "answers", "signal", query).await
    }

    /// Lists a page of what happened about an object, newest first.
    pub async fn timeline(&self, object_id: &str, query: &PastQuery) -> Result<Timeline, Error> {
        self.past(object_id, "timeline", "kinds", query).await
    }

    async fn past<T: serde::de::DeserializeOwned>(
        &self,
        object_id: &str,
        part: &str,
        filter: &'static str,
        query: &PastQuery,
    ) -> Result<T, Error> {
        let call = Call::new(Method::GET, &["v1", "objects", object_id, part])?
            .query(filter, query.only.as_ref())
            .query("limit", query.limit)
            .query("cursor", query.cursor.as_ref());
        self.call(call).await
    }

    /// Counts the objects that match a query, exactly up to 10,000.
    pub async fn count_objects(&self, q: Option<&str>) -> Result<MatchCount, Error> {
        self.call(Call::new(Method::GET, &["v1", "object_count"])?.query("q", q)).await
    }

    /// Returns the summary of an object.
    pub async fn object_state(&self, object_id: &str) -> Result<ObjectState, Error> {
        self.call(Call::new(Method::GET, &["v1", "objects", object_id, "state"])?).await
    }

    /// Deletes an object and everything about it except its ledger entries.
    pub async fn delete_object(&self, object_id: &str) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "objects", object_id])?).await
    }

    /// Asks a signal about an object again, and returns which parts of its history moved the answer most.
    pub async fn explain(&self, object_id: &str, signal: &str) -> Result<Explanation, Error> {
        let request = ExplainRequest { signal: signal.to_owned() };
        let call = Call::new(Method::POST, &["v1", "objects", object_id, "explain"])?;
        self.call(call.json(&request)?).await
    }

    /// Schedules an analysis of an object.
    pub async fn analyze_object(&self, object_id: &str) -> Result<AnalyzeScheduled, Error> {
        // An object is in the queue at most once.
        self.call(Call::new(Method::POST, &["v1", "objects", object_id, "analyze"])?.repeatable()).await
    }

    /// Schedules an analysis of every object, behind live traffic. Each analysis is billed.
    pub async fn analyze_all(&self) -> Result<AnalyzeAllScheduled, Error> {
        self.call(Call::new(Method::POST, &["v1", "analyze"])?).await
    }

    /// Returns an overview of the account.
    pub async fn overview(&self) -> Result<Overview, Error> {
        self.call(Call::new(Method::GET, &["v1", "overview"])?).await
    }
}
