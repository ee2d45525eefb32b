//! Tables for people: columns as wide as they need to be, cut to fit a terminal.

use std::io::IsTerminal as _;

use super::print_line;

/// Between two columns.
const GAP: &str = "  ";
/// The narrowest that the widest column becomes.
const MIN_WIDTH: usize = 8;

/// Rows under headings.
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Prints it; on a terminal no line is longer than the terminal is wide.
    pub(super) fn print(&self) {
        for line in self.lines(terminal_width()) {
            print_line(&line);
        }
    }

    fn lines(&self, limit: Option<usize>) -> Vec<String> {
        let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        let all: Vec<&Vec<String>> = std::iter::once(&headings).chain(&self.rows).collect();
        let width = |column: usize| {
            all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..headings.len()).map(width).collect();
        while let Some(limit) = limit
            && widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1) > limit
            && let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > MIN_WIDTH)
        {
            *widest -= 1;
        }
        all.into_iter().map(|row| line(row, &widths)).collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| fit(cell, *width)).collect();
    cells.join(GAP).trim_end().to_owned()
}

/// Text of exactly this width.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text:width$}");
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The width of the terminal that is printed to; none if it is a file or a pipe, where nothing is cut.
fn terminal_width() -> Option<usize> {
    let output = std::io::stdout();
    if !output.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::Table;

    fn table() -> Table {
        let mut table = Table::new(&["queue", "what"]);
        table.row(["mails".to_owned(), "a long sentence about what to do".to_owned()]);
        table.row(["späte Post".to_owned(), "short".to_owned()]);
        table
    }

    #[test]
    fn columns_line_up_and_nothing_is_cut_in_a_file() {
        assert_eq!(
            table().lines(None),
            ["queue       what", "mails       a long sentence about what to do", "späte Post  short"]
        );
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        assert_eq!(
            table().lines(Some(24)),
            ["queue       what", "mails       a long sent…", "späte Post  short"]
        );
        for width in 20..60 {
            assert!(table().lines(Some(width)).iter().all(|line| line.chars().count() <= width), "{width}");
        }
    }
}
