//! Looks a setting up in its sources, which `config.rs` has read: the environment first, then the file, then the default.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use super::error::ConfigError;

/// The prefix of every variable's name.
pub const PREFIX: &str = "AUSPEX_";

/// Variables with our prefix that are not settings: the configuration file, and what the commands of an account read.
const NOT_SETTINGS: [&str; 8] =
    ["config", "url", "profile", "key", "secret", "api_key", "api_secret", "webhook_secret"];

/// All values that were set, by name in lower case without the prefix, and the settings read so far.
pub(super) struct Settings {
    environment: BTreeMap<String, String>,
    file: toml::Table,
    effective: Vec<Setting>,
}

/// One effective setting, as `auspex config` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in lower case, without the prefix.
    pub name: &'static str,
    /// Its value, masked if it is a secret.
    pub shown: String,
    /// Where the value comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A variable of the environment.
    Environment,
    /// The file that `AUSPEX_CONFIG` names.
    File,
    /// It is not set.
    Default,
}

impl Settings {
    /// Keeps the variables with our prefix.
    pub(super) fn new(environment: impl Iterator<Item = (String, String)>, file: toml::Table) -> Self {
        let environment = environment
            .filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_ascii_lowercase(), value)))
            .collect();
        Self { environment, file, effective: Vec::new() }
    }

    /// Reads a setting, or its default.
    pub(super) fn value<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
        default: &str,
    ) -> Result<T, ConfigError> {
        let (text, origin) = self.look_up(name)?.unwrap_or_else(|| (default.to_owned(), Origin::Default));
        self.effective.push(Setting { name, shown: text.clone(), origin });
        parse(name, &text, origin)
    }

    /// Reads a setting, if it is set.
    pub(super) fn optional<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        let Some((text, origin)) = self.look_up(name)? else {
            self.effective.push(Setting { name, shown: String::new(), origin: Origin::Default });
            return Ok(None);
        };
        self.effective.push(Setting { name, shown: text.clone(), origin });
        parse(name, &text, origin).map(Some)
    }

    /// Reads a setting that must not be shown, if it is set.
    pub(super) fn secret(&mut self, name: &'static str) -> Result<Option<Secret>, ConfigError> {
        let found = self.look_up(name)?;
        let (shown, origin) = match &found {
            Some((_, origin)) => ("********".to_owned(), *origin),
            None => (String::new(), Origin::Default),
        };
        self.effective.push(Setting { name, shown, origin });
        Ok(found.map(|(text, _)| Secret(text)))
    }

    /// Reads a table of the file.
    pub(super) fn table(&mut self, name: &'static str) -> Result<toml::Table, ConfigError> {
        let (table, origin) = match self.file.get(name) {
            None => (toml::Table::new(), Origin::Default),
            Some(toml::Value::Table(table)) => (table.clone(), Origin::File),
            Some(_) => return Err(ConfigError::invalid(name, Origin::File, "it must be a table")),
        };
        self.effective.push(Setting {
            name,
            shown: table.to_string().replace('\n', " ").trim().to_owned(),
            origin,
        });
        Ok(table)
    }

    fn look_up(&self, name: &'static str) -> Result<Option<(String, Origin)>, ConfigError> {
        if let Some(text) = self.environment.get(name) {
            // Shells and compose files unset a variable by making it empty.
            return Ok((!text.is_empty()).then(|| (text.clone(), Origin::Environment)));
        }
        let text = match self.file.get(name) {
            None => return Ok(None),
            Some(toml::Value::String(text)) => text.clone(),
            Some(toml::Value::Integer(number)) => number.to_string(),
            Some(toml::Value::Float(number)) => number.to_string(),
            Some(toml::Value::Boolean(flag)) => flag.to_string(),
            Some(toml::Value::Array(items)) => {
                let texts: Option<Vec<_>> = items.iter().map(toml::Value::as_str).collect();
                texts
                    .ok_or_else(|| ConfigError::invalid(name, Origin::File, "its items must be texts"))?
                    .join(",")
            }
            Some(_) => return Err(ConfigError::invalid(name, Origin::File, "it must be a single value")),
        };
        Ok(Some((text, Origin::File)))
    }

    /// Returns the settings that were read, and warnings. An unknown name is an error in the file, and a warning in the
    /// environment.
    pub(super) fn finish(self) -> Result<(Vec<Setting>, Vec<String>), ConfigError> {
        let known = |name: &str| self.effective.iter().any(|setting| setting.name == name);
        if let Some(unknown) = self.file.keys().find(|name| !known(name)) {
            return Err(ConfigError::new(format!(
                "the configuration file sets {unknown}, which is no setting"
            )));
        }
        let unknown =
            self.environment.keys().filter(|name| !known(name) && !NOT_SETTINGS.contains(&name.as_str()));
        let warnings = unknown
            .map(|name| {
                format!("{PREFIX}{} is set and is no setting of this service", name.to_ascii_uppercase())
            })
            .collect();
        Ok((self.effective, warnings))
    }
}

fn parse<T: FromStr<Err: Display>>(name: &'static str, text: &str, origin: Origin) -> Result<T, ConfigError> {
    text.parse().map_err(|reason| ConfigError::invalid(name, origin, format!("`{text}`: {reason}")))
}

impl ConfigError {
    /// An error about a setting, named as in the source that set it.
    pub(super) fn invalid(name: &str, origin: Origin, reason: impl Display) -> Self {
        Self::new(match origin {
            Origin::File => format!("{name} in the configuration file is not valid: {reason}"),
            Origin::Environment | Origin::Default => {
                format!("{PREFIX}{} is not valid: {reason}", name.to_ascii_uppercase())
            }
        })
    }
}

/// A secret, which is masked in debug output.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("********")
    }
}
