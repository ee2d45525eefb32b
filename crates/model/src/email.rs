//! Email addresses, which keep their spelling and compare without case.

use std::fmt;
use std::str::FromStr;

/// A valid email address. Compares without case.
#[derive(Clone, Debug)]
pub struct EmailAddress {
    original: String,
    key: String,
}

/// A text that is not an email address.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidEmail;

/// The longest address that SMTP can carry (RFC 5321).
const MAX_ADDRESS: usize = 254;
const MAX_LOCAL: usize = 64;
const MAX_LABEL: usize = 63;

impl EmailAddress {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.original
    }

    /// The lower-case form, for comparison and lookup.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl FromStr for EmailAddress {
    type Err = InvalidEmail;

    /// Accepts the dot-atom form of RFC 5321, which is every address in use; quoted local parts are not worth the risk.
    fn from_str(text: &str) -> Result<Self, InvalidEmail> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
        let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
        let local_is_valid = local.len() <= MAX_LOCAL
            && local.split('.').all(|part| !part.is_empty() && part.bytes().all(atom));
        let domain_is_valid = domain.split('.').all(|label| {
            (1..=MAX_LABEL).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        });
        if text.len() <= MAX_ADDRESS && local_is_valid && domain_is_valid {
            Ok(Self { original: text.to_owned(), key: text.to_ascii_lowercase() })
        } else {
            Err(InvalidEmail)
        }
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.original)
    }
}

impl fmt::Display for InvalidEmail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not an email address")
    }
}

impl std::error::Error for InvalidEmail {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_spelling_and_compares_without_case() {
        let address: EmailAddress = " Ann.O'Neil+shop@Example.COM ".parse().unwrap();
        assert_eq!(address.as_str(), "Ann.O'Neil+shop@Example.COM");
        assert_eq!(address.key(), "ann.o'neil+shop@example.com");
        assert!("root@localhost".parse::<EmailAddress>().is_ok());
    }

    #[test]
    fn refuses_invalid_addresses() {
        let long = format!("{}@example.com", "x".repeat(65));
        for text in [
            "",
            "ann",
            "@example.com",
            "ann@",
            "ann@@example.com",
            "a nn@example.com",
            "ann@exa mple.com",
            ".ann@x.y",
            "ann.@x.y",
            "a..b@x.y",
            "ann@-x.y",
            "ann@x..y",
            "ann@x.y\r\nBcc: all@x.y",
            "\"ann\"@x.y",
            "änn@x.y",
            &long,
        ] {
            assert_eq!(
                text.parse::<EmailAddress>().map(|address| address.original),
                Err(InvalidEmail),
                "{text}"
            );
        }
    }
}
