//! `verisum dirhash cost`: nanoseconds against the length of the name.

use clap::Args;
use verisum_lab::dirhash::cost::{self, LENGTHS};
use verisum_lab::export::{Cell, Report, Table};
use verisum_lab::stats::Pair;

use super::options::{self, HashOptions};
use crate::commands::report::ReportOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;

/// What `verisum dirhash cost` takes.
#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    hashes: HashOptions,

    /// Lengths of names, 1 to 255; may be given several times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    length: Vec<u8>,

    /// Measurements of each; the more hashes and lengths are compared, the more it takes to resolve anything
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    samples: u16,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// Measures.
pub(crate) fn run(arguments: &CostArgs, output: &mut Output) -> Result<Exit, Failure> {
    let hashings = arguments.hashes.hashings(&["all"])?;
    let lengths: Vec<usize> = match arguments.length.is_empty() {
        true => LENGTHS.to_vec(),
        false => arguments.length.iter().map(|&length| length.into()).collect(),
    };
    let rows = cost::measure(&hashings, &lengths, arguments.samples.into());
    let first = hashings[0].hash.id;
    let mut table = Table::new(
        format!("Time for one name, with the 95% interval of the median; beside {first}"),
        &[
            ("hash", ""),
            ("length", "bytes"),
            ("time", "ns"),
            ("from", "ns"),
            ("to", "ns"),
            ("ratio", ""),
            ("ratio from", ""),
            ("ratio to", ""),
            ("beside the first", ""),
        ],
    );
    for (hashing, row) in hashings.iter().zip(&rows) {
        for (length, cost) in lengths.iter().zip(row) {
            let pair = cost.beside_first.as_ref();
            let ratio = |of: fn(&Pair) -> f64| pair.map_or(Cell::Missing, |pair| Cell::Number(of(pair), 3));
            table.row([
                Cell::text(hashing.hash.id),
                Cell::Count(*length as u64),
                Cell::Number(cost.time.median, 1),
                Cell::Number(cost.time.low, 1),
                Cell::Number(cost.time.high, 1),
                ratio(|pair| pair.ratio.median),
                ratio(|pair| pair.ratio.low),
                ratio(|pair| pair.ratio.high),
                Cell::text(pair.map_or("-", |pair| pair.verdict.name())),
            ]);
        }
    }
    let mut report = Report::new("What hashing a name costs");
    report.parameters = options::parameters("cost", &hashings);
    report.parameters.push(("samples", arguments.samples.to_string()));
    let comparisons = (hashings.len() - 1) * lengths.len();
    report.lines.extend(options::too_few(arguments.samples.into(), comparisons));
    report.tables.push(table);
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}
