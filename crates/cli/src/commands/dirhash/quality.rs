//! `verisum dirhash quality`: tests whether a hash spreads names as chance would.

use clap::Args;
use verisum_bench::export::{Cell, Report, Table};
use verisum_dirhash::quality::{self, SUSPICIOUS, TestSubject};

use super::options::{self, NameHashOptions, THREAD};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;
use crate::ui::progress;

/// What `verisum dirhash quality` takes.
#[derive(Args, Debug)]
pub(crate) struct QualityArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    /// Names of each set
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    count: u32,

    /// Show every test, not only those that fail
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// Tests the hashes, and a bad one that must fail.
pub(crate) fn run(arguments: &QualityArgs, output: &mut Output) -> Result<Exit, Failure> {
    let hashings = arguments.hashes.hashings(&THREAD)?;
    let mut subjects: Vec<TestSubject> =
        hashings.iter().map(|hashing| TestSubject::Hash(hashing.hash)).collect();
    subjects.push(TestSubject::BadControl);
    let seed = arguments.hashes.seed()?;
    let mut verdicts =
        Table::new(format!("Tests with p below {SUSPICIOUS:.0e} fail"), "hash; tests; failed; smallest p");
    let mut details = Table::new(
        if arguments.all { "Every test" } else { "Tests that failed" },
        "hash; test; measured; expected; p",
    );
    let watch = |done: usize| progress::show_line(&format!("{done} of {} hashes", subjects.len()));
    let all = quality::examine_all(&subjects, &seed, arguments.count as usize, &watch);
    progress::show_line("");
    for (subject, findings) in subjects.iter().zip(all) {
        let failed = findings.iter().filter(|finding| finding.p < SUSPICIOUS).count();
        verdicts.row([
            Cell::text(subject.name()),
            Cell::Count(findings.len() as u64),
            Cell::Count(failed as u64),
            Cell::Scientific(findings.iter().map(|finding| finding.p).fold(1.0, f64::min)),
        ]);
        for finding in findings.iter().filter(|finding| arguments.all || finding.p < SUSPICIOUS) {
            details.row([
                Cell::text(subject.name()),
                Cell::text(finding.test.as_str()),
                Cell::Number(finding.measured, 4),
                Cell::Number(finding.expected, 4),
                Cell::Scientific(finding.p),
            ]);
        }
    }
    let mut report = Report::new("How well hashes spread names");
    report.parameters = options::parameters("quality", &hashings);
    report.parameters.push(("count", arguments.count.to_string()));
    report.tables = vec![verdicts, details];
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}
