//! Tallies: counts of objects by type and of answers by signal, kept with every write that changes them.
//!
//! A counter is spread over several rows ("shards"), so that writers of one tenant do not all wait for the same row.

use std::collections::BTreeMap;

use model::{Date, TenantId};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Batch, Conn, Result, Rows, execute, fetch_all};

/// From which probability on an object counts as flagged, and an answer as high.
pub const HIGH: f64 = 0.8;

/// Changes to the counts of objects, by tenant and type.
#[derive(Default)]
pub(crate) struct ObjectTallies(BTreeMap<(TenantId, String), ObjectCounts>);

/// Changes to the counts of one type.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ObjectCounts {
    pub(crate) objects: i64,
    pub(crate) analyzed: i64,
    pub(crate) flagged: i64,
}

impl ObjectTallies {
    /// Adds a change.
    pub(crate) fn add(&mut self, tenant: TenantId, object_type: &str, change: ObjectCounts) {
        let counts = self.0.entry((tenant, object_type.to_owned())).or_default();
        counts.objects += change.objects;
        counts.analyzed += change.analyzed;
        counts.flagged += change.flagged;
    }

    /// Writes all changes, in key order.
    pub(crate) fn write(self, batch: &mut Batch, shard: i64) {
        let rows: Vec<_> =
            self.0.into_iter().filter(|(_, counts)| *counts != ObjectCounts::default()).collect();
        batch.add(
            Rows::of(&rows)
                .column("tenant_id", |row| row.0.0)
                .column("object_type", |row| row.0.1.as_str())
                .column("shard", |_| shard)
                .column("objects", |row| row.1.objects)
                .column("analyzed", |row| row.1.analyzed)
                .column("flagged", |row| row.1.flagged)
                .insert(
                    "object_tallies",
                    "ON CONFLICT (tenant_id, object_type, shard) DO UPDATE SET
                         objects = object_tallies.objects + excluded.objects,
                         analyzed = object_tallies.analyzed + excluded.analyzed,
                         flagged = object_tallies.flagged + excluded.flagged",
                ),
        );
    }
}

/// What happened to the objects of tenants, by day.
#[derive(Default)]
pub(crate) struct ObjectDays(BTreeMap<(TenantId, Date), DayCounts>);

#[derive(Clone, Copy, Default)]
struct DayCounts {
    objects: i64,
    flagged: i64,
}

impl ObjectDays {
    /// Counts an object that was first seen on a day.
    pub(crate) fn add_new(&mut self, tenant: TenantId, day: Date) {
        self.0.entry((tenant, day)).or_default().objects += 1;
    }

    /// Counts an object that an analysis flagged on a day.
    pub(crate) fn add_flagged(&mut self, tenant: TenantId, day: Date) {
        self.0.entry((tenant, day)).or_default().flagged += 1;
    }

    /// Writes all counts, in key order.
    pub(crate) fn write(self, batch: &mut Batch, shard: i64) {
        let rows: Vec<_> = self.0.into_iter().collect();
        batch.add(
            Rows::of(&rows)
                .column("tenant_id", |row| row.0.0)
                .column("day", |row| row.0.1)
                .column("shard", |_| shard)
                .column("objects", |row| row.1.objects)
                .column("flagged", |row| row.1.flagged)
                .insert(
                    "object_days",
                    "ON CONFLICT (tenant_id, day, shard) DO UPDATE SET
                         objects = object_days.objects + excluded.objects,
                         flagged = object_days.flagged + excluded.flagged",
                ),
        );
    }
}

/// Changes to the counts of answers, by signal, version and option.
#[derive(Default)]
pub(crate) struct SignalTallies(BTreeMap<(TenantId, Uuid, i64, String), AnswerCounts>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct AnswerCounts {
    answers: i64,
    high: i64,
    /// The sum of values in millionths.
    value_micros: i64,
}

/// The part of an answer that is counted.
#[derive(Clone, Copy)]
pub(crate) struct CountedAnswer<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) signal: Uuid,
    /// The version of the signal that it answers.
    pub(crate) version: i64,
    pub(crate) value: Option<f64>,
    pub(crate) choice: Option<&'a str>,
    /// Whether the signal is a yes/no question, whose high answers are counted.
    pub(crate) is_noul: bool,
}

impl SignalTallies {
    /// Counts a new answer.
    pub(crate) fn add(&mut self, answer: CountedAnswer<'_>) {
        self.change(answer, 1);
    }

    /// Takes an answer that is replaced or removed out of the counts.
    pub(crate) fn remove(&mut self, answer: CountedAnswer<'_>) {
        self.change(answer, -1);
    }

    fn change(&mut self, answer: CountedAnswer<'_>, sign: i64) {
        let choice = answer.choice.unwrap_or_default().to_owned();
        let key = (answer.tenant, answer.signal, answer.version, choice);
        let counts = self.0.entry(key).or_default();
        let is_high = answer.is_noul && answer.value.is_some_and(|value| value >= HIGH);
        counts.answers += sign;
        counts.high += sign * i64::from(is_high);
        counts.value_micros += sign * micros(answer.value);
    }

    /// Writes all changes, in key order.
    pub(crate) fn write(self, batch: &mut Batch, shard: i64) {
        let rows: Vec<_> =
            self.0.into_iter().filter(|(_, counts)| *counts != AnswerCounts::default()).collect();
        batch.add(
            Rows::of(&rows)
                .column("tenant_id", |row| row.0.0)
                .column("signal_id", |row| row.0.1)
                .column("version", |row| row.0.2)
                .column("choice", |row| row.0.3.as_str())
                .column("shard", |_| shard)
                .column("answers", |row| row.1.answers)
                .column("high", |row| row.1.high)
                .column("value_micros", |row| row.1.value_micros)
                .insert(
                    "signal_tallies",
                    "ON CONFLICT (tenant_id, signal_id, version, choice, shard) DO UPDATE SET
                         answers = signal_tallies.answers + excluded.answers,
                         high = signal_tallies.high + excluded.high,
                         value_micros = signal_tallies.value_micros + excluded.value_micros",
                ),
        );
    }
}

/// A type of objects, or an option of a version of a signal, that counts nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmptyTally {
    /// A type of objects.
    ObjectType(String),
    /// A signal, a version of it, and an option.
    Option(Uuid, i64, String),
}

/// Tallies of a tenant whose shards add up to nothing, up to `limit` of each kind.
pub async fn empty(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<Vec<EmptyTally>> {
    let types: Vec<(String,)> = fetch_all!(
        conn,
        "SELECT object_type FROM object_tallies WHERE tenant_id = $1 GROUP BY object_type
         HAVING sum(objects) = 0 AND sum(analyzed) = 0 AND sum(flagged) = 0 ORDER BY object_type LIMIT $2",
        tenant,
        limit
    )?;
    let options: Vec<(Uuid, i64, String)> = fetch_all!(
        conn,
        "SELECT signal_id, version, choice FROM signal_tallies WHERE tenant_id = $1
         GROUP BY signal_id, version, choice
         HAVING sum(answers) = 0 AND sum(high) = 0 AND sum(value_micros) = 0
         ORDER BY signal_id, version, choice LIMIT $2",
        tenant,
        limit
    )?;
    let types = types.into_iter().map(|(object_type,)| EmptyTally::ObjectType(object_type));
    let options =
        options.into_iter().map(|(signal, version, choice)| EmptyTally::Option(signal, version, choice));
    Ok(types.chain(options).collect())
}

/// Removes a tally if its shards still add up to nothing. They are locked first, and exactly those are removed: whatever is
/// counted meanwhile stays.
pub async fn drop_empty(conn: &mut Conn, tenant: TenantId, tally: &EmptyTally) -> Result<()> {
    let for_update = conn.backend().for_update();
    let shards: Vec<(i64, i64, i64, i64)> = match tally {
        EmptyTally::ObjectType(object_type) => {
            let statement = format!(
                "SELECT shard, objects, analyzed, flagged FROM object_tallies
                 WHERE tenant_id = $1 AND object_type = $2 ORDER BY shard {for_update}"
            );
            fetch_all!(conn, AssertSqlSafe(statement), tenant, object_type)?
        }
        EmptyTally::Option(signal, version, choice) => {
            let statement = format!(
                "SELECT shard, answers, high, value_micros FROM signal_tallies
                 WHERE tenant_id = $1 AND signal_id = $2 AND version = $3 AND choice = $4 ORDER BY shard {for_update}"
            );
            fetch_all!(conn, AssertSqlSafe(statement), tenant, *signal, *version, choice)?
        }
    };
    let sums = shards.iter().fold((0, 0, 0), |sums, row| (sums.0 + row.1, sums.1 + row.2, sums.2 + row.3));
    if sums != (0, 0, 0) {
        return Ok(());
    }
    for (shard, ..) in shards {
        match tally {
            EmptyTally::ObjectType(object_type) => execute!(
                conn,
                "DELETE FROM object_tallies WHERE tenant_id = $1 AND object_type = $2 AND shard = $3",
                tenant,
                object_type,
                shard
            )?,
            EmptyTally::Option(signal, version, choice) => execute!(
                conn,
                "DELETE FROM signal_tallies
                 WHERE tenant_id = $1 AND signal_id = $2 AND version = $3 AND choice = $4 AND shard = $5",
                tenant,
                *signal,
                *version,
                choice,
                shard
            )?,
        };
    }
    Ok(())
}

/// A value in millionths: answers have six decimals, so this is exact.
fn micros(value: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 25 million")]
    value.map_or(0, |value| (value * 1e6).round() as i64)
}
