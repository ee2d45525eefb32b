//! The report of a signal's quality: its figures over all labels and week by week.

use std::collections::BTreeMap;

use crate::api::{Figures, SignalQuality, WeekQuality};
use crate::quality::{
    ClassAnswer, Classes, Costs, Labelled, MIN_AUDITS, MIN_LABELS, SELECTED_NOTE, YesNoAnswer, integer,
    yes_no,
};
use crate::{Date, SignalType, Timestamp};

/// Which answers a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The signal's key.
    pub signal: String,
    /// Its type.
    pub kind: SignalType,
    /// The version whose answers are compared; none for all.
    pub version: Option<i64>,
}

impl Scope {
    /// The report of yes/no answers.
    pub fn yes_no(self, labels: &[Labelled<YesNoAnswer>], costs: Costs) -> SignalQuality {
        let answers = answers(labels);
        let report = self.report(labels, yes_no::figures(&answers), yes_no::figures);
        if report.needs.is_some() {
            return report;
        }
        SignalQuality {
            reliability: Some(yes_no::reliability(&answers)),
            thresholds: Some(yes_no::thresholds(&answers)),
            best_threshold: Some(yes_no::best_threshold(&answers, costs)),
            ..report
        }
    }

    /// The report of choices or scores.
    pub fn classes(self, classes: &Classes, labels: &[Labelled<ClassAnswer>]) -> SignalQuality {
        let (kind, answers) = (self.kind, answers(labels));
        let figures = |answers: &[ClassAnswer]| classes.figures(kind, answers);
        let report = self.report(labels, figures(&answers), figures);
        let confusion = report.needs.is_none().then(|| classes.confusion(&answers));
        SignalQuality { confusion, ..report }
    }

    fn report<T: Clone>(
        self,
        labels: &[Labelled<T>],
        figures: Figures,
        of_week: impl Fn(&[T]) -> Figures,
    ) -> SignalQuality {
        let mut weeks: BTreeMap<Date, Vec<T>> = BTreeMap::new();
        for label in labels {
            weeks.entry(monday(label.at)).or_default().push(label.answer.clone());
        }
        let is_only_week = weeks.len() == 1;
        let by_week = weeks.into_iter().map(|(week, answers)| WeekQuality {
            week,
            labels: integer(answers.len()),
            figures: if is_only_week { figures.clone() } else { of_week(&answers) },
        });
        let by_week = by_week.collect();
        let selected = labels.iter().filter(|label| label.audit).count() < MIN_AUDITS;
        let missing = MIN_LABELS.saturating_sub(labels.len());
        SignalQuality {
            signal: self.signal,
            kind: self.kind,
            version: self.version,
            labels: integer(labels.len()),
            needs: (missing > 0).then(|| integer(missing)),
            selected,
            selected_note: selected.then(|| SELECTED_NOTE.to_owned()),
            figures,
            reliability: None,
            thresholds: None,
            best_threshold: None,
            confusion: None,
            by_week,
            versions: None,
            escalation: None,
        }
    }
}

fn answers<T: Clone>(labels: &[Labelled<T>]) -> Vec<T> {
    labels.iter().map(|label| label.answer.clone()).collect()
}

/// The Monday of the week that an instant falls in.
fn monday(at: Timestamp) -> Date {
    let days = at.date().days();
    // Day 0 was a Thursday.
    Date::from_days(days - (days + 3).rem_euclid(7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_monday() {
        for (at, week) in [
            ("2026-11-16T00:00:00Z", "2026-11-16"),
            ("2026-11-22T23:59:59.999999Z", "2026-11-16"),
            ("2026-11-23T00:00:00Z", "2026-11-23"),
            ("1969-12-30T12:00:00Z", "1969-12-29"),
        ] {
            assert_eq!(monday(at.parse().unwrap()).to_string(), week, "{at}");
        }
    }
}
