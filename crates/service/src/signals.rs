//! Signals: the questions of an account, as their owner writes them.

use model::api::{Signal, SignalInput, SignalList};
use model::{Question, TenantId};
use serde_json::value::RawValue;
use store::{Conn, signals};

use crate::{Error, Kind, Result, Service, internal};

/// The longest key, in characters.
const MAX_KEY: usize = 64;
/// Words of the query language.
const RESERVED: [&str; 3] = ["and", "or", "not"];

impl Service {
    /// Every configured signal, by key.
    pub async fn signals(&self, tenant: TenantId) -> Result<SignalList> {
        let signals = self.store.read("signals", async |conn| signals::of_tenant(conn, tenant).await).await?;
        Ok(SignalList { signals: signals.iter().map(record).collect::<Result<_>>()? })
    }

    /// Makes a signal, or replaces its definition. Another type is another question: its old answers are out of sight.
    pub async fn put_signal(&self, tenant: TenantId, key: &str, input: &SignalInput) -> Result<Signal> {
        check_key(key)?;
        let (instructions, criteria) =
            (input.instructions.get(), input.criteria.as_deref().map(RawValue::get));
        Question::parse(key, input.kind, instructions, criteria)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        let criteria = criteria.filter(|text| *text != "null");
        let put = self
            .store
            .write("put_signal", async |conn: &mut Conn| {
                let now = self.clock.now();
                let known = signals::find(conn, tenant, key).await?;
                let same_question = known.as_ref().filter(|known| known.kind == input.kind.as_str());
                let signal = signals::Signal {
                    key: key.to_owned(),
                    signal_id: same_question.map_or_else(|| self.random.id(now), |known| known.signal_id),
                    kind: input.kind.as_str().to_owned(),
                    instructions: instructions.to_owned(),
                    criteria: criteria.map(str::to_owned),
                    enabled: input
                        .enabled
                        .or_else(|| known.as_ref().map(|known| known.enabled))
                        .unwrap_or(true),
                    created_at: known.map_or(now, |known| known.created_at),
                    updated_at: now,
                };
                signals::put(conn, tenant, &signal).await?;
                record(&signal)
            })
            .await;
        self.cache.forget_all();
        put
    }

    /// Removes a signal; its answers are out of sight at once.
    pub async fn delete_signal(&self, tenant: TenantId, key: &str) -> Result<()> {
        let deleted = self
            .store
            .write("delete_signal", async |conn: &mut Conn| signals::delete(conn, tenant, key).await)
            .await?;
        self.cache.forget_all();
        if deleted { Ok(()) } else { Err(Error::new(Kind::NotFound, "there is no such signal")) }
    }
}

fn check_key(key: &str) -> Result<()> {
    let fits = (1..=MAX_KEY).contains(&key.len())
        && key.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.iter().any(|word| key.eq_ignore_ascii_case(word));
    if fits {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "key: it must have 1 to {MAX_KEY} letters, digits and underscores, start with a letter, and not be and, or, not"
    )))
}

fn record(signal: &signals::Signal) -> Result<Signal> {
    let raw = |text: &String| RawValue::from_string(text.clone()).map_err(internal);
    Ok(Signal {
        key: signal.key.clone(),
        kind: signal.kind.parse().map_err(internal)?,
        instructions: raw(&signal.instructions)?,
        criteria: signal.criteria.as_ref().map(raw).transpose()?,
        enabled: signal.enabled,
        created_at: signal.created_at,
        updated_at: signal.updated_at,
    })
}
