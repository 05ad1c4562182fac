//! `verisum dirhash cost`: nanoseconds by the length of the name.

use clap::Args;
use verisum_bench::export::{Cell, Report, Table};
use verisum_bench::stats::{RankedPair, beside_first, interval};
use verisum_dirhash::cost::{self, LENGTHS};

use super::options::{self, NameHashOptions};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;

/// What `verisum dirhash cost` takes.
#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    /// Lengths of names, 1 to 255; may be given several times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    length: Vec<u8>,

    /// Number of measurements of each; the more hashes and lengths you compare, the more measurements a
    /// verdict needs
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
    let times = cost::measure(&hashings, &lengths, arguments.samples.into());
    let pairs = beside_first(&times);
    let first = hashings[0].hash.id;
    let mut table = Table::new(
        format!("Time for one name, with the 95% interval of the median; beside {first}"),
        "hash; length (bytes); time (ns); from (ns); to (ns); ratio; ratio from; ratio to; \
         relative to the first",
    )
    .details(&["from", "to", "ratio from", "ratio to"]);
    for (place, hashing) in hashings.iter().enumerate() {
        for (length, (times, pairs)) in lengths.iter().zip(times.iter().zip(&pairs)) {
            let time = interval(&times[place]);
            let pair = place.checked_sub(1).map(|place| &pairs[place]);
            let ratio =
                |of: fn(&RankedPair) -> f64| pair.map_or(Cell::Missing, |pair| Cell::Number(of(pair), 3));
            table.row([
                Cell::text(hashing.hash.id),
                Cell::Count(*length as u64),
                Cell::Number(time.median, 1),
                Cell::Number(time.low, 1),
                Cell::Number(time.high, 1),
                ratio(|pair| pair.ratio.median),
                ratio(|pair| pair.ratio.low),
                ratio(|pair| pair.ratio.high),
                Cell::text(pair.map_or("-", |pair| pair.verdict.name())),
            ]);
        }
    }
    let medians = times.iter().map(|times| times.iter().map(|times| interval(times).median).collect());
    let ids: Vec<&str> = hashings.iter().map(|hashing| hashing.hash.id).collect();
    let mut report = Report::new("What hashing a name costs");
    report.lines.push(verdict(&ids, &medians.collect::<Vec<_>>()));
    report.parameters = options::parameters("cost", &hashings);
    report.parameters.push(("samples", arguments.samples.to_string()));
    let comparisons = (hashings.len() - 1) * lengths.len();
    report.lines.extend(options::too_few(arguments.samples.into(), comparisons));
    report.tables.push(table);
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}

/// Which hash takes the least time at how many lengths, and how far the first is behind. By length, then by hash.
fn verdict(ids: &[&str], nanoseconds: &[Vec<f64>]) -> String {
    let mut wins = vec![0; ids.len()];
    let mut ratios = Vec::new();
    for times in nanoseconds {
        let fastest = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b])).unwrap_or_default();
        wins[fastest] += 1;
        ratios.push(times[0] / times[fastest]);
    }
    let best = (0..ids.len()).rev().max_by_key(|&place| wins[place]).unwrap_or_default();
    let of = |pick: fn(f64, f64) -> f64, from: f64| ratios.iter().copied().fold(from, pick);
    let (least, most) = (of(f64::min, f64::INFINITY), of(f64::max, 0.0));
    format!(
        "{} has the lowest median at {} of {} lengths; {} takes {least:.1} to {most:.1} times the lowest",
        ids[best],
        wins[best],
        nanoseconds.len(),
        ids[0],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_says_which_is_fastest_and_how_far_the_first_is_behind() {
        let times = [vec![2.0, 1.0, 4.0], vec![9.0, 3.0, 5.0], vec![1.0, 2.0, 3.0]];
        assert_eq!(
            verdict(&["tea", "xfs", "btrfs"], &times),
            "xfs has the lowest median at 2 of 3 lengths; tea takes 1.0 to 3.0 times the lowest"
        );
    }
}
