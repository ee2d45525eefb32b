//! Encodes a mail for sending. Everything that becomes a header is checked here.

use std::time::{Duration, SystemTime};

use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentTransferEncoding, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use model::Timestamp;
use serde::{Deserialize, Serialize};
use store::outbox::messages::LeasedMessage;
use uuid::Uuid;

use super::body::Body as MailBody;
use crate::runtime::Result;

/// The deadline of one attempt. Servers may greylist or scan meanwhile; after this they are considered stuck.
pub(super) const SEND_DEADLINE: Duration = Duration::from_secs(30);
/// The longest line that mail servers must accept (RFC 5322).
const MAX_LINE: usize = 998;

/// A mail to one recipient, as text and HTML. It may contain credentials, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The email event, such as `password_reset`: the only part that is logged.
    pub event: String,
    /// The recipient's address.
    pub to: String,
    /// The subject, a single line.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
    /// Whether the worker drops it: it stands for one that is not sent, so that nobody sees the difference in time.
    #[serde(default)]
    pub is_dropped: bool,
    /// Where its recipient withdraws, with one click of a mail program (RFC 8058).
    #[serde(default)]
    pub withdraw_url: Option<String>,
    /// The recipient of rule mails whom it asks for consent.
    #[serde(default)]
    pub asks: Option<Uuid>,
}

impl Mail {
    /// A mail with this body in both forms.
    pub fn new(event: &str, to: &str, subject: &str, body: &MailBody) -> Self {
        Self {
            event: event.to_owned(),
            to: to.to_owned(),
            subject: subject.to_owned(),
            text: body.to_text(),
            html: body.to_html(),
            is_dropped: false,
            withdraw_url: None,
            asks: None,
        }
    }

    /// Checks that the mail can be sent: the address is valid, and the subject is a single line.
    pub fn check(&self) -> Result<(), InvalidMail> {
        recipient(&self.to)?;
        one_line(&self.subject).map(drop)
    }
}

/// Why a mail cannot be sent. The text never quotes the mail.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMail(&'static str);

/// A mail ready to be sent: the same bytes at every attempt.
pub(super) struct EncodedMail {
    /// The name of the mail's file: the time when it was queued, then its id.
    pub(super) name: String,
    /// The number of the claim.
    pub(super) claim: i64,
    /// Sender and recipient for SMTP.
    pub(super) envelope: Envelope,
    /// Headers and body.
    pub(super) bytes: Vec<u8>,
}

/// Encodes a claimed mail.
pub(super) fn encode(
    from: &Mailbox,
    mail: &Mail,
    claimed: &LeasedMessage,
) -> Result<EncodedMail, InvalidMail> {
    let id = claimed.message_id;
    // A fixed boundary instead of the library's random one, so that every attempt sends the same bytes. No text
    // contains it: the id was generated after the text was written.
    let parts = MultiPart::alternative()
        .boundary(id.simple().to_string())
        .singlepart(SinglePart::plain(encode_text(&mail.text)))
        .singlepart(SinglePart::html(encode_text(&mail.html)));
    let mut message = lettre::Message::builder()
        .from(from.clone())
        .to(Mailbox::new(None, recipient(&mail.to)?))
        .subject(one_line(&mail.subject)?)
        .date(system_time(claimed.created_at))
        // Lets receivers recognize a duplicate.
        .message_id(Some(format!("<{id}@{}>", from.email.domain())))
        // RFC 3834: suppresses automatic replies.
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ));
    if let Some(url) = &mail.withdraw_url {
        let one_click = "List-Unsubscribe=One-Click".to_owned();
        for (name, value) in [
            (HeaderName::new_from_ascii_str("List-Unsubscribe"), format!("<{}>", one_line(url)?)),
            (HeaderName::new_from_ascii_str("List-Unsubscribe-Post"), one_click),
        ] {
            // A URL is ASCII and has no space to fold at.
            message = message.raw_header(HeaderValue::dangerous_new_pre_encoded(name, value.clone(), value));
        }
    }
    let message =
        message.multipart(parts).map_err(|_| InvalidMail("the mail lacks a sender or a recipient"))?;
    Ok(EncodedMail {
        name: format!("{}-{id}", claimed.created_at.to_string().replace(':', "")),
        claim: claimed.attempts + claimed.unfinished_claims,
        envelope: message.envelope().clone(),
        bytes: message.formatted(),
    })
}

/// Parses the address of a recipient.
pub(super) fn recipient(text: &str) -> Result<Address, InvalidMail> {
    one_line(text)?.parse().map_err(|_| InvalidMail("the recipient is not an email address"))
}

/// Parses the address of the sender, with or without a name.
pub(super) fn sender(text: &str) -> Result<Mailbox, InvalidMail> {
    let invalid = InvalidMail("the sender is not an address such as: Auspex <auspex@example.com>");
    one_line(text)?.parse().map_err(|_| invalid)
}

/// Checks a text for a header. A line break would start a new header.
pub(super) fn one_line(text: &str) -> Result<&str, InvalidMail> {
    if text.contains(char::is_control) {
        return Err(InvalidMail("an address or a subject contains a line break or a control character"));
    }
    Ok(text)
}

/// Leaves a text unencoded wherever mail allows that, so that a link can be copied from a file. By default, the library
/// encodes every text with a line of more than 76 characters, such as a link, and lets control characters pass.
fn encode_text(text: &str) -> Body {
    let printable = |byte: u8| matches!(byte, b' '..=b'~');
    let needs_no_encoding = |line: &str| line.len() <= MAX_LINE && line.bytes().all(printable);
    if text.split('\n').all(needs_no_encoding) {
        let lines = text.replace('\n', "\r\n");
        Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit)
    } else {
        Body::new_with_encoding(text.to_owned(), ContentTransferEncoding::QuotedPrintable)
            .unwrap_or_else(Body::new)
    }
}

fn system_time(instant: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(instant.seconds()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use model::TenantId;

    use super::*;

    fn mail(to: &str, subject: &str) -> Mail {
        Mail::new("test", to, subject, &MailBody::default())
    }

    fn bytes_of(text: &str) -> String {
        let mail = Mail { text: text.to_owned(), ..mail("a@b.c", "Hello") };
        let claimed = LeasedMessage {
            tenant_id: TenantId(Uuid::nil()),
            message_id: Uuid::from_u128(1),
            lane: String::new(),
            message: Vec::new(),
            firing_id: None,
            attempts: 1,
            unfinished_claims: 0,
            created_at: Timestamp::from_seconds(0),
        };
        let encoded = encode(&sender("a@b.c").unwrap(), &mail, &claimed).unwrap();
        assert_eq!(encoded.name, "1970-01-01T000000.000000Z-00000000-0000-0000-0000-000000000001");
        String::from_utf8(encoded.bytes).unwrap()
    }

    #[test]
    fn every_attempt_sends_the_same_bytes() {
        assert_eq!(bytes_of("Hello"), bytes_of("Hello"));
    }

    #[test]
    fn a_text_is_not_encoded_where_mail_allows_that() {
        let longest = "=".repeat(MAX_LINE);
        assert!(bytes_of(&format!("a\n{longest}\n")).contains(&format!("\r\na\r\n{longest}\r\n")));
        for text in [format!("{longest}="), "Grüße".to_owned(), "a\rb".to_owned(), "a\0b".to_owned()] {
            let sent = bytes_of(&text);
            assert!(sent.is_ascii() && !sent.contains(&text), "{sent}");
        }
    }

    #[test]
    fn senders_have_an_address_and_perhaps_a_name() {
        for good in ["Auspex <auspex@localhost>", "auspex@example.com", "\"A, B\" <a@example.com>"] {
            assert!(sender(good).is_ok(), "{good}");
        }
        for bad in ["", "Auspex", "Auspex <>", "a@b.c, d@e.f", "a@b.c\r\nBcc: d@e.f", "A\n <a@b.c>"] {
            assert!(sender(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_break_cannot_start_a_header() {
        assert_eq!(mail("a@b.c", "Grüße").check(), Ok(()));
        for to in ["", "a", "a@b.c\r\nBcc: d@e.f", "a@b.c, d@e.f", "A <a@b.c>", "\"a\r\nb\"@c.d"] {
            assert!(mail(to, "Hello").check().is_err(), "{to:?}");
        }
        for subject in ["Hello\r\nBcc: d@e.f", "Hello\nBcc: d@e.f", "Hello\rBcc: d@e.f", "Hello\0"] {
            assert!(mail("a@b.c", subject).check().is_err(), "{subject:?}");
        }
    }
}
