//! How the answers of an analysis are kept in the history, and the ids of its rows.
//!
//! A row holds all answers of one analysis as a JSON array with an object for each, in short names, because a history has
//! millions of rows and a replay reads all of them:
//!
//! | name | what it is | when |
//! |---|---|---|
//! | `s` | the key of the signal | always |
//! | `v` | the version of the signal that was asked | always |
//! | `n` | the probability of yes | `noul` |
//! | `c` | the likeliest option | `choice` |
//! | `l` | the expected level | `score` |
//! | `p` | the probabilities: by option, or a list in the order of the levels | `choice`, `score` |
//! | `f` | the confidence | `choice`, `score` |
//! | `r` | the analyzer's own answer, as an object of `n`, `c`, `l`, `p`, `f` | where a calibration is on |
//! | `e` | whether the second analyzer answered | where the first was unsure |
//! | `m` | the second analyzer's model | where that answered |
//!
//! Exactly one of `n`, `c` and `l` is there, and says the type. A reader skips names that it does not know, so that later
//! versions may add some, and a number may be written in any JSON form.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{Answer, AnswerValue, RawAnswer, SignalType, Timestamp};

/// An answer as it is kept. Texts are borrowed from the row, and probabilities are not parsed until somebody asks for them.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedAnswer<'a> {
    /// The key of the signal.
    #[serde(rename = "s", borrow)]
    pub signal: Cow<'a, str>,
    /// The version of the signal that was asked.
    #[serde(rename = "v")]
    pub version: i64,
    /// The probability of yes.
    #[serde(rename = "n", default)]
    pub noul: Option<f64>,
    /// The likeliest option.
    #[serde(rename = "c", default, borrow)]
    pub choice: Option<Cow<'a, str>>,
    /// The expected level.
    #[serde(rename = "l", default)]
    pub score: Option<f64>,
    #[serde(rename = "p", default, borrow)]
    probabilities: Option<&'a RawValue>,
    #[serde(rename = "f", default)]
    confidence: Option<f64>,
    #[serde(rename = "r", default, borrow)]
    raw: Option<&'a RawValue>,
    #[serde(rename = "e", default)]
    escalated: Option<bool>,
    #[serde(rename = "m", default, borrow)]
    model: Option<Cow<'a, str>>,
}

/// The analyzer's own answer, as it is kept.
#[derive(Deserialize)]
struct RecordedRaw {
    #[serde(rename = "n", default)]
    noul: Option<f64>,
    #[serde(rename = "c", default)]
    choice: Option<String>,
    #[serde(rename = "l", default)]
    score: Option<f64>,
    #[serde(rename = "p", default)]
    probabilities: Option<Probabilities>,
    #[serde(rename = "f", default)]
    confidence: Option<f64>,
}

/// The probabilities of an answer, in either of their forms.
#[derive(Deserialize)]
#[serde(untagged)]
enum Probabilities {
    OfLevels(Vec<f64>),
    OfOptions(IndexMap<String, f64>),
}

impl Probabilities {
    fn by_name(self) -> IndexMap<String, f64> {
        match self {
            Self::OfOptions(shares) => shares,
            Self::OfLevels(shares) => {
                shares.into_iter().enumerate().map(|(level, share)| (level.to_string(), share)).collect()
            }
        }
    }
}

impl From<RecordedRaw> for RawAnswer {
    fn from(raw: RecordedRaw) -> Self {
        let RecordedRaw { noul, choice, score, probabilities, confidence } = raw;
        Self { noul, choice, score, probabilities: probabilities.map(Probabilities::by_name), confidence }
    }
}

impl RecordedAnswer<'_> {
    /// The type of the signal, as it was then.
    pub fn kind(&self) -> SignalType {
        match (&self.choice, self.score) {
            (Some(_), _) => SignalType::Choice,
            (None, Some(_)) => SignalType::Score,
            (None, None) => SignalType::Noul,
        }
    }

    /// The number to compare by: a probability or a position; `None` for a choice.
    pub fn value(&self) -> Option<f64> {
        self.noul.or(self.score)
    }

    /// The whole answer, as the API shows it.
    pub fn answer(&self) -> serde_json::Result<Answer> {
        let shares = self.probabilities.map(|raw| serde_json::from_str(raw.get())).transpose()?;
        let shares = shares.map(Probabilities::by_name);
        let raw = self.raw.map(|raw| serde_json::from_str::<RecordedRaw>(raw.get())).transpose()?;
        let value = AnswerValue {
            kind: self.kind(),
            noul: self.noul,
            choice: self.choice.as_deref().map(str::to_owned),
            score: self.score,
            probabilities: shares,
            confidence: self.confidence,
        };
        Ok(Answer {
            signal: self.signal.clone().into_owned(),
            value,
            raw: raw.map(RawAnswer::from),
            escalated: self.escalated,
            model: self.model.as_deref().map(str::to_owned),
        })
    }
}

/// What [`RecordedAnswer`] reads.
#[derive(Serialize)]
struct WrittenAnswer<'a> {
    #[serde(rename = "s")]
    signal: &'a str,
    #[serde(rename = "v")]
    version: i64,
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    noul: Option<f64>,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    choice: Option<&'a str>,
    #[serde(rename = "l", skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    probabilities: Option<Shares<'a>>,
    #[serde(rename = "f", skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    raw: Option<WrittenRaw<'a>>,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    escalated: Option<bool>,
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
}

/// What [`RecordedRaw`] reads.
#[derive(Serialize)]
struct WrittenRaw<'a> {
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    noul: Option<f64>,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    choice: Option<&'a str>,
    #[serde(rename = "l", skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    probabilities: Option<Shares<'a>>,
    #[serde(rename = "f", skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Shares<'a> {
    OfLevels(Vec<f64>),
    OfOptions(&'a IndexMap<String, f64>),
}

impl<'a> Shares<'a> {
    fn of(kind: SignalType, shares: &'a IndexMap<String, f64>) -> Self {
        match kind {
            SignalType::Score => Self::OfLevels(shares.values().copied().collect()),
            SignalType::Noul | SignalType::Choice => Self::OfOptions(shares),
        }
    }
}

/// Writes the answers of an analysis, each with the version of the signal that was asked.
pub fn encode<'a>(answers: impl Iterator<Item = (&'a Answer, i64)>) -> String {
    let written = answers.map(|(answer, version)| {
        let AnswerValue { kind, noul, choice, score, probabilities, confidence } = &answer.value;
        WrittenAnswer {
            signal: &answer.signal,
            version,
            noul: *noul,
            choice: choice.as_deref(),
            score: *score,
            probabilities: probabilities.as_ref().map(|shares| Shares::of(*kind, shares)),
            confidence: *confidence,
            raw: answer.raw.as_ref().map(|raw| WrittenRaw {
                noul: raw.noul,
                choice: raw.choice.as_deref(),
                score: raw.score,
                probabilities: raw.probabilities.as_ref().map(|shares| Shares::of(*kind, shares)),
                confidence: raw.confidence,
            }),
            escalated: answer.escalated,
            model: answer.model.as_deref(),
        }
    });
    let written: Vec<WrittenAnswer<'_>> = written.collect();
    // Serializing strings and finite numbers to JSON cannot fail.
    serde_json::to_string(&written).unwrap_or_else(|_| "[]".to_owned())
}

/// Reads the answers of a row.
pub fn parse(row: &str) -> serde_json::Result<Vec<RecordedAnswer<'_>>> {
    serde_json::from_str(row)
}

/// The id of an analysis: a UUID v7 that sorts by its time to the microsecond, not only to the millisecond, so that the order
/// of ids is the order of times (RFC 9562, method 3).
pub fn analysis_id(at: Timestamp, random: [u8; 8]) -> Uuid {
    let micros = u64::try_from(at.micros()).unwrap_or(0);
    let mut rest = [0; 10];
    rest[..2].copy_from_slice(&u16::try_from(micros % 1_000).unwrap_or(0).to_be_bytes());
    rest[2..].copy_from_slice(&random);
    uuid::Builder::from_unix_timestamp_millis(micros / 1_000, &rest).into_uuid()
}

/// The smallest id of an instant: ids of earlier analyses are smaller.
pub fn first_id(at: Timestamp) -> Uuid {
    analysis_id(at, [0; 8])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Distribution, Question};

    fn answers() -> Vec<Answer> {
        let ask = |key: &str, kind, criteria: Option<&str>, weights: &[f64]| {
            let question = Question::parse(key, kind, "\"?\"", criteria).unwrap();
            Answer::new(&question, &Distribution::from_weights(weights).unwrap()).unwrap()
        };
        vec![
            ask("is_rude", SignalType::Noul, None, &[3.0, 1.0]),
            ask("topic", SignalType::Choice, Some(r#"{"say \"hi\"": null, "a": null}"#), &[0.75, 0.25]),
            ask("trust", SignalType::Score, Some(r#"["low", "mid", "high"]"#), &[0.0, 0.5, 0.5]),
        ]
    }

    #[test]
    fn answers_are_written_in_short_and_read_back_whole() {
        let answers = answers();
        let row = encode(answers.iter().zip([3, 1, 12]));
        assert_eq!(
            row,
            r#"[{"s":"is_rude","v":3,"n":0.75},{"s":"topic","v":1,"c":"say \"hi\"","p":{"say \"hi\"":0.75,"a":0.25},"f":0.188722},{"s":"trust","v":12,"l":1.5,"p":[0.0,0.5,0.5],"f":0.36907}]"#
        );
        let read = parse(&row).unwrap();
        assert_eq!(read.iter().map(|answer| answer.answer().unwrap()).collect::<Vec<_>>(), answers);
        assert_eq!(read.iter().map(|answer| answer.version).collect::<Vec<_>>(), [3, 1, 12]);
        assert!(matches!(read[0].signal, Cow::Borrowed(_)), "texts are not copied");
    }

    #[test]
    fn the_analyzer_s_own_answer_is_kept_beside_a_calibrated_one() {
        let calibrated: Vec<Answer> = answers()
            .into_iter()
            .map(|answer| {
                let value = answer.value.clone();
                answer.calibrated(value)
            })
            .collect();
        let row = encode(calibrated.iter().map(|answer| (answer, 1)));
        assert!(
            row.contains(r#""r":{"n":0.75}"#) && row.contains(r#""r":{"l":1.5,"p":[0.0,0.5,0.5]"#),
            "{row}"
        );
        let read = parse(&row).unwrap();
        assert_eq!(read.iter().map(|answer| answer.answer().unwrap()).collect::<Vec<_>>(), calibrated);
    }

    #[test]
    fn an_answer_keeps_that_it_was_escalated_and_to_which_model() {
        let [sure, unsure, refused] = answers().try_into().unwrap();
        let second = unsure.value.clone();
        let (escalated, _) = unsure.escalated(second, "large \"2\"", "small");
        let written = vec![sure, escalated, refused.unescalated()];
        let row = encode(written.iter().map(|answer| (answer, 1)));
        assert!(row.contains(r#""e":true,"m":"large \"2\"""#) && row.contains(r#""e":false}"#), "{row}");
        let read = parse(&row).unwrap();
        assert_eq!(read.iter().map(|answer| answer.answer().unwrap()).collect::<Vec<_>>(), written);
    }

    #[test]
    fn a_reader_skips_what_it_does_not_know() {
        let read = parse(r#"[ {"x":[{"y":1}],"n":1,"v":2,"s":"later","r":{"n":0.5}} ]"#).unwrap();
        let answer = read[0].answer().unwrap();
        assert_eq!((answer.value.noul, read[0].version, &*read[0].signal), (Some(1.0), 2, "later"));
        assert!(parse("[{}]").is_err() && parse("no").is_err());
    }

    proptest! {
        #[test]
        fn ids_sort_by_time(one in 0_i64..4_000_000_000_000_000, other in 0_i64..4_000_000_000_000_000, near in 0_i64..3_000, random: [u8; 8]) {
            for other in [other, one + near] {
                let (first, second) = (Timestamp::from_micros(one), Timestamp::from_micros(other));
                let (id, next) = (analysis_id(first, random), analysis_id(second, [0xff; 8]));
                prop_assert_eq!(id.get_version_num(), 7);
                if one != other {
                    prop_assert_eq!(one < other, id < next);
                    prop_assert_eq!(one < other, id < first_id(second));
                }
                prop_assert!(first_id(first) <= id);
            }
        }
    }
}
