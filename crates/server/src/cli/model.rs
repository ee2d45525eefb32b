//! `auspex model`: how good the configured model is on labelled lines of one's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use analyzer::{Analyzer, Inquiry};
use clap::{Args, Subcommand};
use futures_util::{StreamExt as _, TryStreamExt as _};
use indexmap::IndexMap;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::api::{EventInput, Figure, LabelValue, SignalInput, SignalQuality};
use model::quality::escalation::{Compared, error_at};
use model::quality::{ClassAnswer, Classes, Costs, Labelled, Scope, YesNoAnswer};
use model::{Answer, AnswerValue, History, HistoryEvent, Question, SignalType, Timestamp, event};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use service::Clock;

use super::table::Table;
use super::{CommandResult, print_line};
use crate::config::Config;
use crate::{assembly, parse_errors};

/// Lines that are asked about at a time.
const CONCURRENT: usize = 4;
/// Shares of answers that a second analyzer may get, in percent.
const SHARES: [f64; 7] = [0.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0];
/// The type of an object whose line names none.
const OBJECT_TYPE: &str = "user";

/// What to do with the model.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Ask the configured analyzer labelled questions, and print how often it is right.
    ///
    /// Each line of the file is JSON: `text` (one message) or `events` (as the API takes them) with `object_type`; `value` (what is
    /// true, as in a label); and `signal` (type, instructions, criteria), unless --signal gives it for all lines. Nothing is recorded.
    Eval(EvalArguments),
}

#[derive(Args)]
pub(super) struct EvalArguments {
    /// The labelled lines.
    file: PathBuf,
    /// A file with the signal that is asked about all lines that have none of their own.
    #[arg(long)]
    signal: Option<PathBuf>,
    /// Print the figures as JSON, in the shape of `GET /v1/signals/{key}/quality`.
    #[arg(long)]
    json: bool,
    /// Also print the error that is left when the least certain answers go to a second analyzer that is right in this share of cases.
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "json")]
    second_accuracy: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it must be 0 to 1".to_owned())
}

/// A labelled line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    text: Option<String>,
    events: Option<Vec<EventInput>>,
    object_type: Option<String>,
    signal: Option<Box<RawValue>>,
    value: Value,
}

/// A line that can be asked about.
struct Case {
    /// Its number in the file.
    line: usize,
    state: String,
    question: Arc<Question>,
    value: LabelValue,
}

pub(super) async fn run(command: Command, config: &Config) -> CommandResult {
    let Command::Eval(arguments) = command;
    let now = Clock::system().now();
    let cases = read(&arguments, now)?;
    let analyzer = assembly::analyzer(config)?;
    let answers = ask(analyzer.as_ref(), &cases).await?;
    let reports = reports(&cases, &answers, now);
    if arguments.json {
        print_line(&serde_json::to_string_pretty(&reports)?);
    } else {
        print(&reports, analyzer.model());
        if let Some(accuracy) = arguments.second_accuracy {
            print_escalations(&cases, &answers, accuracy);
        }
    }
    Ok(())
}

/// Reads the file. Nothing is asked if a line is wrong.
fn read(arguments: &EvalArguments, now: Timestamp) -> Result<Vec<Case>, Box<dyn std::error::Error>> {
    let for_all = arguments.signal.as_deref().map(read_file).transpose()?;
    let text = read_file(&arguments.file)?;
    let mut questions: IndexMap<String, Arc<Question>> = IndexMap::new();
    let mut cases = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let case = parse((number, line), for_all.as_deref(), &mut questions, now);
        cases.push(case.map_err(|reason| format!("{}, line {number}: {reason}", arguments.file.display()))?);
    }
    if cases.is_empty() {
        return Err(format!("{} has no line", arguments.file.display()).into());
    }
    Ok(cases)
}

fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(
    (number, line): (usize, &str),
    for_all: Option<&str>,
    questions: &mut IndexMap<String, Arc<Question>>,
    now: Timestamp,
) -> Result<Case, String> {
    let line: Line =
        serde_json::from_str(line).map_err(|_| parse_errors::explain::<Line>(line.as_bytes()))?;
    let signal = line.signal.as_deref().map(RawValue::get).or(for_all);
    let signal = signal.ok_or("signal: it is required without --signal")?;
    let question = if let Some(known) = questions.get(signal) {
        Arc::clone(known)
    } else {
        let new = Arc::new(question(signal, questions.len() + 1)?);
        questions.insert(signal.to_owned(), Arc::clone(&new));
        new
    };
    let events = match (line.text, line.events) {
        (Some(text), None) => vec![EventInput::message(text)],
        (None, Some(events)) => events,
        _ => return Err("text: give text or events".to_owned()),
    };
    let events = event::check_events(events, event::MAX_EVENTS, now)?;
    let history = History {
        object_type: line.object_type.unwrap_or_else(|| OBJECT_TYPE.to_owned()),
        display_name: None,
        summary: None,
        recent: events.iter().zip(1..).map(|(event, seq)| HistoryEvent::of(event, seq, now)).collect(),
    };
    let value = LabelValue::about(&question, &line.value)?;
    Ok(Case { line: number, state: history.render(), question, value })
}

fn question(signal: &str, number: usize) -> Result<Question, String> {
    let input: SignalInput = serde_json::from_str(signal)
        .map_err(|_| format!("signal.{}", parse_errors::explain::<SignalInput>(signal.as_bytes())))?;
    let criteria = input.criteria.as_deref().map(RawValue::get);
    Question::parse(&format!("question_{number}"), input.kind, input.instructions.get(), criteria)
        .map_err(|error| format!("signal.{error}"))
}

/// Asks about all lines, in their order, and shows how far it is.
async fn ask(
    analyzer: &dyn Analyzer,
    cases: &[Case],
) -> Result<Vec<AnswerValue>, Box<dyn std::error::Error>> {
    let progress = ProgressBar::with_draw_target(Some(cases.len() as u64), ProgressDrawTarget::stderr());
    let template = "{bar:30.cyan} {pos} of {len}  {eta} left";
    progress
        .set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    let asked = futures_util::stream::iter(cases).map(async |case| {
        let questions = std::slice::from_ref(case.question.as_ref());
        let inquiry = Inquiry { state: &case.state, questions, is_urgent: false, tenant: None };
        let findings =
            analyzer.analyze(inquiry).await.map_err(|error| format!("line {}: {error}", case.line))?;
        progress.inc(1);
        let distribution = findings.answers.into_iter().next().and_then(Result::ok);
        let answer = distribution.and_then(|distribution| Answer::new(&case.question, &distribution).ok());
        answer.map(|answer| answer.value).ok_or_else(|| format!("line {}: no answer", case.line))
    });
    let answers = asked.buffered(CONCURRENT).try_collect().await?;
    progress.finish_and_clear();
    Ok(answers)
}

/// The figures of each question, in the order of the file.
fn reports(cases: &[Case], answers: &[AnswerValue], at: Timestamp) -> Vec<SignalQuality> {
    let mut by_question: IndexMap<&str, Vec<(&Case, &AnswerValue)>> = IndexMap::new();
    for (case, answer) in cases.iter().zip(answers) {
        by_question.entry(&case.question.key).or_default().push((case, answer));
    }
    by_question.into_values().filter_map(|answered| report(&answered, at)).collect()
}

fn report(answered: &[(&Case, &AnswerValue)], at: Timestamp) -> Option<SignalQuality> {
    let question = &answered.first()?.0.question;
    let scope = Scope { signal: question.key.clone(), kind: question.kind, version: None };
    if question.kind == SignalType::Noul {
        let yes_no = answered.iter().filter_map(|(case, answer)| {
            Some(Labelled { answer: case.value.compare_yes_no(answer)?, at, audit: true })
        });
        return Some(scope.yes_no(&yes_no.collect::<Vec<_>>(), Costs { false_yes: 1.0, false_no: 1.0 }));
    }
    let mut classes = Classes::new(question.candidates.iter().map(|candidate| candidate.name.clone()));
    let mut labelled: Vec<Labelled<ClassAnswer>> = Vec::new();
    for (case, answer) in answered {
        let compared = case.value.compare_class(&mut classes, answer);
        labelled.extend(compared.map(|answer| Labelled { answer, at, audit: true }));
    }
    Some(scope.classes(&classes, &labelled))
}

fn print(reports: &[SignalQuality], model: &str) {
    print_line(&format!("Answers of {model}; figures with their 95 % intervals."));
    let mut table = Table::new(&[
        "QUESTION",
        "TYPE",
        "LINES",
        "ACCURACY",
        "AUC",
        "BRIER",
        "CALIBRATION ERROR",
        "THRESHOLD",
    ]);
    for report in reports {
        let figures = &report.figures;
        let needs = report.needs.map(|needs| format!("{needs} more lines"));
        table.row([
            report.signal.clone(),
            report.kind.as_str().to_owned(),
            report.labels.to_string(),
            needs.unwrap_or_else(|| shown(figures.accuracy.as_ref())),
            shown(figures.auc.as_ref()),
            shown(figures.brier.as_ref()),
            shown(figures.calibration_error.as_ref()),
            report.best_threshold.map_or_else(String::new, |threshold| format!("{threshold:.2}")),
        ]);
    }
    table.print();
}

/// The error of both analyzers together by the share that is escalated, for each question and for all lines.
fn print_escalations(cases: &[Case], answers: &[AnswerValue], accuracy: f64) {
    let mut by_question: IndexMap<&str, Vec<Compared>> = IndexMap::new();
    let mut all = Vec::with_capacity(cases.len());
    let mut classes = Classes::default();
    for (case, answer) in cases.iter().zip(answers) {
        let yes_no = case.value.compare_yes_no(answer).map(YesNoAnswer::is_right);
        let is_right = yes_no
            .or_else(|| case.value.compare_class(&mut classes, answer).map(|compared| compared.is_right()));
        let Some(is_right) = is_right else { continue };
        let compared = Compared { value: answer.certainty(), is_right };
        by_question.entry(&case.question.key).or_default().push(compared);
        all.push(compared);
    }
    print_line(&format!(
        "\nThe share of wrong answers by the share that is escalated, the least certain first, to a second analyzer that is right in \
         {:.1} % of cases:",
        accuracy * 100.0
    ));
    let mut table = Table::new(&["QUESTION", "LINES", "0 %", "5 %", "10 %", "20 %", "30 %", "50 %", "100 %"]);
    by_question.insert("all", all);
    for (question, compared) in by_question {
        let [none, some @ .., all] =
            SHARES.map(|share| format!("{:.3}", error_at(&compared, share / 100.0, accuracy)));
        let [five, ten, twenty, thirty, fifty] = some;
        let lines = compared.len().to_string();
        table.row([question.to_owned(), lines, none, five, ten, twenty, thirty, fifty, all]);
    }
    table.print();
}

fn shown(figure: Option<&Figure>) -> String {
    figure.map_or_else(String::new, |figure| {
        format!("{:.3} ({:.3} to {:.3})", figure.value, figure.low, figure.high)
    })
}
