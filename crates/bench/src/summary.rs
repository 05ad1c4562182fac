//! Makes a report from results of any bench: a table and a chart for each group, and the machine.

mod lines;
mod verdict;

use crate::export::{Bar, Cell, Chart, ChartLine, Report, Table, decimals};
use crate::host::MeasuredMachine;
use crate::measure::Cache;
use crate::record::{BenchResults, NOT_RANKED, Series, ranking};
use crate::stats::Interval;
use lines::is_unreached;
pub use lines::{lines, unmeasured};

/// What a group's chart and first column show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes a second, in GB/s.
    Rate,
    /// Time of one repetition, in milliseconds.
    Time,
}

/// The report: lines with doubts and notes, a table and a chart for each group, and the host.
pub fn report(title: &str, results: &BenchResults, quantity: Quantity) -> Report {
    let mut report = Report::new(title);
    report.lines = lines(results);
    for group in results.groups() {
        let mut series = results.of_group(group);
        if !is_reached(&series) {
            continue;
        }
        // The lines name what had no turn.
        series.retain(|one| !is_unreached(one));
        let quantity = match series.iter().any(|one| one.bytes >= FEW_BYTES) {
            true => quantity,
            false => Quantity::Time,
        };
        report.charts.extend(chart(group, &series, quantity));
        report.charts.extend(scaling(group, &series));
        report.tables.push(table(group, &series));
    }
    if let Some(line) = verdict::headline(results) {
        // What is said at the top is not said again.
        let tables = report.tables.iter_mut();
        tables.filter(|table| table.verdict.as_ref() == Some(&line)).for_each(|table| table.verdict = None);
        put_verdict(&mut report.lines, line);
    }
    // Of a machine on which nothing was measured nothing is to be said.
    if results.complete || !report.tables.is_empty() {
        report.tables.push(host(&results.host));
    }
    report.tables.extend(programs(results));
    report.data = serde_json::to_value(results).ok();
    report
}

/// Puts a verdict above the lines of a report, below those without which it would be misread.
pub fn put_verdict(lines: &mut Vec<String>, verdict: String) {
    let is_warning = |line: &String| line.starts_with("stopped early") || line.starts_with("WRONG");
    let place = lines.iter().rposition(is_warning).map_or(0, |last| last + 1);
    lines.insert(place, verdict);
}

/// Whether it had its turn before the user wanted no more.
fn is_reached(series: &[&Series]) -> bool {
    series.iter().any(|one| !one.wall.is_empty()) || series.iter().all(|one| !is_unreached(one))
}

/// Which programs were started, from where; none if none were. A row whose name stands for several programs is
/// told with its group.
fn programs(results: &BenchResults) -> Option<Table> {
    let mut found: Vec<(&str, &str, &str)> = Vec::new();
    for series in &results.series {
        if let Some(program) = series.program.as_deref().filter(|_| !is_unreached(series))
            && !found.iter().any(|(name, _, other)| *name == series.name && *other == program)
        {
            found.push((&series.name, &series.group, program));
        }
    }
    let mut table = Table::new("Programs", "what; program").detail();
    for (name, group, program) in &found {
        let named = match found.iter().filter(|(other, ..)| other == name).count() {
            1 => name.to_string(),
            _ => format!("{name} ({group})"),
        };
        table.row([Cell::text(named), Cell::text(*program)]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Those of a group that are compared: with times, no controls, and nothing that does another thing.
pub(crate) fn ranked<'a>(series: &[&'a Series]) -> Vec<&'a Series> {
    let compared = |one: &&Series| {
        !one.control && !one.labels.contains_key(NOT_RANKED) && !one.wall.is_empty() && !one.is_below_clock()
    };
    series.iter().copied().filter(compared).collect()
}

/// Of fewer bytes than these the time is that of the start, and no rate.
const FEW_BYTES: u64 = 16 * 1024;

/// How many times more than the best a control may be and still be drawn beside it.
const TOO_FAR: f64 = 50.0;

/// Seconds of processor time, in the program and in the kernel: the median of both together, divided as they
/// are in all runs together. Many kernels see only at ticks of the clock where a program is, so that of one
/// short run all is in the one or all in the other. `None` without times.
pub fn processor_time(series: &Series) -> Option<(f64, f64)> {
    let both: Vec<f64> = series.user.iter().zip(&series.system).map(|(user, system)| user + system).collect();
    let (user, all) = (series.user.iter().sum::<f64>(), both.iter().sum::<f64>());
    let middle = (!both.is_empty()).then(|| crate::stats::median(&both))?;
    let share = if all > 0.0 { user / all } else { 0.0 };
    Some((middle * share, middle * (1.0 - share)))
}

/// Columns that few look for first.
const DETAILS: [&str; 10] = [
    "rate from",
    "rate to",
    "time from",
    "time to",
    "user",
    "system",
    "cycles",
    "memory",
    "runs",
    "outliers",
];

/// The table of one group, fastest first.
pub fn table(group: &str, series: &[&Series]) -> Table {
    let ranked = ranked(series);
    let ranking = ranking(&ranked);
    let rates = series.iter().any(|one| one.bytes >= FEW_BYTES);
    let memory = series.iter().any(|one| one.memory.is_some());
    let cycles = series.iter().any(|one| !one.cycles.is_empty());
    // Of work in memory there is no file to be in the cache.
    let cached = |one: &Series| !one.wall.is_empty() && one.cache != Cache::None;
    let cache = series.iter().any(|one| cached(one));
    let mut columns = String::from("what");
    if rates {
        columns += "; rate (GB/s); rate from (GB/s); rate to (GB/s)";
    }
    // The interval of a rate says as much as that of the time.
    columns += if rates { "; time (ms)" } else { "; time (ms); time from (ms); time to (ms)" };
    // What other machines take of their processors is not known.
    let processor = series.iter().all(|one| one.wall.is_empty())
        || series.iter().any(|one| one.user.iter().chain(&one.system).any(|time| *time > 0.0));
    if processor {
        columns += "; user (ms); system (ms)";
    }
    if cycles {
        columns += "; cycles (/byte)";
    }
    if memory {
        columns += "; memory (MiB)";
    }
    if cache {
        columns += "; cache";
    }
    columns += "; runs; outliers; relative to the fastest";
    let mut table = Table::new(group, &columns).details(&DETAILS);
    table.verdict = verdict::of_group(&ranked, &ranking);
    for &one in series {
        let three = |interval: Option<Interval>, scale: f64| match interval {
            // One run says nothing of how far others would lie from it.
            Some(found) if one.wall.len() < 2 => [number(found.median * scale), Cell::Missing, Cell::Missing],
            Some(found) => [found.median, found.low, found.high].map(|value| number(value * scale)),
            None => [Cell::Missing, Cell::Missing, Cell::Missing],
        };
        let mut cells = vec![Cell::text(&one.name)];
        if rates {
            cells.extend(three(one.rate(), 1e-9));
        }
        let times = three(one.time(), 1e3);
        cells.extend(times.into_iter().take(if rates { 1 } else { 3 }));
        if processor {
            cells.extend(match processor_time(one).filter(|_| !one.is_below_clock()) {
                Some((user, system)) => [number(user * 1e3), number(system * 1e3)],
                None => [Cell::Missing, Cell::Missing],
            });
        }
        if cycles {
            cells.push(one.cycles_a_byte().map_or(Cell::Missing, number));
        }
        if memory {
            let mib = |bytes: u64| Cell::Number(bytes as f64 / f64::from(1 << 20), 1);
            cells.push(one.memory.map_or(Cell::Missing, mib));
        }
        let place = ranked.iter().position(|other| std::ptr::eq(*other, one));
        let beside = match (one.verdict(), place) {
            (Some(why), _) => why,
            (None, _) if one.is_below_clock() => "below the clock's resolution".to_string(),
            (None, None) => match one.labels.get(NOT_RANKED) {
                Some(why) => format!("{NOT_RANKED}: {why}"),
                None => "control".to_string(),
            },
            (None, Some(0)) => "fastest".to_string(),
            (None, Some(place)) => ranking.pair(place, 0).map_or("-".to_string(), |pair| pair.words()),
        };
        let counted = one.wall.len() as u64;
        if cache {
            cells.push(if cached(one) { Cell::text(one.cache.name()) } else { Cell::Missing });
        }
        let outliers = if counted == 0 { Cell::Missing } else { Cell::Count(one.outliers() as u64) };
        cells.extend([Cell::Count(counted), outliers, Cell::text(beside)]);
        table.row(cells);
    }
    table
}

/// A number with the digits that count.
pub fn number(value: f64) -> Cell {
    Cell::Number(value, decimals(value))
}

/// The chart of one group, with its controls as limits; none where nothing was measured.
pub fn chart(group: &str, series: &[&Series], quantity: Quantity) -> Option<Chart> {
    let value = |one: &Series| match quantity {
        Quantity::Rate => one.rate().map(|rate| scaled(rate, 1e-9)),
        Quantity::Time => one.time().map(|time| scaled(time, 1e3)),
    };
    let ranked = ranked(series);
    let far =
        ranked.iter().filter_map(|one| value(one)).map(|value| value.median).fold(0.0, f64::max) * TOO_FAR;
    // A digest that computes nothing would leave no room for those that do.
    let drawn = |one: &Series| value(one).filter(|value| !one.control || far == 0.0 || value.median <= far);
    let bars: Vec<Bar> = series
        .iter()
        .filter_map(|one| Some(Bar { name: one.name.clone(), value: drawn(one)?, control: one.control }))
        .collect();
    let values = || bars.iter().map(|bar| bar.value.median).filter(|value| *value > 0.0);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if bars.is_empty() || most <= 0.0 {
        return None;
    }
    let unit = match quantity {
        Quantity::Rate => "GB/s",
        Quantity::Time => "ms",
    };
    let mut chart = Chart::bars(group, unit, bars);
    // Where the least could not be seen beside the most.
    chart.logarithmic = most > 20.0 * least;
    let best = match quantity {
        Quantity::Rate => {
            ranked.iter().filter_map(|one| value(one)).map(|one| one.median).fold(0.0, f64::max)
        }
        Quantity::Time => {
            ranked.iter().filter_map(|one| value(one)).map(|one| one.median).fold(f64::INFINITY, f64::min)
        }
    };
    let limits = series.iter().filter(|one| one.control);
    let limits = limits.filter_map(|one| Some((one.name.as_str(), drawn(one)?.median))).collect();
    Some(with_limits(chart, limits, best).of_rounds(fewest(series)))
}

/// The rounds of what had the fewest.
fn fewest(series: &[&Series]) -> usize {
    series.iter().map(|one| one.wall.len()).filter(|count| *count > 0).min().unwrap_or(0)
}

/// More limits than these hide the bars behind them.
const LIMITS: usize = 2;

/// With those limits marked that are nearest to the best: the others limit nothing.
fn with_limits(mut chart: Chart, mut limits: Vec<(&str, f64)>, best: f64) -> Chart {
    let far = |limit: f64| (limit / best).ln().abs();
    if best.is_finite() && best > 0.0 {
        limits.sort_by(|a, b| far(a.1).total_cmp(&far(b.1)));
    }
    for (name, limit) in limits.into_iter().take(LIMITS) {
        chart = chart.marker(name, limit);
    }
    chart
}

/// How the rate grows with the threads, with the controls as limits; none where their number does not vary.
/// Its title is that of the group, so that it stands beside the group's table.
fn scaling(group: &str, series: &[&Series]) -> Option<Chart> {
    let mut lines: Vec<ChartLine> = Vec::new();
    for one in series.iter().filter(|one| !one.control) {
        let threads = one.labels.get("threads").and_then(|threads| threads.parse::<f64>().ok());
        let (Some(threads), Some(rate)) = (threads, one.rate()) else { continue };
        // The rest of the name is what the line is of.
        let name = one.name.split(", threads: ").next().unwrap_or(&one.name);
        let point = (threads, scaled(rate, 1e-9));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(ChartLine { name: name.to_string(), points: vec![point] }),
        }
    }
    lines.retain_mut(|line| {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line.points.dedup_by(|a, b| a.0 == b.0);
        line.points.len() > 1
    });
    let most = lines.iter().flat_map(|line| &line.points).map(|(_, rate)| rate.median).fold(0.0, f64::max);
    if lines.is_empty() {
        return None;
    }
    let mut chart = Chart::lines(group, "GB/s", "threads", lines).logarithmic_axis();
    let limits = series.iter().filter(|one| one.control);
    let limits = limits.filter_map(|one| Some((one.name.as_str(), one.rate()?.median * 1e-9)));
    let limits = limits.filter(|(_, limit)| *limit <= most * TOO_FAR).collect();
    chart = with_limits(chart, limits, most);
    // Lines far below a limit would lie flat on the axis.
    chart.logarithmic = chart.markers.iter().any(|limit| limit.value > 3.0 * most);
    Some(chart.of_rounds(fewest(series)))
}

fn scaled(interval: Interval, scale: f64) -> Interval {
    Interval { low: interval.low * scale, median: interval.median * scale, high: interval.high * scale }
}

/// The machine as a table.
pub fn host(host: &MeasuredMachine) -> Table {
    let mut table = Table::new("Host", "what; value").detail();
    for (name, value) in host.rows() {
        table.row([Cell::text(name), Cell::text(value)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Shape;
    use crate::measure::{About, MeasurePlan, Measured};
    use std::time::Duration;

    #[test]
    fn a_table_says_who_is_fastest_and_who_was_left_out() {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for (name, ms, control) in
            [("slow", 20, false), ("fast", 10, false), ("same", 10, false), ("null", 1, true)]
        {
            let mut about = About::new("g", name).bytes(10_000_000);
            about.control = control;
            let mut series = Series::new(&about);
            for round in 1..=10 {
                let wall = Duration::from_millis(ms) + Duration::from_micros(round * (name.len() as u64) % 7);
                let memory = Some(3 << 20);
                series.add(round as u32, &Measured { wall, memory, ..Measured::default() }, Cache::Warm);
            }
            results.series.push(series);
        }
        results.series.push(Series::skipped(&About::new("g", "gone"), "not installed"));
        let text = report("T", &results, Quantity::Rate).to_text();
        let line = |name: &str| {
            let line =
                text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}\n{text}"));
            line.split("  ").last().unwrap().trim().to_string()
        };
        assert!(text.starts_with("stopped early"), "{text}");
        assert_eq!(line("null"), "control");
        assert_eq!(line("gone"), "SKIPPED: not installed");
        assert_eq!(line("slow"), "2.00 times as slow");
        let mut equals = [line("fast"), line("same")];
        equals.sort();
        assert_eq!(equals, ["fastest", "no significant difference"]);
        results.complete = true;
        results.doubts.push("x".to_string());
        let text = report("T", &results, Quantity::Time).to_text();
        assert!(text.lines().any(|line| line == "noisy: x"), "{text}");
    }

    #[test]
    fn what_no_clock_can_tell_is_no_figure() {
        let mut series = Vec::new();
        for (name, nanoseconds) in [("quick", 40), ("slow", 40_000)] {
            let mut one = Series::new(&About::new("g", name).bytes(1 << 20));
            for round in 1..=8 {
                let wall = Duration::from_nanos(nanoseconds + u64::from(round));
                one.add(round, &Measured { wall, ..Measured::default() }, Cache::None);
            }
            series.push(one);
        }
        // In runs of many repetitions the same time is one.
        let mut repeated = series[0].clone();
        (repeated.name, repeated.repetitions, repeated.bytes) = ("repeated".to_string(), 1000, 0);
        series.push(repeated);
        let table = table("g", &series.iter().collect::<Vec<_>>());
        let row = |name| table.rows.iter().find(|row| row[0] == Cell::text(name)).unwrap();
        let shown = |name| format!("{:?}", row(name));
        assert!(
            shown("quick").contains("below the clock's resolution") && !shown("quick").contains("Number")
        );
        assert!(shown("repeated").contains("Number(4.4"), "{}", shown("repeated"));
        assert!(row("repeated")[1] == Cell::Missing, "no bytes, no rate");
        assert_eq!(ranked(&series.iter().collect::<Vec<_>>()).len(), 2);
        assert_eq!(number(0.000_040_6), Cell::Number(0.000_040_6, 6));
        assert!(chart("g", &series.iter().take(1).collect::<Vec<_>>(), Quantity::Rate).is_none());
    }

    #[test]
    fn rows_stand_in_the_order_of_their_rates_after_what_has_none() {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for (name, bytes, ms) in [("slow", 1, 10), ("null", 0, 1), ("read", 128, 40), ("fast", 1, 5)] {
            let mut about = About::new("g", name).bytes(bytes << 20);
            about.control = name == "null" || name == "read";
            let mut series = Series::new(&about);
            let measured = Measured { wall: Duration::from_millis(ms), ..Measured::default() };
            series.add(1, &measured, Cache::None);
            results.series.push(series);
        }
        let order: Vec<&str> = results.of_group("g").iter().map(|one| one.name.as_str()).collect();
        assert_eq!(order, ["null", "read", "fast", "slow"]);
    }

    /// A kernel that looks at ticks finds all of a short run in one place.
    #[test]
    fn processor_time_is_divided_over_all_runs() {
        let mut series = Series::new(&About::new("g", "n"));
        for round in 1..=4 {
            let (one, other) = (Duration::from_millis(8), Duration::ZERO);
            let (user, system) = if round == 1 { (one, other) } else { (other, one) };
            let wall = Duration::from_millis(8);
            series.add(round, &Measured { wall, user, system, ..Measured::default() }, Cache::Warm);
        }
        let (user, system) = processor_time(&series).unwrap();
        assert!((user - 0.002).abs() < 1e-9 && (system - 0.006).abs() < 1e-9, "{user} {system}");
    }

    #[test]
    fn threads_that_vary_are_a_chart_of_lines() {
        let row = |name: &str, threads: u32, ms: u64| {
            let about = About::new("g", format!("{name}, threads: {threads}")).bytes(1 << 20);
            let mut series = Series::new(&about.label("threads", threads.to_string()));
            let measured = Measured { wall: Duration::from_millis(ms), ..Measured::default() };
            series.add(1, &measured, Cache::None);
            series
        };
        let rows = [row("sync", 2, 10), row("sync", 1, 20), row("async", 1, 19), row("async", 2, 9)];
        let rows: Vec<&Series> = rows.iter().collect();
        let chart = scaling("g", &rows).unwrap();
        let Shape::Lines { lines, .. } = chart.shape else { panic!("lines") };
        let threads = |line: &ChartLine| line.points.iter().map(|point| point.0).collect::<Vec<_>>();
        assert_eq!(lines.iter().map(threads).collect::<Vec<_>>(), [[1.0, 2.0], [1.0, 2.0]]);
        assert!(scaling("g", &rows[..1]).is_none());
    }

    #[test]
    fn too_few_rounds_are_told() {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for name in ["a", "b"] {
            let mut series = Series::new(&About::new("g", name));
            let measured = Measured { wall: Duration::from_millis(1), ..Measured::default() };
            series.add(1, &measured, Cache::None);
            results.series.push(series);
        }
        results.complete = true;
        assert_eq!(lines(&results), ["1 round shows few differences or none: 6 are needed"]);
        // Another group's many rounds are no help to this one.
        for name in ["a", "b", "c"] {
            let mut series = Series::new(&About::new("h", name));
            let measured = Measured { wall: Duration::from_millis(1), ..Measured::default() };
            (1..=20).for_each(|round| series.add(round, &measured, Cache::None));
            results.series.push(series);
        }
        assert_eq!(lines(&results), ["1 round shows few differences or none: 6 are needed (g)"]);
    }

    #[test]
    fn a_name_of_several_programs_is_told_with_its_group() {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for (group, name, program) in
            [("make", "crc32c", "mkfs"), ("check", "crc32c", "btrfs"), ("check", "x", "y")]
        {
            let mut series = Series::new(&About::new(group, name));
            series.program = Some(program.to_string());
            results.series.push(series);
        }
        let rows = programs(&results).unwrap().rows;
        let names: Vec<&Cell> = rows.iter().map(|row| &row[0]).collect();
        assert_eq!(names, [&Cell::text("crc32c (make)"), &Cell::text("crc32c (check)"), &Cell::text("x")]);
    }

    #[test]
    fn what_does_another_thing_is_not_ranked() {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for (name, ms, apart) in [("within", 1, true), ("fast", 10, false), ("slow", 20, false)] {
            let about = About::new("g", name);
            let about = if apart { about.label(NOT_RANKED, "no start") } else { about };
            let mut series = Series::new(&about);
            let measured = Measured { wall: Duration::from_millis(ms), ..Measured::default() };
            (1..=6).for_each(|round| series.add(round, &measured, Cache::None));
            results.series.push(series);
        }
        results.complete = true;
        assert_eq!(lines(&results), [""; 0], "two are compared");
        let table = table("g", &results.of_group("g"));
        let last: Vec<String> = table.rows.iter().map(|row| format!("{:?}", row.last().unwrap())).collect();
        for (found, wanted) in last.iter().zip(["not ranked: no start", "fastest", "2.00 times as slow"]) {
            assert!(found.contains(wanted), "{last:?}");
        }
    }
}
