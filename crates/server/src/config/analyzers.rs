//! The settings of both analyzers, which differ only in their names, and their checks.

use std::time::Duration;

use url::Url;

use super::error::ConfigError;
use super::sources::{PREFIX, Secret, Settings};
use super::values::{AnalyzerKind, Millis};

/// The analyzer.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in the specification")]
pub struct Analyzer {
    pub kind: AnalyzerKind,
    pub url: Option<Url>,
    pub api_key: Option<Secret>,
    pub model: Option<String>,
    pub timeout: Duration,
}

/// The second analyzer, which is asked where the first is unsure, and what an account may have it answer.
#[derive(Clone, Debug)]
pub struct Escalation {
    /// The analyzer.
    pub analyzer: Option<Analyzer>,
    /// Answers that an account may escalate on a day; 0 is no limit.
    pub per_day: u32,
    /// What they may cost an account on a day, in micro-dollars; 0 is no limit.
    pub micros_per_day: u64,
    /// Settings of a second analyzer that there is none of.
    unused: Vec<&'static str>,
}

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

impl Analyzer {
    pub(super) fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            kind: set.value("analyzer", "embedded")?,
            url: set.optional("analyzer_url")?,
            api_key: set.secret("analyzer_api_key")?,
            model: set.optional("analyzer_model")?,
            timeout: set.value::<Millis>("analyzer_timeout_ms", "30000")?.0,
        })
    }
}

impl Escalation {
    /// All settings are read, so that they are known, also without a second analyzer.
    pub(super) fn read(set: &mut Settings) -> Result<Self, ConfigError> {
        let kind: Option<AnalyzerKind> = set.optional("escalate_analyzer")?;
        let url = set.optional("escalate_url")?;
        let model = set.optional("escalate_model")?;
        let api_key = set.secret("escalate_api_key")?;
        let timeout = set.value::<Millis>("escalate_timeout_ms", "30000")?.0;
        let given = [("url", url.is_some()), ("model", model.is_some()), ("api_key", api_key.is_some())];
        let is_unused = |is_given: bool| is_given && kind.is_none();
        Ok(Self {
            unused: given.into_iter().filter(|given| is_unused(given.1)).map(|given| given.0).collect(),
            analyzer: kind.map(|kind| Analyzer { kind, url, api_key, model, timeout }),
            per_day: set.value("escalate_per_day", "0")?,
            micros_per_day: set.value("escalate_micros_per_day", "0")?,
        })
    }
}

/// Both analyzers, with the names of their settings.
fn both<'a>(
    first: &'a Analyzer,
    escalation: &'a Escalation,
) -> impl Iterator<Item = (&'static AnalyzerNames, &'a Analyzer)> {
    std::iter::once((&FIRST, first)).chain(escalation.analyzer.iter().map(|second| (&SECOND, second)))
}

/// Checks both analyzers. An error names the setting and says what is wrong with it.
pub(super) fn check(first: &Analyzer, escalation: &Escalation) -> Result<(), (&'static str, String)> {
    for (names, settings) in both(first, escalation) {
        check_one(names, settings)?;
    }
    let second = escalation.analyzer.as_ref().map(|second| second.kind);
    if first.kind == AnalyzerKind::Embedded && second == Some(AnalyzerKind::Embedded) {
        let reason = "the embedded model is the first analyzer already, and would answer the same";
        return Err((SECOND.kind, reason.to_owned()));
    }
    Ok(())
}

/// An analyzer behind HTTP needs the base URL of its server, and most servers the name of a model.
fn check_one(names: &AnalyzerNames, settings: &Analyzer) -> Result<(), (&'static str, String)> {
    let Some(operation) = settings.kind.operation() else { return Ok(()) };
    let Some(url) = &settings.url else {
        return Err((names.url, "this analyzer needs the address of its server".to_owned()));
    };
    if url.path().trim_end_matches('/').ends_with(operation) {
        let reason = format!("{url} ends with /{operation}, which is added to it: leave that out");
        return Err((names.url, reason));
    }
    if settings.kind != AnalyzerKind::Systemone && settings.model.is_none() {
        return Err((names.model, "this analyzer needs the name of a model of its server".to_owned()));
    }
    Ok(())
}

/// Warnings about base URLs that are most likely incomplete, and about settings without an analyzer.
pub(super) fn warnings(first: &Analyzer, escalation: &Escalation) -> Vec<String> {
    let warning = |(names, settings): (&AnalyzerNames, &Analyzer)| {
        let operation = settings.kind.operation()?;
        let url = settings.url.as_ref().filter(|url| matches!(url.path(), "" | "/"))?;
        let (url, name) = (url.as_str().trim_end_matches('/'), names.url.to_ascii_uppercase());
        Some(format!(
            "{PREFIX}{name} has no path, so {url}/{operation} is called; most servers answer at {url}/v1/{operation}"
        ))
    };
    let unused = escalation.unused.iter().map(|name| {
        let name = name.to_ascii_uppercase();
        format!("{PREFIX}ESCALATE_{name} has no effect without {PREFIX}ESCALATE_ANALYZER: there is no second analyzer")
    });
    both(first, escalation).filter_map(warning).chain(unused).collect()
}
