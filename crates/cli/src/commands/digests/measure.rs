//! `verisum digests --measure`: whether the built-in choice is the best on this machine.

use std::time::Duration;

use serde::Serialize;
use verisum::digest::{ALGORITHMS, Digest, Policy};
use verisum_bench::digests::levels::{self, BETTER, CHOICE, COUNTS, LENGTH, Ways};
use verisum_bench::export::{Cell, Report, Table};

use crate::ui::failure::Failure;
use crate::ui::{Output, terminal};

/// How long all digests together are measured for, about.
const TIME: Duration = Duration::from_secs(1);

/// The counts of messages that the table has room for.
const SHOWN: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Measures and prints.
pub(super) fn run(policy: &Policy, json: bool, output: &mut Output) -> Result<(), Failure> {
    output.ready()?;
    let digests: Vec<Digest> = ALGORITHMS
        .iter()
        .filter_map(|algorithm| Digest::of(algorithm, policy).ok())
        .filter(|digest| digest.batch_level().is_some())
        .collect();
    let counts = SHOWN.map(|count| format!("; {count}")).concat();
    let mut table = Table::new("", &format!("GB/s; WAY{counts}"));
    let mut better = Vec::new();
    for digest in &digests {
        let ways = levels::measure(digest, policy.max_level, TIME / digests.len() as u32);
        let Some(ways) = ways? else { continue };
        if json {
            output.json("measurement", &MeasuredRow::new(digest.name(), &ways))?;
        } else {
            add(&mut table, digest.name(), &ways);
            better.extend(sentences(digest.name(), &ways));
        }
        output.flush()?;
    }
    if json {
        return Ok(());
    }
    table.notes.push(String::new());
    table
        .notes
        .push(format!("1 to 32: messages of {} KiB at once; stream: one after the other", LENGTH / 1024));
    table.notes.push("batch: what verisum takes for blocks of images and for many files".to_string());
    table.notes.extend(match (digests.is_empty(), better.is_empty()) {
        (true, _) => vec!["Nothing may be hashed side by side here: nothing was measured.".to_string()],
        (_, true) => {
            let most = COUNTS.end();
            vec![format!("Nothing is {BETTER} times as fast as batch, for 1 to {most} messages.")]
        }
        _ => better,
    });
    let mut report = Report::new("");
    report.tables.push(table);
    output.text(&report.to_terminal(terminal::layout(true)))
}

/// A row for each way.
fn add(table: &mut Table, name: &str, ways: &Ways) {
    for (index, way) in ways.names.iter().enumerate() {
        let shown = ways.counts.iter().filter(|times| SHOWN.contains(&times.count));
        let mut cells = vec![Cell::text(name), Cell::text(*way)];
        cells.extend(shown.map(|times| Cell::Number(times.rate(index) / 1e9, 2)));
        table.row(cells);
    }
}

/// Where another way is better: a sentence for counts that follow each other.
fn sentences(name: &str, ways: &Ways) -> Vec<String> {
    let runs = ways.counts.chunk_by(|a, b| a.better() == b.better());
    let sentence = |run: &[levels::Times]| {
        let best = run[0].better()?;
        let factor = run.iter().map(|times| times.rate(best) / times.rate(CHOICE)).fold(0.0, f64::max);
        let counts = match run {
            [one] => format!("{}", one.count),
            _ => format!("{} to {}", run[0].count, run[run.len() - 1].count),
        };
        Some(format!("{name}, batches of {counts}: {} is up to {factor:.1} times as fast", ways.names[best]))
    };
    runs.filter_map(sentence).collect()
}

/// A digest, as JSON has it.
#[derive(Serialize)]
struct MeasuredRow<'a> {
    name: &'a str,
    /// The length of a message in bytes.
    size: usize,
    /// `batch`, which is the built-in choice, `stream`, and each level.
    ways: &'a [&'static str],
    counts: Vec<Count<'a>>,
}

#[derive(Serialize)]
struct Count<'a> {
    messages: usize,
    /// In the order of the ways.
    bytes_per_second: Vec<u64>,
    /// The way that is much faster than the choice.
    better: Option<&'a str>,
}

impl<'a> MeasuredRow<'a> {
    fn new(name: &'a str, ways: &'a Ways) -> MeasuredRow<'a> {
        let count = |times: &levels::Times| Count {
            messages: times.count,
            bytes_per_second: (0..ways.names.len()).map(|way| times.rate(way) as u64).collect(),
            better: times.better().map(|way| ways.names[way]),
        };
        MeasuredRow { name, size: LENGTH, ways: &ways.names, counts: ways.counts.iter().map(count).collect() }
    }
}
