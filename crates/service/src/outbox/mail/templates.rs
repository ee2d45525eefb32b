//! The letters of the service: one function an email event. Subjects are fixed, so nobody's text gets into a header; only
//! a rule's owner may word the subject of its mails.

use std::fmt::Display;

use model::Timestamp;
use model::rule::Triggered;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded;

use super::body::{Body, Link};
use super::message::Mail;

/// Writes the letters of one deployment.
#[derive(Clone, Debug)]
pub struct MailTemplates {
    console: String,
}

/// What a letter says about an API key.
#[derive(Clone, Copy, Debug)]
pub struct KeyFacts<'a> {
    /// What people call it.
    pub name: &'a str,
    /// What requests name it by.
    pub public_id: &'a str,
}

/// What stands in a segment of a path as it is; all else is percent-encoded.
const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const NOT_YOU: &str = "If this was not you, somebody else has access to your account: \
                       change your password and end all sessions in the console at once.";

impl MailTemplates {
    /// MailTemplates whose links lead to the console at `public_url`.
    pub fn new(public_url: &str) -> Self {
        Self { console: format!("{}/console", public_url.trim_end_matches('/')) }
    }

    /// Somebody forgot the password; `token` lets them choose a new one.
    pub fn password_reset(&self, to: &str, token: &str) -> Mail {
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        let link = Link {
            label: "Choose a new password".to_owned(),
            url: format!("{}/reset?token={token}", self.console),
        };
        let body = Body {
            heading: "Reset your password".to_owned(),
            paragraphs: vec![
                "Somebody, hopefully you, asked for a new password for the account with this email address."
                    .to_owned(),
                "The link below is valid for one hour and works once.".to_owned(),
                "If it was not you, do nothing: your password stays as it is.".to_owned(),
            ],
            link: Some(link),
        };
        Mail::new("password_reset", to, "Reset your password", &body)
    }

    /// The password is another one now.
    pub fn password_changed(&self, to: &str, at: Timestamp) -> Mail {
        let news = format!("The password of your account was changed on {}.", time(at));
        self.letter("password_changed", to, "Your password was changed", [news, NOT_YOU.to_owned()])
    }

    /// Signing in needs an authenticator code from now on.
    pub fn mfa_enabled(&self, to: &str, at: Timestamp) -> Mail {
        let news = format!(
            "Two-factor authentication was turned on for your account on {}. \
             Signing in now needs a code from your authenticator app.",
            time(at)
        );
        self.letter("mfa_enabled", to, "Two-factor authentication is on", [news, NOT_YOU.to_owned()])
    }

    /// A password is enough again.
    pub fn mfa_disabled(&self, to: &str, at: Timestamp) -> Mail {
        let news = format!(
            "Two-factor authentication was turned off for your account on {}. A password is now enough to sign in.",
            time(at)
        );
        self.letter("mfa_disabled", to, "Two-factor authentication is off", [news, NOT_YOU.to_owned()])
    }

    /// An account at a provider, such as `Google`, now signs in here.
    pub fn identity_linked(&self, to: &str, provider: &str, at: Timestamp) -> Mail {
        let provider = tame(provider);
        let news = format!(
            "A {provider} account was linked to your account on {}. It can be used to sign in.",
            time(at)
        );
        self.letter("identity_linked", to, "A way to sign in was added", [news, NOT_YOU.to_owned()])
    }

    /// An account at a provider no longer signs in here.
    pub fn identity_unlinked(&self, to: &str, provider: &str, at: Timestamp) -> Mail {
        let provider = tame(provider);
        let news = format!(
            "The link between your account and a {provider} account was removed on {}. \
             It can no longer be used to sign in.",
            time(at)
        );
        self.letter("identity_unlinked", to, "A way to sign in was removed", [news, NOT_YOU.to_owned()])
    }

    /// There is a new API key.
    pub fn api_key_created(&self, to: &str, key: KeyFacts<'_>, at: Timestamp) -> Mail {
        let news = format!("The API key {key} was created on {}.", time(at));
        self.letter("api_key_created", to, "An API key was created", [news, NOT_YOU.to_owned()])
    }

    /// An API key has a new secret.
    pub fn api_key_rotated(&self, to: &str, key: KeyFacts<'_>, at: Timestamp) -> Mail {
        let news =
            format!("The API key {key} got a new secret on {}. The old one no longer works.", time(at));
        self.letter("api_key_rotated", to, "An API key was rotated", [news, NOT_YOU.to_owned()])
    }

    /// An API key no longer works.
    pub fn api_key_revoked(&self, to: &str, key: KeyFacts<'_>, at: Timestamp) -> Mail {
        let news = format!("The API key {key} was revoked on {}. It no longer works.", time(at));
        self.letter("api_key_revoked", to, "An API key was revoked", [news, NOT_YOU.to_owned()])
    }

    /// The prepaid balance fell below the mark.
    pub fn low_balance(&self, to: &str, balance_cents: i64, mark_cents: i64) -> Mail {
        let news =
            format!("Your balance is {}, which is below {}.", dollars(balance_cents), dollars(mark_cents));
        let advice = "When it is used up, analyses may stop until you top up.".to_owned();
        self.letter("low_balance", to, "Your balance is low", [news, advice])
    }

    /// A payment arrived.
    pub fn topup_credited(&self, to: &str, amount_cents: i64, balance_cents: i64, at: Timestamp) -> Mail {
        let news = format!("{} was added to your balance on {}.", dollars(amount_cents), time(at));
        let balance = format!("Your balance is now {}.", dollars(balance_cents));
        self.letter("topup_credited", to, "Your payment was credited", [news, balance])
    }

    /// A delivery to a webhook was given up; `reason` is what the last attempt met.
    pub fn webhook_dead(&self, to: &str, endpoint_url: &str, reason: &str, at: Timestamp) -> Mail {
        let news = format!(
            "A delivery to your webhook {} was given up on {}: {}.",
            tame(endpoint_url),
            time(at),
            tame(reason).trim_end_matches('.')
        );
        let advice = "See the endpoint's deliveries in the console; they can be sent again from there. \
                      At most one such mail a day is sent for an endpoint."
            .to_owned();
        self.letter("webhook_dead", to, "A webhook delivery was given up", [news, advice])
    }

    /// A rule fired for an object. Its owner may have chosen the subject.
    pub fn rule_triggered(&self, to: &str, subject: Option<&str>, told: &Triggered<'_>) -> Mail {
        let subject = subject.map_or_else(|| told.subject(), str::to_owned);
        let body = Body {
            heading: format!("The rule \"{}\" fired", told.rule()),
            paragraphs: vec![
                format!("It fired for the object {} on {}.", told.object(), told.time()),
                format!("Condition: {}", told.condition()),
                format!("Values: {}", told.value_lines().join(", ")),
            ],
            link: Some(Link { label: "See the object in the console".to_owned(), url: told.link.to_owned() }),
        };
        Mail::new("rule_triggered", to, &subject, &body)
    }

    /// An object's page in the console.
    pub fn object_page(&self, object_id: &str) -> String {
        format!("{}/objects/{}", self.console, utf8_percent_encode(object_id, PATH_SEGMENT))
    }

    /// A letter whose heading is its subject and whose link leads to the console.
    fn letter(&self, event: &str, to: &str, subject: &str, paragraphs: [String; 2]) -> Mail {
        let link = Link { label: "Open the console".to_owned(), url: self.console.clone() };
        let body = Body { heading: subject.to_owned(), paragraphs: paragraphs.into(), link: Some(link) };
        Mail::new(event, to, subject, &body)
    }
}

impl Display for KeyFacts<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "\"{}\" ({})", tame(self.name), tame(self.public_id))
    }
}

/// Text that people gave, on one line, so that it cannot pose as a paragraph of ours.
fn tame(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}

/// An instant to the minute, as in `2026-01-31 12:00 UTC`.
fn time(at: Timestamp) -> String {
    let text = at.to_string();
    let minute = text.get(11..16).unwrap_or_default();
    format!("{} {minute} UTC", at.date())
}

/// An amount as in `$12.34` or `-$0.05`.
fn dollars(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}${}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_decimals_and_a_sign_before_the_dollar() {
        let written = [0, 5, 100, 1_234, -5, -1_234, i64::MIN].map(dollars);
        let expected = ["$0.00", "$0.05", "$1.00", "$12.34", "-$0.05", "-$12.34", "-$92233720368547758.08"];
        assert_eq!(written, expected);
    }

    #[test]
    fn what_people_named_stays_on_its_line() {
        let key = KeyFacts { name: "a\r\nPay here: https://evil.example", public_id: "ak_1" };
        let mail =
            MailTemplates::new("https://x.example").api_key_created("a@b.c", key, Timestamp::from_seconds(0));
        assert!(
            mail.text.contains("The API key \"a  Pay here: https://evil.example\" (ak_1) was"),
            "{}",
            mail.text
        );
    }

    #[test]
    fn tokens_survive_the_link() {
        let mail = MailTemplates::new("https://x.example/").password_reset("a@b.c", "a+b&c");
        assert!(mail.text.contains("https://x.example/console/reset?token=a%2Bb%26c\n"), "{}", mail.text);
    }
}
