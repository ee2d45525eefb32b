//! Email addresses, as people write them and as they compare.

use std::fmt;
use std::str::FromStr;

/// An address that mail can be sent to. Compares without case.
#[derive(Clone, Debug)]
pub struct EmailAddress {
    given: String,
    key: String,
}

/// A text that is no email address.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidEmail;

/// The longest address that SMTP can carry (RFC 5321).
const MAX_ADDRESS: usize = 254;
const MAX_LOCAL: usize = 64;
const MAX_LABEL: usize = 63;

impl EmailAddress {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// The address as it is compared and looked up.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl FromStr for EmailAddress {
    type Err = InvalidEmail;

    /// Takes the dot-atom form of RFC 5321, which is every address in use; quoted local parts are not worth their risks.
    fn from_str(text: &str) -> Result<Self, InvalidEmail> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
        let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
        let local_fits = local.len() <= MAX_LOCAL
            && local.split('.').all(|part| !part.is_empty() && part.bytes().all(atom));
        let domain_fits = domain.split('.').all(|label| {
            (1..=MAX_LABEL).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        });
        if text.len() <= MAX_ADDRESS && local_fits && domain_fits {
            Ok(Self { given: text.to_owned(), key: text.to_ascii_lowercase() })
        } else {
            Err(InvalidEmail)
        }
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.given)
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
    fn keeps_what_was_written_and_compares_without_case() {
        let address: EmailAddress = " Ann.O'Neil+shop@Example.COM ".parse().unwrap();
        assert_eq!(address.as_str(), "Ann.O'Neil+shop@Example.COM");
        assert_eq!(address.key(), "ann.o'neil+shop@example.com");
        assert!("root@localhost".parse::<EmailAddress>().is_ok());
    }

    #[test]
    fn refuses_what_no_mail_reaches() {
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
                text.parse::<EmailAddress>().map(|address| address.given),
                Err(InvalidEmail),
                "{text}"
            );
        }
    }
}
