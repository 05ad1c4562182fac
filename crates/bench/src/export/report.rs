//! A report: tables, charts and sentences, and the files that they become.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use verisum_files::store::manifest::JSON_VERSION;

use super::letters::{csv_field, csv_text, markdown_sentence, markdown_text};
use super::{Cell, Chart, Layout, Table, html, text};

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

    /// As text with all that there is; columns as wide as their widest cell.
    pub fn to_text(&self) -> String {
        text::text(self, Layout::WHOLE)
    }

    /// For a terminal.
    pub fn to_terminal(&self, layout: Layout) -> String {
        text::text(self, layout)
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
                        Value::Object(cells.map(|(c, cell)| (c.name.clone(), cell.json())).collect())
                    })
                    .collect();
                let units: Map<String, Value> = table
                    .columns
                    .iter()
                    .filter(|column| !column.unit.is_empty())
                    .map(|column| (column.name.clone(), json!(column.unit)))
                    .collect();
                let mut value = json!({ "title": table.title, "units": units, "rows": rows });
                if let Some(verdict) = &table.verdict {
                    value["verdict"] = json!(verdict);
                }
                if !table.notes.is_empty() {
                    value["notes"] = json!(table.notes);
                }
                value
            })
            .collect();
        let mut value = json!({
            "version": JSON_VERSION,
            "type": "report",
            "title": self.title,
            "lines": self.lines,
            "tables": tables,
        });
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
            let mut parameters = Table::new("", "parameter; value");
            for (name, said) in &report.parameters {
                parameters.row([Cell::text(*name), Cell::text(said)]);
            }
            tables.push(parameters);
        }
        for (index, table) in tables.iter().enumerate() {
            if index > 0 {
                csv.push_str("\r\n");
            }
            write_csv(&mut csv, table, !table.title.is_empty());
        }
        csv
    }

    /// Each table as a file of its own: a name made of its title, and RFC 4180 without a column for the title. No text
    /// is a formula.
    pub fn to_csv_files(&self) -> Vec<(String, String)> {
        let file = |table: Table| {
            let words = table.title.to_lowercase();
            let words: Vec<&str> = words.split(|c: char| !c.is_ascii_alphanumeric()).collect();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            let mut csv = String::new();
            write_csv(&mut csv, &table, false);
            (format!("{}.csv", words.join("-")), csv)
        };
        self.printable().tables.iter().map(Table::exported).map(file).collect()
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
            if let Some(verdict) = &table.verdict {
                let _ = write!(markdown, "{}\n\n", markdown_sentence(verdict));
            }
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
    pub(super) fn parameters_line(&self) -> Option<String> {
        let said: Vec<String> = self.parameters.iter().map(|(name, said)| format!("{name} {said}")).collect();
        (!said.is_empty()).then(|| format!("Measured with: {}", said.join("; ")))
    }

    /// One page, complete in itself.
    pub fn to_html(&self) -> String {
        html::page(&self.printable())
    }
}

/// A table as CSV; its title may be the first column.
fn write_csv(csv: &mut String, table: &Table, titled: bool) {
    let headings = table.headings().iter().map(|heading| csv_field(heading)).collect();
    let lines = std::iter::once(("table".to_string(), headings))
        .chain(table.rows.iter().map(|row| (csv_text(&table.title), row.iter().map(csv_cell).collect())));
    for (title, mut line) in lines {
        let mut fields: Vec<String> = if titled { vec![title] } else { Vec::new() };
        fields.append(&mut line);
        csv.push_str(&fields.join(","));
        csv.push_str("\r\n");
    }
}

/// A cell as a program gets it.
fn csv_cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Command(text) | Cell::Moment { shown: text, .. } => csv_text(text),
        Cell::Number(number, _) | Cell::Scientific(number) => number.to_string(),
        Cell::Missing => String::new(),
        Cell::Count(count) | Cell::Amount { value: count, .. } => count.to_string(),
        Cell::Told { exact, .. } => csv_cell(exact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut table = Table::new("Cost", "hash; time (ns)");
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
        let [(name, csv)] = &report.to_csv_files()[..] else { panic!("one table") };
        assert_eq!(
            (name.as_str(), csv.as_str()),
            ("cost.csv", "hash,time (ns)\r\n\"a|b,<c>\",1.25\r\nd,\r\n")
        );
        assert!(report.to_markdown().contains("| a\\|b,\\<c> | 1.2 |\n| d | - |\n"));
        assert!(report.to_html().contains("<td>a|b,&lt;c&gt;</td><td class=\"n\">1.2</td>"));
        let json = report.to_json();
        assert_eq!(json["tables"][0]["rows"][0]["time"], 1.25);
        assert_eq!(json["tables"][0]["rows"][1]["time"], Value::Null);
        assert_eq!(json["tables"][0]["units"]["time"], "ns");
    }

    #[test]
    fn programs_get_numbers_where_people_read_words() {
        let mut table = Table::new("T", "took; mend with; digest").blocks_below(99);
        let digest = "0123456789abcdef".repeat(4);
        let command = "verisum repair --keep-bad '/a b'";
        table.row([
            Cell::told(Cell::Number(120.5, 1), "2 minutes"),
            Cell::Command(command.to_string()),
            Cell::text(format!("sha256 {digest}")),
        ]);
        table.row([Cell::Missing, Cell::Missing, Cell::text("none")]);
        let mut report = Report::new("R");
        report.tables.push(table);
        let [(_, csv)] = &report.to_csv_files()[..] else { panic!("one table") };
        assert_eq!(csv, &format!("took,mend with,digest\r\n120.5,{command},sha256 {digest}\r\n,,none\r\n"));
        assert_eq!(report.to_json()["tables"][0]["rows"][0]["took"], 120.5);
        let html = report.to_html();
        assert!(html.contains(">2 minutes</td>") && !html.contains("120.5"), "{html}");
        // A command is broken between its words alone, a digest is cut on paper, and what a row is of needs no heading.
        assert!(
            html.contains("<code><span>verisum</span> <span>repair</span> <span>--keep-bad</span> "),
            "{html}"
        );
        assert!(html.contains("sha256 <span class=\"digest\">0123456789ab<span>cdef"), "{html}");
        assert!(
            html.contains("@media print,(max-width:99em)") && html.contains("content:'digest: '"),
            "{html}"
        );
        assert_eq!(html.matches("class=\"none\"").count(), 2, "{html}");
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
        let mut table = Table::new("Fill", "names;");
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

    #[test]
    fn a_page_folds_long_tables_and_has_contents_if_it_is_long() {
        let table = |title: &str, rows: u64| {
            let mut table = Table::new(title, "file").note("`verisum list` lists all.").folded_after(2);
            (0..rows).for_each(|row| table.row([Cell::Text(format!("row {row}"))]));
            table
        };
        let mut report = Report::new("T");
        report.tables = vec![table("Empty", 0), table("Short", 2), table("Long", 5)];
        let html = report.to_html();
        let (first, rest) = html.split_once("<details><summary>3 more</summary>").unwrap();
        assert!(first.contains("row 1") && rest.contains("row 2") && rest.contains("row 4"), "{html}");
        assert_eq!((html.matches("<table").count(), html.matches("<details").count()), (3, 1));
        assert!(html.contains("<code><span>verisum</span> <span>list</span></code> lists all."), "{html}");
        assert!(!html.contains("<nav"), "{html}");
        report.tables.extend([table("More & more", 1), table("Last", 1)]);
        let html = report.to_html();
        assert!(html.contains("<li><a href=\"#s3\">More &amp; more</a></li>"), "{html}");
        assert!(html.contains("<section id=\"s3\"><h2>More &amp; more</h2>"), "{html}");
        // A spreadsheet gets it whole.
        assert_eq!(report.to_csv().matches("\nLong,row").count(), 5, "{}", report.to_csv());
    }
}
