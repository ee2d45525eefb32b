//! Balance, ledger, top-ups and usage.

use http::Method;
use model::Date;
use model::api::{Balance, CheckoutCreate, CheckoutSession, CheckoutStatus, LedgerPage, Usage};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Which entries of the ledger to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerQuery {
    /// `credit` or `charge`.
    pub kind: Option<String>,
    /// Whether a bulk run is one entry.
    pub grouped: bool,
    /// Only the charges of this bulk run.
    pub batch_id: Option<Uuid>,
    /// The page size, 1 to 200; 50 if left out.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl Client {
    /// Returns the account's balance.
    pub async fn balance(&self) -> Result<Balance, Error> {
        self.call(Call::new(Method::GET, &["v1", "billing"])?).await
    }

    /// Lists a page of the ledger, newest first.
    pub async fn ledger(&self, query: &LedgerQuery) -> Result<LedgerPage, Error> {
        let call = Call::new(Method::GET, &["v1", "billing", "ledger"])?
            .query("type", query.kind.as_ref())
            .query("group", query.grouped.then_some("batch"))
            .query("batch_id", query.batch_id)
            .query("limit", query.limit)
            .query("cursor", query.cursor.as_ref());
        self.call(call).await
    }

    /// Opens a checkout for a top-up by card.
    pub async fn open_checkout(&self, amount_cents: i64) -> Result<CheckoutSession, Error> {
        let call = Call::new(Method::POST, &["v1", "billing", "checkout"])?;
        self.call(call.json(&CheckoutCreate { amount_cents })?).await
    }

    /// Returns the status of a checkout.
    pub async fn checkout(&self, session_id: &str) -> Result<CheckoutStatus, Error> {
        self.call(Call::new(Method::GET, &["v1", "billing", "checkout", session_id])?).await
    }

    /// Returns analyses and spend over a range of UTC days; the last 30 days if both are left out.
    pub async fn usage(&self, from: Option<Date>, to: Option<Date>) -> Result<Usage, Error> {
        self.call(Call::new(Method::GET, &["v1", "usage"])?.query("from", from).query("to", to)).await
    }
}
