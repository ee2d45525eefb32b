//! The credentials of this machine, a profile each, in a file that only its owner can read.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::environment;
use crate::failure::Failure;

/// The profile that is used where none is named.
pub(crate) const DEFAULT: &str = "default";

/// The credentials of one account on one service.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The URL of the service.
    pub(crate) url: String,
    /// The public id of the API key.
    pub(crate) key: String,
    /// The secret of the key.
    pub(crate) secret: String,
    /// The id by which the key is revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
}

/// All profiles of the user, and the file that holds them.
pub(crate) struct Profiles {
    path: PathBuf,
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the file; without one there are no profiles.
    pub(crate) fn read() -> Result<Self, Failure> {
        let folder = environment::configuration_folder().ok_or_else(|| {
            Failure::other("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for credentials")
        })?;
        let path = folder.join("credentials.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(reason) => return Err(Failure::other(format!("{}: {reason}", path.display()))),
        };
        // The message of the parser would quote the line, which may hold a secret.
        let profiles = toml::from_str(&text).map_err(|_| {
            Failure::other(format!("{} is damaged: sign in again after removing it", path.display()))
        })?;
        Ok(Self { path, profiles })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// The names of all profiles.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.profiles.keys().map(String::as_str).collect()
    }

    /// The file, if others than its owner can read it.
    pub(crate) fn readable_by_others(&self) -> Option<&std::path::Path> {
        let mode = std::fs::metadata(&self.path).ok()?.permissions().mode();
        (mode & 0o077 != 0).then_some(self.path.as_path())
    }

    /// Adds or replaces a profile, and writes the file.
    pub(crate) fn put(&mut self, name: &str, profile: Profile) -> Result<(), Failure> {
        self.profiles.insert(name.to_owned(), profile);
        self.write()
    }

    /// Removes a profile, and writes the file.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.profiles.remove(name);
        self.write()
    }

    /// Writes a new file and gives it the name at the end, so that a crash leaves the old one.
    fn write(&self) -> Result<(), Failure> {
        let failed = |reason: std::io::Error| Failure::other(format!("{}: {reason}", self.path.display()));
        let folder = self.path.parent().unwrap_or(&self.path);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let text = toml::to_string(&self.profiles).map_err(Failure::other)?;
        // Such a file is made with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&self.path).map_err(|failure| failed(failure.error))?;
        Ok(())
    }
}
