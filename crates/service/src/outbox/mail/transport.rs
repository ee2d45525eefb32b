//! Where mails are sent: over SMTP, or into files where there is no mail server.

use std::path::PathBuf;
use std::sync::Arc;

use super::files;
use super::message::Posting;
use super::smtp::{self, InvalidSmtpUrl};
use crate::outbox::worker::Failure;
use crate::runtime::Result;

/// Where mails go. Cheap to clone. It holds a password, so it has no `Debug`.
#[derive(Clone)]
pub struct Transport(Arc<Destination>);

enum Destination {
    Smtp(smtp::Server),
    Files(PathBuf),
}

impl Transport {
    /// To the mail server that an address names.
    ///
    /// | address | |
    /// |---|---|
    /// | `smtps://user:password@host:465` | TLS from the first byte |
    /// | `smtp://user:password@host:587` | STARTTLS, and nothing is sent without it |
    /// | `smtp://host:25?tls=none` | no encryption: for a server on the same machine |
    ///
    /// The ports shown are the defaults. User and password may be left out; characters that mean something in an
    /// address are percent-encoded.
    pub fn smtp(url: &str) -> Result<Self, InvalidSmtpUrl> {
        smtp::Server::parse(url, None).map(|server| Self(Arc::new(Destination::Smtp(server))))
    }

    /// The same, trusting one more certificate authority (PEM), for a server with a certificate of a private one.
    pub fn smtp_trusting(url: &str, authority: &[u8]) -> Result<Self, InvalidSmtpUrl> {
        smtp::Server::parse(url, Some(authority)).map(|server| Self(Arc::new(Destination::Smtp(server))))
    }

    /// Into a directory, one `.eml` file a mail, for our eyes only. Makes the directory where there is none.
    pub fn files(directory: impl Into<PathBuf>) -> std::io::Result<Self> {
        let directory = directory.into();
        files::prepare(&directory)?;
        Ok(Self(Arc::new(Destination::Files(directory))))
    }

    pub(super) async fn send(&self, posting: Posting) -> Result<(), Failure> {
        match &*self.0 {
            Destination::Smtp(server) => server.send(&posting.envelope, &posting.bytes).await,
            Destination::Files(directory) => files::write(directory.clone(), posting).await,
        }
    }
}
