//! How good the answers to a signal are.

use model::api::SignalQuality;
use model::quality::{Costs, Scope};
use model::{Question, SignalType, TenantId, Timestamp};
use store::analysis::signals;
use store::quality::labels::AnsweredLabel;
use store::{Conn, Store};

use crate::objects::answers::{no_such_signal, question};
use crate::quality::Computing;
use crate::quality::labelled::{self, Comparison, classes};
use crate::runtime::{Error, Result};

/// The largest cost.
const MAX_COST: f64 = 1e9;

/// Which labels a report is about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QualityQuery {
    /// Only answers of this version.
    pub version: Option<i64>,
    /// Only labels given at this time or later.
    pub from: Option<Timestamp>,
    /// Only labels given before this time.
    pub to: Option<Timestamp>,
    /// The cost of a wrong yes; 1 if left out.
    pub cost_false_yes: Option<f64>,
    /// The cost of a wrong no; 1 if left out.
    pub cost_false_no: Option<f64>,
}

/// Compares labels with answers.
pub struct QualityReports {
    pub(crate) store: Store,
    pub(crate) computing: Computing,
}

impl QualityReports {
    /// How good the answers to a signal were when its labels were given.
    pub async fn report(&self, tenant: TenantId, key: &str, query: QualityQuery) -> Result<SignalQuality> {
        let costs = checked_costs(&query)?;
        if query.version.is_some_and(|version| version < 1) {
            return Err(Error::bad_request("version: it must be 1 or more"));
        }
        if query.from.zip(query.to).is_some_and(|(from, to)| from > to) {
            return Err(Error::bad_request("from: it must not be after `to`"));
        }
        let (signal, labels) = self
            .store
            .read("quality", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let labels = labelled::read(conn, tenant, signal.signal_id).await?;
                Ok::<_, Error>((signal, labels))
            })
            .await?;
        let question = question(&signal)?;
        self.computing.run(move || compare(&question, labels, query, costs)).await
    }
}

fn compare(
    question: &Question,
    labels: Vec<AnsweredLabel>,
    query: QualityQuery,
    costs: Costs,
) -> Result<SignalQuality> {
    let comparisons: Vec<Comparison> = labels.into_iter().map(Comparison::parse).collect::<Result<_>>()?;
    let is_asked = |comparison: &&Comparison| {
        query.version.is_none_or(|version| comparison.answer.version == version)
            && query.from.is_none_or(|from| comparison.at() >= from)
            && query.to.is_none_or(|to| comparison.at() < to)
    };
    let asked = comparisons.iter().filter(is_asked);
    let scope = Scope { signal: question.key.clone(), kind: question.kind, version: query.version };
    Ok(if question.kind == SignalType::Noul {
        let labels: Vec<_> = asked
            .filter_map(|asked| Some(asked.labelled(asked.yes_no(&asked.answer.answer.value)?)))
            .collect();
        scope.yes_no(&labels, costs)
    } else {
        let mut classes = classes(question);
        let labels: Vec<_> = asked
            .filter_map(|asked| Some(asked.labelled(asked.class(&mut classes, &asked.answer.answer.value)?)))
            .collect();
        scope.classes(&classes, &labels)
    })
}

fn checked_costs(query: &QualityQuery) -> Result<Costs> {
    let checked = |name: &str, cost: Option<f64>| {
        let cost = cost.unwrap_or(1.0);
        let is_valid = (0.0..=MAX_COST).contains(&cost);
        is_valid
            .then_some(cost)
            .ok_or_else(|| Error::bad_request(format!("{name}: it must be 0 to 1000000000")))
    };
    let costs = Costs {
        false_yes: checked("cost_false_yes", query.cost_false_yes)?,
        false_no: checked("cost_false_no", query.cost_false_no)?,
    };
    if costs.false_yes + costs.false_no > 0.0 {
        return Ok(costs);
    }
    Err(Error::bad_request("cost_false_yes: it must not be 0 if cost_false_no is"))
}
