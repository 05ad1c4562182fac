//! Prints a report, and writes it to files.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueHint};
use verisum::files::Replacement;
use verisum::files::replace::ReplaceError;
use verisum_bench::export::Report;

use crate::ui::failure::Failure;
use crate::ui::{Output, names, terminal};

/// In which forms.
#[derive(Args, Debug)]
pub(crate) struct ReportOptions {
    /// Print one JSON value instead of tables
    #[arg(long)]
    json: bool,

    /// Also print tables and columns with details: ranges, and the machine
    #[arg(long, conflicts_with = "json")]
    details: bool,

    #[command(flatten)]
    pub(crate) files: ExportOptions,
}

/// The files alone, for verbs that print in a form of their own.
#[derive(Args, Debug)]
pub(crate) struct ExportOptions {
    /// Also write the tables to a file, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file(TABLES))]
    export_json: Option<PathBuf>,

    /// Also write the tables to a file, as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file(TABLES))]
    export_csv: Option<PathBuf>,

    /// Also write the tables to a file, as Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file(TABLES))]
    export_markdown: Option<PathBuf>,

    /// Also write the tables to a file, as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file(TABLES))]
    export_html: Option<PathBuf>,
}

const TABLES: &str = "must be a file; --json prints to standard output";

/// What else is a file: what is printed stands on standard output already.
pub(crate) const NO_STREAM: &str = "must be a file, and no standard stream";

/// A name of a file. Standard output has the report already: `-` would mix two forms.
pub(crate) fn file(must: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| match path.as_os_str() == "-" {
        true => Err(must),
        false => Ok(path),
    })
}

impl ReportOptions {
    /// Prints the report and writes the files.
    pub(crate) fn show(&self, report: &Report, output: &mut Output) -> Result<(), Failure> {
        match self.json {
            true => output.report(&report.to_json())?,
            false => output.text(&self.text(report))?,
        }
        self.export(report)
    }

    /// The report as it is printed.
    pub(crate) fn text(&self, report: &Report) -> String {
        report.to_terminal(terminal::layout(self.details))
    }

    /// As [`ExportOptions::require`].
    pub(crate) fn require(&self) -> Result<(), Failure> {
        self.files.require()
    }

    /// Writes the files only, as [`ExportOptions::export`].
    pub(crate) fn export(&self, report: &Report) -> Result<(), Failure> {
        self.files.export(report)
    }

    /// Whether one JSON value is printed instead of tables.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Where JSON is written to, for those who write it while they measure.
    pub(crate) fn export_json(&self) -> Option<&Path> {
        self.files.export_json.as_deref()
    }
}

impl ExportOptions {
    /// Fails unless all files can be written, so that nobody measures for nothing; leaves no trace.
    pub(crate) fn require(&self) -> Result<(), Failure> {
        let files = [&self.export_json, &self.export_csv, &self.export_markdown, &self.export_html];
        let mut taken = Vec::new();
        for path in files.into_iter().flatten() {
            if is_written_to(path) {
                let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
                writable.map_err(|error| Failure::file(path, "write", error.into()))?;
                continue;
            }
            let target = Replacement::new(path)?.target();
            if taken.contains(&target) {
                let name = names::quoted(path.as_os_str());
                return Err(Failure::Usage(format!("{name}: only one form can be written to one file")));
            }
            taken.push(target);
        }
        Ok(())
    }

    /// Writes the files. Each is tried; the first failure is returned.
    pub(crate) fn export(&self, report: &Report) -> Result<(), Failure> {
        let written = [
            write(self.export_json.as_deref(), || format!("{:#}\n", report.to_json())),
            write(self.export_csv.as_deref(), || report.to_csv()),
            write(self.export_markdown.as_deref(), || report.to_markdown()),
            write(self.export_html.as_deref(), || report.to_html()),
        ];
        written.into_iter().collect()
    }
}

/// Writes a file at once or not at all: what was saved before survives a full disk.
pub(crate) fn write(path: Option<&Path>, text: impl Fn() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    write_by(path, &Replacement::new, text)
}

/// The same of a file that others may not read: it has the names of files.
pub(crate) fn write_private(path: &Path, text: impl Fn() -> String) -> Result<(), Failure> {
    write_by(path, &Replacement::private, text)
}

fn write_by(
    path: &Path,
    begin: &dyn Fn(&Path) -> Result<Replacement, ReplaceError>,
    text: impl Fn() -> String,
) -> Result<(), Failure> {
    let failed = |error| Failure::file(path, "write", error);
    if is_written_to(path) {
        return std::fs::write(path, text()).map_err(failed);
    }
    let replacement = begin(path)?;
    replacement.file().write_all(text().as_bytes()).map_err(failed)?;
    Ok(replacement.place()?)
}

/// Devices and pipes are written to, not replaced.
fn is_written_to(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}
