//! The checks of both analyzers' settings, which differ only in their names.

use super::{Analyzer, AnalyzerKind, Config, ConfigError, PREFIX};

/// The names of an analyzer's settings.
pub(crate) struct AnalyzerNames {
    /// What answers.
    pub(crate) kind: &'static str,
    /// The base URL of its server.
    pub(crate) url: &'static str,
    model: &'static str,
}

/// The first analyzer's.
pub(crate) const FIRST: AnalyzerNames =
    AnalyzerNames { kind: "analyzer", url: "analyzer_url", model: "analyzer_model" };
/// The second analyzer's.
pub(crate) const SECOND: AnalyzerNames =
    AnalyzerNames { kind: "escalate_analyzer", url: "escalate_url", model: "escalate_model" };

impl Config {
    /// Both analyzers, with the names of their settings.
    fn analyzers(&self) -> impl Iterator<Item = (&AnalyzerNames, &Analyzer)> {
        let second = self.escalation.analyzer.iter().map(|second| (&SECOND, second));
        std::iter::once((&FIRST, &self.analyzer)).chain(second)
    }

    pub(super) fn check_analyzers(&self) -> Result<(), ConfigError> {
        for (names, settings) in self.analyzers() {
            self.check_analyzer(names, settings)?;
        }
        let second = self.escalation.analyzer.as_ref().map(|second| second.kind);
        if self.analyzer.kind == AnalyzerKind::Embedded && second == Some(AnalyzerKind::Embedded) {
            let reason = "the embedded model is the first analyzer already, and would answer the same";
            return Err(self.invalid(SECOND.kind, &reason));
        }
        Ok(())
    }

    /// An analyzer behind HTTP needs the base URL of its server, and most servers the name of a model.
    fn check_analyzer(&self, names: &AnalyzerNames, settings: &Analyzer) -> Result<(), ConfigError> {
        let Some(operation) = settings.kind.operation() else { return Ok(()) };
        let Some(url) = &settings.url else {
            return Err(self.invalid(names.url, &"this analyzer needs the address of its server"));
        };
        if url.path().trim_end_matches('/').ends_with(operation) {
            let reason = format!("{url} ends with /{operation}, which is added to it: leave that out");
            return Err(self.invalid(names.url, &reason));
        }
        if settings.kind != AnalyzerKind::Systemone && settings.model.is_none() {
            return Err(self.invalid(names.model, &"this analyzer needs the name of a model of its server"));
        }
        Ok(())
    }

    /// Warnings about base URLs that are most likely incomplete.
    pub(super) fn warn_of_analyzers(&self) -> Vec<String> {
        let warning = |(names, settings): (&AnalyzerNames, &Analyzer)| {
            let operation = settings.kind.operation()?;
            let url = settings.url.as_ref().filter(|url| matches!(url.path(), "" | "/"))?;
            let (url, name) = (url.as_str().trim_end_matches('/'), names.url.to_ascii_uppercase());
            Some(format!(
                "{PREFIX}{name} has no path, so {url}/{operation} is called; most servers answer at {url}/v1/{operation}"
            ))
        };
        self.analyzers().filter_map(warning).collect()
    }
}
