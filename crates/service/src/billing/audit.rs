//! The audit: recomputes every tenant's balance and usage from its ledger, and its storage from its events, and compares
//! them with the stored values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use model::TenantId;
use model::money::MICROS_PER_CENT;
use store::accounts::{closure, tenants};
use store::analysis::storage;
use store::billing::audit::{self, BatchTotals, DayTotals};
use store::upkeep::backup;
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{Error, Result};

/// The maximum number of findings of one kind per tenant: enough to see what is wrong.
const MAX_FINDINGS: i64 = 20;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// The number of tenants checked.
    pub tenants: usize,
    /// The number of ledger entries checked.
    pub lines: i64,
    /// The values that differ; empty if everything agrees.
    pub drifts: Vec<Drift>,
}

/// A stored value that differs from what it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The tenant.
    pub tenant: TenantId,
    /// What differs.
    pub what: String,
    /// The value computed from the ledger, or from the events.
    pub expected: String,
    /// The stored value.
    pub found: String,
}

/// Audits all tenants of a deployment.
pub struct Auditor {
    store: Store,
}

async fn adopt(conn: &mut Conn, snapshot: Option<&str>) -> store::Result<()> {
    match snapshot {
        Some(snapshot) => backup::adopt(conn, snapshot).await,
        None => Ok(()),
    }
}

impl Auditor {
    /// Audits the deployment of this database.
    pub fn new(store: Store) -> Self {
        // It reads every entry of every ledger.
        Self { store: store.for_maintenance() }
    }

    /// Compares the stored values with the ledger and the events, for every tenant. Reads all of them; the service may be
    /// running meanwhile.
    pub async fn run(&self) -> Result<Audit> {
        self.run_in(None).await
    }

    /// The same, over the state that an exported snapshot of the database shows.
    pub async fn run_in(&self, snapshot: Option<&str>) -> Result<Audit> {
        let mut report = Audit::default();
        let tenants = self
            .store
            .snapshot("tenants", async |conn: &mut Conn| {
                adopt(conn, snapshot).await?;
                tenants::all(conn).await
            })
            .await?;
        // Of an account that is being deleted, part of the ledger is in the sums already.
        for tenant in tenants.into_iter().filter(|tenant| tenant.deleting_at.is_none()) {
            report.tenants += 1;
            // One tenant at a time, each in one snapshot of the database.
            let mut audit = self
                .store
                .snapshot("audit", async |conn: &mut Conn| {
                    adopt(conn, snapshot).await?;
                    let mut audit = TenantAudit { tenant: tenant.tenant_id, drifts: Vec::new(), lines: 0 };
                    audit.check(conn).await.map(|()| audit)
                })
                .await?;
            report.lines += audit.lines;
            report.drifts.append(&mut audit.drifts);
        }
        let deleted = self
            .store
            .snapshot("ledger_sums", async |conn: &mut Conn| {
                adopt(conn, snapshot).await?;
                closure::ledger_sums(conn).await
            })
            .await?;
        for sums in deleted {
            let mut audit = TenantAudit { tenant: sums.tenant_id, drifts: Vec::new(), lines: 0 };
            let sum = sums.credit_micros + sums.charge_micros;
            audit.expect("balance of the deleted account, micro-dollars", sum, sums.balance_micros);
            report.drifts.append(&mut audit.drifts);
        }
        Ok(report)
    }
}

/// The audit of one tenant.
struct TenantAudit {
    tenant: TenantId,
    lines: i64,
    drifts: Vec<Drift>,
}

impl TenantAudit {
    fn expect<T: PartialEq + Display>(&mut self, what: impl Into<String>, expected: T, found: T) {
        if expected != found {
            self.drifts.push(Drift {
                tenant: self.tenant,
                what: what.into(),
                expected: expected.to_string(),
                found: found.to_string(),
            });
        }
    }

    async fn check(&mut self, conn: &mut Conn) -> Result<(), Error> {
        self.check_balance(conn).await?;
        self.check_batches(conn).await?;
        self.check_usage(conn).await?;
        self.check_checkouts(conn).await?;
        self.check_storage(conn).await
    }

    async fn check_balance(&mut self, conn: &mut Conn) -> Result<()> {
        let totals = audit::totals(conn, self.tenant).await?;
        self.lines = totals.entries;
        self.expect("balance, micro-dollars", totals.sum_micros, totals.balance_micros);
        self.expect("number of the last line", totals.last_seq, totals.ledger_seq);
        // Sequence numbers are unique: if there are as many entries as the highest number, none is missing.
        self.expect("lines of the ledger", totals.last_seq, totals.entries);
        for (seq, previous, claimed) in audit::breaks(conn, self.tenant, MAX_FINDINGS).await? {
            self.expect(format!("balance before line {seq}, micro-dollars"), previous, claimed);
        }
        for (seq,) in audit::missigned(conn, self.tenant, MAX_FINDINGS).await? {
            self.expect(format!("kind of line {seq}"), "that of its sign", "the other");
        }
        Ok(())
    }

    async fn check_batches(&mut self, conn: &mut Conn) -> Result<()> {
        let by_id = |batches: Vec<BatchTotals>| -> BTreeMap<Uuid, BatchTotals> {
            batches.into_iter().map(|batch| (batch.batch_id, batch)).collect()
        };
        let expected = by_id(audit::batches_of_ledger(conn, self.tenant).await?);
        let stored = by_id(audit::stored_batches(conn, self.tenant).await?);
        let ids: BTreeSet<Uuid> = expected.keys().chain(stored.keys()).copied().collect();
        let text = |batch: Option<&BatchTotals>| batch.map_or_else(|| "none".to_owned(), describe);
        for id in ids {
            self.expect(format!("bulk run {id}"), text(expected.get(&id)), text(stored.get(&id)));
        }
        let mut models: BTreeMap<Uuid, BTreeSet<String>> = BTreeMap::new();
        for (id, model) in audit::batch_models_of_ledger(conn, self.tenant).await? {
            models.entry(id).or_default().insert(model);
        }
        for (id, stored) in audit::stored_batch_models(conn, self.tenant).await? {
            let expected: Vec<String> = models.remove(&id).unwrap_or_default().into_iter().collect();
            let mut stored = stored.0;
            stored.sort();
            self.expect(format!("models of bulk run {id}"), expected.join(", "), stored.join(", "));
        }
        Ok(())
    }

    async fn check_usage(&mut self, conn: &mut Conn) -> Result<()> {
        let charged: BTreeMap<_, _> = audit::days_of_ledger(conn, self.tenant).await?.into_iter().collect();
        let stored: BTreeMap<_, _> = audit::stored_days(conn, self.tenant).await?.into_iter().collect();
        let days: BTreeSet<_> = charged.keys().chain(stored.keys()).cloned().collect();
        let nothing = DayTotals::default();
        for key in days {
            let (charged, stored) =
                (charged.get(&key).unwrap_or(&nothing), stored.get(&key).unwrap_or(&nothing));
            let (day, model) = key;
            self.expect(
                format!("spend of {day} with {model}, micro-dollars"),
                charged.spend_micros,
                stored.spend_micros,
            );
            // Analyses that were not billed are in the usage and not in the ledger.
            if let Some(unbilled) = stored.unbilled {
                let expected = charged.analyses + unbilled;
                self.expect(format!("analyses of {day} with {model}"), expected, stored.analyses);
            }
            let counts = [
                ("analyses", charged.analyses, stored.analyses),
                ("input tokens", charged.input_tokens, stored.input_tokens),
                ("output tokens", charged.output_tokens, stored.output_tokens),
            ];
            for (what, charged, stored) in counts {
                self.expect(format!("{what} of {day} with {model}, at least"), charged, charged.min(stored));
            }
        }
        for (day, signal, answered, analyzed) in
            audit::overcounted_signals(conn, self.tenant, MAX_FINDINGS).await?
        {
            self.expect(format!("answers to {signal} on {day}, at most"), analyzed, answered);
        }
        Ok(())
    }

    async fn check_storage(&mut self, conn: &mut Conn) -> Result<()> {
        let measured = storage::measured(conn, self.tenant).await?;
        self.expect("bytes of stored events", measured, storage::stored(conn, self.tenant).await?);
        Ok(())
    }

    async fn check_checkouts(&mut self, conn: &mut Conn) -> Result<()> {
        let credited = audit::credited_checkouts(conn, self.tenant).await?;
        let lines = audit::topups(conn, self.tenant).await?;
        self.expect("credited checkouts", lines, i64::try_from(credited.len()).unwrap_or(i64::MAX));
        for (id, amount_cents, delta_micros, _) in credited {
            let credit = delta_micros.map_or_else(|| "no line".to_owned(), |micros| micros.to_string());
            let amount = amount_cents.saturating_mul(MICROS_PER_CENT).to_string();
            self.expect(format!("credit of checkout {id}, micro-dollars"), credit, amount);
        }
        Ok(())
    }
}

fn describe(batch: &BatchTotals) -> String {
    format!(
        "{} charges of {} micro-dollars, {} + {} tokens, from {} to line {}",
        batch.entries,
        batch.delta_micros,
        batch.input_tokens,
        batch.output_tokens,
        batch.first_at,
        batch.last_seq
    )
}
