//! Objects by a part of their id or name, in the order of a sort, however many objects there are.
//!
//! There are two ways to a page, as there are for conditions. Where many objects contain the text, walking them in their
//! order soon fills a page. Where few do, their grams lead to them, and they are sorted. So a search first walks a little:
//! that either fills the page, or shows which grams of the text are rare. Then the lists of those are asked, up to a
//! bound; only if they hold more is the walk taken up again. Every step is bounded. A walk that meets its bound ends a
//! page before it is full, and the place where it stands is where the next page goes on.

use std::cmp::Reverse;

use model::TenantId;

use crate::objects::grams;
use crate::objects::reads;
use crate::objects::reads::{Object, Place, Sort};
use crate::{Conn, Result};

/// Objects of the first steps of a walk, at least.
const FIRST_STEPS: i64 = 100;
/// So many objects for each that is asked for are walked at first: one in four contains the text, then.
const STEPS_FOR_EACH: i64 = 4;
/// Objects read at a time later on.
const STRIDE: i64 = 1_000;
/// Objects that a search walks at most.
const LONGEST_WALK: i64 = 50_000;
/// The same for a text too short to have grams.
const LONGEST_WALK_WITHOUT_GRAMS: i64 = 10_000;
/// From how many objects on the lists are left and the walk is taken up again: for a page of a hundred among a million
/// objects either way then reads about as much.
const MANY_LISTED: usize = 10_000;
/// Grams of a text that are looked at, and how many of these, the rarest, are asked for: the common ones would only
/// cost time.
const GRAMS_COMPARED: usize = 24;
const GRAMS_ASKED: usize = 4;

/// A page of the objects that contain a text.
#[derive(Clone, Copy, Debug)]
pub struct TextSearch<'a> {
    /// Whose objects.
    pub tenant: TenantId,
    /// What their id or name contains, without regard to case.
    pub text: &'a str,
    /// In which order.
    pub sort: Sort,
    /// How many at most.
    pub limit: i64,
    /// How many to leave out first.
    pub offset: i64,
    /// Where the page before ended; `offset` does not count then.
    pub after: Option<&'a Place>,
}

/// Objects, and where to go on for more, unless there are no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// In order.
    pub objects: Vec<Object>,
    /// Where it ended.
    pub next: Option<Place>,
}

/// The way to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Along the objects in their order.
    Along,
    /// From the lists of its rarest grams.
    FromLists,
}

impl TextSearch<'_> {
    /// The page.
    pub async fn run(&self, conn: &mut Conn) -> Result<Page> {
        Ok(self.run_telling(conn).await?.0)
    }

    /// The page, and the way that was taken.
    pub async fn run_telling(&self, conn: &mut Conn) -> Result<(Page, Way)> {
        let mut walk = Walk::new(self);
        if walk.grams.is_empty() {
            walk.go(conn, LONGEST_WALK_WITHOUT_GRAMS, STRIDE).await?;
            return Ok((walk.page(), Way::Along));
        }
        let first_steps = FIRST_STEPS.max(STEPS_FOR_EACH * self.limit);
        walk.go(conn, first_steps, first_steps).await?;
        if !walk.is_over() {
            if let Some(page) = self.page_from_lists(conn, &walk).await? {
                return Ok((page, Way::FromLists));
            }
            // They have been asked, and need not be counted any further.
            walk.grams.clear();
            walk.go(conn, LONGEST_WALK, STRIDE).await?;
        }
        Ok((walk.page(), Way::Along))
    }

    /// The page by one way only: it is the same page. None where that way has no end in sight.
    pub async fn run_by(&self, conn: &mut Conn, way: Way) -> Result<Option<Page>> {
        let mut walk = Walk::new(self);
        if way == Way::FromLists {
            return self.page_from_lists(conn, &walk).await;
        }
        walk.go(conn, LONGEST_WALK, STRIDE).await?;
        Ok(Some(walk.page()))
    }

    /// The page by way of the grams that a walk has seen least; none where they are too many or there are no grams.
    async fn page_from_lists(&self, conn: &mut Conn, walk: &Walk<'_>) -> Result<Option<Page>> {
        let rarest = walk.rarest_grams();
        if rarest.is_empty() {
            return Ok(None);
        }
        let most = i64::try_from(MANY_LISTED + 1).unwrap_or(i64::MAX);
        let ids = grams::listed(conn, self.tenant, &rarest, most).await?;
        if ids.len() > MANY_LISTED {
            return Ok(None);
        }
        Ok(Some(self.page_of(conn, &walk.needle, &ids).await?))
    }

    /// The page out of all objects that may contain the text.
    async fn page_of(&self, conn: &mut Conn, needle: &str, ids: &[String]) -> Result<Page> {
        let mut found = reads::with_ids(conn, self.tenant, ids).await?;
        found.retain(|object| texts_of(object).any(|text| text.contains(needle)));
        if let Some(place) = self.after {
            found.retain(|object| place.is_before(object, self.sort));
        }
        found.sort_by(|a, b| self.sort.compare(a, b));
        let offset = if self.after.is_some() { 0 } else { self.offset };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(found.len());
        let mut objects = found.split_off(start);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let has_more = objects.len() > limit;
        objects.truncate(limit);
        let next = objects.last().filter(|_| has_more).map(|last| Place::of(last, self.sort));
        Ok(Page { objects, next })
    }
}

/// What an object is found by, folded.
fn texts_of(object: &Object) -> impl Iterator<Item = String> {
    let texts = [Some(object.object_id.as_str()), object.display_name.as_deref()];
    texts.into_iter().flatten().map(grams::folded)
}

/// A walk along the objects of a sort.
struct Walk<'a> {
    search: &'a TextSearch<'a>,
    needle: String,
    /// Grams of the needle, and how many of the objects passed have each.
    grams: Vec<(String, usize)>,
    /// The object that it stands at.
    place: Option<Place>,
    walked: i64,
    /// Matches still to be left out.
    to_skip: i64,
    found: Vec<Object>,
    /// Whether there is no object after this place.
    at_end: bool,
}

impl<'a> Walk<'a> {
    fn new(search: &'a TextSearch<'a>) -> Self {
        let needle = grams::folded(search.text);
        let all = grams::of(&needle);
        // Of a long text some that are spread over it.
        let step = all.len().div_ceil(GRAMS_COMPARED).max(1);
        let grams = all.into_iter().step_by(step).map(|gram| (gram.to_owned(), 0)).collect();
        Self {
            search,
            needle,
            grams,
            place: search.after.cloned(),
            walked: 0,
            to_skip: if search.after.is_some() { 0 } else { search.offset },
            found: Vec::new(),
            at_end: false,
        }
    }

    /// Walks on until the page is full, until there are no more objects, or until so many were passed in all.
    async fn go(&mut self, conn: &mut Conn, most: i64, stride: i64) -> Result<()> {
        let TextSearch { tenant, sort, .. } = *self.search;
        while !self.is_over() && self.walked < most {
            let stride = stride.min(most - self.walked);
            let passed = match &self.place {
                Some(place) => reads::page_after(conn, tenant, sort, place, stride).await?,
                None => reads::page(conn, tenant, sort, stride, 0).await?,
            };
            let count = i64::try_from(passed.len()).unwrap_or(stride);
            self.walked += count;
            self.at_end = count < stride;
            for object in passed {
                if self.is_full() {
                    break;
                }
                self.pass(object);
            }
        }
        Ok(())
    }

    fn pass(&mut self, object: Object) {
        self.place = Some(Place::of(&object, self.search.sort));
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

    /// One more than asked for tells that there is a next page.
    fn is_full(&self) -> bool {
        i64::try_from(self.found.len()).is_ok_and(|found| found > self.search.limit)
    }

    fn is_over(&self) -> bool {
        self.at_end || self.is_full()
    }

    /// The grams that were seen least, as they are kept. Among as rare ones those of more bytes: they are from alphabets
    /// of more letters.
    fn rarest_grams(&self) -> Vec<i64> {
        let mut grams: Vec<(usize, Reverse<usize>, &str)> =
            self.grams.iter().map(|(gram, seen)| (*seen, Reverse(gram.len()), gram.as_str())).collect();
        grams.sort_unstable();
        grams.dedup();
        grams
            .into_iter()
            .take(GRAMS_ASKED)
            .map(|(_, _, gram)| grams::number(self.search.tenant, gram))
            .collect()
    }

    /// What it has found. The next page goes on after the last object of this one, or, where the walk met its bound,
    /// after the last object that was passed.
    fn page(mut self) -> Page {
        if !self.is_full() {
            return Page { objects: self.found, next: self.place.filter(|_| !self.at_end) };
        }
        self.found.pop();
        let next = self.found.last().map(|last| Place::of(last, self.search.sort));
        Page { objects: self.found, next }
    }
}
