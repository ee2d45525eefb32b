//! The `Retry-After` header, which webhook receivers, analyzers and the service itself send.

use std::time::Duration;

use crate::Timestamp;

/// How long a `Retry-After` header asks to wait: a number of seconds, or an HTTP date.
///
/// A date is compared with the `Date` header of the same response, because the server's clock may differ from ours;
/// without that header a date is ignored. The caller limits the wait.
pub fn retry_after(header: &str, date: Option<&str>) -> Option<Duration> {
    let header = header.trim();
    if header.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large to represent is longer than any caller will wait.
        return (!header.is_empty()).then(|| Duration::from_secs(header.parse().unwrap_or(u64::MAX)));
    }
    Some(parse_date(header)?.since(parse_date(date?.trim())?))
}

/// Parses an HTTP date in the only form that servers may send, which is a date of RFC 2822.
fn parse_date(text: &str) -> Option<Timestamp> {
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp::from_micros(parsed.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATE: Option<&str> = Some("Wed, 21 Oct 2015 07:27:50 GMT");

    fn seconds(header: &str, date: Option<&str>) -> Option<u64> {
        retry_after(header, date).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_number_is_seconds() {
        for (header, wait_s) in [("120", 120), (" 0 ", 0), ("99999999999999999999999", u64::MAX), ("007", 7)]
        {
            assert_eq!(seconds(header, DATE), Some(wait_s), "{header:?}");
            assert_eq!(seconds(header, None), Some(wait_s), "{header:?}");
        }
    }

    #[test]
    fn a_date_is_relative_to_the_date_of_the_response() {
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT", DATE), Some(10));
        assert_eq!(seconds("Thu, 22 Oct 2015 07:27:50 GMT", DATE), Some(86_400));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:27:00 GMT", DATE), Some(0), "in the past");
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT", None), None, "the server's time is unknown");
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT", Some("now")), None);
    }

    #[test]
    fn anything_else_is_ignored() {
        for header in ["", " ", "soon", "-5", "+5", "1.5", "5 s", "Wed, 99 Oct 2015 07:28:00 GMT"] {
            assert_eq!(seconds(header, DATE), None, "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_parsed_without_a_panic(header in r"\PC{0,40}", date in r"\PC{0,40}") {
            retry_after(&header, Some(&date));
        }
    }
}
