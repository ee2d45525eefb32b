//! From a mail to the bytes that go over the wire. Everything that becomes a header is checked here.

use std::time::{Duration, SystemTime};

use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentTransferEncoding, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use model::Timestamp;
use serde::{Deserialize, Serialize};
use store::outbox::messages::LeasedMessage;

use super::body::Body as MailBody;
use crate::runtime::Result;

/// How long one attempt may take. Servers may greylist or scan while we wait; past this they are stuck.
pub(super) const SEND_DEADLINE: Duration = Duration::from_secs(30);
/// The longest line that mail servers must take (RFC 5322).
const MAX_LINE: usize = 998;

/// A mail to one person, in both of its forms. Its texts may be credentials, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// What it is about, such as `password_reset`: all that the log may say of it.
    pub event: String,
    /// The address it goes to.
    pub to: String,
    /// Its subject, one line.
    pub subject: String,
    /// What it says, as plain text.
    pub text: String,
    /// The same as HTML.
    pub html: String,
}

impl Mail {
    /// Writes `body` down as a mail.
    pub fn new(event: &str, to: &str, subject: &str, body: &MailBody) -> Self {
        Self {
            event: event.to_owned(),
            to: to.to_owned(),
            subject: subject.to_owned(),
            text: body.to_text(),
            html: body.to_html(),
        }
    }

    /// Whether it can be sent at all: its address is one, and its subject is a single line.
    pub fn check(&self) -> Result<(), InvalidMail> {
        recipient(&self.to)?;
        one_line(&self.subject).map(drop)
    }
}

/// A mail that cannot be sent, and why; it never quotes the mail.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMail(&'static str);

/// A mail ready to go: the same bytes at every attempt.
pub(super) struct Posting {
    /// Names the mail, in the log and in file names: when it was queued, then its id.
    pub(super) name: String,
    /// Which attempt this is.
    pub(super) attempt: i64,
    /// Who it is from and who it goes to, as the servers on the way know it.
    pub(super) envelope: Envelope,
    /// Headers and both texts.
    pub(super) bytes: Vec<u8>,
}

/// Writes a claimed mail out in full.
pub(super) fn write(from: &Mailbox, mail: &Mail, claimed: &LeasedMessage) -> Result<Posting, InvalidMail> {
    let id = claimed.message_id;
    // A boundary of our own instead of the library's random one, so that every attempt sends the same bytes. No text
    // contains it: the id is younger than the text.
    let parts = MultiPart::alternative()
        .boundary(id.simple().to_string())
        .singlepart(SinglePart::plain(encode(&mail.text)))
        .singlepart(SinglePart::html(encode(&mail.html)));
    let message = lettre::Message::builder()
        .from(from.clone())
        .to(Mailbox::new(None, recipient(&mail.to)?))
        .subject(one_line(&mail.subject)?)
        .date(system_time(claimed.created_at))
        // Receivers know a mail that comes twice by this.
        .message_id(Some(format!("<{id}@{}>", from.email.domain())))
        // RFC 3834: nobody on holiday need answer.
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ))
        .multipart(parts)
        .map_err(|_| InvalidMail("the mail lacks a sender or a recipient"))?;
    Ok(Posting {
        name: format!("{}-{id}", claimed.created_at.to_string().replace(':', "")),
        attempt: claimed.attempts,
        envelope: message.envelope().clone(),
        bytes: message.formatted(),
    })
}

/// The address that a mail goes to.
pub(super) fn recipient(text: &str) -> Result<Address, InvalidMail> {
    one_line(text)?.parse().map_err(|_| InvalidMail("the recipient is not an email address"))
}

/// The address that mails come from, with or without a name.
pub(super) fn sender(text: &str) -> Result<Mailbox, InvalidMail> {
    let invalid = InvalidMail("the sender is not an address such as: Auspex <auspex@example.com>");
    one_line(text)?.parse().map_err(|_| invalid)
}

/// A text that can stand in a header. A line break would start a header of its own.
pub(super) fn one_line(text: &str) -> Result<&str, InvalidMail> {
    if text.contains(char::is_control) {
        return Err(InvalidMail("an address or a subject contains a line break or a control character"));
    }
    Ok(text)
}

/// A text as it stands wherever mail allows that, so that a link can be copied from a file. Left to itself, the library
/// encodes all that has a line of more than 76 letters, as links do, and lets control characters pass.
fn encode(text: &str) -> Body {
    let printable = |byte: u8| matches!(byte, b' '..=b'~');
    let as_it_stands = |line: &str| line.len() <= MAX_LINE && line.bytes().all(printable);
    if text.split('\n').all(as_it_stands) {
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
    use uuid::Uuid;

    use super::*;

    fn mail(to: &str, subject: &str) -> Mail {
        Mail::new("test", to, subject, &MailBody::default())
    }

    fn posted(text: &str) -> String {
        let mail = Mail { text: text.to_owned(), ..mail("a@b.c", "Hello") };
        let claimed = LeasedMessage {
            tenant_id: TenantId(Uuid::nil()),
            message_id: Uuid::from_u128(1),
            lane: String::new(),
            message: Vec::new(),
            firing_id: None,
            attempts: 1,
            created_at: Timestamp::from_seconds(0),
        };
        let posting = write(&sender("a@b.c").unwrap(), &mail, &claimed).unwrap();
        assert_eq!(posting.name, "1970-01-01T000000.000000Z-00000000-0000-0000-0000-000000000001");
        String::from_utf8(posting.bytes).unwrap()
    }

    #[test]
    fn every_attempt_sends_the_same_bytes() {
        assert_eq!(posted("Hello"), posted("Hello"));
    }

    #[test]
    fn a_text_stands_as_it_is_where_mail_allows_it() {
        let longest = "=".repeat(MAX_LINE);
        assert!(posted(&format!("a\n{longest}\n")).contains(&format!("\r\na\r\n{longest}\r\n")));
        for text in [format!("{longest}="), "Grüße".to_owned(), "a\rb".to_owned(), "a\0b".to_owned()] {
            let posted = posted(&text);
            assert!(posted.is_ascii() && !posted.contains(&text), "{posted}");
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
    fn nothing_that_breaks_a_line_becomes_a_header() {
        assert_eq!(mail("a@b.c", "Grüße").check(), Ok(()));
        for to in ["", "a", "a@b.c\r\nBcc: d@e.f", "a@b.c, d@e.f", "A <a@b.c>", "\"a\r\nb\"@c.d"] {
            assert!(mail(to, "Hello").check().is_err(), "{to:?}");
        }
        for subject in ["Hello\r\nBcc: d@e.f", "Hello\nBcc: d@e.f", "Hello\rBcc: d@e.f", "Hello\0"] {
            assert!(mail("a@b.c", subject).check().is_err(), "{subject:?}");
        }
    }
}
