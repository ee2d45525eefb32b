//! The range of times of an export.

use std::time::Duration;

use model::{Date, Timestamp};

use crate::runtime::{Error, Result};

/// How far beyond its start an export without an end reads: clocks of nodes differ by less.
const SLACK: Duration = Duration::from_secs(10);

/// From an instant to another, which is not included; either may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
}

impl Range {
    /// Reads both ends, each a date or a time. A date stands for the whole day.
    pub(super) fn parse(from: Option<&str>, to: Option<&str>) -> Result<Self> {
        let from = from.map(|text| parse("from", text, 0)).transpose()?;
        let to = to.map(|text| parse("to", text, 1)).transpose()?;
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            return Err(Error::bad_request("to: it must be after from"));
        }
        Ok(Self { from, to })
    }

    /// The first instant.
    pub(super) fn start(self) -> Timestamp {
        // Nothing was recorded before 1970, and ids that sort by time cannot say earlier ones.
        let epoch = Timestamp::from_micros(0);
        self.from.unwrap_or(epoch).max(epoch)
    }

    /// The first instant that is not read any more by an export that starts now.
    pub(super) fn end(self, now: Timestamp) -> Timestamp {
        self.to.unwrap_or(now + SLACK).max(Timestamp::from_micros(0))
    }
}

fn parse(name: &str, text: &str, days: i64) -> Result<Timestamp> {
    if let Ok(date) = text.parse::<Date>() {
        return Ok(date.plus_days(days).midnight());
    }
    text.parse().map_err(|_| {
        let message = format!("{name}: it must be a date (2026-01-31) or a time (2026-01-31T12:00:00Z)");
        Error::bad_request(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_stands_for_the_whole_day_and_a_time_for_itself() {
        let range = Range::parse(Some("2026-01-31"), Some("2026-01-31")).unwrap();
        let day = |text: &str| text.parse::<Date>().unwrap().midnight();
        assert_eq!((range.start(), range.end(Timestamp::MAX)), (day("2026-01-31"), day("2026-02-01")));
        let range = Range::parse(Some("2026-01-31T12:00:00Z"), None).unwrap();
        assert_eq!(range.start(), day("2026-01-31") + Duration::from_hours(12));
        assert_eq!(range.end(day("2026-02-01")), day("2026-02-01") + SLACK);
        assert_eq!(Range::parse(Some("0001-01-01"), None).unwrap().start(), Timestamp::from_micros(0));
    }

    #[test]
    fn what_is_no_time_and_what_ends_before_it_begins_are_refused() {
        for (from, to, named) in [
            (Some("yesterday"), None, "from: it must be a date"),
            (None, Some("2026-02-30"), "to: it must be a date"),
            (Some("2026-02-02"), Some("2026-02-01"), "to: it must be after from"),
            (Some("2026-02-02T00:00:00Z"), Some("2026-02-02T00:00:00Z"), "to: it must be after from"),
        ] {
            let refused = Range::parse(from, to).unwrap_err();
            assert!(refused.message().starts_with(named), "{}", refused.message());
        }
    }
}
