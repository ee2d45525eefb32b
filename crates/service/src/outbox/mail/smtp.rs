//! SMTP. Each mail gets a new connection: mails are few, and a new connection cannot be stale.
//!
//! The library's `tracing` feature must stay off: it logs everything that it sends and receives.

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
use crate::outbox::worker::{Failure, Receiver};
use crate::runtime::Result;

/// How long connecting to one address may take; another address of the same host may answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the response to QUIT. The mail has been accepted by then.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A mail server, with its credentials.
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
    Implicit(TlsParameters),
}

/// Why an SMTP URL is invalid. The text never quotes the URL, which contains a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSmtpUrl(String);

impl Server {
    /// Parses a URL. The library's own parser takes a plain `smtp://` for unencrypted.
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
            ("smtps", []) => (465, Security::Implicit(tls()?)),
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

    /// Sends a mail.
    pub(super) async fn send(&self, envelope: &Envelope, bytes: &[u8]) -> Result<(), Failure> {
        let attempt = async {
            // A failure to connect says nothing about the mail.
            let mut connection =
                self.connect().await.map_err(|error| Failure::later(reason(&error)).by(receiver(&error)))?;
            connection.send(envelope, bytes).await.map_err(|error| failure(&error))?;
            Ok(connection)
        };
        let timed_out = |_| {
            let reason = format!("the server took more than {:?}", self.deadline);
            Err(Failure::later(reason).by(Receiver::TimedOut))
        };
        let mut connection = timeout(self.deadline, attempt).await.unwrap_or_else(timed_out)?;
        // The server has accepted the mail: the response to QUIT does not matter.
        let _ = timeout(QUIT_TIMEOUT, connection.quit()).await;
        Ok(())
    }

    /// Connects and signs in as for a mail, and sends none.
    pub(super) async fn probe(&self) -> Result<(), String> {
        let mut connection = self.connect().await.map_err(|error| reason(&error))?;
        let _ = timeout(QUIT_TIMEOUT, connection.quit()).await;
        Ok(())
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpError> {
        let address = (self.host.as_str(), self.port);
        let wrapper = match &self.security {
            Security::Implicit(tls) => Some(tls.clone()),
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

/// Classifies the response to the mail itself. Codes 55x are about the mail or its recipient; other refusals (530: log in
/// first, 503: bad sequence) are about the configuration, which the operator can fix.
fn failure(error: &SmtpError) -> Failure {
    let about_the_mail = error.status().is_some_and(|code| {
        code.severity == Severity::PermanentNegativeCompletion && code.category == Category::MailSystem
    });
    let failed = if about_the_mail { Failure::never(reason(error)) } else { Failure::later(reason(error)) };
    failed.by(receiver(error))
}

fn receiver(error: &SmtpError) -> Receiver {
    match error.status() {
        Some(code) => Receiver::Answered(code.into()),
        None if error.is_timeout() => Receiver::TimedOut,
        None => Receiver::Unreached,
    }
}

/// The reason for a failure. Servers may echo what they received, so only the code of a response is included.
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
    fn the_url_determines_how_to_connect() {
        let server = Server::parse("smtps://ann:p%40ss%2Bword@mail.example", None).unwrap();
        assert_eq!((server.host.as_str(), server.port), ("mail.example", 465));
        assert!(matches!(server.security, Security::Implicit(_)));
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
    fn the_error_of_an_invalid_url_does_not_contain_the_password() {
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
    async fn a_silent_server_times_out() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("smtp://{}?tls=none", silent.local_addr().unwrap());
        let server = Server { deadline: Duration::from_millis(50), ..Server::parse(&url, None).unwrap() };
        let envelope = Envelope::new(None, vec!["a@b.c".parse().unwrap()]).unwrap();
        let failed = server.send(&envelope, b"\r\n").await.unwrap_err();
        assert_eq!(failed, Failure::later("the server took more than 50ms").by(Receiver::TimedOut));
    }
}
