//! Escapes text for each form of output. Names come from users' files, from other people's files of results,
//! and from output of programs. None of them may end a line, control a terminal, become a formula in a
//! spreadsheet or a tag in a page.

use verisum_files::text::printable as plain;

use super::chart::{Chart, Shape};
use super::{Cell, Report, Table};

impl Report {
    /// With all that cannot be printed escaped, so that a line is one line.
    pub(super) fn printable(&self) -> Report {
        let all = |texts: &[String]| texts.iter().map(|text| plain(text)).collect();
        Report {
            title: plain(&self.title),
            parameters: self.parameters.iter().map(|(name, said)| (*name, plain(said))).collect(),
            lines: all(&self.lines),
            tables: self.tables.iter().map(printable_table).collect(),
            charts: self.charts.iter().map(printable_chart).collect(),
            data: None,
        }
    }
}

fn printable_table(table: &Table) -> Table {
    Table {
        title: plain(&table.title),
        columns: table.columns.clone(),
        rows: table.rows.iter().map(|row| row.iter().map(printable_cell).collect()).collect(),
        notes: table.notes.iter().map(|note| plain(note)).collect(),
        verdict: table.verdict.as_deref().map(plain),
        is_detail: table.is_detail,
        blocks_below: table.blocks_below,
        folded_after: table.folded_after,
    }
}

fn printable_cell(cell: &Cell) -> Cell {
    match cell {
        Cell::Text(text) => Cell::Text(plain(text)),
        Cell::Command(text) => Cell::Command(plain(text)),
        Cell::Told { exact, shown } => Cell::told(printable_cell(exact), plain(shown)),
        other => other.clone(),
    }
}

fn printable_chart(chart: &Chart) -> Chart {
    let mut chart = chart.clone();
    chart.title = plain(&chart.title);
    chart.markers.iter_mut().for_each(|marker| marker.name = plain(&marker.name));
    match &mut chart.shape {
        Shape::Bars(bars) => bars.iter_mut().for_each(|bar| bar.name = plain(&bar.name)),
        Shape::Lines { lines, .. } => lines.iter_mut().for_each(|line| line.name = plain(&line.name)),
        Shape::Tiles { levels, tiles } => {
            levels.iter_mut().for_each(|level| *level = plain(level));
            for tile in tiles {
                tile.name = plain(&tile.name);
                tile.label = plain(&tile.label);
                tile.note = plain(&tile.note);
            }
        }
    }
    chart
}

/// A text as a field of CSV (RFC 4180) that no spreadsheet takes for a formula: as OWASP advises, one that
/// begins like it has an apostrophe before it. Numbers are no texts, and stay what they are.
pub fn csv_text(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        true => csv_field(&format!("'{text}")),
        false => csv_field(text),
    }
}

/// A field of CSV.
pub(super) fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

/// A text in Markdown that is nothing but text. Backticks are kept in sentences, where they mark commands.
pub(super) fn markdown_sentence(text: &str) -> String {
    escaped(text, &['\\', '|', '<', '&', '[', '*'])
}

/// The same of a cell or a title, in which a backtick is one.
pub(super) fn markdown_text(text: &str) -> String {
    escaped(text, &['\\', '|', '<', '&', '[', '*', '_', '`', '~'])
}

fn escaped(text: &str, special: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if special.contains(&c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Bar, Marker};
    use crate::stats::Interval;

    /// A report in which every text is this one.
    fn report(text: &str) -> Report {
        let mut table = Table::new(text, "what; change (%)").note(text);
        table.row([Cell::text(text), Cell::Number(-1.5, 1)]);
        let value = Interval { low: 1.0, median: 1.0, high: 1.0 };
        let bar = Bar { name: text.to_string(), value, control: false };
        let mut chart = Chart::bars(text, "GB/s", vec![bar]);
        chart.markers.push(Marker { name: text.to_string(), value: 1.0 });
        Report {
            title: text.to_string(),
            parameters: vec![("name", text.to_string())],
            lines: vec![text.to_string()],
            tables: vec![table],
            charts: vec![chart],
            data: None,
        }
    }

    #[test]
    fn nothing_commands_a_terminal_or_ends_a_line() {
        let quiet = report("a").to_text().lines().count();
        let report = report("a\u{1b}[2J\u{7}b\nnoisy: c\r\u{9b}\u{202e}");
        let is_bad = |c: char| c.is_control() && c != '\n' && c != '\r' || c == '\u{202e}';
        for form in [report.to_text(), report.to_csv(), report.to_markdown(), report.to_html()] {
            assert!(!form.contains(is_bad) && !form.contains("\nnoisy"), "{form:?}");
            assert!(form.contains("033[2J") || form.contains("033\\[2J"), "{form}");
        }
        assert_eq!(report.to_text().lines().count(), quiet);
        assert!(report.to_text().starts_with(r"a\033[2J\007b\nnoisy: c\r\302\233\342\200\256"));
        // JSON has letters for all of them.
        assert_eq!(report.to_json()["lines"][0], report.lines[0]);
    }

    #[test]
    fn a_name_is_no_formula_and_a_number_is_no_name() {
        for name in ["=cmd|' /C calc'!A0", "+1", "-2", "@SUM(1)", "＝1"] {
            let csv = report(name).to_csv();
            assert_eq!(
                csv,
                format!(
                    "table,what,change (%)\r\n'{name},'{name},-1.5\r\n\r\nparameter,value\r\nname,'{name}\r\n"
                )
            );
        }
        assert_eq!(csv_text("=a,\"b\""), "\"'=a,\"\"b\"\"\"");
        assert_eq!(csv_text("a=b"), "a=b");
    }

    #[test]
    fn a_name_is_no_markdown() {
        let markdown = report("<script>|`x`![a](http://b)*c*&lt;").to_markdown();
        assert_eq!(markdown.matches("\\<script>").count(), 6, "{markdown}");
        assert!(markdown.contains(r"| \<script>\|\`x\`!\[a](http://b)\*c\*\&lt; | -1.5 |"), "{markdown}");
        assert_eq!(markdown_sentence("see `a b` <i>"), r"see `a b` \<i>");
    }
}
