//! Usage: what was analyzed and spent, by day, model, source and signal.

use std::collections::BTreeMap;

use model::api::{Usage, UsageBreakdown, UsageDay, UsageSignal, UsageTotals};
use model::money::{CURRENCY, cents};
use model::{Date, TenantId};
use store::analysis::storage;
use store::billing::balance;
use store::billing::usage::{self, DailyUsage, UsageSource};
use store::{Conn, Store};

use crate::runtime::{Clock, Error, Result};

/// The longest range in days, both ends included.
const MAX_DAYS: i64 = 366;
/// The length of a range without a start, in days.
const DEFAULT_DAYS: i64 = 30;
/// The first day that can be written as `YYYY-MM-DD`: no default start is earlier.
const FIRST_DAY: Date = Date::from_days(-719_528);

/// Usage reports of all tenants.
pub struct UsageReports {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Whether analyses are billed.
    pub(crate) metering: bool,
}

impl UsageReports {
    /// A tenant's usage from one day to another, both included. Without an end the range ends today; without a start
    /// it has 30 days.
    pub async fn report(&self, tenant: TenantId, from: Option<Date>, to: Option<Date>) -> Result<Usage> {
        let today = self.clock.now().date();
        let to = to.unwrap_or(today);
        let from = from.unwrap_or_else(|| to.plus_days(1 - DEFAULT_DAYS).max(FIRST_DAY));
        let days = to.days() - from.days() + 1;
        if days < 1 {
            return Err(Error::bad_request(format!("from: {from} is after {to}, the end of the range")));
        }
        if days > MAX_DAYS {
            return Err(Error::bad_request(format!(
                "from: a range has at most {MAX_DAYS} days, and from {from} to {to} it has {days}"
            )));
        }
        // In one snapshot, so that the balance matches the spend.
        let (balance, used, signals, storage_bytes) = self
            .store
            .snapshot("usage", async |conn: &mut Conn| {
                let balance = balance::balance(conn, tenant).await?;
                let used = usage::by_day(conn, tenant, from, to).await?;
                let signals = usage::signals_by_day(conn, tenant, from, to).await?;
                let storage_bytes = storage::stored(conn, tenant).await?;
                Ok::<_, Error>((balance, used, signals, storage_bytes))
            })
            .await?;
        let mut totals = UsageTotals::default();
        for row in &used {
            add(&mut totals, row, row.analyses - row.second_stages);
        }
        let elapsed_days = (to.min(today).days() - from.days() + 1).max(1);
        let burn_rate = rounded_share(totals.spend_micros, elapsed_days);
        Ok(Usage {
            from,
            to,
            currency: CURRENCY.to_owned(),
            metering_enabled: self.metering,
            balance_cents: cents(balance),
            burn_rate_micros_per_day: burn_rate,
            runway_days: runway(balance, burn_rate),
            storage_bytes,
            totals,
            series: series(from, to, &used),
            // With each model, whatever stage it answered.
            by_model: breakdown(&used, |row| (row.model.as_str(), row.analyses)),
            by_source: breakdown(&used, |row| (row.source.as_str(), row.analyses - row.second_stages)),
            by_signal: by_signal(signals),
        })
    }
}

fn add(totals: &mut UsageTotals, row: &DailyUsage, analyses: i64) {
    totals.analyses += analyses;
    totals.spend_micros += row.spend_micros;
    totals.input_tokens += row.input_tokens;
    totals.output_tokens += row.output_tokens;
}

/// A sum divided by a number of parts, rounded half up.
fn rounded_share(sum: i64, parts: i64) -> i64 {
    let (sum, parts) = (i128::from(sum), i128::from(parts));
    i64::try_from((2 * sum + parts).div_euclid(2 * parts)).unwrap_or(i64::MAX)
}

/// How many days a balance lasts, to six decimals; none without balance or spend.
fn runway(balance_micros: i64, burn_rate: i64) -> Option<f64> {
    if balance_micros <= 0 || burn_rate <= 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a forecast")]
    let days = balance_micros as f64 / burn_rate as f64;
    Some((days * 1e6).round() / 1e6)
}

/// Every day of the range, oldest first.
fn series(from: Date, to: Date, used: &[DailyUsage]) -> Vec<UsageDay> {
    let day = |days| UsageDay {
        date: Date::from_days(days),
        analyses: 0,
        asynchronous: 0,
        synchronous: 0,
        spend_micros: 0,
    };
    let mut series: Vec<UsageDay> = (from.days()..=to.days()).map(day).collect();
    for row in used {
        let entry = usize::try_from(row.day.days() - from.days()).ok().and_then(|at| series.get_mut(at));
        let Some(day) = entry else { continue };
        // An analysis of two stages is one.
        let analyses = row.analyses - row.second_stages;
        day.analyses += analyses;
        day.spend_micros += row.spend_micros;
        if row.source == UsageSource::Sync {
            day.synchronous += analyses;
        } else {
            day.asynchronous += analyses;
        }
    }
    series
}

/// Sums by a key, with the number of analyses that count for it; most spend first, then by key.
fn breakdown(used: &[DailyUsage], part: impl Fn(&DailyUsage) -> (&str, i64)) -> Vec<UsageBreakdown> {
    let mut sums: BTreeMap<&str, UsageTotals> = BTreeMap::new();
    for row in used {
        let (key, analyses) = part(row);
        add(sums.entry(key).or_default(), row, analyses);
    }
    let parts = sums.into_iter().map(|(key, totals)| UsageBreakdown {
        key: key.to_owned(),
        analyses: totals.analyses,
        spend_micros: totals.spend_micros,
        input_tokens: totals.input_tokens,
        output_tokens: totals.output_tokens,
    });
    let mut parts: Vec<UsageBreakdown> = parts.collect();
    // A stable sort: the keys are already in order. Without billing, the number of analyses decides.
    parts.sort_by_key(|part| std::cmp::Reverse((part.spend_micros, part.analyses)));
    parts
}

/// The number of answers by signal, most first, then by key.
fn by_signal(rows: Vec<(Date, String, i64)>) -> Vec<UsageSignal> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (_, signal, analyses) in rows {
        *sums.entry(signal).or_default() += analyses;
    }
    let mut signals: Vec<UsageSignal> =
        sums.into_iter().map(|(signal, analyses)| UsageSignal { signal, analyses }).collect();
    signals.sort_by_key(|signal| std::cmp::Reverse(signal.analyses));
    signals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_half_up() {
        let shares = [(0, 30), (10, 30), (15, 30), (44, 30), (45, 30), (i64::MAX, 1)];
        let rounded = shares.map(|(sum, parts)| rounded_share(sum, parts));
        assert_eq!(rounded, [0, 0, 1, 1, 2, i64::MAX]);
    }

    #[test]
    fn a_runway_needs_balance_and_spend() {
        assert_eq!(runway(4_998_752, 3_120), Some(1_602.164_103));
        for (balance, rate) in [(0, 1), (-1, 1), (1, 0), (0, 0)] {
            assert_eq!(runway(balance, rate), None, "{balance} at {rate}");
        }
    }

    #[test]
    fn the_first_day_is_the_first_of_year_0() {
        assert_eq!(FIRST_DAY.to_string(), "0000-01-01");
    }
}
