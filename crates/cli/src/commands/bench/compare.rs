//! `verisum bench compare`: two files of results side by side.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum_bench::agreement::Agreement;
use verisum_bench::compare;
use verisum_bench::record::BenchResults;

use super::session;
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;

/// What `verisum bench compare` takes.
#[derive(Args, Debug)]
pub(crate) struct BenchCompareArgs {
    /// Results as `--export-json` writes them
    #[arg(value_hint = ValueHint::FilePath)]
    first: PathBuf,

    /// Other results
    #[arg(value_hint = ValueHint::FilePath)]
    second: PathBuf,

    /// Also list the pairs on which both agree
    #[arg(long)]
    pairs: bool,

    #[command(flatten)]
    report: ReportOptions,
}

/// Compares.
pub(crate) fn run(arguments: &BenchCompareArgs, output: &mut Output) -> Result<Exit, Failure> {
    let first = BenchResults::read(&arguments.first).map_err(session::failure)?;
    let second = BenchResults::read(&arguments.second).map_err(session::failure)?;
    let agreement = Agreement::of(&first, &second);
    let mut report = compare::report(&first, &second);
    agreement.tell(&mut report, arguments.pairs);
    // What contradicts comes before.
    if !agreement.is_broken() {
        report.lines.splice(0..0, compare::headline(&first, &second));
    }
    arguments.report.show(&report, output)?;
    Ok(if agreement.is_broken() {
        Exit::Mismatch
    } else if compare::has_anything_in_common(&first, &second) {
        Exit::Clean
    } else {
        Exit::Unchecked
    })
}
