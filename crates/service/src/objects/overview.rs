//! The overview of a tenant: counts, signal summaries and the riskiest objects.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexMap;
use model::api::{CategoryCount, Overview, OverviewDay, RiskyObject, SignalSummary};
use model::{Date, SignalType, TenantId};
use store::analysis::signals::{self, Signal};
use store::objects::overview::{self, Day, SignalTally};
use store::objects::reads::{self, Sort};
use store::objects::time_spans::minute_of;
use store::{Conn, Store};

use crate::runtime::{Clock, Result};

/// The number of riskiest objects in the overview.
const TOP_RISK: i64 = 10;
const DAY: Duration = Duration::from_hours(24);
/// The number of days in the overview.
const DAYS: i64 = 14;

/// The overviews of all tenants.
pub struct Overviews {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
}

impl Overviews {
    /// The overview of a tenant.
    pub async fn get(&self, tenant: TenantId) -> Result<Overview> {
        let now = self.clock.now();
        let today = now.date();
        let (yesterday, day_before) = (minute_of(now - DAY), minute_of(now - 2 * DAY));
        self.store
            .read("overview", async |conn: &mut Conn| {
                let all = signals::of_tenant(conn, tenant).await?;
                let categories = overview::categories(conn, tenant).await?;
                let tallies = overview::signal_tallies(conn, tenant).await?;
                let risky = reads::page(conn, tenant, Sort::Flagged, TOP_RISK, 0).await?;
                let total: i64 = categories.iter().map(|category| category.objects).sum();
                let analyzed: i64 = categories.iter().map(|category| category.analyzed).sum();
                let enabled = all.iter().filter(|signal| signal.enabled);
                let events_today = overview::events_since(conn, tenant, yesterday).await?;
                let days = overview::days(conn, tenant, today.plus_days(1 - DAYS)).await?;
                let events_of_both = overview::events_since(conn, tenant, day_before).await?;
                Ok(Overview {
                    objects: total,
                    signals: i64::try_from(all.len()).unwrap_or(i64::MAX),
                    analyzed_pct: share(analyzed, total),
                    events_today,
                    events_yesterday: (events_of_both - events_today).max(0),
                    flagged: categories.iter().map(|category| category.flagged).sum(),
                    signal_summary: enabled.map(|signal| summarize(signal, &tallies)).collect(),
                    categories: categories
                        .into_iter()
                        .map(|category| CategoryCount { name: category.object_type, count: category.objects })
                        .collect(),
                    top_risk: risky
                        .into_iter()
                        .filter(|object| object.risk >= 0.0)
                        .map(|object| RiskyObject {
                            object_id: object.object_id,
                            display_name: object.display_name,
                            risk: object.risk,
                        })
                        .collect(),
                    days: until(today, &days),
                })
            })
            .await
    }
}

/// Every day from the first of these to today: days without anything are not stored.
fn until(today: Date, stored: &[Day]) -> Vec<OverviewDay> {
    let first = stored.first().map_or(today, |first| first.day).days();
    let day = |days: i64| {
        let date = Date::from_days(days);
        let stored = stored.iter().find(|stored| stored.day == date);
        let count = |of: fn(&Day) -> i64| stored.map_or(0, of);
        OverviewDay {
            date,
            objects: count(|day| day.objects),
            flagged: count(|day| day.flagged),
            firings: count(|day| day.firings),
        }
    };
    (first..=today.days()).map(day).collect()
}

fn summarize(signal: &Signal, tallies: &[SignalTally]) -> SignalSummary {
    let kind = signal.kind;
    let by_choice: BTreeMap<&str, &SignalTally> = tallies
        .iter()
        .filter(|tally| tally.signal_id == signal.signal_id)
        .map(|tally| (tally.choice.as_str(), tally))
        .collect();
    let total: i64 = by_choice.values().map(|tally| tally.answers).sum();
    let mut summary = SignalSummary {
        key: signal.key.clone(),
        kind,
        total,
        avg: None,
        high: None,
        high_pct: None,
        choices: None,
    };
    if kind == SignalType::Choice {
        let shares = by_choice.iter().filter(|(_, tally)| tally.answers > 0);
        summary.choices = Some(
            shares
                .map(|(choice, tally)| ((*choice).to_owned(), share(tally.answers, total)))
                .collect::<IndexMap<_, _>>(),
        );
        return summary;
    }
    if let Some(tally) = by_choice.get("").filter(|_| total > 0) {
        summary.avg = Some(share(tally.value_micros, total * 1_000_000));
    }
    if kind == SignalType::Noul {
        let high = by_choice.get("").map_or(0, |tally| tally.high);
        summary.high = Some(high);
        summary.high_pct = Some(share(high, total));
    }
    summary
}

/// A part divided by the whole, to six decimals; 0 if the whole is 0.
fn share(part: i64, whole: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    (share * 1e6).round() / 1e6
}
