//! What the process's environment says: the only place of this crate that reads it.

use std::path::PathBuf;

/// A variable that is set and not empty.
#[expect(clippy::disallowed_methods, reason = "a command of a person has no server::config")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The key and the secret in `AUSPEX_KEY` and `AUSPEX_SECRET`, each if it is set.
pub(crate) fn key_and_secret() -> (Option<String>, Option<String>) {
    (variable("AUSPEX_KEY"), variable("AUSPEX_SECRET"))
}

/// Whether the person asks for no colours, or the terminal has none.
pub(crate) fn refuses_colours() -> bool {
    variable("NO_COLOR").is_some() || variable("TERM").is_some_and(|terminal| terminal == "dumb")
}

/// The folder of this program's files of the user: `$XDG_CONFIG_HOME/auspex`, or `~/.config/auspex`.
pub(crate) fn configuration_folder() -> Option<PathBuf> {
    // By the XDG specification, a path that is not absolute is ignored.
    let configured = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = configured.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(folder.join("auspex"))
}

/// The program that the person chose to open pages with.
pub(crate) fn browser() -> Option<String> {
    variable("BROWSER")
}

/// Whether there is a screen that a browser could open a window on.
pub(crate) fn has_screen() -> bool {
    variable("DISPLAY").is_some() || variable("WAYLAND_DISPLAY").is_some()
}

/// Whether the person is on this machine through SSH.
pub(crate) fn is_remote() -> bool {
    variable("SSH_CONNECTION").is_some()
}
