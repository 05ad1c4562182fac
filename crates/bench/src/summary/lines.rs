//! The sentences above a report's tables.

use super::ranked;
use super::verdict::few_rounds;
use crate::record::{BenchResults, NOT_REACHED, Series};

/// What must be read before the figures: what was not quiet, what is wrong, what was left out.
pub fn lines(results: &BenchResults) -> Vec<String> {
    let mut lines = Vec::new();
    if !results.complete {
        let measured = results.series.iter().any(|series| !series.wall.is_empty());
        lines.push(match measured {
            true => "stopped early: these are the runs until then".to_string(),
            false => "stopped early: nothing was measured until then".to_string(),
        });
    }
    lines.extend(unmeasured(results));
    lines.extend(results.doubts.iter().map(|doubt| format!("noisy: {doubt}")));
    for series in results.series.iter().filter(|series| series.wrong) {
        let why = series.skipped.as_deref().unwrap_or_default();
        lines.push(format!("WRONG: {} ({}): {why}", series.name, series.group));
    }
    for series in results.series.iter().filter(|series| series.failed) {
        let why = series.skipped.as_deref().unwrap_or_default();
        lines.push(format!("FAILED: {} ({}): {why}", series.name, series.group));
    }
    lines.extend(too_few(results));
    lines.extend(results.notes.iter().cloned());
    lines
}

/// Which groups had too few rounds for what is compared in them, and how many they need.
fn too_few(results: &BenchResults) -> Vec<String> {
    let mut found: Vec<((usize, usize), Vec<&str>)> = Vec::new();
    let mut compared = 0;
    for group in results.groups() {
        let ranked = ranked(&results.of_group(group));
        if ranked.len() < 2 {
            continue;
        }
        compared += 1;
        if let Some(few) = few_rounds(&ranked) {
            match found.iter_mut().find(|(key, _)| *key == few) {
                Some((_, groups)) => groups.push(group),
                None => found.push((few, vec![group])),
            }
        }
    }
    let line = |((rounds, fewest), groups): &((usize, usize), Vec<&str>)| {
        let rounds = if *rounds == 1 { "1 round shows" } else { &format!("{rounds} rounds show") };
        let of = match groups.as_slice() {
            all if all.len() == compared => String::new(),
            [first, second, .., last] if groups.len() > 3 => {
                format!(" ({first}; {second}; … {last}: {} tables)", groups.len())
            }
            few => format!(" ({})", few.join("; ")),
        };
        format!("{rounds} few differences or none: {fewest} are needed{of}")
    };
    found.iter().map(line).collect()
}

/// Whether its turn did not come.
pub(super) fn is_unreached(series: &Series) -> bool {
    series.skipped.as_deref() == Some(NOT_REACHED)
}

/// What had no turn and why, in one line; none where all had one.
pub fn unmeasured(results: &BenchResults) -> Option<String> {
    let of = |group: &str| -> Option<String> {
        let series = results.of_group(group);
        // Names may hold commas.
        let names: Vec<String> =
            series.iter().filter(|one| is_unreached(one)).map(|one| format!("\"{}\"", one.name)).collect();
        match names.len() {
            0 => None,
            // What is SKIPPED for another reason says so itself.
            _ if series.iter().all(|one| one.skipped.is_some()) => Some(format!("all of {group}")),
            _ => Some(format!("{group}: {}", names.join(", "))),
        }
    };
    let parts: Vec<String> = results.groups().into_iter().filter_map(of).collect();
    (!parts.is_empty()).then(|| format!("not measured, since it was stopped before: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MeasuredMachine;
    use crate::measure::{About, Cache, MeasurePlan, Measured};
    use crate::summary::{Quantity, report};
    use std::time::Duration;

    #[test]
    fn what_had_no_turn_is_named_once() {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for (group, name, rounds) in [("g", "a", 1), ("g", "b, 2", 0), ("h", "a", 0), ("h", "b", 0)] {
            let mut series = Series::new(&About::new(group, name));
            match rounds {
                0 => series.skip(NOT_REACHED),
                _ => series.add(
                    1,
                    &Measured { wall: Duration::from_millis(1), ..Measured::default() },
                    Cache::Warm,
                ),
            }
            series.program = Some(format!("/bin/{name}"));
            results.series.push(series);
        }
        let text = report("T", &results, Quantity::Time).to_text();
        assert!(
            text.contains("\nnot measured, since it was stopped before: g: \"b, 2\"; all of h\n"),
            "{text}"
        );
        // So it needs no row.
        assert!(!text.contains("SKIPPED"), "{text}");
        assert!(text.contains("a     /bin/a\n") && !text.contains("/bin/b"), "{text}");
        results.series.truncate(1);
        assert_eq!(unmeasured(&results), None);
    }
}
