//! SMTP. A connection serves one mail: mails are few, and a fresh connection has no state to go stale.
//!
//! The library's `tracing` feature must stay off: it logs all that goes over the wire.

use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::{Category, Severity};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use url::{Host, Url};

use super::message::SEND_DEADLINE;
use crate::outbox::worker::Failure;
use crate::runtime::Result;

/// How long connecting to one address may take; a name may have another that answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a goodbye. The mail has gone by then; this is only manners.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// A mail server, and how to be let in.
pub(super) struct Server {
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
    hello: ClientId,
    deadline: Duration,
}

enum Security {
    None,
    StartTls(TlsParameters),
    FromTheFirstByte(TlsParameters),
}

/// An address that names no mail server, and why; it never quotes the address, which holds a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSmtpUrl(String);

impl Server {
    /// Reads an address. The library reads some too, but takes `smtp://` without more for unencrypted.
    pub(super) fn parse(url: &str, authority: Option<&[u8]>) -> Result<Self, InvalidSmtpUrl> {
        let refuse = |reason: &str| InvalidSmtpUrl(reason.to_owned());
        let url = Url::parse(url).map_err(|error| refuse(&error.to_string()))?;
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(refuse("it names no host")),
        };
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(refuse("nothing but ?tls= may follow the host and port"));
        }
        let options: Vec<_> = url.query_pairs().collect();
        let options: Vec<_> = options.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let tls = || tls_parameters(&host, authority);
        let (default_port, security) = match (url.scheme(), options.as_slice()) {
            ("smtps", []) => (465, Security::FromTheFirstByte(tls()?)),
            ("smtp", [] | [("tls", "required")]) => (587, Security::StartTls(tls()?)),
            ("smtp", [("tls", "none")]) => (25, Security::None),
            ("smtp" | "smtps", _) => {
                return Err(refuse("its only option is tls, required or none, with smtp://"));
            }
            _ => return Err(refuse("it must start with smtps:// or smtp://")),
        };
        Ok(Self {
            port: url.port().unwrap_or(default_port),
            security,
            credentials: credentials(&url)?,
            hello: ClientId::default(),
            deadline: SEND_DEADLINE,
            host,
        })
    }

    /// Hands a mail over.
    pub(super) async fn send(&self, envelope: &Envelope, bytes: &[u8]) -> Result<(), Failure> {
        let attempt = async {
            // Whatever goes wrong before the mail is on the table says nothing about the mail.
            let mut connection = self.connect().await.map_err(|error| Failure::Later(reason(&error)))?;
            connection.send(envelope, bytes).await.map_err(|error| judge(&error))?;
            Ok(connection)
        };
        let late = |_| Err(Failure::Later(format!("the server took more than {:?}", self.deadline)));
        let mut connection = timeout(self.deadline, attempt).await.unwrap_or_else(late)?;
        // The mail is the server's now: how the goodbye goes changes nothing.
        let _ = timeout(GOODBYE_TIMEOUT, connection.quit()).await;
        Ok(())
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpError> {
        let address = (self.host.as_str(), self.port);
        let wrapper = match &self.security {
            Security::FromTheFirstByte(tls) => Some(tls.clone()),
            Security::StartTls(_) | Security::None => None,
        };
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(address, Some(CONNECT_TIMEOUT), &self.hello, wrapper, None)
                .await?;
        if let Security::StartTls(tls) = &self.security {
            connection.starttls(tls.clone(), &self.hello).await?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await?;
        }
        Ok(connection)
    }
}

fn tls_parameters(host: &str, authority: Option<&[u8]>) -> Result<TlsParameters, InvalidSmtpUrl> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = authority {
        let certificate = Certificate::from_pem(pem)
            .map_err(|_| InvalidSmtpUrl("the certificate authority is not a PEM certificate".to_owned()))?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build().map_err(|_| InvalidSmtpUrl("TLS cannot be set up for its host".to_owned()))
}

fn credentials(url: &Url) -> Result<Option<Credentials>, InvalidSmtpUrl> {
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| InvalidSmtpUrl("its user or password is not UTF-8".to_owned()))
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err(InvalidSmtpUrl("it has a password and no user".to_owned())),
        (_, None) => Err(InvalidSmtpUrl("it has a user and no password".to_owned())),
        (user, Some(password)) => Ok(Some(Credentials::new(decode(user)?, decode(password)?))),
    }
}

/// What an answer to the mail itself means. Codes 55x are about the mail or its recipient; other refusals (530: log in
/// first, 503: not now) are about how we are set up, which somebody may mend.
fn judge(error: &SmtpError) -> Failure {
    let about_the_mail = error.status().is_some_and(|code| {
        code.severity == Severity::PermanentNegativeCompletion && code.category == Category::MailSystem
    });
    if about_the_mail { Failure::Never(reason(error)) } else { Failure::Later(reason(error)) }
}

/// Why it failed. Servers like to repeat what they were sent, so of their answers only the code is told.
fn reason(error: &SmtpError) -> String {
    match error.status() {
        Some(code) => format!("the server answered {code}"),
        None if error.is_response() => "the server's answer is not SMTP".to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Server::parse(url, None).err().unwrap_or_else(|| panic!("{url} is refused")).to_string()
    }

    #[test]
    fn addresses_say_how_to_connect() {
        let server = Server::parse("smtps://ann:p%40ss%2Bword@mail.example", None).unwrap();
        assert_eq!((server.host.as_str(), server.port), ("mail.example", 465));
        assert!(matches!(server.security, Security::FromTheFirstByte(_)));
        assert!(server.credentials == Some(Credentials::new("ann".into(), "p@ss+word".into())));
        for url in ["smtp://mail.example", "smtp://mail.example/?tls=required"] {
            let server = Server::parse(url, None).unwrap();
            assert!(matches!((server.port, &server.security), (587, Security::StartTls(_))), "{url}");
        }
        let plain = Server::parse("smtp://[::1]:2525?tls=none", None).unwrap();
        assert_eq!((plain.host.as_str(), plain.port), ("::1", 2525));
        assert!(matches!(plain.security, Security::None) && plain.credentials.is_none());
    }

    #[test]
    fn a_bad_address_is_refused_without_telling_the_password() {
        for url in [
            "",
            "hush",
            "ann:hush@mail.example",
            "http://ann:hush@mail.example",
            "smtp://ann:hush@",
            "smtp://ann:hush@mail.example:99999",
            "smtp://ann:hush@mail.example?tls=opportunistic",
            "smtp://ann:hush@mail.example?tls=none&x=1",
            "smtps://ann:hush@mail.example?tls=none",
            "smtp://ann:hush@mail.example/path",
            "smtp://:hush@mail.example",
            "smtp://hush@mail.example",
            "smtp://ann:hush%FF@mail.example",
        ] {
            let text = refusal(url);
            assert!(!text.is_empty() && !text.contains("hush"), "{url}: {text}");
        }
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("smtp://{}?tls=none", silent.local_addr().unwrap());
        let server = Server { deadline: Duration::from_millis(50), ..Server::parse(&url, None).unwrap() };
        let envelope = Envelope::new(None, vec!["a@b.c".parse().unwrap()]).unwrap();
        let failure = server.send(&envelope, b"\r\n").await.unwrap_err();
        assert_eq!(failure, Failure::Later("the server took more than 50ms".to_owned()));
    }
}
