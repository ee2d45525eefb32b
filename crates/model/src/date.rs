//! A UTC calendar day, the unit of usage and its rollups.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Days since 1970-01-01, written `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i64);

/// A text that is not a calendar day written `YYYY-MM-DD`.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidDate;

impl Date {
    /// The day this many days after 1970-01-01.
    pub const fn from_days(days: i64) -> Self {
        Self(days)
    }

    /// The given day, if it exists.
    pub fn from_ymd(year: i16, month: i8, day: i8) -> Option<Self> {
        let date = jiff::civil::Date::new(year, month, day).ok()?;
        let epoch = jiff::civil::date(1970, 1, 1);
        Some(Self(i64::from(date.since(epoch).ok()?.get_days())))
    }

    /// Days after 1970-01-01.
    pub const fn days(self) -> i64 {
        self.0
    }

    /// The day this many days later, or earlier if the number is negative.
    #[must_use]
    pub const fn plus_days(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epoch = jiff::civil::date(1970, 1, 1);
        let days = jiff::Span::new().try_days(self.0).map_err(|_| fmt::Error)?;
        // Fails only for years that `YYYY` cannot express, which parsing refuses.
        write!(formatter, "{}", epoch.checked_add(days).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Date {
    type Err = InvalidDate;

    fn from_str(text: &str) -> Result<Self, InvalidDate> {
        let digits = |range: std::ops::Range<usize>| {
            let part = text.get(range)?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then_some(part)
        };
        let parts = (digits(0..4), text.get(4..5), digits(5..7), text.get(7..8), digits(8..10), text.len());
        let (Some(year), Some("-"), Some(month), Some("-"), Some(day), 10) = parts else {
            return Err(InvalidDate);
        };
        let number = |part: &str| part.parse::<i16>().map_err(|_| InvalidDate);
        let small = |part: &str| part.parse::<i8>().map_err(|_| InvalidDate);
        Self::from_ymd(number(year)?, small(month)?, small(day)?).ok_or(InvalidDate)
    }
}

impl fmt::Display for InvalidDate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a date such as 2026-01-31")
    }
}

impl std::error::Error for InvalidDate {}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Date {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)))
            .description(Some("A day in UTC."))
            .examples(["2026-01-31"])
            .into()
    }
}

impl utoipa::ToSchema for Date {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn reads_what_it_writes() {
        for text in ["1970-01-01", "2026-02-28", "2024-02-29", "0000-01-01", "9999-12-31"] {
            let date: Date = text.parse().unwrap();
            assert_eq!(date.to_string(), text);
            assert_eq!(date.midnight().date(), date);
        }
        assert_eq!("1970-01-02".parse(), Ok(Date::from_days(1)));
        assert_eq!(Timestamp::from_micros(-1).date(), Date::from_days(-1));
    }

    #[test]
    fn refuses_invalid_dates() {
        for text in [
            "",
            "2026-2-3",
            "2026-02-30",
            "2026-13-01",
            "2026-01-01T",
            "+026-01-01",
            "2026/01/01",
            "２026-01-01",
        ] {
            assert_eq!(text.parse::<Date>(), Err(InvalidDate), "{text}");
        }
    }
}
