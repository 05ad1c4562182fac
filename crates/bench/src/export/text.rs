//! Renders a report as text that fits the terminal.
//!
//! A table whose columns do not fit side by side even with broken cells is shown row by row, a line for each cell.

use comfy_table::ColumnConstraint::{Absolute, LowerBoundary};
use comfy_table::Width::Fixed;
use comfy_table::{CellAlignment, ContentArrangement};

use super::{Cell, Column, Report, Table};

/// How a report is shown as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of columns of the terminal, which no line of a table exceeds.
    pub width: usize,
    /// Whether sentences are broken at that width too, and not only tables.
    pub breaks_sentences: bool,
    /// Whether tables and columns are shown that only say more of what others say.
    pub details: bool,
}

impl Layout {
    /// All, each column as wide as its widest cell.
    pub const WHOLE: Layout = Layout { width: u16::MAX as usize, breaks_sentences: false, details: true };
}

/// Spaces between columns.
const GAP: usize = 2;

/// Words longer than this may be broken: paths and digests, which are as long as they like.
const LONG_WORD: usize = 12;

pub(super) fn text(report: &Report, layout: Layout) -> String {
    let report = report.printable();
    let mut text = String::new();
    let sentence = |text: &mut String, line: &str| match layout.breaks_sentences {
        true => broken(line, layout.width, "").iter().for_each(|line| push_line(text, line)),
        false => push_line(text, line),
    };
    report.lines.iter().for_each(|line| sentence(&mut text, line));
    let shown = |table: &&Table| layout.details || !table.is_detail;
    for table in report.tables.iter().filter(shown) {
        if !text.is_empty() {
            text.push('\n');
        }
        if !table.title.is_empty() {
            sentence(&mut text, &table.title);
        }
        if let Some(verdict) = &table.verdict {
            sentence(&mut text, verdict);
        }
        let kept = |column: &Column| layout.details || !column.is_detail;
        let table = table.filtered(kept);
        text.push_str(
            &side_by_side(&table, layout.width).unwrap_or_else(|| row_by_row(&table, layout.width)),
        );
        table.notes.iter().for_each(|note| sentence(&mut text, note));
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The columns beside each other; none if there is no room for the words of each.
fn side_by_side(table: &Table, width: usize) -> Option<String> {
    let headings = table.headings();
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
    let lines = || std::iter::once(&headings).chain(&rows);
    let widest = |column: usize| lines().map(|line| columns(&line[column])).max().unwrap_or(0);
    let is_number = |column: usize| table.right(column);
    // Numbers are never broken, words of sentences only where nothing else helps.
    let least = |column: usize| {
        let words = |text: &str| text.split(' ').map(columns).max().unwrap_or(0).min(LONG_WORD);
        let cells = rows.iter().map(|row| match is_number(column) {
            true => columns(&row[column]),
            false => words(&row[column]),
        });
        cells.chain([words(&headings[column])]).max().unwrap_or(0)
    };
    let count = table.columns.len();
    let gaps = GAP * count.saturating_sub(1);
    let fits = (0..count).map(widest).sum::<usize>() + gaps <= width;
    if !fits && (0..count).map(least).sum::<usize>() + gaps > width {
        return None;
    }
    let mut shown = comfy_table::Table::new();
    shown.load_style(comfy_table::presets::NOTHING).set_header(&headings).add_rows(&rows);
    if !fits {
        // The last column needs no gap behind it.
        let width = u16::try_from(width + GAP).unwrap_or(u16::MAX);
        shown.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for (place, column) in shown.column_iter_mut().enumerate() {
        column.set_padding((0, GAP as u16));
        if is_number(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let least = (least(place) + GAP) as u16;
        if !fits {
            column.set_constraint(if is_number(place) {
                Absolute(Fixed(least))
            } else {
                LowerBoundary(Fixed(least))
            });
        }
    }
    Some(shown.trim_fmt() + "\n")
}

/// A paragraph for each row: its first cell, then a line for each other one that holds something.
fn row_by_row(table: &Table, width: usize) -> String {
    let headings = table.headings();
    let mut text = String::new();
    for row in &table.rows {
        for (place, (heading, cell)) in headings.iter().zip(row).enumerate() {
            let cell = cell.shown();
            let line = match place {
                0 if !table.right(0) => cell,
                _ if cell.is_empty() => continue,
                _ if heading.is_empty() => format!("  {cell}"),
                _ => format!("  {heading}: {cell}"),
            };
            broken(&line, width, "    ").iter().for_each(|line| push_line(&mut text, line));
        }
    }
    text
}

/// A line as lines of so many columns at most, broken at spaces where there are some; all but the first begin with
/// `indent`.
pub(super) fn broken(line: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut now = String::new();
    // The space before a word belongs to it.
    for word in line.split_inclusive(' ') {
        let mut word = word;
        while columns(&now) + columns(word.trim_end()) > width {
            let is_begun = !now.trim_start().is_empty();
            if !is_begun {
                let room = width.saturating_sub(columns(&now)).max(1);
                let mut taken = 0;
                let fits = |c: char| {
                    taken += columns(c.encode_utf8(&mut [0; 4]));
                    taken > room
                };
                let end =
                    word.find(fits).unwrap_or(word.len()).max(word.chars().next().map_or(0, char::len_utf8));
                now.push_str(&word[..end]);
                word = &word[end..];
            }
            lines.push(std::mem::replace(&mut now, indent.to_string()).trim_end().to_string());
            if word.is_empty() {
                break;
            }
        }
        now.push_str(word);
    }
    if !now.trim().is_empty() || lines.is_empty() {
        lines.push(now.trim_end().to_string());
    }
    lines
}

/// The number of columns that a text takes on a terminal.
pub fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new("Files", "what; rate (GB/s); rate from (GB/s); file; verdict").details(&["rate from"]);
        for name in ["/archive/photographs/2011/summer/IMG_0001.jpg", "short"] {
            table.row([
                Cell::text("one two three four"),
                Cell::Number(12.345, 2),
                Cell::Number(11.0, 2),
                Cell::text(name),
                Cell::text("1.20 to 1.30 times as slow"),
            ]);
        }
        table.verdict = Some("b3sum is 1.2 times as fast as verisum here".to_string());
        table
    }

    fn shown(width: usize, details: bool) -> String {
        let mut report = Report::new("T");
        report
            .lines
            .push("a sentence of some words that is longer than a narrow terminal is wide".to_string());
        report.tables.push(table());
        let mut host = Table::new("Host", "what; value").detail();
        host.row([Cell::text("processor"), Cell::text("some")]);
        report.tables.push(host);
        report.to_terminal(Layout { width, breaks_sentences: true, details })
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_number_is_broken() {
        for width in 16..140 {
            for details in [false, true] {
                let text = shown(width, details);
                for line in text.lines() {
                    assert!(columns(line) <= width, "{width}: {line}\n{text}");
                }
                assert_eq!(
                    text.matches("12.35").count() + text.matches("12.34").count(),
                    2,
                    "{width}:\n{text}"
                );
                // Nothing is lost.
                let letters = |text: &str| text.replace(char::is_whitespace, "");
                if details && side_by_side(&table(), width).is_none() {
                    assert!(letters(&text).contains("summer/IMG_0001.jpg"), "{width}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn the_verdict_is_first_and_details_are_asked_for() {
        let text = shown(200, false);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(place("b3sum is") < place("what"), "{text}");
        assert!(!text.contains("rate from") && !text.contains("Host"), "{text}");
        let all = shown(200, true);
        assert!(all.contains("rate from (GB/s)") && all.contains("Host"), "{all}");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(broken("one two three", 8, "  "), ["one two", "  three"]);
        assert_eq!(broken("abcdefgh ij", 4, ""), ["abcd", "efgh", "ij"]);
        assert_eq!(broken("", 4, ""), [""]);
        assert_eq!(broken("  a b", 80, ""), ["  a b"]);
        assert_eq!(broken("語語語", 3, ""), ["語", "語", "語"]);
    }
}
