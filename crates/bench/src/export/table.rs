//! A table of results.

use serde_json::{Value, json};

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
    /// A whole number that people read in another form: `1.43 MiB`. Programs get the number.
    Amount {
        /// The number.
        value: u64,
        /// The form for people.
        shown: String,
    },
    /// What programs get as one cell and people read in another form: `6 minutes ago`.
    Told {
        /// What programs get.
        exact: Box<Cell>,
        /// The form for people.
        shown: String,
    },
    /// A moment, to the second; JSON gets all its digits, and null for none.
    Moment {
        /// What JSON gets.
        exact: Option<String>,
        /// What people and spreadsheets get.
        shown: String,
    },
    /// A command, as it is typed.
    Command(String),
    /// Nothing was measured.
    Missing,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// What programs get otherwise than people.
    pub fn told(exact: Cell, shown: impl Into<String>) -> Cell {
        Cell::Told { exact: Box::new(exact), shown: shown.into() }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Amount { shown, .. }
            | Cell::Told { shown, .. }
            | Cell::Moment { shown, .. }
            | Cell::Command(shown) => shown.clone(),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
            Cell::Scientific(0.0) => "0".to_string(),
            Cell::Scientific(number) if *number >= 0.001 => format!("{number:.3}"),
            Cell::Scientific(number) => format!("{number:.0e}"),
            Cell::Missing => "-".to_string(),
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Cell::Text(text) | Cell::Command(text) => json!(text),
            Cell::Told { exact, .. } => exact.json(),
            Cell::Moment { exact, .. } => json!(exact),
            Cell::Count(count) => json!(count),
            Cell::Amount { value, .. } => json!(value),
            Cell::Number(number, _) | Cell::Scientific(number) => json!(number),
            Cell::Missing => Value::Null,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        match self {
            Cell::Told { exact, .. } => exact.is_number(),
            Cell::Text(_) | Cell::Moment { .. } | Cell::Command(_) => false,
            _ => true,
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What it holds, in a word or two. Without one it is a drawing in characters: for terminals alone.
    pub name: String,
    /// In what; empty for words and plain counts.
    pub unit: String,
    /// Whether it only says more of what others say, and is shown on a terminal only where that is asked for.
    pub is_detail: bool,
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
    /// What it comes to, in a sentence that stands above it.
    pub verdict: Option<String>,
    /// Whether a terminal is shown it only where details are asked for.
    pub is_detail: bool,
    /// Below which width of a page, in its letters, a row is a paragraph, as it always is on paper.
    pub blocks_below: Option<u16>,
    /// After how many rows a page folds the others away.
    pub folded_after: Option<usize>,
}

impl Table {
    /// A table without rows; its columns as `what; time (ms)`, each with its unit if it has one.
    pub fn new(title: impl Into<String>, columns: &str) -> Table {
        let column = |text: &str| {
            let (name, unit) = text.trim().split_once(" (").unwrap_or((text.trim(), ""));
            Column { name: name.to_string(), unit: unit.trim_end_matches(')').to_string(), is_detail: false }
        };
        let columns = columns.split(';').map(column).collect();
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

    /// With these columns shown on a terminal only where details are asked for.
    pub fn details(mut self, names: &[&str]) -> Table {
        for column in &mut self.columns {
            column.is_detail |= names.contains(&column.name.as_str());
        }
        self
    }

    /// With each row a paragraph on paper, and on pages less wide than so many letters.
    pub fn blocks_below(self, width: u16) -> Table {
        Table { blocks_below: Some(width), ..self }
    }

    /// With a page folding away what comes after so many rows.
    pub fn folded_after(self, rows: usize) -> Table {
        Table { folded_after: Some(rows), ..self }
    }

    /// Shown on a terminal only where details are asked for.
    pub fn detail(self) -> Table {
        Table { is_detail: true, ..self }
    }

    /// Without the columns that only a terminal is shown.
    pub(super) fn exported(&self) -> Table {
        self.filtered(|column| !column.name.is_empty())
    }

    /// With these columns alone.
    pub(super) fn filtered(&self, is_kept: impl Fn(&Column) -> bool) -> Table {
        let kept: Vec<usize> =
            (0..self.columns.len()).filter(|&column| is_kept(&self.columns[column])).collect();
        Table {
            columns: kept.iter().map(|&column| self.columns[column].clone()).collect(),
            rows: self
                .rows
                .iter()
                .map(|row| kept.iter().map(|&column| row[column].clone()).collect())
                .collect(),
            title: self.title.clone(),
            notes: self.notes.clone(),
            verdict: self.verdict.clone(),
            is_detail: self.is_detail,
            blocks_below: self.blocks_below,
            folded_after: self.folded_after,
        }
    }

    pub(super) fn headings(&self) -> Vec<String> {
        self.columns
            .iter()
            .map(|column| match column.unit.as_str() {
                "" => column.name.clone(),
                unit => format!("{} ({unit})", column.name),
            })
            .collect()
    }

    pub(super) fn right(&self, column: usize) -> bool {
        let number = |row: &Vec<Cell>| row[column].is_number() && row[column] != Cell::Missing;
        !self.columns[column].unit.is_empty() || self.rows.iter().any(number)
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
