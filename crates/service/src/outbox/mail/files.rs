//! Mails written to files, for a deployment without a mail server. Each file is written atomically.

use std::fs::{DirBuilder, File, OpenOptions, remove_file, rename};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::message::{EncodedMail, SEND_DEADLINE};
use crate::outbox::worker::Failure;
use crate::runtime::Result;

/// Creates the directory, accessible only to this user: mails contain reset links.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Writes a mail. A retry overwrites the same file.
pub(super) async fn write(directory: PathBuf, mail: EncodedMail) -> Result<(), Failure> {
    let writing = tokio::task::spawn_blocking(move || write_file(&directory, &mail));
    match tokio::time::timeout(SEND_DEADLINE, writing).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(Failure::later(format!("the mail directory: {error}"))),
        Ok(Err(_)) => Err(Failure::later("the file's writer broke off")),
        Err(_) => Err(Failure::later("the file was not written in time")),
    }
}

fn write_file(directory: &Path, mail: &EncodedMail) -> io::Result<()> {
    // Every claim has its own number, so no two writers share this file.
    let temporary = directory.join(format!(".{}.{}.tmp", mail.name, mail.claim));
    let written = write_durably(&temporary, &mail.bytes)
        .and_then(|()| rename(&temporary, directory.join(format!("{}.eml", mail.name))))
        .and_then(|()| File::open(directory)?.sync_all());
    if written.is_err() {
        // Best effort: the attempt has already failed, and its error is returned.
        let _ = remove_file(&temporary);
    }
    written
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
