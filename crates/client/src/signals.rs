//! Signals, and asking questions without recording anything.

use http::Method;
use model::api::{
    BackfillStatus, PlaygroundRequest, PlaygroundVerdict, Signal, SignalBackfill, SignalInput, SignalList,
    SystemOneRequest, SystemOneResponse,
};

use crate::call::Call;
use crate::{Client, Error};

impl Client {
    /// Every configured question, by key.
    pub async fn signals(&self) -> Result<Vec<Signal>, Error> {
        let list: SignalList = self.call(Call::new(Method::GET, &["v1", "signals"])?).await?;
        Ok(list.signals)
    }

    /// Makes a question, or replaces it.
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

    /// Deletes a question and its answers.
    pub async fn delete_signal(&self, key: &str) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "signals", key])?).await
    }

    /// What asking a question about all objects without an answer would take, and how far the latest such run is.
    pub async fn backfill(&self, key: &str) -> Result<BackfillStatus, Error> {
        self.call(Call::new(Method::GET, &["v1", "signals", key, "backfill"])?).await
    }

    /// Asks a question about all objects without an answer. While a run is under way, this returns that one.
    pub async fn start_backfill(&self, key: &str) -> Result<SignalBackfill, Error> {
        self.call(Call::new(Method::POST, &["v1", "signals", key, "backfill"])?).await
    }

    /// Scores events on their own. Nothing is recorded and no rule fires; it is charged like an analysis.
    pub async fn playground(&self, request: &PlaygroundRequest) -> Result<PlaygroundVerdict, Error> {
        self.call(Call::new(Method::POST, &["v1", "playground"])?.json(request)?).await
    }

    /// Asks questions about any state, in the wire format of typed decision models.
    pub async fn system_one(&self, request: &SystemOneRequest) -> Result<SystemOneResponse, Error> {
        self.call(Call::new(Method::POST, &["v1", "systemone"])?.json(request)?).await
    }
}
