//! `verisum dirhash steady`: names come and go.

use clap::{Args, ValueEnum};
use verisum_bench::export::{Cell, Report, Table};
use verisum_dirhash::steady::{self, NameTraffic, SteadyQuestion};

use super::options::{self, NameHashOptions, THREAD, TreeOptions};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;

/// What `verisum dirhash steady` takes.
#[derive(Args, Debug)]
pub(crate) struct SteadyArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    #[command(flatten)]
    tree: TreeOptions,

    /// How many names there are at a time
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000)]
    count: u32,

    /// How many times a name is removed and another created
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    cycles: u64,

    /// Which names are removed and created: fifo removes the oldest name, random any name; program replays
    /// the steady.c that was posted in 2002, which picks names with glibc's rand
    #[arg(long, value_enum, default_value_t)]
    traffic: TrafficName,

    /// With `--traffic program` or `program-as-written`: how many names to pick from, --count to 1000 times
    /// --count; without it, twice --count
    #[arg(long, value_name = "N")]
    range: Option<u32>,

    /// The names: a pattern with a counter as in printf, or maildir, hex, utf8 or camera
    #[arg(long, value_name = "PATTERN", default_value = "foo%d")]
    names: String,

    /// Show each change of the directory's length
    #[arg(long)]
    growth: bool,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum TrafficName {
    #[default]
    Fifo,
    Random,
    Program,
    /// The program as it was posted: a name that exists already counts as created
    ProgramAsWritten,
}

/// How often the program may draw for each name that it removes, on average.
const DRAWS_A_NAME: u32 = 1000;
/// Numbers that rand draws from; of each the program remembers whether its name is there.
const MOST_RANGE: u32 = 1 << 31;

/// Runs the traffic, in the model.
pub(crate) fn run(arguments: &SteadyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let hashings = arguments.hashes.hashings(&THREAD)?;
    let names = options::names(&arguments.names)?;
    let count = options::names_in_memory("--count", arguments.count)?;
    if let (Some(range), TrafficName::Fifo | TrafficName::Random) = (arguments.range, arguments.traffic) {
        return Err(Failure::value("--range", range, "needs --traffic program or program-as-written"));
    }
    let range = arguments.range.unwrap_or(2 * count);
    let most = count.saturating_mul(DRAWS_A_NAME).min(MOST_RANGE);
    if !(count..=most).contains(&range) {
        return Err(Failure::value(
            "--range",
            range,
            format!("must be {count} to {most}: a name that is there is drawn once in range / count draws"),
        ));
    }
    if u64::from(count) + arguments.cycles >= u64::from(u32::MAX) {
        return Err(Failure::value(
            "--cycles",
            arguments.cycles,
            "must be below 4294967295, together with --count",
        ));
    }
    let traffic = match arguments.traffic {
        TrafficName::Fifo => NameTraffic::FirstInFirstOut,
        TrafficName::Random => NameTraffic::Random,
        TrafficName::Program => NameTraffic::Program { range, as_written: false },
        TrafficName::ProgramAsWritten => NameTraffic::Program { range, as_written: true },
    };
    let question = SteadyQuestion {
        names: &names,
        count,
        cycles: arguments.cycles,
        traffic,
        geometry: arguments.tree.geometry()?,
        policy: arguments.tree.policy(),
        split_rule: arguments.tree.split_rule(),
    };
    let mut table = Table::new(
        "Blocks before and after",
        "hash; start (blocks); end (blocks); most (blocks); cycles; names; fill (%); splits; merges; \
         rebuilds; writes (blocks); merge reads (blocks); growth at cycle",
    );
    let mut growth = Table::new("Growth", "hash; cycle; blocks");
    for hashing in &hashings {
        let answer = steady::run(&question, *hashing, 0, &mut |_, _| {});
        let first: Vec<String> = answer.growth.iter().take(4).map(|event| event.cycle.to_string()).collect();
        let more = if answer.growth.len() > 4 { ", …" } else { "" };
        table.row([
            Cell::text(hashing.hash.id),
            Cell::Count(answer.start),
            Cell::Count(answer.end),
            Cell::Count(answer.most),
            Cell::Count(answer.cycles),
            Cell::Count(answer.names),
            Cell::Number(answer.fill.fraction(question.geometry) * 100.0, 1),
            Cell::Count(answer.events.leaf_splits),
            Cell::Count(answer.events.merges),
            Cell::Count(answer.events.rebuilds),
            Cell::Count(answer.events.writes),
            Cell::Count(answer.events.merge_reads),
            Cell::Text(format!("{}{more}", first.join(", "))),
        ]);
        for event in &answer.growth {
            growth.row([Cell::text(hashing.hash.id), Cell::Count(event.cycle), Cell::Count(event.blocks)]);
        }
    }
    let mut report = Report::new(format!(
        "Steady state: {count} names of {}, {} cycles, traffic {}, policy {}",
        arguments.names,
        arguments.cycles,
        traffic.name(),
        question.policy.name()
    ));
    report.lines.push(report.title.clone());
    report.parameters = options::parameters("steady", &hashings);
    report.parameters.extend(arguments.tree.parameters(true)?);
    report.parameters.extend([
        ("names", arguments.names.clone()),
        ("count", count.to_string()),
        ("cycles", arguments.cycles.to_string()),
        ("traffic", traffic.name().to_string()),
    ]);
    if matches!(traffic, NameTraffic::Program { .. }) {
        report.parameters.push(("range", range.to_string()));
    }
    report.tables.push(table);
    if arguments.growth {
        report.tables.push(growth);
    }
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}
