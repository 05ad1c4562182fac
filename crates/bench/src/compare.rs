//! Compares two files of results side by side.
//!
//! What was measured in two sessions has no pairs: another load, another place in memory, another day.
//! So these are compared as independent samples, and controls, which have no reason to change, say
//! whether the machine did.

use crate::export::{Cell, Report, Table};
use crate::measure::more_crowded;
use crate::record::{BenchResults, Series};
use crate::stats::{Interval, mann_whitney, median, ratio};

/// The probability of any wrong verdict among all rows, if nothing had changed.
const ERROR: f64 = 0.05;

/// What changed in one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Times of the second, divided by those of the first.
    pub ratio: Interval,
    /// The probability of such a difference by chance, multiplied by the number of rows (Bonferroni).
    pub p: f64,
    /// Whether more than chance is seen.
    pub resolved: bool,
}

/// Compares one series with its namesake; `None` where one has no times.
pub fn change(first: &Series, second: &Series, rows: usize) -> Option<Change> {
    let has_none = |series: &Series| series.wall.is_empty() || series.is_below_clock();
    if has_none(first) || has_none(second) {
        return None;
    }
    let ratio = ratio(&second.wall, &first.wall);
    let p = (mann_whitney(&first.wall, &second.wall) * rows as f64).min(1.0);
    let large = (ratio.median - 1.0).abs() >= first.smallest_effect();
    let resolved = p <= ERROR && large && (ratio.low > 1.0 || ratio.high < 1.0);
    Some(Change { ratio, p, resolved })
}

/// Whether any row has times in both that can be set side by side.
pub fn has_anything_in_common(first: &BenchResults, second: &BenchResults) -> bool {
    first.series.iter().any(|one| {
        namesake(one, second).is_some_and(|other| {
            !one.wall.is_empty() && !other.wall.is_empty() && not_comparable(one, other).is_none()
        })
    })
}

/// The rows of the first that the second has too.
fn pairs<'a>(first: &'a BenchResults, second: &'a BenchResults) -> Vec<(&'a Series, &'a Series)> {
    first.series.iter().filter_map(|one| Some((one, namesake(one, second)?))).collect()
}

/// What the comparison comes to, in a sentence; none where nothing was compared.
pub fn headline(first: &BenchResults, second: &BenchResults) -> Option<String> {
    let pairs = pairs(first, second);
    let is_quiet = first.doubts.is_empty() && second.doubts.is_empty();
    let (mut less, mut more, mut all) = (0, 0, 0);
    for (one, other) in
        pairs.iter().filter(|(one, other)| !one.control && not_comparable(one, other).is_none())
    {
        let Some(change) = change(one, other, pairs.len()) else { continue };
        all += 1;
        match change.resolved && is_quiet {
            true if change.ratio.median < 1.0 => less += 1,
            true => more += 1,
            false => {}
        }
    }
    let rows = if all == 1 { "1 row" } else { &format!("{all} rows") };
    match (all, less + more) {
        (0, _) => None,
        (_, 0) => Some(format!(
            "the second takes neither more nor less time than the first: of {rows} none differs significantly"
        )),
        _ => {
            Some(format!("the second takes less time than the first in {less} of {rows}, and more in {more}"))
        }
    }
}

/// The report of two files.
pub fn report(first: &BenchResults, second: &BenchResults) -> Report {
    let mut report = Report::new(format!("{} compared with {}", second.bench, first.bench));
    if !has_anything_in_common(first, second) {
        report.lines.push("nothing was compared: no row has times in both on the same data".to_string());
    }
    if first.bench != second.bench {
        report.lines.push(format!("two experiments: {} and {}", first.bench, second.bench));
    }
    for difference in first.host.differences(&second.host) {
        report.lines.push(format!("the machines differ: {difference}"));
    }
    if let Some(more) = more_crowded(first, second) {
        report.lines.push(format!(
            "the machines differ: cores were shared with something else in one of the two; work that fills a core \
             took {more:.2} times its time in the second"
        ));
    }
    for (which, results) in [("first", first), ("second", second)] {
        report.lines.extend(results.doubts.iter().map(|doubt| format!("the {which} is noisy: {doubt}")));
    }
    let pairs = pairs(first, second);
    let columns = "group; what; first (ms); second (ms); ratio; from; to; verdict";
    let mut table = Table::new("The second relative to the first", columns);
    let mut controls = Table::new("Controls: no digests, but what the machine gave in both", columns);
    let mut changed: Vec<(f64, &Series)> = Vec::new();
    for (one, other) in &pairs {
        let change = change(one, other, pairs.len());
        if let Some(change) = change.as_ref().filter(|change| one.tells_of_the_machine() && change.resolved)
            && not_comparable(one, other).is_none()
        {
            changed.push((change.ratio.median - 1.0, *one));
        }
        let ms = |series: &Series| match series.wall.is_empty() || series.is_below_clock() {
            true => Cell::Missing,
            false => crate::summary::number(median(&series.wall) * 1e3),
        };
        let ratios = match &change {
            Some(found) => {
                [found.ratio.median, found.ratio.low, found.ratio.high].map(|value| Cell::Number(value, 3))
            }
            None => [Cell::Missing, Cell::Missing, Cell::Missing],
        };
        let mut cells = vec![Cell::text(&one.group), Cell::text(&one.name), ms(one), ms(other)];
        cells.extend(ratios);
        let quiet = first.doubts.is_empty() && second.doubts.is_empty();
        cells.push(Cell::text(verdict(one, other, change.as_ref(), quiet)));
        let table = if one.control { &mut controls } else { &mut table };
        table.row(cells);
    }
    if let Some((by, one)) = changed.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())) {
        report.lines.push(format!(
            "{} of the controls changed, the most by {:+.1}%: {} ({}); \
             so did the machine, and no verdict here is about programs alone",
            changed.len(),
            by * 100.0,
            one.name,
            one.group
        ));
    }
    report.tables.extend([table, controls].into_iter().filter(|table| !table.rows.is_empty()));
    for (which, here, there) in [("first", first, second), ("second", second, first)] {
        for series in here.series.iter().filter(|one| namesake(one, there).is_none()) {
            report.lines.push(format!("only in the {which}: {} ({})", series.name, series.group));
        }
    }
    report
}

fn verdict(first: &Series, second: &Series, change: Option<&Change>, quiet: bool) -> String {
    let Some(change) = change else {
        if first.is_below_clock() || second.is_below_clock() {
            return "below the clock's resolution".to_string();
        }
        return first.verdict().or(second.verdict()).unwrap_or("SKIPPED: not measured".to_string());
    };
    if let Some(why) = not_comparable(first, second) {
        return format!("not comparable: {why}");
    }
    let percent = |ratio: f64| (ratio - 1.0).abs() * 100.0;
    let (a, b) = (percent(change.ratio.low), percent(change.ratio.high));
    // Within a session what disturbs one disturbs all; between two it does not.
    if change.resolved && !quiet {
        return "no significant difference: a machine that was not quiet".to_string();
    }
    match (change.resolved, change.ratio.median < 1.0) {
        (false, _) => "no significant difference".to_string(),
        (true, true) => format!("{b:.1}% to {a:.1}% less time"),
        (true, false) => format!("{a:.1}% to {b:.1}% more time"),
    }
}

/// What else than the time differs, and makes times differ.
fn not_comparable(first: &Series, second: &Series) -> Option<String> {
    if first.bytes != second.bytes {
        return Some("other data".to_string());
    }
    (first.cache != second.cache)
        .then(|| format!("cache {}, then {}", first.cache.name(), second.cache.name()))
}

fn namesake<'a>(one: &Series, results: &'a BenchResults) -> Option<&'a Series> {
    results.series.iter().find(|other| (&other.group, &other.name) == (&one.group, &one.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MeasuredMachine;
    use crate::measure::{About, Cache, MeasurePlan, Measured};
    use std::time::Duration;

    fn results(costs: &[(&str, u64)], seed: u64) -> BenchResults {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for &(name, cost) in costs {
            let mut about = About::new("g", name).bytes(1 << 20);
            about.control = ["copy", "null"].contains(&name);
            if name == "null" {
                about.bytes = 0;
            }
            let mut series = Series::new(&about);
            for round in 0..20u64 {
                let wall = Duration::from_micros(cost + (round * 7919 + seed * 31) % 41);
                series.add(round as u32, &Measured { wall, ..Measured::default() }, Cache::Warm);
            }
            results.series.push(series);
        }
        results
    }

    #[test]
    fn changes_are_told_and_equals_are_not() {
        let before =
            results(&[("same", 1000), ("better", 1000), ("worse", 1000), ("gone", 5), ("null", 900)], 1);
        let mut after =
            results(&[("same", 1000), ("better", 800), ("worse", 1200), ("new", 5), ("null", 900)], 2);
        after.host.processor = "another".to_string();
        let told = headline(&before, &after).unwrap();
        assert_eq!(told, "the second takes less time than the first in 1 of 3 rows, and more in 1");
        let same = headline(&before, &before).unwrap();
        assert!(same.ends_with("of 4 rows none differs significantly"), "{same}");
        let report = report(&before, &after);
        let verdicts: Vec<String> = report.tables[0].rows.iter().map(|row| format!("{:?}", row[7])).collect();
        assert!(verdicts[0].contains("no significant difference"), "{verdicts:?}");
        assert!(verdicts[1].contains("less time") && verdicts[2].contains("more time"), "{verdicts:?}");
        let lines = report.lines.join("\n");
        assert!(lines.contains("the machines differ: processor: ; another"), "{lines}");
        assert!(
            lines.contains("only in the first: gone") && lines.contains("only in the second: new"),
            "{lines}"
        );
        assert!(!lines.contains("control"), "{lines}");
        assert_eq!(
            (report.tables[0].rows.len(), report.tables[1].rows[0][1].clone()),
            (3, Cell::text("null"))
        );
        after.doubts.push("the load was 9".to_string());
        let noisy = super::report(&before, &after).to_text();
        assert!(!noisy.contains("less time") && noisy.contains("a machine that was not quiet"), "{noisy}");
    }

    #[test]
    fn a_control_that_changed_warns() {
        let report = report(&results(&[("copy", 1000)], 1), &results(&[("copy", 1200)], 1));
        assert!(
            report.lines[0].starts_with("1 of the controls changed, the most by +"),
            "{:?}",
            report.lines
        );
        // What looks at no byte says where its code lies.
        let report = super::report(&results(&[("null", 1000)], 1), &results(&[("null", 1200)], 1));
        assert!(!report.lines.concat().contains("changed"), "{:?}", report.lines);
    }

    #[test]
    fn a_control_on_other_data_says_nothing_of_the_machine() {
        let before = results(&[("copy", 1000)], 1);
        let mut after = results(&[("copy", 1200)], 1);
        after.series[0].bytes = 7;
        let lines = report(&before, &after).lines;
        assert_eq!(lines, ["nothing was compared: no row has times in both on the same data"]);
    }

    #[test]
    fn other_data_or_caches_are_no_comparison() {
        let before = results(&[("a", 1000)], 1);
        let mut after = before.clone();
        after.series[0].cache = Cache::Cold;
        let shown = report(&before, &after).to_text();
        assert!(shown.contains("not comparable: cache warm, then cold"), "{shown}");
        after.series[0].bytes = 7;
        assert!(report(&before, &after).to_text().contains("not comparable: other data"));
    }
}
