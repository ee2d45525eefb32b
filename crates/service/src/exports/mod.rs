//! Exports: everything of one kind that an account has, as a stream of rows.
//!
//! An export reads pages by keyset as its client takes them. Between two pages it holds no connection and no transaction, so a
//! slow client costs nothing but the memory of one page. Before each page the caller is authenticated again: an export ends
//! with its session, its key or its account. One that takes too long is broken off, and goes on after its last row with another
//! request.

mod csv;
mod pages;
mod position;
mod range;
mod slots;

use std::collections::VecDeque;
use std::time::Duration;

use model::MemberRole::{Admin, Viewer};
use model::Scope;
use model::api::{ExportFormat, ExportKind, ExportedRow};
use serde::Serialize;
use store::{Conn, Store, reading_as};

use self::pages::Page;
use self::position::{ExportCursor, Position};
use self::range::Range;
use self::slots::{ExportSlots, Slot};
use crate::accounts::Authentication;
use crate::runtime::{Caller, Clock, Error, Kind, Result, audit, cursor, internal};

/// The bytes that are handed on at a time, at least, while there are rows.
const CHUNK_BYTES: usize = 64 * 1024;

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct ExportQuery {
    /// What.
    pub what: ExportKind,
    /// How rows are written.
    pub format: ExportFormat,
    /// A date or a time: nothing earlier.
    pub from: Option<String>,
    /// A date, which is included, or a time, which is not: nothing later.
    pub to: Option<String>,
    /// The cursor of the row after which to go on.
    pub cursor: Option<String>,
}

/// The exports of all tenants.
pub struct Exports {
    store: Store,
    clock: Clock,
    authentication: Authentication,
    slots: ExportSlots,
    /// The longest that one takes: a slow client must not keep a slot forever.
    longest: Duration,
}

/// What the audit log says about an export.
#[derive(Serialize)]
struct Started<'a> {
    what: ExportKind,
    format: ExportFormat,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    /// Whether it goes on after a row of an earlier one.
    resumed: bool,
}

impl Exports {
    pub(crate) fn new(store: Store, clock: Clock, authentication: Authentication, longest: Duration) -> Self {
        Self { store, clock, authentication, slots: ExportSlots::default(), longest }
    }

    /// Starts an export, and leaves a line in the audit log.
    pub async fn start(&self, caller: Caller, query: &ExportQuery) -> Result<Export> {
        authorize(&caller, query.what)?;
        let range = Range::parse(query.from.as_deref(), query.to.as_deref())?;
        let after = query.cursor.as_deref().map(|text| {
            let is_of_export = |cursor: &ExportCursor| cursor.belongs_to(query.what, range);
            cursor::decode(text, is_of_export)
        });
        let after = after.transpose()?;
        let slot = self.slots.take(caller.tenant)?;
        let started = Started {
            what: query.what,
            format: query.format,
            from: query.from.as_deref(),
            to: query.to.as_deref(),
            resumed: after.is_some(),
        };
        self.store
            .write("start_export", async |_: &mut Conn| {
                audit::note(caller.tenant, query.what.as_str(), audit::NONE, Some(&started));
                Ok::<_, Error>(())
            })
            .await?;
        // Rows that are resumed are appended to what is there already.
        let header = (query.format == ExportFormat::Csv && after.is_none()).then(|| csv::header(query.what));
        let now = self.clock.now();
        Ok(Export {
            store: self.store.clone(),
            clock: self.clock.clone(),
            give_up_at: now + self.longest,
            authentication: self.authentication.clone(),
            caller,
            what: query.what,
            format: query.format,
            range,
            end: range.end(now),
            header,
            after: after.map(|cursor| cursor.position),
            rows: VecDeque::new(),
            is_read: false,
            _slot: slot,
        })
    }
}

/// Refuses a caller who may not read this.
fn authorize(caller: &Caller, what: ExportKind) -> Result<()> {
    match what {
        ExportKind::Objects | ExportKind::Answers | ExportKind::Labels | ExportKind::Events => {
            caller.require(Viewer, Some(Scope::Read))
        }
        // Who sees money.
        ExportKind::Ledger => caller.require(Admin, Some(Scope::Read)),
        ExportKind::Audit => caller.require(Admin, None),
    }
}

/// An export under way.
pub struct Export {
    store: Store,
    clock: Clock,
    /// When it is broken off.
    give_up_at: model::Timestamp,
    authentication: Authentication,
    caller: Caller,
    what: ExportKind,
    format: ExportFormat,
    range: Range,
    /// Where reading ends, so that it ends however fast rows are added.
    end: model::Timestamp,
    /// The header line, until it is handed on.
    header: Option<Vec<u8>>,
    /// The last row that was read.
    after: Option<Position>,
    /// Rows of the present page that are still to be written.
    rows: VecDeque<(Position, ExportedRow)>,
    /// Whether the last page has been read.
    is_read: bool,
    _slot: Slot,
}

impl Export {
    /// What is exported.
    pub fn what(&self) -> ExportKind {
        self.what
    }

    /// How rows are written.
    pub fn format(&self) -> ExportFormat {
        self.format
    }

    /// The next bytes; none after the last row. After an error the export is over, and a client must be able to tell that from
    /// its end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let is_over = self.is_read && self.rows.is_empty();
        if !is_over && self.clock.now() >= self.give_up_at {
            let reason = "the export took longer than AUSPEX_EXPORT_MAX_SECONDS: go on after the last row, by its cursor";
            return Err(Error::new(Kind::NotReady, reason));
        }
        let mut chunk = self.header.take().unwrap_or_default();
        while chunk.len() < CHUNK_BYTES {
            let Some((position, row)) = self.rows.pop_front() else {
                // What there is goes out before the next page is read.
                if self.is_read || !chunk.is_empty() {
                    break;
                }
                self.read_page().await?;
                continue;
            };
            let cursor = cursor::encode(&ExportCursor::new(self.range, position));
            match self.format {
                ExportFormat::Ndjson => write_json(&mut chunk, &row, &cursor)?,
                ExportFormat::Csv => csv::write(&mut chunk, &row, &cursor)?,
            }
        }
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    async fn read_page(&mut self) -> Result<()> {
        let caller = self.authentication.renew(self.caller).await?;
        authorize(&caller, self.what)?;
        let (tenant, what, after) = (caller.tenant, self.what, self.after.as_ref());
        let end = match (what, self.range.to) {
            // When an object was last seen moves: one that gets an event meanwhile must not be left out for it.
            (ExportKind::Objects, None) => model::Timestamp::from_micros(i64::MAX),
            _ => self.end,
        };
        let bounds = self.range.start()..end;
        let page = self.store.read("export", async |conn: &mut Conn| {
            pages::read(conn, tenant, what, after, bounds.clone()).await
        });
        // The request has been answered, and its body is still being written. Its start counts as a write, so that not even a
        // replica lacks a row that was there by then.
        let page = reading_as(caller.id(), page).await?;
        let Page { rows, last, is_last } = page;
        self.after = last.or(self.after.take());
        self.is_read = is_last;
        self.rows = rows.into();
        Ok(())
    }
}

/// Appends a row as a line of JSON.
fn write_json(bytes: &mut Vec<u8>, row: &ExportedRow, cursor: &str) -> Result<()> {
    #[derive(Serialize)]
    struct WithCursor<'a> {
        #[serde(flatten)]
        row: &'a ExportedRow,
        cursor: &'a str,
    }
    serde_json::to_writer(&mut *bytes, &WithCursor { row, cursor }).map_err(internal)?;
    bytes.push(b'\n');
    Ok(())
}
