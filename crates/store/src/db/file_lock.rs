//! The lock of the one process that serves from a SQLite file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::db::connect::sqlite_path;
use crate::db::error::{Error, Result};

/// Held by the process that serves from a SQLite file, as long as it lives: the system releases the lock however the process
/// ends. A process starts by ending the leases of the one before it, so a second one beside it would run its work twice.
/// Commands that only read or change some rows need no lock.
///
/// The lock is on a file of its own, because closing any other handle of the database's file would release SQLite's locks.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock of the database at `url`; none on PostgreSQL, which any number of processes share.
    pub fn take(url: &str) -> Result<Option<Self>> {
        let Some(path) = sqlite_path(url) else { return Ok(None) };
        // By whatever name it is opened, a database has one lock.
        let lock = lock_path(&path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let cannot_use = |cause| Error::Address(format!("cannot use {}: {cause}", lock.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .map_err(cannot_use)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(in_use(path, &mut file))),
            Err(TryLockError::Error(cause)) => return Err(cannot_use(cause)),
        }
        // Only for the message above, in another process: a full disk does not keep the service from starting.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Some(Self { _file: file }))
    }
}

/// The file beside the database that is locked.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    PathBuf::from(name)
}

fn in_use(path: &Path, lock: &mut File) -> String {
    let mut holder = String::new();
    // The holder may just be writing its number.
    let process = match lock.take(20).read_to_string(&mut holder).ok().and(holder.trim().parse::<u32>().ok())
    {
        Some(process) => format!(" (process {process})"),
        None => String::new(),
    };
    format!(
        "another auspex{process} is serving from {}: stop it first, or use PostgreSQL to run several",
        path.display()
    )
}
