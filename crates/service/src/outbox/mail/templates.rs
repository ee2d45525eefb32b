//! The mails of the service: one function per email event. Subjects are fixed, so no user input gets into a header; only
//! the mails of a rule may have a subject that the tenant wrote.

use std::fmt::Display;

use model::rule::{ActionTest, Triggered};
use model::{MemberRole, Timestamp, single_line};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use url::{Url, form_urlencoded};

use super::body::{Body, Link};
use super::message::Mail;

/// Renders the mails of one deployment.
#[derive(Clone, Debug)]
pub struct MailTemplates {
    public: String,
    console: String,
}

/// The API key that a mail is about.
#[derive(Clone, Copy, Debug)]
pub struct KeyFacts<'a> {
    /// The name that the tenant gave it.
    pub name: &'a str,
    /// The public id, as used in requests.
    pub public_id: &'a str,
}

/// What ended or was disabled when an address was first proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Whether there was a password.
    pub password: bool,
    /// Whether two-factor authentication was on.
    pub two_factor: bool,
    /// Sessions that ended.
    pub sessions: u64,
    /// Accounts at providers that were unlinked.
    pub identities: u64,
    /// Passkeys that were removed.
    pub passkeys: u64,
    /// API keys that were revoked.
    pub keys: u64,
    /// Webhook endpoints that were disabled.
    pub endpoints: u64,
    /// Rules that were disabled.
    pub rules: u64,
    /// Open invitations that were withdrawn.
    pub invitations: u64,
}

/// The characters of a path segment that are percent-encoded.
const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const NOT_YOU: &str = "If this was not you, somebody else has access to your account: \
                       change your password and end all sessions in the console at once.";

impl MailTemplates {
    /// Templates whose links lead to the console at `public_url`.
    pub fn new(public_url: &str) -> Self {
        let public = public_url.trim_end_matches('/').to_owned();
        Self { console: format!("{public}/console"), public }
    }

    /// A password reset was requested; `token` allows choosing a new password.
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
            footer: None,
        };
        Mail::new("password_reset", to, "Reset your password", &body)
    }

    /// Somebody opened an account with this address; `token` proves that it is theirs.
    pub fn email_verification(&self, to: &str, token: &str) -> Mail {
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        let link = Link {
            label: "Confirm this address".to_owned(),
            url: format!("{}/verify?token={token}", self.console),
        };
        let body = Body {
            footer: None,
            heading: "Confirm your email address".to_owned(),
            paragraphs: vec![
                "Somebody, hopefully you, opened an account with this email address.".to_owned(),
                "The link below confirms that the address is yours. It is valid for seven days and works once."
                    .to_owned(),
                "If it was not you, you can do nothing, or take the account over with the link: whatever was set up before is \
                 ended then."
                    .to_owned(),
            ],
            link: Some(link),
        };
        Mail::new("email_verification", to, "Confirm your email address", &body)
    }

    /// Somebody is invited to an account; `token` accepts. `account` is its name and the address of who invites.
    pub fn invitation(&self, to: &str, account: (&str, &str), role: MemberRole, token: &str) -> Mail {
        let (name, email) = (harmless_name(account.0), single_line(account.1));
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        let role = match role {
            MemberRole::Viewer => "a viewer",
            MemberRole::Analyst => "an analyst",
            MemberRole::Admin => "an admin",
            MemberRole::Owner => "an owner",
        };
        let body = Body {
            heading: "You are invited".to_owned(),
            paragraphs: vec![
                format!(
                    "{email} invites you to the account \"{name}\" of the Auspex service at {}, as {role}.",
                    self.public
                ),
                "Accept with the link below. It is valid for seven days and works once.".to_owned(),
                "If you do not expect this, do nothing.".to_owned(),
            ],
            link: Some(Link {
                label: "Accept the invitation".to_owned(),
                url: format!("{}/invitation?token={token}", self.console),
            }),
            footer: None,
        };
        Mail::new("invitation", to, "You are invited to an account", &body)
    }

    /// An owner has asked for the deletion of an account.
    pub fn deletion_requested(&self, to: &str, account: &str, at: Timestamp) -> Mail {
        let news = format!(
            "An owner has asked to delete the account \"{}\". On {} everything in it is deleted, for good.",
            single_line(account),
            time(at)
        );
        let advice = "Until then, every owner can take that back in the console.".to_owned();
        self.notice("deletion_requested", to, "Your account will be deleted", [news, advice])
    }

    /// An owner has taken back the deletion of an account.
    pub fn deletion_cancelled(&self, to: &str, account: &str) -> Mail {
        let news =
            format!("The account \"{}\" will not be deleted: an owner took that back.", single_line(account));
        self.notice(
            "deletion_cancelled",
            to,
            "Your account stays",
            [news, "You need not do anything.".to_owned()],
        )
    }

    /// The address was proved for the first time, and what somebody had set up before was ended.
    pub fn address_proved(&self, to: &str, ended: Ended, at: Timestamp) -> Mail {
        let news = format!(
            "Your email address was confirmed for the first time on {}. Somebody else could have set up the account before, \
             so this was ended or disabled: {ended}.",
            time(at)
        );
        let advice = "If it was you who set it up, do again what is missing: set a password by \"Forgot your password?\" on the \
                      sign-in page, create API keys, and enable webhook endpoints and rules in the console."
            .to_owned();
        self.notice("address_proved", to, "Your email address was confirmed", [news, advice])
    }

    /// A member signed in from a network that they have not signed in from before.
    pub fn new_network(&self, to: &str, address: &str, agent: Option<&str>, at: Timestamp) -> Mail {
        let agent = agent.map_or_else(String::new, |agent| format!(" ({})", single_line(agent)));
        let news = format!(
            "Somebody signed in to your account on {} from a network that was not used before: {}{agent}.",
            time(at),
            single_line(address)
        );
        self.notice("sign_in_new_network", to, "Sign-in from a new network", [news, NOT_YOU.to_owned()])
    }

    /// The password was changed.
    pub fn password_changed(&self, to: &str, at: Timestamp) -> Mail {
        let news = format!("The password of your account was changed on {}.", time(at));
        self.notice("password_changed", to, "Your password was changed", [news, NOT_YOU.to_owned()])
    }

    /// Two-factor authentication was turned on, with a passkey or with an authenticator app.
    pub fn mfa_enabled(&self, to: &str, by_passkey: bool, at: Timestamp) -> Mail {
        let needed = if by_passkey { "your passkey" } else { "a code from your authenticator app" };
        let news = format!(
            "Two-factor authentication was turned on for your account on {}. Signing in now needs {needed}.",
            time(at)
        );
        self.notice("mfa_enabled", to, "Two-factor authentication is on", [news, NOT_YOU.to_owned()])
    }

    /// Two-factor authentication was turned off.
    pub fn mfa_disabled(&self, to: &str, at: Timestamp) -> Mail {
        let news = format!(
            "Two-factor authentication was turned off for your account on {}. A password is now enough to sign in.",
            time(at)
        );
        self.notice("mfa_disabled", to, "Two-factor authentication is off", [news, NOT_YOU.to_owned()])
    }

    /// An account at a provider, such as `Google`, was linked.
    pub fn identity_linked(&self, to: &str, provider: &str, at: Timestamp) -> Mail {
        let provider = single_line(provider);
        let news = format!(
            "A {provider} account was linked to your account on {}. It can be used to sign in.",
            time(at)
        );
        self.notice("identity_linked", to, "A way to sign in was added", [news, NOT_YOU.to_owned()])
    }

    /// A passkey was added.
    pub fn passkey_added(&self, to: &str, name: &str, at: Timestamp) -> Mail {
        let news = format!(
            "The passkey \"{}\" was added to your account on {}. It can be used to sign in.",
            single_line(name),
            time(at)
        );
        self.notice("passkey_added", to, "A passkey was added", [news, NOT_YOU.to_owned()])
    }

    /// A passkey was removed.
    pub fn passkey_removed(&self, to: &str, name: &str, at: Timestamp) -> Mail {
        let news = format!(
            "The passkey \"{}\" was removed from your account on {}. It can no longer be used to sign in.",
            single_line(name),
            time(at)
        );
        self.notice("passkey_removed", to, "A passkey was removed", [news, NOT_YOU.to_owned()])
    }

    /// An account at a provider was unlinked.
    pub fn identity_unlinked(&self, to: &str, provider: &str, at: Timestamp) -> Mail {
        let provider = single_line(provider);
        let news = format!(
            "The link between your account and a {provider} account was removed on {}. \
             It can no longer be used to sign in.",
            time(at)
        );
        self.notice("identity_unlinked", to, "A way to sign in was removed", [news, NOT_YOU.to_owned()])
    }

    /// An API key was created.
    pub fn api_key_created(&self, to: &str, key: KeyFacts<'_>, at: Timestamp) -> Mail {
        let news = format!("The API key {key} was created on {}.", time(at));
        self.notice("api_key_created", to, "An API key was created", [news, NOT_YOU.to_owned()])
    }

    /// An API key was rotated.
    pub fn api_key_rotated(&self, to: &str, key: KeyFacts<'_>, at: Timestamp) -> Mail {
        let news =
            format!("The API key {key} got a new secret on {}. The old one no longer works.", time(at));
        self.notice("api_key_rotated", to, "An API key was rotated", [news, NOT_YOU.to_owned()])
    }

    /// API keys were revoked together.
    pub fn api_keys_revoked(&self, to: &str, keys: &[KeyFacts<'_>], at: Timestamp) -> Mail {
        let (subject, news) = if let [key] = keys {
            let news = format!("The API key {key} was revoked on {}. It no longer works.", time(at));
            ("An API key was revoked", news)
        } else {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let (on, keys) = (time(at), keys.join(", "));
            (
                "API keys were revoked",
                format!("These API keys were revoked on {on} and no longer work: {keys}."),
            )
        };
        self.notice("api_key_revoked", to, subject, [news, NOT_YOU.to_owned()])
    }

    /// The prepaid balance fell below the warning threshold.
    pub fn low_balance(&self, to: &str, balance_cents: i64, threshold_cents: i64) -> Mail {
        let news = format!(
            "Your balance is {}, which is below {}.",
            dollars(balance_cents),
            dollars(threshold_cents)
        );
        let advice = "When it is used up, analyses may stop until you top up.".to_owned();
        self.notice("low_balance", to, "Your balance is low", [news, advice])
    }

    /// A payment was credited.
    pub fn topup_credited(&self, to: &str, amount_cents: i64, balance_cents: i64, at: Timestamp) -> Mail {
        let news = format!("{} was added to your balance on {}.", dollars(amount_cents), time(at));
        let balance = format!("Your balance is now {}.", dollars(balance_cents));
        self.notice("topup_credited", to, "Your payment was credited", [news, balance])
    }

    /// A webhook delivery was given up; `reason` is the error of the last attempt.
    pub fn webhook_dead(&self, to: &str, endpoint_url: &str, reason: &str, at: Timestamp) -> Mail {
        let news = format!(
            "A delivery to your webhook {} was given up on {}: {}.",
            masked_url(endpoint_url),
            time(at),
            single_line(reason).trim_end_matches('.')
        );
        let advice = "See the endpoint's deliveries in the console; they can be sent again from there. \
                      At most one such mail a day is sent for an endpoint."
            .to_owned();
        self.notice("webhook_dead", to, "A webhook delivery was given up", [news, advice])
    }

    /// A webhook endpoint has failed many times in a row; `reason` is the error of the last attempt.
    pub fn webhook_resting(&self, to: &str, endpoint_url: &str, reason: &str, at: Timestamp) -> Mail {
        let news = format!(
            "Your webhook {} has failed many times in a row, last on {}: {}.",
            masked_url(endpoint_url),
            time(at),
            single_line(reason).trim_end_matches('.')
        );
        let advice = "Its deliveries wait and are sent once it responds again; those that wait for too long are given up. \
                      At most one such mail a day is sent for an endpoint."
            .to_owned();
        self.notice("webhook_dead", to, "A webhook does not respond", [news, advice])
    }

    /// A rule fired for an object. The tenant may have chosen the subject. The recipient withdraws with the token.
    pub fn rule_triggered(
        &self,
        to: &str,
        subject: Option<&str>,
        triggered: &Triggered<'_>,
        withdraw_token: &str,
    ) -> Mail {
        let subject = subject.map_or_else(|| triggered.subject(), single_line);
        let body = Body {
            heading: format!("The rule \"{}\" fired", triggered.rule()),
            paragraphs: vec![
                format!("It fired for the object {} on {}.", triggered.object(), triggered.time()),
                format!("Condition: {}", triggered.condition()),
                format!("Values: {}", triggered.value_lines().join(", ")),
            ],
            link: Some(Link {
                label: "See the object in the console".to_owned(),
                url: triggered.link.to_owned(),
            }),
            footer: Some(Link {
                label: "To get no more mails from this account's rules".to_owned(),
                url: self.withdraw_page(withdraw_token),
            }),
        };
        let mail = Mail::new("rule_triggered", to, &subject, &body);
        Mail { withdraw_url: Some(self.withdraw_url(withdraw_token)), ..mail }
    }

    /// Somebody tests the action of a rule, saved or not. The tenant may have chosen the subject.
    pub fn rule_test(
        &self,
        to: &str,
        subject: Option<&str>,
        test: &ActionTest<'_>,
        withdraw_token: &str,
    ) -> Mail {
        let subject = subject.map_or_else(|| test.rule(), single_line);
        let body = Body {
            heading: format!("Test of the rule \"{}\"", test.rule()),
            paragraphs: vec![
                format!(
                    "Somebody tested the action of this rule on {}. It has not fired, and you need not do anything.",
                    test.time()
                ),
                "When it fires, a mail to this address says for which object, and which values satisfied its condition."
                    .to_owned(),
            ],
            link: None,
            footer: Some(Link {
                label: "To get no more mails from this account's rules".to_owned(),
                url: self.withdraw_page(withdraw_token),
            }),
        };
        let mail = Mail::new("rule_test", to, &format!("[Test] {subject}"), &body);
        Mail { withdraw_url: Some(self.withdraw_url(withdraw_token)), ..mail }
    }

    /// A stranger is asked whether they want the mails of an account's rules. `account` is its name and a proved address of
    /// it. The rest of the mail is ours: whoever opens an account must not be able to write to strangers by it.
    pub fn confirm_recipient(
        &self,
        to: &str,
        account: (&str, &str),
        token: &str,
        withdraw_token: &str,
    ) -> Mail {
        let (name, email) = (harmless_name(account.0), single_line(account.1));
        let body = Body {
            heading: "Do you want these alerts?".to_owned(),
            paragraphs: vec![
                format!(
                    "{email} has set up alerts by email to this address, in the account \"{name}\" of the Auspex service at {}. \
                     Such an alert is sent when a rule of that account matches something that it watches.",
                    self.public
                ),
                "If you expect this, agree with the link below. Until then, no alert is sent to you.".to_owned(),
                "If you do not, you need not do anything. You may be asked again, at most once a day, unless you say no \
                 with the last link."
                    .to_owned(),
            ],
            link: Some(Link {
                label: "Yes, send me these alerts".to_owned(),
                url: format!("{}/confirm?token={token}", self.console),
            }),
            footer: Some(Link {
                label: "No, and do not ask me again".to_owned(),
                url: self.withdraw_page(withdraw_token),
            }),
        };
        let mail = Mail::new("confirm_recipient", to, "Do you want these alerts?", &body);
        Mail { withdraw_url: Some(self.withdraw_url(withdraw_token)), ..mail }
    }

    /// Where the recipient of rule mails withdraws in a browser.
    fn withdraw_page(&self, token: &str) -> String {
        format!("{}/withdraw?token={token}", self.console)
    }

    /// Where a mail program withdraws for the recipient of rule mails, with one click.
    fn withdraw_url(&self, token: &str) -> String {
        format!("{}/auth/console/recipients/withdraw?token={token}", self.public)
    }

    /// The URL of an object's page in the console.
    pub fn object_page(&self, object_id: &str) -> String {
        format!("{}/objects/{}", self.console, utf8_percent_encode(object_id, PATH_SEGMENT))
    }

    /// A mail whose heading is its subject and whose link leads to the console.
    fn notice(&self, event: &str, to: &str, subject: &str, paragraphs: [String; 2]) -> Mail {
        let link = Link { label: "Open the console".to_owned(), url: self.console.clone() };
        let body = Body {
            heading: subject.to_owned(),
            paragraphs: paragraphs.into(),
            link: Some(link),
            footer: None,
        };
        Mail::new(event, to, subject, &body)
    }
}

impl Display for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = |count: u64, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            _ => Some(format!("{count} {many}")),
        };
        let parts = [
            self.password.then(|| "the password".to_owned()),
            self.two_factor.then(|| "two-factor authentication".to_owned()),
            counted(self.sessions, "session", "sessions"),
            counted(self.identities, "sign-in provider", "sign-in providers"),
            counted(self.passkeys, "passkey", "passkeys"),
            counted(self.keys, "API key", "API keys"),
            counted(self.endpoints, "webhook endpoint", "webhook endpoints"),
            counted(self.rules, "rule", "rules"),
            counted(self.invitations, "invitation", "invitations"),
        ];
        formatter.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Display for KeyFacts<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "\"{}\" ({})", single_line(self.name), single_line(self.public_id))
    }
}

/// The name of an account as a stranger may see it: short, and nothing in it that a mail program makes a link of.
fn harmless_name(name: &str) -> String {
    const MAX_CHARACTERS: usize = 40;
    let plain =
        |letter: char| if letter.is_alphanumeric() || "-'&, ".contains(letter) { letter } else { ' ' };
    let name: String = name.chars().map(plain).take(MAX_CHARACTERS).collect();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A URL without its path and query, where tokens are.
fn masked_url(text: &str) -> String {
    let Ok(url) = Url::parse(text) else { return "...".to_owned() };
    let rest = if url.path() == "/" && url.query().is_none() { "" } else { "/..." };
    format!("{}{rest}", url.origin().ascii_serialization())
}

/// Formats an instant to the minute, as in `2026-01-31 12:00 UTC`.
fn time(at: Timestamp) -> String {
    let text = at.to_string();
    let minute = text.get(11..16).unwrap_or_default();
    format!("{} {minute} UTC", at.date())
}

/// Formats an amount, as in `$12.34` or `-$0.05`.
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
        let formatted = [0, 5, 100, 1_234, -5, -1_234, i64::MIN].map(dollars);
        let expected = ["$0.00", "$0.05", "$1.00", "$12.34", "-$0.05", "-$12.34", "-$92233720368547758.08"];
        assert_eq!(formatted, expected);
    }

    #[test]
    fn user_input_stays_on_one_line() {
        let key = KeyFacts { name: "a\r\u{2029}Pay here: https://evil.example", public_id: "ak_1" };
        let mail =
            MailTemplates::new("https://x.example").api_key_created("a@b.c", key, Timestamp::from_seconds(0));
        assert!(
            mail.text.contains("The API key \"a  Pay here: https://evil.example\" (ak_1) was"),
            "{}",
            mail.text
        );
    }

    #[test]
    fn tokens_are_encoded_in_the_link() {
        let mail = MailTemplates::new("https://x.example/").password_reset("a@b.c", "a+b&c");
        assert!(mail.text.contains("https://x.example/console/reset?token=a%2Bb%26c\n"), "{}", mail.text);
    }
}
