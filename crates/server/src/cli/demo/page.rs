//! The output of the demo: colour on a terminal, plain text in a pipe or if `NO_COLOR` is set.

use std::cell::{Cell, RefCell};
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use client::api::Signal;
use client::webhook::Unverified;
use client::{Answer, AnswerValue, SignalType};
use serde_json::Value;

use super::story::Activity;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const NAME: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const BAR: u8 = 20;

/// Writes the story to standard output and numbers its chapters.
pub(super) struct Page {
    out: RefCell<anstream::AutoStream<std::io::Stdout>>,
    chapters: Cell<u32>,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { out: RefCell::new(anstream::stdout()), chapters: Cell::new(0) }
    }

    /// Writes a line. A stream that was closed early is not an error.
    fn line(&self, text: &str) {
        let _ = writeln!(self.out.borrow_mut(), "{text}");
    }

    pub(super) fn title(&self, name: &str, claim: &str) {
        self.line(&format!("\n{BOLD}{name}{BOLD:#}  {claim}"));
    }

    pub(super) fn chapter(&self, title: &str, explanation: &str) {
        let number = self.chapters.get() + 1;
        self.chapters.set(number);
        self.line(&format!("\n{BOLD}{number}. {title}{BOLD:#}"));
        if !explanation.is_empty() {
            self.line(&format!("   {explanation}"));
        }
    }

    pub(super) fn note(&self, text: &str) {
        self.line(&format!("   {text}"));
    }

    /// A request and its outcome.
    pub(super) fn call(&self, request: &str, outcome: &str) {
        self.line(&format!("   {DIM}{request}  →  {outcome}{DIM:#}"));
    }

    pub(super) fn question(&self, signal: &Signal, instructions: &str) {
        let answer = match signal.kind {
            SignalType::Noul => "the probability of yes",
            SignalType::Score => "a position on a scale",
            SignalType::Choice => "one of several options",
        };
        self.line(&format!("\n   {NAME}{}{NAME:#}  {DIM}{answer}{DIM:#}", signal.key));
        let sentence = instructions.split_inclusive(". ").next().unwrap_or_default();
        self.line(&format!("      {}", sentence.trim_end()));
        for level in criteria(signal) {
            self.line(&format!("      {DIM}· {level}{DIM:#}"));
        }
    }

    pub(super) fn object(&self, id: &str, about: &str) {
        self.line(&format!("\n   {NAME}{id}{NAME:#}  {about}"));
    }

    pub(super) fn activity(&self, activity: &Activity) {
        self.line(&match activity {
            Activity::Did(name, detail) => format!("      {name:18} {DIM}{detail}{DIM:#}"),
            Activity::Said(text) => format!("      “{text}”"),
        });
    }

    pub(super) fn answers(&self, answers: &[Answer], signals: &[Signal]) {
        for answer in answers {
            let signal = signals.iter().find(|signal| signal.key == answer.signal);
            let levels = signal.map(criteria).unwrap_or_default();
            let shown = match answer.value.kind {
                SignalType::Noul => probability(answer.value.noul.unwrap_or(0.0)),
                SignalType::Score => score(answer.value.score.unwrap_or(0.0), &levels),
                SignalType::Choice => choice(&answer.value),
            };
            self.line(&format!("      {:14} {shown}", answer.signal));
        }
    }

    pub(super) fn firing(&self, object_id: &str, when: &str, values: Option<&Value>) {
        let values = values.map(Value::to_string).unwrap_or_default();
        self.line(&format!("   {BAD}fired{BAD:#}  {NAME}{object_id}{NAME:#}  {when}  {DIM}{values}{DIM:#}"));
    }

    pub(super) fn delivery(&self, what: &str, failure: Option<&Unverified>) {
        self.line(&match failure {
            None => format!("   {GOOD}✓ signature fits{GOOD:#}  {what}"),
            Some(reason) => format!("   {BAD}✗ {reason}{BAD:#}  {what}"),
        });
    }

    pub(super) fn found(&self, object_id: &str, risk: f64) {
        self.line(&format!("      {NAME}{object_id:24}{NAME:#} {}", probability(risk)));
    }

    pub(super) fn money(&self, what: &str, micros: i64) {
        #[expect(clippy::cast_precision_loss, reason = "a demo's money")]
        let dollars = micros as f64 / 1e6;
        self.line(&format!("      {what:8} ${dollars:.6}"));
    }
}

/// The options of a signal, or the headings of its levels.
fn criteria(signal: &Signal) -> Vec<String> {
    let parsed = signal.criteria.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    match parsed {
        Some(Value::Array(levels)) => levels.iter().filter_map(Value::as_str).map(head).collect(),
        Some(Value::Object(options)) if signal.kind == SignalType::Choice => {
            options.keys().cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// The text before the first colon, or all of it.
fn head(text: &str) -> String {
    text.split(':').next().unwrap_or(text).to_owned()
}

fn probability(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to the length of the bar"
    )]
    let filled = (value.clamp(0.0, 1.0) * f64::from(BAR)).round() as usize;
    let style = if value > 0.5 { BAD } else { GOOD };
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(usize::from(BAR) - filled));
    format!("{style}{bar} {value:.2}{style:#}")
}

fn score(value: f64, levels: &[String]) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a level")]
    let nearest = value.round().max(0.0) as usize;
    let top = levels.len().saturating_sub(1);
    let level = levels.get(nearest).map(String::as_str).unwrap_or_default();
    format!("{value:.2} of {top}, {level}")
}

fn choice(answer: &AnswerValue) -> String {
    let chosen = answer.choice.as_deref().unwrap_or_default();
    let share = answer.probabilities.as_ref().and_then(|all| all.get(chosen)).copied().unwrap_or(0.0);
    format!("{chosen}, {:.0} % sure", share * 100.0)
}
