//! How many objects match a query, and how the answers of those that do are distributed.

use std::cmp::Reverse;

use indexmap::IndexMap;
use model::api::{Distribution, DistributionBin, MatchCount};
use model::condition::Query;
use model::{Question, SignalType, TenantId};
use store::analysis::signals::{self, Signal};
use store::objects::conditions::{AnswerFilter, ConditionSearch};
use store::objects::reads::{Object, Sort};
use store::objects::search::TextSearch;
use store::objects::{overview, recent_answers};
use store::{Conn, Store};
use uuid::Uuid;

use crate::objects::answers::{enabled_signals, no_such_signal, question, shape};
use crate::objects::reads::checked_query;
use crate::runtime::{Error, Result};

/// Up to how many objects are counted.
const MAX_COUNTED: i64 = 10_000;
/// The objects, those seen last, among which the most recently analyzed are looked for.
const MAX_POOL: i64 = 50_000;
/// How often a search by text is continued where it ended at its own bound.
const MAX_SEARCHES: usize = 4;
/// The bins of a yes/no question.
const NOUL_BINS: u32 = 20;
/// An answer of 1, in millionths: answers have six decimals, so this is exact.
const ONE: i64 = 1_000_000;

/// Counts objects and their answers.
pub struct Counts {
    pub(crate) store: Store,
}

impl Counts {
    /// The number of objects that match a query, exact up to a bound.
    pub async fn objects(&self, tenant: TenantId, q: Option<&str>) -> Result<MatchCount> {
        let q = checked_query(q)?;
        let counted = self
            .store
            .read("object_count", async |conn: &mut Conn| {
                let enabled = enabled_signals(conn, tenant).await?;
                match q.map(|text| Query::parse(text, |key| shape(&enabled, key))) {
                    None => Ok((overview::objects(conn, tenant).await?, true)),
                    Some(Query::Signals(condition)) => {
                        match AnswerFilter::new(&condition, signal_id(&enabled)) {
                            Some(filter) => Ok((filter.count(conn, tenant, MAX_COUNTED + 1).await?, true)),
                            None => Ok((0, true)),
                        }
                    }
                    Some(Query::Text(text)) => {
                        let (found, is_whole) = with_text(conn, tenant, &text, MAX_COUNTED + 1).await?;
                        Ok::<_, Error>((i64::try_from(found.len()).unwrap_or(i64::MAX), is_whole))
                    }
                }
            })
            .await?;
        let (count, is_whole): (i64, bool) = counted;
        Ok(MatchCount { count: count.min(MAX_COUNTED), capped: count > MAX_COUNTED || !is_whole })
    }

    /// How the present answers to a signal are distributed over the objects that match a query.
    pub async fn distribution(&self, tenant: TenantId, key: &str, q: Option<&str>) -> Result<Distribution> {
        let q = checked_query(q)?;
        self.store
            .read("distribution", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let enabled = enabled_signals(conn, tenant).await?;
                let (objects, sampled) = sample(conn, tenant, q, &enabled).await?;
                // The answers of a disabled signal are hidden.
                let answers = if signal.enabled {
                    recent_answers::answers(conn, tenant, signal.signal_id, &objects).await?
                } else {
                    Vec::new()
                };
                let question = question(&signal)?;
                let bins = match signal.kind {
                    SignalType::Choice => options(&question, &answers),
                    SignalType::Noul => {
                        ranges(&noul_edges(), &answers, |micros| micros * i64::from(NOUL_BINS) / ONE)
                    }
                    SignalType::Score => {
                        let levels = u32::try_from(question.candidates.len()).unwrap_or(0);
                        ranges(&score_edges(levels), &answers, |micros| (micros + ONE / 2) / ONE)
                    }
                };
                Ok(Distribution { objects: bins.iter().map(|bin| bin.count).sum(), sampled, bins })
            })
            .await
    }
}

/// The most recently analyzed objects that match a query, or of all.
pub(crate) async fn recent_objects(
    conn: &mut Conn,
    tenant: TenantId,
    q: Option<&str>,
    limit: i64,
) -> Result<Vec<String>> {
    let q = checked_query(q)?;
    let enabled = enabled_signals(conn, tenant).await?;
    let (mut objects, _) = sample(conn, tenant, q, &enabled).await?;
    objects.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(objects)
}

/// The most recently analyzed objects that match a query, and whether there are more.
async fn sample(
    conn: &mut Conn,
    tenant: TenantId,
    q: Option<&str>,
    enabled: &[Signal],
) -> Result<(Vec<String>, bool)> {
    let matching: Vec<Object> = match q.map(|text| Query::parse(text, |key| shape(enabled, key))) {
        None => {
            let mut ids = recent_answers::recently_analyzed(conn, tenant, MAX_POOL, MAX_COUNTED + 1).await?;
            let is_cut = ids.len() > count();
            ids.truncate(count());
            return Ok((ids, is_cut));
        }
        Some(Query::Signals(condition)) => match AnswerFilter::new(&condition, signal_id(enabled)) {
            Some(filter) => {
                let search = ConditionSearch {
                    tenant,
                    filter: &filter,
                    sort: Sort::Recent,
                    limit: MAX_POOL,
                    offset: 0,
                };
                search.run(conn).await?
            }
            None => Vec::new(),
        },
        Some(Query::Text(text)) => with_text(conn, tenant, &text, MAX_POOL).await?.0,
    };
    let mut analyzed: Vec<Object> =
        matching.into_iter().filter(|object| object.last_analyzed_at.is_some()).collect();
    analyzed.sort_by_key(|object| Reverse(object.last_analyzed_at));
    let is_cut = analyzed.len() > count();
    analyzed.truncate(count());
    Ok((analyzed.into_iter().map(|object| object.object_id).collect(), is_cut))
}

fn count() -> usize {
    usize::try_from(MAX_COUNTED).unwrap_or(usize::MAX)
}

fn signal_id(enabled: &[Signal]) -> impl Fn(&str) -> Option<Uuid> {
    |key: &str| Some(enabled.iter().find(|signal| signal.key == key)?.signal_id)
}

/// The objects with a text in their id or name, up to a bound, those seen last first; and whether these are all up to there.
async fn with_text(conn: &mut Conn, tenant: TenantId, text: &str, limit: i64) -> Result<(Vec<Object>, bool)> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..MAX_SEARCHES {
        let left = limit - i64::try_from(found.len()).unwrap_or(i64::MAX);
        let search =
            TextSearch { tenant, text, sort: Sort::Recent, limit: left, offset: 0, after: after.as_ref() };
        let page = search.run(conn).await?;
        found.extend(page.objects);
        if page.next.is_none() || i64::try_from(found.len()).is_ok_and(|found| found >= limit) {
            return Ok((found, true));
        }
        after = page.next;
    }
    Ok((found, false))
}

fn noul_edges() -> Vec<(f64, f64)> {
    let edge = |number: u32| f64::from(number) / f64::from(NOUL_BINS);
    (0..NOUL_BINS).map(|number| (edge(number), edge(number + 1))).collect()
}

fn score_edges(levels: u32) -> Vec<(f64, f64)> {
    (0..levels).map(f64::from).map(|level| (level - 0.5, level + 0.5)).collect()
}

/// Counts values by the bin that `bin_of` says for their millionths; one beyond the ends, as answers to an earlier wording with
/// more levels may be, is in the bin at the end.
fn ranges(
    edges: &[(f64, f64)],
    answers: &[recent_answers::SampledAnswer],
    bin_of: impl Fn(i64) -> i64,
) -> Vec<DistributionBin> {
    let mut counts = vec![0; edges.len()];
    for value in answers.iter().filter_map(|answer| answer.value) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 25 million")]
        let bin = bin_of((value * 1e6).round() as i64);
        let bin = usize::try_from(bin).unwrap_or(0).min(edges.len().saturating_sub(1));
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    let bins = edges.iter().zip(counts);
    bins.map(|((from, to), count)| DistributionBin { from: Some(*from), to: Some(*to), option: None, count })
        .collect()
}

/// Counts options in the order of the criteria; options of an earlier wording come last.
fn options(question: &Question, answers: &[recent_answers::SampledAnswer]) -> Vec<DistributionBin> {
    let mut counts: IndexMap<&str, i64> =
        question.candidates.iter().map(|candidate| (candidate.name.as_str(), 0)).collect();
    for option in answers.iter().filter_map(|answer| answer.choice.as_deref()) {
        *counts.entry(option).or_default() += 1;
    }
    let bin = |(option, count): (&str, i64)| DistributionBin {
        from: None,
        to: None,
        option: Some(option.to_owned()),
        count,
    };
    counts.into_iter().map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[f64]) -> Vec<recent_answers::SampledAnswer> {
        values
            .iter()
            .map(|value| recent_answers::SampledAnswer { value: Some(*value), choice: None })
            .collect()
    }

    fn counts(bins: &[DistributionBin]) -> Vec<(usize, i64)> {
        bins.iter().map(|bin| bin.count).enumerate().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn every_edge_belongs_to_the_bin_above_and_one_to_the_last() {
        let noul = |answers: &[f64]| {
            ranges(&noul_edges(), &values(answers), |micros| micros * i64::from(NOUL_BINS) / ONE)
        };
        for number in 0..NOUL_BINS {
            let edge = f64::from(number) / f64::from(NOUL_BINS);
            assert_eq!(counts(&noul(&[edge])), [(number as usize, 1)], "{edge}");
        }
        assert_eq!(counts(&noul(&[1.0, 0.999_999, 0.949_999])), [(18, 1), (19, 2)]);
        let bins = noul(&[]);
        assert_eq!((bins[0].from, bins[0].to, bins[19].to), (Some(0.0), Some(0.05), Some(1.0)));
        let score = ranges(&score_edges(3), &values(&[0.0, 0.5, 1.499_999, 1.5, 2.0, 9.0]), |micros| {
            (micros + ONE / 2) / ONE
        });
        assert_eq!(counts(&score), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!((score[1].from, score[1].to), (Some(0.5), Some(1.5)));
    }
}
