//! The round of sweeps that all processes make together: each claims the next accounts, sweeps them, and comes back for more. So an
//! account is swept once in a round, however many processes there are. What a process has claimed when it ends is swept in the next
//! round.

use std::time::Duration;

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::accounts::tenants::{self, Tenant};
use crate::db::{Conn, Result, fetch_one};
use crate::upkeep::deployment;

/// The name of the fact that says how far the round is: its start in microseconds, and the last account that was claimed, or
/// nothing once all are.
const FACT: &str = "sweep_round";

/// How far a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SweepRound {
    began: Timestamp,
    /// The last account that was claimed; none: there are no more.
    after: Option<TenantId>,
}

impl SweepRound {
    fn read(text: &str) -> Option<Self> {
        let (began, after) = text.split_once(' ')?;
        let after = if after.is_empty() { None } else { Some(TenantId(Uuid::parse_str(after).ok()?)) };
        Some(Self { began: Timestamp::from_micros(began.parse().ok()?), after })
    }

    fn write(self) -> String {
        let after = self.after.map(|after| after.0.to_string()).unwrap_or_default();
        format!("{} {after}", self.began.micros())
    }

    /// Whether the next round is due. One that began in the future was begun by a clock that was wrong.
    fn is_over(self, now: Timestamp, every: Duration) -> bool {
        let (earliest, latest) = (now - every, now + every);
        self.after.is_none() && (self.began <= earliest || self.began > latest)
    }
}

/// Accounts that this process is to sweep.
#[derive(Debug)]
pub struct ClaimedAccounts {
    /// The accounts.
    pub accounts: Vec<Tenant>,
    /// Whether the round begins with them.
    pub is_first: bool,
    /// Whether there are no others in this round.
    pub is_last: bool,
}

/// Whether accounts are left in this round, or the next one is due.
pub async fn is_open(conn: &mut Conn, now: Timestamp, every: Duration) -> Result<bool> {
    let round = deployment::find(conn, FACT).await?.as_deref().and_then(SweepRound::read);
    Ok(round.is_none_or(|round| round.after.is_some() || round.is_over(now, every)))
}

/// Claims the next accounts of the round, up to `limit`; begins a round if the last one began `every` ago, or `at_once`.
pub async fn claim(
    conn: &mut Conn,
    now: Timestamp,
    every: Duration,
    at_once: bool,
    limit: i64,
) -> Result<ClaimedAccounts> {
    let known = SweepRound::read(&lock(conn).await?);
    let running = known.filter(|round| !at_once && !round.is_over(now, every));
    let round = running.unwrap_or(SweepRound { began: now, after: Some(TenantId(Uuid::nil())) });
    let Some(after) = round.after else {
        return Ok(ClaimedAccounts { accounts: Vec::new(), is_first: false, is_last: true });
    };
    let accounts = tenants::after(conn, after, limit).await?;
    let is_last = i64::try_from(accounts.len()).is_ok_and(|count| count < limit);
    let last = accounts.last().map(|account| account.tenant_id).filter(|_| !is_last);
    deployment::set(conn, FACT, &SweepRound { after: last, ..round }.write()).await?;
    Ok(ClaimedAccounts { accounts, is_first: running.is_none(), is_last })
}

/// Locks the round until the transaction ends, and returns it; an empty text before the first one.
async fn lock(conn: &mut Conn) -> Result<String> {
    let (round,): (String,) = fetch_one!(
        conn,
        "INSERT INTO deployment (name, value) VALUES ($1, '') ON CONFLICT (name) DO UPDATE SET value = deployment.value
         RETURNING value",
        FACT
    )?;
    Ok(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_mins(10);

    #[test]
    fn a_round_is_written_as_it_is_read() {
        for after in [None, Some(TenantId(Uuid::from_u128(7)))] {
            let round = SweepRound { began: Timestamp::from_micros(1_784_000_000_123_456), after };
            assert_eq!(SweepRound::read(&round.write()), Some(round));
        }
        for text in ["", "1", "x ", "1 x"] {
            assert_eq!(SweepRound::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_round_is_over_when_all_are_claimed_and_its_time_is_up() {
        let at = Timestamp::from_seconds;
        let round = SweepRound { began: at(1_000), after: None };
        assert_eq!([1_000, 1_599, 1_600].map(|now| round.is_over(at(now), EVERY)), [false, false, true]);
        assert!(round.is_over(at(399), EVERY), "the clock was wrong when it began");
        assert!(!SweepRound { after: Some(TenantId(Uuid::nil())), ..round }.is_over(at(9_000), EVERY));
    }
}
