//! Results as tables, and tables as files.
//!
//! Experiments make a [`Report`]; it can be shown as text, or written as JSON, CSV, Markdown or one HTML
//! page that needs nothing else: no script, no network. Charts are on the page only.

mod chart;
mod draw;
mod html;
mod letters;

pub use chart::{Bar, Chart, Line, Marker, Shape};

use std::fmt::Write;

use letters::{csv_field, csv_text, markdown_sentence, markdown_text};
use serde_json::{Map, Value, json};

/// What a cell holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number, and how many digits after the point are worth showing.
    Number(f64, usize),
    /// A number of very different magnitudes, such as a p-value.
    Scientific(f64),
    /// Nothing was measured.
    Missing,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
            Cell::Scientific(0.0) => "0".to_string(),
            Cell::Scientific(number) if *number >= 0.001 => format!("{number:.3}"),
            Cell::Scientific(number) => format!("{number:.0e}"),
            Cell::Missing => "-".to_string(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Count(count) => json!(count),
            Cell::Number(number, _) | Cell::Scientific(number) => json!(number),
            Cell::Missing => Value::Null,
        }
    }

    fn is_number(&self) -> bool {
        !matches!(self, Cell::Text(_))
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What it holds, in a word or two. Without one it is a drawing in characters: for terminals alone.
    pub name: &'static str,
    /// In what; empty for words and plain counts.
    pub unit: &'static str,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each of as many cells.
    pub rows: Vec<Vec<Cell>>,
    /// What its columns mean where a word or two does not say it; stands below it.
    pub notes: Vec<String>,
}

impl Table {
    /// A table without rows; columns as (name, unit).
    pub fn new(title: impl Into<String>, columns: &[(&'static str, &'static str)]) -> Table {
        let columns = columns.iter().map(|&(name, unit)| Column { name, unit }).collect();
        Table { title: title.into(), columns, ..Table::default() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not a cell for each column.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column of {}", self.title);
        self.rows.push(cells);
    }

    /// With a sentence below it.
    pub fn note(mut self, note: impl Into<String>) -> Table {
        self.notes.push(note.into());
        self
    }

    /// Without the columns that only a terminal is shown.
    fn exported(&self) -> Table {
        let named = |column: &usize| !self.columns[*column].name.is_empty();
        let kept: Vec<usize> = (0..self.columns.len()).filter(named).collect();
        Table {
            title: self.title.clone(),
            columns: kept.iter().map(|&column| self.columns[column].clone()).collect(),
            rows: self
                .rows
                .iter()
                .map(|row| kept.iter().map(|&column| row[column].clone()).collect())
                .collect(),
            notes: self.notes.clone(),
        }
    }

    fn headings(&self) -> Vec<String> {
        self.columns
            .iter()
            .map(|column| match column.unit {
                "" => column.name.to_string(),
                unit => format!("{} ({unit})", column.name),
            })
            .collect()
    }

    fn right(&self, column: usize) -> bool {
        let number = |row: &Vec<Cell>| row[column].is_number() && row[column] != Cell::Missing;
        !self.columns[column].unit.is_empty() || self.rows.iter().any(number)
    }
}

/// All that an experiment has to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What was done.
    pub title: String,
    /// What was measured, and with what: the options that matter. For programs and files alone; whoever
    /// reads a terminal has just typed them.
    pub parameters: Vec<(&'static str, String)>,
    /// Lines to read first, as the experiment's original printed them or as a warning.
    pub lines: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The charts, which stand above the tables.
    pub charts: Vec<Chart>,
    /// What programs get instead of the tables, where there is more to tell than they hold.
    pub data: Option<Value>,
}

impl Report {
    /// A report without content.
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), ..Report::default() }
    }

    /// For a terminal: columns as wide as their widest cell.
    pub fn to_text(&self) -> String {
        let report = self.printable();
        let mut text = String::new();
        for line in &report.lines {
            let _ = writeln!(text, "{line}");
        }
        for (index, table) in report.tables.iter().enumerate() {
            if index > 0 || !report.lines.is_empty() {
                text.push('\n');
            }
            if !table.title.is_empty() {
                let _ = writeln!(text, "{}", table.title);
            }
            let mut lines = vec![table.headings()];
            lines.extend(table.rows.iter().map(|row| row.iter().map(Cell::shown).collect()));
            let width = |column: usize| {
                lines.iter().map(|line: &Vec<String>| line[column].chars().count()).max().unwrap_or(0)
            };
            let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
            for line in &lines {
                let mut shown = String::new();
                for (column, cell) in line.iter().enumerate() {
                    let width = widths[column];
                    let _ = match table.right(column) {
                        true => write!(shown, "{cell:>width$}  "),
                        false => write!(shown, "{cell:<width$}  "),
                    };
                }
                let _ = writeln!(text, "{}", shown.trim_end());
            }
            for note in &table.notes {
                let _ = writeln!(text, "{note}");
            }
        }
        text
    }

    /// As one JSON value: its data, or else tables as lists of objects.
    pub fn to_json(&self) -> Value {
        if let Some(data) = &self.data {
            return data.clone();
        }
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(Table::exported)
            .map(|table| {
                let rows: Vec<Value> = table
                    .rows
                    .iter()
                    .map(|row| {
                        let cells = table.columns.iter().zip(row);
                        Value::Object(cells.map(|(c, cell)| (c.name.to_string(), cell.json())).collect())
                    })
                    .collect();
                let units: Map<String, Value> = table
                    .columns
                    .iter()
                    .filter(|column| !column.unit.is_empty())
                    .map(|column| (column.name.to_string(), json!(column.unit)))
                    .collect();
                let mut value = json!({ "title": table.title, "units": units, "rows": rows });
                if !table.notes.is_empty() {
                    value["notes"] = json!(table.notes);
                }
                value
            })
            .collect();
        let mut value = json!({ "title": self.title, "lines": self.lines, "tables": tables });
        if !self.parameters.is_empty() {
            let parameters = self.parameters.iter().map(|(name, said)| (name.to_string(), json!(said)));
            value["parameters"] = Value::Object(parameters.collect());
        }
        value
    }

    /// RFC 4180, tables one after the other with an empty line between; what was measured is the last. The
    /// first column of each is the table's title. No text is a formula.
    pub fn to_csv(&self) -> String {
        let report = self.printable();
        let mut csv = String::new();
        let mut tables: Vec<Table> = report.tables.iter().map(Table::exported).collect();
        if !report.parameters.is_empty() {
            let mut parameters = Table::new("", &[("parameter", ""), ("value", "")]);
            for (name, said) in &report.parameters {
                parameters.row([Cell::text(*name), Cell::text(said)]);
            }
            tables.push(parameters);
        }
        for (index, table) in tables.iter().enumerate() {
            if index > 0 {
                csv.push_str("\r\n");
            }
            let exact = |cell: &Cell| match cell {
                Cell::Text(text) => csv_text(text),
                Cell::Number(number, _) | Cell::Scientific(number) => number.to_string(),
                Cell::Missing => String::new(),
                Cell::Count(count) => count.to_string(),
            };
            let titled = !table.title.is_empty();
            let headings = table.headings().iter().map(|heading| csv_field(heading)).collect();
            let lines = std::iter::once(("table".to_string(), headings)).chain(
                table.rows.iter().map(|row| (csv_text(&table.title), row.iter().map(exact).collect())),
            );
            for (title, mut line) in lines {
                let mut fields: Vec<String> = if titled { vec![title] } else { Vec::new() };
                fields.append(&mut line);
                csv.push_str(&fields.join(","));
                csv.push_str("\r\n");
            }
        }
        csv
    }

    /// Tables as GitHub shows them.
    pub fn to_markdown(&self) -> String {
        let report = self.printable();
        let mut markdown = format!("# {}\n", markdown_text(&report.title));
        for line in &report.lines {
            let _ = write!(markdown, "\n{}\n", markdown_sentence(line));
        }
        if let Some(said) = report.parameters_line() {
            let _ = write!(markdown, "\n{}\n", markdown_sentence(&said));
        }
        for table in report.tables.iter().map(Table::exported) {
            let _ = write!(markdown, "\n## {}\n\n", markdown_text(&table.title));
            let _ = writeln!(markdown, "| {} |", table.headings().join(" | "));
            let rules: Vec<&str> =
                (0..table.columns.len()).map(|c| if table.right(c) { "-:" } else { "-" }).collect();
            let _ = writeln!(markdown, "|{}|", rules.join("|"));
            for row in &table.rows {
                let cells: Vec<String> = row.iter().map(|cell| markdown_text(&cell.shown())).collect();
                let _ = writeln!(markdown, "| {} |", cells.join(" | "));
            }
            for note in &table.notes {
                let _ = write!(markdown, "\n{}\n", markdown_sentence(note));
            }
        }
        markdown
    }

    /// What was measured, for those who read.
    fn parameters_line(&self) -> Option<String> {
        let said: Vec<String> = self.parameters.iter().map(|(name, said)| format!("{name} {said}")).collect();
        (!said.is_empty()).then(|| format!("Measured with: {}", said.join("; ")))
    }

    /// One page, complete in itself.
    pub fn to_html(&self) -> String {
        html::page(&self.printable())
    }
}

/// How many digits after the point show three or four that count; of small values two.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.001 => 4,
        v if v > 1e-12 => (1.0 - v.log10().floor()) as usize,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut table = Table::new("Cost", &[("hash", ""), ("time", "ns")]);
        table.row([Cell::text("a|b,<c>"), Cell::Number(1.25, 1)]);
        table.row([Cell::text("d"), Cell::Missing]);
        Report {
            title: "T".to_string(),
            lines: vec!["1 < 2".to_string()],
            tables: vec![table],
            ..Report::default()
        }
    }

    #[test]
    fn every_form_says_the_same() {
        let report = report();
        assert_eq!(
            report.to_text(),
            "1 < 2\n\nCost\nhash     time (ns)\na|b,<c>        1.2\nd                -\n"
        );
        assert_eq!(report.to_csv(), "table,hash,time (ns)\r\nCost,\"a|b,<c>\",1.25\r\nCost,d,\r\n");
        assert!(report.to_markdown().contains("| a\\|b,\\<c> | 1.2 |\n| d | - |\n"));
        assert!(report.to_html().contains("<td>a|b,&lt;c&gt;</td><td class=\"n\">1.2</td>"));
        let json = report.to_json();
        assert_eq!(json["tables"][0]["rows"][0]["time"], 1.25);
        assert_eq!(json["tables"][0]["rows"][1]["time"], Value::Null);
        assert_eq!(json["tables"][0]["units"]["time"], "ns");
    }

    #[test]
    fn notes_stand_below_their_table() {
        let mut report = report();
        report.tables[0].notes.push("time: of <one>".to_string());
        assert!(report.to_text().ends_with("-\ntime: of <one>\n"));
        assert!(report.to_markdown().ends_with("| d | - |\n\ntime: of \\<one>\n"));
        assert!(report.to_html().contains("</table></div>\n<p class=\"said\">time: of &lt;one&gt;</p>"));
        assert_eq!(report.to_json()["tables"][0]["notes"], json!(["time: of <one>"]));
    }

    #[test]
    fn what_was_measured_is_in_every_file_and_drawings_are_in_none() {
        let mut table = Table::new("Fill", &[("names", ""), ("", "")]);
        table.row([Cell::Count(9), Cell::text("▌▌")]);
        let mut report = Report::new("T");
        report.tables.push(table);
        report.parameters = vec![("seed", "12-34".to_string()), ("policy", "coalesce".to_string())];
        assert_eq!(report.to_text(), "Fill\nnames    \n    9  ▌▌\n".replace("    \n", "\n"));
        let json = report.to_json();
        assert_eq!(json["parameters"], json!({ "seed": "12-34", "policy": "coalesce" }));
        assert_eq!(
            report.to_csv(),
            "table,names\r\nFill,9\r\n\r\nparameter,value\r\nseed,12-34\r\npolicy,coalesce\r\n"
        );
        for text in [report.to_markdown(), report.to_html()] {
            assert!(text.contains("seed 12-34; policy coalesce") && !text.contains('▌'), "{text}");
        }
        assert!(!json.to_string().contains('▌'));
    }
}
