//! What goes to standard error: remarks and failures.

use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};

use crate::cells::harmless;
use crate::environment;

/// Prints a remark that is no part of the output.
pub(crate) fn remark(text: &str) {
    error_line(&ErrorStyle::detect().hint(text));
}

/// Prints a line on standard error; where nobody reads that, there is nobody to tell.
pub(crate) fn error_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// How messages on standard error look.
pub(crate) struct ErrorStyle {
    colours: bool,
}

impl ErrorStyle {
    pub(crate) fn detect() -> Self {
        Self { colours: std::io::stderr().is_terminal() && !environment::refuses_colours() }
    }

    pub(crate) fn problem(&self, text: &str) -> String {
        self.paint(text, Style::new().bold().fg_color(Some(AnsiColor::Red.into())))
    }

    pub(crate) fn hint(&self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }

    /// The text in this style, without what a terminal would act on: messages quote what others wrote.
    fn paint(&self, text: &str, style: Style) -> String {
        let text = harmless(text);
        if self.colours { format!("{style}{text}{style:#}") } else { text }
    }
}
