//! The audit: balance, ledger and usage of every account worked out anew from the ledger's lines, and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use model::TenantId;
use model::money::MICROS_PER_CENT;
use store::accounts::tenants;
use store::billing::audit::{self, BatchTotals, DayTotals};
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{Error, Result};

/// Findings of one kind for one account: enough to see what is wrong.
const SHOWN: i64 = 20;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How many accounts were looked at.
    pub tenants: usize,
    /// How many lines of the ledger.
    pub lines: i64,
    /// Where numbers disagree; none is how it should be.
    pub drifts: Vec<Drift>,
}

/// Two numbers that should be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Whose.
    pub tenant: TenantId,
    /// What of theirs.
    pub what: String,
    /// As it follows from the ledger.
    pub expected: String,
    /// As it is kept.
    pub found: String,
}

/// Audits the accounts of a deployment.
pub struct Auditor {
    pub(crate) store: Store,
}

impl Auditor {
    /// Compares what is kept with what follows from the ledger, for every account. Reads every line; a service that runs
    /// meanwhile makes no difference.
    pub async fn run(&self) -> Result<Audit> {
        let mut report = Audit::default();
        let tenants = self.store.read("tenants", async |conn| tenants::all(conn).await).await?;
        for tenant in tenants {
            report.tenants += 1;
            let mut books = Books { tenant: tenant.tenant_id, drifts: Vec::new(), lines: 0 };
            // One account at a time: each is looked at in one state of the database.
            self.store.snapshot("audit", async |conn: &mut Conn| books.check(conn).await).await?;
            report.lines += books.lines;
            report.drifts.append(&mut books.drifts);
        }
        Ok(report)
    }
}

/// One account under audit.
struct Books {
    tenant: TenantId,
    lines: i64,
    drifts: Vec<Drift>,
}

impl Books {
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
        self.check_checkouts(conn).await
    }

    async fn check_balance(&mut self, conn: &mut Conn) -> Result<()> {
        let totals = audit::totals(conn, self.tenant).await?;
        self.lines = totals.entries;
        self.expect("balance, micro-dollars", totals.sum_micros, totals.balance_micros);
        self.expect("number of the last line", totals.last_seq, totals.ledger_seq);
        // Numbers are unique: as many lines as the highest number means that none is missing.
        self.expect("lines of the ledger", totals.last_seq, totals.entries);
        for (seq, previous, claimed) in audit::breaks(conn, self.tenant, SHOWN).await? {
            self.expect(format!("balance before line {seq}, micro-dollars"), previous, claimed);
        }
        for (seq,) in audit::missigned(conn, self.tenant, SHOWN).await? {
            self.expect(format!("kind of line {seq}"), "that of its sign", "the other");
        }
        Ok(())
    }

    async fn check_batches(&mut self, conn: &mut Conn) -> Result<()> {
        let by_id = |batches: Vec<BatchTotals>| -> BTreeMap<Uuid, BatchTotals> {
            batches.into_iter().map(|batch| (batch.batch_id, batch)).collect()
        };
        let expected = by_id(audit::batches_of_ledger(conn, self.tenant).await?);
        let kept = by_id(audit::stored_batches(conn, self.tenant).await?);
        let ids: BTreeSet<Uuid> = expected.keys().chain(kept.keys()).copied().collect();
        let shown = |batch: Option<&BatchTotals>| batch.map_or_else(|| "none".to_owned(), told);
        for id in ids {
            self.expect(format!("bulk run {id}"), shown(expected.get(&id)), shown(kept.get(&id)));
        }
        let mut models: BTreeMap<Uuid, BTreeSet<String>> = BTreeMap::new();
        for (id, model) in audit::batch_models_of_ledger(conn, self.tenant).await? {
            models.entry(id).or_default().insert(model);
        }
        for (id, kept) in audit::stored_batch_models(conn, self.tenant).await? {
            let expected: Vec<String> = models.remove(&id).unwrap_or_default().into_iter().collect();
            let mut kept = kept.0;
            kept.sort();
            self.expect(format!("models of bulk run {id}"), expected.join(", "), kept.join(", "));
        }
        Ok(())
    }

    async fn check_usage(&mut self, conn: &mut Conn) -> Result<()> {
        let charged: BTreeMap<_, _> = audit::days_of_ledger(conn, self.tenant).await?.into_iter().collect();
        let kept: BTreeMap<_, _> = audit::stored_days(conn, self.tenant).await?.into_iter().collect();
        let days: BTreeSet<_> = charged.keys().chain(kept.keys()).cloned().collect();
        let nothing = DayTotals::default();
        for place in days {
            let (charged, kept) =
                (charged.get(&place).unwrap_or(&nothing), kept.get(&place).unwrap_or(&nothing));
            let (day, model) = place;
            self.expect(
                format!("spend of {day} with {model}, micro-dollars"),
                charged.spend_micros,
                kept.spend_micros,
            );
            // What was analyzed while nothing was billed is in the usage and in no line.
            if let Some(unbilled) = kept.unbilled {
                let expected = charged.analyses + unbilled;
                self.expect(format!("analyses of {day} with {model}"), expected, kept.analyses);
            }
            let counts = [
                ("analyses", charged.analyses, kept.analyses),
                ("input tokens", charged.input_tokens, kept.input_tokens),
                ("output tokens", charged.output_tokens, kept.output_tokens),
            ];
            for (what, charged, kept) in counts {
                self.expect(format!("{what} of {day} with {model}, at least"), charged, charged.min(kept));
            }
        }
        for (day, signal, answered, analyzed) in audit::overcounted_signals(conn, self.tenant, SHOWN).await? {
            self.expect(format!("answers to {signal} on {day}, at most"), analyzed, answered);
        }
        Ok(())
    }

    async fn check_checkouts(&mut self, conn: &mut Conn) -> Result<()> {
        let credited = audit::credited_checkouts(conn, self.tenant).await?;
        let lines = audit::topups(conn, self.tenant).await?;
        self.expect("credited checkouts", lines, i64::try_from(credited.len()).unwrap_or(i64::MAX));
        for (id, amount_cents, delta_micros, _) in credited {
            let line = delta_micros.map_or_else(|| "no line".to_owned(), |micros| micros.to_string());
            let asked = amount_cents.saturating_mul(MICROS_PER_CENT).to_string();
            self.expect(format!("credit of checkout {id}, micro-dollars"), line, asked);
        }
        Ok(())
    }
}

fn told(batch: &BatchTotals) -> String {
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
