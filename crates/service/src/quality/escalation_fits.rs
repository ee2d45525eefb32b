//! Fits which answers are escalated to the labels: to what the first analyzer said of the present version.

use model::quality::escalation::{self, Compared, FittedEscalation};
use model::{Question, SignalType, TenantId};
use store::analysis::signals::Signal;
use store::quality::labels::AnsweredLabel;
use store::{Conn, Store};

use crate::objects::answers::question;
use crate::quality::Computing;
use crate::quality::labelled::{self, Comparison, classes};
use crate::runtime::{Error, Kind, Result};

/// Fits escalations. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EscalationFits {
    pub(crate) store: Store,
    pub(crate) computing: Computing,
}

impl EscalationFits {
    /// What to escalate so that of the other answers at most this share is wrong.
    pub(crate) async fn fit(
        &self,
        tenant: TenantId,
        signal: &Signal,
        target_error: f64,
    ) -> Result<FittedEscalation> {
        let read = async |conn: &mut Conn| labelled::read(conn, tenant, signal.signal_id).await;
        let labels = self.store.read("labels_to_fit", read).await?;
        let (question, version) = (question(signal)?, signal.version);
        self.computing.run(move || fit(&question, labels, version, target_error)).await
    }
}

fn fit(
    question: &Question,
    labels: Vec<AnsweredLabel>,
    version: i64,
    target_error: f64,
) -> Result<FittedEscalation> {
    let comparisons: Vec<Comparison> = labels.into_iter().map(Comparison::parse).collect::<Result<_>>()?;
    let present = comparisons.iter().filter(|label| label.answer.version == version);
    let mut classes = classes(question);
    let compared = present.filter_map(|label| {
        let first = label.answer.first_value();
        if question.kind == SignalType::Noul {
            return label.yes_no(&first).map(Compared::from);
        }
        Some(Compared::of_class(&label.class(&mut classes, &first)?, first.confidence?))
    });
    let compared: Vec<Compared> = compared.collect();
    if compared.len() < escalation::MIN_LABELS {
        let reason = format!(
            "an escalation is fitted to at least {} labels of objects with an answer of the present version; there are {}",
            escalation::MIN_LABELS,
            compared.len()
        );
        return Err(Error::new(Kind::NotEnoughLabels, reason));
    }
    Ok(if question.kind == SignalType::Noul {
        escalation::fit_band(&compared, target_error)
    } else {
        escalation::fit_below(&compared, target_error)
    })
}
