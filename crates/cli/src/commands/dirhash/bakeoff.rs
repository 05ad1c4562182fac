//! `verisum dirhash bakeoff`: so many creates with each hash.

use clap::Args;
use verisum_lab::dirhash::bakeoff::{self, Answer, Question};
use verisum_lab::dirhash::htree::Geometry;
use verisum_lab::export::{Cell, Report, Table};

use super::bakeoff_real;
use super::options::{self, HashOptions, THREAD, TreeOptions};
use crate::commands::report::ReportOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;

/// What `verisum dirhash bakeoff` takes.
#[derive(Args, Debug)]
pub(crate) struct BakeoffArgs {
    #[command(flatten)]
    hashes: HashOptions,

    #[command(flatten)]
    tree: TreeOptions,

    /// How many names
    #[arg(short = 'n', long, value_name = "N", default_value_t = 200_000)]
    count: u32,

    /// The names: a pattern with a counter as printf has it, or maildir, hex, utf8 or camera
    #[arg(long, value_name = "PATTERN", default_value = "foo%d")]
    names: String,

    /// Points of the curve of fill over names; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 16)]
    points: u32,

    /// Create, remount, stat, delete and create again on real file systems in files; needs root. Without
    /// --alg: ext4 with legacy, half_md4 and tea, then xfs and btrfs
    #[arg(long, conflicts_with_all = ["policy", "split"])]
    real: bool,

    /// How often, with all file systems in turns; below five, no times are told apart
    #[arg(long, value_name = "N", default_value_t = 5, requires = "real", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// How many directories get so many names each, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, requires = "real", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    directories: u32,

    #[command(flatten)]
    report: ReportOptions,
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
        let report = bakeoff_real::run(&question, &hashings)?;
        arguments.report.show(&report, output)?;
        return Ok(Exit::Clean);
    }
    let hashings = arguments.hashes.hashings(&THREAD)?;
    let question = Question {
        names: &names,
        count: options::at_least_one("--count", arguments.count)?,
        geometry,
        policy: arguments.tree.policy(),
        split_rule: arguments.tree.split_rule(),
        points: arguments.points.clamp(200, 2000),
    };
    let answers: Vec<(&str, Answer)> =
        hashings.iter().map(|hashing| (hashing.hash.id, bakeoff::run(&question, *hashing))).collect();
    let mut report = Report::new(format!("Bakeoff: {} creates of {}", arguments.count, arguments.names));
    for (id, answer) in &answers {
        report.lines.push(format!("{id}: {}", answer.thread_line(geometry)));
        if answer.full {
            report.lines.push(format!("{id}: the index was full after {} names", answer.names));
        }
    }
    report.tables.push(directories(&answers, geometry));
    if arguments.points > 0 {
        report.tables.push(curve(&answers, arguments.points));
    }
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}

/// One line a hash.
pub(super) fn directories(answers: &[(&str, Answer)], geometry: Geometry) -> Table {
    let mut table = Table::new(
        "Directories (the model gives the kernel's block count; the time is the model's, not a file system's)",
        &[
            ("hash", ""),
            ("names", ""),
            ("size", "bytes"),
            ("blocks", ""),
            ("index", "blocks"),
            ("levels", ""),
            ("fill", "%"),
            ("mean fill", "%"),
            ("splits", ""),
            ("writes", "blocks"),
            ("colliding", "names"),
            ("most of one hash", ""),
            ("index full at", "names"),
            ("model", "s"),
        ],
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
            Cell::Count(answer.limit.expected_names as u64),
            Cell::Number(answer.model_time.as_secs_f64(), 2),
        ]);
    }
    table
}

/// Fill over names: uniform hashes split in step, so one number misleads.
fn curve(answers: &[(&str, Answer)], points: u32) -> Table {
    let mut table = Table::new(
        "Fill over names",
        &[("hash", ""), ("names", ""), ("blocks", ""), ("fill", "%"), ("", "")],
    );
    for (id, answer) in answers {
        let step = answer.curve.len().div_ceil(points as usize).max(1);
        let last = answer.curve.len().saturating_sub(1) % step;
        for point in answer.curve.iter().skip(last).step_by(step) {
            // A mark for each per cent above 50.
            let bar = "▌".repeat((point.fill * 100.0 - 50.0).max(0.0) as usize);
            table.row([
                Cell::text(*id),
                Cell::Count(point.names),
                Cell::Count(point.blocks),
                Cell::Number(point.fill * 100.0, 1),
                Cell::Text(bar),
            ]);
        }
    }
    table
}
