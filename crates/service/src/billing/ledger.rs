//! The ledger, as a tenant reads it.

use model::TenantId;
use model::api::{LedgerBatch, LedgerEntry, LedgerPage};
use model::money::cents;
use store::billing::decimal::Decimal;
use store::billing::ledger::{self, LedgerBatch as StoredBatch, LedgerEntry as StoredEntry, LedgerKind};
use store::{Conn, Store};
use uuid::Uuid;

use crate::billing::ledger_cursor::LedgerCursor;
use crate::runtime::{Error, Result, cursor};

/// A query of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct LedgerQuery<'a> {
    /// Only credits, or only charges.
    pub kind: Option<LedgerKind>,
    /// Whether the charges of a bulk run are one entry.
    pub grouped: bool,
    /// Only the charges of this bulk run, ungrouped.
    pub batch_id: Option<Uuid>,
    /// The page size.
    pub limit: i64,
    /// Where the previous page ended.
    pub cursor: Option<&'a str>,
}

/// The ledgers of all tenants.
pub struct Ledger {
    pub(crate) store: Store,
}

impl Ledger {
    /// A page of the ledger, newest first.
    pub async fn page(&self, tenant: TenantId, query: &LedgerQuery<'_>) -> Result<LedgerPage> {
        cursor::check_page_size(query.limit, cursor::MAX_PAGE)?;
        // The last page's cursor is empty: a caller that sends it starts over.
        let cursor = query.cursor.filter(|cursor| !cursor.is_empty());
        let before = cursor.map_or(Ok(i64::MAX), |cursor| read_cursor(cursor, query))?;
        let limit = query.limit + 1;
        let mut records: Vec<(i64, LedgerEntry)> = self
            .store
            .snapshot("ledger", async |conn: &mut Conn| records(conn, tenant, query, before, limit).await)
            .await?;
        let page_size = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let has_more = records.len() > page_size;
        records.truncate(page_size);
        let last = records.last().filter(|_| has_more).map(|(seq, _)| *seq);
        Ok(LedgerPage {
            next_cursor: last.map_or_else(String::new, |seq| cursor_of(query, seq).encode()),
            entries: records.into_iter().map(|(_, entry)| entry).collect(),
        })
    }
}

/// Entries before a sequence number, newest first, each with its own sequence number.
async fn records(
    conn: &mut Conn,
    tenant: TenantId,
    query: &LedgerQuery<'_>,
    before: i64,
    limit: i64,
) -> Result<Vec<(i64, LedgerEntry)>> {
    let entries = match (query.batch_id, query.kind, query.grouped) {
        // A bulk run only charges.
        (Some(_), Some(LedgerKind::Credit), _) => Vec::new(),
        (Some(batch_id), _, _) => ledger::entries_of_batch(conn, tenant, batch_id, before, limit).await?,
        (None, None, false) => ledger::entries(conn, tenant, before, limit).await?,
        // Credits do not belong to bulk runs.
        (None, Some(kind @ LedgerKind::Credit), _) | (None, Some(kind), false) => {
            ledger::entries_of_kind(conn, tenant, kind, before, limit).await?
        }
        (None, kind, true) => return grouped_records(conn, tenant, kind, before, limit).await,
    };
    Ok(entries.into_iter().map(record).collect())
}

/// Entries with one for each bulk run: three sorted lists, merged.
async fn grouped_records(
    conn: &mut Conn,
    tenant: TenantId,
    kind: Option<LedgerKind>,
    before: i64,
    limit: i64,
) -> Result<Vec<(i64, LedgerEntry)>> {
    let mut entries = ledger::single_charges(conn, tenant, before, limit).await?;
    if kind.is_none() {
        let credits = ledger::entries_of_kind(conn, tenant, LedgerKind::Credit, before, limit);
        entries.extend(credits.await?);
    }
    let mut records: Vec<(i64, LedgerEntry)> = entries.into_iter().map(record).collect();
    records.extend(ledger::batches(conn, tenant, before, limit).await?.into_iter().map(batch_record));
    records.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
    records.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(records)
}

/// An entry as the API shows it, with its number.
pub(crate) fn record(entry: StoredEntry) -> (i64, LedgerEntry) {
    let record = LedgerEntry {
        id: entry.entry_id,
        delta_cents: cents(entry.delta_micros),
        balance_after_cents: cents(entry.balance_after_micros),
        delta_micros: entry.delta_micros,
        balance_after_micros: entry.balance_after_micros,
        reason: entry.reason.as_str().to_owned(),
        model: entry.model,
        object_id: entry.object_id,
        cost_usd: entry.cost_usd.map(|Decimal(cost)| cost),
        cost_margin: entry.cost_margin.map(|Decimal(margin)| margin),
        input_tokens: entry.input_tokens,
        output_tokens: entry.output_tokens,
        payment_ref: entry.payment_ref,
        note: entry.note,
        batch_id: entry.batch_id,
        batch: None,
        created_at: entry.created_at,
    };
    (entry.seq, record)
}

fn batch_record(batch: StoredBatch) -> (i64, LedgerEntry) {
    let models = batch.models.0;
    let only_model = if let [model] = &models[..] { Some(model.clone()) } else { None };
    let record = LedgerEntry {
        id: batch.entry_id,
        delta_cents: cents(batch.delta_micros),
        balance_after_cents: cents(batch.balance_after_micros),
        delta_micros: batch.delta_micros,
        balance_after_micros: batch.balance_after_micros,
        reason: "analysis".to_owned(),
        model: only_model,
        object_id: None,
        cost_usd: None,
        cost_margin: None,
        input_tokens: Some(batch.input_tokens),
        output_tokens: Some(batch.output_tokens),
        payment_ref: None,
        note: None,
        batch_id: Some(batch.batch_id),
        batch: Some(LedgerBatch {
            count: batch.entries,
            delta_micros: batch.delta_micros,
            input_tokens: batch.input_tokens,
            output_tokens: batch.output_tokens,
            models: i64::try_from(models.len()).unwrap_or(i64::MAX),
            model: models.into_iter().next(),
            first_at: batch.first_at,
        }),
        created_at: batch.created_at,
    };
    (batch.last_seq, record)
}

fn cursor_of(query: &LedgerQuery<'_>, before: i64) -> LedgerCursor {
    LedgerCursor {
        kind: query.kind.map(|kind| kind == LedgerKind::Credit),
        grouped: query.grouped,
        batch_id: query.batch_id,
        before,
    }
}

fn read_cursor(cursor: &str, query: &LedgerQuery<'_>) -> Result<i64> {
    LedgerCursor::decode(cursor)
        .filter(|cursor| *cursor == cursor_of(query, cursor.before))
        .map(|cursor| cursor.before)
        .ok_or_else(|| Error::bad_request("cursor: does not belong to this list"))
}
