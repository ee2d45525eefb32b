//! The disk that the data directory is on: how much is free, and when that is too little.

use std::path::Path;

use model::api::{HealthPart, HealthState};

/// Free space below which writes fail soon.
const LITTLE_SPACE: u64 = 256 << 20;
/// Free space that is worth looking at.
const SOME_SPACE: u64 = 2 << 30;
const MAKE_ROOM: &str =
    "make room: delete old backups, shorten the retention of events, or use a larger disk";

/// What was found, and what to do about it.
pub(crate) struct DiskFinding {
    pub(crate) state: HealthState,
    pub(crate) found: String,
    pub(crate) advice: Option<&'static str>,
}

/// Looks at the disk of a directory, which need not exist yet.
pub(crate) fn free(directory: &Path) -> DiskFinding {
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let finding = |state, found, advice| DiskFinding { state, found, advice };
    let space = match rustix::fs::statvfs(existing) {
        Ok(space) => space,
        Err(error) => {
            return finding(HealthState::Bad, error.to_string(), Some("make the data directory readable"));
        }
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let found =
        format!("{} MiB free of {} MiB", free >> 20, space.f_blocks.saturating_mul(space.f_frsize) >> 20);
    match free {
        _ if space.f_files > 0 && space.f_favail == 0 => {
            finding(HealthState::Bad, "no inode is free".to_owned(), Some("delete small files on this disk"))
        }
        0..LITTLE_SPACE => finding(HealthState::Bad, found, Some(MAKE_ROOM)),
        LITTLE_SPACE..SOME_SPACE => finding(HealthState::Worry, found, Some(MAKE_ROOM)),
        _ => finding(HealthState::Good, found, None),
    }
}

impl DiskFinding {
    /// As a part of the install's health.
    pub(crate) fn judged(self) -> HealthPart {
        let advice = match self.advice {
            None => format!("{} on this node's disk.", self.found),
            Some(advice) => format!("On this node's disk: {}; {advice}.", self.found),
        };
        HealthPart { state: self.state, advice }
    }
}
