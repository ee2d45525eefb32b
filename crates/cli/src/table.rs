//! Tables that fit the terminal: numbers aligned, long cells cut with `…`, and columns left out where there is no room.

use anstyle::Style;
use client::Timestamp;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::cells::{Cell, harmless};

/// Between two columns.
const GAP: usize = 2;
/// The narrowest that a column is cut to.
const NARROWEST: usize = 8;

/// A column: its heading, and how its cells are laid out.
#[derive(Clone)]
pub(crate) struct Column {
    heading: String,
    is_right: bool,
    is_whole: bool,
}

/// A column of texts.
pub(crate) fn left(heading: &str) -> Column {
    Column { heading: harmless(heading), is_right: false, is_whole: false }
}

/// A column of numbers, aligned to the right and never cut.
pub(crate) fn right(heading: &str) -> Column {
    Column { heading: harmless(heading), is_right: true, is_whole: true }
}

/// A column of what people copy, such as ids: never cut.
pub(crate) fn whole(heading: &str) -> Column {
    Column { heading: harmless(heading), is_right: false, is_whole: true }
}

/// Rows under headings.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// A table of rows that are made from records.
    pub(crate) fn of<'r, T: 'r, const N: usize>(
        columns: [Column; N],
        records: impl IntoIterator<Item = &'r T>,
        row: impl Fn(&T) -> [Cell; N],
    ) -> Self {
        let mut table = Self::new(columns);
        for record in records {
            table.row(row(record));
        }
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, none longer than `limit` if there is one; and the headings of the columns that do not fit.
    pub(crate) fn lines(
        &self,
        limit: Option<usize>,
        now: Option<Timestamp>,
        colours: bool,
    ) -> (Vec<String>, Vec<&str>) {
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| cell.text(now)).collect()).collect();
        let natural: Vec<usize> = (self.columns.iter().enumerate())
            .map(|(at, column)| {
                let cells = texts.iter().filter_map(|row| row.get(at)).map(|text| text.width());
                cells.chain([column.heading.width()]).max().unwrap_or(0)
            })
            .collect();
        let widths = self.fit(&natural, limit);
        let is_shown = |at: &usize| widths[*at].is_some();
        let shown: Vec<usize> = (0..self.columns.len()).filter(is_shown).collect();
        let left_out = (0..self.columns.len())
            .filter(|at| !is_shown(at))
            .map(|at| self.columns[at].heading.as_str())
            .collect();
        let line = |cell: &dyn Fn(usize) -> (String, Style)| {
            let cells = shown.iter().map(|at| {
                let (text, style) = cell(*at);
                let is_last = shown.last() == Some(at);
                lay_out(&text, style, widths[*at].unwrap_or(0), self.columns[*at].is_right, is_last, colours)
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
        };
        let heading = line(&|at| (self.columns[at].heading.clone(), Style::new().bold()));
        let rows = self.rows.iter().zip(&texts);
        let rows = rows.map(|(row, texts)| {
            line(&|at| {
                (
                    texts.get(at).cloned().unwrap_or_default(),
                    row.get(at).map_or(Style::new(), |cell| cell.style),
                )
            })
        });
        (std::iter::once(heading).chain(rows).collect(), left_out)
    }

    /// The width of each column; none for those that are left out, the last that may be cut first.
    fn fit(&self, natural: &[usize], limit: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
        let Some(limit) = limit else { return widths };
        loop {
            let shown = widths.iter().flatten();
            let total = shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1);
            if total <= limit {
                return widths;
            }
            let may_be_cut = |at: &usize| !self.columns[*at].is_whole && widths[*at] > Some(NARROWEST);
            let widest = (0..widths.len()).filter(may_be_cut).max_by_key(|at| widths[*at]);
            if let Some(widest) = widest {
                widths[widest] = widths[widest].map(|width| width - 1);
                continue;
            }
            // The first column says what a row is about.
            let Some(last) = (1..widths.len()).rev().find(|at| widths[*at].is_some()) else { return widths };
            widths[last] = None;
            for (width, natural) in widths.iter_mut().zip(natural) {
                *width = width.map(|_| *natural);
            }
        }
    }
}

fn lay_out(text: &str, style: Style, width: usize, is_right: bool, is_last: bool, colours: bool) -> String {
    let text = cut(text, width);
    let padding = " ".repeat(width.saturating_sub(text.width()));
    let painted = if colours && !text.is_empty() { format!("{style}{text}{style:#}") } else { text };
    match (is_right, is_last) {
        (true, _) => padding + &painted,
        (false, true) => painted,
        (false, false) => painted + &padding,
    }
}

/// A text of at most this width, with `…` where it was cut.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used >= width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

/// The lines of a text that is broken between words.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;

    fn table() -> Table {
        let mut table = Table::new([left("OBJECT"), right("EVENTS"), left("SAYS"), whole("ID")]);
        table.row([
            cells::text("späte Post"),
            cells::text("3"),
            cells::text("a long sentence about things"),
            cells::text("0123456789"),
        ]);
        table.row([cells::text("日本語"), cells::text("1200"), cells::text("short"), cells::text("1")]);
        table
    }

    fn lines(limit: Option<usize>) -> Vec<String> {
        table().lines(limit, None, false).0
    }

    #[test]
    fn columns_line_up_and_nothing_is_cut_in_a_file() {
        assert_eq!(
            lines(None),
            [
                "OBJECT      EVENTS  SAYS                          ID",
                "späte Post       3  a long sentence about things  0123456789",
                "日本語        1200  short                         1",
            ]
        );
    }

    #[test]
    fn long_cells_are_cut_but_never_what_people_copy() {
        assert_eq!(lines(Some(44))[1], "späte Post       3  a long sent…  0123456789");
        for width in 20..70 {
            let table = table();
            let (lines, left_out) = table.lines(Some(width), None, false);
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:#?}");
            assert!(
                lines
                    .iter()
                    .all(|line| line.contains('0') == line.contains("0123456789") || !line.contains("späte"))
            );
            assert_eq!(left_out.is_empty(), lines[0].contains("ID"), "{width}");
        }
    }

    #[test]
    fn colours_do_not_move_columns() {
        let mut table = Table::new([left("A"), right("B")]);
        table.row([cells::status(&"done".into()), cells::text("1")]);
        let (painted, _) = table.lines(None, None, true);
        assert_eq!(painted[1], "\u{1b}[32mdone\u{1b}[0m  1");
    }

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible", 4), ["incomprehensible"]);
    }
}
