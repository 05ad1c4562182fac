//! `verisum dirhash bakeoff`: creates the same number of names with each hash.

use clap::Args;
use verisum_bench::export::{Cell, Chart, ChartLine, Report, Table};
use verisum_bench::stats::Interval;
use verisum_dirhash::Hashing;
use verisum_dirhash::bakeoff::{self, BakeoffAnswer, BakeoffQuestion};
use verisum_dirhash::htree::Geometry;

use super::bakeoff_real;
use super::options::{self, NameHashOptions, THREAD, TreeOptions};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;

/// What `verisum dirhash bakeoff` takes.
#[derive(Args, Debug)]
pub(crate) struct BakeoffArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    #[command(flatten)]
    tree: TreeOptions,

    /// How many names
    #[arg(short = 'n', long, value_name = "N", default_value_t = 200_000)]
    count: u32,

    /// The names: a pattern with a counter as in printf, or maildir, hex, utf8 or camera
    #[arg(long, value_name = "PATTERN", default_value = "foo%d")]
    names: String,

    /// How many points the curve of fill over names has; 0 leaves the curve out
    #[arg(long, value_name = "N", default_value_t = 16)]
    points: u32,

    /// Create, remount, stat, delete and create again on real file systems in files; needs root. Without
    /// --hash: ext4 with legacy, half_md4 and tea, then xfs and btrfs
    #[arg(long, conflicts_with_all = ["policy", "split"])]
    real: bool,

    /// Number of rounds; each runs every file system once. With few rounds no difference is significant, and
    /// the output says so
    #[arg(long, value_name = "N", default_value_t = 10, requires = "real", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Number of directories that get that many names each, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, requires = "real", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    directories: u32,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// Fills the directories, in the model or in real file systems.
pub(crate) fn run(arguments: &BakeoffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let names = options::names(&arguments.names)?;
    let geometry = arguments.tree.geometry()?;
    if arguments.real {
        let hashings = arguments.hashes.hashings(&bakeoff_real::ALL)?;
        let question = bakeoff_real::Question {
            names: &names,
            pattern: &arguments.names,
            count: options::at_least_one("--count", arguments.count)?,
            directories: arguments.directories,
            geometry,
            rounds: arguments.rounds,
        };
        let mut report = bakeoff_real::run(&question, &hashings)?;
        report.parameters = parameters(arguments, &hashings)?;
        arguments.report.show(&report, output)?;
        return Ok(Exit::Clean);
    }
    let hashings = arguments.hashes.hashings(&THREAD)?;
    let question = BakeoffQuestion {
        names: &names,
        count: options::names_in_memory("--count", arguments.count)?,
        geometry,
        policy: arguments.tree.policy(),
        split_rule: arguments.tree.split_rule(),
        points: arguments.points.clamp(200, 2000),
    };
    let answers: Vec<(&str, BakeoffAnswer)> =
        hashings.iter().map(|hashing| (hashing.hash.id, bakeoff::run(&question, *hashing))).collect();
    let mut report = Report::new(format!("Bakeoff: {} creates of {}", arguments.count, arguments.names));
    report.parameters = parameters(arguments, &hashings)?;
    for (id, answer) in &answers {
        let spent = answer.spent;
        report.lines.push(format!(
            "{id}: {}; the model: user {:.2} s, system {:.2} s, real {:.2} s",
            answer.thread_line(geometry),
            spent.user.as_secs_f64(),
            spent.system.as_secs_f64(),
            spent.real.as_secs_f64()
        ));
        if answer.full {
            report.lines.push(format!("{id}: the index was full after {} names", answer.names));
        }
    }
    report.tables.push(directories(&answers, geometry));
    if arguments.points > 0 {
        let (table, chart) = curve(&answers, arguments.points);
        report.tables.push(table);
        report.charts.push(chart);
    }
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}

/// One line a hash.
pub(super) fn directories(answers: &[(&str, BakeoffAnswer)], geometry: Geometry) -> Table {
    let mut table = Table::new(
        "Directories (the model gives the kernel's block count; \
         the time is the model's, not a file system's)",
        "hash; names; size (bytes); blocks; index (blocks); levels; fill (%); mean fill (%); splits; \
         writes (blocks); colliding (names); most of one hash; index full at (names); not before (names); \
         model (s)",
    );
    for (id, answer) in answers {
        table.row([
            Cell::text(*id),
            Cell::Count(answer.names),
            Cell::Count(answer.directory_blocks * u64::from(geometry.block_size())),
            Cell::Count(answer.directory_blocks),
            Cell::Count(answer.fill.index_blocks),
            Cell::Count(answer.levels as u64),
            Cell::Number(answer.fill.fraction(geometry) * 100.0, 1),
            Cell::Number(answer.mean_fill() * 100.0, 1),
            Cell::Count(answer.events.leaf_splits),
            Cell::Count(answer.events.writes),
            Cell::Count(answer.fill.colliding),
            Cell::Count(answer.fill.most_of_one_hash),
            if answer.full { Cell::Count(answer.names) } else { Cell::Missing },
            Cell::Count(answer.limit.least_names as u64),
            Cell::Number(answer.spent.real.as_secs_f64(), 2),
        ]);
    }
    table
}

/// Fill over names: uniform hashes split in step, so one number misleads.
fn curve(answers: &[(&str, BakeoffAnswer)], points: u32) -> (Table, Chart) {
    const TITLE: &str = "Fill over names";
    let mut lines = Vec::new();
    let mut table = Table::new(TITLE, "hash; names; blocks; fill (%);");
    for (id, answer) in answers {
        let step = answer.curve.len().div_ceil(points as usize).max(1);
        let mut line = ChartLine { name: id.to_string(), points: Vec::new() };
        let last = answer.curve.len().saturating_sub(1) % step;
        for point in answer.curve.iter().skip(last).step_by(step) {
            let fill = point.fill * 100.0;
            line.points.push((point.names as f64, Interval { low: fill, median: fill, high: fill }));
            // A mark for each per cent above 50.
            let bar = "▌".repeat((fill - 50.0).max(0.0) as usize);
            table.row([
                Cell::text(*id),
                Cell::Count(point.names),
                Cell::Count(point.blocks),
                Cell::Number(fill, 1),
                Cell::Text(bar),
            ]);
        }
        lines.push(line);
    }
    (table, Chart::lines(TITLE, "fill in %", "names", lines).logarithmic_axis())
}

/// What an export says was measured.
fn parameters(arguments: &BakeoffArgs, hashings: &[Hashing]) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut parameters = options::parameters("bakeoff", hashings);
    parameters.extend(arguments.tree.parameters(!arguments.real)?);
    parameters.extend([("names", arguments.names.clone()), ("count", arguments.count.to_string())]);
    if arguments.real {
        parameters.extend([
            ("real", "yes".to_string()),
            ("rounds", arguments.rounds.to_string()),
            ("directories", arguments.directories.to_string()),
        ]);
    }
    Ok(parameters)
}
