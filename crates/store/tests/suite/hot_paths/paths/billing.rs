//! Hot paths of the ledger and usage.

use store::Conn;
use store::analysis::storage;
use store::billing::ledger::LedgerKind;
use store::billing::{balance, checkouts, ledger, usage};

use super::super::capture::Capture;
use super::super::fixtures::{BULK_RUN, NOW, TENANT};

pub(crate) async fn money(capture: &mut Capture<'_>) {
    capture
        .write("ledger and usage", async |conn: &mut Conn| {
            balance::balance(conn, TENANT).await?;
            assert!(!ledger::entries(conn, TENANT, i64::MAX, 10).await?.is_empty());
            ledger::entries_of_kind(conn, TENANT, LedgerKind::Charge, i64::MAX, 10).await?;
            assert!(!ledger::entries_of_batch(conn, TENANT, BULK_RUN, i64::MAX, 10).await?.is_empty());
            ledger::single_charges(conn, TENANT, i64::MAX, 10).await?;
            assert!(!ledger::batches(conn, TENANT, i64::MAX, 10).await?.is_empty());
            storage::stored(conn, TENANT).await?;
            usage::by_day(conn, TENANT, NOW.date(), NOW.date()).await?;
            usage::signals_by_day(conn, TENANT, NOW.date(), NOW.date()).await?;
            checkouts::find_by_session(conn, "cs_1").await
        })
        .await;
}
