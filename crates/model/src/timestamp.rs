//! An instant with microsecond precision, used throughout the service.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use crate::Date;

/// Microseconds since 1970-01-01T00:00:00Z.
///
/// Written as RFC 3339 in UTC with six fractional digits and a `Z`, so that instants sort as text.
/// Microseconds because that is PostgreSQL's precision: instants are read back exactly as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 instant between the years 0 and 9999.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidTimestamp;

const MICROS_PER_SECOND: i64 = 1_000_000;

impl Timestamp {
    /// The last instant that can be written: the end of the year 9999. Both databases can compare with it.
    pub const MAX: Self = Self::from_micros(253_402_300_799_999_999);

    /// The instant this many microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The instant this many seconds after the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// Microseconds after the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds after the epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND)
    }

    /// The time from `earlier` to this instant, zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }

    /// The UTC day this instant falls on.
    pub fn date(self) -> Date {
        Date::from_days(self.0.div_euclid(86_400 * MICROS_PER_SECOND))
    }
}

impl Date {
    /// The day's first instant.
    pub const fn midnight(self) -> Timestamp {
        Timestamp::from_micros(self.days().saturating_mul(86_400 * MICROS_PER_SECOND))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(micros_of(later)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(micros_of(earlier)))
    }
}

fn micros_of(duration: Duration) -> i64 {
    duration.as_micros().try_into().unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(formatter, "{instant:.6}"),
            // Fails only for years that RFC 3339 cannot express, which parsing refuses.
            Err(_) => Err(fmt::Error),
        }
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        // jiff accepts more than RFC 3339 (a missing `T`, a zone in brackets); an API should not.
        if !looks_like_rfc3339(text.as_bytes()) {
            return Err(InvalidTimestamp);
        }
        let instant: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        let parsed = Self(instant.as_microsecond());
        let year_zero = Date::from_ymd(0, 1, 1).ok_or(InvalidTimestamp)?.midnight();
        let last = Date::from_ymd(9999, 12, 30).ok_or(InvalidTimestamp)?.midnight();
        if parsed < year_zero || parsed > last { Err(InvalidTimestamp) } else { Ok(parsed) }
    }
}

/// `YYYY-MM-DDTHH:MM:SS`, then an optional fraction, then `Z` or `±HH:MM`.
fn looks_like_rfc3339(text: &[u8]) -> bool {
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let Some((head, rest)) = text.split_at_checked(shape.len()) else { return false };
    let head_is_valid = head.iter().zip(shape).all(|(byte, expected)| match expected {
        b'd' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't'),
        punctuation => byte == punctuation,
    });
    let zone = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        _ => rest,
    };
    let zone_is_valid = match zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    head_is_valid && zone_is_valid
}

impl fmt::Display for InvalidTimestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not an RFC 3339 date-time such as 2026-01-31T12:00:00Z")
    }
}

impl std::error::Error for InvalidTimestamp {}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("An instant, RFC 3339 in UTC with six fractional digits."))
            .examples(["2026-01-31T12:00:00.000000Z"])
            .into()
    }
}

impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_with_six_digits_and_a_z() {
        assert_eq!(Timestamp::from_seconds(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(1_767_225_600_000_001).to_string(), "2026-01-01T00:00:00.000001Z");
        assert_eq!(Timestamp::from_micros(-1).to_string(), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn reads_any_offset_and_keeps_microseconds() {
        for text in ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2025-12-31t19:00:00.0-05:00"] {
            assert_eq!(text.parse::<Timestamp>(), Ok(Timestamp::from_seconds(1_767_225_600)), "{text}");
        }
        let nanos: Timestamp = "2026-01-01T00:00:00.123456789Z".parse().unwrap();
        assert_eq!(nanos.to_string(), "2026-01-01T00:00:00.123456Z");
    }

    #[test]
    fn refuses_what_is_not_rfc_3339() {
        for text in [
            "",
            "now",
            "2026-01-01",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-02-30T00:00:00Z",
            "2026-01-01T25:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00Z[UTC]",
            "12026-01-01T00:00:00Z",
            "-000001-01-01T00:00:00Z",
            "2026-01-01T00:00:00+0100",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end + Duration::MAX, end);
        assert_eq!(Timestamp::from_seconds(1).since(Timestamp::from_seconds(5)), Duration::ZERO);
        assert_eq!(Timestamp::from_seconds(5).since(Timestamp::from_seconds(1)), Duration::from_secs(4));
    }
}
