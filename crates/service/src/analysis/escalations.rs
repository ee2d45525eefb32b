//! Which answers of a signal go to the second analyzer, as a tenant sets it, and what that has cost today.

use model::api::{EscalationInput, SignalEscalation};
use model::quality::escalation::FittedEscalation;
use model::{Escalation, SignalType, TenantId};
use serde_json::json;
use store::accounts::tenants;
use store::analysis::signals::{self, Signal};
use store::analysis::{escalations, escalations::Escalated};
use store::{Conn, Store};

use crate::analysis::questions::CachedQuestions;
use crate::quality::{EscalationFits, no_such_signal};
use crate::runtime::{Caller, Clock, Error, Kind, Result, audit, internal};

/// The escalations of all signals.
pub struct Escalations {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) questions: CachedQuestions,
    pub(crate) fits: EscalationFits,
    /// The second analyzer's model, if there is one.
    pub(crate) model: Option<String>,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Off,
    Exactly(Escalation),
    /// Fitted to the labels for this error.
    Fitted(f64),
}

impl Escalations {
    /// Which answers of a signal are escalated, and what they have cost today.
    pub async fn get(&self, tenant: TenantId, key: &str) -> Result<SignalEscalation> {
        self.store
            .read("escalation", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                self.record(conn, tenant, &signal).await
            })
            .await
    }

    /// Sets which answers of a signal are escalated. This is no new version of it.
    pub async fn set(&self, caller: Caller, key: &str, input: &EscalationInput) -> Result<SignalEscalation> {
        let tenant = caller.tenant;
        let request = Request::parse(input).map_err(Error::bad_request)?;
        let find = async |conn: &mut Conn| signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal);
        let present = self.store.read("signal", find).await?;
        request.check(&present).map_err(Error::bad_request)?;
        if self.model.is_none() && request != Request::Off {
            let reason = "there is no second analyzer; the operator sets AUSPEX_ESCALATE_ANALYZER";
            return Err(Error::new(Kind::Conflict, reason));
        }
        let (escalation, fitted) = match request {
            Request::Off => (None, None),
            Request::Exactly(escalation) => (Some(escalation), None),
            Request::Fitted(target) => {
                let fitted = self.fits.fit(tenant, &present, target).await?;
                (fitted.escalation, Some(fitted))
            }
        };
        let set = self
            .store
            .write("set_escalation", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                if signal.signal_id != present.signal_id
                    || (fitted.is_some() && signal.version != present.version)
                {
                    return Err(Error::new(Kind::Conflict, "the signal was changed meanwhile; try again"));
                }
                let text = escalation.as_ref().map(serde_json::to_string).transpose().map_err(internal)?;
                signals::set_escalation(conn, tenant, key, text.as_deref()).await?;
                let before = json!({"escalation": stored(&signal)?});
                audit::note(tenant, key, Some(&before), Some(&json!({"escalation": escalation})));
                self.record(conn, tenant, &Signal { escalation: text, ..signal }).await
            })
            .await;
        self.questions.clear();
        Ok(match fitted {
            Some(fitted) => with_fit(set?, &fitted),
            None => set?,
        })
    }

    async fn record(&self, conn: &mut Conn, tenant: TenantId, signal: &Signal) -> Result<SignalEscalation> {
        let today = self.clock.now().date();
        let Escalated { answers, micros } =
            escalations::of_signal(conn, tenant, today, signal.signal_id).await?;
        let (band, below) = match stored(signal)? {
            None => (None, None),
            Some(Escalation::Band(band)) => (Some(band), None),
            Some(Escalation::Below(below)) => (None, Some(below)),
        };
        Ok(SignalEscalation {
            band,
            below,
            model: self.model.clone(),
            escalated_today: answers,
            cost_micros_today: micros,
            labels: None,
            share: None,
            error: None,
        })
    }
}

fn stored(signal: &Signal) -> Result<Option<Escalation>> {
    signal.escalation.as_deref().map(serde_json::from_str).transpose().map_err(internal)
}

fn with_fit(record: SignalEscalation, fitted: &FittedEscalation) -> SignalEscalation {
    SignalEscalation {
        labels: Some(i64::try_from(fitted.labels).unwrap_or(i64::MAX)),
        share: fitted.share(),
        error: fitted.error(),
        ..record
    }
}

impl Request {
    fn parse(input: &EscalationInput) -> std::result::Result<Self, String> {
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        match (input.band, input.below, input.target_error) {
            (Some(None), None, None) => Ok(Self::Off),
            (Some(Some([low, high])), None, None) => {
                if is_share(low) && is_share(high) && low <= high {
                    Ok(Self::Exactly(Escalation::Band([low, high])))
                } else {
                    Err("band: it must be two probabilities, 0 to 1, the lower one first".to_owned())
                }
            }
            (None, Some(below), None) if is_share(below) => Ok(Self::Exactly(Escalation::Below(below))),
            (None, Some(_), None) => Err("below: it must be 0 to 1".to_owned()),
            (None, None, Some(target)) if is_share(target) => Ok(Self::Fitted(target)),
            (None, None, Some(_)) => Err("target_error: it must be 0 to 1".to_owned()),
            (None, None, None) => Err("band: give it, below or target_error".to_owned()),
            (Some(_), ..) => Err("band: give it alone, without below and target_error".to_owned()),
            (None, Some(_), Some(_)) => Err("below: give it alone, without target_error".to_owned()),
        }
    }

    /// Whether it fits a signal of its type.
    fn check(self, signal: &Signal) -> std::result::Result<(), String> {
        let Self::Exactly(escalation) = self else { return Ok(()) };
        if escalation.is_of(signal.kind) {
            return Ok(());
        }
        let key = &signal.key;
        Err(if signal.kind == SignalType::Noul {
            format!("below: `{key}` is a yes/no signal; give a band of probabilities")
        } else {
            format!("band: `{key}` is no yes/no signal; give below, a confidence")
        })
    }
}
