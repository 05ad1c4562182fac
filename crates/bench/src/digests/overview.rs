//! A table of all digests, from the groups that were measured.

use crate::export::{Bar, Cell, Chart, Table};
use crate::recommend::Purpose;
use crate::record::{BenchResults, Series, rate_between};
use crate::stats::{Interval, SMALLEST_EFFECT_INSIDE};

/// In the name of groups of implementations in this process.
pub const INSIDE: &str = "in process";

/// In the name of groups of programs on the large file.
pub const FILE: &str = "of a file";

/// In the name of groups of programs on the small file.
pub const SMALL: &str = "of a small file";

/// The best implementation of each digest, one message after the other and side by side.
pub fn overview(results: &BenchResults) -> Option<(Table, Chart)> {
    let mut table = Table::new(
        "Digests in process, the best implementation of each",
        "digest; one message at a time (GB/s); by this code; many at once (GB/s); many by this code; \
         relative to copying memory (%)",
    )
    .note(
        "many at once: that many messages side by side on one thread; relative to copying memory: the better of both \
         rates, copying the same bytes being 100%",
    );
    let mut bars: Vec<Bar> = Vec::new();
    let mut limits: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut rows = Vec::new();
    for group in results.groups().into_iter().filter(|group| group.contains(INSIDE)) {
        let series = results.of_group(group);
        let of_kind = |kind: &str| {
            let of_kind = series.iter().filter(|one| one.labels.get("kind").is_some_and(|k| k == kind));
            best(&of_kind.filter_map(|one| Some((&*one.name, one.rate()?))).collect::<Vec<_>>())
        };
        for control in series.iter().filter(|one| one.control) {
            let Some(rate) = control.rate() else { continue };
            match limits.iter_mut().find(|(name, _)| *name == control.name) {
                Some((_, rates)) => rates.push(rate.median),
                None => limits.push((&control.name, vec![rate.median])),
            }
        }
        let Some(digest) = series.iter().find_map(|one| one.labels.get("digest")) else { continue };
        let (stream, batch) = (of_kind("stream"), of_kind("batch"));
        let rates = [&stream, &batch].into_iter().flatten().map(|(_, rate)| rate.median);
        let best = rates.fold(0.0, f64::max);
        if best == 0.0 {
            continue;
        }
        let cells = |found: &Option<(String, Interval)>| match found {
            Some((names, rate)) => [Cell::Number(rate.median / 1e9, 2), Cell::text(names)],
            None => [Cell::Missing, Cell::Missing],
        };
        let mut row = vec![Cell::text(digest)];
        row.extend(cells(&stream));
        row.extend(cells(&batch));
        rows.push((best, digest, row));
        for (names, rate) in [stream, batch].into_iter().flatten() {
            let scaled = |value: f64| value / 1e9;
            let value =
                Interval { low: scaled(rate.low), median: scaled(rate.median), high: scaled(rate.high) };
            bars.push(Bar { name: format!("{digest} ({names})"), value, control: false });
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    // One copy for all digests, as in the chart: it differs from group to group more than they do.
    let copies = limits.iter().find(|(name, _)| *name == "copy in memory").map(|(_, rates)| rates);
    let copy = copies.map(|rates| crate::stats::median(rates));
    table.verdict = verdict(rows.iter().map(|(best, digest, _)| (*digest, *best)));
    for (best, _, mut row) in rows {
        row.push(copy.map_or(Cell::Missing, |copy| Cell::Number(best / copy * 100.0, 0)));
        table.row(row);
    }
    bars.sort_by(|a, b| b.value.median.total_cmp(&a.value.median));
    if bars.is_empty() {
        return None;
    }
    let rounds = |one: &&Series| one.group.contains(INSIDE) && !one.wall.is_empty();
    let rounds = results.series.iter().filter(rounds).map(|one| one.wall.len()).min().unwrap_or(0);
    let mut chart = Chart::bars(&table.title, "GB/s", bars).logarithmic().of_rounds(rounds);
    // A digest that computes nothing is no limit of anything.
    for (name, rates) in limits.into_iter().filter(|(name, _)| name.contains("memory")) {
        chart = chart.marker(name, crate::stats::median(&rates) / 1e9);
    }
    Some((table, chart))
}

/// Which digest is the fastest, and which of those that resist an attacker; the fastest come first.
fn verdict<'a>(digests: impl Iterator<Item = (&'a String, f64)> + Clone) -> Option<String> {
    let resists = |id: &str| Purpose::Tamper.candidates().iter().any(|candidate| candidate.id == id);
    let words = |(digest, rate): (&String, f64)| format!("{digest} with {:.2} GB/s", rate / 1e9);
    let first = digests.clone().next()?;
    let strong = digests.clone().find(|(digest, _)| resists(digest));
    Some(match strong.filter(|strong| strong.0 != first.0) {
        Some(strong) => format!(
            "{} is the fastest here; of those that resist an attacker, {}",
            words(first),
            words(strong)
        ),
        None => format!("{} is the fastest here", words(first)),
    })
}

/// The fastest, and all that cannot be told from it: those whose intervals meet, and those within what is
/// resolved of work in process at all.
fn best(fastest_first: &[(&str, Interval)]) -> Option<(String, Interval)> {
    let (_, first) = fastest_first.first()?;
    let is_as_fast = |rate: &Interval| {
        rate.high >= first.low || rate.median >= first.median * (1.0 - SMALLEST_EFFECT_INSIDE)
    };
    let names = fastest_first.iter().filter(|(_, rate)| is_as_fast(rate)).map(|(name, _)| *name);
    Some((names.collect::<Vec<_>>().join(" or "), *first))
}

/// What of a program's time is its start, and what its hashing: from a small file and a large one.
pub fn start_up(results: &BenchResults) -> Option<Table> {
    let mut table = Table::new(
        "Start-up time and throughput",
        "digest; program; start (ms); start from (ms); start to (ms); hashing (GB/s); \
         hashing from (GB/s); hashing to (GB/s); break-even size (bytes)",
    )
    .note(
        "break-even size: hashing a file of this size takes as long as the program's start; with smaller files the \
         start takes longer",
    )
    .details(&["start from", "start to", "hashing from", "hashing to"]);
    for small in results.series.iter().filter(|one| one.group.contains(SMALL) && !one.control) {
        let digest = small.labels.get("digest");
        let large = results.series.iter().find(|one| {
            one.group.contains(FILE)
                && !one.group.contains(SMALL)
                && one.name == small.name
                && one.labels.get("digest") == digest
        });
        let (Some(large), Some(digest), Some(start)) = (large, digest, small.time()) else { continue };
        if large.wall.is_empty() {
            continue;
        }
        // What lies within the noise of both times is no hashing.
        let rate = rate_between(small, large, large.bytes.saturating_sub(small.bytes));
        let gigabytes =
            |of: fn(Interval) -> f64| rate.map_or(Cell::Missing, |rate| Cell::Number(of(rate) / 1e9, 2));
        let [low, high] = match small.wall.len() {
            0 | 1 => [Cell::Missing, Cell::Missing],
            _ => [start.low, start.high].map(|time| Cell::Number(time * 1e3, 2)),
        };
        table.row([
            Cell::text(digest),
            Cell::text(&small.name),
            Cell::Number(start.median * 1e3, 2),
            low,
            high,
            gigabytes(|rate| rate.median),
            gigabytes(|rate| rate.low),
            gigabytes(|rate| rate.high),
            // The length of a file of which half of the time is the start.
            rate.map_or(Cell::Missing, |rate| Cell::Count((start.median * rate.median) as u64)),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MeasuredMachine;
    use crate::measure::{About, Cache, MeasurePlan, Measured};
    use std::time::Duration;

    fn results(rows: &[(&str, &str, &str, u64, u64)]) -> BenchResults {
        let mut results = BenchResults::new("digests", &MeasurePlan::default(), MeasuredMachine::default());
        for &(group, name, kind, bytes, micros) in rows {
            let mut about = About::new(group, name).bytes(bytes).label("digest", "md5").label("kind", kind);
            about.control = kind == "control";
            let mut series = Series::new(&about);
            let wall = Duration::from_micros(micros);
            series.add(1, &Measured { wall, ..Measured::default() }, Cache::None);
            results.series.push(series);
        }
        results
    }

    #[test]
    fn the_best_of_each_kind_is_shown() {
        let group = "md5 in process";
        let results = results(&[
            (group, "slow", "stream", 1000, 4),
            (group, "fast", "stream", 1000, 2),
            (group, "wide", "batch", 1000, 1),
            (group, "copy in memory", "control", 10_000, 1),
        ]);
        let (table, chart) = overview(&results).unwrap();
        assert_eq!(table.rows.len(), 1);
        assert_eq!(
            table.rows[0][1..5],
            [Cell::Number(0.5, 2), Cell::text("fast"), Cell::Number(1.0, 2), Cell::text("wide"),]
        );
        assert_eq!(table.rows[0][5], Cell::Number(10.0, 0));
        assert_eq!(chart.markers.len(), 1);
        assert_eq!(table.verdict.as_deref(), Some("md5 with 1.00 GB/s is the fastest here"));
        let names = ["xxh3-64", "md5", "blake3"].map(String::from);
        let all = verdict(names.iter().zip([9e9, 8e9, 7e9])).unwrap();
        assert!(all.ends_with("; of those that resist an attacker, blake3 with 7.00 GB/s"), "{all}");
        assert!(overview(&BenchResults { series: Vec::new(), ..results }).is_none());
    }

    #[test]
    fn starting_is_told_apart() {
        let mut results = results(&[
            ("md5 of a file", "tool", "program", 1_000_000, 3000),
            ("md5 of a small file", "tool", "program", 0, 1000),
        ]);
        let nothing = [Cell::Missing, Cell::Missing, Cell::Missing, Cell::Missing];
        for (rounds, told) in [(1, false), (5, false), (6, true)] {
            for series in &mut results.series {
                series.wall = vec![series.wall[0]; rounds];
            }
            let row = &start_up(&results).unwrap().rows[0];
            assert_eq!(row[2], Cell::Number(1.0, 2));
            let rate = || Cell::Number(0.5, 2);
            match told {
                true => assert_eq!(row[5..], [rate(), rate(), rate(), Cell::Count(500_000)]),
                false => assert_eq!(row[5..], nothing, "of {rounds} rounds"),
            }
        }
    }

    #[test]
    fn what_lies_within_the_noise_is_no_hashing() {
        let mut results = results(&[
            ("md5 of a file", "tool", "program", 1_000_000, 1100),
            ("md5 of a small file", "tool", "program", 0, 1000),
        ]);
        for (series, times) in results.series.iter_mut().zip([[0.0008, 0.0014], [0.0009, 0.0011]]) {
            series.wall = times.repeat(5);
        }
        let table = start_up(&results).unwrap();
        assert_eq!(table.rows[0][5..], [Cell::Missing, Cell::Missing, Cell::Missing, Cell::Missing]);
    }
}
