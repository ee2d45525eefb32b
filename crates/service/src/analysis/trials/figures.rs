//! What a trial shows: how far both wordings agree, which objects change side, and on labelled objects which one is right more
//! often.

use model::api::{LabelValue, SignalQuality, Trial, TrialFlip};
use model::quality::{Classes, Costs, Graded, Labelled, PairedAnswer, Scope, difference, wilson};
use model::{Answer, AnswerValue, Question, SignalType, Timestamp};
use store::analysis::signals::Signal;
use store::analysis::trials::{self, TrialObject};

use crate::runtime::{Error, Result, internal};

/// The most objects whose answers change side that are shown.
const MAX_FLIPS: usize = 100;

/// An object with both answers.
struct Compared {
    object_id: String,
    present: AnswerValue,
    proposed: AnswerValue,
    label: Option<(LabelValue, Timestamp)>,
    audit: bool,
}

/// Adds the figures to a trial.
pub(super) fn complete(
    record: Trial,
    signal: &Signal,
    trial: &trials::Trial,
    objects: Vec<TrialObject>,
) -> Result<Trial> {
    let question = Question::parse(&signal.key, signal.kind, &trial.instructions, trial.criteria.as_deref())
        .map_err(internal)?;
    let compared = objects.into_iter().map(compared).collect::<Result<Vec<_>>>()?;
    let mut flips: Vec<&Compared> =
        compared.iter().filter(|object| side(&object.present) != side(&object.proposed)).collect();
    let agreement = wilson(compared.len() - flips.len(), compared.len());
    flips.sort_by(|one, other| other.change().total_cmp(&one.change()));
    let answer = |value: &AnswerValue| Answer::of(signal.key.clone(), value.clone());
    let flip = |object: &&Compared| TrialFlip {
        object_id: object.object_id.clone(),
        present: answer(&object.present),
        proposed: answer(&object.proposed),
    };
    let flips = flips.iter().take(MAX_FLIPS).map(flip).collect();
    let (present, proposed, pairs) = graded(&question, trial.version, &compared);
    Ok(Trial { agreement, flips: Some(flips), present, proposed, difference: difference(&pairs), ..record })
}

fn compared(object: TrialObject) -> Result<Compared> {
    let value = |text: Option<String>| -> Result<AnswerValue> {
        serde_json::from_str(&text.unwrap_or_default()).map_err(internal)
    };
    let label = object.label.zip(object.labelled_at).map(|(label, at)| {
        let value: LabelValue = serde_json::from_str(&label).map_err(internal)?;
        Ok::<_, Error>((value, at))
    });
    Ok(Compared {
        object_id: object.object_id,
        present: value(object.present)?,
        proposed: value(object.proposed)?,
        label: label.transpose()?,
        audit: object.audit,
    })
}

impl Compared {
    /// How far the answers are apart: as numbers, or by the probability that the option of the present wording has lost.
    fn change(&self) -> f64 {
        if let (Some(present), Some(proposed)) = (self.present.number(), self.proposed.number()) {
            return (present - proposed).abs();
        }
        let share = |value: &AnswerValue| {
            let option = self.present.choice.as_ref()?;
            value.probabilities.as_ref()?.get(option).copied()
        };
        (share(&self.present).unwrap_or(0.0) - share(&self.proposed).unwrap_or(0.0)).abs()
    }
}

/// The side that an answer is on: yes or no, an option, or the nearest level.
#[derive(PartialEq)]
enum Side<'a> {
    Yes(bool),
    Option(Option<&'a str>),
    Level(i64),
}

fn side(value: &AnswerValue) -> Side<'_> {
    match (value.noul, value.score) {
        (Some(probability), _) => Side::Yes(probability >= 0.5),
        #[expect(clippy::cast_possible_truncation, reason = "at most 26 levels")]
        (None, Some(score)) => Side::Level((score + 0.5).floor() as i64),
        (None, None) => Side::Option(value.choice.as_deref()),
    }
}

type Grades = (Option<SignalQuality>, Option<SignalQuality>, Vec<PairedAnswer>);

/// The quality of both wordings on the labelled objects, and both answers side by side.
fn graded(question: &Question, version: i64, compared: &[Compared]) -> Grades {
    let scope = |version: Option<i64>| Scope { signal: question.key.clone(), kind: question.kind, version };
    let labelled = compared.iter().filter_map(|object| Some((object, object.label.as_ref()?)));
    let mut pairs = Vec::new();
    if question.kind == SignalType::Noul {
        let (mut present, mut proposed) = (Vec::new(), Vec::new());
        for (object, (value, at)) in labelled {
            let (Some(now), Some(then)) =
                (value.compare_yes_no(&object.present), value.compare_yes_no(&object.proposed))
            else {
                continue;
            };
            pairs.push(PairedAnswer {
                present: Graded::from(now),
                proposed: Graded::from(then),
                is_yes: Some(now.is_yes),
            });
            present.push(Labelled { answer: now, at: *at, audit: object.audit });
            proposed.push(Labelled { answer: then, at: *at, audit: object.audit });
        }
        if pairs.is_empty() {
            return (None, None, pairs);
        }
        let costs = Costs { false_yes: 1.0, false_no: 1.0 };
        let quality = (scope(Some(version)).yes_no(&present, costs), scope(None).yes_no(&proposed, costs));
        return (Some(quality.0), Some(quality.1), pairs);
    }
    let names = || question.candidates.iter().map(|candidate| candidate.name.clone());
    let mut classes = Classes::new(names());
    let (mut present, mut proposed) = (Vec::new(), Vec::new());
    for (object, (value, at)) in labelled {
        let now = value.compare_class(&mut classes, &object.present);
        let then = value.compare_class(&mut classes, &object.proposed);
        let (Some(now), Some(then)) = (now, then) else { continue };
        pairs.push(PairedAnswer { present: Graded::from(&now), proposed: Graded::from(&then), is_yes: None });
        present.push(Labelled { answer: now, at: *at, audit: object.audit });
        proposed.push(Labelled { answer: then, at: *at, audit: object.audit });
    }
    if pairs.is_empty() {
        return (None, None, pairs);
    }
    let quality =
        (scope(Some(version)).classes(&classes, &present), scope(None).classes(&classes, &proposed));
    (Some(quality.0), Some(quality.1), pairs)
}
