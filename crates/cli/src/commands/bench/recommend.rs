//! `verisum recommend`: measures files, disk and digests, and names one digest.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
use verisum_bench::export::{Bar, Cell, Chart, Report, Table};
use verisum_bench::measure::{About, Cache, MeasureAmount, Measured};
use verisum_bench::recommend::{self, Decision, DecisionInput, Device, FileSample, Purpose, Read, Survey};
use verisum_bench::record::{NOT_REACHED, Series};
use verisum_bench::stats::Interval;
use verisum_bench::summary;

use super::{BenchOptions, RUN_TIMEOUT, Session};
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::{Failure, tree_message};
use crate::ui::hosts;
use crate::ui::kernel;
use crate::ui::sizes;
use crate::ui::values;
use crate::ui::{self, Output};

/// What `verisum recommend` takes.
#[derive(Args, Debug)]
pub(crate) struct RecommendArgs {
    /// The purpose of the digest
    #[arg(long, value_name = "PURPOSE", value_enum, default_value = "bitrot")]
    purpose: Purpose,

    /// The directory with your files; they are read, never written
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
    on: PathBuf,

    /// Time budget
    #[arg(long = "for", value_name = "DURATION", default_value = "60s")]
    budget: String,

    /// Show no progress
    #[arg(long)]
    no_progress: bool,

    #[command(flatten)]
    threads: sizes::ThreadArgs,

    #[command(flatten)]
    report: ReportOptions,
}

/// The parts of the budget after which walking, and reading small and large files, end.
const UNTIL: [f64; 3] = [0.15, 0.25, 0.4];

/// The part of the budget after which no round is begun that would end later.
const END: f64 = 0.97;

/// Measures and answers.
pub(crate) fn run(arguments: RecommendArgs, output: &mut Output) -> Result<Exit, Failure> {
    let started = Instant::now();
    hosts::refuse_urls([&arguments.on])?;
    if Purpose::from_str(&arguments.budget, true).is_ok() {
        let purpose = &arguments.budget;
        let why = "is a time budget, as 60s; what the digest is wanted for";
        return Err(Failure::Usage(format!("--for {why} is --purpose {purpose}")));
    }
    let budget = values::duration("--for", &arguments.budget)?;
    let threads = arguments.threads.or_cores()?;
    let purpose = arguments.purpose;
    let policy = kernel::policy()?;
    let options = BenchOptions {
        runs: None,
        time: None,
        warmup: 1,
        no_progress: arguments.no_progress,
        cold: false,
        seed: 1,
        run_timeout: RUN_TIMEOUT.to_string(),
        report: arguments.report,
    };
    let amount = MeasureAmount::Time(budget);
    let mut session = Session::begin("recommend", &options, amount, std::slice::from_ref(&arguments.on))?;
    let stop = session.stop();
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let until = |part: f64| started + budget.mul_f64(part);

    let mut survey = recommend::survey(&arguments.on, until(UNTIL[0]), &stopped);
    if survey.load.small_files + survey.load.large_files == 0 {
        return nothing(&arguments.on, survey, stopped());
    }
    let read = |files: &[PathBuf], part| recommend::read_often(files, threads, until(part), &stopped);
    let failed = |error: verisum_bench::measure::MeasureError| Failure::Program {
        name: "recommend".to_string(),
        why: error.to_string(),
    };
    let small = read(&survey.small, UNTIL[1]).map_err(failed)?;
    let large = read(&survey.large, UNTIL[2]).map_err(failed)?;
    let device = Device::of(&small, &large);
    let load = survey.load;
    let wanted = survey.small.len() + survey.large.len();
    let lost = device.small.failed + device.large.failed;
    if device.small.files + device.large.bytes == 0 && !stopped() && wanted > 0 && lost > 0 {
        let error = std::io::Error::other("none of its files can be read");
        return Err(Failure::File { name: arguments.on, operation: "read", error });
    }
    add_device(&mut session, &device, &survey);
    if let Some(error) = survey.error.take() {
        let message = format!("{} ({} in all cannot be looked at)", tree_message(&error), load.unreadable);
        ui::say(PROGRAM, &message);
    }
    if lost > 0 {
        ui::say(PROGRAM, &format!("{lost} of {wanted} files that were chosen cannot be read"));
    }

    let bytes = ((budget.as_secs_f64() * f64::from(2 << 20)) as u64).clamp(2 << 20, 64 << 20);
    let sample = FileSample::new(&load, bytes).map_err(failed)?;
    let left = until(END).saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    session.plan.amount = MeasureAmount::Time(left);
    session.measure(recommend::subjects(purpose, &sample, &policy, threads));
    session.complete();

    let series = &session.results.series;
    let candidates = || purpose.candidates().iter().map(|one| one.id);
    let is_resolved = |name: &&str| recommend::is_resolved(name, purpose, series, &load);
    let input = DecisionInput {
        purpose,
        load,
        device: device.cost(&load),
        device_range: device.range(&load),
        from_memory: device.from_memory(),
        opening: recommend::opening(series, &load),
        rotating: verisum::files::is_rotating(survey.device),
        hashes: candidates().filter_map(|id| Some((id, recommend::cost(id, series, &load)?))).collect(),
        resolved: candidates().filter(is_resolved).collect(),
        chosen: wanted as u64,
        lost,
        threads,
    };
    let mut report = report(&session, &input, &survey, &arguments.on);
    let answered = recommend::decide(&input).is_some();
    // Whoever reads a terminal knows the machine.
    let text = session.options.report.text(&report);
    report.tables.push(summary::host(&session.results.host));
    match session.finish_with(&text, &report, output)? {
        // What could not be looked at may be most of it.
        Exit::Clean if load.unreadable > 0 || lost > 0 || !answered => Ok(Exit::Unchecked),
        exit => Ok(exit),
    }
}

/// Says why there is nothing to measure.
fn nothing(on: &Path, survey: Survey, stopped: bool) -> Result<Exit, Failure> {
    match survey.error {
        _ if stopped => Ok(Exit::Interrupted),
        Some(error) => Err(Failure::Tree(error)),
        None => {
            let what = if survey.load.files == 0 { "no regular files" } else { "only empty files" };
            let error = std::io::Error::other(format!("{what}, so there is nothing to measure"));
            Err(Failure::File { name: on.to_path_buf(), operation: "read", error })
        }
    }
}

/// What was read, as rows of the results, and why there is none of what was not.
fn add_device(session: &mut Session<'_>, device: &Device, survey: &Survey) {
    let cache = match device.from_memory() {
        Some(true) => Cache::Warm,
        Some(false) => Cache::Cold,
        None => Cache::Unknown,
    };
    let small = device.small_file.iter().map(|time| time * device.small.files as f64).collect();
    let large = device.large_byte.iter().map(|time| time * device.large.bytes as f64).collect();
    let load = &survey.load;
    let rows: [(_, _, Vec<f64>, _, _); 2] = [
        ("small files", device.small, small, load.small_files, &survey.small),
        ("large files", device.large, large, load.large_files, &survey.large),
    ];
    for (name, Read { files, bytes, failed, .. }, times, there, chosen) in rows {
        if times.is_empty() && there > 0 {
            let why = match () {
                () if session.stopped() => NOT_REACHED,
                () if chosen.is_empty() => "all of them are mostly holes, of which nothing is read",
                () if failed > 0 => "none of those that were chosen can be read",
                () => "the budget had no time left for it",
            };
            session.skip(&About::new("device", name).control(), why);
        }
        if !times.is_empty() {
            let about = About::new("device", name).bytes(bytes).control().label("files", files.to_string());
            let mut series = Series::new(&about);
            // Each pass as if it had read what all of them did.
            for (round, time) in times.into_iter().enumerate() {
                let wall = Duration::from_secs_f64(time);
                series.add(round as u32 + 1, &Measured { wall, ..Measured::default() }, cache);
            }
            session.results.series.push(series);
        }
    }
}

fn report(session: &Session<'_>, input: &DecisionInput, survey: &Survey, on: &Path) -> Report {
    let decision = recommend::decide(input);
    let mut report = Report::new(format!("Recommended for {}", input.purpose.name()));
    // As far as it has letters.
    let on = std::path::absolute(on).unwrap_or_else(|_| on.to_path_buf()).to_string_lossy().into_owned();
    report.parameters = vec![("purpose", input.purpose.name().to_string()), ("on", on.clone())];
    report.parameters.push(("threads", input.threads.to_string()));
    match &decision {
        Some(decision) => report.lines = recommend::sentences(input, decision),
        None => report
            .lines
            .push("no answer: no candidate was measured on all sizes of files that are there".to_string()),
    }
    // That few rounds resolve little is not said: the rule needs medians.
    report.lines.extend(session.results.doubts.iter().map(|doubt| format!("noisy: {doubt}")));
    if session.stopped() {
        report.lines.push("stopped early: this is from what was measured until then".to_string());
    }
    report.lines.extend(summary::unmeasured(&session.results));
    if let Some(decision) = &decision {
        let table = table(input, decision);
        report.charts.push(chart(&table.title, decision));
        report.tables.push(table);
    }
    let results = &session.results;
    for group in results.groups() {
        let series = results.of_group(group);
        report.charts.extend(summary::chart(group, &series, summary::Quantity::Rate));
        report.tables.push(summary::table(group, &series).detail());
    }
    let sizes = survey.sizes.iter().enumerate();
    report.data = serde_json::to_value(results).ok().map(|mut data| {
        data["recommendation"] = json!({
            "purpose": input.purpose.name(),
            "on": on,
            "decision": decision,
            "lines": report.lines,
            "load": input.load,
            "sizes": sizes.map(|(class, files)| json!({
                "to": if class == 0 { 0 } else { 1_u64.checked_shl(class as u32 - 1).unwrap_or(u64::MAX) },
                "files": files,
            })).collect::<Vec<_>>(),
            "device": input.device,
            "device_range": input.device_range,
            "from_memory": input.from_memory,
            "rotating": input.rotating,
            "threads": input.threads,
        });
        data
    });
    report
}

/// The unit in which the longest time of all files is best read, and how many of it are a second.
fn unit(decision: &Decision) -> (&'static str, f64) {
    let most = decision.rows.iter().map(|row| row.total).fold(0.0, f64::max);
    if most < 1.0 { ("ms", 1000.0) } else { ("s", 1.0) }
}

/// What all files take with each candidate; the device, and opening without a digest, are its limits.
fn chart(title: &str, decision: &Decision) -> Chart {
    let (unit, many) = unit(decision);
    let bar = |name: String, seconds: f64| {
        let time = seconds * many;
        let value = Interval { low: time, median: time, high: time };
        Bar { name, value, control: false }
    };
    let hashing = decision.rows.iter().map(|row| bar(format!("hashing, {}", row.name), row.hash));
    let mut chart = Chart::bars(title, unit, hashing.collect());
    if let Some(device) = decision.choice.device {
        chart = chart.marker("device", device * many);
    }
    if let Some(opening) = decision.choice.opening {
        chart = chart.marker("opening and reading from memory", opening * many);
    }
    chart
}

fn table(input: &DecisionInput, decision: &Decision) -> Table {
    let opened = decision.rows.iter().any(|row| row.opening.is_some());
    let in_memory = input.from_memory == Some(true);
    let (unit, many) = unit(decision);
    let mut columns = String::from("digest");
    columns += &if in_memory { String::new() } else { format!("; device ({unit})") };
    columns += &if opened { format!("; opening ({unit})") } else { String::new() };
    columns += &format!("; hashing ({unit}); in all ({unit}); hashing of all (%); bound by");
    let mut table =
        Table::new("All files, in the order of preference", &columns).details(&["device", "hashing of all"]);
    for row in &decision.rows {
        let time = |value: Option<f64>| value.map_or(Cell::Missing, |value| summary::number(value * many));
        let mut cells = vec![Cell::text(row.name)];
        cells.extend((!in_memory).then(|| time(row.device)));
        cells.extend(opened.then(|| time(row.opening)));
        cells.extend([
            time(Some(row.hash)),
            time(Some(row.total)),
            Cell::Number(row.busy * 100.0, 0),
            Cell::text(row.bound_by.name()),
        ]);
        table.row(cells);
    }
    if opened {
        table = table.note(match in_memory {
            true => "opening: and reading from memory, these files, without a digest",
            false => "opening: and reading from memory, such files, without a digest; hashing: what it adds",
        });
    } else if input.purpose.opens_files() {
        table =
            table.note("hashing: with opening and reading from memory, since these alone were not measured");
    }
    let work = if opened { "all the rest" } else { "hashing" };
    table.note(match in_memory {
        true => "in all: the same processors read from memory and hash, so both together".to_string(),
        false => format!(
            "in all: one file is read while another is hashed, so the longer of the device and of {work}"
        ),
    })
}
