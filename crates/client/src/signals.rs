//! Signals, and asking questions without recording anything.

use http::Method;
use model::api::{
    BackfillStatus, Distribution, PlaygroundRequest, PlaygroundVerdict, Signal, SignalBackfill, SignalInput,
    SignalList, SignalVersion, SignalVersionList, SystemOneRequest, SystemOneResponse,
};

use crate::call::Call;
use crate::{Client, Error};

impl Client {
    /// Lists all configured signals, by key.
    pub async fn signals(&self) -> Result<Vec<Signal>, Error> {
        let list: SignalList = self.call(Call::new(Method::GET, &["v1", "signals"])?).await?;
        Ok(list.signals)
    }

    /// Creates a signal, or replaces its definition.
    ///
    /// ```no_run
    /// # async fn example(client: auspex_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use auspex_client::api::SignalInput;
    ///
    /// let question: SignalInput = serde_json::from_str(
    ///     r#"{"type": "noul", "instructions": "Does this seller ask for payment outside of the platform?"}"#,
    /// )?;
    /// client.put_signal("off_platform", &question).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_signal(&self, key: &str, question: &SignalInput) -> Result<Signal, Error> {
        self.call(Call::new(Method::PUT, &["v1", "signals", key])?.json(question)?).await
    }

    /// Deletes a signal and its answers.
    pub async fn delete_signal(&self, key: &str) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "signals", key])?).await
    }

    /// Lists the versions of a signal's definition.
    pub async fn signal_versions(&self, key: &str) -> Result<Vec<SignalVersion>, Error> {
        let list: SignalVersionList =
            self.call(Call::new(Method::GET, &["v1", "signals", key, "versions"])?).await?;
        Ok(list.versions)
    }

    /// Makes an earlier version of a signal its next one.
    pub async fn restore_signal(&self, key: &str, version: i64) -> Result<Signal, Error> {
        let path = ["v1", "signals", key, "versions", &version.to_string(), "restore"];
        self.call(Call::new(Method::POST, &path)?).await
    }

    /// Returns how the present answers to a signal are distributed over the objects that match a query.
    pub async fn distribution(&self, key: &str, q: Option<&str>) -> Result<Distribution, Error> {
        self.call(Call::new(Method::GET, &["v1", "signals", key, "distribution"])?.query("q", q)).await
    }

    /// Returns an estimate of a backfill, and the progress of the latest one.
    pub async fn backfill(&self, key: &str) -> Result<BackfillStatus, Error> {
        self.call(Call::new(Method::GET, &["v1", "signals", key, "backfill"])?).await
    }

    /// Starts a backfill: asks a signal about all objects without an answer. Returns the running backfill, if there is one.
    pub async fn start_backfill(&self, key: &str) -> Result<SignalBackfill, Error> {
        self.call(Call::new(Method::POST, &["v1", "signals", key, "backfill"])?).await
    }

    /// Analyzes events on their own. Nothing is recorded and no rule fires; it is charged like an analysis.
    pub async fn playground(&self, request: &PlaygroundRequest) -> Result<PlaygroundVerdict, Error> {
        self.call(Call::new(Method::POST, &["v1", "playground"])?.json(request)?).await
    }

    /// Asks questions about any state, in the wire format of typed decision models.
    pub async fn system_one(&self, request: &SystemOneRequest) -> Result<SystemOneResponse, Error> {
        self.call(Call::new(Method::POST, &["v1", "systemone"])?.json(request)?).await
    }
}
