//! What a command prints: tables and fields for people, the service's own JSON for programs.

use std::io::{IsTerminal as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use anstyle::Style;
use client::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use crate::cells::{Cell, harmless};
use crate::environment;
use crate::failure::Failure;
use crate::json_text;
use crate::table::{Table, wrap};

/// The narrowest that the values of fields are broken to.
const NARROWEST_VALUE: usize = 20;

/// How and where a command prints.
pub(crate) struct Output {
    /// Whether programs read it.
    pub(crate) json: bool,
    colours: bool,
    is_terminal: bool,
    width: Option<usize>,
}

/// What a command shows to people, part by part.
#[derive(Default)]
pub(crate) struct View {
    parts: Vec<Part>,
}

enum Part {
    Table(Table),
    Fields(Vec<(&'static str, Cell)>),
    Line(String),
    Title(&'static str),
}

impl View {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn table(mut self, table: Table) -> Self {
        self.parts.push(Part::Table(table));
        self
    }

    /// A table, if there is one, with an empty line before it.
    pub(crate) fn table_if(self, table: Option<Table>) -> Self {
        match table {
            Some(table) => self.line("").table(table),
            None => self,
        }
    }

    pub(crate) fn fields(mut self, fields: impl IntoIterator<Item = (&'static str, Cell)>) -> Self {
        self.parts.push(Part::Fields(fields.into_iter().collect()));
        self
    }

    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.parts.push(Part::Line(line.into()));
        self
    }

    /// A heading, with an empty line before it.
    pub(crate) fn title(mut self, title: &'static str) -> Self {
        self.parts.push(Part::Title(title));
        self
    }
}

impl Output {
    /// Looks at standard output: only a terminal gets colours and has a width.
    pub(crate) fn detect(json: bool, no_color: bool) -> Self {
        let stream = std::io::stdout();
        let is_terminal = stream.is_terminal();
        let size = is_terminal.then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Self {
            json,
            colours: is_terminal && !no_color && !environment::refuses_colours(),
            is_terminal,
            width,
        }
    }

    /// Prints a record: the service's JSON, or what people see of it.
    pub(crate) fn record(&self, body: &[u8], view: View) -> Result<(), Failure> {
        if self.json { self.document(body) } else { self.view(view) }
    }

    /// Prints a JSON document: indented on a terminal, otherwise byte by byte as the service sent it.
    pub(crate) fn document(&self, body: &[u8]) -> Result<(), Failure> {
        if body.is_empty() {
            return Ok(());
        }
        if self.is_terminal
            && let Ok(text) = std::str::from_utf8(body)
        {
            return Self::print(&json_text::indent(text));
        }
        let mut stream = std::io::stdout();
        written(stream.write_all(body).and_then(|()| stream.write_all(b"\n")))
    }

    /// Prints for people.
    pub(crate) fn view(&self, view: View) -> Result<(), Failure> {
        let now = self.is_terminal.then(now);
        for part in view.parts {
            match part {
                Part::Line(line) => Self::print(&harmless(&line))?,
                Part::Title(title) => Self::print(&format!("\n{}", self.paint(title, Style::new().bold())))?,
                Part::Fields(fields) => self.print_fields(&fields, now)?,
                Part::Table(table) if table.is_empty() => Self::print("Nothing to list.")?,
                Part::Table(table) => {
                    let (lines, left_out) = table.lines(self.width, now, self.colours);
                    Self::print(&lines.join("\n"))?;
                    if !left_out.is_empty() {
                        let note =
                            format!("no room for: {}; widen the terminal or use --json", left_out.join(", "));
                        Self::print(&self.paint(&note, Style::new().dimmed()))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints a line about what was done, for people only.
    pub(crate) fn done(&self, line: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { Self::print(&harmless(line)) }
    }

    /// Prints a piece of text as it is, without a line break.
    pub(crate) fn piece(text: &[u8]) -> Result<(), Failure> {
        written(std::io::stdout().write_all(text))
    }

    fn print_fields(&self, fields: &[(&str, Cell)], now: Option<Timestamp>) -> Result<(), Failure> {
        let names = fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, cell) in fields {
            let text = cell.text(now);
            let room =
                self.width.map_or(usize::MAX, |width| width.saturating_sub(names + 2).max(NARROWEST_VALUE));
            for (at, line) in wrap(&text, room).into_iter().enumerate() {
                let name = if at == 0 { *name } else { "" };
                let padding = " ".repeat(names - name.width() + 2);
                let name = self.paint(name, Style::new().bold());
                Self::print(&format!("{name}{padding}{}", self.paint(&line, cell.style)))?;
            }
        }
        Ok(())
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.colours && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn print(text: &str) -> Result<(), Failure> {
        written(writeln!(std::io::stdout(), "{text}"))
    }
}

/// Ends the command where its reader has seen enough, such as `head`.
fn written(outcome: std::io::Result<()>) -> Result<(), Failure> {
    outcome.map_err(|reason| match reason.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::other(format!("standard output: {reason}")),
    })
}

/// The time of this machine.
#[expect(clippy::disallowed_methods, reason = "a command of a person has no service::Clock")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(since_epoch.as_micros().try_into().unwrap_or(i64::MAX))
}
