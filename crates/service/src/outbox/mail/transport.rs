//! How mails are sent: over SMTP, or to files if there is no mail server.

use std::path::PathBuf;
use std::sync::Arc;

use super::files;
use super::message::EncodedMail;
use super::smtp::{self, InvalidSmtpUrl};
use crate::outbox::worker::Failure;
use crate::runtime::Result;

/// Sends mails. Cheap to clone. It contains a password, so it has no `Debug`.
#[derive(Clone)]
pub struct Transport(Arc<Destination>);

enum Destination {
    Smtp(smtp::Server),
    Files(PathBuf),
}

impl Transport {
    /// Sends to the mail server at a URL.
    ///
    /// | URL | |
    /// |---|---|
    /// | `smtps://user:password@host:465` | TLS from the first byte |
    /// | `smtp://user:password@host:587` | STARTTLS, and nothing is sent without it |
    /// | `smtp://host:25?tls=none` | no encryption: for a server on the same machine |
    ///
    /// The ports shown are the defaults. User and password are optional; characters with a meaning in URLs are
    /// percent-encoded.
    pub fn smtp(url: &str) -> Result<Self, InvalidSmtpUrl> {
        smtp::Server::parse(url, None).map(|server| Self(Arc::new(Destination::Smtp(server))))
    }

    /// Like [`Self::smtp`], trusting one more certificate authority (PEM), for a server with a private one.
    pub fn smtp_trusting(url: &str, authority: &[u8]) -> Result<Self, InvalidSmtpUrl> {
        smtp::Server::parse(url, Some(authority)).map(|server| Self(Arc::new(Destination::Smtp(server))))
    }

    /// Writes each mail to an `.eml` file in a directory that only this user can read. Creates the directory if needed.
    pub fn files(directory: impl Into<PathBuf>) -> std::io::Result<Self> {
        let directory = directory.into();
        files::prepare(&directory)?;
        Ok(Self(Arc::new(Destination::Files(directory))))
    }

    /// Whether mails could be sent now, without sending one; the reason why not. The caller sets the deadline.
    pub async fn probe(&self) -> Result<(), String> {
        match &*self.0 {
            Destination::Smtp(server) => server.probe().await,
            Destination::Files(_) => Ok(()),
        }
    }

    /// Whether it writes files.
    pub(super) fn writes_files(&self) -> bool {
        matches!(*self.0, Destination::Files(_))
    }

    pub(super) async fn send(&self, mail: EncodedMail) -> Result<(), Failure> {
        match &*self.0 {
            Destination::Smtp(server) => server.send(&mail.envelope, &mail.bytes).await,
            Destination::Files(directory) => files::write(directory.clone(), mail).await,
        }
    }
}
