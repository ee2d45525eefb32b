//! Searching objects by a part of their id or name, in the order of a sort, however many objects there are.
//!
//! There are two strategies, as there are for conditions. Where many objects contain the text, scanning them in their order
//! soon fills a page. Where few do, their grams lead to them, and they are sorted. So a search first scans a little: that
//! either fills the page, or shows which grams of the text are rare. Then the objects with those are looked up, up to a
//! bound; only if there are more does the scan continue. Every step is bounded. A scan that ends at its bound ends a page
//! before it is full, and the next page continues from there.

use std::cmp::Reverse;

use model::TenantId;

use crate::db::{Conn, Result, bigint};
use crate::objects::grams;
use crate::objects::reads;
use crate::objects::reads::{Cursor, Object, Sort};

/// Objects that are scanned first, at least.
const FIRST_SCAN: i64 = 100;
/// Objects that are scanned first for each one of the page: enough where one in four contains the text.
const FIRST_SCAN_PER_RESULT: i64 = 4;
/// Objects read at a time later on.
const STRIDE: i64 = 1_000;
/// Objects that a search scans at most.
const LONGEST_SCAN: i64 = 50_000;
/// The same for a text too short to have grams.
const LONGEST_SCAN_WITHOUT_GRAMS: i64 = 10_000;
/// From how many objects on grams are given up and the scan continues: for a page of a hundred among a million objects
/// both strategies then read about as much.
const MANY_OBJECTS: usize = 10_000;
/// Grams of a text that are compared, and how many of these, the rarest, are looked up: common ones would only cost time.
const GRAMS_COMPARED: usize = 24;
const GRAMS_LOOKED_UP: usize = 4;

/// A page of the objects that contain a text.
#[derive(Clone, Copy, Debug)]
pub struct TextSearch<'a> {
    /// Whose objects.
    pub tenant: TenantId,
    /// What their id or name contains, ignoring case.
    pub text: &'a str,
    /// In which order.
    pub sort: Sort,
    /// How many at most.
    pub limit: i64,
    /// How many to skip first.
    pub offset: i64,
    /// Where the previous page ended; `offset` is ignored then.
    pub after: Option<&'a Cursor>,
}

/// A page of objects, and where the next one continues, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// In order.
    pub objects: Vec<Object>,
    /// The cursor of the next page.
    pub next: Option<Cursor>,
}

/// How a page is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// By scanning the objects in their order.
    ScanObjects,
    /// By the rarest grams of the text.
    Grams,
}

impl TextSearch<'_> {
    /// Finds the page.
    pub async fn run(&self, conn: &mut Conn) -> Result<Page> {
        Ok(self.run_with_strategy(conn).await?.0)
    }

    /// Finds the page, and tells how.
    pub async fn run_with_strategy(&self, conn: &mut Conn) -> Result<(Page, Strategy)> {
        let mut scan = Scan::new(self);
        if scan.grams.is_empty() {
            scan.advance(conn, LONGEST_SCAN_WITHOUT_GRAMS, STRIDE).await?;
            return Ok((scan.page(), Strategy::ScanObjects));
        }
        let first_scan = FIRST_SCAN.max(FIRST_SCAN_PER_RESULT * self.limit);
        scan.advance(conn, first_scan, first_scan).await?;
        if !scan.is_over() {
            if let Some(page) = self.page_by_grams(conn, &scan).await? {
                return Ok((page, Strategy::Grams));
            }
            // They have been tried, and need not be counted any further.
            scan.grams.clear();
            scan.advance(conn, LONGEST_SCAN, STRIDE).await?;
        }
        Ok((scan.page(), Strategy::ScanObjects))
    }

    /// Finds the page by one strategy only: it is the same page. None if that strategy would read too much.
    pub async fn run_by(&self, conn: &mut Conn, strategy: Strategy) -> Result<Option<Page>> {
        let mut scan = Scan::new(self);
        if strategy == Strategy::Grams {
            return self.page_by_grams(conn, &scan).await;
        }
        scan.advance(conn, LONGEST_SCAN, STRIDE).await?;
        Ok(Some(scan.page()))
    }

    /// The page by the grams that a scan has seen least; none if too many objects have them, or there are no grams.
    async fn page_by_grams(&self, conn: &mut Conn, scan: &Scan<'_>) -> Result<Option<Page>> {
        let rarest = scan.rarest_grams();
        if rarest.is_empty() {
            return Ok(None);
        }
        let most = bigint(MANY_OBJECTS + 1);
        let ids = grams::objects_with(conn, self.tenant, &rarest, most).await?;
        if ids.len() > MANY_OBJECTS {
            return Ok(None);
        }
        Ok(Some(self.page_of(conn, &scan.needle, &ids).await?))
    }

    /// The page from all objects that may contain the text.
    async fn page_of(&self, conn: &mut Conn, needle: &str, ids: &[String]) -> Result<Page> {
        let mut found = reads::with_ids(conn, self.tenant, ids).await?;
        found.retain(|object| texts_of(object).any(|text| text.contains(needle)));
        if let Some(cursor) = self.after {
            found.retain(|object| cursor.precedes(object, self.sort));
        }
        found.sort_by(|a, b| self.sort.compare(a, b));
        let offset = if self.after.is_some() { 0 } else { self.offset };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(found.len());
        let mut objects = found.split_off(start);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let has_more = objects.len() > limit;
        objects.truncate(limit);
        let next = objects.last().filter(|_| has_more).map(|last| Cursor::of(last, self.sort));
        Ok(Page { objects, next })
    }
}

/// The texts that an object is found by, with their case folded.
fn texts_of(object: &Object) -> impl Iterator<Item = String> {
    let texts = [Some(object.object_id.as_str()), object.display_name.as_deref()];
    texts.into_iter().flatten().map(grams::fold_case)
}

/// A scan of the objects in the order of a sort.
struct Scan<'a> {
    search: &'a TextSearch<'a>,
    needle: String,
    /// Grams of the needle, and how many of the scanned objects have each.
    grams: Vec<(String, usize)>,
    /// The last object that was read.
    cursor: Option<Cursor>,
    scanned: i64,
    /// Matches still to be skipped.
    to_skip: i64,
    found: Vec<Object>,
    /// Whether there are no more objects.
    at_end: bool,
}

impl<'a> Scan<'a> {
    fn new(search: &'a TextSearch<'a>) -> Self {
        let needle = grams::fold_case(search.text);
        let all = grams::grams_of(&needle);
        // Of a long text some that are spread over it.
        let step = all.len().div_ceil(GRAMS_COMPARED).max(1);
        let grams = all.into_iter().step_by(step).map(|gram| (gram.to_owned(), 0)).collect();
        Self {
            search,
            needle,
            grams,
            cursor: search.after.cloned(),
            scanned: 0,
            to_skip: if search.after.is_some() { 0 } else { search.offset },
            found: Vec::new(),
            at_end: false,
        }
    }

    /// Scans on until the page is full, until there are no more objects, or until so many were scanned in all.
    async fn advance(&mut self, conn: &mut Conn, most: i64, stride: i64) -> Result<()> {
        let TextSearch { tenant, sort, .. } = *self.search;
        while !self.is_over() && self.scanned < most {
            let stride = stride.min(most - self.scanned);
            let read = match &self.cursor {
                Some(cursor) => reads::page_after(conn, tenant, sort, cursor, stride).await?,
                None => reads::page(conn, tenant, sort, stride, 0).await?,
            };
            let count = bigint(read.len());
            self.scanned += count;
            self.at_end = count < stride;
            for object in read {
                if self.is_full() {
                    break;
                }
                self.visit(object);
            }
        }
        Ok(())
    }

    fn visit(&mut self, object: Object) {
        self.cursor = Some(Cursor::of(&object, self.search.sort));
        let texts: Vec<String> = texts_of(&object).collect();
        if !texts.iter().any(|text| text.contains(&self.needle)) {
            for (gram, seen) in &mut self.grams {
                *seen += usize::from(texts.iter().any(|text| text.contains(gram.as_str())));
            }
        } else if self.to_skip > 0 {
            self.to_skip -= 1;
        } else {
            self.found.push(object);
        }
    }

    /// Whether it has one more object than the page, which tells that there is a next page.
    fn is_full(&self) -> bool {
        i64::try_from(self.found.len()).is_ok_and(|found| found > self.search.limit)
    }

    fn is_over(&self) -> bool {
        self.at_end || self.is_full()
    }

    /// The grams that were seen least, as they are stored. Among equally rare ones those of more bytes: they are from
    /// larger alphabets.
    fn rarest_grams(&self) -> Vec<i64> {
        let mut grams: Vec<(usize, Reverse<usize>, &str)> =
            self.grams.iter().map(|(gram, seen)| (*seen, Reverse(gram.len()), gram.as_str())).collect();
        grams.sort_unstable();
        grams.dedup();
        grams
            .into_iter()
            .take(GRAMS_LOOKED_UP)
            .map(|(_, _, gram)| grams::hash(self.search.tenant, gram))
            .collect()
    }

    /// The page. The next one continues after its last object, or, if the scan ended at its bound, after the last object
    /// that was scanned.
    fn page(mut self) -> Page {
        if !self.is_full() {
            return Page { objects: self.found, next: self.cursor.filter(|_| !self.at_end) };
        }
        self.found.pop();
        let next = self.found.last().map(|last| Cursor::of(last, self.search.sort));
        Page { objects: self.found, next }
    }
}
